//! Tests of names, types and the documentation table.

use std::collections::BTreeSet;

use prometheus::proto::{MetricFamily, MetricType};

use super::*;
use crate::engine::RejectReason;
use crate::status::{PartitionStatus, PauseReason, Phase};

fn levels() -> LevelTable {
    LevelTable::new(&[Duration::from_secs(1), Duration::from_secs(300)]).unwrap()
}

fn metrics(per_topic_limit: Option<usize>) -> Metrics {
    let build = BuildInfo::new("2.12.1".to_owned());
    let options = MetricsOptions {
        levels: &levels(),
        lateness_buckets_seconds: &[0.01, 1.0],
        per_topic_limit,
        config_sha256: "abc",
        build: &build,
    };
    Metrics::new(&Registry::new(), &options).unwrap()
}

fn held(partition: i32, level: u16) -> PartitionStatus {
    PartitionStatus {
        assigned: true,
        phase: Phase::Parked,
        paused: Some(PauseReason::NotDue),
        head_due_ms: Some(1_500),
        position: Some(4),
        committed: Some(3),
        log_start: Some(1),
        log_end: Some(9),
        backlog: Some(5),
        ..PartitionStatus::unassigned(partition, level, 1_000)
    }
}

fn with_partitions(partitions: Vec<PartitionStatus>) -> Status {
    Status { partitions, ..Status::default() }
}

/// Metrics in which every family has at least one series.
fn populated() -> Metrics {
    let metrics = metrics(Some(1));
    metrics.observe_status(&with_partitions(vec![held(0, 1), held(1, 2)]));
    let broker = BrokerSample {
        broker_id: 1,
        connected: true,
        rtt_p50_seconds: Some(0.001),
        rtt_p99_seconds: Some(0.002),
    };
    metrics.observe_brokers(ClientKind::Consumer, &[broker]);
    metrics
}

fn series(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.encode().unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

fn type_name(family: &MetricFamily) -> &'static str {
    match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        other => panic!("no metric of the daemon is a {other:?}"),
    }
}

fn label_names(family: &MetricFamily) -> BTreeSet<String> {
    let metrics = family.get_metric().iter();
    metrics.flat_map(|m| m.get_label()).map(|label| label.name().to_owned()).collect()
}

