//! The guarantees, checked at every call of the port against what really happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kafka_delay::engine::{Refusal, RejectReason, Ticket, Trouble};
use kafka_delay::kafka::{Event, SendError};

use crate::client::SendState;
use crate::group::{Committed, Rebalance};
use crate::ledger::Expect;
use crate::produce::{DEAD_LETTERS, Landed, LaneKey};
use crate::record::{RecordId, SimRecord};
use crate::scenario::Fault;
use crate::transaction::Send;
use crate::world::{START_MS, World, note, partition_of};

/// The client notices a loss this soon after a freeze.
const NOTICE_MS: i64 = 1_300;

/// In a calm world a record is late by no more than this.
const CALM_LATENESS_MS: i64 = 8;

/// As above, when what is due during the end of a transaction waits for the next one.
const CALM_LATENESS_IN_TRANSACTIONS_MS: i64 = 250;

/// Partition and assignment of the delay topic, partition of a destination.
pub type OrderKey = (usize, u32, LaneKey);

/// The order of what one assignment of one partition sends to one partition of a destination.
#[derive(Debug, Default)]
pub struct Order {
    /// The highest offset that was sent.
    last: Option<i64>,
    /// Refused records that are to be sent again, and whether none may overtake them now.
    waiting: BTreeMap<i64, (RecordId, bool)>,
    /// Records that others overtook while they waited: they must not be sent here any more.
    overtaken: BTreeSet<RecordId>,
}

/// A send as the port got it.
#[derive(Debug)]
pub struct Sending<'a> {
    pub ticket: Ticket,
    pub record: RecordId,
    pub topic: &'a Arc<str>,
    pub due_ms: i64,
    pub rejection: Option<RejectReason>,
    pub partition: Option<i32>,
}

impl World {
    /// A worker sends a record.
    pub fn send(&mut self, client: usize, sending: &Sending<'_>) -> Result<(), SendError> {
        self.check_fencing(client, sending);
        self.check_due(client, sending);
        self.check_form(client, sending);
        let fixed = self.lane_of(sending.record);
        let lane = match (sending.rejection, fixed) {
            (Some(_), _) => (DEAD_LETTERS, 0),
            (None, Some(lane)) => lane,
            (None, None) => self.any_lane(sending.record),
        };
        self.clients[client].sent = true;
        let result = self.produce(client, sending.ticket, sending.record, lane);
        note!(
            self,
            "{client}: send {} to {}/{}{}: {result:?}",
            self.name(sending.record),
            sending.topic,
            lane.1,
            sending.rejection.map_or_else(String::new, |reason| format!(" as {}", reason.name())),
        );
        if matches!(result, Err(SendError::TransactionFailed | SendError::Fatal(_))) {
            return result;
        }
        if result == Err(SendError::Full) {
            self.clients[client].was_full = true;
            self.clients[client].backlogged = true;
            return result;
        }
        self.note_sent(client, sending, fixed);
        if result.is_ok() && self.scenario.exactly_once {
            self.note_sent_in_transaction(client, sending, lane.0);
        }
        if let Err(SendError::Refused(refusal)) = &result {
            self.refused(
                client,
                sending.ticket,
                sending.record,
                sending.rejection.is_some(),
                refusal,
            );
        }
        result
    }

    /// G5: nothing is sent for a partition that is being given back.
    fn check_fencing(&mut self, client: usize, sending: &Sending<'_>) {
        let this = &self.clients[client];
        let partition = partition_of(sending.ticket);
        let after_freeze = !self.group.members.contains(&client)
            && this.thawed_ms.is_some_and(|thawed| self.now - thawed < NOTICE_MS);
        let what = if !this.held.contains(&partition) {
            "a partition that is not assigned"
        } else if this.revoked.contains_key(&partition) {
            "a partition that is being revoked"
        } else if this.stopping_ms.is_some() {
            "a partition, while stopping"
        } else if after_freeze {
            "a partition that was lost during a freeze"
        } else {
            return;
        };
        let text = format!("{client} sends {} of {what}", self.name(sending.record));
        self.fail("G5", text);
    }

