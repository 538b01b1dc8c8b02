//! Label values as enums, and metrics resolved once for each of them.

use std::marker::PhantomData;

use crate::engine::{Level, RejectReason};
use crate::status::PauseReason;

/// The closed set of values of one label.
pub trait LabelValue: Copy + 'static {
    /// Every value, in the order of [`LabelValue::index`].
    const ALL: &'static [Self];

    /// The value as exported.
    fn name(self) -> &'static str;

    /// Its place in [`LabelValue::ALL`].
    fn index(self) -> usize;
}

/// Implements [`LabelValue`] for an enum whose variants are given in the order of declaration.
macro_rules! label_value {
    ($type:ty { $($variant:ident => $name:literal,)+ }) => {
        impl LabelValue for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

/// One of the Kafka clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// The one that reads the delay topic.
    Consumer,
    /// The one that forwards and dead-letters.
    Producer,
    /// The one that asks for offsets.
    Lookup,
}
label_value!(ClientKind {
    Consumer => "consumer", Producer => "producer", Lookup => "lookup",
});

/// How an offset commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    /// The broker took it.
    Ok,
    /// It failed; the next one covers it.
    Error,
}
label_value!(CommitResult { Ok => "ok", Error => "error", });

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Its records are visible and their offsets committed.
    Committed,
    /// None of it happened; its records were sent anew.
    Aborted,
}
label_value!(TransactionOutcome { Committed => "committed", Aborted => "aborted", });

/// A page of the HTTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPath {
    /// The list of pages.
    Index,
    /// Liveness.
    Livez,
    /// Readiness.
    Readyz,
    /// Metrics.
    Metrics,
    /// What the binary was built from.
    Version,
    /// The status snapshot.
    Status,
    /// Whatever else was asked for.
    Other,
}
label_value!(HttpPath {
    Index => "/", Livez => "/livez", Readyz => "/readyz", Metrics => "/metrics",
    Version => "/version", Status => "/status", Other => "other",
});

/// Why reading began elsewhere than at the committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// Retention deleted the records at the committed offset.
    Retention,
    /// The topic was deleted and created anew.
    Recreated,
}
label_value!(OffsetReset { Retention => "retention", Recreated => "recreated", });

/// What a rebalance callback was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebalanceEvent {
    /// Partitions were assigned, perhaps none.
    Assign,
    /// Partitions were taken back in order.
    Revoke,
    /// Partitions were lost without a chance to commit.
    Lost,
    /// The rebalance failed.
    Error,
}
label_value!(RebalanceEvent {
    Assign => "assign", Revoke => "revoke", Lost => "lost", Error => "error",
});

/// A log line that someone should look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing was lost.
    Warn,
    /// Someone must act.
    Error,
}
label_value!(Severity { Warn => "warn", Error => "error", });

label_value!(PauseReason {
    NotDue => "not_due", Backpressure => "backpressure", Retry => "retry", Halted => "halted",
});

impl LabelValue for RejectReason {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// One metric for each value of a label.
pub struct ByLabel<K, M> {
    metrics: Vec<M>,
    key: PhantomData<fn(K)>,
}

impl<K: LabelValue, M> ByLabel<K, M> {
    /// Makes the metric of each value.
    pub(super) fn new(metric_of: impl FnMut(K) -> M) -> Self {
        Self { metrics: K::ALL.iter().copied().map(metric_of).collect(), key: PhantomData }
    }

    /// The metric of `value`.
    pub fn of(&self, value: K) -> &M {
        &self.metrics[value.index()]
    }
}

/// One metric for each level.
pub struct ByLevel<M> {
    metrics: Vec<M>,
}

impl<M> ByLevel<M> {
    /// Takes the metrics in the order of the level numbers.
    pub(super) fn new(metrics: Vec<M>) -> Self {
        Self { metrics }
    }

    /// The metric of `level`, which must come from the table that the metrics were built with.
    pub fn of(&self, level: Level) -> &M {
        &self.metrics[usize::from(level.number) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_indexed<K: LabelValue + PartialEq + std::fmt::Debug>() {
        for (index, &value) in K::ALL.iter().enumerate() {
            assert_eq!(value.index(), index, "{value:?}");
        }
    }

    #[test]
    fn every_label_value_knows_its_place() {
        assert_indexed::<ClientKind>();
        assert_indexed::<CommitResult>();
        assert_indexed::<HttpPath>();
        assert_indexed::<OffsetReset>();
        assert_indexed::<PauseReason>();
        assert_indexed::<RebalanceEvent>();
        assert_indexed::<RejectReason>();
        assert_indexed::<Severity>();
        assert_indexed::<TransactionOutcome>();
    }
}
