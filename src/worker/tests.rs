//! Tests of the loop against a port in memory: every call is recorded, every event is ours.

mod transactions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::gaps::FREEZE_PAUSE_MS;
use super::{MissingOffset, Pass, Reporter, Worker, WorkerConfig, WorkerError};
use crate::build_info::BuildInfo;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::testing::TestRecord;
use crate::engine::{Ahead, Commit, EngineConfig, Now, Outgoing, Refusal, RetryPolicy, Ticket};
use crate::kafka::{Event, Fetched, Located, Port, PortError, Probe, SendError};
use crate::metrics::{Metrics, MetricsOptions};
use crate::status::{Health, SharedStatus, Status};

mod watch;

const START_MS: i64 = 1_800_000_000_000;

/// A port that records calls and hands out what the test put in.
#[derive(Default)]
struct FakePort {
    events: VecDeque<Event>,
    queues: BTreeMap<i32, VecDeque<Fetched<TestRecord>>>,
    calls: Vec<String>,
    sent: Vec<Ticket>,
    locates: Vec<u64>,
    probes: Vec<Probe>,
    /// Partitions stay paused.
    unpark_fails: bool,
    full: bool,
}

impl Port for FakePort {
    type Record = TestRecord;

    fn serve(&mut self) {}

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn next_record(&mut self, partition: i32) -> Option<Fetched<TestRecord>> {
        self.queues.get_mut(&partition)?.pop_front()
    }

    fn sweep(&mut self) {}

    fn send(
        &mut self,
        ticket: Ticket,
        outgoing: &Outgoing<'_, TestRecord>,
    ) -> Result<(), SendError> {
        if self.full {
            return Err(SendError::Full);
        }
        self.calls.push(format!("send {} to {}", outgoing.record.offset, outgoing.topic));
        self.sent.push(ticket);
        Ok(())
    }

    fn park(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        self.calls.push(format!("park {partition}@{offset}"));
        Ok(())
    }

    fn unpark(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        self.calls.push(format!("unpark {partition}@{offset}"));
        if self.unpark_fails {
            return Err(PortError { call: "seek", cause: "timed out".to_owned() });
        }
        Ok(())
    }

    fn locate(&mut self, request: u64, partitions: Vec<i32>) {
        self.calls.push(format!("locate {partitions:?}"));
        self.locates.push(request);
    }

    fn probe(&mut self, probe: Probe) {
        self.calls.push(format!("probe {}: {}", probe.partition, probe.wait));
        self.probes.push(probe);
    }

    fn assign(&mut self, starts: &[(i32, i64)]) -> Result<(), PortError> {
        self.calls.push(format!("assign {starts:?}"));
        Ok(())
    }

    fn unassign(&mut self, partitions: &[i32]) -> Result<(), PortError> {
        self.calls.push(format!("unassign {partitions:?}"));
        Ok(())
    }

    fn commit(&mut self, commits: &[Commit]) -> Result<(), PortError> {
        let offsets: Vec<(i32, i64)> =
            commits.iter().map(|commit| (commit.partition, commit.offset)).collect();
        let ahead: Vec<i64> = commits.iter().flat_map(|commit| commit.ahead.offsets()).collect();
        let ahead = if ahead.is_empty() { String::new() } else { format!(" and {ahead:?}") };
        self.calls.push(format!("commit {offsets:?}{ahead}"));
        Ok(())
    }

    fn open(&mut self, _commit: &Commit) -> Result<(), PortError> {
        self.calls.push("open".to_owned());
        self.events.push_back(Event::Opened(Ok(())));
        Ok(())
    }

    fn abort(&mut self, known_by: Option<&Commit>) {
        let add = known_by.map(|commit| format!("add [{:?}], ", (commit.partition, commit.offset)));
        self.calls.push(format!("{}abort", add.unwrap_or_default()));
    }
}

struct Bench {
    worker: Worker<FakePort>,
    metrics: Arc<Metrics>,
    status: SharedStatus,
    elapsed_ms: i64,
}

