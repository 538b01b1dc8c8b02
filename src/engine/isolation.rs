//! The state of one destination in trouble; [`super::destinations`] has the rules.

use std::collections::BTreeMap;

use super::action::Ticket;
use super::destinations::RetryPolicy;
use super::reject::{RejectReason, Rejection};

/// What keeps a destination from taking records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The topic does not exist.
    UnknownTopic,
    /// The daemon's user may not write to it.
    Unauthorized,
    /// A batch was refused for its size.
    TooLarge,
    /// An error that passes.
    Transient,
}

/// Records that wait for one destination, and how it is tried again.
#[derive(Debug)]
pub(super) struct Isolation {
    pub(super) trouble: Trouble,
    pub(super) since_ms: i64,
    pub(super) waiting: BTreeMap<u64, Ticket>,
    /// Records the next round may send.
    pub(super) round: u32,
    /// Records of the round under way; zero: the records under way are older than the isolation.
    pub(super) released: u32,
    pub(super) round_failed: bool,
    /// Whether the round under way has an acknowledgement or a refusal.
    pub(super) round_answered: bool,
    pub(super) retry_ms: i64,
    pub(super) backoff_ms: i64,
    pub(super) condemned: bool,
    /// Its key in the queue of rounds, while it is there.
    pub(super) queued_ms: Option<i64>,
}

impl Isolation {
    /// A destination whose trouble begins now.
    pub(super) fn new(trouble: Trouble, steady_ms: i64, policy: RetryPolicy) -> Self {
        Self {
            trouble,
            since_ms: steady_ms,
            waiting: BTreeMap::new(),
            round: 1,
            released: 0,
            round_failed: false,
            round_answered: false,
            retry_ms: steady_ms,
            backoff_ms: policy.initial_backoff_ms,
            condemned: false,
            queued_ms: None,
        }
    }
}

/// Why a record is rejected whose destination stays in this trouble.
pub(super) fn rejection(trouble: Trouble, topic: &str) -> Rejection {
    let (reason, detail) = match trouble {
        Trouble::UnknownTopic => (
            RejectReason::UnknownTopic,
            format!("topic `{topic}` does not exist: create it, then send the record again"),
        ),
        Trouble::Unauthorized => (
            RejectReason::Unauthorized,
            format!("the daemon may not write to `{topic}`: grant it Write and Describe"),
        ),
        Trouble::TooLarge => (
            RejectReason::TooLarge,
            format!("the record alone is larger than `{topic}` takes: raise its max.message.bytes"),
        ),
        Trouble::Transient => (RejectReason::ProduceFailed, format!("`{topic}` kept failing")),
    };
    Rejection::new(reason, detail)
}
