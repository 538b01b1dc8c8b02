//! When the daemon first knew of the records that wait behind a lane's head.
//!
//! A record's effective timestamp is clamped to the moment the daemon first saw it. Most records
//! are not in memory: they wait in the log. What is known is how far the log reached at which time;
//! a record below that end existed then. Without this, ten records with timestamps far ahead would
//! be clamped one after another, each to the moment the one before it left, and wait ten delays.

use std::collections::VecDeque;

/// Observations kept for one lane. When more are made, the newest one is moved on instead, which
/// only makes records count as seen later.
const MAX_OBSERVATIONS: usize = 64;

/// Log ends of one partition and when each was first observed, both increasing.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    observations: VecDeque<(i64, i64)>,
}

impl Arrivals {
    /// Notes that the log reached to `end_offset` at `now_ms`.
    pub(super) fn observe(&mut self, end_offset: i64, now_ms: i64) {
        // A log that was cut back will hold other records at those offsets.
        while self.observations.back().is_some_and(|(known_end, _)| *known_end > end_offset) {
            self.observations.pop_back();
        }
        let full = self.observations.len() >= MAX_OBSERVATIONS;
        let last = self.observations.back_mut();
        let seen_ms = last.as_ref().map_or(now_ms, |(_, last_ms)| now_ms.max(*last_ms));
        match last {
            Some((known_end, _)) if end_offset <= *known_end => {}
            Some(last) if full => *last = (end_offset, seen_ms),
            Some(_) | None => self.observations.push_back((end_offset, seen_ms)),
        }
    }

    /// The clock was set by `step_ms`: what was observed is as long ago as before.
    pub(super) fn clock_stepped(&mut self, step_ms: i64) {
        for (_, seen_ms) in &mut self.observations {
            *seen_ms = seen_ms.saturating_add(step_ms);
        }
    }

    /// When the record at `offset` was first known to exist, at the latest `now_ms`. Observations
    /// of earlier offsets are forgotten: a lane asks in offset order.
    pub(super) fn first_seen_ms(&mut self, offset: i64, now_ms: i64) -> i64 {
        while self.observations.front().is_some_and(|(end_offset, _)| *end_offset <= offset) {
            self.observations.pop_front();
        }
        self.observations.front().map_or(now_ms, |(_, seen_ms)| now_ms.min(*seen_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_as_seen_when_the_log_first_reached_past_it() {
        let mut arrivals = Arrivals::default();
        arrivals.observe(10, 1_000);
        arrivals.observe(10, 2_000);
        arrivals.observe(20, 3_000);
        assert_eq!(arrivals.first_seen_ms(9, 9_000), 1_000);
        assert_eq!(arrivals.first_seen_ms(10, 9_000), 3_000);
        assert_eq!(arrivals.first_seen_ms(19, 9_000), 3_000);
        assert_eq!(arrivals.first_seen_ms(20, 9_000), 9_000);
    }

    #[test]
    fn offsets_that_were_cut_off_count_as_seen_when_they_come_again() {
        let mut arrivals = Arrivals::default();
        arrivals.observe(1_000, 1_000);
        arrivals.observe(900, 2_000);
        arrivals.observe(1_000, 3_000);
        assert_eq!(arrivals.first_seen_ms(899, 9_000), 2_000);
        assert_eq!(arrivals.first_seen_ms(950, 9_000), 3_000);
    }

    #[test]
    fn memory_is_bounded_and_errs_on_the_late_side() {
        let mut arrivals = Arrivals::default();
        for step in 0..10_000 {
            arrivals.observe(step, 1_000 + step);
        }
        assert!(arrivals.observations.len() <= MAX_OBSERVATIONS);
        assert_eq!(arrivals.first_seen_ms(9_000, 99_999), 1_000 + 9_999);
    }

    #[test]
    fn a_clock_that_steps_back_never_makes_a_record_seen_in_the_future() {
        let mut arrivals = Arrivals::default();
        arrivals.observe(5, 10_000);
        arrivals.observe(9, 4_000);
        assert_eq!(arrivals.first_seen_ms(7, 4_500), 4_500);
    }
}
