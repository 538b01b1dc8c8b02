//! What `/metrics` exports: every family, its labels and its help.
//!
//! [`Metrics`] is registered on a registry that is passed in. Labelled metrics are resolved once,
//! here, so that counting a record is an index and an addition, and so that every series exists
//! from the first scrape: a counter that appears with its first error has no increase to alert on.
//! Exceptions, because their values are not known beforehand: error codes, destinations, brokers
//! (each bounded), and the state of levels that this instance does not hold, which is removed.
//!
//! `docs/metrics.md` says what to do about each family; a test holds the two together.

mod bounded;
mod brokers;
mod client;
mod families;
mod labels;
mod records;
mod state;

use std::time::Duration;

use prometheus::{Error, Gauge, IntCounter, IntCounterVec, Registry, TextEncoder};

pub use self::bounded::BoundedCounter;
pub use self::brokers::BrokerSample;
pub use self::client::ClientMetrics;
pub use self::labels::{
    ByLabel, ByLevel, ClientKind, CommitResult, HttpPath, LabelValue, OffsetReset, RebalanceEvent,
    Severity, TransactionOutcome,
};
pub use self::records::RecordMetrics;

use self::brokers::BrokerGauges;
use self::families::Families;
use self::state::StateGauges;
use crate::build_info::BuildInfo;
use crate::engine::LevelTable;
use crate::status::{Health, Status};

/// Media type of [`Metrics::encode`]. Prometheus 3 refuses a scrape without a valid one.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// What the metrics are built from.
#[derive(Debug, Clone)]
pub struct MetricsOptions<'a> {
    /// The levels, one series each.
    pub levels: &'a LevelTable,
    /// Upper bounds of the lateness histogram in seconds, strictly increasing.
    pub lateness_buckets_seconds: &'a [f64],
    /// How many destinations `topic_records_forwarded_total` tells apart; none leaves it out.
    pub per_topic_limit: Option<usize>,
    /// Hash of the effective configuration, secrets excluded.
    pub config_sha256: &'a str,
    /// What the binary was built from.
    pub build: &'a BuildInfo,
}

/// Every metric of the daemon.
pub struct Metrics {
    /// What happens to records.
    pub records: RecordMetrics,
    /// How the Kafka clients and the loop around them fare.
    pub client: ClientMetrics,
    /// Warnings and errors logged.
    pub log_messages: ByLabel<Severity, IntCounter>,
    state: StateGauges,
    brokers: BrokerGauges,
    ready: Gauge,
    shutting_down: Gauge,
    topic_retention: Gauge,
    http_requests: IntCounterVec,
    registry: Registry,
}

impl Metrics {
    /// Registers everything on `registry`; an error says which family is in the way, or that the
    /// buckets do not increase.
    pub fn new(registry: &Registry, options: &MetricsOptions<'_>) -> Result<Self, Error> {
        let families = &Families { registry, levels: options.levels };
        register_process(registry)?;
        register_info(families, options)?;
        let lateness_buckets = options.lateness_buckets_seconds;
        Ok(Self {
            records: RecordMetrics::new(families, lateness_buckets, options.per_topic_limit)?,
            client: ClientMetrics::new(families)?,
            log_messages: families.counters_by(
                "log_messages_total",
                "Warnings and errors logged, collapsed repetitions included.",
                "severity",
            )?,
            state: StateGauges::new(families)?,
            brokers: BrokerGauges::new(families)?,
            ready: families.gauge("ready", "Whether /readyz answers 200 (1) or not (0).")?,
            shutting_down: families.gauge("shutting_down", "Whether a shutdown is in progress.")?,
            topic_retention: topic_retention(families)?,
            http_requests: http_requests(families)?,
            registry: registry.clone(),
        })
    }

    /// Takes over the snapshot: call it before [`Metrics::encode`].
    pub fn observe_status(&self, status: &Status) {
        self.state.observe(status);
    }

    /// Takes over readiness: call it before [`Metrics::encode`].
    pub fn observe_health(&self, health: &Health) {
        self.ready.set(f64::from(u8::from(health.ready().is_ok())));
        self.shutting_down.set(f64::from(u8::from(health.is_shutting_down())));
    }

    /// Takes over what the statistics of `client` say about its brokers; those it no longer knows
    /// disappear.
    pub fn observe_brokers(&self, client: ClientKind, samples: &[BrokerSample]) {
        self.brokers.observe(client, samples);
    }

    /// Sets the retention of the delay topic; none is without limit.
    pub fn set_topic_retention(&self, retention: Option<Duration>) {
        self.topic_retention.set(retention.map_or(f64::INFINITY, |limit| limit.as_secs_f64()));
    }

    /// Counts a request to the HTTP server.
    pub fn count_http_request(&self, path: HttpPath, code: u16) {
        self.http_requests.with_label_values(&[path.name(), code.to_string().as_str()]).inc();
    }

    /// A callback for the logger that counts its lines.
    pub fn log_observer(&self) -> impl Fn(Severity) + Send + Sync + 'static {
        let counters = Severity::ALL.iter().map(|&severity| self.log_messages.of(severity).clone());
        let counters: Vec<IntCounter> = counters.collect();
        move |severity| counters[severity.index()].inc()
    }

    /// Everything in the text format, as [`CONTENT_TYPE`] says.
    pub fn encode(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// CPU, memory, descriptors and threads of the process, where `/proc` tells them.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is no /proc"))]
fn register_process(registry: &Registry) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
    Ok(())
}

fn register_info(families: &Families<'_>, options: &MetricsOptions<'_>) -> Result<(), Error> {
    let build = options.build;
    let build_info = families.gauges(
        "build_info",
        "Build metadata; the value is always 1.",
        &["version", "revision", "rustc", "librdkafka"],
    )?;
    let values = [build.version, build.revision, build.rustc, &build.librdkafka];
    build_info.with_label_values(&values).set(1.0);
    let config_info = families.gauges(
        "config_info",
        "Hash of the effective configuration, secrets excluded; the value is always 1.",
        &["sha256"],
    )?;
    config_info.with_label_values(&[options.config_sha256]).set(1.0);
    Ok(())
}

/// Not 0 before it is known: the alert on retention divides by it.
fn topic_retention(families: &Families<'_>) -> Result<Gauge, Error> {
    let gauge = families.gauge(
        "topic_retention_seconds",
        "Retention of the delay topic, read at start-up; +Inf when unlimited or not yet known.",
    )?;
    gauge.set(f64::INFINITY);
    Ok(gauge)
}

/// The answers that are expected exist from the start; others, such as 405, appear when given.
fn http_requests(families: &Families<'_>) -> Result<IntCounterVec, Error> {
    let requests = families.counters(
        "http_requests_total",
        "Requests to the HTTP server of this instance.",
        &["path", "code"],
    )?;
    for &path in HttpPath::ALL {
        let codes: &[&str] = match path {
            HttpPath::Livez | HttpPath::Readyz => &["200", "503"],
            HttpPath::Other => &["404"],
            _ => &["200"],
        };
        for code in codes {
            requests.with_label_values(&[path.name(), code]);
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests;
