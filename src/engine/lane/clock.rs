//! What a step of the wall clock does to due times.

use std::collections::BTreeSet;

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

    /// Whether the record of `ticket` cannot be sent now although it was due when it was handed on:
    /// the clock was set back since, or one of its lane that it must not overtake waits for that.
    /// A destination in trouble goes on being tried.
    pub fn must_wait(&self, ticket: Ticket, now_ms: i64) -> bool {
        let first = self.first_postponed(ticket.partition);
        !self.destinations.is_isolated(ticket.destination)
            && (first.is_some_and(|(first, _)| Some(first) < self.order(ticket))
                || self.due_ms(ticket).is_some_and(|due_ms| due_ms > now_ms))
    }

    /// The record of `ticket` is sent once it is due again. Until then its lane hands on nothing.
    pub fn postpone(&mut self, ticket: Ticket, steady_ms: i64) {
        self.destinations.forgotten(ticket.destination, steady_ms);
        if let Some(lane) = live_lane(&mut self.lanes, ticket)
            && let Some(entry) = lane.window.get_mut(ticket.index)
        {
            entry.progress = Progress::Waiting;
            entry.record.detach();
            lane.sent_records -= 1;
            let order = entry.order;
            self.postponed.insert((ticket.partition, order), ticket);
        }
    }

    /// Sends what was postponed and is due, in the order of each lane, and before what is to be
    /// sent already: some of that is behind it in its lane.
    pub(in crate::engine) fn send_postponed(&mut self, now: Now) {
        let planned = self.actions.len();
        let partitions: BTreeSet<i32> = self.postponed.keys().map(|(lane, _)| *lane).collect();
        for partition in partitions {
            while let Some((order, ticket)) = self.first_postponed(partition)
                && self.due_ms(ticket).is_some_and(|due_ms| due_ms <= now.wall_ms)
            {
                self.postponed.remove(&(partition, order));
                self.submit(ticket, now.steady_ms);
            }
        }
        self.actions.rotate_left(planned);
    }

    /// When the first record that was postponed can be sent.
    pub(in crate::engine) fn next_postponed_ms(&self) -> Option<i64> {
        let firsts = self.lanes().filter_map(|lane| self.first_postponed(lane.partition));
        firsts.filter_map(|(_, ticket)| self.due_ms(ticket)).min()
    }

    /// The first record of `partition` that was postponed, and its place in the order of all.
    pub(in crate::engine) fn first_postponed(&self, partition: i32) -> Option<(u64, Ticket)> {
        let of_lane = self.postponed.range((partition, 0)..=(partition, u64::MAX));
        of_lane.map(|((_, order), ticket)| (*order, *ticket)).next()
    }

    fn order(&self, ticket: Ticket) -> Option<u64> {
        let (_, entry) = self.lane(ticket.partition)?.window.get(ticket.index)?;
        Some(entry.order)
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
