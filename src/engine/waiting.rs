//! What a lane waits for although its time has come.
//!
//! A watch asks, so that a lane nobody would ever serve again is not taken for one that waits. No
//! waits in this sense: a halt, a destination in trouble, a due time to come, room in flight (which
//! the records before it hold).

use std::fmt;
use std::sync::Arc;

use super::engine::Engine;
use super::entry::Progress;
use super::lane::{Lane, Phase};
use super::record::Record;

/// Something owed to a lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// By the consumer: the next record, at this offset or above, if the log has one.
    Record(i64),
    /// By the producer: word of the record at this offset, sent to this topic.
    Acknowledgement(i64, Arc<str>),
    /// By the producer: the end of the transaction that has the record at this offset.
    Transaction(i64),
    /// By this process alone: the record at this offset is due and nothing is in its way.
    Turn(i64),
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(offset) => write!(formatter, "the record at offset {offset} to be read"),
            Self::Acknowledgement(offset, topic) => {
                write!(formatter, "the acknowledgement of offset {offset} by {topic}")
            }
            Self::Transaction(offset) => {
                write!(formatter, "the transaction of offset {offset} to end")
            }
            Self::Turn(offset) => {
                write!(formatter, "the record at offset {offset}, which is due, to be handed on")
            }
        }
    }
}

impl<R: Record> Engine<R> {
    /// What the lanes wait for at `wall_ms`: (partition, epoch, wait); at most two for a lane.
    pub fn waits(&self, wall_ms: i64) -> impl Iterator<Item = (i32, u32, Wait)> + '_ {
        self.lanes().flat_map(move |lane| {
            let waits = [self.first_unsettled(lane), head(lane, wall_ms)];
            waits.into_iter().flatten().map(|wait| (lane.partition, lane.epoch, wait))
        })
    }

    /// Of the records handed on the first holds up the commit of all others. In a transaction all
    /// hold up each other, and those planned for the next one.
    fn first_unsettled(&self, lane: &Lane<R>) -> Option<Wait> {
        if lane.phase() == Phase::Draining {
            return None; // bounded by the drain's own limit
        }
        if self.config.transactional {
            let in_transaction =
                |progress| !matches!(progress, Progress::Waiting | Progress::Stranded);
            let mut unsettled = lane.window.unsettled();
            let (index, _) = unsettled.find(|(_, entry)| in_transaction(entry.progress))?;
            return lane.window.get(index).map(|(offset, _)| Wait::Transaction(offset));
        }
        let entry = lane.window.front().filter(|entry| entry.progress == Progress::Sent)?;
        let topic = Arc::clone(self.destinations.name(entry.destination));
        Some(Wait::Acknowledgement(lane.window.prefix(), topic))
    }
}

