//! First figures on a real Kafka: how late, how fast, how large, how idle.
//!
//! `cargo bench --bench figures` prints all of them; `-- lateness`, `-- drain` or `-- idle` one.
//! Each figure stands beside its floor, taken in the same run on the same broker: machines are
//! noisy, so read ratios, and repeat.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a benchmark"
)]

mod drain;
mod idle;
mod lateness;
#[path = "../../tests/support/mod.rs"]
mod support;

/// Values of `forward.guarantee`.
const GUARANTEES: [&str; 2] = ["at_least_once", "exactly_once"];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|argument| argument == name);
    if runs("lateness") {
        lateness::run();
    }
    if runs("drain") {
        drain::run();
    }
    if runs("idle") {
        idle::run();
    }
}
