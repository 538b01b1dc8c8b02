//! Errors of single requests, and what the daemon makes of them.

use std::time::Duration;

use kafka_delay::kafka::mock::MockBroker;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Error};

use crate::harness::Harness;

fn fail(broker: &MockBroker, api: Api, error: Error, times: usize) {
    broker.cluster().request_errors(api, &vec![error; times]);
}

#[test]
fn records_of_every_level_are_forwarded_when_due_and_committed() {
    let harness = Harness::start();
    let mut due: Vec<i64> = (0..5).map(|_| harness.send(1, 0)).collect();
    due.push(harness.send(2, 0));
    due.push(harness.send(3, 28_000));
    harness.arrive(due);
    harness.nothing_more();
    harness.eventually("level 1 is committed", |harness| {
        harness.metric("kafka_delay_level_committed_offset", "level=\"1\"") == 5.0
    });
    assert_eq!(harness.metric("kafka_delay_early_forwards_total", ""), 0.0);
    harness.finish();
}

// R43, R52: a transient refusal is retried, neither lost nor doubled.
#[test]
fn transient_produce_errors_are_retried_without_loss_or_duplicate() {
    let harness = Harness::start();
    let mut due = vec![harness.send(1, 0)];
    for error in [
        Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Error::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Error::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Error::RD_KAFKA_RESP_ERR__TRANSPORT,
    ] {
        harness.arrive(std::mem::take(&mut due));
        due.push(harness.send(1, 0));
        fail(&harness.broker, Api::Produce, error, 2);
    }
    harness.arrive(due);
    harness.nothing_more();
    harness.finish();
}

// R73: one too large record makes the broker refuse the batch; the others must get through.
#[test]
fn a_batch_refused_for_its_size_is_sent_again_record_by_record() {
    let harness = Harness::start();
    let due: Vec<i64> = (0..20).map(|_| harness.send(1, 0)).collect();
    fail(&harness.broker, Api::Produce, Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 1);
    harness.arrive(due);
    harness.nothing_more();
    harness.finish();
}

#[test]
fn a_commit_that_fails_is_made_again() {
    let harness = Harness::start();
    for error in [
        Error::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        Error::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        Error::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Error::RD_KAFKA_RESP_ERR__TRANSPORT,
    ] {
        fail(&harness.broker, Api::OffsetCommit, error, 3);
        let due = harness.send(1, 0);
        harness.arrive(vec![due]);
    }
    harness.eventually("all four are committed", |harness| {
        harness.metric("kafka_delay_level_committed_offset", "level=\"1\"") == 4.0
    });
    harness.finish();
}

#[test]
fn a_start_among_errors_of_the_coordinator_waits_and_goes_on() {
    let harness = Harness::start_after(|broker| {
        fail(broker, Api::OffsetFetch, Error::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, 3);
        fail(broker, Api::ListOffsets, Error::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, 2);
        fail(broker, Api::JoinGroup, Error::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, 2);
    });
    let due = harness.send(1, 0);
    harness.arrive(vec![due]);
    harness.finish();
}

// R89: an outage is waited out; neither probe follows it.
#[test]
fn a_broker_that_goes_away_is_waited_for() {
    let harness = Harness::start();
    let due: Vec<i64> = (0..10).map(|_| harness.send(2, 0)).collect();
    harness.broker.cluster().broker_down(1).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(harness.get("/livez").0, 200);
    assert_eq!(harness.get("/readyz").0, 200);
    harness.broker.cluster().broker_up(1).unwrap();
    harness.arrive(due);
    harness.nothing_more();
    harness.finish();
}

#[test]
fn a_fetch_that_fails_is_repeated() {
    let harness = Harness::start();
    fail(&harness.broker, Api::Fetch, Error::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 3);
    let due = vec![harness.send(1, 0), harness.send(2, 0)];
    harness.arrive(due);
    harness.finish();
}

#[test]
fn losing_the_membership_costs_no_record() {
    let harness = Harness::start();
    let mut due = vec![harness.send(1, 0)];
    // Uncommitted, it might rightly be forwarded again.
    harness.eventually("the first record is committed", |harness| {
        harness.metric("kafka_delay_level_committed_offset", "level=\"1\"") == 1.0
    });
    fail(&harness.broker, Api::Heartbeat, Error::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, 1);
    harness.eventually("partitions are lost or revoked", |harness| {
        harness.metric("kafka_delay_rebalances_total", "event=\"lost\"")
            + harness.metric("kafka_delay_rebalances_total", "event=\"revoke\"")
            > 0.0
    });
    due.push(harness.send(1, 0));
    harness.eventually("both have been forwarded", |harness| {
        harness.metric("kafka_delay_records_forwarded_total", "level=\"1\"") >= 2.0
    });
    harness.arrive(due);
    harness.finish();
}
