//! One process as the brokers and librdkafka see it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use kafka_delay::engine::{Ahead, Refusal, RejectReason, Ticket};
use kafka_delay::kafka::Event;

use crate::checks::{Order, OrderKey};
use crate::fetch::Fetcher;
use crate::group::{CommitRequest, Rebalance};
use crate::produce::Producer;
use crate::record::RecordId;
use crate::transaction::Transactions;

/// What waits for the worker to read it.
#[derive(Debug, Clone)]
pub enum Inbox {
    /// Assigned or revoked.
    Rebalance(Event),
    /// A delivery report.
    Delivered { ticket: Ticket, record: RecordId, dead_letter: bool, result: Result<(), Refusal> },
    /// Anything else.
    Other(Event),
}

/// How far a send of one assignment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendState {
    UnderWay,
    Refused,
    Acknowledged,
}

/// A process.
#[derive(Debug)]
pub struct Client {
    pub host: usize,
    pub started_ms: i64,
    pub alive: bool,
    /// Since when it stands still, and until when.
    pub frozen_ms: Option<i64>,
    pub frozen_until: Option<i64>,
    /// After this many more calls of the port, nothing the worker does has an effect: it died.
    pub dies_after: Option<u32>,
    /// When it woke from a freeze that was longer than half a session.
    pub thawed_ms: Option<i64>,
    pub next_pass: Option<i64>,
    pub pass_token: u64,
    /// What the wall clock read at the pass that is being made.
    pub pass_wall: i64,
    /// Whether the pass did or learnt anything.
    pub moved: bool,
    pub inbox: VecDeque<Inbox>,

    /// The generation it believes in.
    pub generation: u32,
    /// It has joined, and the answer is on its way.
    pub awaits_sync: bool,
    /// What the group gave it.
    pub owned: BTreeSet<usize>,
    /// What librdkafka has as assigned.
    pub held: BTreeSet<usize>,
    /// Rebalance events that wait for the answer to the one before.
    pub rebalances: VecDeque<Rebalance>,
    /// Rebalance events without an answer.
    pub outstanding: VecDeque<Rebalance>,
    /// A partition that was unassigned to be assigned elsewhere in its log.
    pub relocating: Option<usize>,

    /// Partitions of which the worker was told that they are revoked, and when.
    pub revoked: BTreeMap<usize, i64>,
    /// The worker was told of a loss that it has not answered.
    pub lost: bool,
    /// When the worker was asked to stop.
    pub stopping_ms: Option<i64>,
    /// A commit was refused, late or not started since the last release began.
    pub commit_trouble: bool,
    /// Commits on their way. One connection carries them all, in order.
    pub commits: VecDeque<CommitRequest>,

    pub fetchers: Vec<Fetcher>,
    pub producer: Producer,
    pub transactions: Transactions,

    // What the checks know of this process.
    /// Log ends it was told of and when, since the assignment of each partition.
    pub known: Vec<Vec<(i64, i64)>>,
    /// When it first read a record, since the assignment: by its clock, and in truth.
    pub seen: HashMap<RecordId, (i64, i64)>,
    pub sends: HashMap<(u32, RecordId), SendState>,
    /// The assignment of each partition, as its last ticket named it.
    pub epochs: Vec<u32>,
    pub orders: HashMap<OrderKey, Order>,
    /// Refused records behind which others may still be sent that were handed on before.
    pub soft: Vec<(OrderKey, i64)>,
    /// Destinations that it was ever told are in trouble.
    pub troubled: BTreeSet<usize>,
    /// When it was first told of each kind of trouble at each destination.
    pub troubles: HashMap<(usize, RejectReason), i64>,
    /// Records taken out of queues and not settled, by partition and offset.
    pub taken: Vec<BTreeMap<i64, RecordId>>,
    /// What the last lookup said of records above each commit.
    pub ahead: Vec<Ahead>,
    /// The highest offset taken out of each queue.
    pub position: Vec<i64>,
    /// The moment of each partition's last send or assignment.
    pub ready_ms: Vec<i64>,
    /// The producer was full, and what was to be sent before may be sent late.
    pub backlogged: bool,
    pub was_full: bool,
    /// The pass tried to send something.
    pub sent: bool,
}

impl Client {
    pub fn new(host: usize, now: i64, fetchers: Vec<Fetcher>) -> Self {
        let partitions = fetchers.len();
        Self {
            host,
            started_ms: now,
            alive: true,
            frozen_ms: None,
            frozen_until: None,
            dies_after: None,
            thawed_ms: None,
            next_pass: None,
            pass_token: 0,
            pass_wall: 0,
            moved: false,
            inbox: VecDeque::new(),
            generation: 0,
            awaits_sync: false,
            owned: BTreeSet::new(),
            held: BTreeSet::new(),
            rebalances: VecDeque::new(),
            outstanding: VecDeque::new(),
            relocating: None,
            revoked: BTreeMap::new(),
            lost: false,
            stopping_ms: None,
            commit_trouble: false,
            commits: VecDeque::new(),
            fetchers,
            producer: Producer::default(),
            transactions: Transactions::default(),
            known: vec![Vec::new(); partitions],
            seen: HashMap::new(),
            sends: HashMap::new(),
            epochs: vec![0; partitions],
            orders: HashMap::new(),
            soft: Vec::new(),
            troubled: BTreeSet::new(),
            troubles: HashMap::new(),
            taken: vec![BTreeMap::new(); partitions],
            ahead: vec![Ahead::default(); partitions],
            position: vec![-1; partitions],
            ready_ms: vec![0; partitions],
            backlogged: false,
            was_full: false,
            sent: false,
        }
    }
}
