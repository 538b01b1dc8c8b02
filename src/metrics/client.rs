//! How the Kafka clients and the loop around them fare.

use prometheus::{Error, Histogram, IntCounter};

use super::bounded::BoundedCounter;
use super::families::Families;
use super::labels::{
    ByLabel, ClientKind, CommitResult, LabelValue, RebalanceEvent, TransactionOutcome,
};
use crate::status::PauseReason;

/// Counters and histograms of the clients and the loop.
pub struct ClientMetrics {
    /// Partitions paused.
    pub pauses: ByLabel<PauseReason, IntCounter>,
    /// Partitions resumed, by the reason of the pause.
    pub resumes: ByLabel<PauseReason, IntCounter>,
    /// Seconds between a planned wake-up and the moment it ran.
    pub wakeup_delay_seconds: Histogram,
    /// Steps of the wall clock.
    pub clock_steps: IntCounter,
    /// Seconds from send to acknowledgement.
    pub produce_duration_seconds: Histogram,
    /// Failed produce attempts, by error code.
    pub produce_errors: BoundedCounter,
    /// Errors that librdkafka reported, by error code.
    pub kafka_errors: ByLabel<ClientKind, BoundedCounter>,
    /// Offset commits.
    pub commits: ByLabel<CommitResult, IntCounter>,
    /// Transactions, with `exactly_once`.
    pub transactions: ByLabel<TransactionOutcome, IntCounter>,
    /// Seconds from the first send of a transaction to its commit.
    pub transaction_duration_seconds: Histogram,
    /// Records in a committed transaction.
    pub transaction_records: Histogram,
    /// Rebalance callbacks.
    pub rebalances: ByLabel<RebalanceEvent, IntCounter>,
    /// Seconds spent in rebalance callbacks.
    pub rebalance_duration_seconds: ByLabel<RebalanceEvent, Histogram>,
}

impl ClientMetrics {
    pub(super) fn new(families: &Families<'_>) -> Result<Self, Error> {
        let by_code = |name, help| -> Result<BoundedCounter, Error> {
            let family = families.counters(name, help, &["code"])?;
            Ok(BoundedCounter::new(&family, &[], MAX_ERROR_CODES))
        };
        let kafka_errors = families.counters(
            "kafka_errors_total",
            "Errors reported by librdkafka.",
            &["client", "code"],
        )?;
        Ok(Self {
            pauses: families.counters_by(
                "pauses_total",
                "Partitions paused, by reason.",
                "reason",
            )?,
            resumes: families.counters_by(
                "resumes_total",
                "Partitions resumed, by the reason of the pause.",
                "reason",
            )?,
            wakeup_delay_seconds: families.histogram(
                "wakeup_delay_seconds",
                "Delay between a planned wake-up and the moment it ran.",
                &WAKEUP_BUCKETS,
            )?,
            clock_steps: families
                .counter("clock_steps_total", "Steps of this machine's wall clock.")?,
            produce_duration_seconds: families.histogram(
                "produce_duration_seconds",
                "Time from send to acknowledgement.",
                &PRODUCE_BUCKETS,
            )?,
            produce_errors: by_code("produce_errors_total", "Failed produce attempts.")?,
            kafka_errors: ByLabel::new(|client: ClientKind| {
                BoundedCounter::new(&kafka_errors, &[client.name()], MAX_ERROR_CODES)
            }),
            commits: families.counters_by("commits_total", "Offset commits.", "result")?,
            transactions: families.counters_by(
                "transactions_total",
                "Transactions of the producer, by outcome.",
                "outcome",
            )?,
            transaction_duration_seconds: families.histogram(
                "transaction_duration_seconds",
                "Time from the first send of a transaction to its commit.",
                &TRANSACTION_BUCKETS,
            )?,
            transaction_records: families.histogram(
                "transaction_records",
                "Records in a committed transaction.",
                &TRANSACTION_RECORD_BUCKETS,
            )?,
            rebalances: families.counters_by(
                "rebalances_total",
                "Rebalance callbacks.",
                "event",
            )?,
            rebalance_duration_seconds: families.histograms_by(
                "rebalance_duration_seconds",
                "Time spent in rebalance callbacks: drain and commit.",
                "event",
                &REBALANCE_BUCKETS,
            )?,
        })
    }
}

/// librdkafka knows some 180 codes; a client in trouble meets a handful.
const MAX_ERROR_CODES: usize = 100;

/// From the precision of a thread's sleep up to the 250 ms sweep of the loop and beyond.
const WAKEUP_BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// From a local acknowledgement up to the 10 to 17 s for which a killed broker stalls acks=all.
const PRODUCE_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// From a commit of single records up to the default `forward.transaction_timeout`.
const TRANSACTION_BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Up to the most that a transaction takes in.
const TRANSACTION_RECORD_BUCKETS: [f64; 9] =
    [0.0, 1.0, 5.0, 20.0, 100.0, 500.0, 2_000.0, 5_000.0, 10_000.0];

/// Up to a session timeout, after which the group goes on without this member.
const REBALANCE_BUCKETS: [f64; 8] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 45.0];
