//! What every error of librdkafka means for the record that met it: one total function.

use rdkafka::types::RDKafkaErrorCode as Code;

use super::port::SendError;
use crate::engine::{Refusal, RejectReason, Rejection, Trouble};

/// Where an error was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The producer did not take the record.
    Enqueue,
    /// The delivery report.
    Delivery {
        /// The record named its partition; otherwise the key chose it.
        partition_named: bool,
    },
}

/// Sorts a produce error into: wait for room, retry, reject, abort the transaction, or end the
/// process.
///
/// librdkafka retries what it deems transient by itself and without end (`delivery.timeout.ms=0`),
/// so an error that arrives here is its last word. Codes of the broker that are not named are
/// permanent (a dead letter can be looked at and redriven; an endless retry holds up the prefix);
/// codes of the library that are not named are transient.
pub(super) fn classify(code: Code, stage: Stage) -> SendError {
    let permanent = |reason, detail: &str| {
        SendError::Refused(Refusal::Permanent(Rejection::new(reason, format!("{detail} ({code})"))))
    };
    let trouble = |trouble| SendError::Refused(Refusal::Trouble(trouble));
    match code {
        Code::QueueFull => SendError::Full,
        Code::State => SendError::TransactionFailed,
        Code::PurgeQueue | Code::PurgeInflight => SendError::Refused(Refusal::Undone),
        Code::Fatal | Code::Fenced | Code::ClusterAuthorizationFailed => {
            SendError::Fatal(code.to_string())
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => trouble(Trouble::UnknownTopic),
        // The topic was deleted after the record's partition was chosen.
        Code::UnknownPartition if stage == Stage::Delivery { partition_named: false } => {
            trouble(Trouble::UnknownTopic)
        }
        Code::TopicAuthorizationFailed => trouble(Trouble::Unauthorized),
        Code::MessageSizeTooLarge | Code::InvalidMessageSize if stage == Stage::Enqueue => {
            permanent(RejectReason::TooLarge, "larger than message.max.bytes of the producer")
        }
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => trouble(Trouble::TooLarge),
        Code::UnknownPartition => {
            permanent(RejectReason::InvalidPartition, "the destination has no such partition")
        }
        Code::InvalidTopic => {
            permanent(RejectReason::InvalidOriginTopic, "the broker refuses the topic's name")
        }
        // Errors of a broker on its way up, down or aside; librdkafka retries them, and when it
        // gives one up (a purge, a topic that is being deleted) so do we.
        Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::RequestTimedOut
        | Code::BrokerNotAvailable
        | Code::ReplicaNotAvailable
        | Code::NetworkException
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::InvalidProducerEpoch
        | Code::UnknownProducerId
        | Code::KafkaStorageError
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch
        | Code::ThrottlingQuotaExceeded => trouble(Trouble::Transient),
        other if (other as i32) < 0 => trouble(Trouble::Transient),
        _ => permanent(RejectReason::ProduceFailed, "the destination refuses the record"),
    }
}

/// Why the client called `client` cannot go on, for people.
pub(super) fn fatal_cause(client: &str, text: &str) -> String {
    // What librdkafka calls a newer instance may be the coordinator giving our transaction up.
    let hint = if text.contains("fenced by") {
        "; either another instance uses the same forward.transactional_id, or a transaction \
         outlived forward.transaction_timeout while the cluster was out of reach"
    } else {
        ""
    };
    format!("{client}: {text}{hint}")
}

/// The code's name as a metric label: `all_brokers_down`, `not_leader_for_partition`.
pub fn code_name(code: Code) -> String {
    let mut name = String::new();
    let mut after_lower_case = false;
    for char in format!("{code:?}").chars() {
        if char.is_ascii_uppercase() && after_lower_case {
            name.push('_');
        }
        after_lower_case = char.is_ascii_lowercase();
        name.push(char.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_what_helps() {
        let by_key = Stage::Delivery { partition_named: false };
        let named = Stage::Delivery { partition_named: true };
        let delivery = |code| classify(code, by_key);
        let trouble = |trouble| SendError::Refused(Refusal::Trouble(trouble));
        assert_eq!(delivery(Code::UnknownTopicOrPartition), trouble(Trouble::UnknownTopic));
        assert_eq!(delivery(Code::UnknownPartition), trouble(Trouble::UnknownTopic));
        assert_eq!(delivery(Code::TopicAuthorizationFailed), trouble(Trouble::Unauthorized));
        assert_eq!(delivery(Code::MessageSizeTooLarge), trouble(Trouble::TooLarge));
        assert_eq!(delivery(Code::MessageTimedOut), trouble(Trouble::Transient));
        assert_eq!(delivery(Code::NotEnoughReplicas), trouble(Trouble::Transient));
        assert_eq!(classify(Code::QueueFull, Stage::Enqueue), SendError::Full);
        assert!(matches!(delivery(Code::Fenced), SendError::Fatal(_)));
        assert_eq!(delivery(Code::PurgeQueue), SendError::Refused(Refusal::Undone));
        assert_eq!(classify(Code::State, Stage::Enqueue), SendError::TransactionFailed);
        for (code, stage, reason) in [
            (Code::MessageSizeTooLarge, Stage::Enqueue, RejectReason::TooLarge),
            (Code::UnknownPartition, Stage::Enqueue, RejectReason::InvalidPartition),
            (Code::UnknownPartition, named, RejectReason::InvalidPartition),
            (Code::InvalidTopic, by_key, RejectReason::InvalidOriginTopic),
            (Code::InvalidRecord, by_key, RejectReason::ProduceFailed),
            (Code::InvalidTimestamp, by_key, RejectReason::ProduceFailed),
            (Code::PolicyViolation, by_key, RejectReason::ProduceFailed),
        ] {
            let SendError::Refused(Refusal::Permanent(rejection)) = classify(code, stage) else {
                panic!("{code:?} is not permanent");
            };
            assert_eq!(rejection.reason, reason, "{code:?}");
        }
    }

    #[test]
    fn code_names_are_label_values() {
        assert_eq!(code_name(Code::AllBrokersDown), "all_brokers_down");
        assert_eq!(code_name(Code::NotLeaderForPartition), "not_leader_for_partition");
        assert_eq!(code_name(Code::SSL), "ssl");
    }
}
