//! The real worker and engine in a simulated world: log, group, producer, destinations, clocks and
//! network follow one seed, and the guarantees of `docs/guarantees.md` are checked at every step.
//! No threads, no sleeping, no clock: the same seed is always the same run.
//!
//! ```text
//! cargo test --release --test simulation                                # what `make test` runs
//! SIMULATION_SEEDS=1000000 cargo test --release --test simulation seeds_keep # more seeds
//! SIMULATION_SEED=42 cargo test --release --test simulation seeds_keep -- --nocapture
//! ```

#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

mod checks;
mod client;
mod fetch;
mod group;
mod ledger;
mod log;
mod plan;
mod port;
mod produce;
mod record;
mod scenario;
mod simulation;
mod transaction;
mod world;

use std::time::Instant;

use scenario::Scenario;
use simulation::{Outcome, Reports, run};

/// Seeds in the normal test command.
const SEEDS: u64 = 3_000;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Runs `seed` and panics with the command that replays it if a guarantee breaks.
fn check(seed: u64, reports: &Reports) -> Outcome {
    let outcome = run(seed, false, reports);
    if let Some(broken) = &outcome.violation {
        let trace = run(seed, true, reports).trace;
        let last = &trace[trace.len().saturating_sub(60)..];
        panic!(
            "{}\nseed {seed} breaks {}: {}\nreplay: SIMULATION_SEED={seed} cargo test --release \
             --test simulation seeds_keep -- --nocapture",
            last.join("\n"),
            broken.guarantee,
            broken.text,
        );
    }
    outcome
}

/// Panics of a worker are findings, not output.
fn quietly() {
    std::panic::set_hook(Box::new(|panic| {
        let inside = panic.location().is_some_and(|at| at.file().starts_with("src/"));
        if !inside {
            eprintln!("{panic}");
        }
    }));
}

#[test]
fn seeds_that_once_found_something_keep_the_guarantees() {
    quietly();
    let reports = Reports::new();
    for line in include_str!("seeds.txt").lines() {
        let number = line.split('#').next().unwrap().trim();
        if !number.is_empty() {
            check(number.parse().unwrap(), &reports);
        }
    }
}

/// Prints every step of one seed.
fn replay(seed: u64, reports: &Reports) {
    let scenario = Scenario::new(seed);
    let outcome = run(seed, true, reports);
    println!("{scenario:#?}\nfaults: {:?}\n{}", scenario.faults(), outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None, "seed {seed}");
}

#[test]
fn seeds_keep_the_guarantees() {
    quietly();
    let reports = Reports::new();
    if let Some(seed) = variable("SIMULATION_SEED") {
        replay(seed, &reports);
        return;
    }
    let first = variable("SIMULATION_FROM").unwrap_or(0);
    let count = variable("SIMULATION_SEEDS").unwrap_or(SEEDS);
    let begin = Instant::now();
    let (mut passes, mut records, mut repeated, mut simulated_ms) = (0, 0, 0, 0);
    for seed in first..first + count {
        let outcome = check(seed, &reports);
        passes += outcome.passes;
        records += outcome.records;
        repeated += outcome.repeated;
        simulated_ms += outcome.simulated_ms;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{count} seeds, {:.0} a second: {records} records, {repeated} repeated, {passes} passes, \
         {:.1} days simulated",
        count as f64 / seconds,
        simulated_ms as f64 / 86_400_000.0,
    );
}

#[test]
fn the_same_seed_is_the_same_run() {
    quietly();
    let reports = Reports::new();
    for seed in 0..20 {
        let (first, second) = (run(seed, true, &reports), run(seed, true, &reports));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert!(first.trace.len() > 20, "seed {seed}");
    }
}
