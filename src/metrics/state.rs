//! Gauges that are set at scrape time from the status snapshot.
//!
//! A gauge of a level or partition that this instance no longer holds is removed: its last value
//! would stay as a figure that nobody maintains. `level_assigned` and `level_delay_seconds` are the
//! exception; they exist for every level at all times.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prometheus::{Error, Gauge, GaugeVec};

use super::families::Families;
use super::labels::LabelValue;
use crate::engine::Level;
use crate::status::{LevelStatus, PartitionStatus, PauseReason, Status};

/// What the state gauges are labelled with.
struct LevelLabels {
    number: String,
    delay: String,
}

/// The offsets of one partition, in the order of [`StateGauges::offsets`].
type Offsets = [Option<i64>; 4];

pub(super) struct StateGauges {
    levels: Vec<LevelLabels>,
    assigned: GaugeVec,
    backlog: GaugeVec,
    isolated: GaugeVec,
    stuck: GaugeVec,
    next_due: GaugeVec,
    paused: GaugeVec,
    offsets: [GaugeVec; 4],
    assigned_partitions: Gauge,
    in_flight_records: Gauge,
    in_flight_bytes: Gauge,
    last_poll: Gauge,
    /// Level index of each partition whose offsets are exported. Also makes scrapes take turns.
    exported: Mutex<BTreeMap<i32, usize>>,
}

impl StateGauges {
    pub(super) fn new(families: &Families<'_>) -> Result<Self, Error> {
        let by_level = |name, help| families.level_gauges(name, help, &[]);
        let by_partition = |name, help| families.level_gauges(name, help, &["partition"]);
        let gauges = Self {
            levels: families.levels.iter().map(LevelLabels::from).collect(),
            assigned: by_level(
                "level_assigned",
                "Partitions of this level that this instance holds: 0 or 1, more with shards.",
            )?,
            backlog: by_level(
                "level_backlog_records",
                "Records stored in this level and not yet forwarded, due or not.",
            )?,
            isolated: by_level(
                "level_isolated_records",
                "Records set aside because their destination is in trouble.",
            )?,
            stuck: by_level(
                "level_stuck",
                "Partitions of this level that do not move although the cluster would let them.",
            )?,
            next_due: by_level(
                "level_next_due_timestamp_seconds",
                "Unix time at which the head record of this level is due; +Inf when it is empty.",
            )?,
            paused: families.level_gauges(
                "level_paused",
                "Whether a partition of this level is not fetched, by reason.",
                &["reason"],
            )?,
            offsets: [
                by_partition("level_position_offset", "Next offset to forward.")?,
                by_partition("level_committed_offset", "Committed offset.")?,
                by_partition("level_log_start_offset", "First offset that the log still holds.")?,
                by_partition("level_log_end_offset", "Offset after the last record of the log.")?,
            ],
            assigned_partitions: families.gauge(
                "assigned_partitions",
                "Partitions of the delay topic that this instance holds.",
            )?,
            in_flight_records: families.gauge(
                "in_flight_records",
                "Records handed to the producer and not yet acknowledged.",
            )?,
            in_flight_bytes: families.gauge(
                "in_flight_bytes",
                "Bytes of records handed to the producer and not yet acknowledged.",
            )?,
            last_poll: families.gauge(
                "consumer_last_poll_timestamp_seconds",
                "Unix time of the last completed poll; of the start before the first.",
            )?,
            exported: Mutex::default(),
        };
        let delays = by_level("level_delay_seconds", "Configured delay of this level.")?;
        for (level, labels) in families.levels.iter().zip(&gauges.levels) {
            delays.with_label_values(&labels.values()).set(seconds(level.delay_ms));
            gauges.assigned.with_label_values(&labels.values()).set(0.0);
        }
        Ok(gauges)
    }

    pub(super) fn observe(&self, status: &Status) {
        let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_flight_records.set(status.in_flight_records as f64);
        self.in_flight_bytes.set(status.in_flight_bytes as f64);
        self.last_poll.set(seconds(status.last_poll_ms.max(status.started_ms)));

        let levels = status.levels();
        let partitions: u32 = levels.iter().map(|level| level.assigned_partitions).sum();
        self.assigned_partitions.set(f64::from(partitions));
        for (index, labels) in self.levels.iter().enumerate() {
            let number = index + 1;
            let level = levels.iter().find(|level| usize::from(level.level) == number);
            self.observe_level(labels, level.filter(|level| level.assigned));
        }

        let held = self.held(status);
        for (&partition, &index) in exported.iter() {
            if !held.contains_key(&partition) {
                self.observe_offsets(partition, index, [None; 4]);
            }
        }
        for (&partition, &(index, offsets)) in &held {
            self.observe_offsets(partition, index, offsets);
        }
        *exported = held.into_iter().map(|(partition, (index, _))| (partition, index)).collect();
    }

    fn observe_level(&self, labels: &LevelLabels, level: Option<&LevelStatus>) {
        let values = labels.values();
        self.assigned
            .with_label_values(&values)
            .set(level.map_or(0.0, |level| f64::from(level.assigned_partitions)));
        let backlog = level.and_then(|level| level.backlog).map(|records| records as f64);
        set_or_remove(&self.backlog, &values, backlog);
        set_or_remove(&self.isolated, &values, level.map(|level| level.isolated as f64));
        set_or_remove(&self.stuck, &values, level.map(|level| f64::from(level.stuck)));
        set_or_remove(&self.next_due, &values, level.and_then(next_due_seconds));
        for &reason in PauseReason::ALL {
            let paused = level.map(|level| f64::from(u8::from(level.paused.contains(&reason))));
            let values = [values[0], values[1], reason.name()];
            set_or_remove(&self.paused, &values, paused);
        }
    }

    /// The partitions held, with the index of their level and their offsets.
    fn held(&self, status: &Status) -> BTreeMap<i32, (usize, Offsets)> {
        let offsets = |partition: &PartitionStatus| {
            [partition.position, partition.committed, partition.log_start, partition.log_end]
        };
        let index = |partition: &PartitionStatus| usize::from(partition.level).checked_sub(1);
        let held = status.partitions.iter().filter(|partition| partition.assigned);
        held.filter_map(|p| Some((p.partition, (index(p)?, offsets(p)))))
            .filter(|(_, (index, _))| *index < self.levels.len())
            .collect()
    }

    fn observe_offsets(&self, partition: i32, index: usize, offsets: Offsets) {
        let partition = partition.to_string();
        let [number, delay] = self.levels[index].values();
        for (gauge, offset) in self.offsets.iter().zip(offsets) {
            let offset = offset.map(|offset| offset as f64);
            set_or_remove(gauge, &[number, delay, &partition], offset);
        }
    }
}

impl From<Level> for LevelLabels {
    fn from(level: Level) -> Self {
        Self { number: level.number.to_string(), delay: level.label() }
    }
}

impl LevelLabels {
    fn values(&self) -> [&str; 2] {
        [&self.number, &self.delay]
    }
}

/// None while the head is being looked for: "empty" would then be a guess.
fn next_due_seconds(level: &LevelStatus) -> Option<f64> {
    match level.head_due_ms {
        Some(due_ms) => Some(seconds(due_ms)),
        None if level.locating => None,
        None => Some(f64::INFINITY),
    }
}

pub(super) fn set_or_remove(gauges: &GaugeVec, values: &[&str], value: Option<f64>) {
    match value {
        Some(value) => gauges.with_label_values(values).set(value),
        // An error says that there was nothing to remove.
        None => drop(gauges.remove_label_values(values)),
    }
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1_000.0
}
