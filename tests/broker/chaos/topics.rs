//! Destinations that are deleted or refuse writes, and a delay topic that forgets records.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::scene::{Bars, DEADLINE, DESTINATION, QUIET, Repeats, Scene, WAITING_EVENLY};
use super::{Form, Guarantee, play};
use crate::support::{
    Arrival, Cluster, Ledger, Options, Pulse, Stalls, Watch, eventually, heavy, java, shared,
    unique,
};

const LOST: &str = "kafka_delay_records_lost_total";

#[test]
fn a_destination_that_is_deleted_and_made_anew_gets_every_record_or_the_dead_letters_do() {
    play(|form, guarantee| {
        let window = form.seconds(25, 60);
        let mut scene = Scene::new(&shared().client(), "topic deleted", (form, guarantee), window)
            .configure(|config| config.set("forward.destination_grace", "3s"));
        scene.enlist(1);
        scene.load();
        scene.wait_for(0.2);
        let (gone, doubtful) = scene.fault(|scene| {
            scene.stage.admin.delete_topic(&scene.stage.destination);
            let log = deleted_log(shared(), &scene.stage.destination);
            // Longer than the grace, so that there are dead letters too.
            std::thread::sleep(Duration::from_secs(6));
            scene.stage.admin.create_topic(&scene.stage.destination, 3);
            log
        });
        assert!(!gone.is_empty(), "it was deleted while records came in");
        scene.watch_anew(gone, doubtful);
        // A record that was tried again goes behind those that were not.
        scene.finish(&Bars { ordered: false, ..Bars::new(Repeats::Uncommitted) });
    });
}

/// What was written to a topic before it was deleted: a broker keeps the files for a minute. The
/// second list is of transactions that never ended.
#[track_caller]
fn deleted_log(cluster: &Cluster, topic: &str) -> (Vec<Arrival>, Vec<Arrival>) {
    let prefix = format!("{topic}-");
    let segments = eventually(DEADLINE, || {
        let mut segments = BTreeMap::new();
        for entry in fs::read_dir(cluster.node(0).data_dir()).expect("it runs").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // <topic>-<partition>.<id>-delete
            let Some(rest) = name.strip_prefix(&prefix) else { continue };
            if let Some((partition, _)) = rest.split_once('.').filter(|_| rest.ends_with("-delete"))
            {
                let partition: i32 = partition.parse().expect("a partition");
                segments.insert(partition, entry.path().join("00000000000000000000.log"));
            }
        }
        if segments.len() == 3 { Ok(segments) } else { Err(format!("only {segments:?}")) }
    });
    let mut log = (Vec::new(), Vec::new());
    for (partition, file) in segments {
        let file = file.to_str().expect("a plain path");
        let class = "org.apache.kafka.tools.DumpLogSegments";
        let dump = java::run_tool(class, &["--print-data-log", "--files", file]);
        let (written, open) = records_of(&dump, partition);
        log.0.extend(written);
        log.1.extend(open);
    }
    log
}

/// Records of a dump, without those of transactions that were aborted; and those of transactions
/// that never ended.
fn records_of(dump: &str, partition: i32) -> (Vec<Arrival>, Vec<Arrival>) {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}: "))?;
        Some(rest.split(' ').next().unwrap_or(rest).to_owned())
    };
    let number = |line: &str, name: &str| field(line, name)?.parse::<i64>().ok();
    let mut written = Vec::new();
    let mut open: BTreeMap<i64, Vec<Arrival>> = BTreeMap::new();
    let (mut producer, mut transactional) = (-1, false);
    for line in dump.lines() {
        if line.starts_with("baseOffset") {
            producer = number(line, "producerId").expect("every batch has one");
            transactional = field(line, "isTransactional").as_deref() == Some("true");
        } else if let Some(marker) = field(line, "endTxnMarker") {
            let ended = open.remove(&producer).unwrap_or_default();
            written.extend(ended.into_iter().filter(|_| marker == "COMMIT"));
        } else if let Some(id) = number(line, "payload") {
            let timestamp = number(line, "CreateTime").expect("every record has one");
            let arrival = Arrival {
                id: id.unsigned_abs(),
                topic: DESTINATION,
                partition,
                offset: number(line, "| offset").expect("every record has one"),
                timestamp,
                // Nobody has seen it; it was there soon after it was sent on.
                seen_at: timestamp,
            };
            let list = if transactional { open.entry(producer).or_default() } else { &mut written };
            list.push(arrival);
        }
    }
    (written, open.into_values().flatten().collect())
}

