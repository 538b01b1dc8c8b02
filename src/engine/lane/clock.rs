//! What a step of the wall clock does to due times.

use super::{Lane, State};
use crate::engine::action::Ticket;
use crate::engine::engine::live_lane;
use crate::engine::entry::Progress;
use crate::engine::record::Record;
use crate::engine::time::Now;
use crate::engine::{Engine, time};

impl<R: Record> Engine<R> {
    /// The wall clock was set by `step_ms`, to `now_ms`.
    pub fn clock_stepped(&mut self, step_ms: i64, now_ms: i64) {
        for lane in self.lanes.iter_mut().flatten() {
            lane.clock_stepped(step_ms, now_ms, self.config.wake_lead_ms);
        }
    }

    /// The record of `ticket` was due when it was handed on, and is not any more: the clock was set
    /// back before it could be sent. It is sent once it is due again.
    pub fn postpone(&mut self, ticket: Ticket, steady_ms: i64) {
        self.destinations.forgotten(ticket.destination, steady_ms);
        if let Some(lane) = live_lane(&mut self.lanes, ticket)
            && let Some(entry) = lane.window.get_mut(ticket.index)
        {
            entry.progress = Progress::Waiting;
            entry.record.detach();
            lane.sent_records -= 1;
            self.postponed.push(ticket);
        }
    }

    /// Sends what was postponed and is due.
    pub(in crate::engine) fn send_postponed(&mut self, now: Now) {
        for ticket in std::mem::take(&mut self.postponed) {
            match self.due_ms(ticket) {
                Some(due_ms) if due_ms > now.wall_ms => self.postponed.push(ticket),
                Some(_) => self.submit(ticket, now.steady_ms),
                None => {}
            }
        }
    }

    /// When the first record that was postponed is due.
    pub(in crate::engine) fn next_postponed_ms(&self) -> Option<i64> {
        self.postponed.iter().filter_map(|ticket| self.due_ms(*ticket)).min()
    }

    /// When the record of `ticket` is due, unless its lane is gone or draining.
    fn due_ms(&self, ticket: Ticket) -> Option<i64> {
        self.outgoing(ticket).map(|outgoing| outgoing.due_ms)
    }
}

impl<R: Record> Lane<R> {
    /// The wall clock was set by `step_ms`, to `now_ms`. Due times that come from a record's
    /// timestamp stay; those that come from the moment at which the daemon first knew of it move
    /// along, or a clock that was behind for a while would make such a record due at once when it
    /// is right again. Only forwards: moved backwards, that moment would cut short what waits by
    /// its timestamp. And not beyond the present, or a clock that goes back and forth would add up
    /// what it went forth.
    pub fn clock_stepped(&mut self, step_ms: i64, now_ms: i64, wake_lead_ms: i64) {
        let delay_ms = self.level.delay_ms;
        let moved = |seen_ms: i64| seen_ms.max(seen_ms.saturating_add(step_ms.max(0)).min(now_ms));
        self.arrivals.clock_stepped(moved);
        if let Some((_, seen_ms)) = &mut self.parked_seen {
            *seen_ms = moved(*seen_ms);
        }
        match &mut self.state {
            State::Holding(head) => {
                head.first_seen_ms = moved(head.first_seen_ms);
                head.due_ms =
                    time::due_ms(head.record.timestamp_ms(), head.first_seen_ms, delay_ms);
                head.park_from_ms = i64::MIN;
            }
            State::Parked(parked) => {
                parked.first_seen_ms = moved(parked.first_seen_ms);
                parked.due_ms = time::due_ms(parked.timestamp_ms, parked.first_seen_ms, delay_ms);
                parked.wake_ms = parked.due_ms.saturating_sub(wake_lead_ms);
            }
            State::Reading | State::Draining => {}
        }
    }
}
