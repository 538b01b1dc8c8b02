//! Brokers and daemons that die, freeze and come back while records are due.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::{Cluster, Daemon, Flow, Options, Sent, Stage, heavy, now_ms, shared};

/// Only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// Two levels whose heads are in memory when the fault begins, two that are parked.
const DELAYS_MS: [i64; 4] = [3_000, 4_000, 7_000, 8_000];

/// Waits out a fault, and sees the daemon alive and ready all the time.
fn stays_alive(daemon: &Daemon, span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(daemon.is_running(), "{}", daemon.log());
        for probe in ["/livez", "/readyz"] {
            assert_eq!(daemon.http_get(probe).map(|(status, _)| status), Ok(200), "{probe}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Records come due in an outage that `fault` makes and ends.
fn an_outage_delays_and_loses_and_repeats_nothing(
    cluster: &Cluster,
    fault: impl FnOnce(&dyn Fn(Duration)),
) {
    let stage = Stage::new(&cluster.client(), &DELAYS_MS)
        .configure(|config| config.set("delay.park_after", "5s"))
        // Longer than the outage: whoever loses its partitions forwards again what it had sent.
        .configure(|config| config.set("source.session_timeout", "1m"));
    let daemon = stage.config.start_ready();
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    let producer = stage.producer();
    let each_ten_times: Vec<i32> = (0..40).map(|number| number % 4).collect();
    // Known before, so that the outage finds the producer with connections and leaders.
    ledger.send(&producer, &each_ten_times);
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    for _ in 0..10 {
        ledger.send(&producer, &each_ten_times);
    }
    fault(&|span| stays_alive(&daemon, span));
    assert!(now_ms() > ledger.last_due_ms(), "some were due after the outage");
    let verdict = ledger.settle(&mut reader, DEADLINE);
    verdict.assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    assert_eq!(daemon.metric("kafka_delay_early_forwards_total", &[]), Some(0.0));
    daemon.stop(DEADLINE);
}

// R52, R89
#[test]
fn a_killed_and_restarted_broker_loses_and_repeats_nothing() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    an_outage_delays_and_loses_and_repeats_nothing(&cluster, |wait| {
        cluster.node(0).kill();
        wait(Duration::from_secs(10));
        cluster.restart(0);
    });
}

#[test]
fn a_frozen_broker_loses_and_repeats_nothing() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    an_outage_delays_and_loses_and_repeats_nothing(&cluster, |wait| {
        cluster.node(0).suspend();
        wait(Duration::from_secs(9));
        cluster.node(0).resume();
    });
}

// R41, R43
#[test]
fn the_loss_of_one_of_three_brokers_loses_and_repeats_nothing() {
    let permit = heavy();
    let cluster = Options::three_nodes().start(&permit);
    let stage = Stage::new(&cluster.client(), &[200, 400, 800, 1_500, 3_000, 5_000])
        // The coordinator may be on the broker that is lost; see above.
        .configure(|config| config.set("source.session_timeout", "1m"));
    let all = stage.all();
    let turn = move |_| all.clone();
    let flow = Flow::start(&cluster.client(), stage.ledger(), Duration::from_millis(30), turn);
    let mut reader = stage.reader();
    let daemon = stage.config.start_ready();
    daemon.wait_metric("kafka_delay_records_forwarded_total", &[], 100.0, DEADLINE);
    let victim = cluster.leader_of(&stage.delay_topic, 0);
    cluster.node(victim).kill();
    let before = daemon.metric("kafka_delay_records_forwarded_total", &[]).unwrap();
    daemon.wait_metric("kafka_delay_records_forwarded_total", &[], before + 1_000.0, DEADLINE);
    cluster.restart(victim);
    let before = daemon.metric("kafka_delay_records_forwarded_total", &[]).unwrap();
    daemon.wait_metric("kafka_delay_records_forwarded_total", &[], before + 500.0, DEADLINE);
    flow.stop().settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}

/// Commits never go back, whoever makes them.
struct Commits(BTreeMap<i32, i64>);

impl Commits {
    fn look(&mut self, stage: &Stage) {
        for (partition, offset) in stage.committed() {
            let before = self.0.insert(partition, offset).unwrap_or(0);
            assert!(offset >= before, "commit of {partition} went back: {before} to {offset}");
        }
    }
}

#[test]
fn a_frozen_daemon_that_wakes_up_repeats_only_what_it_had_in_hand_and_works_again() {
    let stage = Stage::new(&shared().client(), &[300, 600, 1_000, 2_000, 3_000, 4_000]);
    let all = stage.all();
    let turn = move |_| all.clone();
    let flow = Flow::start(&shared().client(), stage.ledger(), Duration::from_millis(30), turn);
    let mut reader = stage.reader();
    let frozen = stage.config.start_ready();
    frozen.wait_metric("kafka_delay_records_forwarded_total", &[], 300.0, DEADLINE);
    let committed = stage.committed();
    let mut commits = Commits(committed.clone());
    frozen.freeze();
    let frozen_at = now_ms();
    let other = stage.config.start_ready();
    stage.wait_shares(&[&other], &[6], DEADLINE);
    other.wait_metric("kafka_delay_records_forwarded_total", &[], 1_000.0, DEADLINE);
    commits.look(&stage);
    frozen.signal(libc::SIGCONT);
    for _ in 0..50 {
        commits.look(&stage);
    }
    stage.wait_shares(&[&frozen, &other], &[3, 3], DEADLINE);
    commits.look(&stage);
    let mut ledger = flow.stop();
    ledger.send(&stage.producer(), &stage.all());
    let verdict = ledger.settle(&mut reader, DEADLINE);
    verdict.assert_nothing_lost();
    verdict.assert_repeats_only_above(&committed);
    let due_while_frozen = |sent: &&Sent| sent.due_ms > frozen_at;
    let sent_on_waking: Vec<&Sent> = verdict.duplicated.iter().filter(due_while_frozen).collect();
    assert!(sent_on_waking.is_empty(), "forwarded after it woke up: {sent_on_waking:?}");
    commits.look(&stage);
    stage.wait_all_committed(DEADLINE);
    frozen.stop(DEADLINE);
    other.stop(DEADLINE);
}