impl Bench {
    fn new(missing_offset: MissingOffset) -> Self {
        Self::with(missing_offset, false)
    }

    fn with(missing_offset: MissingOffset, transactional: bool) -> Self {
        let config = Config::default();
        let levels = config.delay.levels.clone();
        let metrics = Arc::new(
            Metrics::new(
                &Registry::new(),
                &MetricsOptions {
                    levels: &levels,
                    lateness_buckets_seconds: &[1.0],
                    per_topic_limit: None,
                    config_sha256: "",
                    build: &BuildInfo::new(String::new()),
                },
            )
            .unwrap(),
        );
        let status = SharedStatus::new(Status::default());
        let reporter = Reporter::new(
            Arc::clone(&metrics),
            status.clone(),
            Arc::new(Health::new(0)),
            Clock::start(),
            levels.clone(),
            18,
        );
        let worker = WorkerConfig {
            engine: EngineConfig {
                levels,
                policy: config.destination_policy(),
                dead_letter_topic: Some("dlq".to_owned()),
                drop_refused: false,
                park_after_ms: 10_000,
                wake_lead_ms: 1_500,
                future_tolerance_ms: 5_000,
                retry: RetryPolicy {
                    grace_ms: 5_000,
                    initial_backoff_ms: 200,
                    max_backoff_ms: 30_000,
                },
                max_in_flight_bytes: 1 << 20,
                max_in_flight_records: 1_000,
                transactional,
            },
            partitions: 18,
            commit_every: Duration::from_millis(500),
            drain_timeout: Duration::from_secs(5),
            stop_timeout: Duration::from_secs(5),
            missing_offset,
            stuck_after: Duration::from_secs(120),
        };
        let worker = Worker::new(worker, FakePort::default(), reporter);
        Self { worker, metrics, status, elapsed_ms: 0 }
    }

    /// One pass `later_ms` after the one before; the calls it made.
    fn pass(&mut self, later_ms: i64) -> Vec<String> {
        self.try_pass(later_ms).unwrap().1
    }

    fn try_pass(&mut self, later_ms: i64) -> Result<(Pass, Vec<String>), WorkerError> {
        self.elapsed_ms += later_ms;
        let pass = self.worker.pass(self.now())?;
        Ok((pass, std::mem::take(&mut self.port().calls)))
    }

    fn now(&self) -> Now {
        Now { wall_ms: START_MS + self.elapsed_ms, steady_ms: self.elapsed_ms }
    }

    fn port(&mut self) -> &mut FakePort {
        self.worker.port_mut()
    }

    fn event(&mut self, event: Event) {
        self.port().events.push_back(event);
    }

    /// Answers the last lookup: all of `located` at once.
    fn located(&mut self, located: &[Located]) {
        let request = *self.port().locates.last().unwrap();
        self.event(Event::Located { request, located: located.to_vec() });
    }

    /// Takes over partition 0 at `offset`.
    fn assign(&mut self, offset: i64) {
        self.event(Event::Assigned(vec![0]));
        self.pass(0);
        self.located(&[at(0, Some(offset), 0, 100)]);
        self.pass(0);
    }

    fn record(&mut self, offset: i64, timestamp_ms: i64) {
        let record = Fetched::Record(TestRecord::at(offset, Some(timestamp_ms)));
        self.port().queues.entry(0).or_default().push_back(record);
    }

    fn deliver(&mut self, index: usize) {
        self.answer(index, Ok(()));
    }

    fn answer(&mut self, index: usize, result: Result<(), Refusal>) {
        let ticket = self.port().sent[index];
        self.event(Event::Delivered { ticket, result, took: Duration::ZERO });
    }
}

fn at(partition: i32, committed: Option<i64>, start: i64, end: i64) -> Located {
    Located { partition, committed, ahead: Ahead::default(), start, end }
}

