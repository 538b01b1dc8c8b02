//! What one instance is doing, as plain values.
//!
//! The worker writes a [`Status`] through [`SharedStatus`]; `/status` and `/metrics` read it. It is
//! a copy for people and dashboards: no decision of the engine depends on it. [`Health`] is what
//! the probes answer from, and is kept apart because it must not wait for a lock.

mod health;

use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

pub use self::health::Health;

/// What a partition is doing, in life-cycle order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Assigned; the offset to begin at is not known yet.
    Locating,
    /// Waiting for records, or forwarding those that are due.
    Reading,
    /// The head is due soon: its records stay in memory until then.
    Holding,
    /// The head is due later: the partition is paused and its memory given back.
    Parked,
    /// Revoked or shutting down: nothing new is sent, acknowledgements are awaited.
    Draining,
    /// Stopped at a record that can be neither forwarded nor dead-lettered.
    Halted,
}

/// Why a partition is not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The head is not due for a while.
    NotDue,
    /// Too much is in flight.
    Backpressure,
    /// A destination or the dead-letter topic refuses records for now.
    Retry,
    /// The partition is halted.
    Halted,
}

/// One partition of the delay topic. Offsets are of the next record, as Kafka counts them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Number of the partition.
    pub partition: i32,
    /// 1-based number of its level.
    pub level: u16,
    /// Delay of its level.
    pub delay_ms: i64,
    /// Whether this instance holds it. Of a partition that it does not hold, only the fields above
    /// mean anything.
    pub assigned: bool,
    /// What it is doing.
    pub phase: Phase,
    /// Why it is not fetched, if it is not.
    pub paused: Option<PauseReason>,
    /// When the first record that is not yet forwarded is due, in Unix time; none when there is no
    /// such record, or, while [`Phase::Locating`], when it is not known.
    pub head_due_ms: Option<i64>,
    /// When the engine comes back to this partition by itself, in Unix time.
    pub wake_at_ms: Option<i64>,
    /// Next offset to forward.
    pub position: Option<i64>,
    /// Committed offset.
    pub committed: Option<i64>,
    /// First offset that the log still holds.
    pub log_start: Option<i64>,
    /// Offset after the last record of the log.
    pub log_end: Option<i64>,
    /// Records stored and not yet forwarded, due or not. See [`backlog`].
    pub backlog: Option<i64>,
    /// Records handed to the producer and not yet acknowledged.
    pub in_flight: u64,
    /// Records set aside because their destination is in trouble.
    pub isolated: u64,
    /// It has not moved for `health.stuck_after` although the cluster would let it.
    pub stuck: bool,
}

impl PartitionStatus {
    /// A partition about which nothing is known but its level.
    pub fn unassigned(partition: i32, level: u16, delay_ms: i64) -> Self {
        Self {
            partition,
            level,
            delay_ms,
            assigned: false,
            phase: Phase::Locating,
            paused: None,
            head_due_ms: None,
            wake_at_ms: None,
            position: None,
            committed: None,
            log_start: None,
            log_end: None,
            backlog: None,
            in_flight: 0,
            isolated: 0,
            stuck: false,
        }
    }
}

/// Records between the first one not yet forwarded and the end of the log. The two offsets are read
/// at different moments, so the end may be the older one: never below zero.
pub fn backlog(log_end: i64, first_unforwarded: i64) -> i64 {
    log_end.saturating_sub(first_unforwarded).max(0)
}

/// One instance of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Its client id.
    pub instance: String,
    /// Version of the binary.
    pub version: String,
    /// When it started, in Unix time.
    pub started_ms: i64,
    /// Whether `/readyz` answers 200.
    pub ready: bool,
    /// Why it does not.
    pub not_ready_reasons: Vec<String>,
    /// Whether a shutdown is in progress.
    pub shutting_down: bool,
    /// The consumer group.
    pub group_id: String,
    /// The delay topic.
    pub source_topic: String,
    /// Records handed to the producer and not yet acknowledged.
    pub in_flight_records: u64,
    /// Their size.
    pub in_flight_bytes: u64,
    /// When the last poll ended, in Unix time; 0 before the first.
    pub last_poll_ms: i64,
    /// The partitions it holds, and those it knows of.
    pub partitions: Vec<PartitionStatus>,
}

/// The partitions of one level that this instance holds, taken together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelStatus {
    /// 1-based number of the level.
    pub level: u16,
    /// Its delay.
    pub delay_ms: i64,
    /// Whether this instance holds any of its partitions.
    pub assigned: bool,
    /// How many of its partitions this instance holds.
    pub assigned_partitions: u32,
    /// The earliest head among them.
    pub head_due_ms: Option<i64>,
    /// The sum of their backlogs; none until all are known, since a part would look like progress.
    pub backlog: Option<i64>,
    /// The sum of their records in flight.
    pub in_flight: u64,
    /// The sum of their records set aside.
    pub isolated: u64,
    /// How many of them are stuck.
    pub stuck: u32,
    /// Whether the head of any of them is still being looked for.
    pub locating: bool,
    /// Each reason for which any of them is not fetched.
    pub paused: Vec<PauseReason>,
}

impl LevelStatus {
    fn new(level: u16, delay_ms: i64) -> Self {
        Self {
            level,
            delay_ms,
            assigned: false,
            assigned_partitions: 0,
            head_due_ms: None,
            backlog: None,
            in_flight: 0,
            isolated: 0,
            stuck: 0,
            locating: false,
            paused: Vec::new(),
        }
    }

