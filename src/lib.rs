//! kafka-delay: delayed messages for Apache Kafka.

pub mod config;
pub mod engine;