    /// When `client` first knew of a record, by its own clock.
    fn known_since(&self, client: usize, record: RecordId) -> i64 {
        let fate = &self.ledger.fates[record];
        let this = &self.clients[client];
        let ends = this.known[fate.partition].iter();
        let by_end = ends.filter(|(end, _)| *end > fate.offset).map(|(_, wall)| *wall);
        by_end.chain(this.seen.get(&record).map(|(wall, _)| *wall)).min().unwrap_or(i64::MAX)
    }

    /// From when `client` may send a record, by its own clock.
    fn due(&self, client: usize, record: RecordId) -> i64 {
        let fate = &self.ledger.fates[record];
        let known = self.known_since(client, record);
        let effective = match fate.timestamp_ms {
            Some(timestamp) if timestamp > 0 => timestamp.min(known),
            _ => known,
        };
        effective.saturating_add(self.scenario.delay_ms(fate.partition))
    }

    /// G1, and in a calm world G4 to the millisecond.
    fn check_due(&mut self, client: usize, sending: &Sending<'_>) {
        let fate = &self.ledger.fates[sending.record];
        let known = self.known_since(client, sending.record);
        let usable = fate.timestamp_ms.is_some_and(|at| at > 0 && at <= known);
        if !usable && self.logs[fate.partition].incarnation > 0 {
            // It counts from when its offset was first seen, be it with a record of the old topic.
            return;
        }
        let due = self.due(client, sending.record);
        let wall = self.clients[client].pass_wall;
        let name = self.name(sending.record);
        // What a destination in trouble is tried with was handed on before. A clock that is set
        // back meanwhile does not take it back.
        let this = &self.clients[client];
        let since = this.seen.get(&sending.record).map_or(i64::MAX, |(_, time)| *time);
        let mut set_back = self.set_back.iter();
        let topic = self.topic_of(sending.record).filter(|_| sending.rejection.is_none());
        let tried_again = this.troubled.contains(&topic.unwrap_or(DEAD_LETTERS))
            && set_back
                .any(|set| set.host == this.host && set.at_ms >= since && set.wall_ms >= due);
        if wall < due && !tried_again {
            self.fail("G1", format!("{name} is sent {} ms before it is due", due - wall));
        }
        if sending.due_ms < due {
            let text = format!("{name} counts as due {} ms early", due - sending.due_ms);
            self.fail("G1", text);
        }
        if !self.scenario.calm {
            return;
        }
        let fate = &self.ledger.fates[sending.record];
        let first =
            !self.clients[client].sends.contains_key(&(sending.ticket.epoch, sending.record));
        // It was written, the lane read on from the record before, a lookup answered.
        let ready = (fate.appended_ms + 20).max(self.clients[client].ready_ms[fate.partition]);
        let late = wall - due.max(START_MS + ready);
        let longest = if self.scenario.exactly_once {
            CALM_LATENESS_IN_TRANSACTIONS_MS
        } else {
            CALM_LATENESS_MS
        };
        if first && late > longest {
            self.fail("G4", format!("{name} is sent {late} ms late with nothing in its way"));
        }
    }

    /// G6: the record goes where its headers say, or is dead-lettered for what is the case.
    fn check_form(&mut self, client: usize, sending: &Sending<'_>) {
        let fate = &self.ledger.fates[sending.record];
        let grace = self.scenario.grace_ms;
        let told = |topic: usize, reason: RejectReason| {
            let since = self.clients[client].troubles.get(&(topic, reason));
            since.is_some_and(|since| self.now - since >= grace)
        };
        let right = match (fate.expect, sending.rejection) {
            (Expect::Reject(expected), Some(reason)) => expected == reason,
            (Expect::Reject(_), None) => false,
            (Expect::Forward { topic, partition, .. }, None) => {
                let named = sending.partition.map(|number| usize::try_from(number).unwrap());
                self.topics[topic].name == &**sending.topic && partition == named
            }
            (Expect::Forward { topic, partition, .. }, Some(reason)) => match reason {
                RejectReason::TooLarge => fate.size > self.topics[topic].max_size,
                RejectReason::InvalidPartition => {
                    partition.is_some_and(|number| number >= self.topics[topic].partitions)
                }
                RejectReason::ProduceFailed => fate.cursed && fate.refused,
                RejectReason::UnknownTopic | RejectReason::Unauthorized => told(topic, reason),
                _ => false,
            },
        };
        if !right {
            let text = format!(
                "{} ({:?}) is sent to {} as {:?}",
                self.name(sending.record),
                fate.expect,
                sending.topic,
                sending.rejection,
            );
            self.fail("G6", text);
        }
    }

