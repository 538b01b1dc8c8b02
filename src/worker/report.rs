//! What the worker tells people: metrics, log lines, the status snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::membership::Membership;
use super::snapshot::describe;
use super::transactions::Ended;
use super::watch::Watch;
use crate::clock::Clock;
use crate::engine::{Engine, LevelTable, Notice, Now, Record, Refusal, TimestampQuality, Trouble};
use crate::kafka::{AbortCause, LogRange, PortError};
use crate::metrics::{
    ClientKind, CommitResult, Metrics, OffsetReset, RebalanceEvent, TransactionOutcome,
};
use crate::status::{Health, PartitionStatus, PauseReason, SharedStatus};

/// Where the worker reports to.
pub struct Reporter {
    metrics: Arc<Metrics>,
    status: SharedStatus,
    health: Arc<Health>,
    clock: Clock,
    levels: LevelTable,
    partitions: i32,
    log_ranges: BTreeMap<i32, LogRange>,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reporter")
    }
}

impl Reporter {
    /// A reporter for a delay topic of `partitions` partitions.
    pub fn new(
        metrics: Arc<Metrics>,
        status: SharedStatus,
        health: Arc<Health>,
        clock: Clock,
        levels: LevelTable,
        partitions: i32,
    ) -> Self {
        Self { metrics, status, health, clock, levels, partitions, log_ranges: BTreeMap::new() }
    }

    pub(super) fn polled(&self, now: Now) {
        self.health.beat(u64::try_from(now.steady_ms).unwrap_or(0));
    }

    pub(super) fn woke(&self, late: Duration) {
        self.metrics.client.wakeup_delay_seconds.observe(late.as_secs_f64());
    }

    pub(super) fn joined(&self) {
        self.health.set_joined();
    }

    pub(super) fn clock_stepped(&self, step_ms: i64) {
        self.metrics.client.clock_steps.inc();
        warn!(step_ms, "the wall clock was set; due times follow it");
    }

    pub(super) fn froze(&self, stood_still_ms: i64) {
        warn!(
            stood_still_ms,
            "the process stood still; checking whether its partitions are still its own"
        );
    }

    pub(super) fn consumed(&self, partition: i32, quality: TimestampQuality) {
        let records = &self.metrics.records;
        records.consumed.of(self.levels.of_partition(partition)).inc();
        match quality {
            TimestampQuality::Sound => {}
            TimestampQuality::Invalid => {
                records.invalid_timestamps.inc();
                warn!(
                    partition,
                    "a record without a usable timestamp: it is due one delay from now"
                );
            }
            TimestampQuality::Future => {
                records.future_timestamps.inc();
                warn!(partition, "a record from the future: it is due one delay from now");
            }
        }
    }

    /// A last look at G1: the engine hands on nothing early, so this stays zero.
    pub(super) fn sent(&self, due_ms: i64, now_ms: i64) {
        if due_ms > now_ms {
            self.metrics.records.early_forwards.inc();
        }
    }

