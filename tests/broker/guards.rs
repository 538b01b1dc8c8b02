//! Topics that are not fit for their purpose, and offsets that are not in the log.

use crate::rig::{PATIENCE, Rig, overdue, texts, wait_log};
use crate::support::{DaemonConfig, Options, Record, eventually, heavy, now_ms, shared, unique};

/// Starts a daemon that must refuse to run, and returns what it said.
#[track_caller]
fn refusal(config: &DaemonConfig, code: i32) -> String {
    let daemon = config.start();
    let status = daemon.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(code), "{}", daemon.log());
    daemon.log()
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_missing_delay_topic_stops_the_start_even_in_warn_mode() {
    let config = DaemonConfig::new(&shared().client(), &unique("missing"));
    let said = refusal(&config, 78);
    assert_has(&said, &["does not exist", "kafka-delay topics create"]);
    refusal(&config.clone().set("source.verify_topic", "warn"), 78);
    refusal(&config.set("source.verify_topic", "off"), 78);
}

// R65: a record would wait for another level's delay, so no mode starts.
#[test]
fn a_partition_count_that_is_no_multiple_of_the_levels_stops_the_start_in_every_mode() {
    let rig = Rig::bare(&shared().client(), 19, &[]);
    rig.admin.create_topic(&rig.dlq, 1);
    for mode in ["strict", "warn", "off"] {
        let said = refusal(&rig.config.clone().set("source.verify_topic", mode), 78);
        assert_has(&said, &["19 partitions", "no multiple of the 18 levels"]);
    }
}

// R47
#[test]
fn settings_that_lose_records_stop_the_start_and_are_all_named() {
    let settings = [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "3600000"),
        ("retention.bytes", "1000000"),
    ];
    let rig = Rig::bare(&shared().client(), 1, &settings).set("delay.levels", "2h");
    let said = refusal(&rig.config, 78);
    assert_has(&said, &["compact", "retention.ms is 3600000", "at least 93600000"]);
    assert_has(&said, &["retention.bytes is 1000000", &rig.dlq, "does not exist"]);

    let daemon = rig.config.clone().set("source.verify_topic", "warn").start_ready();
    let log = daemon.log();
    assert_has(&log, &["WARN", "retention.ms is 3600000", "retention.bytes is 1000000"]);
    assert_eq!(daemon.metric("kafka_delay_topic_retention_seconds", &[]), Some(3_600.0));

    let off = rig.config.clone().set("source.verify_topic", "off").start_ready();
    assert!(!off.log().contains("retention.bytes"));
}

#[test]
fn each_bad_setting_alone_stops_the_start() {
    let client = shared().client();
    for (key, value) in
        [("cleanup.policy", "compact"), ("retention.ms", "90000000"), ("retention.bytes", "1")]
    {
        let rig = Rig::bare(&client, 1, &[(key, value)]).set("delay.levels", "2h");
        rig.admin.create_topic(&rig.dlq, 1);
        assert_has(&refusal(&rig.config, 78), &[key]);
    }
}

#[test]
fn a_missing_dead_letter_topic_stops_the_start_unless_there_is_to_be_none() {
    let rig = Rig::bare(&shared().client(), 18, &[]);
    let said = refusal(&rig.config, 78);
    assert_has(&said, &[&rig.dlq, "does not exist", "verify_topic"]);
    rig.config.clone().set("dead_letter.topic", "").start_ready().stop(PATIENCE);
    rig.config.set("source.verify_topic", "warn").start_ready();
}

/// A rig whose group has committed `committed` overdue records of partition 0.
fn with_commit(committed: usize) -> (Rig, String) {
    let rig = Rig::new(&shared().client(), "1s,2h");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let record = |number: usize| overdue(format!("first {number}"), &destination);
    rig.send(&(0..committed).map(record).collect::<Vec<_>>());
    rig.exactly(&destination, committed);
    rig.wait_committed();
    daemon.stop(PATIENCE);
    (rig, destination)
}