    /// The partition of the destination that a record's key or header decides.
    pub fn lane_of(&self, record: RecordId) -> Option<LaneKey> {
        match self.ledger.fates[record].expect {
            Expect::Forward { topic, partition: Some(number), .. } => Some((topic, number)),
            Expect::Forward { topic, key: Some(key), .. } => {
                Some((topic, usize::from(key) % self.topics[topic].partitions))
            }
            Expect::Forward { key: None, .. } | Expect::Reject(_) => None,
        }
    }

    fn topic_of(&self, record: RecordId) -> Option<usize> {
        match self.ledger.fates[record].expect {
            Expect::Forward { topic, .. } => Some(topic),
            Expect::Reject(_) => None,
        }
    }

    fn any_lane(&mut self, record: RecordId) -> LaneKey {
        match self.ledger.fates[record].expect {
            Expect::Forward { topic, .. } => {
                let partitions = self.topics[topic].partitions;
                (topic, self.rng.usize(0..partitions))
            }
            Expect::Reject(_) => (DEAD_LETTERS, 0),
        }
    }

    /// G2 (nothing is sent twice without need) and G3.
    fn note_sent(&mut self, client: usize, sending: &Sending<'_>, fixed: Option<LaneKey>) {
        let (record, epoch) = (sending.record, sending.ticket.epoch);
        let partition = partition_of(sending.ticket);
        let name = self.name(record);
        let now = self.now;
        let offset = self.ledger.fates[record].offset;
        let would_commit = self.would_commit(client);
        let this = &mut self.clients[client];
        this.epochs[partition] = epoch;
        this.ready_ms[partition] = now;
        let before = this.sends.insert((epoch, record), SendState::UnderWay);
        let mut broken = None;
        let settled = self.group.ahead[partition].contains(offset)
            && self.ledger.fates[record].acknowledged
            && !self.ledger.unclean[partition]
            && would_commit;
        if before.is_none() && settled {
            broken = Some(("G2", format!("{name} is repeated, though the commit has it settled")));
        }
        if let Some(state @ (SendState::UnderWay | SendState::Acknowledged)) = before {
            broken = Some(("G2", format!("{name} is sent again, though it is {state:?}")));
        }
        // With transactions only the order counts in which they are committed.
        if let Some(lane) = fixed.filter(|_| !self.scenario.exactly_once) {
            let order = this.orders.entry((partition, epoch, lane)).or_default();
            order.waiting.remove(&offset);
            if sending.rejection.is_none() {
                if before.is_none() && order.last.is_some_and(|last| last > offset) {
                    broken = Some(("G3", format!("{name} is sent behind later ones")));
                }
                if order.overtaken.contains(&record) {
                    broken = Some(("G3", format!("{name} was overtaken while it waited")));
                }
                order.last = order.last.max(Some(offset));
                let earlier = order.waiting.range(..offset).filter(|(_, (_, firm))| *firm);
                order.overtaken.extend(earlier.map(|(_, (waiting, _))| *waiting));
            }
        }
        if let Some((guarantee, text)) = broken {
            self.fail(guarantee, text);
        }
    }

    /// G4: a destination in trouble is tried in a transaction of its own.
    fn note_sent_in_transaction(&mut self, client: usize, sending: &Sending<'_>, topic: usize) {
        let (epoch, record) = (sending.ticket.epoch, sending.record);
        let this = &mut self.clients[client].transactions;
        let trial = this.in_trouble.contains(&(epoch, record, topic));
        let shared = this.sends.iter().any(|at| at.topic != topic && (at.trial || trial));
        this.sends.push(Send { epoch, record, topic, trial });
        if shared {
            let name = self.name(record);
            self.fail("G4", format!("{name} shares a transaction with a destination in trouble"));
        }
    }

