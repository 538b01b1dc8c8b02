//! What a rebalance and a stop do to each other. The edge is a script here.

use std::collections::VecDeque;

use super::*;
use crate::build_info::BuildInfo;
use crate::engine::testing::TestRecord;
use crate::engine::{DestinationPolicy, LevelTable, Outgoing, RetryPolicy, Ticket, TopicPattern};
use crate::kafka::Located;
use crate::metrics::{Metrics, MetricsOptions};
use crate::status::{Health, SharedStatus, Status};

/// A call that librdkafka saw.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Locate(u64, Vec<i32>),
    Assign(Vec<(i32, i64)>),
    Unassign(Vec<i32>),
    Commit(Vec<(i32, i64)>),
}

#[derive(Default)]
struct Script {
    events: VecDeque<Event>,
    records: VecDeque<(i32, TestRecord)>,
    calls: Vec<Call>,
    sent: Vec<Ticket>,
}

impl Port for Script {
    type Record = TestRecord;

    fn serve(&mut self) {}

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn next_record(&mut self, partition: i32) -> Option<Fetched<TestRecord>> {
        self.records.front().filter(|(of, _)| *of == partition)?;
        self.records.pop_front().map(|(_, record)| Fetched::Record(record))
    }

    fn sweep(&mut self) {}

    fn send(&mut self, ticket: Ticket, _: &Outgoing<'_, TestRecord>) -> Result<(), SendError> {
        self.sent.push(ticket);
        Ok(())
    }

    fn park(&mut self, _: i32, _: i64) -> Result<(), PortError> {
        Ok(())
    }

    fn unpark(&mut self, _: i32, _: i64) -> Result<(), PortError> {
        Ok(())
    }

    fn locate(&mut self, request: u64, partitions: Vec<i32>) {
        self.calls.push(Call::Locate(request, partitions));
    }

    fn assign(&mut self, starts: &[(i32, i64)]) -> Result<(), PortError> {
        self.calls.push(Call::Assign(starts.to_vec()));
        Ok(())
    }

    fn unassign(&mut self, partitions: &[i32]) -> Result<(), PortError> {
        self.calls.push(Call::Unassign(partitions.to_vec()));
        Ok(())
    }

    fn commit(&mut self, offsets: &[(i32, i64)]) -> Result<(), PortError> {
        self.calls.push(Call::Commit(offsets.to_vec()));
        Ok(())
    }
}

fn worker() -> Worker<Script> {
    let levels = LevelTable::new(&[Duration::from_secs(1)]).expect("valid");
    let options = MetricsOptions {
        levels: &levels,
        lateness_buckets_seconds: &[1.0],
        per_topic_limit: None,
        config_sha256: "",
        build: &BuildInfo::new(String::new()),
    };
    let metrics = Metrics::new(&prometheus::Registry::new(), &options).expect("valid");
    let reporter = Reporter::new(
        metrics.into(),
        SharedStatus::new(Status::default()),
        Health::new(0).into(),
        Clock::start(),
        levels.clone(),
        2,
    );
    let all = TopicPattern::parse("/.*/").expect("valid");
    let policy = DestinationPolicy::new("delay_topic".to_owned(), None, vec![all], vec![]);
    let engine = EngineConfig {
        levels,
        policy,
        dead_letter_topic: None,
        drop_refused: false,
        park_after_ms: 10_000,
        wake_lead_ms: 1_000,
        future_tolerance_ms: 5_000,
        retry: RetryPolicy { grace_ms: 0, initial_backoff_ms: 1, max_backoff_ms: 1 },
        max_in_flight_bytes: 1_000_000,
        max_in_flight_records: 1_000,
    };
    let config = WorkerConfig {
        engine,
        partitions: 2,
        commit_every: Duration::from_millis(500),
        drain_timeout: Duration::from_secs(5),
        stop_timeout: Duration::from_secs(10),
        missing_offset: MissingOffset::Fail,
    };
    Worker::new(config, Script::default(), reporter)
}

const WALL_MS: i64 = 1_000_000;

fn at(steady_ms: i64) -> Now {
    Now { wall_ms: WALL_MS + steady_ms, steady_ms }
}

/// A pass after `events`; the calls it made, and how it ended.
fn pass(worker: &mut Worker<Script>, steady_ms: i64, events: &[Event]) -> (Vec<Call>, Pass) {
    worker.port.events.extend(events.iter().cloned());
    let ended = worker.pass(at(steady_ms)).expect("no error");
    (std::mem::take(&mut worker.port.calls), ended)
}

fn located(request: u64, partitions: &[i32]) -> Event {
    let at = |&partition| Located { partition, committed: Some(0), start: 0, end: 9 };
    Event::Located { request, located: partitions.iter().map(at).collect() }
}

/// Owns partitions 0 and 1 and has forwarded offset 0 of partition 0, which is not committed.
fn with_a_settled_record() -> Worker<Script> {
    let mut worker = worker();
    pass(&mut worker, 0, &[Event::Assigned(vec![0, 1])]);
    pass(&mut worker, 0, &[located(1, &[0, 1])]);
    worker.port.records.push_back((0, TestRecord::at(0, Some(1))));
    pass(&mut worker, 1, &[]);
    let ticket = worker.port.sent.remove(0);
    let delivered = Event::Delivered { ticket, result: Ok(()), took: Duration::ZERO };
    pass(&mut worker, 2, &[delivered]);
    worker
}

