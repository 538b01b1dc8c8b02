//! A child process with a log file that never outlives the tests.
//!
//! It is killed when dropped. If the test process itself is killed, or its statics are not dropped,
//! the kernel kills the child (`PR_SET_PDEATHSIG`, Linux only). That signal is sent when the
//! *thread* that forked ends, and a test's thread ends with the test, so one lasting thread forks
//! for all.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Log lines printed when a test fails.
const TAIL_LINES: usize = 60;

/// A running or ended child process.
pub struct Process {
    name: String,
    pid: i32,
    child: Mutex<Child>,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; its output is appended to the file `log`.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).expect("log is writable");
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().expect("log can be duplicated"));
        command.stderr(output);
        let program = command.get_program().to_owned();
        let child = spawn_on_lasting_thread(command)
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let pid = i32::try_from(child.id()).expect("a pid is positive");
        Self { name: name.to_owned(), pid, child: Mutex::new(child), log: log.to_path_buf() }
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Everything it has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends a signal, for example `libc::SIGTERM`. Panics if the process has ended.
    #[track_caller]
    #[allow(unsafe_code, reason = "std can only send SIGKILL")]
    pub fn signal(&self, signal: i32) {
        let mut child = self.lock();
        // While the guard is held nobody reaps the child, so that the pid cannot be another's.
        let running = child.try_wait().expect("own child").is_none();
        assert!(running, "{} has ended; cannot send it signal {signal}", self.name);
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0, "kill {}", self.name);
    }

    /// How it ended, or `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.lock().try_wait().expect("own child")
    }

    /// Waits for its end; fails the test if that takes longer than `deadline`.
    #[track_caller]
    pub fn wait(&self, deadline: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exit_status() {
                return status;
            }
            assert!(start.elapsed() < deadline, "{} still runs after {deadline:?}", self.name);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&self) {
        let mut child = self.lock();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Its memory in use, in bytes; 0 where there is no `/proc`.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        kilobytes.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0) * 1024
    }

    /// The last lines of the log, to be shown with a failure.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let path = self.log.display();
        format!("--- {}: end of {path}\n{}\n---", self.name, shown.join("\n"))
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("{}", self.tail());
        }
    }
}

type Job = (Command, mpsc::Sender<io::Result<Child>>);

fn spawn_on_lasting_thread(mut command: Command) -> io::Result<Child> {
    static FORKER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let forker = FORKER.get_or_init(|| {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let fork_for_all = move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        };
        thread::Builder::new().name("forker".into()).spawn(fork_for_all).expect("a thread");
        jobs
    });
    die_with_parent(&mut command);
    let (reply, result) = mpsc::channel();
    forker.send((command, reply)).expect("the forker never ends");
    result.recv().expect("the forker answers")
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "std has no parent death signal")]
fn die_with_parent(command: &mut Command) {
    let parent = i32::try_from(std::process::id()).expect("a pid is positive");
    let in_child = move || {
        // SAFETY: plain system calls, allowed between fork and exec.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above.
            if libc::getppid() != parent {
                return Err(io::Error::other("the test process has ended"));
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only.
    unsafe { command.pre_exec(in_child) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
