//! Signals that end the daemon.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// SIGTERM and SIGINT, listened to from the moment of construction: process 1 of a container has
/// no default handlers, so a signal before that would be ignored.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen. Needs a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Completes with the next signal.
    pub async fn next(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "signal received");
    }

    /// Completes with the second signal: somebody is in a hurry.
    pub async fn again(&mut self) {
        self.next().await;
        warn!("second signal: ending at once; what was not committed will be forwarded again");
    }
}
