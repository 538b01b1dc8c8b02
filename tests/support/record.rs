//! Records as a test writes and reads them: bytes only, and null is not empty.

/// Name and value of a header. The name need not be UTF-8, but cannot contain a zero byte
/// (librdkafka hands names out as C strings).
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// `None`: by the key.
    pub partition: Option<i32>,
    /// `None` and 0: now (librdkafka takes 0 for "now").
    pub timestamp: Option<i64>,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
    /// Headers in order; names may repeat.
    pub headers: Vec<Header>,
}

impl Record {
    /// A record with this value.
    pub fn new(value: impl AsRef<[u8]>) -> Self {
        Self { value: Some(value.as_ref().to_vec()), ..Self::default() }
    }

    /// A record without a value.
    pub fn tombstone() -> Self {
        Self::default()
    }

    /// Into this partition.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// With this timestamp, in milliseconds.
    pub fn timestamp(mut self, timestamp_ms: i64) -> Self {
        self.timestamp = Some(timestamp_ms);
        self
    }

    /// With this key.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.key = Some(key.as_ref().to_vec());
        self
    }

    /// One more header.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_vec(), Some(value.as_ref().to_vec())));
        self
    }

    /// One more header, with a null value.
    pub fn null_header(mut self, name: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_vec(), None));
        self
    }

    /// Short for `header("origin_topic", topic)`.
    pub fn to(self, topic: &str) -> Self {
        self.header("origin_topic", topic)
    }
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Milliseconds; -1 when the record has none.
    pub timestamp: i64,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// When the test got it, in milliseconds; a few after it became visible.
    pub seen_at: i64,
}

impl Seen {
    /// The value as text; "" when null.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    /// The last header of that name: `None` absent, `Some(None)` null.
    pub fn header(&self, name: &str) -> Option<Option<&[u8]>> {
        let header = self.headers.iter().rev().find(|(other, _)| other == name.as_bytes());
        header.map(|(_, value)| value.as_deref())
    }

    /// The last header of that name as text; panics when it is absent.
    #[track_caller]
    pub fn header_text(&self, name: &str) -> String {
        let value = self.header(name).unwrap_or_else(|| panic!("no header {name} in {self:?}"));
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    }
}