#[test]
fn assigned_partitions_are_read_from_their_committed_offsets() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![0, 1, 2]));
    assert_eq!(bench.pass(0), ["locate [0, 1, 2]"]);
    bench.located(&[at(0, Some(7), 3, 9), at(1, None, 4, 8), at(2, Some(8), 0, 8)]);
    assert_eq!(bench.pass(0), ["assign [(0, 7), (1, 4), (2, 8)]"]);
}

#[test]
fn an_assignment_of_nothing_is_answered_too() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![]));
    assert_eq!(bench.pass(0), ["assign []"]);
}

// R45: never silently to the end.
#[test]
fn a_commit_outside_the_log_is_counted_and_resolved_to_the_earliest_record() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![0, 1]));
    bench.pass(0);
    bench.located(&[at(0, Some(3), 10, 20), at(1, Some(50), 0, 20)]);
    assert_eq!(bench.pass(0), ["assign [(0, 10), (1, 0)]"]);
    let text = bench.metrics.encode().unwrap();
    for line in [
        "kafka_delay_records_lost_total{delay=\"1s\",level=\"1\"} 7",
        "kafka_delay_offsets_reset_total{reason=\"retention\"} 1",
        "kafka_delay_offsets_reset_total{reason=\"recreated\"} 1",
    ] {
        assert!(text.contains(line), "{line} not in\n{text}");
    }
}

#[test]
fn a_commit_outside_the_log_stops_the_process_when_so_configured() {
    let mut bench = Bench::new(MissingOffset::Fail);
    bench.event(Event::Assigned(vec![0]));
    bench.pass(0);
    bench.located(&[at(0, Some(3), 10, 20)]);
    let error = bench.try_pass(0).unwrap_err();
    assert!(error.to_string().contains("on_missing_offset"), "{error}");
}

#[test]
fn a_record_is_sent_when_due_and_its_offset_committed_after_the_acknowledgement() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(5);
    bench.record(5, START_MS);
    assert_eq!(bench.pass(0), Vec::<String>::new());
    assert_eq!(bench.pass(999), Vec::<String>::new());
    assert_eq!(bench.pass(1), ["send 5 to orders"]);
    assert_eq!(bench.pass(600), Vec::<String>::new(), "nothing is committed before the ack");
    bench.deliver(0);
    assert_eq!(bench.pass(500), ["commit [(0, 6)]"]);
    assert_eq!(bench.pass(500), Vec::<String>::new(), "one commit at a time");
    bench.event(Event::Committed(Err("not now".to_owned())));
    assert_eq!(bench.pass(500), ["commit [(0, 6)]"], "a failed commit is made again");
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.pass(500), Vec::<String>::new());
}

#[test]
fn a_full_producer_is_tried_again_without_losing_order() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.port().full = true;
    bench.record(0, 1);
    bench.record(1, 1);
    assert_eq!(bench.pass(0), Vec::<String>::new());
    bench.port().full = false;
    let mut calls = bench.pass(1);
    calls.extend(bench.pass(1));
    assert_eq!(calls, ["send 0 to orders", "send 1 to orders"]);
}

// R27, R98: drain, commit the prefix, then give back; nothing new is sent meanwhile.
#[test]
fn a_revoked_partition_is_drained_committed_and_given_back_in_this_order() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    assert_eq!(bench.pass(1), ["send 0 to orders"]);
    bench.record(1, 1);
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    assert_eq!(bench.pass(1), Vec::<String>::new());
    bench.deliver(0);
    assert_eq!(bench.pass(1), ["commit [(0, 1)]"]);
    assert_eq!(bench.pass(1), Vec::<String>::new());
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.pass(1), ["unassign [0]"]);
    assert!(bench.worker.engine().lane(0).is_none());
}

// R28
#[test]
fn a_drain_that_takes_too_long_commits_what_it_has_and_gives_back() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    bench.record(1, 1);
    bench.pass(0);
    bench.deliver(0);
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    bench.pass(1);
    let calls = bench.pass(5_000);
    assert_eq!(calls, ["commit [(0, 1)]"]);
    assert_eq!(bench.pass(2_000), ["unassign [0]"], "also without an answer");
}

