//! Access control lists, through librdkafka's admin calls (rdkafka has no safe ones).
#![allow(unsafe_code, reason = "rdkafka's AdminClient cannot create access control lists")]

use std::ffi::{CStr, CString, c_char};
use std::{ptr, slice};

use rdkafka::bindings::*;
use rdkafka::types::RDKafka;

/// What may be done.
pub use rdkafka::bindings::rd_kafka_AclOperation_t as Operation;

/// To what.
#[derive(Debug, Clone)]
pub enum Resource {
    /// This topic.
    Topic(String),
    /// Topics whose names begin so.
    TopicPrefix(String),
    /// This consumer group.
    Group(String),
    /// This transactional id.
    TransactionalId(String),
}

/// One entry: `user` may (or may not) do `operation` to `resource`, from anywhere.
#[derive(Debug, Clone)]
pub struct Acl {
    user: String,
    operation: Operation,
    resource: Resource,
    permission: rd_kafka_AclPermissionType_t,
}

impl Acl {
    /// An entry that allows.
    pub fn allow(user: &str, operation: Operation, resource: Resource) -> Self {
        let permission = rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW;
        Self { user: user.to_owned(), operation, resource, permission }
    }

    /// An entry that denies; it wins over those that allow.
    pub fn deny(user: &str, operation: Operation, resource: Resource) -> Self {
        let permission = rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_DENY;
        Self { user: user.to_owned(), operation, resource, permission }
    }

    /// Allows to write to a topic.
    pub fn may_write(user: &str, topic: &str) -> Self {
        Self::allow(user, WRITE, Resource::Topic(topic.to_owned()))
    }

    /// Allows to read a topic.
    pub fn may_read(user: &str, topic: &str) -> Self {
        Self::allow(user, READ, Resource::Topic(topic.to_owned()))
    }

    /// Allows to be a member of a group and to commit for it.
    pub fn may_join(user: &str, group: &str) -> Self {
        Self::allow(user, READ, Resource::Group(group.to_owned()))
    }

    fn to_native(&self) -> *mut rd_kafka_AclBinding_t {
        use rd_kafka_ResourcePatternType_t as Pattern;
        use rd_kafka_ResourceType_t as Type;
        let (kind, pattern, name) = match &self.resource {
            Resource::Topic(name) => {
                (Type::RD_KAFKA_RESOURCE_TOPIC, Pattern::RD_KAFKA_RESOURCE_PATTERN_LITERAL, name)
            }
            Resource::TopicPrefix(name) => {
                (Type::RD_KAFKA_RESOURCE_TOPIC, Pattern::RD_KAFKA_RESOURCE_PATTERN_PREFIXED, name)
            }
            Resource::Group(name) => {
                (Type::RD_KAFKA_RESOURCE_GROUP, Pattern::RD_KAFKA_RESOURCE_PATTERN_LITERAL, name)
            }
            Resource::TransactionalId(name) => (
                Type::RD_KAFKA_RESOURCE_TRANSACTIONAL_ID,
                Pattern::RD_KAFKA_RESOURCE_PATTERN_LITERAL,
                name,
            ),
        };
        let name = CString::new(name.as_str()).expect("no zero byte");
        let principal = CString::new(format!("User:{}", self.user)).expect("no zero byte");
        let mut error = [0 as c_char; 256];
        // SAFETY: all strings live until the call returns, which copies them.
        let binding = unsafe {
            rd_kafka_AclBinding_new(
                kind,
                name.as_ptr(),
                pattern,
                principal.as_ptr(),
                c"*".as_ptr(),
                self.operation,
                self.permission,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        // SAFETY: the call leaves a terminated string there.
        assert!(!binding.is_null(), "{:?}", unsafe { CStr::from_ptr(error.as_ptr()) });
        binding
    }
}

const READ: Operation = Operation::RD_KAFKA_ACL_OPERATION_READ;
const WRITE: Operation = Operation::RD_KAFKA_ACL_OPERATION_WRITE;

/// Creates the entries, or says what the broker answered.
pub(super) fn create(client: *mut RDKafka, acls: &[Acl]) -> Result<(), String> {
    let mut bindings: Vec<_> = acls.iter().map(Acl::to_native).collect();
    // SAFETY: `client` is alive for the call; queue, event and bindings are ours, used by this
    // thread only, and destroyed once.
    unsafe {
        let queue = rd_kafka_queue_new(client);
        rd_kafka_CreateAcls(client, bindings.as_mut_ptr(), bindings.len(), ptr::null(), queue);
        let event = rd_kafka_queue_poll(queue, 30_000);
        let result = if event.is_null() { Err("no answer".to_owned()) } else { outcome(event) };
        if !event.is_null() {
            rd_kafka_event_destroy(event);
        }
        rd_kafka_queue_destroy(queue);
        rd_kafka_AclBinding_destroy_array(bindings.as_mut_ptr(), bindings.len());
        result
    }
}

/// Removes the entries, or says what the broker answered.
pub(super) fn remove(client: *mut RDKafka, acls: &[Acl]) -> Result<(), String> {
    // A binding without wildcards is a filter that matches itself.
    let mut filters: Vec<_> = acls.iter().map(Acl::to_native).collect();
    // SAFETY: as in `create`.
    unsafe {
        let queue = rd_kafka_queue_new(client);
        rd_kafka_DeleteAcls(client, filters.as_mut_ptr(), filters.len(), ptr::null(), queue);
        let event = rd_kafka_queue_poll(queue, 30_000);
        let mut result = if event.is_null() { Err("no answer".to_owned()) } else { Ok(()) };
        if !event.is_null() {
            if rd_kafka_event_error(event) != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                result = Err(text(rd_kafka_event_error_string(event)));
            } else {
                let mut count = 0;
                let answer = rd_kafka_event_DeleteAcls_result(event);
                let responses = rd_kafka_DeleteAcls_result_responses(answer, &mut count);
                for (acl, response) in acls.iter().zip(slice::from_raw_parts(responses, count)) {
                    let mut found = 0;
                    rd_kafka_DeleteAcls_result_response_matching_acls(*response, &mut found);
                    if found != 1 {
                        result = Err(format!("{acl:?} matches {found} entries"));
                    }
                }
            }
            rd_kafka_event_destroy(event);
        }
        rd_kafka_queue_destroy(queue);
        rd_kafka_AclBinding_destroy_array(filters.as_mut_ptr(), filters.len());
        result
    }
}

/// # Safety
/// `event` is alive.
unsafe fn outcome(event: *mut rd_kafka_event_t) -> Result<(), String> {
    // SAFETY: what these calls hand out belongs to the event.
    unsafe {
        let code = rd_kafka_event_error(event);
        if code != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(text(rd_kafka_event_error_string(event)));
        }
        let mut count = 0;
        let answer = rd_kafka_event_CreateAcls_result(event);
        let results = rd_kafka_CreateAcls_result_acls(answer, &mut count);
        for index in 0..count {
            let error = rd_kafka_acl_result_error(*results.add(index));
            if !error.is_null() {
                return Err(text(rd_kafka_error_string(error)));
            }
        }
    }
    Ok(())
}

/// # Safety
/// `string` is a live C string.
unsafe fn text(string: *const c_char) -> String {
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
