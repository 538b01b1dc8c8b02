//! Ends the engine thread's sleep from other threads.

use std::sync::OnceLock;
use std::thread::Thread;

/// A handle to the engine thread. Waking it before it has registered does nothing: it has not
/// slept yet.
#[derive(Debug, Default)]
pub struct Waker(OnceLock<Thread>);

impl Waker {
    /// Called once by the engine thread.
    pub fn register_current_thread(&self) {
        // A second registration is the same thread or a bug of a test; the first one stays.
        let _ = self.0.set(std::thread::current());
    }

    /// Ends the present or next sleep of the engine thread.
    pub fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}
