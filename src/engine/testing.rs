//! A record for the engine's own tests.

use super::record::{HeaderVisitor, Record};

/// Header names and values in order.
pub(crate) type TestHeaders = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A record in memory.
#[derive(Debug, Clone)]
pub(crate) struct TestRecord {
    /// Offset in its partition.
    pub(crate) offset: i64,
    /// Timestamp, milliseconds since the epoch.
    pub(crate) timestamp_ms: Option<i64>,
    /// Headers.
    pub(crate) headers: TestHeaders,
    /// Size for the in-flight limit.
    pub(crate) size_bytes: usize,
}

impl TestRecord {
    /// A record for topic `orders`.
    pub(crate) fn at(offset: i64, timestamp_ms: Option<i64>) -> Self {
        Self::to("orders", offset, timestamp_ms)
    }

    /// A record for `topic`.
    pub(crate) fn to(topic: &str, offset: i64, timestamp_ms: Option<i64>) -> Self {
        let headers = vec![(b"origin_topic".to_vec(), Some(topic.as_bytes().to_vec()))];
        Self { offset, timestamp_ms, headers, size_bytes: 100 }
    }
}

impl Record for TestRecord {
    fn offset(&self) -> i64 {
        self.offset
    }

    fn timestamp_ms(&self) -> Option<i64> {
        self.timestamp_ms
    }

    fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn visit_headers(&self, visit: &mut HeaderVisitor<'_>) {
        for (name, value) in &self.headers {
            visit(name, value.as_deref());
        }
    }
}