    /// The worker is told how a send ended.
    pub fn reported(
        &mut self,
        client: usize,
        ticket: Ticket,
        record: RecordId,
        dead_letter: bool,
        result: &Result<(), Refusal>,
    ) {
        match result {
            Ok(()) => {
                let key = (ticket.epoch, record);
                self.clients[client].sends.insert(key, SendState::Acknowledged);
                if self.scenario.exactly_once {
                    let topic =
                        if dead_letter { Some(DEAD_LETTERS) } else { self.topic_of(record) };
                    let this = &mut self.clients[client].transactions;
                    this.proven.extend(topic);
                    this.answered(topic.unwrap_or(DEAD_LETTERS));
                } else {
                    let fate = &self.ledger.fates[record];
                    self.clients[client].taken[fate.partition].remove(&fate.offset);
                    self.ledger.acknowledge(record);
                }
            }
            Err(refusal) => {
                self.clients[client].transactions.refused |= *refusal != Refusal::Undone;
                if let (Refusal::Permanent(_), Some(topic)) = (refusal, self.topic_of(record)) {
                    self.clients[client].transactions.answered(topic);
                }
                self.refused(client, ticket, record, dead_letter, refusal);
            }
        }
        // A refusal by the producer itself comes while others may be on their way to it.
        if !self.clients[client].backlogged {
            self.harden(client);
        }
    }

    fn refused(
        &mut self,
        client: usize,
        ticket: Ticket,
        record: RecordId,
        dead_letter: bool,
        refusal: &Refusal,
    ) {
        let now = self.now;
        let fixed = self.lane_of(record);
        let fate = &mut self.ledger.fates[record];
        let this = &mut self.clients[client];
        this.sends.insert((ticket.epoch, record), SendState::Refused);
        if let Refusal::Trouble(_) = refusal {
            let topic = match fate.expect {
                Expect::Forward { topic, .. } if !dead_letter => topic,
                Expect::Forward { .. } | Expect::Reject(_) => DEAD_LETTERS,
            };
            this.troubled.insert(topic);
            this.transactions.in_trouble.insert((ticket.epoch, record, topic));
        }
        if dead_letter {
            return;
        }
        let reason = match refusal {
            Refusal::Trouble(Trouble::UnknownTopic) => Some(RejectReason::UnknownTopic),
            Refusal::Trouble(Trouble::Unauthorized) => Some(RejectReason::Unauthorized),
            Refusal::Trouble(_) | Refusal::Undone => None,
            Refusal::Permanent(_) => {
                fate.refused = true;
                return;
            }
        };
        if let (Some(reason), Expect::Forward { topic, .. }) = (reason, fate.expect) {
            this.troubles.entry((topic, reason)).or_insert(now);
        }
        if self.scenario.exactly_once {
            fate.waited |= *refusal != Refusal::Undone;
        } else if let Some(lane) = fixed {
            let key = (fate.partition, ticket.epoch, lane);
            let order = this.orders.entry(key).or_default();
            order.waiting.insert(fate.offset, (record, false));
            this.soft.push((key, fate.offset));
        }
    }

    /// What was handed on before the refusals is sent: from now on nothing may overtake them.
    fn harden(&mut self, client: usize) {
        let this = &mut self.clients[client];
        for (key, offset) in this.soft.drain(..) {
            if let Some((_, firm)) =
                this.orders.get_mut(&key).and_then(|order| order.waiting.get_mut(&offset))
            {
                *firm = true;
            }
        }
    }

    /// A pass ended: unless the producer was full, all that was to be sent is sent.
    pub fn pass_ended(&mut self, client: usize) {
        if self.clients[client].lost && self.clients[client].dies_after.is_none() {
            self.fail("G5", format!("{client} keeps partitions that it was told are lost"));
        }
        let this = &mut self.clients[client];
        let (was_full, sent) = (std::mem::take(&mut this.was_full), std::mem::take(&mut this.sent));
        // A pass in the pause after a freeze tries nothing.
        this.backlogged &= was_full || !sent;
        if !this.backlogged {
            self.harden(client);
        }
    }

    /// A destination or the dead-letter topic holds a record.
    pub fn landed(&mut self, record: RecordId, dead_letter: bool) {
        let fate = &mut self.ledger.fates[record];
        self.ledger.repeated += u64::from(fate.arrived());
        if dead_letter {
            fate.dead += 1;
        } else {
            fate.landed += 1;
        }
    }

    /// Whether the settings let a worker drop this record.
    pub fn may_be_dropped(&self, record: RecordId) -> bool {
        self.scenario.drop_refused && self.may_be_rejected(record)
    }

