//! The loop between Kafka and the engine: events in, actions out, nothing decided here.
//!
//! One pass: serve the client's callbacks, handle what happened, let the engine do what is due,
//! read records for lanes that want one, commit what is settled, say when to come back. Passes
//! never block; between them the engine thread sleeps until a due time or an event, at most for
//! [`SERVE_EVERY`].

mod commits;
mod config;
mod gaps;
mod membership;
mod report;
mod snapshot;
#[cfg(test)]
mod tests;
mod transactions;
mod watch;

use std::time::Duration;

use crate::clock::Clock;
use crate::engine::{Action, Engine, Now, Offered, Wakeup};
use crate::kafka::{Event, Fetched, Port, SendError};

use commits::{Cadence, Commits};
pub use config::{MissingOffset, WorkerConfig, WorkerError};
use gaps::Gaps;
use membership::{Membership, Progress};
pub use report::Reporter;
use transactions::Transactions;
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
    /// A send for which the producer or the open transaction has no room.
    blocked_send: Option<Action>,
    sweep_at_ms: i64,
    status_at_ms: i64,
    gaps: Gaps,
    first_lane: usize,
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
        let commit_ms = i64::try_from(config.commit_every.as_millis()).unwrap_or(i64::MAX);
        let commits = if config.engine.transactional {
            Commits::Transactions(Transactions::new(commit_ms))
        } else {
            Commits::Cadence(Cadence::new(commit_ms))
        };
        Self {
            engine: Engine::new(config.engine),
            port,
            commits,
            membership: Membership::new(config.drain_timeout, config.stop_timeout),
            watch: Watch::new(config.stuck_after),
            partitions: config.partitions,
            reporter,
            missing_offset: config.missing_offset,
            blocked_send: None,
            sweep_at_ms: 0,
            status_at_ms: 0,
            gaps: Gaps::new(freeze_ms),
            first_lane: 0,
        }
    }

    /// Runs passes until `stop` says so and everything is drained, or until something fatal. Then
    /// the client can be closed.
    pub fn run(&mut self, clock: Clock, stop: impl Fn() -> bool) -> Result<(), WorkerError> {
        let ended = self.run_passes(clock, stop);
        // librdkafka leaves the group only after the answer; a broken client may refuse it.
        if ended.is_err()
            && let Err(error) = self.answer_pending()
        {
            tracing::debug!(%error, "the last rebalance stays without an answer");
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
        let frozen = self.notice_gaps(now);
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
        if frozen.is_none() {
            self.engine.advance(now);
            self.act(now)?;
            more |= self.read(now)?;
        }
        self.report();
        self.commits.tick(&self.engine, &mut self.port, now.steady_ms, !more);
        if self.progress_membership(now)? == Progress::Stopped {
            return Ok(Pass::Stopped);
        }
        self.watch(now)?;
        if now.steady_ms >= self.status_at_ms {
            self.status_at_ms = now.steady_ms + STATUS_EVERY_MS;
            self.reporter.status(&self.engine, &self.membership, &self.watch, now);
        }
        if frozen.is_some() {
            return Ok(Pass::Idle(Wakeup { wall_ms: None, steady_ms: frozen }));
        }
        if more && self.blocked_send.is_none() {
            return Ok(Pass::Busy);
        }
        let mut wakeup = self.engine.next_wakeup(now.wall_ms);
        let commits_ms = self.commits.wakeup_ms(now.steady_ms);
        wakeup.steady_ms = wakeup.steady_ms.into_iter().chain(commits_ms).min();
        Ok(Pass::Idle(wakeup))
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
                self.commits.delivered(&result, now.steady_ms);
                self.watch.word(now.steady_ms);
                self.engine.settled(ticket, result, now.steady_ms);
            }
            Event::Committed(result) => {
                self.reporter.committed(&result);
                let (engine, port) = (&mut self.engine, &mut self.port);
                if let Some(ended) = self.commits.ended(result.is_ok(), engine, port, now.steady_ms)
                {
                    self.reporter.transaction_committed(ended);
                }
            }
            Event::Opened(result) => {
                if let Some(open) = self.commits.transactions() {
                    open.opened(result.is_ok(), &mut self.port);
                }
            }
            Event::Aborted(cause) => {
                self.reporter.aborted(cause.as_ref());
                self.watch.transaction_ended();
                if let Some(action) = self.blocked_send.take() {
                    self.engine.put_back(action);
                }
                if let Some(open) = self.commits.transactions() {
                    open.aborted(cause.as_ref(), &mut self.engine, now.steady_ms);
                }
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
                    if self.engine.must_wait(ticket, now.wall_ms) {
                        self.engine.postpone(ticket, now.steady_ms);
                        continue;
                    }
                    let (engine, port) = (&self.engine, &mut self.port);
                    if !self.commits.admits(engine, port, ticket, now.steady_ms) {
                        self.blocked_send = Some(action);
                        return Ok(());
                    }
                    match self.port.send(ticket, &outgoing) {
                        Ok(()) => {
                            self.reporter.sent(outgoing.due_ms, now.wall_ms);
                            self.commits.sent(ticket, now.steady_ms);
                        }
                        Err(error @ (SendError::Full | SendError::TransactionFailed)) => {
                            if error == SendError::TransactionFailed {
                                self.commits.fail();
                            }
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
        let wanting = self.engine.lanes().filter(|lane| lane.wants_record());
        let lanes: Vec<i32> = wanting.map(|lane| lane.partition).collect();
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
}
