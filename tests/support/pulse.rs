//! A bare producer that does nothing else: what a fault of the cluster costs anybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use super::Client;

/// Between two records of a partition.
const EVERY: Duration = Duration::from_millis(10);

/// For the last acknowledgements, on a cluster that is whole again.
const FLUSH: Duration = Duration::from_secs(60);

/// Writes to every partition of a topic all the time, with the daemon's producer settings.
pub struct Pulse {
    gaps: Arc<Mutex<Gaps>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Pulse {
    /// Begins to write.
    #[track_caller]
    pub fn start(client: &Client, topic: &str, partitions: i32) -> Self {
        let mut config = client.config();
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "1");
        config.set("delivery.timeout.ms", "0");
        config.set("reconnect.backoff.ms", "100").set("reconnect.backoff.max.ms", "1000");
        let places = usize::try_from(partitions).expect("not negative");
        let gaps = Arc::new(Mutex::new(Gaps { last: vec![None; places], longest: Duration::ZERO }));
        let context = Reports(Arc::clone(&gaps));
        let producer: ThreadedProducer<Reports> =
            config.create_with_context(context).expect("valid settings");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, topic) = (Arc::clone(&stop), topic.to_owned());
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                for partition in 0..partitions {
                    let record = BaseRecord::<str, str>::to(&topic).partition(partition);
                    producer.send(record.payload("pulse")).expect("the queue has room");
                }
                thread::sleep(EVERY);
            }
            producer.flush(FLUSH).expect("everything is acknowledged in the end");
        };
        let thread = thread::Builder::new().name("pulse".into()).spawn(body).expect("a thread");
        Self { gaps, stop, thread }
    }

    /// Ends; the longest time between two acknowledgements of one partition, in milliseconds.
    #[track_caller]
    pub fn stop(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every record is acknowledged");
        let gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        i64::try_from(gaps.longest.as_millis()).expect("a short time")
    }
}

struct Gaps {
    /// The last acknowledgement of each partition.
    last: Vec<Option<Instant>>,
    longest: Duration,
}

struct Reports(Arc<Mutex<Gaps>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        let Ok(message) = result else { return };
        let now = Instant::now();
        let mut gaps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(message.partition()).expect("it has a partition");
        if let Some(last) = gaps.last[place].replace(now) {
            gaps.longest = gaps.longest.max(now - last);
        }
    }
}