// R45, R47: neither silently nor at the end.
#[test]
fn records_deleted_while_the_daemon_was_away_are_counted_and_the_rest_is_forwarded() {
    let (rig, destination) = with_commit(3);
    let record = |number: usize| overdue(format!("second {number}"), &destination);
    rig.send(&(0..10).map(record).collect::<Vec<_>>());
    rig.admin.delete_records(&rig.delay, 0, 8);

    let said = refusal(&rig.config.clone().set("source.on_missing_offset", "fail"), 70);
    assert_has(&said, &["committed offset 3", "8..13", "on_missing_offset"]);
    assert_eq!(rig.exactly(&destination, 3).len(), 3);

    let daemon = rig.config.start_ready();
    let seen = texts(&rig.exactly(&destination, 8));
    assert_eq!(&seen[3..], ["second 5", "second 6", "second 7", "second 8", "second 9"]);
    rig.wait_committed();
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[("level", "1")]), Some(5.0));
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[("level", "2")]), Some(0.0));
    let resets = |reason| daemon.metric("kafka_delay_offsets_reset_total", &[("reason", reason)]);
    assert_eq!((resets("retention"), resets("recreated")), (Some(1.0), Some(0.0)));
    let told = daemon.log().matches("records were deleted before they were forwarded").count();
    assert_eq!(told, 1);
}

#[test]
fn a_log_that_was_emptied_while_the_daemon_was_away_is_no_dead_end() {
    let (rig, destination) = with_commit(2);
    rig.send(&[overdue("gone", &destination)]);
    rig.admin.delete_records(&rig.delay, 0, 3);
    let daemon = rig.config.start_ready();
    daemon.wait_metric("kafka_delay_records_lost_total", &[("level", "1")], 1.0, PATIENCE);
    rig.send(&[overdue("new", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 3)), ["first 0", "first 1", "new"]);
    rig.wait_committed();
}

#[test]
fn records_of_a_recreated_delay_topic_are_forwarded_from_its_start() {
    let (rig, destination) = with_commit(5);
    rig.admin.delete_topic(&rig.delay);
    rig.admin.create_topic(&rig.delay, 2);
    rig.send(&[overdue("new 0", &destination), overdue("new 1", &destination)]);

    // Kafka may forget a deleted topic's commits by itself; then there is nothing to notice.
    let noticed = !rig.admin.committed(&rig.config.group, &rig.delay).is_empty();
    if noticed {
        let fail = rig.config.clone().set("source.on_missing_offset", "fail");
        assert_has(&refusal(&fail, 70), &["committed offset 5", "0..2"]);
    }
    let daemon = rig.config.start_ready();
    assert_eq!(&texts(&rig.exactly(&destination, 7))[5..], ["new 0", "new 1"]);
    rig.wait_committed();
    let resets = |reason| daemon.metric("kafka_delay_offsets_reset_total", &[("reason", reason)]);
    let recreated = if noticed { 1.0 } else { 0.0 };
    assert_eq!((resets("retention"), resets("recreated")), (Some(0.0), Some(recreated)));
}

// Without a restart: partitions go and come back with another log.
#[test]
fn a_delay_topic_that_is_recreated_under_the_daemon_is_read_from_its_start() {
    let rig = Rig::new(&shared().client(), "1s,2h");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let record = |number: usize| overdue(format!("first {number}"), &destination);
    rig.send(&(0..5).map(record).collect::<Vec<_>>());
    rig.exactly(&destination, 5);
    rig.wait_committed();
    rig.admin.delete_topic(&rig.delay);
    rig.admin.create_topic(&rig.delay, 2);
    rig.send(&[overdue("new 0", &destination), overdue("new 1", &destination)]);
    assert_eq!(&texts(&rig.exactly(&destination, 7))[5..], ["new 0", "new 1"]);
    rig.wait_committed();
    assert!(daemon.is_running());
}

// A loss is told once, not at every start.
#[test]
fn a_loss_that_was_told_is_not_told_again_after_a_restart() {
    let (rig, destination) = with_commit(1);
    rig.send(&[overdue("gone", &destination)]);
    rig.admin.delete_records(&rig.delay, 0, 2);
    let daemon = rig.config.start_ready();
    daemon.wait_metric("kafka_delay_records_lost_total", &[], 1.0, PATIENCE);
    daemon.stop(PATIENCE);
    let daemon = rig.config.start_ready();
    daemon.wait_metric("kafka_delay_assigned_partitions", &[], 2.0, PATIENCE);
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[]), Some(0.0));
}