    /// Whether there can be a reason to reject this record.
    pub fn may_be_rejected(&self, record: RecordId) -> bool {
        let fate = &self.ledger.fates[record];
        match fate.expect {
            Expect::Reject(_) => true,
            Expect::Forward { topic, partition, .. } => {
                let topic = &self.topics[topic];
                let doubtful = self.scenario.has(Fault::Destinations)
                    && matches!(topic.name, "late" | "forbidden");
                doubtful
                    || fate.cursed
                    || fate.size > topic.max_size
                    || partition.is_some_and(|number| number >= topic.partitions)
            }
        }
    }

    /// G5 and G2: a commit is made by the owner, and names only what is settled, or delivered in
    /// the transaction that it is a part of.
    pub fn check_commit(&mut self, client: usize, commits: &[Committed], with_open: bool) {
        for commit in commits {
            let (partition, offset) = (commit.partition, commit.offset.unwrap());
            let delivered = |record| with_open && self.is_delivered(client, record);
            let ahead = self.logs[partition].from(0).iter().find(|record| {
                commit.ahead.contains(record.0.offset)
                    && !self.ledger.fates[record.0.id].settled()
                    && !self.may_be_dropped(record.0.id)
                    && !delivered(record.0.id)
            });
            if let Some(id) = ahead.map(|record| record.0.id) {
                let text = format!("a commit counts {} as settled", self.name(id));
                self.fail("G2", text);
            }
            if !self.clients[client].held.contains(&partition) {
                let text = format!("{client} commits {partition}, which is not assigned");
                self.fail("G5", text);
            }
            let log = &self.logs[partition];
            if offset > log.end && log.incarnation == 0 {
                let text = format!("commit of {partition}/{offset} beyond the log's {}", log.end);
                self.fail("G2", text);
            }
            let delivered = |record| with_open && self.is_delivered(client, record);
            if let Some(record) = self.first_unsettled(partition, offset, delivered) {
                let text = format!("commit of {offset} above {}, unsettled", self.name(record));
                self.fail("G2", text);
            }
        }
    }

    /// Whether `client` was told that a record is delivered in its open transaction.
    fn is_delivered(&self, client: usize, record: RecordId) -> bool {
        let this = &self.clients[client];
        let epoch = this.epochs[self.ledger.fates[record].partition];
        this.sends.get(&(epoch, record)) == Some(&SendState::Acknowledged)
    }

    /// G8 and G3: a record becomes visible, once and in order, with a commit that covers it.
    pub fn check_visible(&mut self, landed: &Landed, offsets: &BTreeMap<usize, Committed>) {
        let &Landed { client, record, ticket, lane } = landed;
        self.landed(record, lane.0 == DEAD_LETTERS);
        let name = self.name(record);
        let fate = &self.ledger.fates[record];
        let (partition, offset) = (fate.partition, fate.offset);
        if self.ledger.unclean[partition] {
            return;
        }
        let covered = offsets.get(&partition).is_some_and(|commit| {
            commit.offset.is_some_and(|next| offset < next) || commit.ahead.contains(offset)
        });
        let again = fate.landed + fate.dead > 1;
        let waited = fate.waited || self.lane_of(record) != Some(lane);
        let owner = (client, partition, ticket.epoch);
        let last = self.visible.entry((owner, lane)).or_insert(-1);
        let overtaken = !waited && *last > offset;
        *last = offset.max(*last);
        if again {
            self.fail("G8", format!("{name} is visible again"));
        }
        if !covered {
            self.fail("G8", format!("{name} becomes visible without its commit"));
        }
        if overtaken {
            self.fail("G3", format!("{name} becomes visible behind later ones"));
        }
    }

    /// G8: a commit covers nothing that is not visible with it or before.
    pub fn check_passed_over(&mut self, commit: &Committed) {
        let (partition, offset) = (commit.partition, commit.offset.unwrap());
        let below = self.first_unsettled(partition, offset, |_| false);
        let mut records = self.logs[partition].from(0).iter().map(|record| &record.0);
        let above = records.find(|record| {
            commit.ahead.contains(record.offset)
                && !self.ledger.fates[record.id].settled()
                && !self.may_be_dropped(record.id)
        });
        if let Some(record) = below.or(above.map(|record| record.id)) {
            let text = format!("{} is committed, and not visible", self.name(record));
            self.fail("G8", text);
        }
    }

