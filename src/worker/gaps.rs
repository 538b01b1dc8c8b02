//! What the time between two passes tells: the wall clock was set, or the process stood still.

use super::{Now, Worker};
use crate::kafka::Port;

/// A wall clock that moved against the steady one by more than this between two passes was set.
const CLOCK_STEP_MS: i64 = 1_000;

/// After a freeze the client gets this long to notice that the partitions are another member's.
/// librdkafka looks at its session once a second.
pub(super) const FREEZE_PAUSE_MS: i64 = 1_500;

/// The clocks at the last pass.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Wall clock minus steady clock.
    clock_offset_ms: Option<i64>,
    /// A pause between two passes longer than this may have cost the membership.
    freeze_ms: i64,
    last_pass_ms: Option<i64>,
    /// Nothing is handed on before this moment.
    frozen_until_ms: i64,
}

impl Gaps {
    pub(super) fn new(freeze_ms: i64) -> Self {
        Self { clock_offset_ms: None, freeze_ms, last_pass_ms: None, frozen_until_ms: 0 }
    }

    /// By how much the wall clock was set since the last pass, if it was.
    pub(super) fn clock_step(&mut self, now: Now) -> Option<i64> {
        let offset_ms = now.wall_ms.saturating_sub(now.steady_ms);
        let before_ms = self.clock_offset_ms.replace(offset_ms)?;
        Some(offset_ms.saturating_sub(before_ms)).filter(|step_ms| step_ms.abs() > CLOCK_STEP_MS)
    }

    /// For how long this process stood still (a stopped container, a starved machine), if for so
    /// long that others may own its partitions, and the client has had no time to say so (G5).
    pub(super) fn freeze(&mut self, steady_ms: i64) -> Option<i64> {
        let last_ms = self.last_pass_ms.replace(steady_ms).unwrap_or(steady_ms);
        let stood_still_ms =
            Some(steady_ms - last_ms).filter(|still_ms| *still_ms > self.freeze_ms)?;
        self.frozen_until_ms = steady_ms + FREEZE_PAUSE_MS;
        Some(stood_still_ms)
    }

    /// The moment before which nothing is handed on, while it is ahead.
    pub(super) fn frozen_until_ms(&self, steady_ms: i64) -> Option<i64> {
        Some(self.frozen_until_ms).filter(|until_ms| steady_ms < *until_ms)
    }
}

impl<P: Port> Worker<P> {
    /// Says what the time since the last pass tells; the moment before which nothing is handed on,
    /// while it is ahead.
    pub(super) fn notice_gaps(&mut self, now: Now) -> Option<i64> {
        if let Some(step_ms) = self.gaps.clock_step(now) {
            self.reporter.clock_stepped(step_ms);
            self.engine.clock_stepped(step_ms, now.wall_ms);
        }
        if let Some(stood_still_ms) = self.gaps.freeze(now.steady_ms) {
            self.reporter.froze(stood_still_ms);
            self.watch.forgive();
        }
        self.gaps.frozen_until_ms(now.steady_ms)
    }
}
