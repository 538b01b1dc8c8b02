//! The transactions of the producer, on a thread of their own: ending one takes round trips to
//! three brokers.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{Producer, ThreadedProducer};

use super::context::ForwardContext;
use super::error::fatal_cause;
use super::port::{AbortCause, Event, PortError};
use super::producer::ForwardProducer;
use crate::clock::Clock;
use crate::engine::Trouble;

/// One call; what has not ended by then is called again and goes on where it was.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// As above for an abort: what came to be queued for a retry after it began is taken back only when
/// it is called again.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests under way end within `socket.timeout.ms`, and the next call takes back what was in
/// them. What is left so long after, librdkafka has lost track of: a record whose topic
/// was deleted while it was under way. No end of the transaction comes then.
const LOST_TRACK: Duration = Duration::from_secs(5);

/// Between two calls, some of which fail at once.
const CALL_PAUSE: Duration = Duration::from_millis(5);

/// The last delivery reports have been handed out when a commit is asked for; librdkafka counts
/// them as under way for a moment longer.
const SETTLE_PAUSE: Duration = Duration::from_micros(50);

/// Pauses of [`SETTLE_PAUSE`] before committing all the same.
const SETTLE_LIMIT: usize = 1_000;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// To take the transactional id over.
    pub init: Duration,
    /// One request.
    pub request: Duration,
}

/// Why the producer cannot use its transactional id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct InitError {
    /// The cluster does not permit it.
    pub denied: bool,
    /// For people.
    pub cause: String,
}

/// Offsets, and the group that they are committed for, as this member knows it.
pub(super) struct GroupOffsets {
    pub(super) offsets: TopicPartitionList,
    pub(super) group: ConsumerGroupMetadata,
}

enum Request {
    Open(GroupOffsets),
    Commit(GroupOffsets),
    Abort(Option<GroupOffsets>),
}

/// Handle to the thread that ends transactions.
pub struct Transactions {
    producer: ThreadedProducer<ForwardContext>,
    requests: Sender<Request>,
    begun: bool,
}

impl fmt::Debug for Transactions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Transactions(begun: {})", self.begun)
    }
}

impl Transactions {
    /// Makes the producer the only one of its transactional id: what an earlier one left open is
    /// aborted first. Blocks, up to `timeouts.init`.
    pub fn start(producer: &ForwardProducer, timeouts: Timeouts) -> Result<Self, InitError> {
        let producer = producer.handle();
        producer.init_transactions(timeouts.init).map_err(|error| InitError {
            denied: error.rdkafka_error_code().is_some_and(|code| {
                matches!(
                    code,
                    Code::TransactionalIdAuthorizationFailed | Code::ClusterAuthorizationFailed
                )
            }),
            cause: error.to_string(),
        })?;
        let (requests, inbox) = channel();
        let ender = Ender { producer: producer.clone(), request_timeout: timeouts.request };
        let body = move || ender.run(&inbox);
        std::thread::Builder::new()
            .name("transactions".to_owned())
            .spawn(body)
            .map_err(|error| InitError { denied: false, cause: error.to_string() })?;
        Ok(Self { producer, requests, begun: false })
    }

    /// Begins a transaction unless one is open; takes no round trip.
    pub(super) fn begin(&mut self) -> Result<(), PortError> {
        if self.begun {
            return Ok(());
        }
        self.producer.begin_transaction().map_err(|error| PortError {
            call: "begin",
            cause: fatal_cause("producer", &error.to_string()),
        })?;
        self.begun = true;
        Ok(())
    }

    /// Begins a transaction with `offsets` in it; ends in [`Event::Opened`].
    pub(super) fn open(&mut self, offsets: GroupOffsets) -> Result<(), PortError> {
        self.begin()?;
        let _ = self.requests.send(Request::Open(offsets));
        Ok(())
    }

    /// Commits the open transaction together with `offsets`; ends in [`Event::Committed`].
    pub(super) fn commit(&mut self, offsets: GroupOffsets) -> Result<(), PortError> {
        // Offsets alone make a transaction too.
        self.begin()?;
        self.begun = false;
        // The thread ends only with this handle.
        let _ = self.requests.send(Request::Commit(offsets));
        Ok(())
    }

    /// Aborts the open transaction, after adding `offsets` to it if it still can be; ends in
    /// [`Event::Aborted`].
    pub(super) fn abort(&mut self, offsets: Option<GroupOffsets>) {
        self.begun = false;
        let _ = self.requests.send(Request::Abort(offsets));
    }
}

