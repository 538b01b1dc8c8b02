//! What the probes answer from.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What liveness and readiness answer from.
///
/// - **live**: the loop has passed within `stall_after`. Nothing else counts: a restart cures no
///   broker, and probes that follow brokers turn their outage into a restart storm.
/// - **ready**: the configuration is loaded (else nothing answers at all), the group was joined
///   once, even if no partition was left for this instance, no shutdown is in progress, and no
///   fatal error has happened. It stays true while brokers are away: otherwise an outage would
///   block node drains and rollouts.
#[derive(Debug)]
pub struct Health {
    heartbeat_ms: AtomicU64,
    joined: AtomicBool,
    fatal: AtomicBool,
    shutting_down: AtomicBool,
}

impl Health {
    /// Health of a process that starts at `now_ms` of a monotonic clock.
    pub fn new(now_ms: u64) -> Self {
        Self {
            heartbeat_ms: AtomicU64::new(now_ms),
            joined: AtomicBool::new(false),
            fatal: AtomicBool::new(false),
            shutting_down: AtomicBool::new(false),
        }
    }

    /// The loop passed at `now_ms` of the same clock.
    pub fn beat(&self, now_ms: u64) {
        self.heartbeat_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The first assignment arrived, be it empty. Never taken back.
    pub fn set_joined(&self) {
        self.joined.store(true, Ordering::Relaxed);
    }

    /// An error happened after which this process cannot go on. Never taken back.
    pub fn set_fatal(&self) {
        self.fatal.store(true, Ordering::Relaxed);
    }

    /// A shutdown began. Never taken back.
    pub fn set_shutting_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    /// Whether a shutdown is in progress.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// How long the loop has been silent.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.heartbeat_ms.load(Ordering::Relaxed))
    }

    /// Whether the loop has passed within `stall_after_ms`.
    pub fn live(&self, now_ms: u64, stall_after_ms: u64) -> bool {
        self.silent_ms(now_ms) <= stall_after_ms
    }

    /// Whether the instance is ready; else every reason why not.
    pub fn ready(&self) -> Result<(), Vec<&'static str>> {
        let checks = [
            (!self.joined.load(Ordering::Relaxed), "the consumer group has not been joined yet"),
            (self.is_shutting_down(), "a shutdown is in progress"),
            (self.fatal.load(Ordering::Relaxed), "a fatal error has happened"),
        ];
        let reasons: Vec<_> =
            checks.into_iter().filter_map(|(holds, reason)| holds.then_some(reason)).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn liveness_follows_the_heartbeat_alone() {
        let health = Health::new(1_000);
        assert!(health.live(61_000, 60_000));
        assert!(!health.live(61_001, 60_000));
        health.beat(61_001);
        health.set_fatal();
        health.set_shutting_down();
        assert!(health.live(61_001, 60_000));
        assert!(health.live(0, 60_000), "a reading taken before the beat counts as now");
    }

    #[test]
    fn readiness_is_a_latch_until_shutdown_or_a_fatal_error() {
        let health = Health::new(0);
        assert_eq!(health.ready().unwrap_err().len(), 1);
        health.set_joined();
        assert_eq!(health.ready(), Ok(()));
        assert!(!health.live(100_000, 60_000));
        assert_eq!(health.ready(), Ok(()), "a stalled loop is liveness's matter");
        health.set_shutting_down();
        health.set_fatal();
        assert_eq!(health.ready().unwrap_err().len(), 2);
    }
}
