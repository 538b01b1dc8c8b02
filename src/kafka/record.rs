//! A record of the delay topic as the engine sees it.

use std::ffi::CStr;

use rdkafka::message::{BorrowedHeaders, BorrowedMessage, OwnedHeaders, OwnedMessage};
use rdkafka::{Message, Timestamp};

use super::raw;
use crate::engine::{HeaderVisitor, ORIGIN_KEY, Record};

/// Header names and values in order.
pub type HeaderList = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A record, in the consumer's buffer or copied out of it.
///
/// A record in the buffer pins the whole fetch response it came with, which is fine for the
/// milliseconds until its acknowledgement; one that waits for longer is copied.
#[derive(Debug)]
pub enum KafkaRecord<'q> {
    /// In the consumer's buffer.
    Buffered(BorrowedMessage<'q>),
    /// Copied.
    Copied(Box<OwnedMessage>),
}

impl KafkaRecord<'_> {
    /// The key.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Buffered(message) => message.key(),
            Self::Copied(message) => message.key(),
        }
    }

    /// The value.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Buffered(message) => message.payload(),
            Self::Copied(message) => message.payload(),
        }
    }

    /// A copy of the headers without those called one of `names`.
    pub(super) fn headers_without(&self, names: &[&CStr]) -> OwnedHeaders {
        let mut headers = self.headers().map_or_else(OwnedHeaders::new, BorrowedHeaders::detach);
        for name in names {
            raw::remove(&mut headers, name);
        }
        headers
    }

    /// The value of the last `origin_key` header.
    pub(super) fn origin_key(&self) -> Option<Vec<u8>> {
        let mut key = None;
        self.visit_headers(&mut |name, value| {
            if name == ORIGIN_KEY.as_bytes() {
                key = value.map(<[u8]>::to_vec);
            }
        });
        key
    }

    /// All headers.
    pub fn header_list(&self) -> HeaderList {
        let mut list = HeaderList::new();
        self.visit_headers(&mut |name, value| {
            list.push((name.to_vec(), value.map(<[u8]>::to_vec)));
        });
        list
    }

    fn headers(&self) -> Option<&BorrowedHeaders> {
        match self {
            Self::Buffered(message) => message.headers(),
            Self::Copied(message) => message.headers().map(OwnedHeaders::as_borrowed),
        }
    }
}

impl Record for KafkaRecord<'_> {
    fn offset(&self) -> i64 {
        match self {
            Self::Buffered(message) => message.offset(),
            Self::Copied(message) => message.offset(),
        }
    }

    fn timestamp_ms(&self) -> Option<i64> {
        let timestamp = match self {
            Self::Buffered(message) => message.timestamp(),
            Self::Copied(message) => message.timestamp(),
        };
        match timestamp {
            Timestamp::NotAvailable => None,
            Timestamp::CreateTime(millis) | Timestamp::LogAppendTime(millis) => Some(millis),
        }
    }

    fn size_bytes(&self) -> usize {
        let mut size = self.key().map_or(0, <[u8]>::len) + self.value().map_or(0, <[u8]>::len);
        self.visit_headers(&mut |name, value| size += name.len() + value.map_or(0, <[u8]>::len));
        size
    }

    fn visit_headers(&self, visit: &mut HeaderVisitor<'_>) {
        if let Some(headers) = self.headers() {
            raw::visit(headers, visit);
        }
    }

    fn detach(&mut self) {
        if let Self::Buffered(message) = self {
            *self = Self::Copied(Box::new(message.detach()));
        }
    }
}
