//! Starting, stopping, crashing and starting anew: what is waiting lives in Kafka alone.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{Daemon, Flow, Options, Stage, eventually, heavy, shared};

/// Only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(90);

const FORWARDED: &str = "kafka_delay_records_forwarded_total";

/// Levels that are held and levels that are parked.
const DELAYS_MS: [i64; 6] = [200, 500, 1_000, 2_500, 4_000, 5_000];

/// A record to every partition, of the long levels only now and then, so that they are parked.
fn flow(stage: &Stage) -> Flow {
    let all = stage.all();
    let turn = move |number: u64| match number % 60 {
        0 => all.clone(),
        _ => all[..3].to_vec(),
    };
    Flow::start(&shared().client(), stage.ledger(), Duration::from_millis(30), turn)
}

fn forwards_more(daemon: &Daemon, records: f64) {
    let before = daemon.metric(FORWARDED, &[]).unwrap_or(0.0);
    daemon.wait_metric(FORWARDED, &[], before + records, DEADLINE);
}

fn wait_phase(daemon: &Daemon, phase: &str) {
    eventually(DEADLINE, || {
        let (_, status) = daemon.http_get("/status")?;
        let found = status.contains(&format!("\"{phase}\""));
        if found { Ok(()) } else { Err(format!("nothing is {phase}: {status}")) }
    });
}

// R94, R100
#[test]
fn a_stop_by_signal_loses_and_repeats_nothing_and_leaves_the_group_at_once() {
    // With this session nobody leaves because of silence while the test runs.
    let stage = Stage::new(&shared().client(), &DELAYS_MS)
        .configure(|config| config.set("source.session_timeout", "4m"));
    let flow = flow(&stage);
    let mut reader = stage.reader();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGTERM, libc::SIGTERM] {
        let daemon = stage.config.start_ready();
        forwards_more(&daemon, 200.0);
        daemon.signal(signal);
        let status = daemon.wait_exit(DEADLINE);
        assert_eq!(status.code(), Some(0), "{}", daemon.log());
        let group = stage.admin.group(&stage.config.group).expect("the group has commits");
        assert!(group.members.is_empty(), "{group:?}");
    }
    let daemon = stage.config.start_ready();
    let ledger = flow.stop();
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}

#[test]
fn after_kill_9_nothing_is_lost_and_only_what_was_not_committed_is_repeated() {
    let stage = Stage::new(&shared().client(), &DELAYS_MS);
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let daemon = stage.config.start_ready();
    forwards_more(&daemon, 300.0);
    let committed = stage.committed();
    daemon.kill();
    assert!(committed.values().sum::<i64>() > 100, "{committed:?}");
    let daemon = stage.config.start_ready();
    forwards_more(&daemon, 300.0);
    let verdict = flow.stop().settle(&mut reader, DEADLINE);
    verdict.assert_nothing_lost();
    verdict.assert_repeats_only_above(&committed);
    daemon.stop(DEADLINE);
}

// R50, R56
#[test]
fn records_held_and_parked_survive_a_stop_and_a_kill() {
    let stage = Stage::new(&shared().client(), &[8_000, 20_000])
        .configure(|config| config.set("delay.park_after", "10s"));
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    let clean = stage.config.start_ready();
    ledger.send(&stage.producer(), &[0, 1, 0, 1, 0, 1]);
    wait_phase(&clean, "holding");
    wait_phase(&clean, "parked");
    clean.stop(DEADLINE);
    let killed = stage.config.start_ready();
    wait_phase(&killed, "parked");
    killed.kill();
    let daemon = stage.config.start_ready();
    let verdict = ledger.settle(&mut reader, DEADLINE);
    verdict.assert_nothing_lost();
    // Whatever the killed one forwarded meanwhile may come again, nothing else.
    assert!(verdict.duplicated.iter().all(|sent| sent.partition == 0), "{verdict}");
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}

