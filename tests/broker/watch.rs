//! A daemon that cannot go on: it notices, says so, ends, and leaves its partitions to others.

use std::time::Duration;

use crate::support::{Daemon, Options, Stage, eventually, heavy, shared};

/// Only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// The thread of that name; of several the last, which was made last.
fn thread(daemon: &Daemon, name: &str) -> i32 {
    let threads = daemon.threads();
    let found = threads.iter().rev().find(|(_, known)| known == name);
    found.unwrap_or_else(|| panic!("no {name} in {threads:?}")).0
}

// R86, R96: the one thread that moves records stands still, everything else lives.
#[test]
fn a_loop_that_stands_still_fails_the_probe_and_then_ends_the_process() {
    let stage = Stage::new(&shared().client(), &[1_000, 2_000])
        .configure(|config| config.set("health.stall_after", "2s"));
    let daemon = stage.config.start_ready();
    assert_eq!(daemon.http_get("/livez").unwrap().0, 200);
    let engine = daemon.freeze_thread(thread(&daemon, "engine"));
    eventually(DEADLINE, || match daemon.http_get("/livez")? {
        (503, _) => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    assert_eq!(daemon.http_get("/readyz").unwrap().0, 200, "readiness is not liveness");
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &stage.all());
    engine.wait_end(DEADLINE);
    assert_eq!(daemon.wait_exit(DEADLINE).code(), Some(70), "{}", daemon.log());
    assert!(daemon.log().contains("the engine loop is stuck"), "{}", daemon.log());

    let daemon = stage.config.start_ready();
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    daemon.stop(DEADLINE);
}

// R1, R8, R10, R86: assigned, alive, passing, and nothing arrives; other clients can read it all.
#[test]
fn a_consumer_that_reads_nothing_while_others_can_is_stuck_and_ends_the_process() {
    let stage = Stage::new(&shared().client(), &[1_000, 2_000]).configure(|config| {
        config.set("health.stuck_after", "3s").set("metrics.lag_interval", "1s")
    });
    let daemon = stage.config.start_ready();
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &stage.all());
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    let fetching = daemon.freeze_thread(fetching_thread(&daemon));
    ledger.send(&stage.producer(), &stage.all());
    let stuck = "kafka_delay_level_stuck";
    daemon.wait_metric(stuck, &[("level", "1")], 1.0, DEADLINE);
    daemon.wait_metric(stuck, &[("level", "2")], 1.0, DEADLINE);
    assert!(daemon.http_get("/status").unwrap().1.contains("\"stuck\":true"));
    assert_eq!(daemon.http_get("/livez").unwrap().0, 200, "the loop passes");
    fetching.wait_end(DEADLINE);
    assert_eq!(daemon.wait_exit(DEADLINE).code(), Some(70), "{}", daemon.log());
    let log = daemon.log();
    assert_eq!(log.matches("partition is stuck, waiting for the record").count(), 2, "{log}");
    assert!(log.contains("has been stuck for"), "{log}");

    let daemon = stage.config.start_ready();
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    daemon.stop(DEADLINE);
}

// The thread that ends transactions stands still: records arrive, and nobody ever commits them.
#[test]
fn a_transaction_that_never_ends_is_stuck_and_ends_the_process() {
    let stage = Stage::new(&shared().client(), &[1_000, 2_000]).configure(|config| {
        let config = config.set("health.stuck_after", "3s").set("metrics.lag_interval", "1s");
        config.set("forward.guarantee", "exactly_once").set("forward.transaction_timeout", "5s")
    });
    let daemon = stage.config.start_ready();
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &stage.all());
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    let ending = daemon.freeze_thread(thread(&daemon, "transactions"));
    ledger.send(&stage.producer(), &stage.all());
    daemon.wait_metric("kafka_delay_level_stuck", &[("level", "1")], 1.0, DEADLINE);
    ending.wait_end(DEADLINE);
    assert_eq!(daemon.wait_exit(DEADLINE).code(), Some(70), "{}", daemon.log());
    assert!(daemon.log().contains("waiting for the transaction of offset"), "{}", daemon.log());

    let daemon = stage.config.start_ready();
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    daemon.stop(DEADLINE);
}

/// The thread that fetches records: the consumer asks a hundred times a second, the connections of
/// other clients to the same broker have nothing to say.
fn fetching_thread(daemon: &Daemon) -> i32 {
    let switches = |thread: i32| {
        let path = format!("/proc/{}/task/{thread}/status", daemon.pid());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    eventually(DEADLINE, || {
        let threads = daemon.threads();
        let brokers = threads.iter().filter(|(_, name)| name.starts_with("rdk:broker"));
        let mut busy: Vec<(u64, i32)> = brokers.map(|(id, _)| (switches(*id), *id)).collect();
        busy.sort_unstable();
        let [.., second, first] = busy[..] else { return Err(format!("{busy:?}")) };
        if first.0 > 5 * second.0 { Ok(first.1) } else { Err(format!("{busy:?}")) }
    })
}

// R89: the same silence while no broker answers is waited out, however long.
#[test]
fn a_lane_that_waits_for_brokers_that_are_away_is_not_stuck() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    let stage = Stage::new(&cluster.client(), &[1_000, 2_000]).configure(|config| {
        let config = config.set("health.stuck_after", "1s").set("metrics.lag_interval", "1s");
        // So that the partitions stay its own.
        config.set("source.session_timeout", "5m")
    });
    let daemon = stage.config.start_ready();
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &stage.all());
    daemon.wait_metric("kafka_delay_records_consumed_total", &[], 2.0, DEADLINE);
    cluster.node(0).suspend();
    let asked = "the partition waits for the cluster";
    // Twice asked means that more than the limit has passed twice.
    eventually(DEADLINE, || match daemon.log().matches(asked).count() {
        0..=2 => Err("not asked yet"),
        _ => Ok(()),
    });
    assert_eq!(daemon.metric("kafka_delay_level_stuck", &[]), Some(0.0));
    assert!(daemon.is_running());
    cluster.node(0).resume();
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    daemon.stop(DEADLINE);
}

// R5, R96
#[test]
fn a_failure_gives_the_partitions_back_before_the_session_ends() {
    let stage = Stage::new(&shared().client(), &[1_000, 2_000]).configure(|config| {
        config
            .set("source.session_timeout", "5m")
            .set("source.librdkafka.topic_metadata_refresh_interval_ms", "500")
    });
    let daemon = stage.config.start_ready();
    stage.admin.grow_topic(&stage.delay_topic, 4);
    assert_eq!(daemon.wait_exit(DEADLINE).code(), Some(70), "{}", daemon.log());
    let members = stage.admin.group(&stage.config.group).map(|group| group.members);
    assert_eq!(members.unwrap_or_default(), Vec::<String>::new(), "it has left");
}

#[test]
fn the_second_member_of_one_static_name_fences_the_first_which_ends_within_seconds() {
    let stage = Stage::new(&shared().client(), &[1_000, 2_000])
        .configure(|config| config.set("source.group_instance_id", "one"));
    let first = stage.config.start_ready();
    let second = stage.config.start();
    assert_eq!(first.wait_exit(DEADLINE).code(), Some(70), "{}", first.log());
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &stage.all());
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    assert!(second.is_running());
    second.stop(DEADLINE);
}
