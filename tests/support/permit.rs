//! A limit on how many clusters of their own tests may run at once.
//!
//! `cargo test` runs tests on many threads. A broker takes about 300 MB and a second or two of both
//! cores to start, so [`Options::start`](super::Options::start) asks for a [`Permit`]. Take one for
//! the whole test, and only one: a second would wait for itself.

use std::sync::{Condvar, Mutex, PoisonError};

/// Clusters of their own at once, in one test process.
const PERMITS: usize = 2;

static FREE: Mutex<usize> = Mutex::new(PERMITS);
static RETURNED: Condvar = Condvar::new();

/// The right to run a cluster; given back when dropped.
#[must_use = "the permit is given back as soon as it is dropped"]
pub struct Permit(());

/// Waits for a permit.
pub fn heavy() -> Permit {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    while *free == 0 {
        free = RETURNED.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    *free -= 1;
    Permit(())
}

impl Drop for Permit {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        RETURNED.notify_one();
    }
}
