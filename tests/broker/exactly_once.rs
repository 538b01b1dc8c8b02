//! Forward and commit in one transaction: every record arrives once, whoever dies when.
//!
//! Readers see committed records only, as those of an exactly-once daemon must.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::rig::{Rig, overdue, texts};
use crate::support::{
    Daemon, DaemonConfig, Flow, Record, Seen, Stage, eventually, now_ms, shared, unique,
};

/// Only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(90);

const FORWARDED: &str = "kafka_delay_records_forwarded_total";

const DELAYS_MS: [i64; 6] = [200, 500, 1_000, 2_500, 4_000, 5_000];

fn exactly_once(config: DaemonConfig) -> DaemonConfig {
    config
        .set("forward.guarantee", "exactly_once")
        // What a dead instance left open holds up readers for this long, and some seconds more.
        .set("forward.transaction_timeout", "5s")
}

fn stage() -> Stage {
    Stage::new(&shared().client(), &DELAYS_MS).configure(exactly_once)
}

/// Another member of the same group.
fn member(stage: &Stage, name: &str) -> DaemonConfig {
    stage.config.clone().set("kafka.client_id", name)
}

fn flow(stage: &Stage) -> Flow {
    let all = stage.all();
    let turn = move |_| all.iter().cycle().take(30).copied().collect();
    Flow::start(&shared().client(), stage.ledger(), Duration::from_millis(20), turn)
}

fn forwards_more(daemon: &Daemon, records: f64) {
    let before = daemon.metric(FORWARDED, &[]).unwrap_or(0.0);
    daemon.wait_metric(FORWARDED, &[], before + records, DEADLINE);
}

#[test]
fn every_record_arrives_once_in_order_and_is_committed() {
    let stage = stage();
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let daemon = stage.config.start_ready();
    forwards_more(&daemon, 2_000.0);
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}

// R94
#[test]
fn a_daemon_that_is_killed_again_and_again_repeats_nothing() {
    let stage = stage().configure(|config| config.set("forward.transaction_timeout", "5m"));
    let flow = flow(&stage);
    let mut reader = stage.reader();
    for _ in 0..4 {
        // Of the same transactional id, so that what it left open is aborted at once: its own
        // timeout would hold up the reader for longer than this test may take.
        let daemon = stage.config.start_ready();
        forwards_more(&daemon, 500.0);
        daemon.kill();
    }
    let daemon = stage.config.start_ready();
    forwards_more(&daemon, 500.0);
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}

// R98, R99
#[test]
fn members_that_come_and_go_repeat_nothing() {
    let stage = stage();
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let first = member(&stage, "first").start_ready();
    stage.wait_shares(&[&first], &[6], DEADLINE);
    for _ in 0..3 {
        let second = member(&stage, "second").start_ready();
        stage.wait_shares(&[&first, &second], &[3, 3], DEADLINE);
        forwards_more(&second, 300.0);
        second.stop(DEADLINE);
        stage.wait_shares(&[&first], &[6], DEADLINE);
    }
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    first.stop(DEADLINE);
}

// R99
#[test]
fn a_frozen_member_that_wakes_up_repeats_nothing() {
    let stage = stage();
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let frozen = member(&stage, "frozen").start_ready();
    forwards_more(&frozen, 500.0);
    frozen.freeze();
    let other = member(&stage, "other").start_ready();
    stage.wait_shares(&[&other], &[6], DEADLINE);
    forwards_more(&other, 1_000.0);
    frozen.signal(libc::SIGCONT);
    forwards_more(&other, 1_000.0);
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    other.stop(DEADLINE);
}

// R99
#[test]
fn of_two_instances_with_one_transactional_id_the_older_ends_and_nothing_is_repeated() {
    let stage = stage();
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let older = stage.config.start_ready();
    forwards_more(&older, 300.0);
    let newer = stage.config.start_ready();
    let status = older.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(70), "{}", older.log());
    assert!(older.log().contains("forward.transactional_id"), "{}", older.log());
    stage.wait_shares(&[&newer], &[6], DEADLINE);
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    newer.stop(DEADLINE);
}

#[test]
fn bad_records_are_dead_lettered_and_the_good_ones_around_them_arrive_once() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(3);
    let small = unique("small");
    rig.admin.create_topic_with(&small, 1, &[("max.message.bytes", "2000")]);
    let unknown = unique("unknown");
    let mut records = Vec::new();
    for number in 0..300 {
        let to = |topic: &str| overdue(number.to_string(), topic);
        records.push(match number % 30 {
            7 => to(&unknown),
            11 => Record::new(number.to_string()).partition(0).timestamp(now_ms() - 60_000),
            13 => overdue("x".repeat(5_000), &small),
            14 => to(&small),
            17 => to(&destination).header("origin_partition", "77"),
            _ => to(&destination),
        });
    }
    rig.send(&records);
    let config = exactly_once(rig.config.clone()).set("forward.destination_grace", "2s");
    let daemon = config.start_ready();
    let rig = Rig { config, ..rig };
    rig.wait_committed();
    let good = rig.exactly(&destination, 250);
    assert_eq!(good.iter().map(Seen::text).collect::<BTreeSet<_>>().len(), 250);
    assert_eq!(rig.exactly(&small, 10).len(), 10);
    let dead = rig.exactly(&rig.dlq, 40);
    let mut reasons: Vec<String> =
        dead.iter().map(|seen| seen.header_text("kafka_delay_dlq_reason")).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let expected = ["invalid_partition", "missing_origin_topic", "too_large", "unknown_topic"];
    assert_eq!(reasons, expected, "{:?}", texts(&dead));
    daemon.stop(DEADLINE);
}

/// Records for a topic that appears later wait, and those behind them in the same level do not,
/// also across a kill.
#[test]
fn what_was_forwarded_behind_a_waiting_record_is_not_repeated_after_a_kill() {
    let rig = Rig::new(&shared().client(), "1s");
    let (destination, late) = (rig.destination(1), unique("late"));
    let mut records = vec![overdue("waits", &late)];
    records.extend((0..100).map(|number: i32| overdue(number.to_string(), &destination)));
    rig.send(&records);
    let config = exactly_once(rig.config.clone()).set("forward.destination_grace", "10m");
    let rig = Rig { config, ..rig };
    let daemon = rig.config.start_ready();
    forwards_more(&daemon, 100.0);
    eventually(DEADLINE, || {
        let committed = rig.admin.committed(&rig.config.group, &rig.delay);
        if committed.get(&0) == Some(&0) { Ok(()) } else { Err(format!("{committed:?}")) }
    });
    daemon.kill();
    let daemon = rig.config.start_ready();
    rig.send(&[overdue("last", &destination)]);
    daemon.wait_metric(FORWARDED, &[], 1.0, DEADLINE);
    rig.admin.create_topic(&late, 1);
    rig.wait_committed();
    rig.exactly(&destination, 101);
    rig.exactly(&late, 1);
    daemon.stop(DEADLINE);
}
