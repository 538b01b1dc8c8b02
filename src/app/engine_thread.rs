//! The engine thread: owns the consumer, its queues and the worker, from joining to leaving.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::sync::oneshot;

use super::statistics::BrokerObserver;
use super::{AppError, Shared};
use crate::config::{Config, Guarantee, OnDeadLetterFailure, OnMissingOffset};
use crate::engine::{EngineConfig, RetryPolicy};
use crate::kafka::settings::{self, Clients};
use crate::kafka::{
    DelayConsumer, Event, ForwardProducer, ForwardStyle, InitError, KafkaPort, Lookup, Timeouts,
    Transactions, Waker,
};
use crate::worker::{MissingOffset, Reporter, Worker, WorkerConfig};

/// Of `shutdown.timeout`, this share is for draining; the rest is for the commit and for leaving.
const DRAIN_SHARE: u32 = 2;

/// How the engine thread's work ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Asked to stop, and committed.
    Drained,
    /// It cannot go on.
    Failed(AppError),
}

/// Handle to the engine thread.
pub(super) struct EngineThread {
    outcome: oneshot::Receiver<Outcome>,
    closed: oneshot::Receiver<()>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

struct Parts {
    consumer: DelayConsumer,
    producer: ForwardProducer,
    /// In exactly-once mode: how long the coordinator may take to take the producer on.
    timeouts: Option<Timeouts>,
    lookup: Arc<Lookup>,
    events: Receiver<Event>,
    worker: WorkerConfig,
    reporter: Reporter,
}

impl EngineThread {
    /// Makes the clients, joins the group and starts the loop.
    pub(super) fn start(
        config: &Config,
        partitions: i32,
        shared: &Shared,
    ) -> Result<Self, AppError> {
        let waker = Arc::new(Waker::default());
        let parts = parts(config, partitions, shared, &waker)
            .map_err(|error| AppError::Config(format!("the Kafka client: {error:#}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (outcome_sender, outcome) = oneshot::channel();
        let (closed_sender, closed) = oneshot::channel();
        let (clock, stop_flag, thread_waker) =
            (shared.clock, Arc::clone(&stop), Arc::clone(&waker));
        let body = move || {
            thread_waker.register_current_thread();
            let Parts { consumer, producer, timeouts, lookup, events, worker, reporter } = parts;
            let mut started = begin(&consumer, &producer, timeouts).map(|transactions| {
                let port = KafkaPort::new(&consumer, producer, transactions, lookup, events);
                Worker::new(worker, port, reporter)
            });
            let ended = match &mut started {
                Ok(worker) => worker
                    .run(clock, || stop_flag.load(Ordering::Relaxed))
                    .map_err(|error| AppError::Internal(error.to_string())),
                Err(error) => Err(error.clone()),
            };
            // Before the clients are let go of, which takes its time when they are broken. The
            // receiver is gone only when the process is ending.
            let _ = outcome_sender.send(match ended {
                Ok(()) => Outcome::Drained,
                Err(error) => Outcome::Failed(error),
            });
            drop(started);
            consumer.prepare_close();
            drop(consumer);
            let _ = closed_sender.send(());
        };
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(body)
            .map_err(|error| AppError::Internal(format!("engine thread: {error}")))?;
        Ok(Self { outcome, closed, stop, waker })
    }

    /// Asks the thread to drain, commit and leave.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Completes when the loop has ended. A panic drops the sender.
    pub(super) async fn outcome(&mut self) -> Outcome {
        let panicked =
            || Outcome::Failed(AppError::Internal("the engine thread panicked".to_owned()));
        (&mut self.outcome).await.unwrap_or_else(|_| panicked())
    }

    /// Completes when the consumer has left the group.
    pub(super) async fn closed(&mut self) {
        // An error means that the thread is gone, which is as good.
        let _ = (&mut self.closed).await;
    }
}

fn parts(
    config: &Config,
    partitions: i32,
    shared: &Shared,
    waker: &Arc<Waker>,
) -> anyhow::Result<Parts> {
    let (sender, events) = channel();
    let observer = Arc::new(BrokerObserver(Arc::clone(&shared.metrics)));
    let clients = Clients::new(config, sender, Arc::clone(waker), Some(observer));
    let topic = &config.source.topic;
    let style = ForwardStyle {
        source_topic: topic.clone(),
        timestamp: config.forward.timestamp,
        keep_control_headers: config.forward.keep_control_headers,
    };
    let producer = ForwardProducer::new(&settings::forwarder(config), &clients, style)?;
    let interval = config.metrics.lag_interval;
    let lookup = Lookup::start(&settings::lookup(config), &clients, topic, partitions, interval)?;
    let consumer = DelayConsumer::new(&settings::consumer(config), &clients, topic, partitions)?;
    let reporter = Reporter::new(
        Arc::clone(&shared.metrics),
        shared.status.clone(),
        Arc::clone(&shared.health),
        shared.clock,
        config.delay.levels.clone(),
        partitions,
    );
    let worker = worker_config(config, partitions);
    let exactly_once = config.forward.guarantee == Guarantee::ExactlyOnce;
    let timeouts = exactly_once.then_some(Timeouts {
        init: config.kafka.connect_timeout,
        request: config.kafka.request_timeout.min(config.forward.transaction_timeout),
    });
    Ok(Parts { consumer, producer, timeouts, lookup, events, worker, reporter })
}

/// Takes the producer on, in exactly-once mode, and joins the group.
fn begin(
    consumer: &DelayConsumer,
    producer: &ForwardProducer,
    timeouts: Option<Timeouts>,
) -> Result<Option<Transactions>, AppError> {
    let transactions = timeouts
        .map(|timeouts| Transactions::start(producer, timeouts))
        .transpose()
        .map_err(|error| cannot_start(&error))?;
    let refused = |error| AppError::Config(format!("the Kafka client: {error}"));
    consumer.subscribe().map_err(refused)?;
    Ok(transactions)
}

fn cannot_start(error: &InitError) -> AppError {
    let text = format!("forward.transactional_id cannot be used: {error}");
    if error.denied {
        let needs = "grant the daemon's user Write on that transactional id";
        AppError::Denied(format!("{text}; {needs}"))
    } else {
        AppError::Unavailable(text)
    }
}

fn worker_config(config: &Config, partitions: i32) -> WorkerConfig {
    WorkerConfig {
        engine: EngineConfig {
            levels: config.delay.levels.clone(),
            policy: config.destination_policy(),
            dead_letter_topic: config.dead_letter.topic.clone(),
            drop_refused: config.dead_letter.on_failure == OnDeadLetterFailure::Drop,
            park_after_ms: millis(config.delay.park_after),
            wake_lead_ms: millis(config.delay.wake_lead),
            future_tolerance_ms: millis(config.delay.future_tolerance),
            retry: RetryPolicy {
                grace_ms: millis(config.forward.destination_grace),
                initial_backoff_ms: millis(config.retry.initial_backoff),
                max_backoff_ms: millis(config.retry.max_backoff),
            },
            max_in_flight_bytes: usize::try_from(config.forward.max_in_flight_bytes)
                .unwrap_or(usize::MAX),
            max_in_flight_records: settings::MAX_IN_FLIGHT_RECORDS,
            transactional: config.forward.guarantee == Guarantee::ExactlyOnce,
        },
        partitions,
        commit_every: config.source.commit_interval,
        drain_timeout: config.source.session_timeout / 2,
        stop_timeout: config.shutdown.timeout / DRAIN_SHARE,
        missing_offset: match config.source.on_missing_offset {
            OnMissingOffset::Earliest => MissingOffset::Earliest,
            OnMissingOffset::Fail => MissingOffset::Fail,
        },
        stuck_after: stuck_after(config),
    }
}

/// A transaction may stand open until the broker gives it up.
fn stuck_after(config: &Config) -> Duration {
    match config.forward.guarantee {
        Guarantee::AtLeastOnce => config.health.stuck_after,
        Guarantee::ExactlyOnce => config.health.stuck_after.max(config.forward.transaction_timeout),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
