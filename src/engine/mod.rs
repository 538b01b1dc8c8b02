//! The pure core: decides which record is forwarded when, and which offset may be committed.
//!
//! No clock, no I/O, no async, no logging: `now` is an argument, decisions are returned as
//! [`Action`]s, and [`Engine::next_wakeup`] says when to call next.
//!
//! What it guarantees (docs/guarantees.md has the precision of each):
//! - **G1 never early**: a record is handed on only when `due <= now`, which
//!   [`Lane::take_head`] asserts.
//! - **G2 never lost**: only the contiguous settled prefix is committed ([`Window`]).
//! - **G3 order**: a lane hands on its records in offset order; a destination in trouble keeps them
//!   in the order in which they were handed on.
//! - **G4 progress**: a lane waits only for its own head, for room, or for its own halt.
//! - **G5 fencing**: tickets carry the epoch of the assignment; a draining lane sends nothing.
//! - **G6 no poison**: what cannot be forwarded goes to the dead-letter topic.
//! - **G7 bounded**: [`lane::MAX_WINDOW_RECORDS`], the in-flight limits, and the limits of
//!   [`destinations`].
//! - **G8 atomic** (exactly once): what an open transaction delivered is settled with its commit,
//!   and sent anew, in order, after its abort (`transaction.rs`).
//!
//! Reading order: [`time`], [`lane`], [`offsets`], [`destinations`], [`engine`].

mod action;
mod arrivals;
pub mod commit;
mod destination;
pub mod destinations;
#[allow(clippy::module_inception, reason = "the type the module is named for")]
pub mod engine;
pub mod entry;
pub mod envelope;
mod isolation;
pub mod lane;
mod level;
pub mod offsets;
mod record;
mod reject;
mod settlement;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod time;
mod transaction;
mod waiting;

pub use action::{Action, Form, Notice, Outgoing, Refusal, Ticket};
pub use commit::{Ahead, Commit};
pub use destination::{DestinationPolicy, TopicPattern, is_legal_topic_name};
pub use destinations::{DestinationId, RetryPolicy};
pub use engine::{Engine, EngineConfig};
pub use envelope::{CONTROL_HEADERS, KeySource, ORIGIN_KEY, ORIGIN_TOPIC};
pub use isolation::Trouble;
pub use lane::{Lane, Offered, Phase};
pub use level::{Level, LevelTable, LevelTableError};
pub use offsets::Window;
pub use record::{HeaderVisitor, Record};
pub use reject::{RejectReason, Rejection};
pub use time::{Now, TimestampQuality, Wakeup};
pub use waiting::Wait;
