//! Waiting for something to become true, unique names, and the wall clock of the tests.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Asks `check` until it says `Ok`, and fails the test with its last answer when `deadline` has
/// passed.
#[track_caller]
pub fn eventually<T, E: Display>(deadline: Duration, mut check: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(reason) if start.elapsed() >= deadline => {
                panic!("not so within {deadline:?}: {reason}")
            }
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// A legal topic, group or transactional id that no other test of this or another process has.
pub fn unique(what: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{}-{number}", std::process::id())
}

/// Milliseconds since 1970, by the same clock as the daemon and the broker.
pub fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since_epoch.as_millis()).expect("milliseconds fit into 63 bits")
}