#[test]
fn a_stop_while_offsets_are_looked_up_answers_the_rebalance_and_takes_over_nothing() {
    let mut worker = worker();
    let (calls, _) = pass(&mut worker, 0, &[Event::Assigned(vec![0, 1])]);
    assert_eq!(calls, [Call::Locate(1, vec![0, 1])]);
    worker.stop(at(1));
    let (calls, ended) = pass(&mut worker, 1, &[]);
    assert_eq!((calls, ended), (vec![Call::Assign(vec![])], Pass::Stopped));

    let mut worker = worker_that_looks_up();
    worker.stop(at(1));
    let (calls, ended) = pass(&mut worker, 1, &[located(1, &[0, 1])]);
    assert_eq!((calls, ended), (vec![Call::Assign(vec![])], Pass::Stopped));
}

fn worker_that_looks_up() -> Worker<Script> {
    let mut worker = worker();
    pass(&mut worker, 0, &[Event::Assigned(vec![0, 1])]);
    worker
}

#[test]
fn partitions_lost_before_they_were_taken_over_are_not_taken_over() {
    let mut worker = worker_that_looks_up();
    let lost = Event::Revoked { partitions: vec![0, 1], lost: true };
    let (calls, _) = pass(&mut worker, 1, &[lost, located(1, &[0, 1])]);
    assert_eq!(calls, [Call::Assign(vec![]), Call::Unassign(vec![])]);
    assert_eq!(worker.engine().lanes().count(), 0);
}

#[test]
fn the_last_commit_is_made_again_while_the_group_refuses_it() {
    let mut worker = with_a_settled_record();
    let refused = || Event::Committed(Err("rebalance in progress".to_owned()));
    let commit = || vec![Call::Commit(vec![(0, 1)])];
    worker.stop(at(10));
    assert_eq!(pass(&mut worker, 10, &[]).0, commit());
    assert_eq!(pass(&mut worker, 20, &[refused()]).0, []);
    assert_eq!(pass(&mut worker, 110, &[]).0, commit());
    assert_eq!(pass(&mut worker, 120, &[Event::Committed(Ok(()))]).1, Pass::Stopped);

    let mut worker = with_a_settled_record();
    let revoked = Event::Revoked { partitions: vec![0, 1], lost: false };
    assert_eq!(pass(&mut worker, 10, &[revoked]).0, commit());
    assert_eq!(pass(&mut worker, 20, &[refused()]).0, []);
    assert_eq!(pass(&mut worker, 110, &[]).0, commit());
    let (calls, _) = pass(&mut worker, 120, &[Event::Committed(Ok(()))]);
    assert_eq!(calls, [Call::Unassign(vec![0, 1])]);
}

#[test]
fn a_commit_that_is_refused_for_long_is_given_up() {
    let mut worker = with_a_settled_record();
    worker.stop(at(10));
    let mut ended = Pass::Busy;
    let mut steady_ms = 10;
    while ended != Pass::Stopped {
        assert!(steady_ms < 5_000, "it never ends");
        let refused = Event::Committed(Err("unknown member".to_owned()));
        ended = pass(&mut worker, steady_ms, &[refused]).1;
        steady_ms += 10;
    }
    assert!(steady_ms > 1_000, "given up after {steady_ms} ms");
}

#[test]
fn a_lane_whose_position_is_gone_starts_anew_only_between_rebalances() {
    let mut worker = with_a_settled_record();
    worker.offset_gone(1);
    let revoked = Event::Revoked { partitions: vec![0], lost: false };
    let (calls, _) = pass(&mut worker, 10, &[revoked, located(2, &[1])]);
    assert_eq!(calls, [Call::Locate(2, vec![1]), Call::Commit(vec![(0, 1)])]);
    let (calls, _) = pass(&mut worker, 20, &[Event::Committed(Ok(()))]);
    let again = [Call::Unassign(vec![1]), Call::Assign(vec![(1, 0)])];
    assert_eq!(calls, [&[Call::Unassign(vec![0])][..], &again[..]].concat());
}

#[test]
fn after_a_freeze_nothing_is_handed_on_until_a_loss_would_be_known() {
    let mut worker = with_a_settled_record();
    worker.port.records.push_back((1, TestRecord::at(0, Some(1))));
    let (_, ended) = pass(&mut worker, 6_000, &[]);
    let wakeup = Wakeup { wall_ms: None, steady_ms: Some(6_000 + FREEZE_PAUSE_MS) };
    assert_eq!((ended, worker.port.sent.len()), (Pass::Idle(wakeup), 0));
    pass(&mut worker, 6_000 + FREEZE_PAUSE_MS - 1, &[]);
    assert_eq!(worker.port.sent.len(), 0);
    pass(&mut worker, 6_000 + FREEZE_PAUSE_MS, &[]);
    assert_eq!(worker.port.sent.len(), 1);
}
