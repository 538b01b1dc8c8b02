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

    /// Whether the record of `ticket` was due when it was handed on and is not any more, since the
    /// clock was set back; or one before it in its lane waits for that.
    pub fn is_postponed(&self, ticket: Ticket, now_ms: i64) -> bool {
        let Some(lane) = self.lane(ticket.partition).filter(|lane| lane.epoch == ticket.epoch)
        else {
            return false;
        };
        let first = lane.postponed.first_key_value().map(|(order, _)| *order);
        lane.window.get(ticket.index).is_some_and(|(_, entry)| {
            entry.due_ms > now_ms || first.is_some_and(|order| order < entry.order)
        })
    }

    /// The record of `ticket` is sent once it is due again, and those before it in its lane are.
    pub fn postpone(&mut self, ticket: Ticket, steady_ms: i64) {
        self.destinations.forgotten(ticket.destination, steady_ms);
        if let Some(lane) = live_lane(&mut self.lanes, ticket)
            && let Some(entry) = lane.window.get_mut(ticket.index)
        {
            entry.progress = Progress::Waiting;
            entry.record.detach();
            lane.sent_records -= 1;
            lane.postponed.insert(entry.order, ticket);
        }
    }

    /// Sends what was postponed and is due.
    pub(in crate::engine) fn send_postponed(&mut self, now: Now) {
        for slot in 0..self.lanes.len() {
            while let Some(ticket) = self.lanes[slot].as_mut().and_then(|lane| {
                let due_ms = lane.postponed_due_ms()?;
                let due = due_ms <= now.wall_ms;
                due.then(|| lane.postponed.pop_first()).flatten().map(|(_, ticket)| ticket)
            }) {
                self.submit(ticket, now.steady_ms);
            }
        }
    }

    /// When the first record that was postponed is due.
    pub(in crate::engine) fn next_postponed_ms(&self) -> Option<i64> {
        self.lanes().filter_map(Lane::postponed_due_ms).min()
    }
}

impl<R: Record> Lane<R> {
    /// When the first record that was postponed is due.
    fn postponed_due_ms(&self) -> Option<i64> {
        let (_, ticket) = self.postponed.first_key_value()?;
        let (_, entry) = self.window.get(ticket.index)?;
        (!matches!(self.state, State::Draining)).then_some(entry.due_ms)
    }

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