    pub(super) fn delivered(&self, result: &Result<(), Refusal>, took: Duration) {
        match result {
            Ok(()) => self.metrics.client.produce_duration_seconds.observe(took.as_secs_f64()),
            Err(refusal) => self.refused(refusal),
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        let code = match refusal {
            Refusal::Trouble(Trouble::UnknownTopic) => "unknown_topic",
            Refusal::Trouble(Trouble::Unauthorized) => "unauthorized",
            Refusal::Trouble(Trouble::TooLarge) => "too_large",
            Refusal::Trouble(Trouble::Transient) => "transient",
            Refusal::Permanent(rejection) => rejection.reason.name(),
            // No attempt of its own failed: the transaction did.
            Refusal::Undone => return,
        };
        self.metrics.client.produce_errors.inc(code);
    }

    pub(super) fn notice(&self, notice: Notice) {
        let records = &self.metrics.records;
        match notice {
            Notice::Forwarded { partition, due_ms, size_bytes, topic } => {
                let level = self.levels.of_partition(partition);
                records.forwarded.of(level).inc();
                records.forwarded_bytes.inc_by(size_bytes as u64);
                let late = self.clock.lateness(due_ms);
                records.lateness_seconds.of(level).observe(late.as_secs_f64());
                if let Some(by_topic) = &records.forwarded_to {
                    by_topic.inc(&topic);
                }
            }
            Notice::DeadLettered { partition, offset, rejection } => {
                records.dead_lettered.of(rejection.reason).inc();
                let (reason, detail) = (rejection.reason.name(), &rejection.detail);
                warn!(partition, offset, reason, %detail, "record dead-lettered");
            }
            Notice::Dropped { partition, offset, rejection } => {
                records.dropped.of(rejection.reason).inc();
                let (reason, detail) = (rejection.reason.name(), &rejection.detail);
                error!(partition, offset, reason, %detail, "record dropped, as dead_letter.on_failure says");
            }
            Notice::Halted { partition, offset, rejection } => {
                let (reason, detail) = (rejection.reason.name(), &rejection.detail);
                error!(
                    partition, offset, reason, %detail,
                    "level halted: the record can be neither forwarded nor dead-lettered; set \
                     dead_letter.topic and restart"
                );
            }
            Notice::DestinationInTrouble { topic, trouble: Trouble::Unauthorized } => {
                warn!(
                    %topic,
                    "destination refuses records: the daemon's user may not write there (grant it \
                     Write); they wait and are tried again"
                );
            }
            Notice::DestinationInTrouble { topic, trouble } => {
                warn!(%topic, ?trouble, "destination refuses records; they wait and are tried again");
            }
            Notice::DestinationRecovered { topic } => {
                info!(%topic, "destination takes records again");
            }
        }
    }

    pub(super) fn committed(&self, result: &Result<(), String>) {
        let outcome = match result {
            Ok(()) => CommitResult::Ok,
            Err(error) => {
                warn!(%error, "commit failed; the next one covers it");
                CommitResult::Error
            }
        };
        self.metrics.client.commits.of(outcome).inc();
    }

    pub(super) fn aborted(&self, cause: Option<&AbortCause>) {
        let cause =
            cause.map_or("a record was refused, or its partition lost", |cause| &cause.text);
        self.metrics.client.transactions.of(TransactionOutcome::Aborted).inc();
        warn!(cause, "transaction aborted; what it had is sent anew");
    }

    pub(super) fn transaction_committed(&self, ended: Ended) {
        let client = &self.metrics.client;
        client.transactions.of(TransactionOutcome::Committed).inc();
        let took = Duration::from_millis(u64::try_from(ended.took_ms).unwrap_or(0));
        client.transaction_duration_seconds.observe(took.as_secs_f64());
        // Ten thousand at most.
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        client.transaction_records.observe(ended.records as f64);
    }

    pub(super) fn parked(&self) {
        self.metrics.client.pauses.of(PauseReason::NotDue).inc();
    }

    pub(super) fn unparked(&self) {
        self.metrics.client.resumes.of(PauseReason::NotDue).inc();
    }

    pub(super) fn call_failed(&self, partition: i32, error: &PortError) {
        warn!(partition, %error, "the client refused a call; it is tried again");
    }

    pub(super) fn client_error(&self, client: &str, code: &str, text: &str) {
        let kind = match client {
            "consumer" => ClientKind::Consumer,
            "producer" => ClientKind::Producer,
            _ => ClientKind::Lookup,
        };
        self.metrics.client.kafka_errors.of(kind).inc(code);
        warn!(client, code, "{text}");
    }

    pub(super) fn assigned(&self, starts: &[(i32, i64)], took_ms: i64) {
        self.rebalanced(RebalanceEvent::Assign, took_ms);
        let partitions: Vec<i32> = starts.iter().map(|(partition, _)| *partition).collect();
        info!(?partitions, "partitions assigned");
    }

    pub(super) fn revoked(&self, partitions: &[i32], took_ms: i64, unfinished: bool) {
        self.rebalanced(RebalanceEvent::Revoke, took_ms);
        if unfinished {
            warn!(
                ?partitions,
                "partitions given back before all acknowledgements came; those records may be \
                 forwarded again by the next owner"
            );
        } else {
            info!(?partitions, "partitions given back");
        }
    }

    pub(super) fn lost(&self, partitions: &[i32]) {
        self.rebalanced(RebalanceEvent::Lost, 0);
        warn!(
            ?partitions,
            "partitions lost without a chance to commit; the last records may be forwarded again"
        );
    }

    fn rebalanced(&self, event: RebalanceEvent, took_ms: i64) {
        self.metrics.client.rebalances.of(event).inc();
        let seconds = Duration::from_millis(u64::try_from(took_ms).unwrap_or(0)).as_secs_f64();
        self.metrics.client.rebalance_duration_seconds.of(event).observe(seconds);
    }

    pub(super) fn stop_timed_out(&self) {
        warn!("stopped before all acknowledgements came; those records will be forwarded again");
    }

    pub(super) fn position_gone(&self, partition: i32, offset: i64) {
        debug!(partition, offset, "the position is not in the log any more");
    }

    /// A committed offset outside the log: records lost to retention, or a recreated topic.
    pub(super) fn offset_missing(&self, partition: i32, committed: i64, start: i64, end: i64) {
        let level = self.levels.of_partition(partition);
        let records = &self.metrics.records;
        if committed < start {
            let lost = start - committed;
            records.lost.of(level).inc_by(u64::try_from(lost).unwrap_or(0));
            records.offsets_reset.of(OffsetReset::Retention).inc();
            error!(
                partition,
                committed,
                start,
                end,
                lost,
                "records were deleted before they were forwarded: raise retention.ms of the delay topic"
            );
        } else {
            records.offsets_reset.of(OffsetReset::Recreated).inc();
            error!(
                partition,
                committed,
                start,
                end,
                "the committed offset lies beyond the log: the delay topic was recreated or truncated"
            );
        }
    }

    /// No commit of this group: it is new, or its commits expired while it was away.
    pub(super) fn never_committed(&self, partition: i32, start: i64, end: i64) {
        info!(partition, start, end, "the group has no commit here: beginning at the log's start");
    }

    pub(super) fn log_ranges(&mut self, ranges: &[LogRange]) {
        for range in ranges {
            self.log_ranges.insert(range.partition, *range);
        }
    }

    /// Whether the log of `partition` holds something at `offset` or above, as last heard.
    pub(super) fn has_record(&self, partition: i32, offset: i64) -> bool {
        self.log_ranges.get(&partition).is_some_and(|range| range.end > offset)
    }

    /// Renews the status snapshot.
    pub(super) fn status<R: Record>(
        &self,
        engine: &Engine<R>,
        membership: &Membership,
        watch: &Watch,
        now: Now,
    ) {
        let locating = membership.locating();
        let partitions: Vec<PartitionStatus> = (0..self.partitions)
            .map(|partition| {
                let level = self.levels.of_partition(partition);
                let mut status =
                    PartitionStatus::unassigned(partition, level.number, level.delay_ms);
                status.assigned = locating.contains(&partition);
                status.stuck = watch.is_stuck(partition);
                if let Some(lane) = engine.lane(partition) {
                    describe(lane, self.log_ranges.get(&partition), now, &mut status);
                }
                status
            })
            .collect();
        let (records, bytes) = engine.in_flight();
        self.status.update(|status| {
            status.partitions = partitions;
            status.in_flight_records = records as u64;
            status.in_flight_bytes = bytes as u64;
            status.last_poll_ms = now.wall_ms;
        });
    }
}
