//! Users, rights, secrets, and clusters that do not answer.

use std::time::Instant;

use crate::rig::{PATIENCE, Rig, overdue, texts, wait_log};
use crate::support::{
    Acl, Client, Cluster, DaemonConfig, Operation, Options, Permit, Resource, heavy, shared, unique,
};

const PASSWORD: &str = "correct-horse-battery";

/// A cluster in which `daemon` may log in and do nothing.
fn cluster(permit: &Permit) -> Cluster {
    Options::one_node().users(&[("daemon", PASSWORD)]).start(permit)
}

/// A rig whose daemon is `daemon`, with the rights that the documentation names; topics and records
/// are the super user's.
fn restricted(cluster: &Cluster, levels: &str, describe_configs: bool) -> Rig {
    let mut rig = Rig::new(&cluster.client(), levels);
    rig = rig.set("kafka.sasl.username", "daemon").set("kafka.sasl.password", PASSWORD);
    let mut acls = vec![
        Acl::may_read("daemon", &rig.delay),
        Acl::may_write("daemon", &rig.dlq),
        Acl::may_join("daemon", &rig.config.group),
    ];
    if describe_configs {
        let operation = Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS;
        for topic in [&rig.delay, &rig.dlq] {
            acls.push(Acl::allow("daemon", operation, Resource::Topic(topic.clone())));
        }
    }
    rig.admin.add_acls(&acls);
    rig
}

// R78, R79: a header makes the daemon write with its rights, so these are its limit.
#[test]
fn a_destination_the_daemon_may_not_write_to_is_unauthorized_and_others_go_on() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s,5s", true).set("forward.destination_grace", "1s");
    let (allowed, forbidden) = (rig.destination(1), rig.destination(1));
    rig.admin.add_acls(&[Acl::may_write("daemon", &allowed)]);
    rig.send(&[
        overdue("allowed 0", &allowed),
        overdue("forbidden", &forbidden),
        overdue("allowed 1", &allowed),
        overdue("missing", "no-such-topic"),
        overdue("allowed 2", &allowed).partition(1),
    ]);
    let daemon = rig.config.start_ready();
    let mut seen = texts(&rig.exactly(&allowed, 3));
    seen.sort();
    assert_eq!(seen, ["allowed 0", "allowed 1", "allowed 2"]);
    let dead = rig.exactly(&rig.dlq, 2);
    for dead in &dead {
        // Kafka does not tell those who may not describe a topic that it does not exist.
        let reason = dead.header_text("kafka_delay_dlq_reason");
        assert_eq!(reason, "unauthorized", "{}", dead.text());
    }
    let name = "kafka_delay_records_dead_lettered_total";
    daemon.wait_metric(name, &[("reason", "unauthorized")], 2.0, PATIENCE);
    rig.wait_committed();
    assert_eq!(rig.admin.end_offsets(&forbidden), [0]);
    assert!(!daemon.log().contains("grant DescribeConfigs"));
}

#[test]
fn a_right_that_is_granted_within_the_grace_lets_the_record_through() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", true).set("forward.destination_grace", "60s");
    let destination = rig.destination(1);
    rig.send(&[overdue("x", &destination)]);
    let daemon = rig.config.start_ready();
    daemon.wait_metric("kafka_delay_level_isolated_records", &[], 1.0, PATIENCE);
    rig.admin.add_acls(&[Acl::may_write("daemon", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["x"]);
    rig.wait_committed();
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
}

#[test]
fn without_the_right_to_read_settings_the_daemon_starts_with_a_warning() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", false);
    let destination = rig.destination(1);
    rig.admin.add_acls(&[Acl::may_write("daemon", &destination)]);
    let daemon = rig.config.start_ready();
    wait_log(&daemon, "grant DescribeConfigs");
    rig.send(&[overdue("x", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["x"]);
}

#[test]
fn refused_credentials_and_rights_end_the_start_with_code_77() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", true);
    let wrong = "wrong-horse-battery";
    for config in [
        rig.config.clone().set("kafka.sasl.password", wrong),
        rig.config.clone().set("kafka.sasl.username", "nobody-known"),
    ] {
        let daemon = config.start();
        assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(77), "{}", daemon.log());
        assert!(!daemon.log().contains(wrong) && !daemon.log().contains(PASSWORD));
        assert!(daemon.log().contains("kafka.sasl.password"), "{}", daemon.log());
    }
    // May log in, but knows nothing of this topic.
    let hidden = unique("hidden");
    rig.admin.create_topic(&hidden, 1);
    let daemon = rig.config.clone().set("source.topic", &hidden).start();
    assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(77), "{}", daemon.log());
    assert!(daemon.log().contains("Describe"), "{}", daemon.log());
}

