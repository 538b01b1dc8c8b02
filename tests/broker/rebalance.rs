//! Instances come and go while records are due: nothing is lost, early, out of order or silent, and
//! who leaves by a signal repeats nothing.

use std::time::Duration;

use crate::support::{
    Client, Cluster, Daemon, Flow, Ledger, Options, Permit, Stage, eventually, heavy, shared,
};

/// Only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(90);

/// One level a partition. Up to 1 s ahead is held, what is later is parked.
const DELAYS_MS: [i64; 18] = [
    200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 5_000,
    6_000, 7_000,
];

/// Members and the group notice each other within about a second.
fn quick_groups(permit: &Permit) -> Cluster {
    Options::one_node()
        .property("group.consumer.min.heartbeat.interval.ms", "300")
        .property("group.consumer.heartbeat.interval.ms", "300")
        .property("group.consumer.min.session.timeout.ms", "3000")
        .property("group.consumer.session.timeout.ms", "6000")
        .start(permit)
}

fn stage(client: &Client, protocol: &str) -> Stage {
    Stage::new(client, &DELAYS_MS).configure(|config| config.set("source.group_protocol", protocol))
}

/// The first half of the levels always has records coming due; the others have one now and then,
/// so that they are parked in between.
fn flow(client: &Client, ledger: Ledger) -> Flow {
    let turn = |number: u64| match number % 50 {
        0 => (0..18).collect(),
        _ => (0..9).collect(),
    };
    Flow::start(client, ledger, Duration::from_millis(50), turn)
}

// R1, R5, R10, R11, R13, R14, R17, R22, R27, R28, R29, R98
fn ten_changes_lose_repeat_and_silence_nothing(client: &Client, protocol: &str) {
    let stage = stage(client, protocol);
    let flow = flow(client, stage.ledger());
    let mut reader = stage.reader();
    let mut older = stage.config.start_ready();
    stage.wait_shares(&[&older], &[18], DEADLINE);
    for change in 0..5 {
        let newer = stage.config.start_ready();
        stage.wait_shares(&[&older, &newer], &[9, 9], DEADLINE);
        let leaves = if change % 2 == 0 { &newer } else { &older };
        leaves.stop(DEADLINE);
        if change % 2 == 1 {
            older = newer;
        }
        stage.wait_shares(&[&older], &[18], DEADLINE);
    }
    let mut ledger = flow.stop();
    // Every partition is read: also those that were parked when they changed hands.
    ledger.send(&stage.producer(), &stage.all());
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    older.stop(DEADLINE);
}

#[test]
fn ten_changes_of_a_classic_group_lose_repeat_and_silence_nothing() {
    ten_changes_lose_repeat_and_silence_nothing(&shared().client(), "classic");
}

#[test]
fn ten_changes_of_a_consumer_group_lose_repeat_and_silence_nothing() {
    let permit = heavy();
    ten_changes_lose_repeat_and_silence_nothing(&quick_groups(&permit).client(), "consumer");
}

/// Members that leave at any moment of a rebalance: before they have joined, while they ask for
/// offsets, while others give partitions back.
fn leaving_in_the_middle_of_a_rebalance(client: &Client, protocol: &str) {
    let stage = stage(client, protocol);
    let flow = flow(client, stage.ledger());
    let mut reader = stage.reader();
    let stays = stage.config.start_ready();
    for moment in 0..12 {
        let leaves = stage.config.start();
        eventually(DEADLINE, || {
            let connected = leaves.log().contains("connected");
            if connected { Ok(()) } else { Err("not connected") }
        });
        // The moment is what the test is about.
        std::thread::sleep(Duration::from_millis(moment * 120));
        leaves.signal(libc::SIGTERM);
        let status = leaves.wait_exit(DEADLINE);
        assert_eq!(status.code(), Some(0), "moment {moment}: {}", leaves.log());
        assert!(!leaves.log().contains("given up"), "moment {moment}: {}", leaves.log());
    }
    stage.wait_shares(&[&stays], &[18], DEADLINE);
    let mut ledger = flow.stop();
    ledger.send(&stage.producer(), &stage.all());
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    stays.stop(DEADLINE);
}

#[test]
fn leaving_a_classic_group_in_the_middle_of_a_rebalance_repeats_nothing() {
    leaving_in_the_middle_of_a_rebalance(&shared().client(), "classic");
}

#[test]
fn leaving_a_consumer_group_in_the_middle_of_a_rebalance_repeats_nothing() {
    let permit = heavy();
    leaving_in_the_middle_of_a_rebalance(&quick_groups(&permit).client(), "consumer");
}

fn survivors_take_over_from_a_killed_one(client: &Client, protocol: &str) {
    let stage = stage(client, protocol);
    let flow = flow(client, stage.ledger());
    let mut reader = stage.reader();
    let daemons: Vec<Daemon> = (0..3).map(|_| stage.config.start_ready()).collect();
    stage.wait_shares(&daemons.iter().collect::<Vec<_>>(), &[6, 6, 6], DEADLINE);
    let committed = stage.committed();
    daemons[1].kill();
    let survivors = [&daemons[0], &daemons[2]];
    stage.wait_shares(&survivors, &[9, 9], DEADLINE);
    let mut ledger = flow.stop();
    ledger.send(&stage.producer(), &stage.all());
    let verdict = ledger.settle(&mut reader, DEADLINE);
    verdict.assert_nothing_lost();
    verdict.assert_repeats_only_above(&committed);
    stage.wait_all_committed(DEADLINE);
    survivors.iter().for_each(|daemon| daemon.stop(DEADLINE));
}

#[test]
fn survivors_of_a_classic_group_take_over_from_a_killed_one() {
    survivors_take_over_from_a_killed_one(&shared().client(), "classic");
}

#[test]
fn survivors_of_a_consumer_group_take_over_from_a_killed_one() {
    let permit = heavy();
    survivors_take_over_from_a_killed_one(&quick_groups(&permit).client(), "consumer");
}

#[test]
fn an_instance_without_partitions_is_ready_and_takes_over() {
    let stage = Stage::new(&shared().client(), &[300, 600]);
    let daemons: Vec<Daemon> = (0..3).map(|_| stage.config.start_ready()).collect();
    stage.wait_shares(&daemons.iter().collect::<Vec<_>>(), &[0, 1, 1], DEADLINE);
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    ledger.send(&stage.producer(), &[0, 1, 0, 1]);
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    let busy = |daemon: &&Daemon| daemon.metric("kafka_delay_assigned_partitions", &[]) > Some(0.0);
    let (busy, idle): (Vec<&Daemon>, Vec<&Daemon>) = daemons.iter().partition(busy);
    busy.iter().for_each(|daemon| daemon.stop(DEADLINE));
    stage.wait_shares(&idle, &[2], DEADLINE);
    ledger.send(&stage.producer(), &[0, 1, 0, 1]);
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    idle[0].stop(DEADLINE);
}