#[test]
fn lost_partitions_are_given_back_at_once_without_a_commit() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    bench.pass(0);
    bench.deliver(0);
    bench.event(Event::Revoked { partitions: vec![0], lost: true });
    assert_eq!(bench.pass(0), ["unassign [0]"]);
    // R1, R13: nothing of the old assignment is left to fire
    assert_eq!(bench.pass(1_000_000), Vec::<String>::new());
}

// R4, R8
#[test]
fn a_partition_that_comes_back_starts_from_scratch() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![17]));
    bench.pass(0);
    bench.located(&[at(17, Some(0), 0, 10)]);
    bench.pass(0);
    let far = |offset| Fetched::Record(TestRecord::at(offset, Some(START_MS)));
    bench.port().queues.entry(17).or_default().push_back(far(0));
    assert_eq!(bench.pass(0), ["park 17@0"]);
    bench.event(Event::Revoked { partitions: vec![17], lost: false });
    assert_eq!(bench.pass(1), ["unassign [17]"]);
    bench.event(Event::Assigned(vec![17]));
    bench.pass(1);
    bench.located(&[at(17, Some(0), 0, 10)]);
    assert_eq!(bench.pass(1), ["assign [(17, 0)]"]);
    bench.port().queues.entry(17).or_default().push_back(far(0));
    assert_eq!(bench.pass(1), ["park 17@0"]);
    // Two hours between two passes look like a freeze, which has its pause.
    assert_eq!(bench.pass(7_200_000 - 1_500), Vec::<String>::new());
    assert_eq!(bench.pass(FREEZE_PAUSE_MS), ["unpark 17@0"]);
}

#[test]
fn a_position_that_left_the_log_is_looked_up_and_started_anew() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(5);
    bench.port().queues.entry(0).or_default().push_back(Fetched::OffsetGone);
    assert_eq!(bench.pass(0), ["locate [0]"]);
    bench.located(&[at(0, Some(5), 8, 20)]);
    assert_eq!(bench.pass(0), ["unassign [0]", "assign [(0, 8)]"]);
}

#[test]
fn a_late_answer_for_a_partition_that_is_gone_changes_nothing() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(5);
    bench.port().queues.entry(0).or_default().push_back(Fetched::OffsetGone);
    bench.pass(0);
    bench.event(Event::Revoked { partitions: vec![0], lost: true });
    bench.located(&[at(0, Some(5), 8, 20)]);
    assert_eq!(bench.pass(0), ["unassign [0]"]);
}

#[test]
fn stopping_drains_commits_and_ends() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    bench.pass(0);
    let now = bench.now();
    bench.worker.stop(now);
    bench.record(1, 1);
    assert_eq!(bench.pass(1), Vec::<String>::new());
    bench.deliver(0);
    let (pass, calls) = bench.try_pass(1).unwrap();
    assert_eq!(calls, ["commit [(0, 1)]"]);
    assert_ne!(pass, Pass::Stopped);
    bench.event(Event::Committed(Ok(())));
    let (pass, calls) = bench.try_pass(1).unwrap();
    assert_eq!((pass, calls), (Pass::Stopped, vec![]));
}

#[test]
fn a_topic_that_grew_ends_the_process() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![0, 20]));
    assert_eq!(bench.try_pass(0).unwrap_err(), WorkerError::PartitionsAdded(21));
}

#[test]
fn a_fatal_client_error_ends_the_process() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Fatal("fenced".to_owned()));
    assert_eq!(bench.try_pass(0).unwrap_err(), WorkerError::Client("fenced".to_owned()));
}

