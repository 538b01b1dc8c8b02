//! Loopback ports that stay ours while a broker is down.
//!
//! A port the kernel picks ("port 0") is from the range of outgoing connections: while the broker
//! is down, some client's connection may take it, even one to that very port. So ports come from
//! below that range, each with a lock file that other test processes respect.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use super::workspace::FileLock;

/// Below 32768, where Linux begins its outgoing ports, and above the ports of well-known servers.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port of 127.0.0.1, reserved until dropped.
pub struct Port {
    /// The number.
    pub number: u16,
    _lock: FileLock,
}

/// Reserves a port that nobody listens on.
pub fn reserve() -> Port {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let locks = std::env::temp_dir().join("kafka-delay-test-ports");
    fs::create_dir_all(&locks).expect("the temporary directory is writable");
    let spread = u16::try_from(std::process::id() % 1_000).expect("below 1000") * 12;
    for _ in 0..COUNT {
        let number = FIRST + (NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(spread)) % COUNT;
        let Some(lock) = FileLock::try_acquire(&locks.join(number.to_string())) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
            return Port { number, _lock: lock };
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + COUNT);
}