struct Ender {
    producer: ThreadedProducer<ForwardContext>,
    request_timeout: Duration,
}

impl Ender {
    fn run(&self, inbox: &Receiver<Request>) {
        while let Ok(request) = inbox.recv() {
            let ended = match request {
                Request::Open(offsets) => told(self.add(&offsets), Event::Opened),
                Request::Commit(offsets) => self.commit(&offsets),
                Request::Abort(offsets) => self.abort(offsets.as_ref()),
            };
            let fatal =
                |error: KafkaError| Event::Fatal(fatal_cause("producer", &error.to_string()));
            let event = ended.unwrap_or_else(fatal);
            self.producer.context().0.report(event);
        }
    }

    fn commit(&self, offsets: &GroupOffsets) -> KafkaResult<Event> {
        for _ in 0..SETTLE_LIMIT {
            if self.producer.in_flight_count() == 0 {
                break;
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
        let committed = self
            .add(offsets)
            .and_then(|()| again(|| self.producer.commit_transaction(CALL_TIMEOUT)));
        told(committed, Event::Committed)
    }

    fn add(&self, GroupOffsets { offsets, group }: &GroupOffsets) -> KafkaResult<()> {
        again(|| self.producer.send_offsets_to_transaction(offsets, group, CALL_TIMEOUT))
    }

    fn abort(&self, offsets: Option<&GroupOffsets>) -> KafkaResult<Event> {
        // A failed transaction answers with the cause of its failure; a sound one refuses.
        let cause = self.producer.begin_transaction().err();
        if let Some(offsets) = offsets
            && let Err(error) = self.add(offsets)
        {
            tracing::debug!(%error, "the transaction is aborted as it is");
        }
        let clock = Clock::start();
        let lost_track_ms = (self.request_timeout + LOST_TRACK).as_millis();
        loop {
            match self.producer.abort_transaction(ABORT_TIMEOUT) {
                Err(KafkaError::Transaction(error)) if error.is_retriable() => {
                    tracing::debug!(%error, "the transaction's end takes long");
                    let left = self.producer.in_flight_count();
                    if left > 0 && clock.now().steady_ms as u128 >= lost_track_ms {
                        let text = format!("producer: librdkafka lost track of {left} records");
                        return Ok(Event::Fatal(text));
                    }
                    std::thread::sleep(CALL_PAUSE);
                }
                ended => {
                    ended?;
                    break;
                }
            }
        }
        Ok(Event::Aborted(cause.as_ref().and_then(abort_cause)))
    }
}

/// Calls until the end is known: an answer that did not come in time says nothing.
fn again(call: impl Fn() -> KafkaResult<()>) -> KafkaResult<()> {
    loop {
        match call() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() => {
                tracing::debug!(%error, "the transaction's end takes long");
                std::thread::sleep(CALL_PAUSE);
            }
            ended => return ended,
        }
    }
}

/// The event that tells of `result`, unless the producer cannot go on.
fn told(
    result: KafkaResult<()>,
    event: impl FnOnce(Result<(), String>) -> Event,
) -> KafkaResult<Event> {
    match result {
        Err(KafkaError::Transaction(error)) if error.is_fatal() => {
            Err(KafkaError::Transaction(error))
        }
        result => Ok(event(result.map_err(|error| error.to_string()))),
    }
}

/// The cause that a failed transaction gives. The group's refusals have nothing to do with
/// destinations.
fn abort_cause(error: &KafkaError) -> Option<AbortCause> {
    let KafkaError::Transaction(failure) = error else { return None };
    if !failure.txn_requires_abort() {
        return None;
    }
    let trouble = match failure.code() {
        Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::RebalanceInProgress
        | Code::FencedInstanceId
        | Code::StaleMemberEpoch
        | Code::FencedMemberEpoch
        | Code::GroupAuthorizationFailed => None,
        Code::TopicAuthorizationFailed => Some(Trouble::Unauthorized),
        Code::UnknownTopic | Code::UnknownTopicOrPartition => Some(Trouble::UnknownTopic),
        Code::MessageSizeTooLarge => Some(Trouble::TooLarge),
        _ => Some(Trouble::Transient),
    };
    Some(AbortCause { text: failure.to_string(), trouble })
}