#[test]
fn a_step_of_the_wall_clock_is_counted_and_followed() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, START_MS + 3_600_000 - 1_000);
    bench.pass(0);
    // an hour forward on the wall, 10 ms on the steady clock
    bench.elapsed_ms += 10;
    let now = Now { wall_ms: START_MS + 3_600_000, steady_ms: bench.elapsed_ms };
    bench.worker.pass(now).unwrap();
    let text = bench.metrics.encode().unwrap();
    assert!(text.contains("kafka_delay_clock_steps_total 1"), "{text}");
    assert_eq!(bench.port().calls, ["send 0 to orders"]);
}

#[test]
fn what_was_due_and_not_sent_when_the_clock_was_set_back_is_sent_when_it_is_due_again() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.port().full = true;
    bench.record(0, START_MS - 1_000);
    assert_eq!(bench.pass(0), Vec::<String>::new());
    bench.port().full = false;
    // Set back by 2 s.
    let mut pass_at = |steady_ms: i64| {
        let now = Now { wall_ms: START_MS - 2_000 + steady_ms, steady_ms };
        let pass = bench.worker.pass(now).unwrap();
        (pass, std::mem::take(&mut bench.port().calls))
    };
    pass_at(1);
    let (Pass::Idle(wakeup), _) = pass_at(2) else { panic!("nothing is due") };
    assert_eq!(wakeup.wall_ms, Some(START_MS));
    assert_eq!(pass_at(1_999).1, Vec::<String>::new());
    assert_eq!(pass_at(2_000).1, ["send 0 to orders"]);
    assert_eq!(bench.worker.engine().lane(0).unwrap().isolated_records(), 0);
}

#[test]
fn what_was_postponed_when_the_clock_was_set_back_is_not_overtaken() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.port().full = true;
    bench.record(0, START_MS - 1_000);
    assert_eq!(bench.pass(0), Vec::<String>::new());
    bench.port().full = false;
    bench.record(1, START_MS - 9_000); // due at any time
    for (steady_ms, sends) in [(1, 0), (2, 0), (1_999, 0), (2_000, 2)] {
        let now = Now { wall_ms: START_MS - 2_000 + steady_ms, steady_ms };
        bench.worker.pass(now).unwrap();
        assert_eq!(bench.port().calls, ["send 0 to orders", "send 1 to orders"][..sends]);
    }
}

/// Partition 0 assigned, its record 0 forwarded and not committed.
fn with_a_settled_record() -> Bench {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    bench.pass(1);
    bench.deliver(0);
    bench.pass(1);
    bench
}

fn refused() -> Event {
    Event::Committed(Err("rebalance in progress".to_owned()))
}

#[test]
fn a_stop_while_offsets_are_looked_up_answers_the_rebalance_and_takes_over_nothing() {
    for answered in [false, true] {
        let mut bench = Bench::new(MissingOffset::Earliest);
        bench.event(Event::Assigned(vec![0, 1]));
        bench.pass(0);
        let now = bench.now();
        bench.worker.stop(now);
        if answered {
            bench.located(&[at(0, Some(0), 0, 9), at(1, Some(0), 0, 9)]);
        }
        let (pass, calls) = bench.try_pass(1).unwrap();
        assert_eq!((pass, calls), (Pass::Stopped, vec!["assign []".to_owned()]));
    }
}

// The broker serves requests in turn: a member that asks to join cannot leave before the answer.
#[test]
fn a_stop_before_the_first_assignment_waits_for_it() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.pass(0);
    let now = bench.now();
    bench.worker.stop(now);
    assert_ne!(bench.try_pass(1_000).unwrap().0, Pass::Stopped);
    bench.event(Event::Assigned(vec![0]));
    let (pass, calls) = bench.try_pass(1).unwrap();
    assert_eq!((pass, calls), (Pass::Stopped, vec!["assign []".to_owned()]));

    let mut bench = Bench::new(MissingOffset::Earliest);
    let now = bench.now();
    bench.worker.stop(now);
    assert_ne!(bench.try_pass(4_999).unwrap().0, Pass::Stopped);
    assert_eq!(bench.try_pass(1).unwrap().0, Pass::Stopped, "also without an answer");
}

