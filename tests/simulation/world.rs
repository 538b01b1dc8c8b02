//! Everything outside the worker: brokers, network, clients, time. One queue of events drives it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use fastrand::Rng;
use kafka_delay::engine::Ticket;
use kafka_delay::kafka::{Event, Located};

use crate::client::{Client, Inbox};
use crate::fetch::Fetcher;
use crate::group::{Committed, Group};
use crate::ledger::Ledger;
use crate::log::Log;
use crate::produce::{LaneKey, Topic};
use crate::record::RecordId;
use crate::scenario::{Fault, Scenario};
use crate::transaction::Coordinator;

/// What the wall clocks read when a simulation begins.
pub const START_MS: i64 = 1_800_000_000_000;

/// The worker's ports and the simulation share the world.
pub type Shared = Rc<RefCell<World>>;

/// A broken guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `G1` to `G8`, or what else was wrong.
    pub guarantee: &'static str,
    pub text: String,
}

/// Something that will happen at some moment.
#[derive(Debug, Clone)]
pub enum What {
    /// A process starts on a host.
    Start(usize),
    /// A worker makes a pass.
    Pass {
        client: usize,
        token: u64,
    },
    /// Somebody produces to the delay topic.
    Append {
        partition: usize,
        count: usize,
    },
    /// The answer to a fetch.
    Fetched {
        client: usize,
        partition: usize,
        number: u64,
    },
    /// A batch of one producer reaches the leader of one partition.
    Batch {
        client: usize,
        lane: LaneKey,
    },
    /// Something reaches a client's queue of events.
    Deliver {
        client: usize,
        inbox: Inbox,
    },
    /// The next commit of a member reaches the coordinator.
    Commit {
        client: usize,
    },
    /// The next step of the call that ends, or makes known, a transaction.
    Call {
        client: usize,
    },
    /// The markers of a transaction are written.
    Markers {
        host: usize,
    },
    /// A transaction is too old.
    TransactionTimeout {
        host: usize,
        number: u64,
    },
    /// A lookup asks for commits, then for log ends.
    LookUpCommits {
        client: usize,
        request: u64,
        partitions: Vec<usize>,
    },
    LookUpRanges {
        client: usize,
        request: u64,
        committed: Vec<Committed>,
    },
    /// The lookup of log ends that comes at intervals.
    Ranges {
        client: usize,
    },
    /// A member asks to join.
    Join {
        client: usize,
    },
    /// All members have joined: the coordinator answers.
    Sync {
        round: u64,
    },
    /// A member learns its assignment.
    Synced {
        client: usize,
        generation: u32,
        revoked: Vec<usize>,
        added: Vec<usize>,
    },
    /// A member meets its next rebalance event.
    NextRebalance {
        client: usize,
    },
    /// A member's session ends.
    Expire {
        client: usize,
        silent_ms: i64,
    },
    /// A member that was dropped learns of it.
    Notice {
        client: usize,
    },
    /// A member heard nothing from the coordinator for a session.
    SessionOver {
        client: usize,
    },
    /// A frozen process goes on.
    Thaw {
        client: usize,
    },
    /// One of the plan's faults.
    Fault(Fault),
}

/// The state of the world.
pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    /// True time since the start.
    pub now: i64,
    events: BTreeMap<(i64, u64), What>,
    next_event: u64,
    pub logs: Vec<Log>,
    pub topics: Vec<Topic>,
    pub group: Group,
    /// Of each host's transactional id.
    pub coordinators: Vec<Coordinator>,
    pub clients: Vec<Client>,
    /// How far the wall clock of each host is ahead.
    pub clocks: Vec<Clock>,
    pub set_back: Vec<SetBack>,
    pub ledger: Ledger,
    /// The highest offset that readers of committed records saw, by process, partition and
    /// assignment, and by destination.
    pub visible: HashMap<((usize, usize, u32), LaneKey), i64>,
    /// No broker answers before this moment.
    pub dark_until: i64,
    /// Faults happen only before this.
    pub healed: bool,
    pub violation: Option<Violation>,
    pub trace: Option<Vec<String>>,
}

