//! `kafka-delay demo`: the real forwarder on a broker inside this process.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use super::run::{init_logging, runtime};
use super::send::local_time;
use crate::app::{self, AppError, Daemon};
use crate::build_info::BuildInfo;
use crate::clock::{self, Moment};
use crate::config::{Config, Loaded, VerifyTopic};
use crate::engine::Level;
use crate::kafka::mock::MockBroker;
use crate::kafka::sender::{DelayedRecord, Sender};
use crate::kafka::tail::Tail;
use crate::shutdown::Signals;

/// Where the demo's records go.
const DESTINATION: &str = "orders";

/// Partitions of the destination.
const DESTINATION_PARTITIONS: i32 = 3;

/// Header by which a record tells when it is due.
const DUE_HEADER: &str = "demo-due-ms";

/// Records of longer levels are written with an older timestamp, so that they come due meanwhile.
const LONGEST_REAL_DELAY_MS: i64 = 10_000;

/// The mock broker waits 3 s before it lets a group form.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `demo`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay demo
  kafka-delay demo --for 20s
  kafka-delay demo --set delay.levels=1s,2s,3s --for 10s

Runs until Ctrl-C, or for the given time. Serves the same HTTP pages as the daemon.")]
pub struct DemoArgs {
    /// How long to run [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
}

pub(super) fn run(
    args: &DemoArgs,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut loaded = global.load()?;
    if !loaded.effective.iter().any(|setting| setting.path == "log.filter" && setting.is_set()) {
        // The table is what there is to see.
        loaded.config.log.filter = "error".to_owned();
    }
    let broker = MockBroker::start().map_err(|error| internal(&error))?;
    prepare(&mut loaded.config, &broker)?;
    let config = loaded.config.clone();
    let (mut show, background) = (Show::new(&config, out)?, Background::start(loaded)?);
    show.introduce(&broker, background.http)?;
    show.wait_for_group(&background)?;
    show.send_all_levels()?;
    let started = Moment::now();
    let ended = |elapsed| args.duration.is_some_and(|limit| elapsed >= limit);
    while !background.is_stopping() && !ended(started.elapsed()) {
        show.send_more(started.elapsed())?;
        show.next_row()?;
    }
    show.summarize()?;
    background.finish()
}

/// The demo's own settings: its broker, no topic checks (it has none), a free port for HTTP.
fn prepare(config: &mut Config, broker: &MockBroker) -> Result<(), Failure> {
    let levels = i32::try_from(config.delay.levels.count()).unwrap_or(i32::MAX);
    let dead_letter = config.dead_letter.topic.as_deref();
    let topics = [(config.source.topic.as_str(), levels), (DESTINATION, DESTINATION_PARTITIONS)];
    for (topic, partitions) in topics.into_iter().chain(dead_letter.map(|topic| (topic, 1))) {
        broker.create_topic(topic, partitions).map_err(|error| internal(&error))?;
    }
    config.kafka.bootstrap_servers = vec![broker.bootstrap_servers()];
    config.kafka.sasl = None;
    config.kafka.tls.enabled = false;
    config.source.verify_topic = VerifyTopic::Off;
    if let Some(listen) = &mut config.http.listen {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), listen.port());
        let free = TcpListener::bind(local).is_ok();
        *listen = SocketAddr::new(local.ip(), if free { local.port() } else { 0 });
    }
    Ok(())
}

/// The daemon on a thread of its own; the main thread shows what it does.
struct Background {
    http: Option<SocketAddr>,
    ready: Receiver<()>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), AppError>>,
}

