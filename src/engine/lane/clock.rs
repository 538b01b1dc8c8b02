//! What a step of the wall clock does to due times.

use super::{Lane, State};
use crate::engine::record::Record;
use crate::engine::{Engine, time};

impl<R: Record> Engine<R> {
    /// The wall clock was set by `step_ms`.
    pub fn clock_stepped(&mut self, step_ms: i64) {
        for lane in self.lanes.iter_mut().flatten() {
            lane.clock_stepped(step_ms, self.config.wake_lead_ms);
        }
    }
}

impl<R: Record> Lane<R> {
    /// The wall clock was set by `step_ms`. Due times that come from a record's timestamp stay;
    /// those that come from the moment at which the daemon first knew of it move along, or a clock
    /// that was behind for a while would make such a record due at once when it is right again.
    /// Only forwards: moved backwards, that moment would cut short what waits by its timestamp.
    pub fn clock_stepped(&mut self, step_ms: i64, wake_lead_ms: i64) {
        let (delay_ms, step_ms) = (self.level.delay_ms, step_ms.max(0));
        self.arrivals.clock_stepped(step_ms);
        if let Some((_, seen_ms)) = &mut self.parked_seen {
            *seen_ms = seen_ms.saturating_add(step_ms);
        }
        match &mut self.state {
            State::Holding(head) => {
                head.first_seen_ms = head.first_seen_ms.saturating_add(step_ms);
                head.due_ms =
                    time::due_ms(head.record.timestamp_ms(), head.first_seen_ms, delay_ms);
                head.park_from_ms = i64::MIN;
            }
            State::Parked(parked) => {
                parked.first_seen_ms = parked.first_seen_ms.saturating_add(step_ms);
                parked.due_ms = time::due_ms(parked.timestamp_ms, parked.first_seen_ms, delay_ms);
                parked.wake_ms = parked.due_ms.saturating_sub(wake_lead_ms);
            }
            State::Reading | State::Draining => {}
        }
    }
}
