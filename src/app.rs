//! The composition root: builds the parts, starts them in order, watches them, stops them.
//!
//! Start: HTTP (so that probes get an answer), connection, topic checks, clients, engine thread.
//! Stop: engine thread drains and commits, consumer leaves the group, HTTP last. A fatal error, a
//! panic of the engine thread or a stalled loop ends [`Daemon::run`] with an error: a process that
//! lives and forwards nothing is the worst outcome.

mod engine_thread;
mod startup;
mod statistics;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::build_info::BuildInfo;
use crate::clock::{self, Clock};
use crate::config::{Config, Loaded};
use crate::http::{self, HttpState};
use crate::metrics::{Metrics, MetricsOptions};
use crate::status::{Health, SharedStatus, Status};

use engine_thread::{EngineThread, Outcome};
pub use startup::{check_topics, connect};

/// The watchdog looks this often.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// After the last commit, leaving the group may take this long, if `shutdown.timeout` leaves it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failure, leaving the group may take this long: others get the partitions at once then,
/// and not when the session ends.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the daemon did not start or did not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// Kafka did not answer in time.
    #[error("{0}")]
    Unavailable(String),
    /// Kafka refused the credentials or a permission.
    #[error("{0}")]
    Denied(String),
    /// A setting, or a topic's setting, does not work.
    #[error("{0}")]
    Config(String),
    /// Nothing an operator did: fatal client error, panic, stall.
    #[error("{0}")]
    Internal(String),
}

/// The parts that exist from the first moment.
#[derive(Clone)]
struct Shared {
    clock: Clock,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    status: SharedStatus,
}

/// A started daemon.
pub struct Daemon {
    shared: Shared,
    engine: EngineThread,
    http: Option<HttpServer>,
    stall_after_ms: u64,
    shutdown_timeout: Duration,
}

struct HttpServer {
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Metrics of a process with this configuration.
pub fn metrics(loaded: &Loaded, build: &BuildInfo) -> Result<Arc<Metrics>, AppError> {
    let config = &loaded.config;
    let buckets: Vec<f64> =
        config.metrics.lateness_buckets.iter().map(Duration::as_secs_f64).collect();
    let limit = config.metrics.per_topic.then_some(config.metrics.per_topic_limit as usize);
    let options = MetricsOptions {
        levels: &config.delay.levels,
        lateness_buckets_seconds: &buckets,
        per_topic_limit: limit,
        config_sha256: &loaded.sha256,
        build,
    };
    let metrics = Metrics::new(&Registry::new(), &options)
        .map_err(|error| AppError::Internal(format!("metrics: {error}")))?;
    Ok(Arc::new(metrics))
}

impl Daemon {
    /// Starts everything. Returns when the engine thread has begun to join the group.
    pub async fn start(
        config: &Config,
        metrics: Arc<Metrics>,
        build: BuildInfo,
    ) -> Result<Self, AppError> {
        let clock = Clock::start();
        let health = Arc::new(Health::new(steady_ms(clock)));
        let status = SharedStatus::new(Status {
            instance: config.kafka.client_id.clone(),
            version: build.version.to_owned(),
            started_ms: clock::wall_ms(),
            group_id: config.source.group_id.clone(),
            source_topic: config.source.topic.clone(),
            ..Status::default()
        });
        let shared = Shared { clock, health, metrics, status };
        let stall_after_ms = millis(config.health.stall_after);
        let http = match config.http.listen {
            Some(address) => Some(serve(address, &shared, build, stall_after_ms).await?),
            None => None,
        };
        let topics = startup::prepare(config).await?;
        shared.metrics.set_topic_retention(topics.retention);
        let engine = EngineThread::start(config, topics.partitions, &shared)?;
        let shutdown_timeout = config.shutdown.timeout;
        Ok(Self { shared, engine, http, stall_after_ms, shutdown_timeout })
    }

    /// Where HTTP is served, if it is.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|server| server.address)
    }