    fn add(&mut self, partition: &PartitionStatus) {
        if !partition.assigned {
            return;
        }
        self.backlog = match (self.assigned, self.backlog, partition.backlog) {
            (false, _, first) => first,
            (true, Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (true, _, _) => None,
        };
        self.assigned = true;
        self.assigned_partitions += 1;
        self.head_due_ms = [self.head_due_ms, partition.head_due_ms].into_iter().flatten().min();
        self.in_flight = self.in_flight.saturating_add(partition.in_flight);
        self.isolated = self.isolated.saturating_add(partition.isolated);
        self.stuck += u32::from(partition.stuck);
        self.locating |= partition.phase == Phase::Locating;
        if let Some(reason) = partition.paused.filter(|reason| !self.paused.contains(reason)) {
            self.paused.push(reason);
        }
    }
}

impl Status {
    /// The partitions taken together by level, in the order of the level numbers. Levels none of
    /// whose partitions are listed are missing.
    pub fn levels(&self) -> Vec<LevelStatus> {
        let mut levels: Vec<LevelStatus> = Vec::new();
        for partition in &self.partitions {
            let index = match levels.binary_search_by_key(&partition.level, |level| level.level) {
                Ok(index) => index,
                Err(index) => {
                    levels.insert(index, LevelStatus::new(partition.level, partition.delay_ms));
                    index
                }
            };
            levels[index].add(partition);
        }
        levels
    }

    /// Takes readiness from `health`, which the probes answer from too.
    pub fn apply_health(&mut self, health: &Health) {
        let reasons = health.ready().err().unwrap_or_default();
        self.ready = reasons.is_empty();
        self.not_ready_reasons = reasons.into_iter().map(str::to_owned).collect();
        self.shutting_down = health.is_shutting_down();
    }
}

/// The body of `/status`: a [`Status`] with its levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The snapshot.
    #[serde(flatten)]
    pub status: Status,
    /// Its partitions taken together by level.
    pub levels: Vec<LevelStatus>,
}

impl From<Status> for StatusReport {
    fn from(status: Status) -> Self {
        let levels = status.levels();
        Self { status, levels }
    }
}

/// A handle to the one [`Status`] of the process; clones share it.
#[derive(Debug, Clone, Default)]
pub struct SharedStatus(Arc<RwLock<Status>>);

impl SharedStatus {
    /// A handle to `status`.
    pub fn new(status: Status) -> Self {
        Self(Arc::new(RwLock::new(status)))
    }

    /// Changes the status. Readers wait meanwhile, so `change` should only copy values.
    pub fn update<R>(&self, change: impl FnOnce(&mut Status) -> R) -> R {
        // A panic of another holder leaves at worst a mix of two snapshots, which the next update
        // replaces: no reason to fail.
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the status. The worker waits meanwhile, so `view` should be short.
    pub fn read<R>(&self, view: impl FnOnce(&Status) -> R) -> R {
        view(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy.
    pub fn snapshot(&self) -> Status {
        self.read(Status::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(partition: i32, level: u16) -> PartitionStatus {
        PartitionStatus {
            assigned: true,
            phase: Phase::Reading,
            ..PartitionStatus::unassigned(partition, level, 1_000)
        }
    }

    #[test]
    fn shards_of_a_level_are_taken_together() {
        let first = PartitionStatus {
            head_due_ms: Some(500),
            backlog: Some(3),
            in_flight: 1,
            paused: Some(PauseReason::Retry),
            ..assigned(0, 1)
        };
        let second = PartitionStatus {
            head_due_ms: Some(400),
            backlog: Some(4),
            isolated: 2,
            stuck: true,
            paused: Some(PauseReason::Retry),
            ..assigned(2, 1)
        };
        let other = PartitionStatus::unassigned(1, 2, 5_000);
        let status = Status { partitions: vec![other, first, second], ..Status::default() };
        let levels = status.levels();
        assert_eq!(levels.len(), 2);
        let level = &levels[0];
        assert_eq!((level.level, level.assigned_partitions), (1, 2));
        assert_eq!((level.head_due_ms, level.backlog), (Some(400), Some(7)));
        assert_eq!((level.in_flight, level.isolated, level.stuck), (1, 2, 1));
        assert_eq!(level.paused, [PauseReason::Retry]);
        assert!(!levels[1].assigned && levels[1].backlog.is_none());
    }

    #[test]
    fn a_level_has_no_backlog_until_all_its_partitions_have_one() {
        for known_first in [true, false] {
            let known = PartitionStatus { backlog: Some(3), ..assigned(0, 1) };
            let mut partitions = vec![known, assigned(2, 1)];
            if !known_first {
                partitions.reverse();
            }
            let status = Status { partitions, ..Status::default() };
            assert_eq!(status.levels()[0].backlog, None);
        }
    }

    #[test]
    fn backlog_is_never_negative() {
        assert_eq!((backlog(10, 7), backlog(7, 10), backlog(i64::MIN, 1)), (3, 0, 0));
    }

    #[test]
    fn a_report_survives_json() {
        let status = Status { partitions: vec![assigned(0, 1)], ..Status::default() };
        let report = StatusReport::from(status);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""phase":"reading""#) && json.contains(r#""levels":["#), "{json}");
        assert_eq!(serde_json::from_str::<StatusReport>(&json).unwrap(), report);
    }

    #[test]
    fn a_panic_inside_an_update_does_not_spoil_the_status() {
        let shared = SharedStatus::default();
        let clone = shared.clone();
        let panicked = std::thread::spawn(move || clone.update(|_| panic!("on purpose"))).join();
        assert!(panicked.is_err());
        shared.update(|status| status.in_flight_records = 7);
        assert_eq!(shared.snapshot().in_flight_records, 7);
    }
}
