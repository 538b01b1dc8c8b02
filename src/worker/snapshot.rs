//! One lane as the status page and the metrics show it.

use crate::engine::{Lane, Now, Phase as LanePhase, Record};
use crate::kafka::LogRange;
use crate::status::{PartitionStatus, PauseReason, Phase, backlog};

/// Writes what is known of `lane` into `status`.
pub(super) fn describe<R: Record>(
    lane: &Lane<R>,
    range: Option<&LogRange>,
    now: Now,
    status: &mut PartitionStatus,
) {
    status.assigned = true;
    status.phase = match lane.phase() {
        _ if lane.halted => Phase::Halted,
        LanePhase::Reading => Phase::Reading,
        LanePhase::Holding => Phase::Holding,
        LanePhase::Parked => Phase::Parked,
        LanePhase::Draining => Phase::Draining,
    };
    let isolated = lane.isolated_records();
    let head_waits_for_room = lane.phase() == LanePhase::Holding
        && lane.head_due_ms().is_some_and(|due_ms| due_ms <= now.wall_ms);
    status.paused = match status.phase {
        Phase::Halted => Some(PauseReason::Halted),
        Phase::Parked => Some(PauseReason::NotDue),
        Phase::Holding if head_waits_for_room && isolated > 0 => Some(PauseReason::Retry),
        Phase::Holding if head_waits_for_room => Some(PauseReason::Backpressure),
        Phase::Holding | Phase::Locating | Phase::Reading | Phase::Draining => None,
    };
    status.head_due_ms = lane.oldest_due_ms();
    status.wake_at_ms = lane.wake_ms();
    status.position = Some(lane.next_to_send());
    status.committed = Some(lane.committed());
    status.log_start = range.map(|range| range.start);
    status.log_end = range.map(|range| range.end);
    status.backlog = range.map(|range| backlog(range.end, lane.window.prefix()));
    status.in_flight = lane.sent_records as u64;
    status.isolated = isolated as u64;
}
