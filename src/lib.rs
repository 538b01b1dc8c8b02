//! kafka-delay: delayed messages for Apache Kafka.

pub mod clock;
pub mod config;
pub mod engine;
pub mod kafka;
