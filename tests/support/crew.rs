//! Daemons under a supervisor, as Kubernetes is one: a member that ends by itself is started again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::wait::eventually;
use super::{Daemon, DaemonConfig};

/// Start, first contact with the cluster, and whatever a busy machine adds.
const READY_DEADLINE: Duration = Duration::from_secs(90);

/// Any number of daemons, by their numbers from 0.
pub struct Crew {
    members: Arc<Mutex<Vec<Member>>>,
    stop: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<()>>,
}

struct Member {
    config: DaemonConfig,
    /// `None`: it shall not run.
    daemon: Option<Arc<Daemon>>,
    /// How often it ended by itself.
    own_ends: usize,
}

impl Crew {
    /// Nobody yet.
    pub fn new() -> Self {
        let members = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (watched, stopped) = (Arc::clone(&members), Arc::clone(&stop));
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                restart_ended(&mut lock(&watched));
                thread::sleep(Duration::from_millis(100));
            }
        };
        let supervisor = thread::Builder::new().name("supervisor".into()).spawn(body);
        Self { members, stop, supervisor: Some(supervisor.expect("a thread")) }
    }

    /// Starts a new member; its number.
    pub fn add(&self, config: DaemonConfig) -> usize {
        let mut members = lock(&self.members);
        let daemon = Some(Arc::new(config.start()));
        members.push(Member { config, daemon, own_ends: 0 });
        members.len() - 1
    }

    /// Starts a member that was stopped or killed.
    #[track_caller]
    pub fn start(&self, member: usize) {
        let member = &mut lock(&self.members)[member];
        assert!(member.daemon.is_none(), "it runs");
        member.daemon = Some(Arc::new(member.config.start()));
    }

    /// `kill -9`, and no restart.
    #[track_caller]
    pub fn kill(&self, member: usize) {
        // The supervisor looks at members under the same lock.
        lock(&self.members)[member].daemon.take().expect("it runs").kill();
    }

    /// SIGTERM, and waits for a clean end.
    #[track_caller]
    pub fn terminate(&self, member: usize, deadline: Duration) {
        let daemon = lock(&self.members)[member].daemon.take().expect("it runs");
        daemon.stop(deadline);
    }

    /// The daemon that runs as this member.
    #[track_caller]
    pub fn daemon(&self, member: usize) -> Arc<Daemon> {
        Arc::clone(lock(&self.members)[member].daemon.as_ref().expect("it runs"))
    }

    /// Every daemon that runs.
    pub fn daemons(&self) -> Vec<Arc<Daemon>> {
        lock(&self.members).iter().filter_map(|member| member.daemon.clone()).collect()
    }

    /// The numbers of those that run.
    pub fn running(&self) -> Vec<usize> {
        let members = lock(&self.members);
        (0..members.len()).filter(|member| members[*member].daemon.is_some()).collect()
    }

    /// Waits until the member says that it is ready, however often it has to be started.
    #[track_caller]
    pub fn wait_ready(&self, member: usize) {
        eventually(READY_DEADLINE, || match self.daemon(member).http_get("/readyz")? {
            (200, _) => Ok(()),
            (status, body) => Err(format!("/readyz: {status} {body}")),
        });
    }

    /// The sum of a metric over all that run.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.daemons().iter().filter_map(|daemon| daemon.metric(name, labels)).sum()
    }

    /// How often members ended by themselves and were started again.
    pub fn own_ends(&self) -> usize {
        lock(&self.members).iter().map(|member| member.own_ends).sum()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.supervisor.take().map(JoinHandle::join);
    }
}

fn restart_ended(members: &mut [Member]) {
    for member in members {
        let Some(daemon) = &member.daemon else { continue };
        if daemon.is_running() {
            continue;
        }
        let log = daemon.log();
        let last: Vec<&str> = log.lines().rev().take(3).collect();
        println!("a daemon ended by itself and is started again; its last lines: {last:#?}");
        member.own_ends += 1;
        member.daemon = Some(Arc::new(member.config.start()));
    }
}

fn lock(members: &Mutex<Vec<Member>>) -> MutexGuard<'_, Vec<Member>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}
