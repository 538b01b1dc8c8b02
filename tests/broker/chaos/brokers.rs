//! Brokers that die and come back, and partitions whose leaders move. Beside the daemon a bare
//! producer shows what the fault costs anybody.

use std::time::Duration;

use serde_json::json;

use super::scene::{Bars, DEADLINE, Repeats, Scene};
use super::{Form, Guarantee, play};
use crate::support::{Cluster, Options, Pulse, eventually, heavy, java, new_dir, unique};

/// Partitions of the bare producer's topic: as many as of the destination.
const PARTITIONS: i32 = 3;

/// Topics and a daemon on a cluster that is about to be broken, and the bare producer.
fn scene(
    cluster: &Cluster,
    name: &'static str,
    play: (Form, Guarantee),
    window: Duration,
) -> (Scene, Pulse) {
    let scene = Scene::new(&cluster.client(), name, play, window)
        // Longer than the outage, also on a busy machine. Whoever has lost its partitions forwards
        // again what it had sent, and waits until the group has dropped the one it was before.
        .configure(|config| config.set("source.session_timeout", "2m"));
    let topic = unique("pulse");
    scene.stage.admin.create_topic(&topic, PARTITIONS);
    scene.enlist(1);
    let pulse = Pulse::start(&cluster.client(), &topic, PARTITIONS);
    (scene, pulse)
}

fn bars(pulse: Pulse) -> Bars {
    Bars { bare: Some(pulse.stop()), ..Bars::new(Repeats::Uncommitted) }
}

#[test]
fn a_single_broker_that_dies_and_comes_back_loses_nothing() {
    play(|form, guarantee| {
        let permit = heavy();
        let cluster = Options::one_node().start(&permit);
        let window = form.seconds(12, 45);
        let (mut scene, pulse) = scene(&cluster, "broker killed", (form, guarantee), window);
        scene.load();
        scene.wait_for(0.2);
        scene.fault(|_| {
            cluster.node(0).kill();
            std::thread::sleep(form.seconds(4, 10));
            cluster.restart(0);
        });
        scene.wait_for(1.0);
        scene.finish(&bars(pulse));
    });
}

#[test]
fn three_brokers_that_are_restarted_in_turn_lose_nothing() {
    play(|form, guarantee| {
        let permit = heavy();
        let cluster = Options::three_nodes().start(&permit);
        let window = form.seconds(20, 90);
        let (mut scene, pulse) = scene(&cluster, "rolling brokers", (form, guarantee), window);
        scene.load();
        scene.wait_for(0.05);
        for kill in &[false, true][..form.pick(1, 2)] {
            for node in 0..3 {
                scene.fault(|_| {
                    let broker = cluster.node(node);
                    if *kill {
                        broker.kill()
                    } else {
                        broker.terminate()
                    }
                    cluster.restart(node);
                    cluster.wait_in_sync();
                });
            }
        }
        scene.wait_for(1.0);
        scene.finish(&bars(pulse));
    });
}

#[test]
fn leaders_that_move_cost_nothing() {
    play(|form, guarantee| {
        let permit = heavy();
        let cluster = Options::three_nodes().start(&permit);
        let window = form.seconds(20, 60);
        let (mut scene, pulse) = scene(&cluster, "leaders move", (form, guarantee), window);
        scene.load();
        scene.wait_for(0.05);
        for _ in 0..form.pick(2, 6) {
            scene.fault(|scene| move_leaders(&cluster, scene));
        }
        scene.wait_for(1.0);
        scene.finish(&bars(pulse));
    });
}

/// Another broker becomes the preferred leader of every partition, and then the leader; of the
/// commits of the group too.
fn move_leaders(cluster: &Cluster, scene: &Scene) {
    let admin = &scene.stage.admin;
    let dlq = format!("{}_dlq", scene.stage.delay_topic);
    let topics = [
        (scene.stage.delay_topic.as_str(), scene.stage.partitions),
        (&scene.stage.destination, PARTITIONS),
        (&dlq, 1),
        ("__consumer_offsets", 4),
    ];
    let mut plan = Vec::new();
    let mut leaders = Vec::new();
    for (topic, count) in topics {
        for partition in 0..count {
            let leader = admin.leader(topic, partition);
            // Of 1, 2, 3 the present leader is the last one.
            let replicas = [1, 2, 3].map(|place| (leader - 1 + place) % 3 + 1);
            plan.push(json!({"topic": topic, "partition": partition, "replicas": replicas}));
            leaders.push((topic, partition, replicas[0]));
        }
    }
    let file = new_dir("reassignment").join("plan.json");
    std::fs::write(&file, json!({"version": 1, "partitions": plan}).to_string()).unwrap();
    let (file, bootstrap) = (file.to_str().unwrap(), cluster.bootstrap());
    let reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    let order = ["--reassignment-json-file", file, "--execute"];
    java::run_tool(reassign, &[&["--bootstrap-server", &bootstrap], &order[..]].concat());
    let elect = "org.apache.kafka.tools.LeaderElectionCommand";
    let order = ["--election-type", "preferred", "--all-topic-partitions"];
    java::run_tool(elect, &[&["--bootstrap-server", &bootstrap], &order[..]].concat());
    for (topic, partition, leader) in leaders {
        eventually(DEADLINE, || match admin.leader(topic, partition) {
            found if found == leader => Ok(()),
            found => Err(format!("{topic}-{partition} is led by {found}, not yet by {leader}")),
        });
    }
}
