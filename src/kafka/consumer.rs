//! The consumer on the delay topic: one queue a partition, split once before subscribing.
//!
//! Split queues survive every rebalance; dropping one would lose its partition's records for the
//! life of the consumer, so they live as long as it does. Pausing survives rebalances too, which is
//! why newly assigned partitions are always resumed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tracing::debug;

use super::context::{ClientName, DelayContext, Shared};
use super::metadata;
use super::port::{Fetched, PortError};
use super::raw;
use super::record::KafkaRecord;
use super::settings::Clients;
use super::transactions::GroupOffsets;
use crate::engine::Commit;

/// A seek waits this long for librdkafka's main thread, which answers within 0.2 ms.
const SEEK_TIMEOUT: Duration = Duration::from_secs(1);

/// Callbacks and errors served in one call, at most.
const SERVE_LIMIT: usize = 100;

/// Outdated records dropped in one call when a partition is parked, at most.
const PURGE_LIMIT: usize = 100;

/// The consumer and its partition queues.
pub struct DelayConsumer {
    topic: String,
    queues: Vec<Queue>,
    // After the queues, which must go first for the consumer to close.
    consumer: Arc<BaseConsumer<DelayContext>>,
}

struct Queue {
    queue: PartitionQueue<DelayContext>,
    /// Set by librdkafka when the queue gets its first record, and by sweeps.
    ready: Arc<AtomicBool>,
}

impl fmt::Debug for DelayConsumer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DelayConsumer({}, {} partitions)", self.topic, self.queues.len())
    }
}

impl DelayConsumer {
    /// Makes the consumer and splits a queue for each of `partitions` partitions of `topic`. It
    /// joins the group with [`Self::subscribe`].
    pub fn new(
        settings: &ClientConfig,
        clients: &Clients,
        topic: &str,
        partitions: i32,
    ) -> KafkaResult<Self> {
        let shared = Shared::new(ClientName::Consumer, clients);
        let context = DelayContext { shared, closing: AtomicBool::new(false) };
        let consumer: Arc<BaseConsumer<DelayContext>> =
            Arc::new(settings.create_with_context(context)?);
        let mut queues = Vec::new();
        for partition in 0..partitions {
            let mut queue = consumer.split_partition_queue(topic, partition).ok_or_else(|| {
                KafkaError::Subscription(format!("no queue for partition {partition}"))
            })?;
            let ready = Arc::new(AtomicBool::new(true));
            let (flag, waker) = (Arc::clone(&ready), Arc::clone(&clients.waker));
            // Runs with the queue locked: it may only leave a mark and wake.
            queue.set_nonempty_callback(move || {
                flag.store(true, Ordering::Release);
                waker.wake();
            });
            queues.push(Queue { queue, ready });
        }
        Ok(Self { topic: topic.to_owned(), queues, consumer })
    }

    /// Joins the group.
    pub fn subscribe(&self) -> KafkaResult<()> {
        self.consumer.subscribe(&[&self.topic])
    }

    /// From now on rebalances are answered at once, so that closing does not wait for a worker.
    pub fn prepare_close(&self) {
        self.consumer.context().closing.store(true, Ordering::Relaxed);
    }

    /// Number of partitions of the delay topic.
    pub(super) fn partitions(&self) -> i32 {
        i32::try_from(self.queues.len()).unwrap_or(i32::MAX)
    }

    pub(super) fn serve(&self) {
        for _ in 0..SERVE_LIMIT {
            match self.consumer.poll(Duration::ZERO) {
                None => break,
                Some(Err(error)) => self.consumer.context().shared.report_error(&error, ""),
                // All partitions are split, so the main queue has no records. One that came all
                // the same would be read again after the next restart: its offset is not settled.
                Some(Ok(_)) => {}
            }
        }
    }