/// The wall clock of one host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    pub ahead_ms: i64,
    pub drift_ppm: i64,
}

/// A wall clock that was set back.
#[derive(Debug, Clone, Copy)]
pub struct SetBack {
    pub host: usize,
    /// True time.
    pub at_ms: i64,
    /// What it read before.
    pub wall_ms: i64,
}

/// Writes a line of the trace, if there is one.
macro_rules! note {
    ($world:expr, $($arg:tt)*) => {
        if $world.trace.is_some() {
            let line = format!($($arg)*);
            $world.note(line);
        }
    };
}
pub(crate) use note;

impl World {
    /// The world before anything happened.
    pub fn new(scenario: Scenario, traced: bool) -> Self {
        let rng = Rng::with_seed(scenario.seed ^ 0x5eed_5eed_5eed_5eed);
        let partitions = scenario.partitions;
        let clocks = vec![Clock::default(); scenario.hosts];
        let mut world = Self {
            rng,
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            logs: vec![Log::default(); partitions],
            topics: Vec::new(),
            group: Group::new(partitions),
            coordinators: (0..scenario.hosts).map(|_| Coordinator::default()).collect(),
            clients: Vec::new(),
            clocks,
            set_back: Vec::new(),
            ledger: Ledger::new(partitions),
            visible: HashMap::new(),
            dark_until: 0,
            healed: false,
            violation: None,
            trace: traced.then(Vec::new),
            scenario,
        };
        world.make_topics();
        world.plan();
        world
    }