#[test]
fn names_follow_the_conventions() {
    // Names of client_golang's process collector, which dashboards expect as they are.
    let process = BTreeSet::from(["process_open_fds", "process_max_fds", "process_threads"]);
    let units = ["seconds", "bytes", "records", "offset", "partitions", "info"];
    let states = ["ready", "shutting_down", "broker_connected"];
    let level_states = ["level_assigned", "level_paused", "level_stuck"];
    for family in populated().registry.gather() {
        let name = family.name();
        if process.contains(name) {
            continue;
        }
        let kind = type_name(&family);
        let own = name.strip_prefix("kafka_delay_").or_else(|| name.strip_prefix("process_"));
        let own = own.unwrap_or_else(|| panic!("{name} has a foreign prefix"));
        assert!(own.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(own.ends_with("_total"), kind == "counter", "{name}");
        assert!(!own.ends_with("_count") && !own.ends_with("_sum") && !own.ends_with("_bucket"));
        if kind != "counter" {
            let unit = own.rsplit('_').next().unwrap();
            let state = states.contains(&own) || level_states.contains(&own);
            assert!(units.contains(&unit) || state, "{name} has no unit");
        }
        assert!(!family.help().is_empty(), "{name} has no help");
        for label in label_names(&family) {
            assert!(
                !["le", "quantile", "job", "instance"].contains(&label.as_str())
                    || (label == "quantile" && own == "broker_rtt_seconds"),
                "{name}: {label}"
            );
        }
    }
}

#[test]
fn every_series_exists_from_the_first_scrape() {
    let mut expected: BTreeSet<String> = [
        "kafka_delay_ready",
        "kafka_delay_shutting_down",
        "kafka_delay_topic_retention_seconds",
        "kafka_delay_assigned_partitions",
        "kafka_delay_in_flight_records",
        "kafka_delay_in_flight_bytes",
        "kafka_delay_consumer_last_poll_timestamp_seconds",
        "kafka_delay_forwarded_bytes_total",
        "kafka_delay_early_forwards_total",
        "kafka_delay_future_timestamps_total",
        "kafka_delay_invalid_timestamps_total",
        "kafka_delay_clock_steps_total",
        "kafka_delay_wakeup_delay_seconds_count",
        "kafka_delay_produce_duration_seconds_count",
        r#"kafka_delay_config_info{sha256="abc"}"#,
        r#"kafka_delay_produce_errors_total{code="other"}"#,
        r#"kafka_delay_kafka_errors_total{client="consumer",code="other"}"#,
        r#"kafka_delay_kafka_errors_total{client="producer",code="other"}"#,
        r#"kafka_delay_offsets_reset_total{reason="retention"}"#,
        r#"kafka_delay_offsets_reset_total{reason="recreated"}"#,
        r#"kafka_delay_commits_total{result="ok"}"#,
        r#"kafka_delay_commits_total{result="error"}"#,
        r#"kafka_delay_transactions_total{outcome="aborted"}"#,
        r#"kafka_delay_log_messages_total{severity="warn"}"#,
        r#"kafka_delay_log_messages_total{severity="error"}"#,
        r#"kafka_delay_http_requests_total{code="503",path="/livez"}"#,
        r#"kafka_delay_http_requests_total{code="404",path="other"}"#,
    ]
    .map(str::to_owned)
    .into();
    if cfg!(target_os = "linux") {
        expected.insert("process_resident_memory_bytes".to_owned());
    }
    for level in [r#"delay="1s",level="1""#, r#"delay="5m",level="2""#] {
        for name in [
            "level_delay_seconds",
            "level_assigned",
            "records_consumed_total",
            "records_forwarded_total",
            "records_lost_total",
        ] {
            expected.insert(format!("kafka_delay_{name}{{{level}}}"));
        }
    }
    for level in 1..=2 {
        for suffix in ["sum", "count"] {
            expected.insert(format!(r#"kafka_delay_lateness_seconds_{suffix}{{level="{level}"}}"#));
        }
    }
    for reason in RejectReason::ALL {
        for name in ["records_dead_lettered_total", "records_dropped_total"] {
            expected.insert(format!(r#"kafka_delay_{name}{{reason="{}"}}"#, reason.name()));
        }
    }
    for reason in ["not_due", "backpressure", "retry", "halted"] {
        expected.insert(format!(r#"kafka_delay_pauses_total{{reason="{reason}"}}"#));
        expected.insert(format!(r#"kafka_delay_resumes_total{{reason="{reason}"}}"#));
    }
    for event in ["assign", "revoke", "lost", "error"] {
        expected.insert(format!(r#"kafka_delay_rebalances_total{{event="{event}"}}"#));
        let name = "kafka_delay_rebalance_duration_seconds_count";
        expected.insert(format!(r#"{name}{{event="{event}"}}"#));
    }
    let first = series(&metrics(None));
    let missing: Vec<_> = expected.difference(&first).collect();
    assert!(missing.is_empty(), "missing: {missing:#?}\nof {first:#?}");
    assert!(!first.iter().any(|name| name.contains("topic_records_forwarded")));
}

#[test]
fn a_revoke_removes_the_state_of_its_level_and_leaves_the_others() {
    let metrics = metrics(None);
    let before = series(&metrics);
    metrics.observe_status(&with_partitions(vec![held(0, 1), held(1, 2), held(2, 1)]));
    let text = metrics.encode().unwrap();
    for line in [
        r#"kafka_delay_level_assigned{delay="1s",level="1"} 2"#,
        r#"kafka_delay_level_backlog_records{delay="1s",level="1"} 10"#,
        r#"kafka_delay_level_next_due_timestamp_seconds{delay="1s",level="1"} 1.5"#,
        r#"kafka_delay_level_paused{delay="1s",level="1",reason="not_due"} 1"#,
        r#"kafka_delay_level_paused{delay="1s",level="1",reason="halted"} 0"#,
        r#"kafka_delay_level_position_offset{delay="5m",level="2",partition="1"} 4"#,
        r#"kafka_delay_level_committed_offset{delay="1s",level="1",partition="2"} 3"#,
        r#"kafka_delay_level_log_start_offset{delay="1s",level="1",partition="0"} 1"#,
        r#"kafka_delay_level_log_end_offset{delay="1s",level="1",partition="0"} 9"#,
        "kafka_delay_assigned_partitions 3",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }

    let revoked = PartitionStatus { assigned: false, ..held(0, 1) };
    metrics.observe_status(&with_partitions(vec![revoked, held(1, 2)]));
    let text = metrics.encode().unwrap();
    assert!(text.contains(r#"kafka_delay_level_assigned{delay="1s",level="1"} 0"#), "{text}");
    assert!(!text.contains(r#"kafka_delay_level_backlog_records{delay="1s""#), "{text}");
    assert!(!text.contains(r#"partition="0""#) && !text.contains(r#"partition="2""#), "{text}");
    assert!(text.contains(r#"kafka_delay_level_backlog_records{delay="5m",level="2"} 5"#));

    metrics.observe_status(&Status::default());
    assert_eq!(series(&metrics), before);
}

#[test]
fn an_empty_level_is_due_never_and_an_unknown_one_says_nothing() {
    let metrics = metrics(None);
    let empty = PartitionStatus { head_due_ms: None, phase: Phase::Reading, ..held(0, 1) };
    let unknown = PartitionStatus { phase: Phase::Locating, ..empty.clone() };
    let foreign = held(7, 9);
    let unknown = PartitionStatus { level: 2, partition: 1, ..unknown };
    metrics.observe_status(&with_partitions(vec![empty, unknown, foreign]));
    let text = metrics.encode().unwrap();
    let name = "kafka_delay_level_next_due_timestamp_seconds";
    assert!(text.contains(&format!(r#"{name}{{delay="1s",level="1"}} inf"#)), "{text}");
    assert!(!text.contains(&format!(r#"{name}{{delay="5m""#)), "{text}");
    assert!(!text.contains(r#"partition="7""#), "a level beyond the table is ignored");
}

#[test]
fn brokers_that_left_the_cluster_disappear() {
    let metrics = populated();
    assert!(metrics.encode().unwrap().contains(r#"quantile="0.99"} 0.002"#));
    metrics.observe_brokers(ClientKind::Consumer, &[]);
    assert!(!metrics.encode().unwrap().contains("broker_id"));
}

#[test]
fn gauges_of_the_process_follow_health_and_topic() {
    let metrics = metrics(None);
    assert!(metrics.encode().unwrap().contains("kafka_delay_topic_retention_seconds inf"));
    metrics.set_topic_retention(Some(Duration::from_secs(60)));
    let health = Health::new(0);
    health.set_joined();
    metrics.observe_health(&health);
    metrics.log_observer()(Severity::Error);
    let text = metrics.encode().unwrap();
    assert!(text.contains("kafka_delay_topic_retention_seconds 60\n"));
    assert!(text.contains("kafka_delay_ready 1\n"));
    assert!(text.contains(r#"kafka_delay_log_messages_total{severity="error"} 1"#));
    health.set_shutting_down();
    metrics.observe_health(&health);
    let text = metrics.encode().unwrap();
    assert!(text.contains("kafka_delay_ready 0\n") && text.contains("shutting_down 1\n"));
}

#[test]
fn buckets_that_do_not_increase_are_refused() {
    let build = BuildInfo::new(String::new());
    let options = MetricsOptions {
        levels: &levels(),
        lateness_buckets_seconds: &[1.0, 0.5],
        per_topic_limit: None,
        config_sha256: "",
        build: &build,
    };
    assert!(Metrics::new(&Registry::new(), &options).is_err());
}

#[test]
fn the_manual_lists_exactly_the_exported_families() {
    let manual = include_str!("../../docs/metrics.md");
    let exported_here = |row: &&str| cfg!(target_os = "linux") || !row.contains("`process_");
    let rows = manual.lines().filter(|line| line.starts_with("| `")).filter(exported_here);
    let documented: BTreeSet<Vec<String>> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{row}");
            assert!(!cells[4].is_empty(), "no advice: {row}");
            let [name, kind, labels, help] = [0, 1, 2, 3].map(|at| cells[at].replace('`', ""));
            let mut labels: Vec<&str> = labels.split(", ").collect();
            labels.sort_unstable();
            vec![name, kind, labels.join(", "), help]
        })
        .collect();
    let exported: BTreeSet<Vec<String>> = populated()
        .registry
        .gather()
        .iter()
        .map(|family| {
            let labels: Vec<_> = label_names(family).into_iter().collect();
            let help = family.help().to_owned();
            vec![family.name().to_owned(), type_name(family).to_owned(), labels.join(", "), help]
        })
        .collect();
    let undocumented: Vec<_> = exported.difference(&documented).collect();
    let vanished: Vec<_> = documented.difference(&exported).collect();
    assert!(undocumented.is_empty(), "not in docs/metrics.md as exported: {undocumented:#?}");
    assert!(vanished.is_empty(), "in docs/metrics.md, but not exported so: {vanished:#?}");
}
