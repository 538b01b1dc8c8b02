//! Pure engine.
mod destination;
mod level;
mod reject;

pub use destination::{DestinationPolicy, TopicPattern, is_legal_topic_name};
pub use level::{Level, LevelTable, LevelTableError};
pub use reject::{RejectReason, Rejection};
