//! Reads a topic on a thread of its own, all the time, and keeps of each record what accounts need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use rdkafka::message::{BorrowedMessage, Message as _};

use super::wait::now_ms;
use super::{Client, Seen, reader};

/// One record that arrived at a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the record, which is its value.
    pub id: u64,
    /// Tells topics apart, and a topic from the one that was deleted before it.
    pub topic: u32,
    /// Partition there.
    pub partition: i32,
    /// Offset there.
    pub offset: i64,
    /// Its timestamp: when the daemon sent it on.
    pub timestamp: i64,
    /// When the test got it.
    pub seen_at: i64,
}

impl Arrival {
    /// Of a record that a [`Reader`](super::Reader) got.
    #[track_caller]
    pub fn of(seen: &Seen) -> Self {
        let id = seen.text().parse().unwrap_or_else(|_| panic!("never sent: {seen:?}"));
        let Seen { partition, offset, timestamp, seen_at, .. } = *seen;
        Self { id, topic: 0, partition, offset, timestamp, seen_at }
    }

    /// In this order the records of a partition follow each other.
    pub fn place(&self) -> (u32, i32, i64) {
        (self.topic, self.partition, self.offset)
    }
}

/// A reader of what is committed, from the beginning.
pub struct Watch {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Begins to read. `number` stands for the topic in [`Arrival::topic`].
    #[track_caller]
    pub fn start(client: &Client, topic: &str, number: u32) -> Self {
        let consumer = consumer(client, topic);
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (into, stopped) = (Arc::clone(&arrivals), Arc::clone(&stop));
        let body = move || read(&consumer, number, &into, &stopped);
        let thread = thread::Builder::new().name("watch".into()).spawn(body).expect("a thread");
        Self { arrivals, stop, thread }
    }

    /// What has arrived, in the order it came.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many have arrived.
    pub fn count(&self) -> usize {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends; what has arrived.
    #[track_caller]
    pub fn stop(self) -> Vec<Arrival> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("only numbered records arrive");
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A consumer that is back soon after a fault: its own delay counts as the daemon's.
#[track_caller]
pub(super) fn consumer(client: &Client, topic: &str) -> BaseConsumer {
    let (consumer, _) = reader::assigned(client, topic, |config| {
        config.set("isolation.level", "read_committed").set("reconnect.backoff.ms", "50");
        // Cheap, and none the slower: a fetch ends with the first record.
        config.set("fetch.wait.max.ms", "250").set("fetch.error.backoff.ms", "20");
        config.set("topic.metadata.refresh.fast.interval.ms", "50");
    });
    consumer
}

fn read(consumer: &BaseConsumer, topic: u32, into: &Mutex<Vec<Arrival>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // Errors are of brokers that come and go: the accounts show what is missing.
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let arrival = arrival(&message, topic);
        drop(message);
        into.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }
}

fn arrival(message: &BorrowedMessage<'_>, topic: u32) -> Arrival {
    let value = message.payload().and_then(|value| std::str::from_utf8(value).ok());
    Arrival {
        id: value.and_then(|text| text.parse().ok()).expect("the value is a number"),
        topic,
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        seen_at: now_ms(),
    }
}
