//! A wall clock that is set while records wait. Debian's `faketime` stands between the daemon, and
//! nobody else, and its wall clock; the steady clock stays as it is. What `faketime` lacks is in
//! `tests/support/faketime`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::scene::{Bars, DEADLINE, PROMPT, QUIET, Repeats, Scene, millis};
use super::{Form, Guarantee, play};
use crate::support::{DaemonConfig, Fault, eventually, new_dir, now_ms, shared};

const STEPS: &str = "kafka_delay_clock_steps_total";

/// A daemon's wall clock.
struct WallClock {
    file: PathBuf,
}

impl WallClock {
    fn new() -> Self {
        let clock = Self { file: new_dir("clock").join("offset") };
        clock.set("+0");
        clock
    }

    /// Sets it apart from the clock of the machine: "+3600" seconds.
    fn set(&self, offset: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{offset}\n")).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    fn of(&self, config: DaemonConfig) -> DaemonConfig {
        let libraries = format!("{} {}", supplement().display(), library().display());
        config
            .variable("LD_PRELOAD", &libraries)
            .variable("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap())
            .variable("FAKETIME_NO_CACHE", "1")
            .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }
}

/// The library of threaded programs, below `/usr/lib` or `/usr/lib/<machine>`.
fn library() -> PathBuf {
    let below = |folder: &Path| folder.join("faketime/libfaketimeMT.so.1");
    let root = Path::new("/usr/lib");
    let machines = fs::read_dir(root).unwrap().flatten().map(|entry| below(&entry.path()));
    let found = machines.chain([below(root)]).find(|path| path.exists());
    found.expect("libfaketime is missing (Debian: apt-get install -y faketime)")
}

/// Compiles what goes before it.
fn supplement() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/faketime/cnd_timedwait.c");
    let library = new_dir("supplement").join("cnd_timedwait.so");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o"]);
    let output = compile.arg(&library).output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn a_clock_that_is_set_an_hour_back_and_an_hour_forward_is_followed_and_nothing_is_stuck() {
    play(stepped);
}

fn stepped(form: Form, guarantee: Guarantee) {
    let clock = WallClock::new();
    let window = form.seconds(20, 60);
    let mut scene = Scene::new(&shared().client(), "clock set", (form, guarantee), window)
        .configure(|config| clock.of(config));
    scene.enlist(1);
    scene.load();
    scene.wait_for(0.2);
    let daemon = scene.crew.daemon(0);
    scene.fault(|scene| {
        clock.set("-3600");
        daemon.wait_metric(STEPS, &[], 1.0, DEADLINE);
        // Of those written before. What is written now is from the future, and where nothing waits
        // before it, it goes one delay after it was seen.
        let loaded = form.pick(3_000, 75_000);
        let old = || scene.arrived().iter().filter(|arrival| arrival.id < loaded).count();
        // What was under way arrives.
        let before = eventually(DEADLINE, || {
            let before = old();
            std::thread::sleep(Duration::from_millis(500));
            if old() == before { Ok(before) } else { Err("records still arrive".to_owned()) }
        });
        std::thread::sleep(form.seconds(2, 8));
        assert_eq!(old(), before, "everything waits for the clock");
        clock.set("+0");
        daemon.wait_metric(STEPS, &[], 2.0, DEADLINE);
    });
    scene.wait_for(0.6);
    let start_ms = now_ms();
    clock.set("+3600");
    daemon.wait_metric(STEPS, &[], 3.0, DEADLINE);
    // By its clock all that waits is due.
    eventually(DEADLINE, || {
        let end = scene.stage.admin.watermarks(&scene.stage.delay_topic, QUIET).1;
        let committed = scene.stage.committed().get(&QUIET).copied();
        if committed == Some(end) { Ok(()) } else { Err(format!("{committed:?} of {end}")) }
    });
    let took_ms = now_ms() - start_ms;
    println!("an hour forward: all that waited was forwarded after {took_ms} ms");
    if form == Form::Long {
        assert!(took_ms <= millis(PROMPT), "{took_ms} ms");
    }
    std::thread::sleep(Duration::from_secs(2));
    clock.set("+0");
    daemon.wait_metric(STEPS, &[], 4.0, DEADLINE);
    let (committed, end_ms) = (scene.stage.committed(), now_ms());
    scene.faults.push(Fault { start_ms, end_ms, committed });
    scene.wait_for(1.0);
    assert_eq!(daemon.metric(STEPS, &[]), Some(4.0));
    assert!(daemon.log().contains("the wall clock was set"), "{}", daemon.log());
    scene.finish(&Bars { either_clock: true, ..Bars::new(Repeats::Never) });
}
