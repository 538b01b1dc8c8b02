//! A record that was handed on: where it is going, and how far it has come.

use super::destinations::DestinationId;
use super::envelope::Envelope;
use super::reject::Rejection;

/// Where a record that was handed on is going.
#[derive(Debug, Clone)]
pub enum Target {
    /// To the topic its header names.
    Forward(Envelope),
    /// To the dead-letter topic.
    DeadLetter(Rejection),
}

/// How far a record that was handed on has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// With the producer, not acknowledged.
    Sent,
    /// Acknowledged; settled when its transaction is committed.
    Delivered,
    /// Its transaction is being aborted; it is sent anew in the next one.
    Undone,
    /// Waiting because its destination is in trouble, or because the clock was set back.
    Waiting,
    /// Refused, with nowhere to go: the lane halts, or the lane is draining.
    Stranded,
}

/// A record that was handed on and is not settled.
#[derive(Debug)]
pub struct Entry<R> {
    /// The record itself.
    pub record: R,
    /// The moment it was due.
    pub due_ms: i64,
    /// Its size as counted against the in-flight limit.
    pub size_bytes: usize,
    /// Position in the order in which all lanes handed on records.
    pub order: u64,
    /// Where it is going.
    pub target: Target,
    /// The destination in the engine's table.
    pub destination: DestinationId,
    /// How far it has come.
    pub progress: Progress,
}
