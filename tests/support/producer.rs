//! Sends records and waits for every acknowledgement.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};

use super::{Client, Record, headers};

/// Enough for an election and a restart of the broker.
const ACK_DEADLINE: Duration = Duration::from_secs(60);

/// An idempotent producer with `acks=all`.
pub struct Producer {
    producer: ThreadedProducer<Reports>,
}

/// Where one record went: partition and offset, or why not.
pub type Delivery = Result<(i32, i64), KafkaError>;

impl Producer {
    /// With the fixture's settings.
    pub fn new(client: &Client) -> Self {
        Self::with(client, |_| {})
    }

    /// With settings of one's own.
    pub fn with(client: &Client, adjust: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = client.config();
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "2");
        config.set("queue.buffering.max.messages", "1000000");
        config.set("queue.buffering.max.kbytes", "1048576");
        config.set("partitioner", "murmur2_random");
        adjust(&mut config);
        let producer = config.create_with_context(Reports).expect("valid settings");
        Self { producer }
    }

    /// Sends one record; partition and offset it got.
    #[track_caller]
    pub fn send(&self, topic: &str, record: &Record) -> (i32, i64) {
        self.send_all(topic, std::slice::from_ref(record))[0]
    }

    /// Sends records in order, all in flight together; partition and offset of each.
    #[track_caller]
    pub fn send_all(&self, topic: &str, records: &[Record]) -> Vec<(i32, i64)> {
        let place = |(index, delivery): (usize, Delivery)| match delivery {
            Ok(place) => place,
            Err(error) => panic!("record {index} of {}, to {topic}: {error}", records.len()),
        };
        self.try_send_all(topic, records).into_iter().enumerate().map(place).collect()
    }

    /// Like [`Self::send_all`], for records that may be refused.
    #[track_caller]
    pub fn try_send_all(&self, topic: &str, records: &[Record]) -> Vec<Delivery> {
        let batch = Arc::new(Batch::new(records.len()));
        for (index, record) in records.iter().enumerate() {
            self.enqueue(topic, record, &batch, index);
        }
        batch.wait()
    }

    #[track_caller]
    fn enqueue(&self, topic: &str, record: &Record, batch: &Arc<Batch>, index: usize) {
        let opaque = Box::new((Arc::clone(batch), index));
        let mut native = BaseRecord::with_opaque_to(topic, opaque);
        native.partition = record.partition;
        native.timestamp = record.timestamp;
        native.key = record.key.as_deref();
        native.payload = record.value.as_deref();
        if !record.headers.is_empty() {
            native.headers = Some(headers::to_native(&record.headers));
        }
        loop {
            native = match self.producer.send(native) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    thread::sleep(Duration::from_millis(5));
                    refused
                }
                Err((error, refused)) => {
                    let (batch, index) = *refused.delivery_opaque;
                    return batch.settle(index, Err(error));
                }
            };
        }
    }
}

/// The deliveries of one call.
struct Batch {
    state: Mutex<(Vec<Option<Delivery>>, usize)>,
    complete: Condvar,
}

impl Batch {
    fn new(len: usize) -> Self {
        Self { state: Mutex::new((vec![None; len], len)), complete: Condvar::new() }
    }

    fn settle(&self, index: usize, delivery: Delivery) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0[index] = Some(delivery);
        state.1 -= 1;
        if state.1 == 0 {
            self.complete.notify_all();
        }
    }

    #[track_caller]
    fn wait(&self) -> Vec<Delivery> {
        let start = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.1 > 0 {
            let left = ACK_DEADLINE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "{} of {} records not acknowledged", state.1, state.0.len());
            let woken = self.complete.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut state.0).into_iter().flatten().collect()
    }
}

struct Reports;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<(Arc<Batch>, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let (batch, index) = *opaque;
        let delivery = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        batch.settle(index, delivery);
    }
}
