//! kafka-delay: delayed messages for Apache Kafka.

pub mod build_info;
pub mod config;
pub mod engine;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod status;
