//! kafka-delay: delayed messages for Apache Kafka.

pub mod build_info;
pub mod clock;
pub mod config;
pub mod engine;
pub mod http;
pub mod kafka;
pub mod logging;
pub mod metrics;
pub mod status;
pub mod worker;