// The position of a running daemon leaves the log, while it waits for its head far away.
#[test]
fn a_parked_head_that_is_deleted_is_counted_and_the_next_record_forwarded() {
    let rig = Rig::new(&shared().client(), "1s,12s").set("delay.park_after", "2s");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let now = now_ms();
    let record = |name: &str| Record::new(name).partition(1).timestamp(now).to(&destination);
    rig.send(&[record("a"), record("b"), record("c"), record("d")]);
    let parked = [("level", "2"), ("reason", "not_due")];
    daemon.wait_metric("kafka_delay_level_paused", &parked, 1.0, PATIENCE);
    rig.admin.delete_records(&rig.delay, 1, 3);

    let seen = rig.exactly(&destination, 1);
    assert_eq!(texts(&seen), ["d"]);
    assert!(seen[0].timestamp >= now + 12_000, "never early, also after that");
    rig.wait_committed();
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[("level", "2")]), Some(3.0));
    let resets = [("reason", "retention")];
    assert_eq!(daemon.metric("kafka_delay_offsets_reset_total", &resets), Some(1.0));
    // It goes on, in this level and in the other.
    rig.send(&[
        Record::new("e").partition(1).timestamp(now_ms() - 60_000).to(&destination),
        overdue("other level", &destination),
    ]);
    let mut seen = texts(&rig.exactly(&destination, 3));
    seen.sort();
    assert_eq!(seen, ["d", "e", "other level"]);
    rig.wait_committed();
}

// A record that was read and waits for its destination is not lost with the log under it.
#[test]
fn a_record_in_hand_is_forwarded_although_it_was_deleted_from_the_log() {
    let rig = Rig::new(&shared().client(), "12s")
        .set("delay.park_after", "2s")
        .set("forward.destination_grace", "80s");
    let (late, good) = (unique("late"), rig.destination(1));
    let daemon = rig.config.start_ready();
    rig.send(&[
        overdue("in hand", &late),
        overdue("goes", &good),
        Record::new("deleted").partition(0).timestamp(now_ms()).to(&good),
    ]);
    let parked = [("level", "1"), ("reason", "not_due")];
    daemon.wait_metric("kafka_delay_level_paused", &parked, 1.0, PATIENCE);
    daemon.wait_metric("kafka_delay_level_isolated_records", &[], 1.0, PATIENCE);
    assert_eq!(texts(&rig.exactly(&good, 1)), ["goes"]);
    rig.admin.delete_records(&rig.delay, 0, 3);
    daemon.wait_metric("kafka_delay_records_lost_total", &[("level", "1")], 1.0, PATIENCE);
    rig.admin.create_topic(&late, 1);
    assert_eq!(texts(&rig.exactly(&late, 1)), ["in hand"]);
    // The loss is committed too, so that the next start does not report it again.
    rig.wait_committed();
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[]), Some(1.0));
    rig.send(&[overdue("after", &good)]);
    assert_eq!(texts(&rig.exactly(&good, 2)), ["goes", "after"]);
    rig.wait_committed();
}

#[test]
fn a_deleted_position_ends_the_process_when_asked_to() {
    let rig = Rig::new(&shared().client(), "12s")
        .set("delay.park_after", "2s")
        .set("source.on_missing_offset", "fail");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let record = Record::new("x").partition(0).timestamp(now_ms()).to(&destination);
    rig.send(&[record.clone(), record]);
    let parked = [("level", "1"), ("reason", "not_due")];
    daemon.wait_metric("kafka_delay_level_paused", &parked, 1.0, PATIENCE);
    rig.admin.delete_records(&rig.delay, 0, 1);
    let status = daemon.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(70));
    assert_has(&daemon.log(), &["committed offset 0", "1..2", "on_missing_offset"]);
    assert_eq!(rig.admin.end_offsets(&destination), [0]);
}

// A log that is empty after its records were deleted has a start above zero.
#[test]
fn a_new_group_begins_at_the_start_of_a_log_that_does_not_begin_at_zero() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(1);
    rig.send(&[overdue("a", &destination), overdue("b", &destination), overdue("c", &destination)]);
    rig.admin.delete_records(&rig.delay, 0, 2);
    let daemon = rig.config.start_ready();
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["c"]);
    rig.wait_committed();
    assert_eq!(daemon.metric("kafka_delay_records_lost_total", &[]), Some(0.0));
    assert_eq!(daemon.metric("kafka_delay_offsets_reset_total", &[]), Some(0.0));
}

fn output(config: &DaemonConfig, arguments: &[&str], code: i32) -> String {
    let output = config.run(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}\n{errors}");
    format!("{text}{errors}")
}

