//! Destinations, and each process's idempotent producer.
//!
//! Records for one partition of one destination are sent in batches, one after another, and
//! reported in order; reports of different partitions overtake each other.

use std::collections::{BTreeMap, VecDeque};

use kafka_delay::engine::{Refusal, RejectReason, Rejection, Ticket, Trouble};
use kafka_delay::kafka::SendError;
use kafka_delay::kafka::settings::MAX_DELIVERY_MS;

use crate::client::Inbox;
use crate::record::RecordId;
use crate::scenario::Fault;
use crate::world::{What, World, note};

/// One partition of one topic: (topic, partition).
pub type LaneKey = (usize, usize);

/// Index of the dead-letter topic.
pub const DEAD_LETTERS: usize = 5;

/// A destination.
#[derive(Debug)]
pub struct Topic {
    pub name: &'static str,
    pub partitions: usize,
    pub exists: bool,
    pub allowed: bool,
    /// Largest record it takes.
    pub max_size: usize,
    /// Batches are refused for now, in a way that passes.
    pub failing: bool,
    /// Its leaders do not answer before this moment.
    pub away_until: i64,
}

/// A process's producer.
#[derive(Debug, Default)]
pub struct Producer {
    lanes: BTreeMap<LaneKey, Lane>,
    /// Records that were not sent.
    pending: usize,
    /// Reports on their way to the worker.
    pub reports: usize,
}

#[derive(Debug, Default)]
struct Lane {
    pending: VecDeque<Sent>,
    /// A batch is on its way.
    busy: bool,
    last_report_ms: i64,
}

#[derive(Debug, Clone)]
struct Sent {
    record: RecordId,
    ticket: Ticket,
    size: usize,
    sent_ms: i64,
}

/// A record that a destination holds, in a transaction.
#[derive(Debug, Clone)]
pub struct Landed {
    pub client: usize,
    pub record: RecordId,
    pub ticket: Ticket,
    pub lane: LaneKey,
}

impl Producer {
    pub fn len(&self) -> usize {
        self.pending + self.reports
    }
}

impl World {
    /// The destinations: two sound ones, three that may be in trouble, the dead-letter topic.
    pub fn make_topics(&mut self) {
        let trouble = self.scenario.has(Fault::Destinations);
        let names =
            [("orders", 1), ("audit", 3), ("late", 1), ("forbidden", 2), ("small", 1), ("dlq", 1)];
        for (name, partitions) in names {
            let max_size = if name == "small" && trouble { 300 } else { usize::MAX };
            self.topics.push(Topic {
                name,
                partitions,
                exists: !(trouble && name == "late"),
                allowed: !(trouble && name == "forbidden"),
                max_size,
                failing: false,
                away_until: 0,
            });
        }
    }

    pub fn choose_topic(&mut self) -> usize {
        let among = if self.scenario.has(Fault::Destinations) { DEAD_LETTERS } else { 2 };
        self.rng.usize(0..among)
    }

    /// Gives a record to the producer of `client`, for a topic that may not be there.
    pub fn produce(
        &mut self,
        client: usize,
        ticket: Ticket,
        record: RecordId,
        lane: LaneKey,
    ) -> Result<(), SendError> {
        let transactions = &self.clients[client].transactions;
        if transactions.fatal {
            return Err(SendError::Fatal("simulated".to_owned()));
        }
        if transactions.has_failed() {
            return Err(SendError::TransactionFailed);
        }
        let short = self.has(Fault::FullProducer);
        if short && self.clients[client].producer.len() >= self.scenario.producer_records {
            return Err(SendError::Full);
        }
        let topic = &self.topics[lane.0];
        if lane.1 >= topic.partitions && topic.exists {
            return Err(SendError::Refused(no_such_partition()));
        }
        let unknown = !topic.exists && self.rng.bool();
        if unknown && self.now >= self.dark_until {
            return Err(SendError::Refused(Refusal::Trouble(Trouble::UnknownTopic)));
        }
        let size = self.ledger.fates[record].size;
        let sent_ms = self.now;
        let producer = &mut self.clients[client].producer;
        producer.pending += 1;
        let queue = producer.lanes.entry(lane).or_default();
        queue.pending.push_back(Sent { record, ticket, size, sent_ms });
        if !queue.busy {
            queue.busy = true;
            let missing = !self.topics[lane.0].exists;
            let pause = if missing { self.rng.i64(1..1_500) } else { self.latency() };
            self.after(pause, What::Batch { client, lane });
        }
        Ok(())
    }