impl Background {
    fn start(loaded: Loaded) -> Result<Self, Failure> {
        let build = BuildInfo::new(crate::kafka::library_version());
        let metrics = app::metrics(&loaded, &build)?;
        let logs = init_logging(&loaded, &metrics)?;
        let runtime = runtime()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopping);
        let (started_sender, started) = channel();
        let (ready_sender, ready) = channel();
        let body = move || {
            let result = runtime.block_on(async {
                let failed = |error: std::io::Error| AppError::Internal(error.to_string());
                let mut signals = Signals::listen().map_err(failed)?;
                let daemon = Daemon::start(&loaded.config, metrics, build).await?;
                // Receivers gone: the main thread has ended with an error, and so will this one.
                let _ = started_sender.send(daemon.http_address());
                let ready = daemon.readiness();
                let wait = async move {
                    while !ready() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    let _ = ready_sender.send(());
                    tokio::select! {
                        () = signals.next() => {}
                        () = until(&flag) => {}
                    }
                    flag.store(true, Ordering::Relaxed);
                };
                daemon.run(wait).await
            });
            logs.finish();
            result
        };
        let thread = std::thread::Builder::new()
            .name("daemon".to_owned())
            .spawn(body)
            .map_err(|error| internal(&error))?;
        match started.recv() {
            Ok(http) => Ok(Self { http, ready, stopping, thread }),
            Err(_) => Err(join(thread).err().unwrap_or_else(|| internal(&"ended at once"))),
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.thread.is_finished()
    }

    fn finish(self) -> Result<(), Failure> {
        self.stopping.store(true, Ordering::Relaxed);
        join(self.thread)
    }
}

async fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn join(thread: JoinHandle<Result<(), AppError>>) -> Result<(), Failure> {
    match thread.join() {
        Ok(result) => Ok(result?),
        Err(_) => Err(internal(&"the daemon panicked")),
    }
}

fn internal(error: &impl std::fmt::Display) -> Failure {
    Failure::new(exit::INTERNAL, format!("demo: {error}"))
}

/// Sends records and prints a row for each that arrives.
struct Show<'a, W: Write> {
    config: &'a Config,
    out: &'a mut W,
    sender: Sender,
    tail: Tail,
    sent: u32,
    /// Seconds since the start at which the next record of the shortest level is sent.
    next_send_s: u64,
    late_ms: Vec<f64>,
}

impl<'a, W: Write> Show<'a, W> {
    fn new(config: &'a Config, out: &'a mut W) -> Result<Self, Failure> {
        let sender = Sender::new(config).map_err(|error| internal(&error))?;
        let tail = Tail::new(config, &[(DESTINATION, DESTINATION_PARTITIONS)])
            .map_err(|error| internal(&error))?;
        Ok(Self { config, out, sender, tail, sent: 0, next_send_s: 1, late_ms: Vec::new() })
    }

    fn introduce(&mut self, broker: &MockBroker, http: Option<SocketAddr>) -> Result<(), Failure> {
        let levels = &self.config.delay.levels;
        let (topic, out) = (&self.config.source.topic, &mut self.out);
        writeln!(out, "kafka-delay demo: the forwarder on a broker inside this process")?;
        writeln!(out, "  broker       {}", broker.bootstrap_servers())?;
        writeln!(
            out,
            "  delay topic  {topic}, one partition for each of {} levels",
            levels.count()
        )?;
        writeln!(out, "  destination  {DESTINATION}")?;
        if let Some(address) = http {
            writeln!(out, "  pages        http://{address}/status  /metrics  /livez  /readyz")?;
        }
        writeln!(out)?;
        Ok(())
    }

    fn wait_for_group(&mut self, background: &Background) -> Result<(), Failure> {
        write!(self.out, "joining the group (the broker takes 3 s for this) ... ")?;
        self.out.flush()?;
        let started = Moment::now();
        background
            .ready
            .recv_timeout(JOIN_TIMEOUT)
            .map_err(|_| internal(&"the group did not form"))?;
        writeln!(self.out, "joined after {:.1} s", started.elapsed().as_secs_f64())?;
        Ok(())
    }