// R43
#[test]
fn nothing_is_committed_before_it_is_at_the_destination() {
    let stage = Stage::new(&shared().client(), &DELAYS_MS);
    let flow = flow(&stage);
    let mut reader = stage.reader();
    let daemon = stage.config.start_ready();
    let mut looks = Vec::new();
    while looks.len() < 40 {
        let committed = stage.committed();
        let ends = stage.admin.end_offsets(&stage.destination);
        looks.push((committed, ends));
    }
    let ledger = flow.stop();
    ledger.settle(&mut reader, DEADLINE).assert_exactly_once();
    let mut checked = 0;
    for (committed, ends) in looks {
        let there = |seen: &&crate::support::Seen| {
            let end = ends[usize::try_from(seen.partition).expect("not negative")];
            seen.offset < end
        };
        let there: Vec<u64> =
            reader.seen().iter().filter(there).map(|seen| seen.text().parse().unwrap()).collect();
        for sent in ledger.sent() {
            if committed.get(&sent.partition).is_some_and(|offset| sent.offset < *offset) {
                assert!(there.contains(&sent.id), "{sent:?} was committed before it was forwarded");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} commits were seen");
    daemon.stop(DEADLINE);
}

// R88, R100
#[test]
fn readiness_begins_with_the_group_and_ends_with_the_first_signal_the_second_ends_the_process() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    let stage = Stage::new(&cluster.client(), &DELAYS_MS)
        .configure(|config| config.set("shutdown.timeout", "10m"))
        .configure(|config| config.set("source.session_timeout", "4m"))
        .configure(|config| config.set("delay.park_after", "10s"));
    cluster.node(0).suspend();
    let daemon = stage.config.start();
    eventually(DEADLINE, || match daemon.http_get("/livez")? {
        (200, _) => Ok(()),
        (status, body) => Err(format!("/livez: {status} {body}")),
    });
    let (status, body) = daemon.http_get("/readyz").unwrap();
    assert!(status == 503 && body.contains("not been joined"), "{status} {body}");
    cluster.node(0).resume();
    daemon.wait_ready();

    // Stopping waits for acknowledgements that do not come.
    let mut ledger = stage.ledger();
    ledger.send(&stage.producer(), &[5; 5]);
    wait_phase(&daemon, "holding");
    cluster.node(0).suspend();
    daemon.wait_metric("kafka_delay_in_flight_records", &[], 1.0, DEADLINE);
    daemon.signal(libc::SIGTERM);
    eventually(DEADLINE, || match daemon.http_get("/readyz")? {
        (503, body) if body.contains("shutdown") => Ok(()),
        (status, body) => Err(format!("/readyz: {status} {body}")),
    });
    assert_eq!(daemon.http_get("/livez").unwrap().0, 200);
    daemon.signal(libc::SIGTERM);
    let status = daemon.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(70), "{}", daemon.log());
    cluster.node(0).resume();
}

// R100
#[test]
fn a_stop_without_a_broker_ends_within_the_shutdown_timeout() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    let stage = Stage::new(&cluster.client(), &DELAYS_MS)
        .configure(|config| config.set("shutdown.timeout", "6s"))
        .configure(|config| config.set("source.session_timeout", "15s"))
        .configure(|config| config.set("delay.park_after", "10s"));
    let daemon = stage.config.start_ready();
    let mut ledger = stage.ledger();
    ledger.send(&stage.producer(), &[5; 5]);
    wait_phase(&daemon, "holding");
    cluster.node(0).kill();
    daemon.wait_metric("kafka_delay_in_flight_records", &[], 1.0, DEADLINE);
    let start = Instant::now();
    daemon.signal(libc::SIGTERM);
    daemon.wait_exit(DEADLINE);
    let took = start.elapsed();
    // A little more, for the process to end on a busy machine.
    assert!(took < Duration::from_millis(6_000 + 1_500), "{took:?}: {}", daemon.log());

    cluster.restart(0);
    let daemon = stage.config.start_ready();
    let verdict = ledger.settle(&mut stage.reader(), DEADLINE);
    verdict.assert_nothing_lost();
    daemon.stop(DEADLINE);
}

#[test]
fn a_taken_http_port_is_a_configuration_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let stage = Stage::new(&shared().client(), &[1_000]);
    let daemon = stage.config.set("http.listen", &address).start();
    let status = daemon.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(78));
    assert!(daemon.log().contains(&address), "{}", daemon.log());
}

// R96
#[test]
fn a_delay_topic_that_grows_ends_the_process_and_the_next_one_reads_all_of_it() {
    let stage = Stage::new(&shared().client(), &DELAYS_MS).configure(|config| {
        config.set("source.librdkafka.topic_metadata_refresh_interval_ms", "500")
    });
    let daemon = stage.config.start_ready();
    let (mut ledger, mut reader) = (stage.ledger(), stage.reader());
    let producer = stage.producer();
    ledger.send(&producer, &stage.all());
    stage.admin.grow_topic(&stage.delay_topic, 12);
    let status = daemon.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(70), "{}", daemon.log());
    assert!(daemon.log().contains("the delay topic has grown"), "{}", daemon.log());

    let daemon = stage.config.start_ready();
    let all: Vec<i32> = (0..12).collect();
    ledger.send(&stage.producer(), &all);
    ledger.settle(&mut reader, DEADLINE).assert_nothing_lost();
    stage.wait_all_committed(DEADLINE);
    daemon.stop(DEADLINE);
}
