//! Tests against a real Apache Kafka, one module a subject. See `tests/support` for how they run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;

mod chaos;
mod dead_letters;
mod encryption;
mod exactly_once;
mod faults;
mod fixture;
mod forwarding;
mod guards;
mod http_abuse;
mod least_privilege;
mod lifecycle;
mod poison;
mod rebalance;
mod rig;
mod secrets;
mod secure;
mod security;
mod watch;
