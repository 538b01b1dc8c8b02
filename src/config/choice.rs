//! The closed sets of words among the settings.

use super::kind::Choice;

/// How members of the consumer group agree on who reads which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The protocol every broker knows, with cooperative-sticky assignment.
    Classic,
    /// KIP-848: the broker assigns. Needs Kafka 4.0.
    Consumer,
}

impl Choice for GroupProtocol {
    const ALL: &'static [(&'static str, Self)] =
        &[("classic", Self::Classic), ("consumer", Self::Consumer)];
}

/// What to do when the committed offset no longer exists in the delay topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissingOffset {
    /// Go on with the oldest record there is; what was deleted is counted as lost.
    Earliest,
    /// Stop, so that a person looks first.
    Fail,
}

impl Choice for OnMissingOffset {
    const ALL: &'static [(&'static str, Self)] =
        &[("earliest", Self::Earliest), ("fail", Self::Fail)];
}

/// What to do when the settings of the delay topic put records at risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyTopic {
    /// Refuse to start.
    Strict,
    /// Start, and say so in the log.
    Warn,
    /// Do not look.
    Off,
}

impl Choice for VerifyTopic {
    const ALL: &'static [(&'static str, Self)] =
        &[("strict", Self::Strict), ("warn", Self::Warn), ("off", Self::Off)];
}

/// How often a record may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Committed after the acknowledgement: a crash repeats what was not committed.
    AtLeastOnce,
    /// Forwarded and committed in one transaction; for consumers that read committed records only.
    ExactlyOnce,
}

impl Choice for Guarantee {
    const ALL: &'static [(&'static str, Self)] =
        &[("at_least_once", Self::AtLeastOnce), ("exactly_once", Self::ExactlyOnce)];
}

/// The timestamp of a forwarded record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardTimestamp {
    /// The time of forwarding.
    Now,
    /// The timestamp of the record in the delay topic.
    Original,
}

impl Choice for ForwardTimestamp {
    const ALL: &'static [(&'static str, Self)] =
        &[("now", Self::Now), ("original", Self::Original)];
}

/// Compression of forwarded batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Choice for Compression {
    const ALL: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("gzip", Self::Gzip),
        ("snappy", Self::Snappy),
        ("lz4", Self::Lz4),
        ("zstd", Self::Zstd),
    ];
}

/// What to do with a record that neither its destination nor the dead-letter topic takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeadLetterFailure {
    /// The level waits and tries again; nothing is lost.
    Halt,
    /// The record is counted and gone.
    Drop,
}

impl Choice for OnDeadLetterFailure {
    const ALL: &'static [(&'static str, Self)] = &[("halt", Self::Halt), ("drop", Self::Drop)];
}

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Choice for LogFormat {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("text", Self::Text), ("json", Self::Json)];
}

/// How the daemon proves who it is. GSSAPI (Kerberos) is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// User name and password, readable by the broker.
    Plain,
    /// Salted challenge and response with SHA-256.
    ScramSha256,
    /// Salted challenge and response with SHA-512.
    ScramSha512,
    /// A token from an identity provider.
    OauthBearer,
}

impl Choice for SaslMechanism {
    const ALL: &'static [(&'static str, Self)] = &[
        ("PLAIN", Self::Plain),
        ("SCRAM-SHA-256", Self::ScramSha256),
        ("SCRAM-SHA-512", Self::ScramSha512),
        ("OAUTHBEARER", Self::OauthBearer),
    ];
}