    /// Tells, also while the daemon runs, whether the group was joined.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + 'static {
        let health = Arc::clone(&self.shared.health);
        move || health.ready().is_ok()
    }

    /// Runs until `stop` completes or something fatal happens, then stops everything.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), AppError> {
        let mut close_timeout = CLOSE_TIMEOUT;
        let ended = tokio::select! {
            outcome = self.engine.outcome() => Ok(outcome),
            () = watch(&self.shared, self.stall_after_ms) => {
                Err("the engine loop is stuck; ending the process")
            }
            () = stop => {
                let began_ms = steady_ms(self.shared.clock);
                let outcome = self.stop_engine().await;
                let took_ms = steady_ms(self.shared.clock).saturating_sub(began_ms);
                let left = self.shutdown_timeout.saturating_sub(Duration::from_millis(took_ms));
                close_timeout = close_timeout.min(left);
                outcome
            }
        };
        let result = match ended {
            Ok(Outcome::Drained) => {
                self.close(close_timeout).await;
                Ok(())
            }
            Ok(Outcome::Failed(error)) => {
                self.fail(&error);
                self.close(LEAVE_TIMEOUT).await;
                Err(error)
            }
            // A thread that does not come back cannot leave the group either.
            Err(cause) => {
                let error = AppError::Internal(cause.to_owned());
                self.fail(&error);
                Err(error)
            }
        };
        if let Some(server) = self.http {
            // Dropping the sender is the signal too: nobody to tell when the task has ended.
            let _ = server.stop.send(());
            let _ = tokio::time::timeout(Duration::from_secs(1), server.task).await;
        }
        result
    }

    fn fail(&self, error: &AppError) {
        self.shared.health.set_fatal();
        error!(cause = %error, "the daemon cannot go on");
    }

    /// What the thread says, or why nothing is expected of it any more.
    async fn stop_engine(&mut self) -> Result<Outcome, &'static str> {
        info!("stopping: waiting for acknowledgements, then committing");
        self.shared.health.set_shutting_down();
        self.engine.stop();
        match tokio::time::timeout(self.shutdown_timeout, self.engine.outcome()).await {
            Ok(outcome) => Ok(outcome),
            Err(_) => {
                Err("shutdown.timeout has passed; what was not committed will be forwarded again")
            }
        }
    }

    /// Waits for the consumer to leave the group. All that matters is committed by now, so a
    /// close that hangs is left behind.
    async fn close(&mut self, timeout: Duration) {
        match tokio::time::timeout(timeout, self.engine.closed()).await {
            Ok(()) => info!("stopped"),
            Err(_) => warn!("stopped; leaving the group took too long and was given up"),
        }
    }
}

/// Completes when the loop has been silent for twice the time after which `/livez` fails.
async fn watch(shared: &Shared, stall_after_ms: u64) {
    let mut interval = tokio::time::interval(WATCH_EVERY);
    loop {
        interval.tick().await;
        if shared.health.silent_ms(steady_ms(shared.clock)) > stall_after_ms.saturating_mul(2) {
            return;
        }
    }
}

async fn serve(
    address: SocketAddr,
    shared: &Shared,
    build: BuildInfo,
    stall_after_ms: u64,
) -> Result<HttpServer, AppError> {
    let taken =
        |error| AppError::Config(format!("http.listen: cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    let clock = shared.clock;
    let state = HttpState {
        status: shared.status.clone(),
        health: Arc::clone(&shared.health),
        metrics: Arc::clone(&shared.metrics),
        build,
        now_ms: Arc::new(move || steady_ms(clock)),
        stall_after_ms,
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let until = async move {
            // An error means that the sender is gone: stop too.
            let _ = stopped.await;
        };
        if let Err(error) = http::serve(listener, state, until).await {
            error!(%error, "HTTP server ended");
        }
    });
    info!(%address, "HTTP server listens");
    Ok(HttpServer { address, stop, task })
}

fn steady_ms(clock: Clock) -> u64 {
    u64::try_from(clock.steady_ms()).unwrap_or(0)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        let loaded = crate::config::load(&crate::config::Sources::default()).unwrap();
        let metrics = metrics(&loaded, &BuildInfo::new(String::new())).unwrap();
        let clock = Clock::start();
        let health = Arc::new(Health::new(steady_ms(clock)));
        Shared { clock, health, metrics, status: SharedStatus::default() }
    }

    // R86: alive and silent is the worst outcome.
    #[tokio::test]
    async fn the_watchdog_ends_a_loop_that_is_stuck_and_spares_one_that_runs() {
        let shared = shared();
        std::thread::sleep(Duration::from_millis(5));
        watch(&shared, 1).await; // silent for more than twice 1 ms: comes back
        let beating = async {
            loop {
                shared.health.beat(steady_ms(shared.clock));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = watch(&shared, 60_000) => panic!("a loop that runs was taken for stuck"),
            () = beating => unreachable!(),
            () = tokio::time::sleep(Duration::from_millis(1_500)) => {}
        }
    }
}
