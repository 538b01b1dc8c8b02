//! One daemon and one mock broker for each test.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender as Stop, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kafka_delay::app::{self, AppError, Daemon};
use kafka_delay::build_info::BuildInfo;
use kafka_delay::clock;
use kafka_delay::config::{self, Config, Override, Sources};
use kafka_delay::kafka::mock::MockBroker;
use kafka_delay::kafka::sender::{DelayedRecord, Sender};
use kafka_delay::kafka::tail::{Arrived, Tail};

/// Fails a test that hangs; never a measure of speed.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub const DESTINATION: &str = "orders";
const DELAY_TOPIC: &str = "delay_topic";
const DEAD_LETTERS: &str = "delay_topic_dlq";

pub struct Harness {
    pub broker: MockBroker,
    config: Config,
    sender: Sender,
    tail: Tail,
    dead_letters: Tail,
    http: SocketAddr,
    stop: Stop<()>,
    daemon: JoinHandle<Result<(), AppError>>,
}

impl Harness {
    /// A daemon with three levels (1 s, 2 s, 30 s) that has joined its group.
    pub fn start() -> Self {
        Self::start_after(|_| {})
    }

    /// As above; `provoke` runs before the daemon starts.
    pub fn start_after(provoke: impl FnOnce(&MockBroker)) -> Self {
        Self::start_with(&[], provoke)
    }

    /// As above, with further settings.
    pub fn start_with(settings: &[(&str, &str)], provoke: impl FnOnce(&MockBroker)) -> Self {
        let harness = Self::launch(settings, provoke);
        harness.eventually("/readyz answers 200", |harness| harness.get("/readyz").0 == 200);
        harness
    }

    /// As above, but does not wait until it has joined.
    pub fn launch(settings: &[(&str, &str)], provoke: impl FnOnce(&MockBroker)) -> Self {
        let broker = MockBroker::start().unwrap();
        for (topic, partitions) in [(DELAY_TOPIC, 3), (DEAD_LETTERS, 1), (DESTINATION, 3)] {
            broker.create_topic(topic, partitions).unwrap();
        }
        let set = |path: &str, value: &str| Override {
            path: path.to_owned(),
            value: value.to_owned(),
            flag: "test".to_owned(),
        };
        let mut flags = vec![
            set("kafka.bootstrap_servers", &broker.bootstrap_servers()),
            set("delay.levels", "1s,2s,30s"),
            set("source.verify_topic", "off"),
            set("http.listen", "127.0.0.1:0"),
            set("source.commit_interval", "100ms"),
        ];
        flags.extend(settings.iter().map(|(path, value)| set(path, value)));
        let loaded = config::load(&Sources { flags, ..Sources::default() }).unwrap();
        let config = loaded.config.clone();
        provoke(&broker);
        let (stop, stopped) = channel::<()>();
        let (started_sender, started) = channel();
        let daemon = std::thread::spawn(move || {
            let build = BuildInfo::new(String::new());
            let metrics = app::metrics(&loaded, &build)?;
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let daemon = Daemon::start(&loaded.config, metrics, build).await?;
                started_sender.send(daemon.http_address().unwrap()).unwrap();
                let asked = async move {
                    while stopped.try_recv().is_err() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                daemon.run(asked).await
            })
        });
        let http = started.recv_timeout(DEADLINE).unwrap();
        let sender = Sender::new(&config).unwrap();
        let tail = Tail::new(&config, &[(DESTINATION, 3)]).unwrap();
        let dead_letters = Tail::new(&config, &[(DEAD_LETTERS, 1)]).unwrap();
        Self { broker, config, sender, tail, dead_letters, http, stop, daemon }
    }

    /// Sends a record whose value is its due time.
    pub fn send(&self, level: u16, age_ms: i64) -> i64 {
        let delay = self.config.delay.levels.iter().find(|known| known.number == level).unwrap();
        let written_ms = clock::wall_ms() - age_ms;
        let due_ms = written_ms + delay.delay_ms;
        let value = due_ms.to_string();
        let receipt = self.sender.send(&DelayedRecord {
            topic: DELAY_TOPIC,
            partition: i32::from(level) - 1,
            origin_topic: DESTINATION,
            key: Some(value.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
            timestamp_ms: Some(written_ms),
        });
        receipt.unwrap().wait(DEADLINE).unwrap();
        due_ms
    }

    /// Waits until `count` records have arrived; each after its due time, none twice.
    pub fn arrive(&self, mut expected: Vec<i64>) {
        let started = Instant::now();
        let mut arrived = Vec::new();
        while arrived.len() < expected.len() {
            assert!(started.elapsed() < DEADLINE, "only {} of {expected:?}", arrived.len());
            if let Some(record) = self.tail.next(Duration::from_millis(50)) {
                let due_ms = due_of(&record);
                assert!(clock::wall_ms() >= due_ms, "early by {}", due_ms - clock::wall_ms());
                arrived.push(due_ms);
            }
        }
        arrived.sort_unstable();
        expected.sort_unstable();
        assert_eq!(arrived, expected, "lost or forwarded twice");
    }

    /// Asserts that nothing more is at the destination and nothing is dead-lettered.
    pub fn nothing_more(&self) {
        assert_eq!(self.tail.next(Duration::from_millis(500)), None);
        assert_eq!(self.dead_letters.next(Duration::from_millis(100)), None);
    }

    /// Status and body of a page.
    pub fn get(&self, path: &str) -> (u16, String) {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Sum of the samples of one metric whose line contains `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let (_, text) = self.get("/metrics");
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    pub fn eventually(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !condition(self) {
            assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the daemon ends by itself, and says why it did.
    pub fn end(self) -> AppError {
        let started = Instant::now();
        while !self.daemon.is_finished() {
            assert!(started.elapsed() < DEADLINE, "the daemon goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.daemon.join().unwrap().unwrap_err()
    }

    /// Stops the daemon, which must end well.
    pub fn finish(self) {
        self.stop.send(()).unwrap();
        self.daemon.join().unwrap().unwrap();
    }
}

fn due_of(record: &Arrived) -> i64 {
    let value = record.value.as_deref().unwrap();
    std::str::from_utf8(value).unwrap().parse().unwrap()
}
