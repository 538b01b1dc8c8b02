//! A record of the simulated delay topic.

use std::rc::Rc;

use kafka_delay::engine::{HeaderVisitor, Record};

/// Index of a record in [`crate::ledger::Ledger`].
pub type RecordId = usize;

/// A record as the worker gets it.
#[derive(Debug, Clone)]
pub struct SimRecord(pub Rc<Content>);

/// What it holds.
#[derive(Debug)]
pub struct Content {
    pub id: RecordId,
    pub offset: i64,
    pub timestamp_ms: Option<i64>,
    pub headers: Vec<(&'static str, Option<Vec<u8>>)>,
    pub size: usize,
}

impl Record for SimRecord {
    fn offset(&self) -> i64 {
        self.0.offset
    }

    fn timestamp_ms(&self) -> Option<i64> {
        self.0.timestamp_ms
    }

    fn size_bytes(&self) -> usize {
        self.0.size
    }

    fn visit_headers(&self, visit: &mut HeaderVisitor<'_>) {
        for (name, value) in &self.0.headers {
            visit(name.as_bytes(), value.as_deref());
        }
    }
}
