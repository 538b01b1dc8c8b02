//! Chaos: whatever breaks, each record comes out once it is due, and the accounts are exact.
//!
//! Each scenario loads the delay topic with records that come due one after another, breaks
//! something meanwhile, and compares every record sent with every record that a `read_committed`
//! reader saw. The short form is `make chaos-short`; `CHAOS=long` (`make chaos`) has
//! 75 000 records, more faults, and limits on time. See `docs/testing.md`.

mod brokers;
mod clock;
mod daemons;
mod report;
mod scene;
mod topics;

use std::time::Duration;

/// How much of it. Times are asserted in the long form only: a busy machine would break them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

impl Form {
    /// As the environment says.
    #[track_caller]
    fn of_this_run() -> Self {
        match std::env::var("CHAOS").as_deref() {
            Err(_) | Ok("short") => Self::Short,
            Ok("long") => Self::Long,
            Ok(other) => panic!("CHAOS is short or long, not {other:?}"),
        }
    }

    fn name(self) -> &'static str {
        self.pick("short", "long")
    }

    /// One value for each form.
    fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }

    /// Seconds in each form.
    fn seconds(self, short: u64, long: u64) -> Duration {
        Duration::from_secs(self.pick(short, long))
    }
}

/// What the daemons promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guarantee {
    AtLeastOnce,
    ExactlyOnce,
}

impl Guarantee {
    fn name(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

const GUARANTEES: [Guarantee; 2] = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];

/// Runs a scenario in the form of this run: with each guarantee, or with the one that
/// `CHAOS_GUARANTEE` names.
#[track_caller]
fn play(scenario: impl Fn(Form, Guarantee)) {
    let only = std::env::var("CHAOS_GUARANTEE").ok();
    let meant = |guarantee: &Guarantee| only.as_deref().is_none_or(|name| name == guarantee.name());
    let guarantees: Vec<Guarantee> = GUARANTEES.into_iter().filter(meant).collect();
    assert!(!guarantees.is_empty(), "CHAOS_GUARANTEE names no guarantee: {only:?}");
    guarantees.into_iter().for_each(|guarantee| scenario(Form::of_this_run(), guarantee));
}
