//! All lanes together: what is sent next, within which limits, and what becomes of it.
//!
//! The engine takes events with the time they happened, answers with [`Action`]s, and says when it
//! wants to be called next. Calling it early or twice changes nothing.

use std::collections::{BTreeMap, VecDeque};

use super::action::{Action, Form, Notice, Outgoing, Ticket};
use super::commit::{Ahead, Commit, MAX_AHEAD};
use super::destination::DestinationPolicy;
use super::destinations::{DestinationId, Destinations, RetryPolicy, Role};
use super::entry::{Entry, Progress, Target};
use super::envelope::Envelope;
use super::isolation::Trouble;
use super::lane::{Lane, MAX_WINDOW_RECORDS, Offered, Phase, Wish};
use super::level::LevelTable;
use super::record::Record;
use super::time::{Now, Wakeup};

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The delay levels.
    pub levels: LevelTable,
    /// Which topics records may go to.
    pub policy: DestinationPolicy,
    /// The dead-letter topic; without one `drop_refused` decides.
    pub dead_letter_topic: Option<String>,
    /// Drop what the dead-letter topic refuses or cannot take; otherwise its level halts.
    pub drop_refused: bool,
    /// A head due later than this is parked.
    pub park_after_ms: i64,
    /// A parked partition is fetched again this long before its head is due.
    pub wake_lead_ms: i64,
    /// Timestamps further ahead of the clock are reported.
    pub future_tolerance_ms: i64,
    /// Retries of destinations in trouble.
    pub retry: RetryPolicy,
    /// Bytes handed on and not settled, all lanes together.
    pub max_in_flight_bytes: usize,
    /// As above, in records.
    pub max_in_flight_records: usize,
    /// Records are sent in transactions, and settled when theirs is committed.
    pub transactional: bool,
}

/// Lanes, destinations and limits.
#[derive(Debug)]
pub struct Engine<R> {
    pub(super) config: EngineConfig,
    pub(super) lanes: Vec<Option<Lane<R>>>,
    pub(super) destinations: Destinations,
    pub(super) dead_letter: Option<DestinationId>,
    pub(super) actions: VecDeque<Action>,
    pub(super) notices: VecDeque<Notice>,
    pub(super) unsettled_bytes: usize,
    pub(super) unsettled_records: usize,
    next_epoch: u32,
    next_order: u64,
    /// Handed on, and not due any more since the clock was set back; by partition and order.
    pub(super) postponed: BTreeMap<(i32, u64), Ticket>,
    /// The lane that is served first next time.
    turn: usize,
}