#[test]
fn topics_are_made_as_the_daemon_wants_them_and_checked() {
    let client = shared().client();
    let admin = client.admin();
    let delay = unique("made");
    let dlq = format!("{delay}_dlq");
    let config = DaemonConfig::new(&client, &delay);
    let exists = |topic: &String| admin.topics().unwrap().contains(topic);

    assert_has(&output(&config, &["topics", "check"], 78), &["does not exist"]);
    let said = output(&config, &["topics", "create", "--dry-run"], 0);
    assert_has(&said, &[&delay, &dlq, "would be created", "partitions 18"]);
    assert!(!exists(&delay) && !exists(&dlq));

    let said = output(&config, &["topics", "create"], 0);
    assert_has(&said, &[&format!("topic `{delay}`: created"), "ok"]);
    eventually(
        PATIENCE,
        || {
            if exists(&delay) && exists(&dlq) { Ok(()) } else { Err("not visible") }
        },
    );
    assert_eq!(admin.end_offsets(&delay).len(), 18);
    let settings = admin.topic_settings(&delay);
    let setting = |name: &str| settings[name].clone().unwrap_or_default();
    assert_eq!(setting("message.timestamp.type"), "LogAppendTime");
    assert_eq!(setting("cleanup.policy"), "delete");
    assert_eq!(setting("retention.bytes"), "-1");
    assert!(setting("retention.ms").parse::<i64>().unwrap() >= 7_200_000 + 86_400_000);

    assert_has(&output(&config, &["topics", "check"], 0), &["ok"]);
    let said = output(&config, &["topics", "create"], 0);
    assert_has(&said, &["exists, left as it is"]);
    let daemon = config.start_ready();
    assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
}

#[test]
fn topics_check_finds_what_would_stop_the_daemon() {
    let rig = Rig::bare(&shared().client(), 18, &[("retention.bytes", "5")]);
    let said = output(&rig.config, &["topics", "check"], 1);
    assert_has(&said, &["retention.bytes is 5", &rig.dlq, "does not exist", "CreateTime"]);
    let said = output(&rig.config, &["topics", "create"], 1);
    assert_has(&said, &[&rig.dlq, "created", "retention.bytes is 5"]);
    rig.admin.set_topic_settings(&rig.delay, &[]);
    eventually(PATIENCE, || match rig.config.run(&["topics", "check"]).status.code() {
        Some(0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn topics_with_shards_are_made_with_as_many_partitions_as_asked() {
    let client = shared().client();
    let delay = unique("made");
    let config = DaemonConfig::new(&client, &delay);
    output(&config, &["topics", "create", "--partitions", "20"], 2);
    output(&config, &["topics", "create", "--partitions", "36", "--replicas", "1"], 0);
    let admin = client.admin();
    assert_eq!(admin.end_offsets(&delay).len(), 36);
}

#[test]
fn topics_that_the_cluster_cannot_make_are_refused_with_its_word() {
    let config = DaemonConfig::new(&shared().client(), &unique("made"));
    let said = output(&config, &["topics", "create", "--replicas", "3"], 1);
    assert_has(&said, &["ReplicationFactor"]);
    let said = output(&config, &["topics", "create", "--replicas", "3", "--dry-run"], 1);
    assert_has(&said, &["ReplicationFactor"]);
}

// R47, as it happens in the field: retention itself deletes, under a daemon that waits.
#[test]
fn segments_deleted_by_retention_are_counted_as_lost() {
    let permit = heavy();
    let cluster = Options::one_node()
        .property("log.retention.check.interval.ms", "500")
        .property("log.initial.task.delay.ms", "500")
        .start(&permit);
    let settings = [("retention.ms", "1000"), ("segment.bytes", "1048576")];
    let rig = Rig::bare(&cluster.client(), 1, &settings)
        .set("delay.levels", "20s")
        .set("delay.park_after", "2s")
        .set("source.verify_topic", "warn");
    rig.admin.create_topic(&rig.dlq, 1);
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let value = vec![b'x'; 300_000];
    let record = Record::new(&value).partition(0).timestamp(now_ms()).to(&destination);
    rig.send(&vec![record; 12]);
    daemon.wait_metric("kafka_delay_records_lost_total", &[("level", "1")], 1.0, PATIENCE);
    wait_log(&daemon, "raise retention.ms");
    assert!(daemon.is_running());
}
