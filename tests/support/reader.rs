//! Reads a topic from its beginning, outside of any group.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::wait::{eventually, now_ms};
use super::{Client, Seen, headers};

/// Records quoted when an expectation fails.
const QUOTED: usize = 10;

/// Enough to read what is there, on a busy machine.
const READ_ALL_DEADLINE: Duration = Duration::from_secs(60);

/// A consumer of all partitions of one topic, and what it has read.
pub struct Reader {
    consumer: BaseConsumer,
    topic: String,
    partitions: usize,
    seen: Vec<Seen>,
}

impl Reader {
    /// Reads committed records from the beginning. The topic must exist.
    #[track_caller]
    pub fn new(client: &Client, topic: &str) -> Self {
        Self::with(client, topic, |_| {})
    }

    /// With settings of one's own, for example `isolation.level`.
    #[track_caller]
    pub fn with(client: &Client, topic: &str, adjust: impl FnOnce(&mut ClientConfig)) -> Self {
        let (consumer, partitions) = assigned(client, topic, adjust);
        Self { consumer, topic: topic.to_owned(), partitions, seen: Vec::new() }
    }

    /// What was read so far, in the order it came: by offset within a partition.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Reads until at least `count` records were seen since the beginning; fails at the deadline.
    #[track_caller]
    pub fn until(&mut self, count: usize, deadline: Duration) -> &[Seen] {
        self.until_that(&format!("{count} records"), deadline, |seen| seen.len() >= count)
    }

    /// Reads until `enough` is true of everything seen; fails at the deadline.
    #[track_caller]
    pub fn until_that(
        &mut self,
        what: &str,
        deadline: Duration,
        enough: impl Fn(&[Seen]) -> bool,
    ) -> &[Seen] {
        let start = Instant::now();
        while !enough(&self.seen) {
            let left = deadline.saturating_sub(start.elapsed());
            if left.is_zero() {
                panic!("{}: {what} not seen within {deadline:?}; {}", self.topic, self.summary());
            }
            self.poll(left.min(Duration::from_millis(100)));
        }
        &self.seen
    }

    /// Reads for this long, whatever comes: to show that nothing more does.
    pub fn during(&mut self, span: Duration) -> &[Seen] {
        let start = Instant::now();
        while let Some(left) = span.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            self.poll(left.min(Duration::from_millis(100)));
        }
        &self.seen
    }

    /// Reads a topic up to the end of every partition. Only for a reader that has read nothing yet.
    #[track_caller]
    pub fn read_all(mut self) -> Vec<Seen> {
        assert!(self.seen.is_empty(), "an end that was reached before is not reported again");
        let start = Instant::now();
        let mut at_end = vec![false; self.partitions];
        while at_end.contains(&false) {
            let waited = start.elapsed();
            assert!(waited < READ_ALL_DEADLINE, "{}: no end; {}", self.topic, self.summary());
            if let Some(partition) = self.poll(Duration::from_millis(100)) {
                at_end[usize::try_from(partition).expect("not negative")] = true;
            }
        }
        self.seen
    }

    /// Takes one record or event; the partition whose end was reached, if that was it.
    #[track_caller]
    fn poll(&mut self, timeout: Duration) -> Option<i32> {
        match self.consumer.poll(timeout) {
            None => None,
            Some(Ok(message)) => {
                let record = seen(&message);
                drop(message);
                self.seen.push(record);
                None
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Some(partition),
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::TopicAuthorizationFailed,
            ))) => {
                panic!("{}: not authorized to read it", self.topic)
            }
            // Brokers come and go in these tests; the deadline says when it was too long. Nor does
            // it matter whether the user may use the group id, which librdkafka demands and looks
            // up.
            Some(Err(KafkaError::MessageConsumption(_) | KafkaError::Global(_))) => None,
            Some(Err(error)) => panic!("{}: {error}", self.topic),
        }
    }

    fn summary(&self) -> String {
        let skipped = self.seen.len().saturating_sub(QUOTED);
        let last = self.seen[skipped..].iter().map(|seen| {
            let Seen { partition, offset, timestamp, .. } = seen;
            format!("\n  {partition}@{offset} ts {timestamp} {:?}", seen.text())
        });
        format!("{} seen, the last:{}", self.seen.len(), last.collect::<String>())
    }
}

/// A consumer of all partitions of a topic, from their beginnings, and their number.
#[track_caller]
pub(super) fn assigned(
    client: &Client,
    topic: &str,
    adjust: impl FnOnce(&mut ClientConfig),
) -> (BaseConsumer, usize) {
    let mut config = client.config();
    config.set("group.id", "no-group").set("enable.auto.commit", "false");
    config.set("auto.offset.reset", "earliest").set("enable.partition.eof", "true");
    // `seen_at` should be near the moment when the record became visible.
    config.set("fetch.wait.max.ms", "10").set("fetch.queue.backoff.ms", "10");
    adjust(&mut config);
    let consumer: BaseConsumer = config.create().expect("valid settings");
    let partitions = eventually(Duration::from_secs(20), || {
        let metadata = consumer
            .fetch_metadata(Some(topic), Duration::from_secs(5))
            .map_err(|error| error.to_string())?;
        let count = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        if count == 0 { Err(format!("no topic {topic}")) } else { Ok(count) }
    });
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        let partition = i32::try_from(partition).expect("few partitions");
        assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("valid offset");
    }
    consumer.assign(&assignment).expect("valid assignment");
    (consumer, partitions)
}

fn seen(message: &BorrowedMessage<'_>) -> Seen {
    Seen {
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers::from_native(message.headers()),
        seen_at: now_ms(),
    }
}
