//! Time from a record's due time to the moment the destination's consumer has it, beside the bare
//! produce-to-consume round trip.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::support::{Client, DaemonConfig, shared, unique};

const DELAY_US: i64 = 1_000_000;
const VALUE_BYTES: usize = 100;
const RUNS: usize = 3;

/// Warm-up that is not counted: connections, first batches, JIT of the broker.
const WARM_UP: Duration = Duration::from_secs(3);

pub fn run() {
    println!("lateness, ms: 1 s level, {VALUE_BYTES} B values, {RUNS} runs");
    println!(
        "{:<13} {:>10} {:>6}  {:>26}  {:>26}",
        "", "", "", "round trip p50/p99/max", "delayed p50/p99/max"
    );
    for (rate, counted) in [(20, Duration::from_secs(15)), (2_000, Duration::from_secs(10))] {
        for guarantee in [super::GUARANTEES; RUNS].into_iter().flatten() {
            let (floor, delayed) = measure(guarantee, rate, counted);
            let count = floor.len();
            let (floor, delayed) = (row(floor), row(delayed));
            println!("{guarantee:<13} {rate:>8}/s {count:>6}  {floor:>26}  {delayed:>26}");
        }
    }
}

fn measure(guarantee: &str, rate: u32, counted: Duration) -> (Vec<f64>, Vec<f64>) {
    let cluster = shared();
    let (client, admin) = (cluster.client(), cluster.admin());
    let (delay_topic, destination, bare) = (unique("delay"), unique("destination"), unique("bare"));
    admin.create_topic(&delay_topic, 18);
    admin.create_topic(&format!("{delay_topic}_dlq"), 1);
    admin.create_topic(&destination, 4);
    admin.create_topic(&bare, 4);
    let daemon = DaemonConfig::new(&client, &delay_topic)
        .set("log.filter", "warn")
        .set("forward.guarantee", guarantee)
        .start_ready();
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let floor = scope.spawn(|| watch(&client, &bare, 0, &done));
        let delayed = scope.spawn(|| watch(&client, &destination, DELAY_US, &done));
        feed(&client, &delay_topic, &destination, &bare, rate, WARM_UP + counted);
        std::thread::sleep(Duration::from_secs(3));
        done.store(true, Ordering::Relaxed);
        (floor.join().unwrap(), delayed.join().unwrap())
    });
    daemon.stop(Duration::from_secs(60));
    result
}

/// Sends each record twice: to the bare topic and to the delay topic.
fn feed(client: &Client, delay_topic: &str, to: &str, bare: &str, rate: u32, span: Duration) {
    let producer: ThreadedProducer<_> = client
        .config()
        .set("linger.ms", "1")
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .create()
        .map(|producer: ThreadedProducer<rdkafka::producer::DefaultProducerContext>| producer)
        .unwrap();
    let (started, mut sent) = (Instant::now(), 0_u32);
    while started.elapsed() < span {
        let next = started + Duration::from_secs(1) * sent / rate;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now_ms = now_us() / 1_000;
        // The due time follows from the record's timestamp, which has whole milliseconds.
        let counts = started.elapsed() >= WARM_UP;
        let delayed = value(now_ms * 1_000, counts);
        let headers = rdkafka::message::OwnedHeaders::new()
            .insert(rdkafka::message::Header { key: "origin_topic", value: Some(to) });
        producer
            .send(
                BaseRecord::to(delay_topic)
                    .partition(0)
                    .key(&sent.to_be_bytes()[..])
                    .payload(&delayed)
                    .timestamp(now_ms)
                    .headers(headers),
            )
            .unwrap();
        let direct = value(now_us(), counts);
        producer.send(BaseRecord::to(bare).key(&sent.to_be_bytes()[..]).payload(&direct)).unwrap();
        sent += 1;
    }
    producer.flush(Duration::from_secs(30)).unwrap();
}

/// Milliseconds from (time in the value + `delay_us`) to arrival, of each record that counts.
fn watch(client: &Client, topic: &str, delay_us: i64, done: &AtomicBool) -> Vec<f64> {
    let consumer: BaseConsumer = client.config().set("group.id", unique("watch")).create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..4 {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let mut late = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let seen_us = now_us();
        let message = message.unwrap();
        let value = std::str::from_utf8(message.payload().unwrap()).unwrap();
        if let Some(text) = value.strip_prefix('C') {
            let due_us: i64 = text.trim().parse::<i64>().unwrap() + delay_us;
            late.push((seen_us - due_us) as f64 / 1_000.0);
        }
    }
    late
}

fn value(micros: i64, counts: bool) -> String {
    let mark = if counts { 'C' } else { 'w' };
    format!("{mark}{micros:<width$}", width = VALUE_BYTES - 1)
}

fn now_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn row(mut late_ms: Vec<f64>) -> String {
    assert!(late_ms.len() > 100, "only {} records arrived", late_ms.len());
    late_ms.sort_by(f64::total_cmp);
    assert!(late_ms[0] >= 0.0, "early by {} ms", -late_ms[0]);
    let at = |share: f64| late_ms[((late_ms.len() - 1) as f64 * share) as usize];
    format!("{:.1} / {:.1} / {:.1}", at(0.5), at(0.99), at(1.0))
}
