//! Settings of the worker, and why it may end.

use std::time::Duration;

use crate::engine::EngineConfig;
use crate::kafka::PortError;

/// What to do with a committed offset that is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOffset {
    /// Go on at the first record there is.
    Earliest,
    /// End the process.
    Fail,
}

/// Settings of the worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// Partitions of the delay topic when the process started.
    pub partitions: i32,
    /// How often the settled prefix is committed.
    pub commit_every: Duration,
    /// How long a revoked partition waits for its acknowledgements.
    pub drain_timeout: Duration,
    /// How long a stop waits for acknowledgements.
    pub stop_timeout: Duration,
    /// What to do with a committed offset that is not in the log.
    pub missing_offset: MissingOffset,
    /// A lane that could go on and has not for this long is stuck.
    pub stuck_after: Duration,
}

/// Why the worker cannot go on. The process must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The client's word.
    #[error("the Kafka client cannot go on: {0}")]
    Client(String),
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
