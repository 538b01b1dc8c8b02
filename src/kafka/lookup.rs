//! Where logs end and what the group committed, asked on a client and thread of its own.
//!
//! The consumer's own answers would wait behind its long poll, and its statistics stand still for
//! paused partitions. This client has the group's id but never joins, so it sees commits of all
//! members.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::Message;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tracing::{debug, info, warn};

use super::context::{ClientName, LookupContext, Shared};
use super::port::{Event, Located, LogRange, Probe};
use super::settings::Clients;
use super::{metadata, raw};
use crate::engine::{Ahead, Wait};

/// One question to the cluster.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// One question for log ends. Short: a partition without a leader uses it up, and questions for a
/// new assignment wait behind it.
const RANGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Led by the coordinators of groups and of transactions.
const COORDINATOR_LOGS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Pause before a failed question for a new assignment is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

enum Request {
    Locate(u64, Vec<i32>),
    Probe(Probe),
    Stop,
}

/// Handle to the lookup thread.
#[derive(Debug)]
pub struct Lookup {
    requests: Sender<Request>,
}

impl Lookup {
    /// Starts the thread. It reports log ends of all `partitions` of `topic` every `interval`.
    pub fn start(
        settings: &ClientConfig,
        clients: &Clients,
        topic: &str,
        partitions: i32,
        interval: Duration,
    ) -> anyhow::Result<Arc<Self>> {
        let context = LookupContext(Shared::new(ClientName::Lookup, clients));
        let client: BaseConsumer<LookupContext> = settings.create_with_context(context)?;
        let (requests, inbox) = channel();
        let asker = Asker { client, topic: topic.to_owned(), partitions, interval };
        std::thread::Builder::new().name("lookup".to_owned()).spawn(move || asker.run(&inbox))?;
        Ok(Arc::new(Self { requests }))
    }

    /// Asks where `partitions` stand; the answer is an [`Event::Located`], however long it takes.
    pub(super) fn locate(&self, request: u64, partitions: Vec<i32>) {
        // The thread ends only after `Stop`, when no answer is awaited any more.
        let _ = self.requests.send(Request::Locate(request, partitions));
    }

    /// Asks whether a lane could go on; the answer is an [`Event::Probed`].
    pub(super) fn probe(&self, probe: Probe) {
        // As above.
        let _ = self.requests.send(Request::Probe(probe));
    }

