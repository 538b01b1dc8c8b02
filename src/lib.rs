//! kafka-delay: delayed messages for Apache Kafka.

pub mod cli;
pub mod config;
pub mod engine;