    pub(super) fn next_record(&self, partition: i32) -> Option<Fetched<KafkaRecord<'_>>> {
        let queue = self.queues.get(usize::try_from(partition).ok()?)?;
        if !queue.ready.load(Ordering::Acquire) {
            return None;
        }
        let mut polled = queue.queue.poll(Duration::ZERO);
        if polled.is_none() {
            // A record that arrives after the flag is cleared sets it again; one that arrived
            // just before is found by polling once more.
            queue.ready.store(false, Ordering::Release);
            polled = queue.queue.poll(Duration::ZERO);
            if polled.is_some() {
                queue.ready.store(true, Ordering::Release);
            }
        }
        match polled? {
            Ok(message) => Some(Fetched::Record(KafkaRecord::Buffered(message))),
            Err(error) if is_offset_gone(&error) => Some(Fetched::OffsetGone),
            Err(error) => {
                self.consumer.context().shared.report_error(&error, "");
                None
            }
        }
    }

    pub(super) fn sweep(&self) {
        for queue in &self.queues {
            queue.ready.store(true, Ordering::Release);
        }
    }

    pub(super) fn park(&self, partition: i32, offset: i64) -> Result<(), PortError> {
        let list = self.list(&[partition]);
        self.consumer.pause(&list).map_err(|error| port_error("pause", &error))?;
        // Pausing moved the fetch position behind the head, which was already handed out.
        if let Err(error) = self.seek(partition, offset) {
            self.consumer.resume(&list).map_err(|error| port_error("resume", &error))?;
            return Err(error);
        }
        // Outdated records keep their memory until the queue is polled.
        if let Some(queue) = usize::try_from(partition).ok().and_then(|slot| self.queues.get(slot))
        {
            for _ in 0..PURGE_LIMIT {
                if queue.queue.poll(Duration::ZERO).is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) fn unpark(&self, partition: i32, offset: i64) -> Result<(), PortError> {
        let list = self.list(&[partition]);
        self.consumer.resume(&list).map_err(|error| port_error("resume", &error))?;
        // Resuming alone does not wake the broker's thread; a seek does. Parking left the position
        // where it belongs, so a seek that fails costs a second at most. It must not count as a
        // failure: the partition is being fetched, and once its position has left the log every
        // further seek would fail too.
        if let Err(error) = self.seek(partition, offset) {
            debug!(partition, %error, "resumed, but not woken");
        }
        Ok(())
    }

    pub(super) fn assign(&self, starts: &[(i32, i64)]) -> Result<(), PortError> {
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (partition, offset) in starts {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*offset))
                .map_err(|error| port_error("assign", &error))?;
        }
        let assigned = self.consumer.incremental_assign(&list);
        assigned.map_err(|error| port_error("assign", &error))?;
        // A partition that was paused when it was lost is still paused when it comes back.
        self.consumer.resume(&list).map_err(|error| port_error("resume", &error))
    }

    pub(super) fn unassign(&self, partitions: &[i32]) -> Result<(), PortError> {
        let unassigned = self.consumer.incremental_unassign(&self.list(partitions));
        unassigned.map_err(|error| port_error("unassign", &error))
    }

    pub(super) fn commit(&self, commits: &[Commit]) -> Result<(), PortError> {
        raw::commit(self.consumer.client().native_ptr(), &self.offsets(commits)?)
            .map_err(|code| PortError { call: "commit", cause: code.to_string() })
    }

    /// `commits` as librdkafka takes them.
    fn offsets(&self, commits: &[Commit]) -> Result<TopicPartitionList, PortError> {
        let mut list = TopicPartitionList::with_capacity(commits.len());
        for commit in commits {
            let mut element = list.add_partition(&self.topic, commit.partition);
            element
                .set_offset(Offset::Offset(commit.offset))
                .map_err(|error| port_error("commit", &error))?;
            if !commit.ahead.is_empty() {
                element.set_metadata(metadata::encode(&commit.ahead));
            }
        }
        Ok(list)
    }

    /// `commits` for a transaction, and who we are in the group now.
    pub(super) fn group_offsets(&self, commits: &[Commit]) -> Result<GroupOffsets, PortError> {
        let group = self.consumer.group_metadata();
        // Looked at afterwards: whoever has lost its membership by then cannot have a new one
        // before it has given its partitions back, which is our thread's to do.
        let group = group.filter(|_| raw::is_member(self.consumer.client().native_ptr()));
        let group = group.ok_or_else(|| PortError {
            call: "group metadata",
            cause: "not a member of the group now".to_owned(),
        })?;
        Ok(GroupOffsets { offsets: self.offsets(commits)?, group })
    }

    fn seek(&self, partition: i32, offset: i64) -> Result<(), PortError> {
        let sought =
            self.consumer.seek(&self.topic, partition, Offset::Offset(offset), SEEK_TIMEOUT);
        sought.map_err(|error| port_error("seek", &error))
    }

    fn list(&self, partitions: &[i32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition(&self.topic, *partition);
        }
        list
    }
}

fn is_offset_gone(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
    )
}

fn port_error(call: &'static str, error: &KafkaError) -> PortError {
    PortError { call, cause: error.to_string() }
}
