//! Headers with any bytes as name, which rdkafka's safe API neither writes nor reads.
#![allow(unsafe_code, reason = "rdkafka takes header names as &str and panics on others")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;

use rdkafka::bindings::{rd_kafka_header_add, rd_kafka_header_get_all, rd_kafka_headers_t};
use rdkafka::error::IsError;
use rdkafka::message::{BorrowedHeaders, Headers as _, OwnedHeaders};

use super::record::Header;

/// Headers to send.
pub fn to_native(headers: &[Header]) -> OwnedHeaders {
    let owned = OwnedHeaders::new_with_capacity(headers.len());
    let native = native(&owned);
    for (name, value) in headers {
        assert!(!name.contains(&0), "a header name with a zero byte cannot be read back");
        let (value_ptr, value_len) = match value {
            Some(value) => (value.as_ptr().cast::<c_void>(), value.len()),
            None => (ptr::null(), 0),
        };
        // SAFETY: `native` is alive and nobody else uses it; name and value are copied.
        let error = unsafe {
            let name_ptr = name.as_ptr().cast::<c_char>();
            rd_kafka_header_add(
                native,
                name_ptr,
                name.len().cast_signed(),
                value_ptr,
                value_len.cast_signed(),
            )
        };
        assert!(!error.is_error(), "rd_kafka_header_add: {error:?}");
    }
    owned
}

/// Headers of a message that was read.
pub fn from_native(headers: Option<&BorrowedHeaders>) -> Vec<Header> {
    let Some(headers) = headers else { return Vec::new() };
    let read = |index| {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: a `BorrowedHeaders` is the address of the native headers; what the call hands out
        // lives as long as they do, and is copied here.
        unsafe {
            let native = ptr::from_ref(headers).cast::<rd_kafka_headers_t>();
            let error = rd_kafka_header_get_all(native, index, &mut name, &mut value, &mut len);
            assert!(!error.is_error(), "rd_kafka_header_get_all: {error:?}");
            let bytes = (!value.is_null()).then(|| slice::from_raw_parts(value.cast::<u8>(), len));
            (CStr::from_ptr(name).to_bytes().to_vec(), bytes.map(<[u8]>::to_vec))
        }
    };
    (0..headers.count()).map(read).collect()
}

fn native(owned: &OwnedHeaders) -> *mut rd_kafka_headers_t {
    ptr::from_ref(owned.as_borrowed()).cast::<rd_kafka_headers_t>().cast_mut()
}