impl<R: Record> Engine<R> {
    /// An engine without lanes.
    pub fn new(config: EngineConfig) -> Self {
        let mut destinations = Destinations::new(config.retry);
        let dead_letter = config
            .dead_letter_topic
            .as_deref()
            .map(|topic| destinations.intern(topic, Role::DeadLetter));
        Self {
            config,
            lanes: Vec::new(),
            destinations,
            dead_letter,
            actions: VecDeque::new(),
            notices: VecDeque::new(),
            unsettled_bytes: 0,
            unsettled_records: 0,
            next_epoch: 1,
            next_order: 0,
            postponed: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Starts a lane for a newly assigned partition, at its committed offset; `ahead` came with
    /// that commit.
    pub fn assign(&mut self, partition: i32, start_offset: i64, ahead: Ahead) {
        self.forget(partition);
        let slot = usize::try_from(partition).expect("partitions are not negative");
        if self.lanes.len() <= slot {
            self.lanes.resize_with(slot + 1, || None);
        }
        let level = self.config.levels.of_partition(partition);
        self.lanes[slot] = Some(Lane::new(partition, self.next_epoch, level, start_offset, ahead));
        self.next_epoch = self.next_epoch.wrapping_add(1);
    }

    /// The lane of `partition` starts elsewhere than at its commit: its start is to be committed.
    pub fn not_committed(&mut self, partition: i32) {
        if let Some(lane) = self.lane_mut(partition) {
            lane.not_committed();
        }
    }

    /// Stops sending for a partition that is being revoked (G5).
    pub fn revoke(&mut self, partition: i32) {
        if let Some(lane) = self.lane_mut(partition) {
            lane.drain();
        }
    }

    /// Whether a revoked partition has nothing left with the producer.
    pub fn is_drained(&self, partition: i32) -> bool {
        self.lane(partition).is_none_or(Lane::is_drained)
    }

    /// Ends a lane. Acknowledgements that still come for it are ignored.
    pub fn forget(&mut self, partition: i32) {
        let slot = usize::try_from(partition).unwrap_or(usize::MAX);
        if let Some(lane) = self.lanes.get_mut(slot).and_then(Option::take) {
            self.unsettled_bytes -= lane.unsettled_bytes;
            self.unsettled_records -= lane.unsettled_records;
            self.postponed.retain(|(of_lane, _), _| *of_lane != partition);
        }
    }

    /// Whether the lane of `partition` takes a record from its queue.
    pub fn wants_record(&self, partition: i32) -> bool {
        self.lane(partition).is_some_and(Lane::wants_record)
    }

    /// Takes the next record of `partition`.
    pub fn offer(&mut self, partition: i32, record: R, now_ms: i64) -> Offered {
        let tolerance_ms = self.config.future_tolerance_ms;
        match self.lane_mut(partition) {
            Some(lane) => lane.offer(record, now_ms, tolerance_ms),
            None => Offered::Unwanted,
        }
    }

    /// Does all that is due in every lane and every destination. Lanes take turns at being first.
    pub fn advance(&mut self, now: Now) {
        self.retry_destinations(now.steady_ms);
        self.send_postponed(now);
        let count = self.lanes.len();
        for step in 0..count {
            let slot = (self.turn + step) % count;
            self.advance_slot(slot, now);
        }
        self.turn = (self.turn + 1) % count.max(1);
    }

    /// Does all that is due in the lane of `partition`.
    pub fn advance_lane(&mut self, partition: i32, now: Now) {
        if let Ok(slot) = usize::try_from(partition) {
            self.advance_slot(slot, now);
        }
    }

    fn advance_slot(&mut self, slot: usize, now: Now) {
        let park_after_ms = self.config.park_after_ms;
        let Some(lane) = self.lanes.get_mut(slot).and_then(Option::as_mut) else { return };
        let partition = lane.partition;
        match lane.wish(now.wall_ms, park_after_ms) {
            Wish::Nothing => {}
            Wish::Park(offset) => self.actions.push_back(Action::Park { partition, offset }),
            Wish::Unpark(offset) => self.actions.push_back(Action::Unpark { partition, offset }),
            Wish::HandOn => self.hand_on(slot, now),
        }
    }

    /// The next thing to be done.
    pub fn next_action(&mut self) -> Option<Action> {
        while let Some(action) = self.actions.pop_front() {
            let still_meant = match action {
                Action::Send(_) => true,
                Action::Park { partition, .. } => self.phase(partition) == Some(Phase::Holding),
                Action::Unpark { partition, .. } => self.phase(partition) == Some(Phase::Parked),
            };
            if still_meant {
                return Some(action);
            }
        }
        None
    }

    /// The next thing to be counted or logged.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The partition was paused with its next fetch at its head.
    pub fn parked(&mut self, partition: i32) {
        let wake_lead_ms = self.config.wake_lead_ms;
        if let Some(lane) = self.lane_mut(partition) {
            lane.parked(wake_lead_ms);
        }
    }

    /// The partition is fetched again from its head.
    pub fn unparked(&mut self, partition: i32) {
        if let Some(lane) = self.lane_mut(partition) {
            lane.unparked();
        }
    }

    /// What to send for `ticket`; `None` when its lane is gone or draining: then nothing is sent,
    /// and [`Self::abandoned`] is called.
    pub fn outgoing(&self, ticket: Ticket) -> Option<Outgoing<'_, R>> {
        let lane = self.lane(ticket.partition).filter(|lane| lane.epoch == ticket.epoch)?;
        if lane.phase() == Phase::Draining {
            return None;
        }
        let (_, entry) = lane.window.get(ticket.index)?;
        let form = match &entry.target {
            Target::Forward(envelope) => {
                Form::Forward { key: envelope.key, partition: envelope.partition }
            }
            Target::DeadLetter(rejection) => {
                Form::DeadLetter { rejection, level: lane.level.number }
            }
        };
        let topic = self.destinations.name(entry.destination);
        Some(Outgoing { record: &entry.record, topic, due_ms: entry.due_ms, form })
    }

    /// The log of `partition` begins at `offset` now, behind the position of its lane.
    pub fn skip_to(&mut self, partition: i32, offset: i64) {
        if let Some(lane) = self.lane_mut(partition) {
            lane.skip_to(offset);
        }
    }

    /// Notes how far the log of `partition` reaches.
    pub fn observe_end(&mut self, partition: i32, end_offset: i64, now_ms: i64) {
        if let Some(lane) = self.lane_mut(partition) {
            lane.observe_end(end_offset, now_ms);
        }
    }

    /// What is to be committed.
    pub fn uncommitted(&self) -> impl Iterator<Item = Commit> + '_ {
        self.lanes().filter_map(Lane::uncommitted)
    }

