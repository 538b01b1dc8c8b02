//! The state of one destination in trouble; [`super::destinations`] has the rules.

use std::collections::BTreeMap;

use super::action::Ticket;
use super::destinations::{RetryPolicy, Role};
use super::reject::{RejectReason, Rejection};

/// Within its grace, an unknown or unauthorised destination is tried again at least this often.
const GRACE_RETRY_MS: i64 = 500;

/// A condemned destination is probed this often.
const PROBE_EVERY_MS: i64 = 1_000;

/// Largest round, far above what a batch holds.
const MAX_ROUND: u32 = 65_536;

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

impl Trouble {
    /// Whether it passes only when somebody does something.
    pub(super) fn lasts(self) -> bool {
        matches!(self, Self::UnknownTopic | Self::Unauthorized)
    }
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

    /// A record was refused. True when it is to be rejected rather than tried again.
    pub(super) fn refused(
        &mut self,
        role: Role,
        trouble: Trouble,
        steady_ms: i64,
        policy: RetryPolicy,
    ) -> bool {
        let alone = self.released == 1;
        self.round_failed = true;
        self.round_answered = true;
        if self.trouble != trouble {
            self.trouble = trouble;
            self.since_ms = steady_ms;
        }
        let lasting = trouble.lasts();
        let may_reject = role == Role::Origin;
        self.condemned &= lasting;
        if may_reject && lasting && steady_ms.saturating_sub(self.since_ms) >= policy.grace_ms {
            self.condemned = true;
        }
        if trouble != Trouble::TooLarge || !may_reject {
            let pause_ms = match (self.condemned, lasting && may_reject) {
                (true, _) => PROBE_EVERY_MS,
                (false, true) => self.backoff_ms.min(GRACE_RETRY_MS),
                (false, false) => self.backoff_ms,
            };
            self.retry_ms = steady_ms.saturating_add(pause_ms);
            if alone {
                self.backoff_ms = (self.backoff_ms * 2).min(policy.max_backoff_ms);
            }
        }
        may_reject && (self.condemned || (trouble == Trouble::TooLarge && alone))
    }

    /// Nothing is under way any more: sizes the next round.
    pub(super) fn end_round(&mut self, steady_ms: i64) {
        if self.released > 0 {
            self.round = if self.round_failed {
                (self.released / 2).max(1)
            } else {
                self.retry_ms = steady_ms;
                self.released.saturating_mul(2).min(MAX_ROUND)
            };
        }
        self.released = 0;
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
