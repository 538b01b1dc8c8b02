//! One assigned partition: its head, what is under way, and whether it is held or parked.
//!
//! ```text
//!            offer                due now, room left
//!  Reading --------> Holding ------------------------> (handed on) --> Reading
//!     ^                 |  due later than park_after
//!     | unparked        v
//!     +------------- Parked          revoke, from anywhere --> Draining
//! ```
//!
//! Invariant: `committed <= settled prefix <= next to send <= position`.
//!
//! A lane lives for one assignment. Nothing of it survives a revoke; its epoch tells late
//! acknowledgements of an earlier assignment of the same partition from its own.

mod clock;

use super::arrivals::Arrivals;
use super::commit::{Ahead, Commit};
use super::entry::{Entry, Progress};
use super::level::Level;
use super::offsets::Window;
use super::record::Record;
use super::time;

/// Records handed on but not committed, at most, in one lane. Bounds memory (about 100 bytes each)
/// and what is sent again after a crash while one record waits for its destination.
pub const MAX_WINDOW_RECORDS: usize = 131_072;

/// A park that was asked for and not confirmed is asked for again after this long.
const PARK_RETRY_MS: i64 = 5_000;

/// As above for an unpark; short, because the head's due time is near.
const UNPARK_RETRY_MS: i64 = 200;

/// Why the next record of a lane is not being handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the next record of the partition.
    Reading,
    /// The head is in memory and not due yet, or due and waiting for room.
    Holding,
    /// The partition is paused; its head is read again shortly before it is due.
    Parked,
    /// Revoked: nothing new is sent, acknowledgements are awaited.
    Draining,
}

/// The head of a lane: read, not handed on.
#[derive(Debug)]
pub struct Head<R> {
    /// The record itself.
    pub record: R,
    /// The moment from which it may be forwarded.
    pub due_ms: i64,
    /// When the daemon first knew of it.
    first_seen_ms: i64,
    /// Not parked before this moment.
    park_from_ms: i64,
}

#[derive(Debug)]
enum State<R> {
    Reading,
    Holding(Head<R>),
    Parked(Parked),
    Draining,
}

/// What is known of a head whose partition is paused.
#[derive(Debug)]
struct Parked {
    offset: i64,
    timestamp_ms: Option<i64>,
    first_seen_ms: i64,
    due_ms: i64,
    /// When the partition is fetched again.
    wake_ms: i64,
}

/// What a lane wants at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing before the next event or [`Lane::next_wakeup_ms`].
    Nothing,
    /// To hand on its head, which is due.
    HandOn,
    /// To be paused with its next fetch at this offset.
    Park(i64),
    /// To be fetched again from this offset.
    Unpark(i64),
}

/// What became of an offered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is the head now.
    Accepted(time::TimestampQuality),
    /// It is the head again, after its partition was parked.
    AcceptedAgain,
    /// It lies below the lane's position: read again after a seek, or from before a pause.
    Stale,
    /// It was settled by an earlier owner of the partition.
    Settled,
    /// The lane has a head, is parked or is draining. The record is read again later.
    Unwanted,
}

/// The state of one assigned partition.
#[derive(Debug)]
pub struct Lane<R> {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Number of this assignment, different for every assignment of the process.
    pub epoch: u32,
    /// The level of the partition.
    pub level: Level,
    /// Records handed on.
    pub window: Window<Entry<R>>,
    /// Bytes of unsettled records.
    pub unsettled_bytes: usize,
    /// Number of unsettled records.
    pub unsettled_records: usize,
    /// Of these, how many are with the producer.
    pub sent_records: usize,
    /// Of these, how many are acknowledged in a transaction that is not committed.
    pub delivered_records: usize,
    /// A record was refused and has nowhere to go.
    pub halted: bool,
    state: State<R>,
    position: i64,
    committed: i64,
    /// Settled above the committed offset by an earlier owner.
    ahead: Ahead,
    /// Changes to what is settled, and how many of them are committed.
    changes: u64,
    committed_changes: u64,
    arrivals: Arrivals,
    /// When a head that was parked was first seen, so that reading it again does not clamp it anew.
    /// Its offset and timestamp tell it from a record of a topic that was recreated meanwhile.
    parked_seen: Option<((i64, Option<i64>), i64)>,
}

impl<R: Record> Lane<R> {
    /// A lane that reads from `start_offset`, the group's committed offset. `ahead` came with that
    /// commit.
    pub fn new(partition: i32, epoch: u32, level: Level, start_offset: i64, ahead: Ahead) -> Self {
        Self {
            partition,
            epoch,
            level,
            window: Window::new(start_offset),
            unsettled_bytes: 0,
            unsettled_records: 0,
            sent_records: 0,
            delivered_records: 0,
            halted: false,
            state: State::Reading,
            position: start_offset,
            committed: start_offset,
            ahead,
            changes: 0,
            committed_changes: 0,
            arrivals: Arrivals::default(),
            parked_seen: None,
        }
    }

