//! What rust-rdkafka's safe API cannot do: headers whose names are not UTF-8 (its iterator panics
//! on them), changing a copied header list in place, commits that report their end, metadata of
//! commits that others wrote, and who we are in the group. And the end of a process that has
//! threads of librdkafka.
//!
//! [`BorrowedHeaders`] is a zero-sized type whose address *is* librdkafka's handle, and
//! [`OwnedHeaders::as_borrowed`] gives it; both are how rust-rdkafka 0.39 itself passes headers.

#![allow(unsafe_code, reason = "the one module that calls librdkafka directly")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use rdkafka::TopicPartitionList;
use rdkafka::bindings as sys;
use rdkafka::client::OAuthToken;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, OwnedHeaders};
use rdkafka::types::{RDKafka, RDKafkaErrorCode as Code, RDKafkaRespErr};

use crate::engine::HeaderVisitor;

fn handle(headers: &BorrowedHeaders) -> *mut sys::rd_kafka_headers_t {
    ptr::from_ref(headers).cast_mut().cast()
}

/// Ends the process at once, without the exit handlers of C libraries: OpenSSL's would take away
/// what threads of librdkafka still use, which can outlive every handle (SIGSEGV in a clean stop).
pub fn end_process(code: u8) -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Whether a broker may have written a message that was not delivered.
pub(super) fn may_be_written(message: &BorrowedMessage<'_>) -> bool {
    // SAFETY: the message lives as long as the borrow; librdkafka only reads it.
    let status = unsafe { sys::rd_kafka_message_status(message.ptr()) };
    status != sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED
}

/// Calls `visit` with name and value of every header, in order.
///
/// librdkafka hands out names as C strings: one with a NUL inside is shown up to the NUL. It is
/// still forwarded whole, since header lists are copied by librdkafka itself.
pub(super) fn visit(headers: &BorrowedHeaders, visit: &mut HeaderVisitor<'_>) {
    let handle = handle(headers);
    for index in 0.. {
        let mut name: *const c_char = ptr::null();
        let mut value: *const c_void = ptr::null();
        let mut size = 0;
        // SAFETY: the handle lives as long as `headers`; the out pointers are valid; librdkafka
        // only reads the list.
        let error = unsafe {
            sys::rd_kafka_header_get_all(handle, index, &mut name, &mut value, &mut size)
        };
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            break;
        }
        // SAFETY: on success `name` is a NUL-terminated string inside the list.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let value = if value.is_null() {
            None
        } else {
            // SAFETY: on success a value that is not null points to `size` bytes inside the list.
            Some(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) })
        };
        visit(name, value);
    }
}

/// Removes every header called `name`; the order of the others stays.
pub(super) fn remove(headers: &mut OwnedHeaders, name: &CStr) {
    // SAFETY: an owned list is writable and nobody else has its handle while we borrow it mutably.
    // "No such header" is the only error and fine.
    unsafe { sys::rd_kafka_header_remove(handle(headers.as_borrowed()), name.as_ptr()) };
}

/// Appends a header whose name may be any bytes.
pub(super) fn append(headers: &mut OwnedHeaders, name: &[u8], value: Option<&[u8]>) {
    let name_size = isize::try_from(name.len()).expect("a slice is at most isize::MAX");
    let (value, value_size) = match value {
        None => (ptr::null(), 0),
        Some(value) => {
            let size = isize::try_from(value.len()).expect("a slice is at most isize::MAX");
            (value.as_ptr().cast::<c_void>(), size)
        }
    };
    // SAFETY: the list is writable (see `remove`); librdkafka copies name and value.
    unsafe {
        sys::rd_kafka_header_add(
            handle(headers.as_borrowed()),
            name.as_ptr().cast(),
            name_size,
            value,
            value_size,
        );
    }
}

