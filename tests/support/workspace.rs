//! Where the test library keeps files, and locks between test processes.
//!
//! `target/kafka/` holds what is worth keeping between runs; `target/tmp/kafka-runs/<pid>-<ms>/`
//! what one test process makes. A process holds a lock inside its directory while it lives; the
//! next process removes the directories whose lock is free.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::wait::now_ms;

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().expect("CARGO_TARGET_TMPDIR is target/tmp").to_path_buf()
}

/// A file lock, held until dropped or until the process ends.
pub struct FileLock(#[allow(dead_code, reason = "closing the file gives the lock back")] File);

impl FileLock {
    /// Waits for the lock on `path`, which is created when missing.
    pub fn acquire(path: &Path) -> Self {
        Self::open(path, 0).unwrap_or_else(|| panic!("cannot lock {}", path.display()))
    }

    /// The lock, unless another process (or another handle of this one) has it.
    pub fn try_acquire(path: &Path) -> Option<Self> {
        Self::open(path, libc::LOCK_NB)
    }

    #[allow(unsafe_code, reason = "std has file locks only since Rust 1.89")]
    fn open(path: &Path, flags: i32) -> Option<Self> {
        let file = File::options().create(true).append(true).open(path).ok()?;
        // SAFETY: the descriptor is open, and owned by `file`.
        let taken = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | flags) } == 0;
        taken.then_some(Self(file))
    }
}

/// A new empty directory, removed by the next test process at the latest.
pub fn new_dir(name: &str) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let dir = run_dir().join(format!("{number}-{name}"));
    fs::create_dir_all(&dir).expect("target/tmp is writable");
    dir
}

/// The directory of this test process.
fn run_dir() -> &'static Path {
    static RUN: OnceLock<(PathBuf, FileLock)> = OnceLock::new();
    let (dir, _) = RUN.get_or_init(|| {
        let runs = target_dir().join("tmp").join("kafka-runs");
        fs::create_dir_all(&runs).expect("target/tmp is writable");
        let _all_runs = FileLock::acquire(&runs.join("lock"));
        remove_ended_runs(&runs);
        let dir = runs.join(format!("{}-{}", std::process::id(), now_ms()));
        fs::create_dir_all(&dir).expect("target/tmp is writable");
        let lock = FileLock::acquire(&dir.join("lock"));
        (dir, lock)
    });
    dir
}

fn remove_ended_runs(runs: &Path) {
    for entry in fs::read_dir(runs).expect("target/tmp is readable").flatten() {
        let dir = entry.path();
        if dir.is_dir() && FileLock::try_acquire(&dir.join("lock")).is_some() {
            let _ = fs::remove_dir_all(&dir);
        }
    }
}