#[test]
fn partitions_lost_before_they_were_taken_over_are_not_taken_over() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![0, 1]));
    bench.pass(0);
    bench.event(Event::Revoked { partitions: vec![0, 1], lost: true });
    bench.located(&[at(0, Some(0), 0, 9), at(1, Some(0), 0, 9)]);
    assert_eq!(bench.pass(1), ["assign []", "unassign []"]);
    assert_eq!(bench.worker.engine().lanes().count(), 0);
}

#[test]
fn the_last_commit_is_made_again_while_the_group_refuses_it() {
    let mut bench = with_a_settled_record();
    let now = bench.now();
    bench.worker.stop(now);
    assert_eq!(bench.pass(1), ["commit [(0, 1)]"]);
    bench.event(refused());
    assert_eq!(bench.pass(1), Vec::<String>::new());
    assert_eq!(bench.pass(100), ["commit [(0, 1)]"]);
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.try_pass(1).unwrap().0, Pass::Stopped);

    let mut bench = with_a_settled_record();
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    assert_eq!(bench.pass(1), ["commit [(0, 1)]"]);
    bench.event(refused());
    assert_eq!(bench.pass(1), Vec::<String>::new());
    assert_eq!(bench.pass(100), ["commit [(0, 1)]"]);
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.pass(1), ["unassign [0]"]);
}

#[test]
fn a_commit_that_is_refused_for_long_is_given_up() {
    let mut bench = with_a_settled_record();
    let now = bench.now();
    bench.worker.stop(now);
    let mut waited_ms = 0;
    loop {
        bench.event(refused());
        if bench.try_pass(10).unwrap().0 == Pass::Stopped {
            break;
        }
        waited_ms += 10;
        assert!(waited_ms < 5_000, "it never ends");
    }
    assert!(waited_ms > 1_000, "given up after {waited_ms} ms");
}

// A second commit would be overtaken by the first, and the offset go back.
#[test]
fn no_commit_is_made_while_another_is_unanswered_however_long_it_takes() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.assign(0);
    bench.record(0, 1);
    bench.record(1, 1);
    bench.pass(1);
    bench.deliver(0);
    assert_eq!(bench.pass(500), ["commit [(0, 1)]"]);
    bench.deliver(1);
    for _ in 0..100 {
        assert_eq!(bench.pass(1_000), Vec::<String>::new());
    }
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.pass(500), ["commit [(0, 2)]"]);
}

#[test]
fn a_lane_whose_position_is_gone_goes_on_only_between_rebalances() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![0, 1]));
    bench.pass(0);
    bench.located(&[at(0, Some(0), 0, 9), at(1, Some(0), 0, 9)]);
    bench.pass(0);
    bench.port().queues.entry(1).or_default().push_back(Fetched::OffsetGone);
    bench.record(0, 1);
    assert!(bench.pass(1).contains(&"locate [1]".to_owned()));
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    bench.located(&[at(1, Some(0), 5, 9)]);
    assert_eq!(bench.pass(1), Vec::<String>::new(), "record 0 is under way");
    bench.deliver(0);
    assert_eq!(bench.pass(1), ["commit [(0, 1)]"]);
    bench.event(Event::Committed(Ok(())));
    assert_eq!(bench.pass(1), ["unassign [0]", "unassign [1]", "assign [(1, 5)]"]);
}

// G5: a process that stood still may have lost its partitions without knowing.
#[test]
fn after_a_freeze_nothing_is_handed_on_until_a_loss_would_be_known() {
    let mut bench = with_a_settled_record();
    bench.record(1, 1);
    let sent = |calls: &[String]| calls.iter().any(|call| call.starts_with("send"));
    assert!(!sent(&bench.pass(6_000)));
    assert!(!sent(&bench.pass(FREEZE_PAUSE_MS - 1)));
    assert!(sent(&bench.pass(1)));
}
