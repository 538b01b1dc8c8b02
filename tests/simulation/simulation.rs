//! One seed from beginning to end: workers make passes, faults strike, and once they have ended
//! everything has to come out.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_delay::build_info::BuildInfo;
use kafka_delay::clock::Clock;
use kafka_delay::engine::{LevelTable, Now};
use kafka_delay::kafka::Event;
use kafka_delay::metrics::{Metrics, MetricsOptions};
use kafka_delay::status::{Health, SharedStatus, Status};
use kafka_delay::worker::{MissingOffset, Pass, Reporter, Worker, WorkerError};

use crate::client::Inbox;
use crate::port::SimPort;
use crate::scenario::{Fault, Scenario};
use crate::world::{Shared, Violation, What, World, note};

/// A worker that asks for the next pass at once this often, without anything moving, spins.
const SPINS: u32 = 20;

/// A stop ends within its own limits and this.
const STOP_SLACK_MS: i64 = 30_000;

/// What all workers of this process report to; nobody reads it.
pub struct Reports(Arc<Metrics>);

impl Reports {
    pub fn new() -> Self {
        let delays: Vec<Duration> = (1..=4).map(Duration::from_secs).collect();
        let options = MetricsOptions {
            levels: &LevelTable::new(&delays).unwrap(),
            lateness_buckets_seconds: &[1.0],
            per_topic_limit: None,
            config_sha256: "",
            build: &BuildInfo::new(String::new()),
        };
        Self(Arc::new(Metrics::new(&prometheus::Registry::new(), &options).unwrap()))
    }
}

/// What a run was like.
#[derive(Debug)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub passes: u64,
    pub records: usize,
    pub repeated: u64,
    pub simulated_ms: i64,
    pub trace: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Records come, faults strike.
    Active,
    /// Faults have ended; everything has to come out by the deadline.
    Healing { deadline_ms: i64 },
    /// Everybody was asked to stop.
    Stopping { deadline_ms: i64 },
}

struct Simulation<'a> {
    world: Shared,
    workers: Vec<Option<Worker<SimPort>>>,
    spins: Vec<u32>,
    reports: &'a Reports,
    phase: Phase,
    passes: u64,
}

/// Runs one seed.
pub fn run(seed: u64, traced: bool, reports: &Reports) -> Outcome {
    let world = World::new(Scenario::new(seed), traced);
    let mut simulation = Simulation {
        world: Rc::new(RefCell::new(world)),
        workers: Vec::new(),
        spins: Vec::new(),
        reports,
        phase: Phase::Active,
        passes: 0,
    };
    while simulation.step() {}
    let mut world = simulation.world.borrow_mut();
    Outcome {
        violation: world.violation.take(),
        passes: simulation.passes,
        records: world.ledger.fates.len(),
        repeated: world.ledger.repeated,
        simulated_ms: world.now,
        trace: world.trace.take().unwrap_or_default(),
    }
}

