//! Why a record cannot be forwarded.

use std::borrow::Cow;

/// The reasons of the wire contract; each is a value of the `kafka_delay_dlq_reason` header and of
/// the `reason` label of `kafka_delay_records_dead_lettered_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// No `origin_topic` header.
    MissingOriginTopic,
    /// An `origin_topic` header that is no topic name.
    InvalidOriginTopic,
    /// A destination that the allow and deny lists refuse.
    DeniedOriginTopic,
    /// A destination that does not exist.
    UnknownTopic,
    /// A destination that the daemon's user may not write to.
    Unauthorized,
    /// A record that the destination refuses for its size.
    TooLarge,
    /// An `origin_partition` header that is no partition of the destination.
    InvalidPartition,
    /// A destination that is the delay topic itself.
    Loop,
    /// Any other permanent refusal by the broker.
    ProduceFailed,
}

impl RejectReason {
    /// Every reason, in the order of the wire contract.
    pub const ALL: [Self; 9] = [
        Self::MissingOriginTopic,
        Self::InvalidOriginTopic,
        Self::DeniedOriginTopic,
        Self::UnknownTopic,
        Self::Unauthorized,
        Self::TooLarge,
        Self::InvalidPartition,
        Self::Loop,
        Self::ProduceFailed,
    ];

    /// The name used in headers, labels and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingOriginTopic => "missing_origin_topic",
            Self::InvalidOriginTopic => "invalid_origin_topic",
            Self::DeniedOriginTopic => "denied_origin_topic",
            Self::UnknownTopic => "unknown_topic",
            Self::Unauthorized => "unauthorized",
            Self::TooLarge => "too_large",
            Self::InvalidPartition => "invalid_partition",
            Self::Loop => "loop",
            Self::ProduceFailed => "produce_failed",
        }
    }
}

/// A reason with a sentence for the person who reads the dead-letter topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// What kind of refusal.
    pub reason: RejectReason,
    /// What exactly, and what to do about it.
    pub detail: Cow<'static, str>,
}

impl Rejection {
    /// A rejection with its explanation.
    pub fn new(reason: RejectReason, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, detail: detail.into() }
    }
}