    /// Ends the thread after the question under way. Nobody waits for it: it holds nothing that
    /// would have to be written, and without brokers a question takes seconds.
    pub fn stop(&self) {
        let _ = self.requests.send(Request::Stop);
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Asker {
    client: BaseConsumer<LookupContext>,
    topic: String,
    partitions: i32,
    interval: Duration,
}

impl Asker {
    fn run(self, inbox: &Receiver<Request>) {
        let mut asked: VecDeque<(u64, Vec<i32>)> = VecDeque::new();
        let mut probe: Option<Probe> = None;
        let mut pause = Duration::ZERO;
        loop {
            match inbox.recv_timeout(pause) {
                Ok(Request::Locate(request, partitions)) => asked.push_back((request, partitions)),
                Ok(Request::Probe(asked)) => probe = Some(asked),
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Serves log lines, errors and token refreshes of this client.
            self.client.poll(Duration::ZERO);
            pause = match asked.front() {
                None => {
                    if let Some(probe) = probe.take() {
                        let could_go_on = self.could_go_on(&probe);
                        self.report(Event::Probed { probe, could_go_on });
                    }
                    self.report_log_ranges();
                    self.interval
                }
                Some((request, partitions)) => match self.locate(partitions) {
                    Ok(located) => {
                        let request = *request;
                        self.report(Event::Located { request, located });
                        asked.pop_front();
                        Duration::ZERO
                    }
                    Err(error) => {
                        warn!(%error, "cannot look up committed offsets, trying again");
                        self.refresh_leaders();
                        RETRY_PAUSE
                    }
                },
            };
        }
    }

    fn report(&self, event: Event) {
        self.client.context().0.report(event);
    }

    fn could_go_on(&self, probe: &Probe) -> bool {
        let answer = match &probe.wait {
            Wait::Record(offset) => self.can_read(probe.partition, *offset),
            Wait::Acknowledgement(_, topic) => self.is_whole(topic),
            Wait::Transaction(_) => self.can_commit(),
            Wait::Turn(_) => Ok(true),
        };
        let could_go_on = matches!(answer, Ok(true));
        if !could_go_on {
            let error = answer.err().map(|error| error.to_string());
            info!(partition = probe.partition, error, "the partition waits for the cluster");
        }
        could_go_on
    }

    /// Whether a record at `offset` or above can be read.
    fn can_read(&self, partition: i32, offset: i64) -> KafkaResult<bool> {
        self.client.assign(&self.list(&[partition], Offset::Offset(offset))?)?;
        let read =
            self.client.poll(QUERY_TIMEOUT).map(|polled| polled.map(|record| record.offset()));
        self.client.unassign()?;
        Ok(read.transpose()?.is_some_and(|found| found >= offset))
    }

    /// Whether a transaction could end. Its coordinators lead partitions of two internal topics,
    /// which this daemon's rights may hide from it.
    fn can_commit(&self) -> KafkaResult<bool> {
        for log in COORDINATOR_LOGS {
            if !self.is_hidden(log)? && !self.is_whole(log)? {
                return Ok(false);
            }
        }
        self.is_whole(&self.topic)
    }

    fn is_hidden(&self, topic: &str) -> KafkaResult<bool> {
        let metadata = self.client.fetch_metadata(Some(topic), RANGE_TIMEOUT)?;
        let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        Ok(metadata.topics().iter().any(|topic| topic.error() == Some(denied)))
    }

    /// Whether every partition of `topic` has all its replicas and a leader that answers.
    fn is_whole(&self, topic: &str) -> KafkaResult<bool> {
        let metadata = self.client.fetch_metadata(Some(topic), RANGE_TIMEOUT)?;
        let partitions: Vec<_> =
            metadata.topics().iter().flat_map(|topic| topic.partitions()).collect();
        let mut ends = TopicPartitionList::with_capacity(partitions.len());
        for partition in &partitions {
            let whole =
                partition.leader() >= 0 && partition.isr().len() == partition.replicas().len();
            if !whole {
                return Ok(false);
            }
            ends.add_partition_offset(topic, partition.id(), Offset::End)?;
        }
        let answer = self.client.offsets_for_times(ends, RANGE_TIMEOUT)?;
        let answered = answer.elements().iter().all(|element| element.error().is_ok());
        Ok(answered && !partitions.is_empty())
    }

    fn locate(&self, partitions: &[i32]) -> KafkaResult<Vec<Located>> {
        let list = self.list(partitions, Offset::Invalid)?;
        // Committed first: the log's end can then only be further on.
        let list = self.client.committed_offsets(list, QUERY_TIMEOUT)?;
        let ranges = match self.ranges(partitions) {
            Ok(ranges) => Some(ranges),
            // One partition without a leader must not keep all others from being read. A position
            // that then proves to be outside the log is looked up again by itself.
            Err(error) if partitions.len() > 1 => {
                warn!(%error, "cannot look up log ends; reading from the committed offsets");
                self.refresh_leaders();
                None
            }
            Err(error) => return Err(error),
        };
        let mut located = Vec::with_capacity(partitions.len());
        for (index, &partition) in partitions.iter().enumerate() {
            let found = list
                .find_partition(&self.topic, partition)
                .map_or(Ok(None), |element| element.error().map(|()| Some(element.offset())))?;
            let committed = match found {
                Some(Offset::Offset(offset)) => Some(offset),
                _ => None,
            };
            let ahead = committed.map_or_else(Ahead::default, |offset| {
                metadata::decode(offset, &raw::metadata(&list, partition))
            });
            let assumed = committed.unwrap_or(0);
            let range = ranges.as_ref().map(|ranges| (ranges[index].start, ranges[index].end));
            let (start, end) = range.unwrap_or((assumed, assumed));
            located.push(Located { partition, committed, ahead, start, end });
        }
        Ok(located)
    }

    fn report_log_ranges(&self) {
        let all: Vec<i32> = (0..self.partitions).collect();
        match self.ranges(&all) {
            Ok(ranges) => self.report(Event::LogRanges(ranges)),
            Err(error) => {
                warn!(%error, "cannot look up log ends, backlog figures are old");
                self.refresh_leaders();
            }
        }
    }

    /// Once an election has told librdkafka that a partition has no leader, it answers so from its
    /// cache for minutes, without asking again; a question for metadata renews the cache.
    fn refresh_leaders(&self) {
        if let Err(error) = self.client.fetch_metadata(Some(&self.topic), RANGE_TIMEOUT) {
            debug!(%error, "cannot look up leaders");
        }
    }

    fn ranges(&self, partitions: &[i32]) -> KafkaResult<Vec<LogRange>> {
        let starts = self.offsets(partitions, Offset::Beginning)?;
        let ends = self.offsets(partitions, Offset::End)?;
        let pairs = partitions.iter().zip(starts.into_iter().zip(ends));
        Ok(pairs.map(|(&partition, (start, end))| LogRange { partition, start, end }).collect())
    }

    fn offsets(&self, partitions: &[i32], which: Offset) -> KafkaResult<Vec<i64>> {
        let answer = self.client.offsets_for_times(self.list(partitions, which)?, RANGE_TIMEOUT)?;
        let mut offsets = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let offset = answer
                .find_partition(&self.topic, *partition)
                .map_or(Ok(None), |element| element.error().map(|()| element.offset().to_raw()))?;
            offsets.push(offset.unwrap_or(0).max(0));
        }
        Ok(offsets)
    }

    fn list(&self, partitions: &[i32], offset: Offset) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition_offset(&self.topic, *partition, offset)?;
        }
        Ok(list)
    }
}