impl Simulation<'_> {
    /// Handles one event. False at the end.
    fn step(&mut self) -> bool {
        let Some(what) = self.world.borrow_mut().next() else { return false };
        match what {
            What::Start(host) => self.start(host),
            What::Pass { client, token } => self.pass(client, token),
            What::Fault(fault) => self.strike(fault),
            what => self.world.borrow_mut().handle(what),
        }
        self.progress() && self.world.borrow().violation.is_none()
    }

    /// From one phase to the next. False when all is over.
    fn progress(&mut self) -> bool {
        match self.phase {
            Phase::Active => {
                let mut world = self.world.borrow_mut();
                if world.now >= world.scenario.active_ms {
                    let deadline_ms = world.heal();
                    self.phase = Phase::Healing { deadline_ms };
                }
                true
            }
            Phase::Healing { deadline_ms } => {
                let left = self.world.borrow().left();
                let now = self.world.borrow().now;
                if left.is_none() {
                    self.stop_all();
                } else if let Some(left) = left.filter(|_| now > deadline_ms) {
                    let mut world = self.world.borrow_mut();
                    for client in 0..world.clients.len() {
                        if world.clients[client].alive {
                            let engine = self.workers[client].as_ref().unwrap().engine();
                            let lanes: Vec<_> = engine.lanes().collect();
                            note!(world, "{client}: {lanes:?}");
                        }
                    }
                    world.fail("G4", format!("{left}, long after all faults"));
                }
                true
            }
            Phase::Stopping { deadline_ms } => {
                let mut world = self.world.borrow_mut();
                if world.now > deadline_ms {
                    world.fail("G4", "a stop does not end".to_owned());
                }
                world.clients.iter().any(|client| client.alive)
            }
        }
    }

    fn stop_all(&mut self) {
        let (now, timeout_ms) = {
            let mut world = self.world.borrow_mut();
            note!(world, "everything is out and committed; all stop");
            (world.now, world.scenario.stop_timeout_ms)
        };
        self.phase = Phase::Stopping { deadline_ms: now + timeout_ms + STOP_SLACK_MS };
        for client in 0..self.workers.len() {
            self.stop(client);
        }
    }

    fn start(&mut self, host: usize) {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        let client = self.world.borrow_mut().start_client(host);
        let world = self.world.borrow();
        let first = client < world.scenario.hosts;
        // After the end of a process that found records missing, the operator lets it go on.
        let missing_offset =
            if first { world.scenario.missing_offset } else { MissingOffset::Earliest };
        let reporter = Reporter::new(
            Arc::clone(&self.reports.0),
            SharedStatus::new(Status::default()),
            Arc::new(Health::new(0)),
            Clock::start(),
            world.scenario.levels(),
            i32::try_from(world.scenario.partitions).unwrap(),
        );
        let port = SimPort::new(client, Rc::clone(&self.world));
        self.workers.push(Some(Worker::new(world.scenario.worker(missing_offset), port, reporter)));
        self.spins.push(0);
    }

    fn now(&self, client: usize) -> Now {
        let world = self.world.borrow();
        Now { wall_ms: world.wall(client), steady_ms: world.steady(client) }
    }

    fn stop(&mut self, client: usize) {
        let now = self.now(client);
        let Some(worker) = &mut self.workers[client] else { return };
        worker.stop(now);
        let mut world = self.world.borrow_mut();
        note!(world, "{client}: asked to stop");
        let time = world.now;
        world.clients[client].stopping_ms.get_or_insert(time);
        world.clients[client].commit_trouble = false;
        world.wake(client, 0);
    }

    fn pass(&mut self, client: usize, token: u64) {
        {
            let mut world = self.world.borrow_mut();
            let wall = world.wall(client);
            let now = world.now;
            let this = &mut world.clients[client];
            if token != this.pass_token || !this.alive {
                return;
            }
            this.next_pass = None;
            if this.frozen_until.is_some_and(|until| until > now) {
                return; // It wakes with the thaw.
            }
            this.pass_wall = wall;
            this.moved = false;
        }
        self.passes += 1;
        let now = self.now(client);
        let worker = self.workers[client].as_mut().unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| worker.pass(now)));
        let mut world = self.world.borrow_mut();
        world.pass_ended(client);
        if world.clients[client].dies_after.is_some() {
            drop(world);
            self.die(client);
            return;
        }
        match result {
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                world.fail("panic", text.unwrap_or_default());
            }
            Ok(Err(error)) => {
                note!(world, "{client}: ends: {error}");
                let expected = match error {
                    WorkerError::Client(_) => {
                        world.scenario.has(Fault::Crashes) || world.may_end(client)
                    }
                    WorkerError::MissingOffset { .. } => {
                        world.scenario.missing_offset == MissingOffset::Fail
                            && (world.scenario.has(Fault::Retention)
                                || world.scenario.has(Fault::Recreation))
                    }
                    WorkerError::Call(_)
                    | WorkerError::PartitionsAdded(_)
                    | WorkerError::Stuck { .. } => false,
                };
                if !expected {
                    world.fail("contract", format!("{client} ends: {error}"));
                }
                drop(world);
                self.die(client);
            }
            Ok(Ok(Pass::Stopped)) => {
                drop(world);
                self.stopped(client);
            }
            Ok(Ok(Pass::Busy)) => {
                drop(world);
                self.sleep(client, 0);
            }
            Ok(Ok(Pass::Idle(wakeup))) => {
                drop(world);
                let wall = wakeup.wall_ms.map(|wall_ms| wall_ms.saturating_sub(now.wall_ms));
                let steady =
                    wakeup.steady_ms.map(|steady_ms| steady_ms.saturating_sub(now.steady_ms));
                let longest = self.longest_sleep(client);
                let pause = wall.into_iter().chain(steady).fold(longest, i64::min);
                self.sleep(client, pause.max(0));
            }
        }
    }

    /// How long the worker sleeps at most. The real loop never sleeps for longer than 20 ms; while
    /// nothing can happen that would only cost time here.
    fn longest_sleep(&self, client: usize) -> i64 {
        let world = self.world.borrow();
        let this = &world.clients[client];
        let engine = self.workers[client].as_ref().unwrap().engine();
        let quiet = this.inbox.is_empty()
            && this.outstanding.is_empty()
            && this.stopping_ms.is_none()
            && this.producer.len() == 0
            && this.transactions.call.is_none()
            && engine.in_flight().0 == 0
            && engine.uncommitted().next().is_none()
            && !this.fetchers.iter().any(crate::fetch::Fetcher::is_silent);
        if quiet { world.scenario.session_ms / 4 } else { world.scenario.serve_ms }
    }

    fn sleep(&mut self, client: usize, pause_ms: i64) {
        let mut world = self.world.borrow_mut();
        let moved = world.clients[client].moved;
        let spins = &mut self.spins[client];
        *spins = if pause_ms > 0 || moved { 0 } else { *spins + 1 };
        if *spins > SPINS {
            world.fail("G7", format!("{client} spins: it asks for passes in which nothing moves"));
        }
        // A pass takes some time.
        let pause_ms = pause_ms.max(i64::from(*spins > 0));
        world.wake(client, pause_ms);
    }

    /// The process died.
    fn die(&mut self, client: usize) {
        self.workers[client] = None;
        let mut world = self.world.borrow_mut();
        note!(world, "{client}: dies");
        world.end_client(client);
        let this = &world.clients[client];
        let had: Vec<usize> = this.owned.union(&this.held).copied().collect();
        let host = this.host;
        for partition in had {
            world.soil(partition);
        }
        let session_ms = world.scenario.session_ms;
        let silent_ms = world.now;
        world.after(session_ms, What::Expire { client, silent_ms });
        let pause = world.rng.i64(100..session_ms * 3 / 2);
        world.after(pause, What::Start(host));
    }

    /// The process ended as asked, and leaves the group.
    fn stopped(&mut self, client: usize) {
        self.workers[client] = None;
        let mut world = self.world.borrow_mut();
        note!(world, "{client}: has stopped");
        let waited = world.now - world.clients[client].stopping_ms.unwrap_or(world.now);
        let timed_out = waited >= world.scenario.stop_timeout_ms;
        if !timed_out && world.has_open_transaction(client) {
            world.fail("G4", format!("{client} stops with its transaction open"));
        }
        for partition in world.clients[client].held.clone() {
            world.check_handover(client, partition, timed_out);
        }
        world.end_client(client);
        world.evict(client);
        let host = world.clients[client].host;
        let pause = world.rng.i64(10..3_000);
        world.after(pause, What::Start(host));
    }

    fn strike(&mut self, fault: Fault) {
        let mut world = self.world.borrow_mut();
        if world.healed {
            return;
        }
        let alive: Vec<usize> =
            (0..world.clients.len()).filter(|client| world.clients[*client].alive).collect();
        let victim = (!alive.is_empty()).then(|| alive[world.rng.usize(0..alive.len())]);
        note!(world, "fault: {fault:?}");
        match (fault, victim) {
            (Fault::Crashes, Some(client)) => {
                if world.rng.u32(0..5) == 0 {
                    let event = Event::Fatal("simulated".to_owned());
                    world.clients[client].inbox.push_back(Inbox::Other(event));
                } else {
                    world.clients[client].dies_after = Some(world.rng.u32(0..4));
                }
                world.wake(client, 0);
            }
            (Fault::Stops, Some(client)) => {
                drop(world);
                self.stop(client);
            }
            (fault, victim) => world.strike(fault, victim),
        }
    }
}