/// Starts a commit of `offsets` whose result arrives at the consumer's queue, and so at
/// `ConsumerContext::commit_callback`. The safe asynchronous commit never calls that: librdkafka
/// reports its result only to a C callback, which rust-rdkafka does not set.
pub(super) fn commit(client: *mut RDKafka, offsets: &TopicPartitionList) -> Result<(), Code> {
    // SAFETY: the client is alive; librdkafka copies the list and counts its own reference to the
    // queue; without a callback the result becomes an event.
    let error = unsafe {
        let queue = sys::rd_kafka_queue_get_consumer(client);
        let error = sys::rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut());
        sys::rd_kafka_queue_destroy(queue);
        error
    };
    match error {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        error => Err(error.into()),
    }
}

/// Whether the consumer has a member id and a generation of its group. A member that was thrown out
/// has lost one or both; the broker takes a transaction's offsets from a client without either
/// unchecked, as from one that is in no group.
pub(super) fn is_member(client: *mut RDKafka) -> bool {
    // SAFETY: the client is alive; the metadata is ours until it is destroyed, and so is the
    // member id in it, a NUL-terminated string.
    unsafe {
        let group = sys::rd_kafka_consumer_group_metadata(client);
        if group.is_null() {
            return false;
        }
        let member = sys::rd_kafka_consumer_group_metadata_member_id(group);
        let named = !member.is_null() && !CStr::from_ptr(member).is_empty();
        let generation = sys::rd_kafka_consumer_group_metadata_generation_id(group);
        sys::rd_kafka_consumer_group_metadata_destroy(group);
        named && generation >= 0
    }
}

/// The metadata of `partition` in an answer with committed offsets; empty without any. Any tool may
/// have written it, and rust-rdkafka panics where it is not UTF-8.
pub(super) fn metadata(list: &TopicPartitionList, partition: i32) -> Vec<u8> {
    // SAFETY: the list is alive and nobody changes it while we borrow it; `elems` has `cnt`
    // elements; metadata that is not null points to `metadata_size` bytes of the element.
    unsafe {
        let list = &*list.ptr();
        let count = usize::try_from(list.cnt).unwrap_or(0);
        if list.elems.is_null() {
            return Vec::new();
        }
        let elements = std::slice::from_raw_parts(list.elems, count);
        let element = elements.iter().find(|element| element.partition == partition);
        match element.filter(|element| !element.metadata.is_null()) {
            None => Vec::new(),
            Some(element) => {
                let start = element.metadata.cast::<u8>();
                std::slice::from_raw_parts(start, element.metadata_size).to_vec()
            }
        }
    }
}

/// Gives a client its OAUTHBEARER token. A token with a NUL inside, or one that librdkafka refuses,
/// is left out: connecting then fails and says so.
pub(super) fn set_token(client: *mut RDKafka, token: &OAuthToken) {
    let (Ok(value), Ok(principal)) =
        (CString::new(token.token.as_str()), CString::new(token.principal_name.as_str()))
    else {
        return;
    };
    let mut reason = [0 as c_char; 256];
    // SAFETY: the client is alive; the strings are NUL-terminated and copied by librdkafka; no
    // extensions are passed; `reason` is writable for its stated size.
    unsafe {
        sys::rd_kafka_oauthbearer_set_token(
            client,
            value.as_ptr(),
            token.lifetime_ms,
            principal.as_ptr(),
            ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(headers: &OwnedHeaders) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        visit(headers.as_borrowed(), &mut |name, value| {
            found.push((name.to_vec(), value.map(<[u8]>::to_vec)));
        });
        found
    }

    #[test]
    fn any_bytes_survive_and_order_stays_when_a_name_is_removed() {
        let entries: [(&[u8], Option<&[u8]>); 6] = [
            (b"a", Some(b"1")),
            (b"\xff\xfe", Some(b"\x00\xff")),
            (b"origin_topic", Some(b"orders")),
            (b"a", None),
            (b"", Some(b"")),
            (b"origin_topic", None),
        ];
        let mut headers = OwnedHeaders::new();
        for (name, value) in entries {
            append(&mut headers, name, value);
        }
        remove(&mut headers, c"origin_topic");
        remove(&mut headers, c"absent");
        let kept: Vec<_> = entries
            .iter()
            .filter(|(name, _)| *name != b"origin_topic")
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        assert_eq!(list(&headers), kept);
    }
}