    /// A commit was taken by the group's coordinator.
    pub fn committed(&mut self, commit: &Commit) {
        if let Some(lane) =
            self.lane_mut(commit.partition).filter(|lane| lane.epoch == commit.epoch)
        {
            lane.committed_up_to(commit);
        }
    }

    /// When the engine wants to be called again, if no event comes first.
    pub fn next_wakeup(&self, wall_ms: i64) -> Wakeup {
        let park_after_ms = self.config.park_after_ms;
        let lanes = self.lanes().filter_map(|lane| lane.next_wakeup_ms(wall_ms, park_after_ms));
        let wall_ms = lanes.chain(self.next_postponed_ms()).min();
        Wakeup { wall_ms, steady_ms: self.destinations.next_wakeup_ms() }
    }

    /// All lanes, by partition.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane<R>> {
        self.lanes.iter().flatten()
    }

    /// The lane of `partition`.
    pub fn lane(&self, partition: i32) -> Option<&Lane<R>> {
        self.lanes.get(usize::try_from(partition).ok()?)?.as_ref()
    }

    /// Records and bytes handed on and not settled.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.unsettled_records, self.unsettled_bytes)
    }

    /// Destinations in trouble.
    pub fn destinations_in_trouble(&self) -> impl Iterator<Item = (&str, Trouble)> {
        self.destinations.in_trouble()
    }

    fn phase(&self, partition: i32) -> Option<Phase> {
        self.lane(partition).map(Lane::phase)
    }

    fn lane_mut(&mut self, partition: i32) -> Option<&mut Lane<R>> {
        self.lanes.get_mut(usize::try_from(partition).ok()?)?.as_mut()
    }

    /// Whether a lane may hand on its head. A lane may use as much as all lanes leave free
    /// ("dynamic threshold"): alone it gets half of the limit, and something always stays free for
    /// a lane that has nothing under way.
    fn has_room(&self, lane: &Lane<R>) -> bool {
        let waits_for_clock = self.first_postponed(lane.partition).is_some();
        if lane.window.span() >= MAX_WINDOW_RECORDS || waits_for_clock {
            return false;
        }
        // Beyond this a commit could not tell what is settled and what is not.
        let ahead = lane.next_to_send() - lane.window.prefix();
        if self.config.transactional && lane.unsettled_records > 0 && ahead >= MAX_AHEAD {
            return false;
        }
        let free_bytes = self.config.max_in_flight_bytes.saturating_sub(self.unsettled_bytes);
        let free_records = self.config.max_in_flight_records.saturating_sub(self.unsettled_records);
        lane.unsettled_records == 0
            || (lane.unsettled_bytes + lane.head_bytes() <= free_bytes
                && lane.unsettled_records < free_records)
    }

    fn hand_on(&mut self, slot: usize, now: Now) {
        let lane = self.lanes[slot].as_ref().expect("the caller found it");
        if !self.has_room(lane) {
            return;
        }
        let lane = self.lanes[slot].as_mut().expect("the caller found it");
        let head = lane.take_head(now.wall_ms);
        let envelope = Envelope::parse(&head.record).and_then(|envelope| {
            self.config.policy.check(&envelope.topic)?;
            Ok(envelope)
        });
        let size_bytes = head.record.size_bytes();
        lane.unsettled_bytes += size_bytes;
        lane.unsettled_records += 1;
        self.unsettled_bytes += size_bytes;
        self.unsettled_records += 1;
        let order = self.next_order;
        self.next_order += 1;
        let (target, destination) = match envelope {
            Ok(envelope) => {
                let id = self.destinations.intern(&envelope.topic, Role::Origin);
                (Target::Forward(envelope), id)
            }
            Err(rejection) => {
                let id = self.dead_letter.unwrap_or_else(|| self.destinations.nowhere());
                (Target::DeadLetter(rejection), id)
            }
        };
        let offset = head.record.offset();
        let entry = Entry {
            record: head.record,
            due_ms: head.due_ms,
            size_bytes,
            order,
            target,
            destination,
            progress: Progress::Waiting,
        };
        let index = lane.window.push(offset, entry);
        lane.check();
        let ticket = Ticket { partition: lane.partition, epoch: lane.epoch, index, destination };
        self.submit(ticket, now.steady_ms);
    }
}

/// The lane of `ticket`, unless it belongs to an earlier assignment (G5).
pub(super) fn live_lane<R>(lanes: &mut [Option<Lane<R>>], ticket: Ticket) -> Option<&mut Lane<R>> {
    let lane = lanes.get_mut(usize::try_from(ticket.partition).ok()?)?.as_mut()?;
    (lane.epoch == ticket.epoch).then_some(lane)
}