    /// Whether the lane takes a record from its queue.
    pub fn wants_record(&self) -> bool {
        matches!(self.state, State::Reading)
    }

    /// Takes the next record of the partition.
    pub fn offer(&mut self, record: R, now_ms: i64, tolerance_ms: i64) -> Offered {
        if !self.wants_record() {
            return Offered::Unwanted;
        }
        let offset = record.offset();
        if offset < self.position {
            return Offered::Stale;
        }
        if self.ahead.contains(offset) {
            self.position = offset + 1;
            self.window.push_settled(offset);
            self.changes += 1;
            return Offered::Settled;
        }
        let timestamp_ms = record.timestamp_ms();
        let mut first_seen_ms = self.arrivals.first_seen_ms(offset, now_ms);
        let parked = self.parked_seen.take().filter(|(head, _)| *head == (offset, timestamp_ms));
        if let Some((_, seen_ms)) = parked {
            first_seen_ms = first_seen_ms.min(seen_ms);
        }
        let due_ms = time::due_ms(timestamp_ms, first_seen_ms, self.level.delay_ms);
        self.position = offset + 1;
        self.state = State::Holding(Head { record, due_ms, first_seen_ms, park_from_ms: now_ms });
        match parked {
            Some(_) => Offered::AcceptedAgain,
            None => Offered::Accepted(time::judge(timestamp_ms, now_ms, tolerance_ms)),
        }
    }

    /// What the lane wants at `now_ms`. Asking twice changes nothing but the moment at which an
    /// unconfirmed park or unpark is asked for again.
    pub fn wish(&mut self, now_ms: i64, park_after_ms: i64) -> Wish {
        match &mut self.state {
            State::Reading | State::Draining => Wish::Nothing,
            State::Holding(_) if self.halted => Wish::Nothing,
            State::Holding(head) if head.due_ms <= now_ms => Wish::HandOn,
            State::Holding(head)
                if head.due_ms.saturating_sub(now_ms) > park_after_ms
                    && head.park_from_ms <= now_ms =>
            {
                head.park_from_ms = now_ms.saturating_add(PARK_RETRY_MS);
                Wish::Park(head.record.offset())
            }
            State::Holding(_) => Wish::Nothing,
            State::Parked(parked) if parked.wake_ms <= now_ms => {
                parked.wake_ms = now_ms.saturating_add(UNPARK_RETRY_MS);
                Wish::Unpark(parked.offset)
            }
            State::Parked(_) => Wish::Nothing,
        }
    }

    /// The partition was paused with its next fetch at the head; the head is dropped.
    pub fn parked(&mut self, wake_lead_ms: i64) {
        if let State::Holding(head) = &self.state {
            let (offset, due_ms) = (head.record.offset(), head.due_ms);
            let (timestamp_ms, first_seen_ms) = (head.record.timestamp_ms(), head.first_seen_ms);
            self.position = offset;
            self.parked_seen = Some(((offset, timestamp_ms), first_seen_ms));
            let wake_ms = due_ms.saturating_sub(wake_lead_ms);
            self.state =
                State::Parked(Parked { offset, timestamp_ms, first_seen_ms, due_ms, wake_ms });
        }
    }

    /// The partition is fetched again.
    pub fn unparked(&mut self) {
        if let State::Parked(_) = self.state {
            self.state = State::Reading;
        }
    }

    /// The log begins at `offset` now: what lay between it and the position is gone. Records that
    /// were handed on stay, since they are in memory.
    pub fn skip_to(&mut self, offset: i64) {
        if self.wants_record() {
            self.position = self.position.max(offset);
            self.window.skip_to(self.position);
            self.changes += 1;
        }
    }