    pub fn note(&mut self, line: String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} s  {line}", now as f64 / 1_000.0));
        }
    }

    /// Notes the first broken guarantee.
    pub fn fail(&mut self, guarantee: &'static str, text: String) {
        note!(self, "!! {guarantee} broken: {text}");
        self.violation.get_or_insert(Violation { guarantee, text });
    }

    pub fn has(&self, fault: Fault) -> bool {
        !self.healed && self.scenario.has(fault)
    }

    /// True with the given share, when faults of this kind happen.
    pub fn strikes(&mut self, fault: Fault, percent: u32) -> bool {
        self.has(fault) && self.rng.u32(0..100) < percent
    }

    /// Time for one way through the network.
    pub fn latency(&mut self) -> i64 {
        if self.scenario.calm || self.healed {
            return self.rng.i64(1..4);
        }
        if self.rng.u32(0..20) == 0 { self.rng.i64(20..400) } else { self.rng.i64(1..20) }
    }

    pub fn at(&mut self, time: i64, what: What) {
        self.next_event += 1;
        self.events.insert((time.max(self.now), self.next_event), what);
    }

    pub fn after(&mut self, pause_ms: i64, what: What) {
        self.at(self.now + pause_ms, what);
    }

    /// Offsets on their way to the coordinator.
    pub fn commits_under_way(&self, partition: usize) -> Vec<i64> {
        let commits = self.clients.iter().flat_map(|client| &client.commits);
        let all = commits.flat_map(|commit| &commit.offsets);
        let all = all.filter(|commit| commit.partition == partition);
        all.flat_map(Committed::offsets).collect()
    }

    /// Commits that lookups under way have seen.
    pub fn lookups_under_way(&self, partition: usize) -> Vec<i64> {
        let mut seen = Vec::new();
        let mut note_inbox = |inbox: &Inbox| {
            if let Inbox::Other(Event::Located { located, .. }) = inbox {
                let of = |at: &&Located| usize::try_from(at.partition).unwrap() == partition;
                seen.extend(located.iter().filter(of).filter_map(|at| at.committed));
            }
        };
        self.clients.iter().flat_map(|client| &client.inbox).for_each(&mut note_inbox);
        for what in self.events.values() {
            if let What::Deliver { inbox, .. } = what {
                note_inbox(inbox);
            }
        }
        for what in self.events.values() {
            if let What::LookUpRanges { committed, .. } = what {
                let of = committed.iter().filter(|commit| commit.partition == partition);
                seen.extend(of.flat_map(Committed::offsets));
            }
        }
        seen
    }

    /// Goes on to the next event.
    pub fn next(&mut self) -> Option<What> {
        let ((time, _), what) = self.events.pop_first()?;
        self.now = time;
        Some(what)
    }

    /// True when no broker answers; `what` then happens when they are back.
    pub fn in_the_dark(&mut self, what: &What) -> bool {
        let dark = self.now < self.dark_until;
        if dark {
            let time = self.dark_until + self.rng.i64(1..200);
            self.at(time, what.clone());
        }
        dark
    }

    /// The wall clock as a client reads it.
    pub fn wall(&self, client: usize) -> i64 {
        self.wall_of(self.clients[client].host)
    }

    pub fn wall_of(&self, host: usize) -> i64 {
        let clock = self.clocks[host];
        START_MS + self.now + clock.ahead_ms + self.now * clock.drift_ppm / 1_000_000
    }

    /// Sets the wall clock of a host.
    pub fn set_clock(&mut self, host: usize, clock: Clock) {
        let wall_ms = self.wall_of(host);
        self.clocks[host] = clock;
        if self.wall_of(host) < wall_ms {
            self.set_back.push(SetBack { host, at_ms: self.now, wall_ms });
        }
    }

    /// Time on the steady clock of a client's process.
    pub fn steady(&self, client: usize) -> i64 {
        self.now - self.clients[client].started_ms
    }

    /// Handles everything that is no matter of a worker.
    pub fn handle(&mut self, what: What) {
        if let Some(thaw) = self.frozen_until(&what) {
            self.at(thaw, what);
            return;
        }
        match &what {
            What::Fetched { .. }
            | What::Commit { .. }
            | What::Call { .. }
            | What::LookUpCommits { .. }
            | What::LookUpRanges { .. }
            | What::Ranges { .. }
            | What::Join { .. }
            | What::Sync { .. }
                if self.in_the_dark(&what) =>
            {
                return;
            }
            // A transactional producer gives records up while it waits.
            What::Batch { .. } if !self.scenario.exactly_once && self.in_the_dark(&what) => return,
            _ => {}
        }
        match what {
            What::Append { partition, count } => self.append(partition, count),
            What::Fetched { client, partition, number } => self.fetched(client, partition, number),
            What::Batch { client, lane } => self.batch(client, lane),
            What::Deliver { client, inbox } => self.deliver(client, inbox),
            What::Commit { client } => self.commit_arrived(client),
            What::Call { client } => self.call(client),
            What::Markers { host } => self.markers(host),
            What::TransactionTimeout { host, number } => self.transaction_timeout(host, number),
            What::LookUpCommits { client, request, partitions } => {
                self.look_up_commits(client, request, &partitions);
            }
            What::LookUpRanges { client, request, committed } => {
                self.look_up_ranges(client, request, &committed);
            }
            What::Ranges { client } => self.report_ranges(client),
            What::Join { client } => self.join(client),
            What::Sync { round } => self.sync(round),
            What::Synced { client, generation, revoked, added } => {
                self.synced(client, generation, revoked, added);
            }
            What::NextRebalance { client } => self.next_rebalance(client),
            What::Expire { client, silent_ms } => self.expire(client, silent_ms),
            What::Notice { client } => self.notice_loss(client),
            What::SessionOver { client } => self.session_over(client),
            What::Thaw { client } => self.thaw(client),
            What::Start(_) | What::Pass { .. } | What::Fault(_) => {
                unreachable!("the simulation handles these")
            }
        }
    }

    /// Whether `what` is something that a frozen process would have to do, and until when it is.
    fn frozen_until(&mut self, what: &What) -> Option<i64> {
        let client = match what {
            What::Fetched { client, .. }
            | What::Deliver { client, .. }
            | What::LookUpCommits { client, .. }
            | What::LookUpRanges { client, .. }
            | What::Ranges { client }
            | What::Join { client }
            | What::Synced { client, .. }
            | What::NextRebalance { client }
            | What::SessionOver { client }
            | What::Notice { client } => *client,
            // On its way already, or still in the process.
            What::Batch { client, .. } if self.rng.bool() => *client,
            What::Call { client } if !self.clients[*client].transactions.is_on_its_way() => *client,
            _ => return None,
        };
        self.clients[client].frozen_until.filter(|until| *until > self.now)
    }

    /// Something reaches the queue that the worker reads events from.
    fn deliver(&mut self, client: usize, inbox: Inbox) {
        if !self.clients[client].alive {
            return;
        }
        if let Inbox::Delivered { .. } = inbox {
            self.clients[client].producer.reports -= 1;
        }
        self.clients[client].inbox.push_back(inbox);
        self.wake(client, 0);
    }

    /// The worker of `client` makes its next pass in `pause_ms`, or earlier if that was planned.
    pub fn wake(&mut self, client: usize, pause_ms: i64) {
        let time = self.now + pause_ms;
        let this = &mut self.clients[client];
        if !this.alive || this.next_pass.is_some_and(|planned| planned <= time) {
            return;
        }
        this.next_pass = Some(time);
        this.pass_token += 1;
        let token = this.pass_token;
        self.at(time, What::Pass { client, token });
    }

    /// A new process on `host`: its index among the clients.
    pub fn start_client(&mut self, host: usize) -> usize {
        let client = self.clients.len();
        let partitions = self.scenario.partitions;
        let fetchers = vec![Fetcher::default(); partitions];
        self.clients.push(Client::new(host, self.now, fetchers));
        note!(self, "host {host}: process {client} starts");
        let init = if self.scenario.exactly_once { self.init_transactions(client) } else { 0 };
        let pause = init + self.latency();
        self.after(pause, What::Join { client });
        self.after(pause + 5, What::Ranges { client });
        self.wake(client, 0);
        client
    }

    /// A process is gone; what its producer had arrives in part.
    pub fn end_client(&mut self, client: usize) {
        self.clients[client].alive = false;
        self.clients[client].frozen_until = None;
        self.producer_dies(client);
    }

    /// The next event for the worker of `client`, noted as told.
    pub fn next_inbox(&mut self, client: usize) -> Option<Event> {
        let inbox = self.clients[client].inbox.pop_front()?;
        self.clients[client].moved = true;
        Some(match inbox {
            Inbox::Rebalance(event) => {
                note!(self, "{client}: told {event:?}");
                self.told(client, &event);
                event
            }
            Inbox::Delivered { ticket, record, dead_letter, result } => {
                note!(self, "{client}: report {} {result:?}", self.name(record));
                self.reported(client, ticket, record, dead_letter, &result);
                Event::Delivered { ticket, result, took: std::time::Duration::ZERO }
            }
            Inbox::Other(event) => {
                if !matches!(event, Event::LogRanges(_)) {
                    note!(self, "{client}: told {event:?}");
                }
                if self.scenario.exactly_once {
                    self.told_end(client, &event);
                }
                if let Event::Committed(Err(_)) = &event {
                    self.clients[client].commit_trouble = true;
                }
                if let Event::LogRanges(ranges) = &event {
                    let wall = self.clients[client].pass_wall;
                    for range in ranges {
                        let slot = usize::try_from(range.partition).unwrap();
                        self.clients[client].known[slot].push((range.end, wall));
                    }
                }
                event
            }
        })
    }

    /// A record for people: `2/17` is offset 17 of partition 2.
    pub fn name(&self, record: RecordId) -> String {
        let fate = &self.ledger.fates[record];
        format!("{}/{}", fate.partition, fate.offset)
    }
}

/// The partition of a ticket as an index.
pub fn partition_of(ticket: Ticket) -> usize {
    usize::try_from(ticket.partition).unwrap()
}
