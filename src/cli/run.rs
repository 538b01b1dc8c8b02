//! `kafka-delay run`: the daemon.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tracing::{info, warn};

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use crate::app::{self, AppError, Daemon};
use crate::build_info::BuildInfo;
use crate::config::{self, Loaded};
use crate::logging::{self, LogFlusher, LogFormat, LogOptions};
use crate::metrics::Metrics;
use crate::shutdown::Signals;
use crate::{clock, kafka};

/// Repeated log lines are summed up at least this often.
const LOG_TICK: Duration = Duration::from_secs(1);

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay run --config /etc/kafka-delay/config.toml
  kafka-delay run -b kafka-1:9092,kafka-2:9092
  KAFKA_DELAY__KAFKA__BOOTSTRAP_SERVERS=kafka:9092 kafka-delay run

Stops on SIGTERM and SIGINT: no new record is sent, acknowledgements are awaited, offsets committed.
A second signal ends the process at once.")]
pub struct RunArgs {}

pub(super) fn run(_args: &RunArgs, global: &GlobalArgs) -> Result<(), Failure> {
    let loaded = global.load()?;
    let build = BuildInfo::new(kafka::library_version());
    let metrics = app::metrics(&loaded, &build)?;
    let logs = init_logging(&loaded, &metrics)?;
    end_on_panic();
    info!(version = build.version, revision = build.revision, librdkafka = %build.librdkafka, "kafka-delay");
    for warning in &loaded.warnings {
        warn!("{warning}");
    }
    let result = runtime()?.block_on(async {
        let ticking = tokio::spawn(tick(logs.clone()));
        let result = until_signalled(&loaded, metrics, build).await;
        ticking.abort();
        result
    });
    logs.finish();
    Ok(result?)
}

async fn until_signalled(
    loaded: &Loaded,
    metrics: Arc<Metrics>,
    build: BuildInfo,
) -> Result<(), AppError> {
    let internal = |error: std::io::Error| AppError::Internal(format!("signals: {error}"));
    let mut signals = Signals::listen().map_err(internal)?;
    let daemon = tokio::select! {
        daemon = Daemon::start(&loaded.config, metrics, build) => daemon?,
        () = signals.next() => return Ok(()),
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = daemon.run(async move {
        // An error means that the sender is gone, which never happens before it was used.
        let _ = stopped.await;
    });
    tokio::pin!(running);
    tokio::select! {
        result = &mut running => return result,
        () = signals.next() => {}
    }
    // The receiver is alive: `running` has not completed.
    let _ = stop.send(());
    tokio::select! {
        result = &mut running => result,
        () = signals.again() => Err(AppError::Internal("ended by a second signal".to_owned())),
    }
}

async fn tick(logs: LogFlusher) {
    let mut interval = tokio::time::interval(LOG_TICK);
    loop {
        interval.tick().await;
        logs.tick();
    }
}

/// One thread is enough: the records have theirs.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::new(exit::INTERNAL, format!("tokio: {error}")))
}

pub(super) fn init_logging(loaded: &Loaded, metrics: &Metrics) -> Result<LogFlusher, Failure> {
    let log = &loaded.config.log;
    let options = LogOptions {
        filter: log.filter.clone(),
        format: match log.format {
            config::LogFormat::Auto => LogFormat::Auto,
            config::LogFormat::Text => LogFormat::Text,
            config::LogFormat::Json => LogFormat::Json,
        },
        repeat_window: log.repeat_window,
    };
    let started = logging::init(&options, Arc::new(clock::wall_ms), metrics.log_observer());
    started.map_err(|error| Failure::new(exit::CONFIG, format!("log.filter: {error}")))
}

/// A panic on any thread is logged and ends the process: without that thread it would live on and
/// forward nothing.
fn end_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(%panic, "panic; ending the process");
        before(panic);
        kafka::end_process(exit::INTERNAL);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "KAFKA_DELAY_TEST_CHILD";

    // R96: the test runs itself in a child process, whose panicking thread must end it.
    #[test]
    fn a_panic_on_any_thread_ends_the_process_with_70() {
        if std::env::var_os(CHILD).is_some() {
            end_on_panic();
            let panicking = std::thread::spawn(|| panic!("on purpose"));
            let _ = panicking.join();
            return; // the process lives: the parent sees exit code 0
        }
        let name = "cli::run::tests::a_panic_on_any_thread_ends_the_process_with_70";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(70));
        assert!(String::from_utf8_lossy(&output.stderr).contains("on purpose"));
    }
}
