//! Daemons that die, leave, join and freeze.

use std::time::Duration;

use super::scene::{Bars, DEADLINE, PROMPT, Repeats, SESSION, Scene, chance, millis};
use super::{Form, Guarantee, play};
use crate::support::{Fault, eventually, now_ms, shared};

#[test]
fn a_daemon_that_is_killed_again_and_again_loses_nothing() {
    play(|form, guarantee| {
        let window = form.seconds(12, 75);
        let mut scene = Scene::new(&shared().client(), "kill -9", (form, guarantee), window);
        scene.enlist(1);
        scene.load();
        scene.wait_for(0.0);
        for _ in 0..form.pick(2, 10) {
            // The moment is what the scenario is about.
            std::thread::sleep(Duration::from_millis(2_000 + chance(6_000)));
            let start_ms = now_ms();
            scene.crew.kill(0);
            // Nobody commits until the next one runs.
            let committed = scene.stage.committed();
            scene.crew.start(0);
            scene.faults.push(Fault { start_ms, end_ms: now_ms(), committed });
        }
        scene.finish(&Bars::new(Repeats::Uncommitted).after_a_session());
    });
}

#[test]
fn three_daemons_that_are_restarted_in_turn_repeat_nothing() {
    play(|form, guarantee| {
        let window = form.seconds(10, 60);
        let mut scene =
            Scene::new(&shared().client(), "rolling restart", (form, guarantee), window);
        scene.enlist(3);
        scene.load();
        scene.wait_for(0.0);
        for turn in 0..form.pick(3, 10) {
            let member = turn % 3;
            scene.crew.terminate(member, DEADLINE);
            scene.crew.start(member);
            scene.crew.wait_ready(member);
        }
        // No fault: nothing is late at any time.
        scene.finish(&Bars::new(Repeats::Never));
    });
}

#[test]
fn members_that_join_every_two_seconds_and_leave_repeat_nothing() {
    play(|form, guarantee| {
        let window = form.seconds(10, 60);
        let mut scene = Scene::new(&shared().client(), "join and leave", (form, guarantee), window);
        scene.enlist(1);
        scene.load();
        scene.wait_for(0.0);
        for _ in 0..form.pick(1, 2) {
            for _ in 0..form.pick(2, 5) {
                scene.join();
                std::thread::sleep(Duration::from_secs(2));
            }
            while let [oldest, _, ..] = scene.crew.running()[..] {
                // Whether it has joined or not: it may leave at any moment.
                scene.crew.terminate(oldest, DEADLINE);
                std::thread::sleep(Duration::from_secs(2));
            }
        }
        scene.finish(&Bars::new(Repeats::Never));
    });
}

#[test]
fn a_daemon_that_was_frozen_for_longer_than_its_session_forwards_no_more_than_it_had_in_hand() {
    play(frozen);
}

fn frozen(form: Form, guarantee: Guarantee) {
    let window = form.seconds(20, 60);
    let mut scene = Scene::new(&shared().client(), "SIGSTOP", (form, guarantee), window);
    scene.enlist(2);
    scene.load();
    scene.wait_for(0.05);
    for turn in 0..form.pick(1, 2) {
        let (frozen, other) = (scene.crew.daemon(turn % 2), scene.crew.daemon((turn + 1) % 2));
        let frozen_at = now_ms();
        let all = usize::try_from(scene.stage.partitions).unwrap();
        scene.fault(|scene| {
            frozen.freeze();
            scene.stage.wait_shares(&[&other], &[all], DEADLINE);
        });
        let taken_over_ms = now_ms() - frozen_at;
        println!("taken over {taken_over_ms} ms after SIGSTOP");
        if form == Form::Long {
            assert!(taken_over_ms <= millis(SESSION + PROMPT), "taken over in {taken_over_ms} ms");
        }
        std::thread::sleep(Duration::from_secs(3));
        scene.fault(|scene| {
            frozen.signal(libc::SIGCONT);
            eventually(DEADLINE, || {
                let has = |daemon: &crate::support::Daemon| {
                    daemon.metric("kafka_delay_assigned_partitions", &[]).ok_or("no metrics")
                };
                let shares = [has(&frozen)?, has(&other)?];
                let half = f64::from(scene.stage.partitions) / 2.0;
                if shares == [half, half] { Ok(()) } else { Err("not shared yet") }
            });
        });
    }
    scene.finish(&Bars::new(Repeats::Uncommitted));
}
