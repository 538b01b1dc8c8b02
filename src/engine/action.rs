//! What the engine asks for, and what it is told in return.

use std::sync::Arc;

use super::destinations::DestinationId;
use super::envelope::KeySource;
use super::isolation::Trouble;
use super::reject::{RejectReason, Rejection};

/// Names one record that was handed on. Comes back with its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Assignment of that partition.
    pub epoch: u32,
    /// Position in the lane's window.
    pub index: u64,
    /// Where the record was sent.
    pub destination: DestinationId,
}

/// What the engine wants done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send the record; [`Engine::outgoing`] has what to send. Ends in [`Engine::settled`].
    Send(Ticket),
    /// Pause the partition with its next fetch at `offset`; confirm with [`Engine::parked`].
    Park {
        /// Partition of the delay topic.
        partition: i32,
        /// Offset of its head.
        offset: i64,
    },
    /// Fetch the partition again from `offset`; confirm with [`Engine::unparked`].
    Unpark {
        /// Partition of the delay topic.
        partition: i32,
        /// Offset of its head.
        offset: i64,
    },
}

/// A record to be sent.
#[derive(Debug)]
pub struct Outgoing<'a, R> {
    /// The record as read.
    pub record: &'a R,
    /// The topic it goes to.
    pub topic: &'a Arc<str>,
    /// When it was due.
    pub due_ms: i64,
    /// How it is sent.
    pub form: Form<'a>,
}

/// Whether a record is forwarded or dead-lettered.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// Key and partition as the control headers say, control headers stripped.
    Forward {
        /// Where the key comes from.
        key: KeySource,
        /// The partition asked for.
        partition: Option<i32>,
    },
    /// As it was, with headers that say why.
    DeadLetter {
        /// Why.
        rejection: &'a Rejection,
        /// Number of the level it waited in.
        level: u16,
    },
}

/// How a send ended when not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Tried again as the trouble's kind asks for.
    Trouble(Trouble),
    /// Never to be taken by this destination.
    Permanent(Rejection),
    /// Its transaction is being aborted, which says nothing about the destination.
    Undone,
}

/// Something worth counting or logging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A record reached its destination.
    Forwarded {
        /// Partition of the delay topic.
        partition: i32,
        /// When it was due.
        due_ms: i64,
        /// Key, value and header bytes.
        size_bytes: usize,
        /// Where it went.
        topic: Arc<str>,
    },
    /// A record reached the dead-letter topic.
    DeadLettered {
        /// Partition of the delay topic.
        partition: i32,
        /// Its offset there.
        offset: i64,
        /// Why.
        rejection: Rejection,
    },
    /// A record was discarded, as configured.
    Dropped {
        /// Partition of the delay topic.
        partition: i32,
        /// Its offset there.
        offset: i64,
        /// Why.
        rejection: Rejection,
    },
    /// A lane stopped: a record was refused and has nowhere to go.
    Halted {
        /// Partition of the delay topic.
        partition: i32,
        /// Offset of the record.
        offset: i64,
        /// Why it was refused.
        rejection: Rejection,
    },
    /// A destination refused a record that will be tried again.
    DestinationInTrouble {
        /// The topic.
        topic: Arc<str>,
        /// What kind of trouble.
        trouble: Trouble,
    },
    /// A destination takes records again.
    DestinationRecovered {
        /// The topic.
        topic: Arc<str>,
    },
}

impl Refusal {
    /// A permanent refusal for a cause without a reason of its own.
    pub fn produce_failed(detail: String) -> Self {
        Self::Permanent(Rejection::new(RejectReason::ProduceFailed, detail))
    }
}