    /// Takes the head that is due at `now_ms`.
    ///
    /// # Panics
    /// If there is no head or it is not due (G1).
    pub fn take_head(&mut self, now_ms: i64) -> Head<R> {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Holding(head) => {
                assert!(head.due_ms <= now_ms, "due {} handed on at {now_ms}", head.due_ms);
                head
            }
            State::Reading | State::Parked(_) | State::Draining => {
                unreachable!("a head is taken only when the lane wished to hand it on")
            }
        }
    }

    /// Size of the head in bytes, zero without one.
    pub fn head_bytes(&self) -> usize {
        match &self.state {
            State::Holding(head) => head.record.size_bytes(),
            State::Reading | State::Parked(_) | State::Draining => 0,
        }
    }

    /// The partition was revoked: nothing new is sent for it.
    pub fn drain(&mut self) {
        self.state = State::Draining;
    }

    /// Whether a draining lane has nothing left with the producer or in a transaction.
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Draining) && !self.is_in_transaction()
    }

    /// Whether records are with the producer, or acknowledged in a transaction that is open.
    pub fn is_in_transaction(&self) -> bool {
        self.sent_records + self.delivered_records > 0
    }

    /// Records that wait for a destination in trouble or for a clock that was set back, or have
    /// nowhere to go.
    pub fn isolated_records(&self) -> usize {
        self.unsettled_records - self.sent_records - self.delivered_records
    }

    /// Notes how far the log reaches.
    pub fn observe_end(&mut self, end_offset: i64, now_ms: i64) {
        self.arrivals.observe(end_offset, now_ms);
    }

    /// A record was settled, or delivered in the open transaction.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    /// What to commit, when it is more than what was committed. Records that are delivered in the
    /// open transaction count as settled: the commit is a part of it.
    pub fn uncommitted(&self) -> Option<Commit> {
        // What is delivered counts as a change, so without one the prefix is all that may be new.
        if self.changes == self.committed_changes && self.window.prefix() <= self.committed {
            return None;
        }
        let commit = self.commit_with(|entry| entry.progress == Progress::Delivered);
        Some(commit)
    }

    /// A commit of what is settled, whatever becomes of the open transaction.
    pub fn present_commit(&self) -> Commit {
        self.commit_with(|_| false)
    }

    fn commit_with(&self, also: impl Fn(&Entry<R>) -> bool + Copy) -> Commit {
        let (offset, above) = self.window.settled_with(also);
        let unread = self.ahead.offsets().filter(|offset| *offset >= self.position);
        let ahead = Ahead::new(offset, above.chain(unread));
        let (partition, epoch, changes) = (self.partition, self.epoch, self.changes);
        Commit { partition, epoch, offset, ahead, changes }
    }

    /// The lane does not start at a committed offset: its start is to be committed.
    pub fn not_committed(&mut self) {
        self.committed = self.window.prefix() - 1;
    }

    /// The group's coordinator took a commit of this lane.
    pub fn committed_up_to(&mut self, commit: &Commit) {
        self.committed = self.committed.max(commit.offset);
        self.committed_changes = self.committed_changes.max(commit.changes);
        self.check();
    }

    /// When the lane wants to be asked again; `None`: only after an event.
    pub fn next_wakeup_ms(&self, now_ms: i64, park_after_ms: i64) -> Option<i64> {
        match &self.state {
            State::Reading | State::Draining => None,
            State::Holding(_) if self.halted => None,
            State::Holding(head) if head.due_ms <= now_ms => None, // waits for room: an event
            State::Holding(head) if head.due_ms.saturating_sub(now_ms) > park_after_ms => {
                Some(head.park_from_ms.max(now_ms))
            }
            State::Holding(head) => Some(head.due_ms),
            State::Parked(parked) => Some(parked.wake_ms),
        }
    }

    /// The phase, for people.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Reading => Phase::Reading,
            State::Holding(_) => Phase::Holding,
            State::Parked(_) => Phase::Parked,
            State::Draining => Phase::Draining,
        }
    }

    /// Due time of the head, in memory or parked.
    pub fn head_due_ms(&self) -> Option<i64> {
        match &self.state {
            State::Holding(head) => Some(head.due_ms),
            State::Parked(parked) => Some(parked.due_ms),
            State::Reading | State::Draining => None,
        }
    }

    /// Due time of the first record that is not settled, handed on or not.
    pub fn oldest_due_ms(&self) -> Option<i64> {
        self.window.front().map(|entry| entry.due_ms).or_else(|| self.head_due_ms())
    }

    /// When a parked lane is fetched again.
    pub fn wake_ms(&self) -> Option<i64> {
        match &self.state {
            State::Parked(parked) => Some(parked.wake_ms),
            State::Reading | State::Holding(_) | State::Draining => None,
        }
    }

    /// Next offset to hand on.
    pub fn next_to_send(&self) -> i64 {
        match &self.state {
            State::Holding(head) => head.record.offset(),
            State::Reading | State::Parked(_) | State::Draining => self.position,
        }
    }

    /// Committed offset as last confirmed.
    pub fn committed(&self) -> i64 {
        self.committed
    }

    /// Asserts the invariant of the module.
    ///
    /// # Panics
    /// If it is broken; the process must end rather than commit.
    pub fn check(&self) {
        let (prefix, next) = (self.window.prefix(), self.next_to_send());
        assert!(
            self.committed <= prefix
                && (prefix <= next || matches!(self.state, State::Draining))
                && next <= self.position,
            "partition {}: committed {} <= prefix {prefix} <= next {next} <= position {} broken",
            self.partition,
            self.committed,
            self.position,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::TestRecord;
    use std::time::Duration;

    const NOW_MS: i64 = 1_800_000_000_000;
    const PARK_AFTER_MS: i64 = 10_000;

    fn lane(delay_s: u64) -> Lane<TestRecord> {
        let table = crate::engine::LevelTable::new(&[Duration::from_secs(delay_s)]).unwrap();
        Lane::new(0, 1, table.of_partition(0), 100, Ahead::default())
    }

    fn offer(lane: &mut Lane<TestRecord>, offset: i64, timestamp_ms: i64, now_ms: i64) -> Offered {
        lane.offer(TestRecord::at(offset, Some(timestamp_ms)), now_ms, 5_000)
    }

    // R37
    #[test]
    fn a_near_head_is_held_until_it_is_due() {
        let mut lane = lane(5);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        assert_eq!(lane.phase(), Phase::Holding);
        assert_eq!(lane.wish(NOW_MS + 4_999, PARK_AFTER_MS), Wish::Nothing);
        assert_eq!(lane.next_wakeup_ms(NOW_MS, PARK_AFTER_MS), Some(NOW_MS + 5_000));
        assert_eq!(lane.wish(NOW_MS + 5_000, PARK_AFTER_MS), Wish::HandOn);
        assert_eq!(lane.take_head(NOW_MS + 5_000).record.offset(), 100);
        assert!(lane.wants_record());
    }

    // R7, R21
    #[test]
    fn a_far_head_is_parked_and_comes_back_before_it_is_due() {
        let mut lane = lane(60);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        assert_eq!(lane.wish(NOW_MS, PARK_AFTER_MS), Wish::Park(100));
        assert_eq!(lane.wish(NOW_MS + 1, PARK_AFTER_MS), Wish::Nothing); // asked already
        lane.parked(1_500);
        assert_eq!((lane.phase(), lane.next_to_send()), (Phase::Parked, 100));
        assert_eq!(offer(&mut lane, 101, NOW_MS, NOW_MS), Offered::Unwanted);
        let wake_ms = NOW_MS + 58_500;
        assert_eq!(lane.next_wakeup_ms(NOW_MS, PARK_AFTER_MS), Some(wake_ms));
        assert_eq!(lane.wish(wake_ms - 1, PARK_AFTER_MS), Wish::Nothing);
        assert_eq!(lane.wish(wake_ms, PARK_AFTER_MS), Wish::Unpark(100));
        lane.unparked();
        // R15: the head itself is read again, not the record after it
        assert_eq!(offer(&mut lane, 100, NOW_MS, wake_ms), Offered::AcceptedAgain);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
    }

    // R12
    #[test]
    fn a_park_or_unpark_that_fails_is_tried_again() {
        let mut lane = lane(60);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        assert_eq!(lane.wish(NOW_MS, PARK_AFTER_MS), Wish::Park(100));
        let retry_ms = lane.next_wakeup_ms(NOW_MS, PARK_AFTER_MS).unwrap();
        assert_eq!(lane.wish(retry_ms, PARK_AFTER_MS), Wish::Park(100));
        lane.parked(1_500);
        let wake_ms = lane.wake_ms().unwrap();
        assert_eq!(lane.wish(wake_ms, PARK_AFTER_MS), Wish::Unpark(100));
        let retry_ms = lane.next_wakeup_ms(wake_ms, PARK_AFTER_MS).unwrap();
        assert_eq!(lane.wish(retry_ms, PARK_AFTER_MS), Wish::Unpark(100));
    }

    #[test]
    fn a_halted_lane_sleeps_however_far_its_head_is_off() {
        for delay_s in [1, 60] {
            let mut lane = lane(delay_s);
            lane.halted = true;
            offer(&mut lane, 100, NOW_MS, NOW_MS);
            assert_eq!(lane.wish(NOW_MS, PARK_AFTER_MS), Wish::Nothing);
            assert_eq!(lane.next_wakeup_ms(NOW_MS, PARK_AFTER_MS), None);
        }
    }

    // R60: the clamp is taken when the record is first seen, and parking does not renew it.
    #[test]
    fn a_parked_record_from_the_future_waits_one_delay_only() {
        let mut lane = lane(60);
        let far_ms = NOW_MS + 3_000_000;
        offer(&mut lane, 100, far_ms, NOW_MS);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
        lane.wish(NOW_MS, PARK_AFTER_MS);
        lane.parked(1_500);
        lane.wish(NOW_MS + 58_500, PARK_AFTER_MS);
        lane.unparked();
        offer(&mut lane, 100, far_ms, NOW_MS + 58_600);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
    }

    // R38
    #[test]
    fn a_clock_that_was_behind_makes_nothing_early_when_it_is_set_right() {
        const HOUR_MS: i64 = 3_600_000;
        let behind_ms = NOW_MS - HOUR_MS;
        for parked in [false, true] {
            let mut lane = lane(60);
            lane.observe_end(102, behind_ms);
            offer(&mut lane, 100, NOW_MS, behind_ms);
            assert_eq!(lane.head_due_ms(), Some(behind_ms + 60_000));
            if parked {
                lane.parked(1_500);
            }
            lane.clock_stepped(HOUR_MS, NOW_MS, 1_500);
            assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
            if parked {
                assert_eq!(lane.wake_ms(), Some(NOW_MS + 58_500));
                lane.unparked();
                offer(&mut lane, 100, NOW_MS, NOW_MS + 58_600);
                assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
            }
            lane.take_head(NOW_MS + 60_000);
            offer(&mut lane, 101, NOW_MS, NOW_MS + 60_000);
            assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000), "also what waited in the log");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_what_waits_wait_for_it() {
        let mut lane = lane(60);
        lane.observe_end(102, NOW_MS);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        lane.clock_stepped(-3_600_000, NOW_MS - 3_600_000, 1_500);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
        lane.clock_stepped(3_600_000, NOW_MS + 1, 1_500);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000));
    }

    #[test]
    fn a_clock_that_goes_back_and_forth_does_not_add_up_what_it_went_forth() {
        let mut lane = lane(60);
        offer(&mut lane, 100, 0, NOW_MS); // counts as written now
        for _ in 0..3 {
            lane.clock_stepped(-3_600_000, NOW_MS - 3_600_000, 1_500);
            lane.clock_stepped(3_600_000, NOW_MS + 5, 1_500);
        }
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_005));
    }

    #[test]
    fn another_record_at_the_offset_of_a_parked_one_waits_its_own_delay() {
        let mut lane = lane(60);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        lane.parked(1_500);
        lane.unparked();
        // the topic was recreated meanwhile
        offer(&mut lane, 100, NOW_MS + 58_000, NOW_MS + 58_500);
        assert_eq!(lane.head_due_ms(), Some(NOW_MS + 118_000));
    }

    #[test]
    fn records_from_the_future_behind_one_another_do_not_add_up_their_delays() {
        let mut lane = lane(60);
        let far_ms = NOW_MS + 3_000_000;
        lane.observe_end(110, NOW_MS);
        for offset in 100..110 {
            let now_ms = NOW_MS + 60_000 * i64::from(offset > 100);
            offer(&mut lane, offset, far_ms, now_ms);
            assert_eq!(lane.head_due_ms(), Some(NOW_MS + 60_000), "offset {offset}");
            lane.take_head(NOW_MS + 60_000);
        }
    }

    #[test]
    fn a_record_below_the_position_is_stale() {
        let mut lane = lane(1);
        assert_eq!(offer(&mut lane, 99, NOW_MS, NOW_MS), Offered::Stale);
        offer(&mut lane, 105, NOW_MS, NOW_MS);
        lane.take_head(NOW_MS + 1_000);
        assert_eq!(offer(&mut lane, 105, NOW_MS, NOW_MS), Offered::Stale);
    }

    #[test]
    fn a_revoked_lane_wishes_and_wants_nothing() {
        for parked in [false, true] {
            let mut lane = lane(60);
            offer(&mut lane, 100, NOW_MS, NOW_MS);
            if parked {
                lane.parked(1_500);
            }
            lane.drain();
            assert!(lane.is_drained() && !lane.wants_record());
            assert_eq!(lane.wish(NOW_MS + 100_000, PARK_AFTER_MS), Wish::Nothing);
            assert_eq!(lane.next_wakeup_ms(NOW_MS, PARK_AFTER_MS), None);
            lane.parked(1_500);
            lane.unparked();
            assert_eq!(lane.phase(), Phase::Draining);
        }
    }

    #[test]
    #[should_panic(expected = "handed on at")]
    fn an_early_hand_on_is_a_bug() {
        let mut lane = lane(5);
        offer(&mut lane, 100, NOW_MS, NOW_MS);
        lane.take_head(NOW_MS + 4_999);
    }
}
