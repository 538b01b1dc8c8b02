//! What the engine needs to know about a record; the kafka edge and the simulation implement it.

/// Takes the name and value of one header.
pub type HeaderVisitor<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// A record read from the delay topic.
pub trait Record {
    /// Its offset in the partition.
    fn offset(&self) -> i64;

    /// Its timestamp in milliseconds since the epoch; `None` when the log holds none.
    fn timestamp_ms(&self) -> Option<i64>;

    /// Key, value and header bytes, as counted against the in-flight limit.
    fn size_bytes(&self) -> usize;

    /// Calls `visit` with the name and value of every header, in order. Names need not be UTF-8.
    fn visit_headers(&self, visit: &mut HeaderVisitor<'_>);

    /// Called once when the record will be kept for seconds rather than milliseconds, so that it
    /// can let go of memory it shares with its neighbours.
    fn detach(&mut self) {}
}
