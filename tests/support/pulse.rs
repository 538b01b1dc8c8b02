//! A bare producer, and a bare reader of what it writes: what a fault of the cluster costs anybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use super::{Client, watch};

/// Between two records of a partition.
const EVERY: Duration = Duration::from_millis(10);

/// Polls without a record after which nothing more is expected, once everything is written.
const IDLE_POLLS: u32 = 600;

/// For the last acknowledgements, on a cluster that is whole again.
const FLUSH: Duration = Duration::from_secs(60);

/// Writes to every partition of a topic all the time, with the daemon's producer settings.
pub struct Pulse {
    acknowledged: Arc<Mutex<Gaps>>,
    stop: Arc<AtomicBool>,
    producer: JoinHandle<()>,
    reader: JoinHandle<Gaps>,
}

/// The longest times, in milliseconds, for which some partition was silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Between two acknowledgements.
    pub acknowledged_ms: i64,
    /// Between two records that the reader got.
    pub read_ms: i64,
}

impl Pulse {
    /// Begins to write.
    #[track_caller]
    pub fn start(client: &Client, topic: &str, partitions: i32) -> Self {
        let mut config = client.config();
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "1");
        config.set("delivery.timeout.ms", "0");
        config.set("reconnect.backoff.ms", "100").set("reconnect.backoff.max.ms", "1000");
        let acknowledged = Arc::new(Mutex::new(Gaps::new(partitions)));
        let context = Reports(Arc::clone(&acknowledged));
        let producer: ThreadedProducer<Reports> =
            config.create_with_context(context).expect("valid settings");
        let consumer = watch::consumer(client, topic);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, topic) = (Arc::clone(&stop), topic.to_owned());
        // How many were written, once that is known.
        let written = Arc::new(OnceLock::new());
        let total = Arc::clone(&written);
        let write = move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                for partition in 0..partitions {
                    let record = BaseRecord::<str, str>::to(&topic).partition(partition);
                    producer.send(record.payload("pulse")).expect("the queue has room");
                    count += 1;
                }
                thread::sleep(EVERY);
            }
            producer.flush(FLUSH).expect("everything is acknowledged in the end");
            total.set(count).expect("set once");
        };
        let read = move || {
            let (mut gaps, mut count, mut idle) = (Gaps::new(partitions), 0_u64, 0);
            // The end of an outage is seen with the first record after it. A reader whose position
            // is lost with a leader may see some twice; one that never sees the last ends too.
            while written.get().is_none_or(|total| count < *total && idle < IDLE_POLLS) {
                // Errors are of brokers that come and go.
                match consumer.poll(Duration::from_millis(100)) {
                    Some(Ok(message)) => {
                        gaps.note(message.partition());
                        (count, idle) = (count + 1, 0);
                    }
                    Some(Err(_)) => {}
                    None => idle += 1,
                }
            }
            gaps
        };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let producer = spawn("pulse").spawn(write).expect("a thread");
        let reader = spawn("pulse reader").spawn(read).expect("a thread");
        Self { acknowledged, stop, producer, reader }
    }

    /// Ends, when everything is acknowledged and read.
    #[track_caller]
    pub fn stop(self) -> Silence {
        self.stop.store(true, Ordering::Relaxed);
        self.producer.join().expect("every record is acknowledged");
        let read_ms = self.reader.join().expect("it only reads").longest_ms();
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        Silence { acknowledged_ms: acknowledged.longest_ms(), read_ms }
    }
}

struct Gaps {
    /// When each partition was heard of last.
    last: Vec<Option<Instant>>,
    longest: Duration,
}

impl Gaps {
    fn new(partitions: i32) -> Self {
        let partitions = usize::try_from(partitions).expect("not negative");
        Self { last: vec![None; partitions], longest: Duration::ZERO }
    }

    fn note(&mut self, partition: i32) {
        let now = Instant::now();
        let place = usize::try_from(partition).expect("not negative");
        if let Some(last) = self.last[place].replace(now) {
            self.longest = self.longest.max(now - last);
        }
    }

    fn longest_ms(&self) -> i64 {
        i64::try_from(self.longest.as_millis()).expect("a short time")
    }
}

struct Reports(Arc<Mutex<Gaps>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        let Ok(message) = result else { return };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).note(message.partition());
    }
}