#[test]
fn without_the_right_to_the_group_the_daemon_does_not_sit_there_as_if_all_were_well() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", true);
    let daemon = rig.config.clone().set("source.group_id", "somebody-elses").start();
    wait_log(&daemon, "GroupAuthorizationFailed");
    assert_ne!(daemon.http_get("/readyz").map(|(status, _)| status), Ok(200));
}

#[test]
fn secrets_are_neither_logged_nor_shown() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", true);
    let config = rig.config.clone().set("log.filter", "trace");
    let daemon = config.start_ready();
    daemon.wait_metric("kafka_delay_assigned_partitions", &[], 1.0, PATIENCE);
    for path in ["/metrics", "/status", "/readyz?verbose", "/"] {
        let (_, body) = daemon.http_get(path).unwrap();
        assert!(!body.contains(PASSWORD), "{path}");
    }
    daemon.stop(PATIENCE);
    assert!(!daemon.log().contains(PASSWORD));
    for arguments in [&["config", "show"][..], &["config", "show", "--origin"], &["check"]] {
        let output = config.run(arguments);
        let text = format!("{output:?}");
        assert!(output.status.success(), "{text}");
        assert!(!text.contains(PASSWORD), "{arguments:?}");
    }
}

// Kubernetes passes secrets as files.
#[test]
fn a_password_from_a_file_works() {
    let permit = heavy();
    let cluster = cluster(&permit);
    let rig = restricted(&cluster, "1s", true);
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("password"));
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let config = rig.config.clone().set("kafka.sasl.password", "");
    let daemon = config.set("kafka.sasl.password_file", file.to_str().unwrap()).start_ready();
    daemon.stop(PATIENCE);
    std::fs::remove_file(file).unwrap();
}

// R88
#[test]
fn a_cluster_that_does_not_answer_ends_the_start_with_code_69_after_the_timeout() {
    // Reserved and never listened on: connecting is refused.
    let nobody = Client { bootstrap: "127.0.0.1:1".to_owned(), credentials: None };
    let config = DaemonConfig::new(&nobody, "delay").set("kafka.connect_timeout", "3s");
    let start = Instant::now();
    let daemon = config.start();
    let mut ready = Vec::new();
    while daemon.is_running() && ready.is_empty() {
        assert!(start.elapsed() < PATIENCE, "still running");
        ready.extend(daemon.http_get("/readyz").ok().filter(|(status, _)| *status == 200));
        std::thread::yield_now();
    }
    assert_eq!(ready, [], "never ready");
    assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(69), "{}", daemon.log());
    assert!(start.elapsed().as_secs() >= 3, "{:?}", start.elapsed());
    assert!(daemon.log().contains("no answer from 127.0.0.1:1 within 3s"), "{}", daemon.log());
    for arguments in [&["topics", "check"][..], &["topics", "create"]] {
        assert_eq!(config.run(arguments).status.code(), Some(69), "{arguments:?}");
    }
}

#[test]
fn a_login_where_none_is_asked_for_does_not_start() {
    let rig = Rig::new(&shared().client(), "1s")
        .set("kafka.sasl.mechanism", "SCRAM-SHA-512")
        .set("kafka.sasl.username", "daemon")
        .set("kafka.sasl.password", PASSWORD)
        .set("kafka.connect_timeout", "3s");
    let daemon = rig.config.start();
    let code = daemon.wait_exit(PATIENCE).code();
    assert!(code == Some(77) || code == Some(69), "{code:?}: {}", daemon.log());
    assert!(!daemon.log().contains(PASSWORD));
}
