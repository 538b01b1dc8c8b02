//! The loop between Kafka and the engine: events in, actions out, nothing decided here.
//!
//! One pass: serve the client's callbacks, handle what happened, let the engine do what is due,
//! read records for lanes that want one, commit what is settled, say when to come back. Passes
//! never block; between them the engine thread sleeps until a due time or an event, at most for
//! [`SERVE_EVERY`].

mod clocks;
mod commits;
mod error;
mod membership;
mod report;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use crate::clock::Clock;
use crate::engine::{Action, Engine, EngineConfig, Lane, Notice, Now, Offered, Wakeup};
use crate::kafka::{Event, Fetched, Port, SendError};

use commits::Commits;
pub use error::WorkerError;
use membership::{Membership, Progress};
pub use report::Reporter;
use watch::Watch;

/// Rebalances and client errors are looked for at least this often.
const SERVE_EVERY: Duration = Duration::from_millis(20);

/// Queues are looked at this often even if they announced nothing, against a lost wake-up.
const SWEEP_EVERY_MS: i64 = 250;

/// The status snapshot is renewed this often.
const STATUS_EVERY_MS: i64 = 250;

/// Records one lane may read in one pass, so that a backlog in one level does not delay another.
const READ_BURST: usize = 256;

/// Events handled in one pass.
const EVENT_BURST: usize = 20_000;

/// What to do with a committed offset that is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOffset {
    /// Go on at the first record there is.
    Earliest,
    /// End the process.
    Fail,
}

/// Settings of the worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// Partitions of the delay topic when the process started.
    pub partitions: i32,
    /// How often the settled prefix is committed.
    pub commit_every: Duration,
    /// How long a revoked partition waits for its acknowledgements.
    pub drain_timeout: Duration,
    /// How long a stop waits for acknowledgements.
    pub stop_timeout: Duration,
    /// What to do with a committed offset that is not in the log.
    pub missing_offset: MissingOffset,
    /// A lane that could go on and has not for this long is stuck.
    pub stuck_after: Duration,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// There is more to do at once.
    Busy,
    /// Nothing to do before this moment or the next event.
    Idle(Wakeup),
    /// Asked to stop, and everything is settled and committed that could be.
    Stopped,
}

/// The loop's state.
pub struct Worker<P: Port> {
    engine: Engine<P::Record>,
    port: P,
    commits: Commits,
    membership: Membership,
    watch: Watch,
    reporter: Reporter,
    missing_offset: MissingOffset,
    partitions: i32,
    /// A send for which the producer had no room.
    blocked_send: Option<Action>,
    sweep_at_ms: i64,
    status_at_ms: i64,
    /// Wall clock minus steady clock at the last pass.
    clock_offset_ms: Option<i64>,
    first_lane: usize,
    /// A pause between two passes longer than this may have cost the membership.
    freeze_ms: i64,
    last_pass_ms: Option<i64>,
    /// Nothing is handed on before this moment.
    frozen_until_ms: i64,
}

impl<P: Port> std::fmt::Debug for Worker<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Worker({:?})", self.membership)
    }
}

impl<P: Port> Worker<P> {
    /// A worker without partitions; the group's first rebalance brings them.
    pub fn new(config: WorkerConfig, port: P, reporter: Reporter) -> Self {
        let freeze_ms = i64::try_from(config.drain_timeout.as_millis()).unwrap_or(i64::MAX);
        Self {
            engine: Engine::new(config.engine),
            port,
            commits: Commits::new(config.commit_every),
            membership: Membership::new(config.drain_timeout, config.stop_timeout),
            watch: Watch::new(config.stuck_after),
            partitions: config.partitions,
            reporter,
            missing_offset: config.missing_offset,
            blocked_send: None,
            sweep_at_ms: 0,
            status_at_ms: 0,
            clock_offset_ms: None,
            first_lane: 0,
            freeze_ms,
            last_pass_ms: None,
            frozen_until_ms: 0,
        }
    }

    /// Runs passes until `stop` says so and everything is drained, or until something fatal. Then
    /// the client can be closed.
    pub fn run(&mut self, clock: Clock, stop: impl Fn() -> bool) -> Result<(), WorkerError> {
        let ended = self.run_passes(clock, stop);
        if ended.is_err() {
            self.give_up();
        }
        ended
    }

    fn run_passes(&mut self, clock: Clock, stop: impl Fn() -> bool) -> Result<(), WorkerError> {
        let mut planned: Option<i64> = None;
        loop {
            let now = clock.now();
            if let Some(due_ms) = planned.take().filter(|due_ms| *due_ms <= now.wall_ms) {
                self.reporter.woke(clock.lateness(due_ms));
            }
            if stop() {
                self.stop(now);
            }
            match self.pass(now)? {
                Pass::Busy => {}
                Pass::Idle(wakeup) => {
                    let pause = clock.until(wakeup, SERVE_EVERY);
                    if !pause.is_zero() {
                        planned = wakeup.wall_ms;
                        std::thread::park_timeout(pause);
                    }
                }
                Pass::Stopped => return Ok(()),
            }
        }
    }

    /// Begins to stop: all partitions are drained and committed, as if revoked.
    pub fn stop(&mut self, now: Now) {
        if self.membership.begin_stop(now.steady_ms) {
            let partitions: Vec<i32> = self.engine.lanes().map(|lane| lane.partition).collect();
            for partition in partitions {
                self.engine.revoke(partition);
            }
        }
    }

