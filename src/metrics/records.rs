//! What happens to records.

use prometheus::{Error, Histogram, IntCounter};

use super::bounded::BoundedCounter;
use super::families::Families;
use super::labels::{ByLabel, ByLevel, OffsetReset};
use crate::engine::RejectReason;

/// Counters and histograms of records on their way through the daemon.
pub struct RecordMetrics {
    /// Records received from the delay topic.
    pub consumed: ByLevel<IntCounter>,
    /// Records whose forwarded copy is acknowledged.
    pub forwarded: ByLevel<IntCounter>,
    /// Key, value and header bytes of forwarded records.
    pub forwarded_bytes: IntCounter,
    /// Forwarded records by destination, if that is switched on.
    pub forwarded_to: Option<BoundedCounter>,
    /// Seconds from a record's due time to the acknowledgement of its forwarded copy.
    pub lateness_seconds: ByLevel<Histogram>,
    /// Records forwarded before they were due.
    pub early_forwards: IntCounter,
    /// Records written to the dead-letter topic.
    pub dead_lettered: ByLabel<RejectReason, IntCounter>,
    /// Records discarded by policy.
    pub dropped: ByLabel<RejectReason, IntCounter>,
    /// Records deleted by retention before they were forwarded.
    pub lost: ByLevel<IntCounter>,
    /// Partitions that were read from elsewhere than their committed offset.
    pub offsets_reset: ByLabel<OffsetReset, IntCounter>,
    /// Records whose timestamp lies too far in the future.
    pub future_timestamps: IntCounter,
    /// Records whose timestamp is no time.
    pub invalid_timestamps: IntCounter,
}

impl RecordMetrics {
    pub(super) fn new(
        families: &Families<'_>,
        lateness_buckets_seconds: &[f64],
        per_topic_limit: Option<usize>,
    ) -> Result<Self, Error> {
        Ok(Self {
            consumed: families.counters_by_level(
                "records_consumed_total",
                "Records received from the delay topic.",
            )?,
            forwarded: families.counters_by_level(
                "records_forwarded_total",
                "Records whose forwarded copy is acknowledged.",
            )?,
            forwarded_bytes: families.counter(
                "forwarded_bytes_total",
                "Key, value and header bytes of forwarded records.",
            )?,
            forwarded_to: forwarded_to(families, per_topic_limit)?,
            lateness_seconds: families.histograms_by_level(
                "lateness_seconds",
                "Time from a record's due time to the acknowledgement of its forwarded copy.",
                lateness_buckets_seconds,
            )?,
            early_forwards: families.counter(
                "early_forwards_total",
                "Records forwarded before they were due. Must stay 0.",
            )?,
            dead_lettered: families.counters_by(
                "records_dead_lettered_total",
                "Records written to the dead-letter topic, by reason.",
                "reason",
            )?,
            dropped: families.counters_by(
                "records_dropped_total",
                "Records discarded by policy (dead_letter.on_failure = drop), by reason.",
                "reason",
            )?,
            lost: families.counters_by_level(
                "records_lost_total",
                "Records deleted by retention before they were forwarded.",
            )?,
            offsets_reset: families.counters_by(
                "offsets_reset_total",
                "Partitions read from elsewhere than their committed offset, by reason.",
                "reason",
            )?,
            future_timestamps: families.counter(
                "future_timestamps_total",
                "Records whose timestamp lies further in the future than the tolerance.",
            )?,
            invalid_timestamps: families.counter(
                "invalid_timestamps_total",
                "Records without a usable timestamp; the time of their arrival counts instead.",
            )?,
        })
    }
}

fn forwarded_to(
    families: &Families<'_>,
    limit: Option<usize>,
) -> Result<Option<BoundedCounter>, Error> {
    let Some(limit) = limit else { return Ok(None) };
    let family = families.counters(
        "topic_records_forwarded_total",
        "Records whose forwarded copy is acknowledged, by destination.",
        &["topic"],
    )?;
    Ok(Some(BoundedCounter::new(&family, &[], limit)))
}
