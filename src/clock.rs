//! The only reader of the clocks.
//!
//! Due times are wall-clock times, so the daemon follows the wall clock, whatever steps it takes;
//! pauses are measured on the steady clock.

#![allow(clippy::disallowed_methods, reason = "the one place where clocks are read")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::{Now, Wakeup};

/// Reads both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose steady reading begins at zero.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Both readings of this moment.
    pub fn now(&self) -> Now {
        Now { wall_ms: wall_ms(), steady_ms: self.steady_ms() }
    }

    /// Milliseconds since [`Self::start`].
    pub fn steady_ms(&self) -> i64 {
        i64::try_from(self.origin.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// How long ago the wall clock passed `due_ms`; zero before.
    pub fn lateness(&self, due_ms: i64) -> Duration {
        since_epoch().saturating_sub(Duration::from_millis(u64::try_from(due_ms).unwrap_or(0)))
    }

    /// How long to sleep until `wakeup`, at most `limit`. Finer than milliseconds: a due time is
    /// met to the microsecond, never before.
    pub fn until(&self, wakeup: Wakeup, limit: Duration) -> Duration {
        let wall = wakeup.wall_ms.map(|due_ms| remaining(due_ms, since_epoch()));
        let steady = wakeup.steady_ms.map(|due_ms| remaining(due_ms, self.origin.elapsed()));
        wall.into_iter().chain(steady).fold(limit, Duration::min)
    }
}

/// A moment from which time is measured.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Instant);

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Time since then.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The wall clock in milliseconds since the Unix epoch, rounded down.
pub fn wall_ms() -> i64 {
    i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since the wall clock read `moment_ms`, negative before, with fractions.
pub fn since_wall_ms(moment_ms: i64) -> f64 {
    // 2^53 ms are 285 000 years: no precision is lost.
    since_epoch().as_secs_f64() * 1_000.0 - moment_ms as f64
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn remaining(due_ms: i64, now: Duration) -> Duration {
    let due = Duration::from_millis(u64::try_from(due_ms).unwrap_or(0));
    due.saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_until_a_due_time_never_wakes_before_it() {
        let clock = Clock::start();
        let due_ms = wall_ms() + 5;
        let wakeup = Wakeup { wall_ms: Some(due_ms), steady_ms: None };
        std::thread::sleep(clock.until(wakeup, Duration::from_secs(1)));
        assert!(wall_ms() >= due_ms);
        assert_eq!(clock.until(wakeup, Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn the_earlier_wakeup_counts_and_the_limit_bounds_it() {
        let clock = Clock::start();
        let limit = Duration::from_secs(1);
        let far = wall_ms() + 60_000;
        let wakeup = Wakeup { wall_ms: Some(far), steady_ms: Some(0) };
        assert_eq!(clock.until(wakeup, limit), Duration::ZERO);
        let wakeup = Wakeup { wall_ms: Some(far), steady_ms: None };
        assert_eq!(clock.until(wakeup, limit), limit);
        assert_eq!(clock.until(Wakeup { wall_ms: None, steady_ms: None }, limit), limit);
        let wakeup = Wakeup { wall_ms: Some(i64::MIN), steady_ms: None };
        assert_eq!(clock.until(wakeup, limit), Duration::ZERO);
    }
}
