//! Errors after which a client cannot go on: the daemon ends by itself, and says why.

use kafka_delay::app::AppError;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Error};

use crate::harness::Harness;

fn fail(harness: &Harness, api: Api, error: Error) {
    harness.broker.cluster().request_errors(api, &[error; 1]);
}

fn text_of(error: &AppError) -> String {
    assert!(matches!(error, AppError::Internal(_)), "exit code 70: {error:?}");
    error.to_string()
}

// R86: a producer that may not write any more would hold records for ever.
#[test]
fn a_producer_that_is_refused_by_the_cluster_ends_the_daemon() {
    let harness = Harness::start();
    // Due in some seconds: the error must not meet this very send.
    harness.send(3, 25_000);
    fail(&harness, Api::Produce, Error::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
    let text = text_of(&harness.end());
    assert!(text.contains("producer: ClusterAuthorizationFailed"), "{text}");
}

#[test]
fn a_producer_that_gets_no_identity_ends_the_daemon() {
    let harness = Harness::launch(&[], |broker| {
        let error = Error::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        broker.cluster().request_errors(Api::InitProducerId, &[error; 5]);
    });
    let text = text_of(&harness.end());
    assert!(text.contains("producer"), "{text}");
}

#[test]
fn a_static_member_that_is_fenced_ends_the_daemon() {
    let harness = Harness::start_with(&[("source.group_instance_id", "one")], |_| {});
    fail(&harness, Api::Heartbeat, Error::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID);
    let text = text_of(&harness.end());
    assert!(text.contains("consumer: FencedInstanceId"), "{text}");
}