    /// A transaction was aborted: whose fault the worker was told it is.
    pub fn note_blame(&mut self, client: usize, sends: &[Send], trouble: Option<Trouble>) {
        let reason = match trouble {
            Some(Trouble::UnknownTopic) => RejectReason::UnknownTopic,
            Some(Trouble::Unauthorized) => RejectReason::Unauthorized,
            Some(Trouble::TooLarge | Trouble::Transient) | None => return,
        };
        let now = self.now;
        for at in sends {
            self.clients[client].troubles.entry((at.topic, reason)).or_insert(now);
        }
    }

    /// Whether the producer of `client` may have ended it: the coordinator gave its transaction up
    /// for good reason, or it failed before it began.
    pub fn may_end(&self, client: usize) -> bool {
        let slow = [Fault::LateReports, Fault::Freezes, Fault::Blackouts, Fault::Commits];
        let this = &self.clients[client].transactions;
        let slow = slow.into_iter().any(|fault| self.scenario.has(fault));
        this.fenced && slow || this.never_begun
    }

    /// False for one that was dropped and does not know: it will find out when it commits, and with
    /// transactions nobody ever sees what it sent.
    fn would_commit(&self, client: usize) -> bool {
        !self.scenario.exactly_once || self.group.members.contains(&client)
    }

    /// Repetitions in this partition are explained. With transactions nothing but lost commits
    /// explains one.
    pub fn soil(&mut self, partition: usize) {
        self.ledger.unclean[partition] |= !self.scenario.exactly_once;
    }

    /// The first record below `offset` that nobody may pass over.
    fn first_unsettled(
        &self,
        partition: usize,
        offset: i64,
        also: impl Fn(RecordId) -> bool,
    ) -> Option<RecordId> {
        let records = self.logs[partition].from(0).iter();
        let mut below = records.take_while(|record| record.0.offset < offset);
        let open = |record: &&SimRecord| {
            !self.ledger.fates[record.0.id].settled()
                && !self.may_be_dropped(record.0.id)
                && !also(record.0.id)
        };
        below.find(open).map(|record| record.0.id)
    }

    /// G2: a new owner begins where everything below is settled, and repeats nothing without cause.
    pub fn check_assign(&mut self, client: usize, starts: &[(usize, i64)]) {
        let relocating = self.clients[client].relocating;
        for &(partition, start) in starts {
            let again = relocating == Some(partition);
            if let Some(record) = self.first_unsettled(partition, start, |_| false) {
                let fate = &self.ledger.fates[record];
                let in_memory = again
                    && self.clients[client].taken[partition].get(&fate.offset) == Some(&record);
                if !in_memory {
                    let text = format!("{} is passed over: begins at {start}", self.name(record));
                    self.fail("G2", text);
                }
            }
            let ahead = &self.group.ahead[partition];
            let arrived = |record: &&SimRecord| {
                self.ledger.fates[record.0.id].arrived() && !ahead.contains(record.0.offset)
            };
            let repeated = self.logs[partition].from(start).iter().find(arrived);
            if let Some(id) = repeated.map(|record| record.0.id)
                && !self.ledger.unclean[partition]
                && !again
                && self.would_commit(client)
            {
                let text = format!("{} will be repeated without cause", self.name(id));
                self.fail("G2", text);
            }
            let now = self.now;
            let this = &mut self.clients[client];
            if !this.held.insert(partition) {
                self.fail("contract", format!("assign of {partition}, which is assigned"));
            }
            let this = &mut self.clients[client];
            this.ready_ms[partition] = now + 20;
            if !again || start <= this.position[partition] {
                this.taken[partition].clear();
                this.position[partition] = start - 1;
            }
            if !again {
                this.epochs[partition] = 0;
                this.known[partition].clear();
                let ledger = &self.ledger;
                this.seen.retain(|record, _| ledger.fates[*record].partition != partition);
            } else if start < this.position[partition] {
                self.ledger.unclean[partition] = true;
            }
        }
    }

    /// The worker is told of a rebalance.
    pub fn told(&mut self, client: usize, event: &Event) {
        let now = self.now;
        if let Event::Revoked { partitions, lost } = event {
            let this = &mut self.clients[client];
            this.lost |= lost;
            this.commit_trouble = false;
            for partition in partitions {
                this.revoked.insert(usize::try_from(*partition).unwrap(), now);
            }
        }
    }