    /// One record into every level. Those of long levels are written as if some time ago.
    fn send_all_levels(&mut self) -> Result<(), Failure> {
        let levels: Vec<Level> = self.config.delay.levels.iter().collect();
        for (index, level) in levels.iter().enumerate() {
            let due_in_ms = if level.delay_ms <= LONGEST_REAL_DELAY_MS {
                level.delay_ms
            } else {
                2_000 + 600 * i64::try_from(index).unwrap_or(0)
            };
            self.send(*level, level.delay_ms - due_in_ms)?;
        }
        writeln!(
            self.out,
            "sent one record into each level, older ones marked as such; more follow in level 1\n"
        )?;
        writeln!(
            self.out,
            "{:<23}  {:>5}  {:>6}  {:<14}  {:<10}  {:<22}  {:>9}",
            "ARRIVED", "LEVEL", "DELAY", "WRITTEN", "KEY", "VALUE", "LATE"
        )?;
        Ok(())
    }

    /// A record of the shortest level every other second, to keep the table moving.
    fn send_more(&mut self, elapsed: Duration) -> Result<(), Failure> {
        if elapsed.as_secs() >= self.next_send_s {
            self.next_send_s = elapsed.as_secs() + 2;
            let shortest = self.config.delay.levels.of_partition(0);
            self.send(shortest, 0)?;
        }
        Ok(())
    }

    fn send(&mut self, level: Level, age_ms: i64) -> Result<(), Failure> {
        self.sent += 1;
        let written_ms = clock::wall_ms() - age_ms;
        let key = format!("order-{}", self.sent);
        let value = format!("cancel order-{}", self.sent);
        let headers = [
            (DUE_HEADER.to_owned(), (written_ms + level.delay_ms).to_string()),
            ("demo-level".to_owned(), level.number.to_string()),
            ("demo-age-ms".to_owned(), age_ms.to_string()),
        ];
        let record = DelayedRecord {
            topic: &self.config.source.topic,
            partition: i32::from(level.number) - 1,
            origin_topic: DESTINATION,
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &headers,
            timestamp_ms: Some(written_ms),
        };
        self.sender.send(&record).map(drop).map_err(|error| internal(&error))
    }

    /// Waits a moment for a record and prints it.
    fn next_row(&mut self) -> Result<(), Failure> {
        let Some(arrived) = self.tail.next(Duration::from_millis(50)) else { return Ok(()) };
        let header = |name: &str| {
            let found = arrived.headers.iter().find(|(key, _)| key == name.as_bytes());
            let value = found.and_then(|(_, value)| value.as_deref());
            value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<i64>().ok())
        };
        let (Some(due_ms), Some(level), Some(age_ms)) =
            (header(DUE_HEADER), header("demo-level"), header("demo-age-ms"))
        else {
            return Ok(());
        };
        let late_ms = clock::since_wall_ms(due_ms);
        self.late_ms.push(late_ms);
        let partition = i32::try_from(level - 1).unwrap_or(0);
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let age_s = u64::try_from(age_ms).unwrap_or(0) / 1_000;
        let written = match age_s {
            0 => "now".to_owned(),
            _ => format!("{} ago", humantime::format_duration(Duration::from_secs(age_s))),
        };
        writeln!(
            self.out,
            "{:<23}  {level:>5}  {:>6}  {written:<14}  {:<10}  {:<22}  {late_ms:>6.1} ms",
            local_time(clock::wall_ms()),
            self.config.delay.levels.of_partition(partition).label(),
            text(&arrived.key),
            text(&arrived.value),
        )?;
        self.out.flush()?;
        Ok(())
    }

    fn summarize(&mut self) -> Result<(), Failure> {
        self.late_ms.sort_by(f64::total_cmp);
        let count = self.late_ms.len();
        writeln!(self.out)?;
        if count == 0 {
            writeln!(self.out, "{} sent, none due yet", self.sent)?;
            return Ok(());
        }
        let at = |share: f64| {
            // Nearest rank; `count` is small and positive.
            let rank = (share * (count as f64)).ceil().max(1.0);
            self.late_ms[(rank as usize).min(count) - 1]
        };
        let early = self.late_ms.iter().filter(|late_ms| **late_ms < 0.0).count();
        writeln!(
            self.out,
            "{} sent, {count} arrived, {early} early; late by p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            self.sent,
            at(0.5),
            at(0.99),
            at(1.0)
        )?;
        Ok(())
    }
}
