//! Tests against a real Apache Kafka, one module a subject. See `tests/support` for how they run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;

mod dead_letters;
mod faults;
mod fixture;
mod forwarding;
mod guards;
mod lifecycle;
mod poison;
mod rebalance;
mod rig;
mod security;
mod watch;
