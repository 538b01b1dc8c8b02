//! From values by key to the checked [`Config`], section by section.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::check;
use super::connection;
use super::model::{
    Config, DeadLetterConfig, DelayConfig, ForwardConfig, HealthConfig, HttpConfig, LogConfig,
    MetricsConfig, RetryConfig, ShutdownConfig, SourceConfig,
};
use super::reader::Reader;
use crate::engine::{LevelTable, TopicPattern, is_legal_topic_name};

const KIB: u64 = 1024;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bounds every duration without a narrower bound, so that adding it to a time cannot overflow.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const POSITIVE: RangeInclusive<Duration> = MS..=LONGEST;
const ZERO_OR_MORE: RangeInclusive<Duration> = Duration::ZERO..=LONGEST;

/// More buckets than this make the histogram the largest part of `/metrics`.
const MAX_BUCKETS: usize = 64;

/// Reads everything. What it returns is valid only if `reader` finishes without errors.
pub(super) fn config(reader: &mut Reader<'_>) -> Config {
    let config = Config {
        kafka: connection::kafka(reader),
        source: source(reader),
        delay: delay(reader),
        forward: forward(reader),
        dead_letter: DeadLetterConfig {
            topic: optional_topic(reader, "dead_letter.topic"),
            on_failure: reader.choice("dead_letter.on_failure"),
        },
        retry: RetryConfig {
            initial_backoff: reader.duration("retry.initial_backoff", MS..=HOUR),
            max_backoff: reader.duration("retry.max_backoff", MS..=HOUR),
        },
        http: HttpConfig { listen: listen(reader) },
        log: LogConfig {
            filter: log_filter(reader),
            format: reader.choice("log.format"),
            repeat_window: reader.duration("log.repeat_window", ZERO_OR_MORE),
        },
        metrics: metrics(reader),
        health: HealthConfig {
            stall_after: reader.duration("health.stall_after", SECOND..=HOUR),
            stuck_after: reader.duration("health.stuck_after", SECOND..=HOUR),
        },
        shutdown: ShutdownConfig { timeout: reader.duration("shutdown.timeout", SECOND..=HOUR) },
    };
    check::config(&config, reader);
    config
}

fn source(reader: &mut Reader<'_>) -> SourceConfig {
    SourceConfig {
        topic: topic(reader, "source.topic"),
        group_id: reader.required("source.group_id"),
        group_instance_id: reader.optional("source.group_instance_id"),
        group_protocol: reader.choice("source.group_protocol"),
        // These bounds are librdkafka's.
        session_timeout: reader.duration("source.session_timeout", MS..=HOUR),
        heartbeat_interval: reader.duration("source.heartbeat_interval", MS..=HOUR),
        max_poll_interval: reader.duration("source.max_poll_interval", MS..=DAY),
        commit_interval: reader.duration("source.commit_interval", MS..=HOUR),
        max_queued_bytes: reader.size("source.max_queued", KIB..=2_097_151 * KIB),
        on_missing_offset: reader.choice("source.on_missing_offset"),
        verify_topic: reader.choice("source.verify_topic"),
        retention_margin: reader.duration("source.retention_margin", Duration::ZERO..=365 * DAY),
        librdkafka: reader.properties("source.librdkafka"),
    }
}

fn delay(reader: &mut Reader<'_>) -> DelayConfig {
    const LEVELS: &str = "delay.levels";
    let delays = reader.durations(LEVELS);
    let levels = delays.and_then(|delays| {
        LevelTable::new(&delays).map_err(|error| reader.refuse(LEVELS, error.to_string())).ok()
    });
    DelayConfig {
        levels: levels
            .unwrap_or_else(|| LevelTable::new(&[SECOND]).expect("one second is a level")),
        park_after: reader.duration("delay.park_after", POSITIVE),
        // Fetching again takes a few round trips; with less lead every parked record is late.
        wake_lead: reader.duration("delay.wake_lead", 200 * MS..=LONGEST),
        future_tolerance: reader.duration("delay.future_tolerance", ZERO_OR_MORE),
    }
}

fn forward(reader: &mut Reader<'_>) -> ForwardConfig {
    ForwardConfig {
        allow_topics: patterns(reader, "forward.allow_topics"),
        deny_topics: patterns(reader, "forward.deny_topics"),
        guarantee: reader.choice("forward.guarantee"),
        transactional_id: transactional_id(reader),
        // Brokers refuse more than transaction.max.timeout.ms, 15 minutes by default.
        transaction_timeout: reader.duration("forward.transaction_timeout", 5 * SECOND..=HOUR),
        timestamp: reader.choice("forward.timestamp"),
        keep_control_headers: reader.boolean("forward.keep_control_headers"),
        destination_grace: reader.duration("forward.destination_grace", ZERO_OR_MORE),
        compression: reader.choice("forward.compression"),
        // librdkafka's bound.
        linger: reader.duration("forward.linger", Duration::ZERO..=900 * SECOND),
        // From a few records to what librdkafka can count in KiB.
        max_in_flight_bytes: reader.size("forward.max_in_flight", 64 * KIB..=2_147_483_647 * KIB),
        librdkafka: reader.properties("forward.librdkafka"),
    }
}