    /// A batch reaches the leader.
    pub fn batch(&mut self, client: usize, lane: LaneKey) {
        if !self.clients[client].alive {
            return;
        }
        let queue = self.clients[client].producer.lanes.get_mut(&lane).unwrap();
        if queue.pending.is_empty() {
            // All of it was purged.
            queue.busy = false;
            return;
        }
        let away_until = self.topics[lane.0].away_until;
        if self.scenario.exactly_once {
            if self.waits(client, lane, away_until.max(self.dark_until))
                || !self.may_produce(client, lane)
            {
                return;
            }
        } else if away_until > self.now {
            self.at(away_until, What::Batch { client, lane });
            return;
        }
        let queue = self.clients[client].producer.lanes.get_mut(&lane).unwrap();
        let cursed = |sent: &Sent| self.ledger.fates[sent.record].cursed && lane.0 != DEAD_LETTERS;
        let count = queue.pending.len().min(self.scenario.batch_records);
        // A record that brokers refuse for itself travels alone.
        let first = queue.pending.iter().take(count).position(cursed);
        let count = first.map_or(count, |first| first.max(1));
        let batch: Vec<Sent> = queue.pending.drain(..count).collect();
        self.clients[client].producer.pending -= batch.len();
        self.clients[client].producer.reports += batch.len();
        let result = if self.scenario.exactly_once
            && self.topics[lane.0].exists
            && !self.has_open_transaction(client)
        {
            Err(Refusal::Trouble(Trouble::Transient))
        } else {
            self.outcome(lane, &batch)
        };
        note!(
            self,
            "{}/{}: batch of {client} with {:?}: {result:?}",
            self.topics[lane.0].name,
            lane.1,
            batch.iter().map(|sent| self.name(sent.record)).collect::<Vec<_>>(),
        );
        let slow = self.strikes(Fault::LateReports, 15);
        let longest = if self.scenario.exactly_once {
            self.scenario.transaction_ms
        } else {
            self.scenario.session_ms * 2
        };
        let pause = if slow { self.rng.i64(100..longest) } else { self.latency() };
        if result.is_ok() {
            for sent in &batch {
                if self.scenario.exactly_once {
                    let landed = Landed { client, record: sent.record, ticket: sent.ticket, lane };
                    self.landed_in_transaction(client, landed);
                } else {
                    self.landed(sent.record, lane.0 == DEAD_LETTERS);
                }
            }
        }
        self.report(client, lane, batch, &result, pause);
        let queue = self.clients[client].producer.lanes.get_mut(&lane).unwrap();
        queue.busy = !queue.pending.is_empty();
        if queue.busy {
            let pause = self.latency();
            self.after(pause, What::Batch { client, lane });
        }
        if let (true, Err(refusal)) = (self.scenario.exactly_once, &result) {
            let trouble = match refusal {
                Refusal::Trouble(trouble) => *trouble,
                Refusal::Permanent(_) | Refusal::Undone => Trouble::Transient,
            };
            self.fail_transaction(client, "a message was not delivered", Some(trouble));
        }
    }

