//! One broker: a JVM with ports and storage that it keeps over restarts.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::java;
use super::ports::{self, Port};
use super::process::Process;

/// A controlled shutdown of a busy broker takes a few seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// How its Java is started.
#[derive(Debug, Clone)]
pub(super) struct Jvm {
    /// As in `-Xmx`.
    pub(super) heap: String,
    /// System properties, as `name=value`.
    pub(super) system: Vec<String>,
}

/// One broker, which is a controller too.
pub struct Node {
    /// Its `node.id`, from 1.
    pub id: i32,
    port: Port,
    controller_port: Port,
    further_ports: Vec<Port>,
    dir: PathBuf,
    jvm: Jvm,
    process: Mutex<Option<Process>>,
}

impl Node {
    pub(super) fn new(id: i32, dir: PathBuf, jvm: Jvm, further_listeners: usize) -> Self {
        let (port, controller_port) = (ports::reserve(), ports::reserve());
        let further_ports = (0..further_listeners).map(|_| ports::reserve()).collect();
        let process = Mutex::new(None);
        Self { id, port, controller_port, further_ports, dir, jvm, process }
    }

    /// Where clients connect: `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// The address of a further listener, by its place among them.
    pub(super) fn further_address(&self, index: usize) -> String {
        format!("127.0.0.1:{}", self.further_ports[index].number)
    }

    pub(super) fn controller_address(&self) -> String {
        format!("127.0.0.1:{}", self.controller_port.number)
    }

    /// Writes its settings and an empty storage. `format` are further arguments of the format tool.
    pub(super) fn prepare(&self, properties: &[(String, String)], format: &[String]) {
        java::write_properties(&self.properties_file(), properties, &self.data_dir());
        java::format_storage(properties, format, &self.data_dir());
    }

    /// Starts it and returns at once; [`Cluster::wait_ready`](super::Cluster::wait_ready) waits.
    #[track_caller]
    pub fn start(&self) {
        let mut process = self.lock();
        assert!(process.is_none(), "node {} was started already", self.id);
        let mut command = java::java(&self.jvm.heap);
        command.args(self.jvm.system.iter().map(|property| format!("-D{property}")));
        // Native compression libraries are unpacked there and stay after a kill.
        command.arg(format!("-Djava.io.tmpdir={}", self.dir.display()));
        command.arg("kafka.Kafka").arg(self.properties_file());
        let name = format!("broker {}", self.id);
        *process = Some(Process::spawn(&name, command, &self.dir.join("broker.log")));
    }

    /// `kill -9`.
    #[track_caller]
    pub fn kill(&self) {
        self.take().kill();
    }

    /// SIGTERM: a controlled shutdown. Waits for its end.
    #[track_caller]
    pub fn terminate(&self) {
        let process = self.take();
        process.signal(libc::SIGTERM);
        process.wait(STOP_DEADLINE);
    }

    /// SIGSTOP: connections stay open, nothing answers.
    #[track_caller]
    pub fn suspend(&self) {
        self.lock().as_ref().expect("the node runs").signal(libc::SIGSTOP);
    }

    /// SIGCONT.
    #[track_caller]
    pub fn resume(&self) {
        self.lock().as_ref().expect("the node runs").signal(libc::SIGCONT);
    }

    /// Whether it was started and neither killed nor terminated since.
    pub fn is_started(&self) -> bool {
        self.lock().is_some()
    }

    /// Fails the test if the process ended by itself.
    #[track_caller]
    pub(super) fn check_alive(&self) {
        if let Some(process) = self.lock().as_ref()
            && let Some(status) = process.exit_status()
        {
            panic!("broker {} ended by itself ({status})\n{}", self.id, process.tail());
        }
    }

    /// The broker's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default()
    }

    /// Its storage, for example for `DumpLogSegments`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Its memory in use, in bytes (Linux).
    pub fn resident_bytes(&self) -> u64 {
        self.lock().as_ref().expect("the node runs").resident_bytes()
    }

    fn properties_file(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    #[track_caller]
    fn take(&self) -> Process {
        self.lock().take().unwrap_or_else(|| panic!("node {} does not run", self.id))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
