//! Records per second out of a backlog of one level, beside a bare copy loop on the same records.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::support::{Client, DaemonConfig, Record, eventually, now_ms, shared, unique};

const RECORDS: usize = 1_000_000;
const VALUE_BYTES: usize = 100;
const DESTINATIONS: usize = 4;
const RUNS: usize = 3;

pub fn run() {
    println!("\ndrain, records/s: {RECORDS} x {VALUE_BYTES} B in one level, {DESTINATIONS} topics");
    println!("{:<13} {:>12} {:>12} {:>8}", "", "copy loop", "daemon", "ratio");
    for guarantee in [super::GUARANTEES; RUNS].into_iter().flatten() {
        let cluster = shared();
        let client = cluster.client();
        let delay_topic = unique("delay");
        cluster.admin().create_topic(&delay_topic, 18);
        cluster.admin().create_topic(&format!("{delay_topic}_dlq"), 1);
        let destinations: Vec<String> = (0..DESTINATIONS).map(|_| unique("destination")).collect();
        let copies: Vec<String> = (0..DESTINATIONS).map(|_| unique("copy")).collect();
        for topic in destinations.iter().chain(&copies) {
            cluster.admin().create_topic(topic, 4);
        }
        load(&client, &delay_topic, &destinations);
        let copied = copy(&client, &delay_topic, &copies);
        let drained = drain(&client, guarantee, &delay_topic, &destinations);
        let ratio = drained / copied;
        println!("{guarantee:<13} {copied:>12.0} {drained:>12.0} {ratio:>8.2}");
        for topic in destinations.iter().chain(&copies).chain([&delay_topic]) {
            cluster.admin().delete_topic(topic);
        }
    }
}

fn load(client: &Client, delay_topic: &str, destinations: &[String]) {
    let producer = client.producer();
    let overdue_ms = now_ms() - 3_600_000;
    let value = vec![b'x'; VALUE_BYTES];
    for chunk in 0..RECORDS / 50_000 {
        let records: Vec<Record> = (0..50_000)
            .map(|index| {
                let number = chunk * 50_000 + index;
                Record::new(&value)
                    .partition(0)
                    .timestamp(overdue_ms)
                    .key((number as u64).to_be_bytes())
                    .header("trace-id", b"0123456789abcdef")
                    .to(&destinations[number % DESTINATIONS])
            })
            .collect();
        producer.send_all(delay_topic, &records);
    }
}

/// The least a forwarder can do: read, look at one header, write, all acknowledged.
fn copy(client: &Client, from: &str, to: &[String]) -> f64 {
    let consumer: BaseConsumer = client
        .config()
        .set("group.id", unique("copy"))
        .set("fetch.wait.max.ms", "10")
        .set("fetch.queue.backoff.ms", "10")
        .set("queued.min.messages", "100000")
        .create()
        .unwrap();
    let producer: ThreadedProducer<DefaultProducerContext> = client
        .config()
        .set("linger.ms", "1")
        .set("enable.idempotence", "true")
        .set("queue.buffering.max.messages", "500000")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(from, 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let (mut started, mut count) = (Instant::now(), 0);
    while count < RECORDS {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message.unwrap();
        if count == 0 {
            started = Instant::now();
        }
        let mut record = BaseRecord::to(&to[count % to.len()])
            .key(message.key().unwrap())
            .payload(message.payload().unwrap())
            .headers(message.headers().unwrap().detach());
        while let Err((_, back)) = producer.send(record) {
            record = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        count += 1;
    }
    producer.flush(Duration::from_secs(120)).unwrap();
    RECORDS as f64 / started.elapsed().as_secs_f64()
}

fn drain(client: &Client, guarantee: &str, delay_topic: &str, destinations: &[String]) -> f64 {
    let daemon = DaemonConfig::new(client, delay_topic)
        .set("log.filter", "warn")
        .set("forward.guarantee", guarantee)
        .start();
    let forwarded = || {
        let level = [("level", "1")];
        daemon.metric("kafka_delay_records_forwarded_total", &level).unwrap_or(0.0)
    };
    let waiting = |least: f64| {
        eventually(Duration::from_secs(300), || {
            let count = forwarded();
            if count >= least { Ok(()) } else { Err(format!("{count} forwarded")) }
        });
    };
    waiting(1.0);
    let (started, before) = (Instant::now(), forwarded());
    waiting(RECORDS as f64);
    let rate = (RECORDS as f64 - before) / started.elapsed().as_secs_f64();
    daemon.stop(Duration::from_secs(60));
    let arrived: usize = destinations.iter().map(|topic| count(client, topic)).sum();
    assert_eq!(arrived, RECORDS, "lost or duplicated");
    rate
}

/// Records of `topic` that a consumer sees. Offsets tell more: transactions leave marks.
fn count(client: &Client, topic: &str) -> usize {
    let consumer: BaseConsumer = client
        .config()
        .set("group.id", unique("count"))
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..4 {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut records, mut ends) = (0, 0);
    while ends < 4 {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(_)) => records += 1,
            Some(Err(KafkaError::PartitionEOF(_))) => ends += 1,
            Some(Err(error)) => panic!("{topic}: {error}"),
            None => {}
        }
    }
    records
}