    /// The ends of sends are on their way to the worker.
    fn report(
        &mut self,
        client: usize,
        lane: LaneKey,
        batch: Vec<Sent>,
        result: &Result<(), Refusal>,
        pause_ms: i64,
    ) {
        let now = self.now;
        let queue = self.clients[client].producer.lanes.get_mut(&lane).unwrap();
        let report_ms = queue.last_report_ms.max(now + pause_ms);
        queue.last_report_ms = report_ms;
        for sent in batch {
            let inbox = Inbox::Delivered {
                ticket: sent.ticket,
                record: sent.record,
                dead_letter: lane.0 == DEAD_LETTERS,
                result: result.clone(),
            };
            self.at(report_ms, What::Deliver { client, inbox });
        }
    }

    /// What a transactional producer has for `lane` waits for a leader until it is too old.
    fn waits(&mut self, client: usize, lane: LaneKey, until_ms: i64) -> bool {
        if until_ms <= self.now {
            return false;
        }
        let longest = (self.scenario.transaction_ms / 3).min(MAX_DELIVERY_MS);
        let queue = self.clients[client].producer.lanes.get_mut(&lane).unwrap();
        let end_ms = queue.pending[0].sent_ms + longest;
        if end_ms > self.now {
            self.at(until_ms.min(end_ms), What::Batch { client, lane });
            return true;
        }
        queue.busy = false;
        let old = self.take_pending(client, lane);
        self.report(client, lane, old, &Err(Refusal::Trouble(Trouble::Transient)), 1);
        self.fail_transaction(client, "message timed out", Some(Trouble::Transient));
        true
    }

    fn take_pending(&mut self, client: usize, lane: LaneKey) -> Vec<Sent> {
        let producer = &mut self.clients[client].producer;
        let sent: Vec<Sent> = producer.lanes.get_mut(&lane).unwrap().pending.drain(..).collect();
        producer.pending -= sent.len();
        producer.reports += sent.len();
        sent
    }

    /// What has not been sent is undone.
    pub fn purge(&mut self, client: usize) {
        let lanes: Vec<LaneKey> = self.clients[client].producer.lanes.keys().copied().collect();
        for lane in lanes {
            let sent = self.take_pending(client, lane);
            let pause = self.rng.i64(1..5);
            self.report(client, lane, sent, &Err(Refusal::Undone), pause);
        }
    }

    fn outcome(&mut self, lane: LaneKey, batch: &[Sent]) -> Result<(), Refusal> {
        let topic = &self.topics[lane.0];
        let trouble = |trouble| Err(Refusal::Trouble(trouble));
        if !topic.exists {
            return trouble(Trouble::UnknownTopic);
        }
        if !topic.allowed {
            return trouble(Trouble::Unauthorized);
        }
        if lane.1 >= topic.partitions {
            return Err(no_such_partition());
        }
        if batch.iter().any(|sent| sent.size > topic.max_size) {
            return trouble(Trouble::TooLarge);
        }
        if lane.0 != DEAD_LETTERS && self.ledger.fates[batch[0].record].cursed {
            return Err(Refusal::produce_failed("invalid record".to_owned()));
        }
        if topic.failing && self.rng.bool() || self.strikes(Fault::Transient, 5) {
            return trouble(Trouble::Transient);
        }
        Ok(())
    }

    /// The process died: of what its producer had, the first records of each partition arrive.
    pub fn producer_dies(&mut self, client: usize) {
        let lanes = std::mem::take(&mut self.clients[client].producer.lanes);
        for (key, mut lane) in lanes {
            let count = self.rng.usize(0..=lane.pending.len().min(self.scenario.batch_records));
            let batch: Vec<Sent> = lane.pending.drain(..count).collect();
            // In a transaction nobody would ever see it.
            let lost = self.scenario.exactly_once || batch.is_empty();
            if !lost && self.outcome(key, &batch).is_ok() {
                for sent in batch {
                    self.landed(sent.record, key.0 == DEAD_LETTERS);
                }
            }
        }
    }
}

fn no_such_partition() -> Refusal {
    Refusal::Permanent(Rejection::new(RejectReason::InvalidPartition, "no such partition"))
}
