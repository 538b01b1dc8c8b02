//! What ends the worker.

use crate::kafka::PortError;

/// Why the worker cannot go on. The process must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The client's word.
    #[error("the Kafka client cannot go on: {0}")]
    Client(String),
    /// The brokers do not let this member read any more.
    #[error("Kafka refuses the consumer: {0}")]
    Denied(String),
    /// A call that must not fail failed.
    #[error("the Kafka client refused a call: {0}")]
    Call(#[from] PortError),
    /// The delay topic has more partitions than when the process started.
    #[error("the delay topic has grown to {0} partitions or more; the process must start anew")]
    PartitionsAdded(i32),
    /// Records are gone, and the configuration says to stop then.
    #[error(
        "partition {partition}: the group committed offset {committed}, but the log holds \
         {start}..{end}; source.on_missing_offset = \"fail\" stops here, \"earliest\" goes on at {start}"
    )]
    MissingOffset {
        /// Partition of the delay topic.
        partition: i32,
        /// Committed offset, or the one being read.
        committed: i64,
        /// First offset of the log.
        start: i64,
        /// Offset after the last record.
        end: i64,
    },
    /// A lane does not move although the cluster would let it.
    #[error(
        "partition {partition} has been stuck for {waited_s} s, waiting for {wait}; the cluster \
         answers, so the process must start anew"
    )]
    Stuck {
        /// Partition of the delay topic.
        partition: i32,
        /// What it waits for.
        wait: String,
        /// Since when, in seconds.
        waited_s: i64,
    },
}
