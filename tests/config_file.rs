//! `config.toml` at the root of the repository is the manual. These tests hold it to the code.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

use std::time::Duration;

use kafka_delay::config::{self, Config, Kind, Sources};

fn shipped() -> Sources {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    let text = std::fs::read_to_string(path).unwrap();
    Sources { file: Some((path.into(), text)), ..Sources::default() }
}

#[test]
fn the_shipped_file_loads_without_a_warning_and_says_what_an_empty_one_says() {
    let of_file = config::load(&shipped()).unwrap();
    let of_nothing = config::load(&Sources::default()).unwrap();
    assert_eq!(of_file.warnings, []);
    assert_eq!(of_file.sha256, of_nothing.sha256);
    assert_eq!(format!("{:?}", of_file.config), format!("{:?}", Config::default()));
}

#[test]
fn the_shipped_file_has_every_key() {
    let loaded = config::load(&shipped()).unwrap();
    let from_file = loaded
        .effective
        .iter()
        .filter(|setting| setting.origin.to_string().contains("config.toml:"))
        .count();
    let keys = config::keys().filter(|(_, kind, _)| **kind != Kind::Properties).count();
    assert_eq!(from_file, keys);
}

/// Defaults that promises elsewhere in the documentation rest on; a change must be deliberate.
#[test]
fn the_defaults_that_guarantees_rest_on_are_as_promised() {
    let config = Config::default();
    assert_eq!(config.delay.levels.count(), 18);
    assert_eq!(config.delay.levels.longest_ms(), 7_200_000);
    assert_eq!(config.source.topic, "delay_topic");
    assert_eq!(config.dead_letter.topic.as_deref(), Some("delay_topic_dlq"));
    assert!(matches!(config.dead_letter.on_failure, config::OnDeadLetterFailure::Halt));
    assert!(matches!(config.source.verify_topic, config::VerifyTopic::Strict));
    assert!(config.kafka.tls.verify_hostname && !config.kafka.tls.enabled);
    assert!(config.kafka.sasl.is_none());
    assert_eq!(config.shutdown.timeout, Duration::from_secs(45));
    assert_eq!(config.source.max_queued_bytes, 1024 * 1024);
}