    /// One pass of the loop.
    pub fn pass(&mut self, now: Now) -> Result<Pass, WorkerError> {
        self.notice_clock_step(now);
        self.reporter.polled(now);
        self.port.serve();
        let mut more = true;
        for _ in 0..EVENT_BURST {
            let Some(event) = self.port.next_event() else {
                more = false;
                break;
            };
            self.handle(event, now)?;
        }
        if now.steady_ms >= self.sweep_at_ms {
            self.sweep_at_ms = now.steady_ms + SWEEP_EVERY_MS;
            self.port.sweep();
        }
        let frozen = self.notice_freeze(now);
        if frozen {
            self.watch.forgive();
        } else {
            self.engine.advance(now);
            self.act(now)?;
            more |= self.read(now)?;
        }
        self.report();
        self.commits.tick(&self.engine, &mut self.port, now.steady_ms);
        if self.progress_membership(now)? == Progress::Stopped {
            return Ok(Pass::Stopped);
        }
        self.watch(now)?;
        if now.steady_ms >= self.status_at_ms {
            self.status_at_ms = now.steady_ms + STATUS_EVERY_MS;
            self.reporter.status(&self.engine, &self.membership, &self.watch, now);
        }
        if frozen {
            let steady_ms = Some(self.frozen_until_ms);
            return Ok(Pass::Idle(Wakeup { wall_ms: None, steady_ms }));
        }
        if more && self.blocked_send.is_none() {
            return Ok(Pass::Busy);
        }
        Ok(Pass::Idle(self.engine.next_wakeup(now.wall_ms)))
    }

    /// The engine, for tests that check its invariants.
    pub fn engine(&self) -> &Engine<P::Record> {
        &self.engine
    }

    /// The edge, for tests that drive it.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn handle(&mut self, event: Event, now: Now) -> Result<(), WorkerError> {
        match event {
            Event::Delivered { ticket, result, took } => {
                self.reporter.delivered(&result, took);
                self.watch.word(now.steady_ms);
                self.engine.settled(ticket, result, now.steady_ms);
            }
            Event::Committed(result) => {
                self.reporter.committed(&result);
                self.commits.ended(&result, &mut self.engine);
            }
            Event::Assigned(partitions) => self.assigned(partitions, now)?,
            Event::Revoked { partitions, lost } => self.revoked(partitions, lost, now)?,
            Event::Located { request, located } => self.located(request, &located, now)?,
            Event::LogRanges(ranges) => {
                for range in &ranges {
                    self.engine.observe_end(range.partition, range.end, now.wall_ms);
                }
                self.reporter.log_ranges(&ranges);
            }
            Event::Probed { probe, could_go_on } => self.probed(&probe, could_go_on, now),
            Event::Error { client, code, text } => self.reporter.client_error(client, &code, &text),
            Event::Denied(cause) => return Err(WorkerError::Denied(cause)),
            Event::Fatal(cause) => return Err(WorkerError::Client(cause)),
        }
        Ok(())
    }

    /// Carries out what the engine wants, until the producer has no room.
    fn act(&mut self, now: Now) -> Result<(), WorkerError> {
        while let Some(action) = self.blocked_send.take().or_else(|| self.engine.next_action()) {
            match action {
                Action::Send(ticket) => {
                    let Some(outgoing) = self.engine.outgoing(ticket) else {
                        self.engine.abandoned(ticket, now.steady_ms);
                        continue;
                    };
                    match self.port.send(ticket, &outgoing) {
                        Ok(()) => self.reporter.sent(outgoing.due_ms, now.wall_ms),
                        Err(SendError::Full) => {
                            self.blocked_send = Some(action);
                            return Ok(());
                        }
                        Err(SendError::Refused(refusal)) => {
                            self.reporter.refused(&refusal);
                            self.engine.settled(ticket, Err(refusal), now.steady_ms);
                        }
                        Err(SendError::Fatal(cause)) => return Err(WorkerError::Client(cause)),
                    }
                }
                Action::Park { partition, offset } => match self.port.park(partition, offset) {
                    Ok(()) => {
                        self.engine.parked(partition);
                        self.reporter.parked();
                    }
                    Err(error) => self.reporter.call_failed(partition, &error),
                },
                Action::Unpark { partition, offset } => match self.port.unpark(partition, offset) {
                    Ok(()) => {
                        self.engine.unparked(partition);
                        self.reporter.unparked();
                    }
                    Err(error) => self.reporter.call_failed(partition, &error),
                },
            }
        }
        Ok(())
    }

    /// Reads records for lanes that want one. True when some lane used up its burst.
    fn read(&mut self, now: Now) -> Result<bool, WorkerError> {
        let lanes: Vec<i32> =
            self.engine.lanes().filter(|lane| lane.wants_record()).map(partition_of).collect();
        let mut more = false;
        self.first_lane = self.first_lane.wrapping_add(1);
        for turn in 0..lanes.len() {
            let partition = lanes[(self.first_lane + turn) % lanes.len()];
            let mut reads = 0;
            while self.blocked_send.is_none() && self.engine.wants_record(partition) {
                if reads == READ_BURST {
                    more = true;
                    break;
                }
                reads += 1;
                match self.port.next_record(partition) {
                    None => break,
                    Some(Fetched::OffsetGone) => {
                        self.offset_gone(partition);
                        break;
                    }
                    Some(Fetched::Record(record)) => {
                        let offered = self.engine.offer(partition, record, now.wall_ms);
                        if let Offered::Accepted(quality) = offered {
                            self.reporter.consumed(partition, quality);
                        }
                        self.engine.advance_lane(partition, now);
                        self.act(now)?;
                    }
                }
            }
        }
        Ok(more)
    }

    fn report(&mut self) {
        while let Some(notice) = self.engine.next_notice() {
            if let Notice::Forwarded { topic, .. } = &notice {
                self.watch.taken(topic);
            }
            self.reporter.notice(notice);
        }
    }
}

fn partition_of<R: crate::engine::Record>(lane: &Lane<R>) -> i32 {
    lane.partition
}
