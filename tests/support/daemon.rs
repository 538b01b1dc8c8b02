//! The compiled `kafka-delay run` as a child process, configured through its environment.

use std::collections::BTreeMap;
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use super::frozen::FrozenThread;
use super::ports::{self, Port};
use super::process::Process;
use super::wait::{eventually, unique};
use super::{Client, http, workspace};

/// Where a daemon serves HTTP, unless a test says otherwise.
const HTTP_LISTEN: &str = "KAFKA_DELAY__HTTP__LISTEN";

/// Start, first contact with the cluster, first assignment.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// The settings of a daemon. Start it as often as members are wanted: all are of one group.
#[derive(Debug, Clone)]
pub struct DaemonConfig {
    /// Its consumer group, of which no other test knows.
    pub group: String,
    environment: BTreeMap<String, String>,
    arguments: Vec<String>,
}

impl DaemonConfig {
    /// A daemon on this cluster and delay topic, with a group and a dead-letter topic of its own:
    /// `<delay topic>_dlq`, which the test creates if it wants one.
    pub fn new(client: &Client, delay_topic: &str) -> Self {
        let group = unique("daemon");
        let config =
            Self { group: group.clone(), environment: BTreeMap::new(), arguments: Vec::new() };
        let config = config
            .set("kafka.bootstrap_servers", &client.bootstrap)
            .set("source.topic", delay_topic)
            .set("source.group_id", &group)
            .set("dead_letter.topic", &format!("{delay_topic}_dlq"))
            .set("log.filter", "info,kafka_delay=debug")
            .set("log.format", "text");
        match &client.credentials {
            None => config,
            Some((user, password)) => config
                .set("kafka.sasl.mechanism", "SCRAM-SHA-512")
                .set("kafka.sasl.username", user)
                .set("kafka.sasl.password", password),
        }
    }

    /// A setting as `section.key`, passed as `KAFKA_DELAY__SECTION__KEY`.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        let variable = format!("KAFKA_DELAY__{}", key.to_uppercase().replace('.', "__"));
        self.environment.insert(variable, value.to_owned());
        self
    }

    /// Any other variable of its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A further command line argument, after `run`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Starts a daemon and returns at once.
    #[track_caller]
    pub fn start(&self) -> Daemon {
        let http = ports::reserve();
        let mut command = self.command(&["run"]);
        command.args(&self.arguments);
        if !self.environment.contains_key(HTTP_LISTEN) {
            command.env(HTTP_LISTEN, format!("127.0.0.1:{}", http.number));
        }
        let log = workspace::new_dir("daemon").join("daemon.log");
        Daemon { process: Process::spawn("daemon", command, &log), http }
    }

    /// Runs another command, such as `topics check`, with the same settings, to its end.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary can be started")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kafka-delay"));
        // Settings of the developer's own shell must not leak in.
        for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("KAFKA_DELAY")) {
            command.env_remove(variable);
        }
        command.envs(&self.environment).args(arguments);
        command
    }

    /// Starts a daemon and waits until it says that it is ready.
    #[track_caller]
    pub fn start_ready(&self) -> Daemon {
        let daemon = self.start();
        daemon.wait_ready();
        daemon
    }
}

/// A daemon; killed when dropped.
pub struct Daemon {
    process: Process,
    http: Port,
}

impl Daemon {
    /// The process id.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends a signal: `libc::SIGTERM`, `SIGSTOP`, `SIGCONT`, ...
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// SIGSTOP, and waits until every thread stands still: the signal itself returns before that.
    #[track_caller]
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let stopped =
            |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        eventually(READY_DEADLINE, || {
            for task in std::fs::read_dir(&tasks).map_err(|error| error.to_string())? {
                let stat = task.map_err(|error| error.to_string())?.path().join("stat");
                let stat = std::fs::read_to_string(stat).map_err(|error| error.to_string())?;
                if !stopped(&stat) {
                    return Err(format!("still running: {stat}"));
                }
            }
            Ok(())
        });
    }

    /// Its threads, in the order in which they were made: id and name.
    pub fn threads(&self) -> Vec<(i32, String)> {
        let tasks = format!("/proc/{}/task", self.pid());
        let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let mut threads: Vec<(i32, String)> = tasks
            .filter_map(|task| {
                let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
                Some((task.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
            })
            .collect();
        threads.sort_unstable();
        threads
    }

    /// Stops one of its threads alone.
    #[track_caller]
    pub fn freeze_thread(&self, thread: i32) -> FrozenThread {
        assert!(self.threads().iter().any(|(id, _)| *id == thread), "{:?}", self.threads());
        FrozenThread::new(thread)
    }

    /// `kill -9`.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGTERM, and waits for a clean end.
    #[track_caller]
    pub fn stop(&self, deadline: Duration) {
        self.signal(libc::SIGTERM);
        let status = self.wait_exit(deadline);
        assert!(status.success(), "after SIGTERM: {status}");
    }

    /// Waits for its end; `code()` of the answer is `None` when a signal killed it.
    #[track_caller]
    pub fn wait_exit(&self, deadline: Duration) -> ExitStatus {
        self.process.wait(deadline)
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.process.exit_status().is_none()
    }

    /// Where it serves HTTP, unless the test said otherwise.
    pub fn http_address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.http.number).into()
    }

    /// Status and body of an endpoint, or why there was no answer.
    pub fn http_get(&self, path: &str) -> Result<(u16, String), String> {
        http::http_get(self.http.number, path)
    }

    /// Waits until `/readyz` answers 200.
    #[track_caller]
    pub fn wait_ready(&self) {
        eventually(READY_DEADLINE, || {
            if let Some(status) = self.process.exit_status() {
                panic!("the daemon ended before it was ready: {status}");
            }
            match self.http_get("/readyz")? {
                (200, _) => Ok(()),
                (status, body) => Err(format!("/readyz: {status} {body}")),
            }
        });
    }

    /// The sum of the series of that name that carry all of `labels`; `None` when there is none.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let (_, text) = self.http_get("/metrics").ok()?;
        http::metric(&text, name, labels)
    }

    /// Waits until a metric is at least `value`.
    #[track_caller]
    pub fn wait_metric(&self, name: &str, labels: &[(&str, &str)], value: f64, deadline: Duration) {
        eventually(deadline, || match self.metric(name, labels) {
            Some(found) if found >= value => Ok(()),
            found => Err(format!("{name}{labels:?} is {found:?}, not yet {value}")),
        });
    }

    /// Its memory in use, in bytes (Linux).
    pub fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }
}