/// As given, or a name that this instance has after a restart and no other instance has.
fn transactional_id(reader: &mut Reader<'_>) -> String {
    reader.optional("forward.transactional_id").unwrap_or_else(|| {
        let group = reader.optional("source.group_id").unwrap_or_default();
        let client = reader.optional("kafka.client_id").unwrap_or_default();
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        format!("{group}-{client}-{host}")
    })
}

fn metrics(reader: &mut Reader<'_>) -> MetricsConfig {
    let interval = reader.duration("metrics.librdkafka_interval", Duration::ZERO..=DAY);
    MetricsConfig {
        lateness_buckets: lateness_buckets(reader),
        per_topic: reader.boolean("metrics.per_topic"),
        per_topic_limit: reader.integer("metrics.per_topic_limit", 1..=10_000),
        librdkafka_interval: Some(interval).filter(|interval| !interval.is_zero()),
        lag_interval: reader.duration("metrics.lag_interval", MS..=HOUR),
    }
}

fn lateness_buckets(reader: &mut Reader<'_>) -> Vec<Duration> {
    const PATH: &str = "metrics.lateness_buckets";
    let buckets = reader.durations(PATH).unwrap_or_default();
    if !reader.is_fine(&[PATH]) {
        return buckets;
    }
    let mut previous = Duration::ZERO;
    if buckets.is_empty() || buckets.len() > MAX_BUCKETS {
        let count = buckets.len();
        reader.refuse(PATH, format!("{count} buckets; give 1 to {MAX_BUCKETS}"));
    }
    for &bucket in &buckets {
        if bucket <= previous {
            let bucket = humantime::format_duration(bucket);
            reader.refuse(PATH, format!("{bucket}: buckets must be above zero and increase"));
            break;
        }
        previous = bucket;
    }
    buckets
}

fn topic(reader: &mut Reader<'_>, path: &'static str) -> String {
    optional_topic(reader, path).unwrap_or_else(|| {
        reader.refuse(path, "must not be empty");
        String::new()
    })
}

fn optional_topic(reader: &mut Reader<'_>, path: &'static str) -> Option<String> {
    let topic = reader.optional(path)?;
    if reader.is_fine(&[path]) && !is_legal_topic_name(&topic) {
        let rule = "1 to 249 of the characters a-z A-Z 0-9 . _ -";
        reader.refuse(path, format!("`{topic}` is not a topic name ({rule})"));
    }
    Some(topic)
}

fn patterns(reader: &mut Reader<'_>, path: &'static str) -> Vec<TopicPattern> {
    let entries = reader.list(path);
    let parse = |entry: &String| {
        TopicPattern::parse(entry).map_err(|message| reader.refuse(path, message)).ok()
    };
    entries.iter().filter_map(parse).collect()
}

fn listen(reader: &mut Reader<'_>) -> Option<SocketAddr> {
    const PATH: &str = "http.listen";
    let text = reader.optional(PATH)?;
    let hint = "write an IP address and a port, such as 0.0.0.0:8080";
    text.parse().map_err(|_| reader.refuse(PATH, format!("`{text}`: {hint}"))).ok()
}

fn log_filter(reader: &mut Reader<'_>) -> String {
    const PATH: &str = "log.filter";
    let filter = reader.required(PATH);
    let is_level = |word: &str| {
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        levels.iter().any(|level| level.eq_ignore_ascii_case(word))
    };
    // A lone word that is no level would be taken for a module, which silences everything else.
    let misspelt =
        filter.split(',').map(str::trim).find(|part| !part.contains('=') && !is_level(part));
    let parsed = tracing_subscriber::EnvFilter::builder().parse(&filter);
    match (misspelt, parsed) {
        _ if !reader.is_fine(&[PATH]) => {}
        (Some(word), _) => {
            let hint = "write error, warn, info, debug or trace, also as module=level";
            reader.refuse(PATH, format!("`{word}` is no level; {hint}"));
        }
        (None, Err(error)) => reader.refuse(PATH, format!("`{filter}`: {error}")),
        (None, Ok(_)) => {}
    }
    filter
}
