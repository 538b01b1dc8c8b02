//! The real daemon on librdkafka's mock broker, inside the test process: what cannot be provoked on
//! a real Kafka at will, above all errors of single requests. Nothing needs to be installed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

mod fatal;
mod faults;
mod harness;
