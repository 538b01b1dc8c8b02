//! Time that did not pass as it should: a clock that was set, a process that stood still.

use super::{Now, Worker};
use crate::kafka::Port;

/// A wall clock that moved against the steady one by more than this between two passes was set.
const CLOCK_STEP_MS: i64 = 1_000;

/// After a freeze the client gets this long to notice that the partitions are another member's.
/// librdkafka looks at its session once a second.
pub(super) const FREEZE_PAUSE_MS: i64 = 1_500;

impl<P: Port> Worker<P> {
    /// Whether this process may have stood still for so long (a stopped container, a starved
    /// machine) that others own its partitions, and the client has had no time to say so (G5).
    pub(super) fn notice_freeze(&mut self, now: Now) -> bool {
        let last_ms = self.last_pass_ms.replace(now.steady_ms).unwrap_or(now.steady_ms);
        if now.steady_ms - last_ms > self.freeze_ms {
            self.frozen_until_ms = now.steady_ms + FREEZE_PAUSE_MS;
            self.reporter.froze(now.steady_ms - last_ms);
        }
        now.steady_ms < self.frozen_until_ms
    }

    pub(super) fn notice_clock_step(&mut self, now: Now) {
        let offset_ms = now.wall_ms.saturating_sub(now.steady_ms);
        if let Some(before_ms) = self.clock_offset_ms.replace(offset_ms) {
            let step_ms = offset_ms.saturating_sub(before_ms);
            if step_ms.abs() > CLOCK_STEP_MS {
                self.reporter.clock_stepped(step_ms);
            }
        }
    }
}