fn head<R: Record>(lane: &Lane<R>, wall_ms: i64) -> Option<Wait> {
    let is_due = lane.head_due_ms().is_some_and(|due_ms| due_ms <= wall_ms);
    match lane.phase() {
        _ if lane.halted => None,
        Phase::Reading => Some(Wait::Record(lane.next_to_send())),
        Phase::Parked if is_due => Some(Wait::Turn(lane.next_to_send())),
        // With records under way it may wait for the room that they hold.
        Phase::Holding if is_due && lane.unsettled_records == 0 => {
            Some(Wait::Turn(lane.next_to_send()))
        }
        Phase::Holding | Phase::Parked | Phase::Draining => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::testing::TestRecord;
    use crate::engine::{
        Action, Ahead, EngineConfig, LevelTable, Now, Refusal, RetryPolicy, Ticket, Trouble,
    };
    use std::time::Duration;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn engine() -> Engine<TestRecord> {
        engine_with(false)
    }

    fn engine_with(transactional: bool) -> Engine<TestRecord> {
        let mut engine = Engine::new(EngineConfig {
            levels: LevelTable::new(&[Duration::from_secs(60)]).unwrap(),
            policy: Config::default().destination_policy(),
            dead_letter_topic: None,
            drop_refused: false,
            park_after_ms: 10_000,
            wake_lead_ms: 1_500,
            future_tolerance_ms: 5_000,
            retry: RetryPolicy { grace_ms: 5_000, initial_backoff_ms: 200, max_backoff_ms: 30_000 },
            max_in_flight_bytes: 1_000,
            max_in_flight_records: 10,
            transactional,
        });
        engine.assign(0, 7, Ahead::default());
        engine
    }

    fn at(wall_ms: i64) -> Now {
        Now { wall_ms, steady_ms: wall_ms - NOW_MS }
    }

    fn waits(engine: &Engine<TestRecord>, wall_ms: i64) -> Vec<Wait> {
        engine.waits(wall_ms).map(|(_, _, wait)| wait).collect()
    }

    /// Offers the record at `offset`, due `due_in_ms` from now, and does what is due.
    fn offer(engine: &mut Engine<TestRecord>, offset: i64, due_in_ms: i64) -> Vec<Ticket> {
        let written_ms = NOW_MS + due_in_ms - 60_000;
        engine.offer(0, TestRecord::at(offset, Some(written_ms)), NOW_MS);
        engine.advance(at(NOW_MS));
        let mut sent = Vec::new();
        while let Some(action) = engine.next_action() {
            match action {
                Action::Send(ticket) => sent.push(ticket),
                Action::Park { partition, .. } => engine.parked(partition),
                Action::Unpark { .. } => {}
            }
        }
        sent
    }

    #[test]
    fn a_lane_waits_for_what_is_owed_to_it() {
        let mut engine = engine();
        assert_eq!(waits(&engine, NOW_MS), [Wait::Record(7)]);
        assert_eq!(offer(&mut engine, 7, 30_000), [], "far: it is parked");
        assert_eq!(waits(&engine, NOW_MS + 29_999), []);
        assert_eq!(waits(&engine, NOW_MS + 30_000), [Wait::Turn(7)], "nobody reads it again");
        engine.unparked(0);
        assert_eq!(waits(&engine, NOW_MS + 30_000), [Wait::Record(7)]);
        engine.offer(0, TestRecord::at(7, Some(NOW_MS - 30_000)), NOW_MS);
        assert_eq!(waits(&engine, NOW_MS + 29_999), [], "near: it is held");
        assert_eq!(waits(&engine, NOW_MS + 30_000), [Wait::Turn(7)], "nobody hands it on");
    }

    #[test]
    fn a_record_under_way_waits_for_its_acknowledgement_and_others_for_room() {
        let mut engine = engine();
        let sent: Vec<Ticket> = (7..20).flat_map(|offset| offer(&mut engine, offset, 0)).collect();
        assert_eq!(engine.lane(0).unwrap().phase(), Phase::Holding, "no room is left");
        assert_eq!(waits(&engine, NOW_MS), [Wait::Acknowledgement(7, "orders".into())]);
        engine.settled(sent[0], Ok(()), 0);
        assert_eq!(waits(&engine, NOW_MS), [Wait::Acknowledgement(8, "orders".into())]);
    }

    #[test]
    fn trouble_a_halt_and_a_revoke_are_no_waits() {
        let mut engine = engine();
        let sent = offer(&mut engine, 7, 0);
        engine.settled(sent[0], Err(Refusal::Trouble(Trouble::Transient)), 0);
        assert_eq!(waits(&engine, NOW_MS), [Wait::Record(8)]);
        engine.revoke(0);
        assert_eq!(waits(&engine, NOW_MS), []);

        let mut engine = self::engine();
        let sent = offer(&mut engine, 7, 0);
        engine.settled(sent[0], Err(Refusal::produce_failed("no".to_owned())), 0);
        assert!(engine.lane(0).unwrap().halted);
        assert_eq!(waits(&engine, NOW_MS), []);
    }

    #[test]
    fn in_a_transaction_every_record_waits_for_its_end_however_far_it_has_come() {
        let mut engine = engine_with(true);
        let sent: Vec<Ticket> = (7..10).flat_map(|offset| offer(&mut engine, offset, 0)).collect();
        let waits = |engine: &Engine<TestRecord>| {
            let (_, _, wait) = engine.waits(NOW_MS).next().unwrap();
            wait
        };
        assert_eq!(waits(&engine), Wait::Transaction(7), "under way");
        engine.settled(sent[0], Ok(()), 0);
        assert_eq!(waits(&engine), Wait::Transaction(7), "acknowledged, not committed");
        engine.settled(sent[1], Err(Refusal::Undone), 0);
        engine.settled(sent[2], Err(Refusal::Undone), 0);
        engine.transaction_aborted(None, 0);
        assert_eq!(waits(&engine), Wait::Transaction(7), "planned for the next one");
        engine.revoke(0);
        assert_eq!(engine.waits(NOW_MS).count(), 0);

        let mut engine = engine_with(true);
        let sent: Vec<Ticket> = (7..9).flat_map(|offset| offer(&mut engine, offset, 0)).collect();
        engine.settled(sent[0], Err(Refusal::Trouble(Trouble::Transient)), 0);
        assert_eq!(waits(&engine), Wait::Transaction(8), "the first waits for its destination");
        engine.settled(sent[1], Err(Refusal::Undone), 0);
        assert_eq!(waits(&engine), Wait::Transaction(8), "being aborted");
    }
}
