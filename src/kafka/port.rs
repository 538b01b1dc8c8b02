//! What the worker asks of Kafka, as a trait: the real cluster behind librdkafka here, a simulated
//! one in tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::consumer::DelayConsumer;
use super::context::ClientName;
use super::error::fatal_cause;
use super::lookup::Lookup;
use super::producer::ForwardProducer;
use super::record::KafkaRecord;
use super::transactions::Transactions;
use crate::engine::{Ahead, Commit, Outgoing, Record, Refusal, Ticket, Trouble, Wait};

/// Where a partition's log and the group's commit stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Offset committed by the group; `None` when it never committed one.
    pub committed: Option<i64>,
    /// What that commit says about records above it.
    pub ahead: Ahead,
    /// First offset of the log.
    pub start: i64,
    /// Offset after the last readable record.
    pub end: i64,
}

/// How far a partition's log reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Partition of the delay topic.
    pub partition: i32,
    /// First offset of the log.
    pub start: i64,
    /// Offset after the last readable record.
    pub end: i64,
}

/// A question about a lane that does not move: would the cluster let it go on?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Assignment of that partition.
    pub epoch: u32,
    /// What the lane waits for.
    pub wait: Wait,
}

/// Something that happened at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The group gave us partitions; [`Port::assign`] must follow, also for none.
    Assigned(Vec<i32>),
    /// The group takes partitions back; [`Port::unassign`] must follow.
    Revoked {
        /// The partitions.
        partitions: Vec<i32>,
        /// Somebody else may own them already: nothing can be committed any more.
        lost: bool,
    },
    /// A send ended.
    Delivered {
        /// Which one.
        ticket: Ticket,
        /// Acknowledged, or why not.
        result: Result<(), Refusal>,
        /// Time since the send.
        took: Duration,
    },
    /// A commit ended.
    Committed(Result<(), String>),
    /// The answer to [`Port::open`].
    Opened(Result<(), String>),
    /// The open transaction was aborted, and every send of it has ended.
    Aborted(Option<AbortCause>),
    /// The answer to [`Port::locate`].
    Located {
        /// The number that the question had.
        request: u64,
        /// One for each partition asked for.
        located: Vec<Located>,
    },
    /// Present log ends of all partitions.
    LogRanges(Vec<LogRange>),
    /// The answer to [`Port::probe`].
    Probed {
        /// The question.
        probe: Probe,
        /// The record can be read, or every leader of the destination answers and has all its
        /// replicas. False also when nobody answers.
        could_go_on: bool,
    },
    /// An error that librdkafka deals with itself.
    Error {
        /// Which client met it.
        client: &'static str,
        /// Its code, as a label.
        code: String,
        /// For people.
        text: String,
    },
    /// The client cannot go on; the process must end.
    Fatal(String),
}

/// What a partition's queue had.
#[derive(Debug)]
pub enum Fetched<R> {
    /// A record.
    Record(R),
    /// The fetch position is not in the log: records were deleted, or the topic was recreated.
    OffsetGone,
}

/// Why a send was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// The producer has no room; try again after a delivery.
    Full,
    /// The destination does not take the record.
    Refused(Refusal),
    /// The open transaction has failed and must be aborted.
    TransactionFailed,
    /// The producer cannot go on; the process must end.
    Fatal(String),
}

/// Why a transaction had to be aborted, if the client says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortCause {
    /// For people.
    pub text: String,
    /// What ails one of the transaction's destinations, if that is the cause.
    pub trouble: Option<Trouble>,
}

/// A call that the client did not carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {cause}")]
pub struct PortError {
    /// Which call.
    pub call: &'static str,
    /// Why, for people.
    pub cause: String,
}

/// Kafka as the worker sees it. Every call returns at once; what takes time ends in an [`Event`].
pub trait Port {
    /// A record of the delay topic.
    type Record: Record;

    /// Lets the client run its callbacks. Called at least every 20 ms.
    fn serve(&mut self);

    /// The next thing that happened.
    fn next_event(&mut self) -> Option<Event>;

    /// The next record of an assigned partition; `None` when none is there now.
    fn next_record(&mut self, partition: i32) -> Option<Fetched<Self::Record>>;

    /// Looks at every queue again, whether it announced records or not.
    fn sweep(&mut self);

    /// Starts a send; it ends in [`Event::Delivered`]. In exactly-once mode it belongs to the
    /// open transaction, which the first send begins.
    fn send(
        &mut self,
        ticket: Ticket,
        outgoing: &Outgoing<'_, Self::Record>,
    ) -> Result<(), SendError>;

    /// Pauses a partition with its next fetch at `offset`, and lets go of what was prefetched.
    fn park(&mut self, partition: i32, offset: i64) -> Result<(), PortError>;

    /// Fetches a parked partition again from `offset`.
    fn unpark(&mut self, partition: i32, offset: i64) -> Result<(), PortError>;

    /// Asks where logs and commits stand; ends in [`Event::Located`].
    fn locate(&mut self, request: u64, partitions: Vec<i32>);

    /// Asks the cluster about a lane, past the clients that may be stuck; ends in
    /// [`Event::Probed`].
    fn probe(&mut self, probe: Probe);

    /// Takes over partitions: they are fetched from the given offsets.
    fn assign(&mut self, starts: &[(i32, i64)]) -> Result<(), PortError>;

    /// Gives partitions back.
    fn unassign(&mut self, partitions: &[i32]) -> Result<(), PortError>;