    /// G5: a partition is given back drained and committed, or after its time.
    pub fn check_release(&mut self, client: usize, released: &[usize], event: &Rebalance) {
        let Rebalance::Revoke { partitions, lost } = event else { return };
        let told_lost = self.clients[client].lost;
        self.clients[client].lost &= !lost;
        for partition in partitions {
            let since = self.clients[client].revoked.remove(partition).unwrap_or(self.now);
            if !released.contains(partition) {
                continue;
            }
            if told_lost {
                self.soil(*partition);
                continue;
            }
            // A stop that began earlier has its own, shorter wait.
            let stopping = self.clients[client].stopping_ms;
            let stopped = stopping.is_some_and(|at| self.now - at >= self.scenario.stop_timeout_ms);
            let drained = self.now - since >= self.scenario.drain_timeout_ms();
            self.check_handover(client, *partition, drained || stopped);
        }
    }

    /// What must hold when a partition is given back; `timed_out` excuses it.
    pub fn check_handover(&mut self, client: usize, partition: usize, timed_out: bool) {
        let this = &self.clients[client];
        let epoch = this.epochs[partition];
        let under_way = this.taken[partition]
            .values()
            .find(|record| {
                let state = this.sends.get(&(epoch, **record));
                let in_transaction = self.scenario.exactly_once
                    && state == Some(&SendState::Acknowledged)
                    && !self.ledger.unclean[partition];
                in_transaction || state == Some(&SendState::UnderWay)
            })
            .copied();
        if let Some(record) = under_way.filter(|_| !timed_out) {
            let text = format!("{client} gives back while {} is under way", self.name(record));
            self.fail("G5", text);
        }
        let committed = self.group.committed[partition].unwrap_or(0);
        let excused = timed_out || self.clients[client].commit_trouble;
        let log = &self.logs[partition];
        let ahead = &self.group.ahead[partition];
        let mut above = log.from(committed).iter();
        let first = above.find(|record| !ahead.contains(record.0.offset));
        let first = first.map(|record| record.0.id);
        // What retention deleted may still be on its way, and holds up the commit.
        let earlier = self.clients[client].taken[partition].values().next();
        let held_up = earlier.zip(first).is_some_and(|(earlier, first)| *earlier < first);
        if let Some(record) = first
            && !held_up
            && self.ledger.fates[record].acknowledged
            && !excused
            && !self.ledger.unclean[partition]
        {
            let text = format!("{client} gives back without a commit of {}", self.name(record));
            self.fail("G5", text);
        }
        let ahead = &self.group.ahead[partition];
        let arrived = |record: &SimRecord| {
            self.ledger.fates[record.0.id].arrived() && !ahead.contains(record.0.offset)
        };
        if under_way.is_some() || self.logs[partition].from(committed).iter().any(arrived) {
            self.soil(partition);
        }
    }

    /// A worker reads a record; G7: what it has is within its limits.
    pub fn check_read(&mut self, client: usize, partition: usize, record: &SimRecord) {
        let (wall, now) = (self.clients[client].pass_wall, self.now);
        let this = &mut self.clients[client];
        let (seen, _) = this.seen.entry(record.0.id).or_insert((wall, now));
        *seen = wall.min(*seen);
        if record.0.offset <= this.position[partition] {
            return;
        }
        this.position[partition] = record.0.offset;
        if !this.ahead[partition].contains(record.0.offset) {
            this.taken[partition].insert(record.0.offset, record.0.id);
        }
        let this = &self.clients[client];
        let all = this.taken.iter().flat_map(BTreeMap::values);
        let all = all.filter(|record| !self.may_be_dropped(**record));
        let sizes = all.map(|record| self.ledger.fates[*record].size);
        let (records, bytes) = sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size));
        // Each lane may have one record whatever the limit, and holds one more as its head.
        let lanes = 2 * this.held.len();
        if records > self.scenario.max_records + lanes
            || bytes > self.scenario.max_bytes + lanes * 1_500
        {
            self.fail("G7", format!("{client} has {records} records, {bytes} bytes in hand"));
        }
    }

    /// A partition is parked: its head is no longer in memory.
    pub fn put_back(&mut self, client: usize, partition: usize, offset: i64) {
        let this = &mut self.clients[client];
        this.taken[partition].split_off(&offset);
        this.position[partition] = offset - 1;
    }
}