#[test]
fn a_destination_with_too_few_replicas_holds_up_no_other() {
    play(too_few_replicas);
}

fn too_few_replicas(form: Form, guarantee: Guarantee) {
    let permit = heavy();
    let cluster = Options::three_nodes().start(&permit);
    let client = cluster.client();
    let window = form.seconds(15, 60);
    let mut scene = Scene::new(&client, "too few replicas", (form, guarantee), window);
    let (other, bare) = (unique("other"), unique("pulse"));
    scene.stage.admin.create_topic(&other, 3);
    scene.stage.admin.create_topic(&bare, 3);
    // Until it is back, a topic that wants three replicas in sync takes nothing.
    cluster.node(2).terminate();
    scene.enlist(1);
    let pulse = Pulse::start(&client, &bare, 3);
    scene.load();
    let stage = &scene.stage;
    let ledger = Ledger::new(&stage.delay_topic, &other, &stage.delays_ms);
    let watch = Watch::start(&client, &other, DESTINATION);
    let flow = scene.flow_of(ledger);
    scene.wait_for(0.2);
    // One that does not wait for the broker that is away.
    let admin = client.admin();
    scene.fault(|scene| {
        let want = |replicas| {
            for topic in [&scene.stage.destination, &bare] {
                admin.set_topic_settings(topic, &[("min.insync.replicas", replicas)]);
            }
        };
        want("3");
        std::thread::sleep(Duration::from_secs(1));
        let (refused, flowing) = (scene.count(), watch.count());
        // A transaction cannot be aborted either before its partitions take the marker of its end:
        // with exactly_once the others wait as well.
        if guarantee == Guarantee::AtLeastOnce {
            eventually(DEADLINE, || match watch.count() > flowing {
                true => Ok(()),
                false => Err("the other destination gets nothing".to_owned()),
            });
        }
        std::thread::sleep(form.seconds(4, 10));
        assert_eq!(scene.count(), refused, "nothing is taken");
        want("2");
    });
    scene.wait_for(1.0);
    cluster.restart(2);
    let ledger = flow.stop();
    let arrived = ledger.await_arrivals(|| watch.arrivals(), 0, DEADLINE);
    let verdict = ledger.compare_arrivals(&arrived);
    let stalls = Stalls::measure(&ledger, &arrived, &[]);
    println!("\nthe other destination: {verdict}; {stalls:?}");
    verdict.assert_exactly_once();
    if (form, guarantee) == (Form::Long, Guarantee::AtLeastOnce) {
        assert!(stalls.latest_ms <= 2_000, "held up by the refusal: {stalls:?}");
    }
    let bare = Some(pulse.stop());
    scene.finish(&Bars { bare, ..Bars::new(Repeats::Never) });
}

#[test]
fn records_that_the_delay_topic_forgot_are_counted_and_nothing_else_is_missing() {
    play(|form, guarantee| {
        let window = form.seconds(12, 60);
        let mut scene =
            Scene::new(&shared().client(), "log start moved", (form, guarantee), window);
        scene.enlist(1);
        scene.load();
        scene.wait_for(0.3);
        scene.crew.terminate(0, DEADLINE);
        let count = form.pick(20, 1_000);
        let committed = scene.stage.committed();
        let mut bars = Bars::new(Repeats::Never);
        for partition in WAITING_EVENLY {
            let from = committed.get(&partition).copied().unwrap();
            bars.deleted.insert(partition, from..from + count);
        }
        // Nobody has read these but the head, which is not in memory while it waits.
        bars.deleted.insert(QUIET, 0..count);
        for (partition, range) in &bars.deleted {
            if *partition != QUIET {
                scene.stage.admin.delete_records(&scene.stage.delay_topic, *partition, range.end);
            }
        }
        scene.crew.start(0);
        scene.crew.wait_ready(0);
        scene.wait_owned();
        let known = count * i64::try_from(WAITING_EVENLY.len()).unwrap();
        let daemon = scene.crew.daemon(0);
        daemon.wait_metric(LOST, &[], known as f64, DEADLINE);
        // While it is parked.
        scene.stage.admin.delete_records(&scene.stage.delay_topic, QUIET, count);
        daemon.wait_metric(LOST, &[], (known + count) as f64, DEADLINE);
        scene.wait_for(1.0);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(daemon.metric(LOST, &[]), Some((known + count) as f64), "exactly those");
        scene.finish(&bars);
    });
}
