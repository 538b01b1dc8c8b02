//! kafka-delay: delayed messages for Apache Kafka.
//!
//! Producers write to `delay_topic`, into the partition of the delay they want; the daemon holds
//! each record until its delay has passed and forwards it to the topic that its `origin_topic`
//! header names. State lives in Kafka alone.
//!
//! Modules, in the order in which dependencies point:
//!
//! ```text
//! main -> cli -> app -> config, http, worker -> kafka -> engine
//!                 status, metrics, logging, clock, build_info: leaves that any of them may use
//! ```
//!
//! Read [`engine`] first (what is decided, and which guarantees hold), then [`worker`] (the loop),
//! then [`kafka`] (the edge), then [`app`] (how it is put together).

pub mod app;
pub mod build_info;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod http;
pub mod kafka;
pub mod logging;
pub mod metrics;
pub mod shutdown;
pub mod status;
pub mod worker;