    /// Starts a commit; it ends in [`Event::Committed`]. In exactly-once mode it is that of the
    /// open transaction, with all that was sent in it: only when every send has ended.
    fn commit(&mut self, commits: &[Commit]) -> Result<(), PortError>;

    /// In exactly-once mode, before the first send: makes sure that the coordinator knows of the
    /// transaction, by adding `commit` to it; ends in [`Event::Opened`].
    fn open(&mut self, commit: &Commit) -> Result<(), PortError>;

    /// Aborts the open transaction; ends in [`Event::Aborted`]. With `known_by`, after adding that
    /// commit to it if it still can be: a coordinator that has never heard of the transaction
    /// refuses to abort it, and librdkafka takes that for fatal.
    fn abort(&mut self, known_by: Option<&Commit>);
}

/// The real Kafka.
#[derive(Debug)]
pub struct KafkaPort<'q> {
    consumer: &'q DelayConsumer,
    producer: ForwardProducer,
    /// In exactly-once mode.
    transactions: Option<Transactions>,
    lookup: Arc<Lookup>,
    events: Receiver<Event>,
    /// Records taken out of queues by [`Self::touch`], by partition.
    touched: BTreeMap<i32, Fetched<KafkaRecord<'q>>>,
}

impl<'q> KafkaPort<'q> {
    /// Joins the parts; `events` is where all of them report.
    pub fn new(
        consumer: &'q DelayConsumer,
        producer: ForwardProducer,
        transactions: Option<Transactions>,
        lookup: Arc<Lookup>,
        events: Receiver<Event>,
    ) -> Self {
        Self { consumer, producer, transactions, lookup, events, touched: BTreeMap::new() }
    }

    /// Polls every queue once. A rebalance outdates what all of them hold; outdated records count
    /// against the queue's limits until somebody polls it, and a lane that holds its head would
    /// not, so its partition would not be fetched.
    fn touch(&mut self) {
        self.consumer.sweep();
        for partition in 0..self.consumer.partitions() {
            if !self.touched.contains_key(&partition)
                && let Some(fetched) = self.consumer.next_record(partition)
            {
                self.touched.insert(partition, fetched);
            }
        }
    }
}

impl<'q> Port for KafkaPort<'q> {
    type Record = KafkaRecord<'q>;

    fn serve(&mut self) {
        self.consumer.serve();
    }

    fn next_event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        let producer = ClientName::Producer.label();
        // librdkafka reports a fatal error of the producer under the code of its cause, and what
        // failed for it without the cause; which of them comes first is chance.
        let of_producer = match &event {
            Event::Error { client, .. } => *client == producer,
            Event::Fatal(cause) => cause.starts_with(producer),
            _ => false,
        };
        match of_producer.then(|| self.producer.fatal_error()).flatten() {
            Some(cause) => Some(Event::Fatal(fatal_cause(producer, &cause))),
            None => Some(event),
        }
    }

    fn next_record(&mut self, partition: i32) -> Option<Fetched<Self::Record>> {
        self.touched.remove(&partition).or_else(|| self.consumer.next_record(partition))
    }

    fn sweep(&mut self) {
        self.consumer.sweep();
    }

    fn send(
        &mut self,
        ticket: Ticket,
        outgoing: &Outgoing<'_, Self::Record>,
    ) -> Result<(), SendError> {
        if let Some(transactions) = &mut self.transactions {
            transactions.begin().map_err(|error| {
                let known = self.producer.fatal_error();
                SendError::Fatal(known.map_or(error.cause, |cause| fatal_cause("producer", &cause)))
            })?;
        }
        self.producer.send(ticket, outgoing)
    }

    fn park(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        self.consumer.park(partition, offset)?;
        self.touched.remove(&partition);
        Ok(())
    }

    fn unpark(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        self.consumer.unpark(partition, offset)
    }

    fn locate(&mut self, request: u64, partitions: Vec<i32>) {
        self.lookup.locate(request, partitions);
    }

    fn probe(&mut self, probe: Probe) {
        self.lookup.probe(probe);
    }

    fn assign(&mut self, starts: &[(i32, i64)]) -> Result<(), PortError> {
        for (partition, _) in starts {
            self.touched.remove(partition);
        }
        self.consumer.assign(starts)?;
        self.touch();
        Ok(())
    }

    fn unassign(&mut self, partitions: &[i32]) -> Result<(), PortError> {
        self.consumer.unassign(partitions)?;
        self.touch();
        for partition in partitions {
            self.touched.remove(partition);
        }
        Ok(())
    }

    fn open(&mut self, commit: &Commit) -> Result<(), PortError> {
        let Some(transactions) = &mut self.transactions else { return Ok(()) };
        transactions.open(self.consumer.group_offsets(std::slice::from_ref(commit))?)
    }

    fn commit(&mut self, commits: &[Commit]) -> Result<(), PortError> {
        match &mut self.transactions {
            None => self.consumer.commit(commits),
            // Who we are is taken now, when all that happened to our partitions has been handled: a
            // member that knows of a rebalance may commit partitions it has just lost.
            Some(transactions) => transactions.commit(self.consumer.group_offsets(commits)?),
        }
    }

    fn abort(&mut self, known_by: Option<&Commit>) {
        let Some(transactions) = &mut self.transactions else { return };
        let offsets = |commit| self.consumer.group_offsets(std::slice::from_ref(commit)).ok();
        transactions.abort(known_by.and_then(offsets));
    }
}
