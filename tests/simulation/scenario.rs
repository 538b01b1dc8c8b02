//! What a seed decides before anything happens: settings, faults, load.

use std::time::Duration;

use fastrand::Rng;
use kafka_delay::engine::{DestinationPolicy, EngineConfig, LevelTable, RetryPolicy, TopicPattern};
use kafka_delay::worker::{MissingOffset, WorkerConfig};

/// Decides, with a seed, which guarantee is asked for: a choice of its own, so that the seeds of
/// one of them are the same runs whatever becomes of the other.
const GUARANTEES: u64 = 270;

/// The delay topic's name.
pub const SOURCE: &str = "delay_topic";

/// Kinds of faults. A seed switches some of them on, so that each is also seen without the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Delivery reports come late, in part later than any wait.
    LateReports,
    /// Destinations refuse batches in ways that pass.
    Transient,
    /// The producer's queue is short.
    FullProducer,
    /// Commits are late, refused, not started, or end without anybody knowing how.
    Commits,
    /// Members join and leave.
    Rebalances,
    /// The coordinator drops a member that learns of it later.
    Losses,
    /// Processes stand still, also for longer than their session.
    Freezes,
    /// Processes die.
    Crashes,
    /// Processes are asked to stop, and come back.
    Stops,
    /// Wall clocks are set by up to an hour, and drift.
    Clocks,
    /// Retention deletes records, settled or not.
    Retention,
    /// Offsets have gaps.
    Gaps,
    /// No broker answers for a while.
    Blackouts,
    /// Records that nobody can forward.
    Poison,
    /// Destinations that are missing, forbidden, created late, deleted.
    Destinations,
    /// The dead-letter topic is in trouble.
    DeadLetters,
    /// Calls that pause, resume and seek fail.
    Calls,
    /// Timestamps that are missing, zero, or in the future.
    Timestamps,
    /// Lookups are late or incomplete.
    Lookups,
    /// Records from below the position, announcements of records that get lost.
    Fetches,
    /// The group forgets its commits.
    Expiry,
    /// The delay topic is deleted and made anew.
    Recreation,
}

impl Fault {
    pub const ALL: [Self; 22] = [
        Self::LateReports,
        Self::Transient,
        Self::FullProducer,
        Self::Commits,
        Self::Rebalances,
        Self::Losses,
        Self::Freezes,
        Self::Crashes,
        Self::Stops,
        Self::Clocks,
        Self::Retention,
        Self::Gaps,
        Self::Blackouts,
        Self::Poison,
        Self::Destinations,
        Self::DeadLetters,
        Self::Calls,
        Self::Timestamps,
        Self::Lookups,
        Self::Fetches,
        Self::Expiry,
        Self::Recreation,
    ];
}

/// Everything that is fixed for a seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    faults: u32,
    /// No fault that could delay anything: lateness is checked to the millisecond.
    pub calm: bool,
    /// Sends and commits go in transactions.
    pub exactly_once: bool,
    /// How long the coordinator lets a transaction stay open.
    pub transaction_ms: i64,
    pub delays_ms: Vec<u64>,
    pub partitions: usize,
    /// Machines, each with a wall clock and one process.
    pub hosts: usize,
    /// Rebalances take everything from everybody, instead of what moves.
    pub eager: bool,
    pub session_ms: i64,
    pub stop_timeout_ms: i64,
    pub commit_every_ms: u64,
    pub park_after_ms: i64,
    pub wake_lead_ms: i64,
    pub grace_ms: i64,
    pub initial_backoff_ms: i64,
    pub max_backoff_ms: i64,
    pub max_bytes: usize,
    pub max_records: usize,
    pub dead_letter_topic: bool,
    pub drop_refused: bool,
    pub missing_offset: MissingOffset,
    /// How many records a fetch brings at most.
    pub fetch_records: usize,
    /// How many records the producer puts into one batch at most.
    pub batch_records: usize,
    /// How many records the producer holds at most.
    pub producer_records: usize,
    pub records: usize,
    /// How long records and faults come.
    pub active_ms: i64,
    /// How long the loop sleeps at most while something is going on.
    pub serve_ms: i64,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let calm = rng.u32(0..10) == 0;
        let mut guarantees = Rng::with_seed(seed ^ GUARANTEES);
        let share = rng.u32(1..=6);
        let mut faults = 0;
        for fault in Fault::ALL {
            let tolerable = matches!(fault, Fault::Gaps | Fault::Poison | Fault::Timestamps);
            let rare = matches!(fault, Fault::Recreation | Fault::Expiry);
            let wanted = rng.u32(0..10) < if rare { 1 } else { share };
            if wanted && (!calm || tolerable) {
                faults |= 1 << fault as u32;
            }
        }
        let tables: [&[u64]; 6] = [
            &[1_000],
            &[200, 1_000, 3_000],
            &[1_000, 5_000],
            &[1_000, 15_000, 60_000],
            &[2_000, 30_000],
            &[5_000, 3_600_000],
        ];
        let weights = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5];
        let delays_ms = tables[weights[rng.usize(0..weights.len())]].to_vec();
        let shards = if delays_ms.len() > 2 { 1 } else { rng.usize(1..=3) };
        let partitions = delays_ms.len() * shards;
        let wide = calm || rng.bool();
        let session_ms = *pick(&mut rng, &[4_000, 6_000, 10_000]);
        let dead_letters = rng.u32(0..20);
        Self {
            seed,
            faults,
            calm,
            exactly_once: guarantees.bool(),
            transaction_ms: *pick(&mut guarantees, &[5_000, 10_000]),
            delays_ms,
            partitions,
            hosts: rng.usize(1..=4),
            eager: rng.u32(0..4) == 0,
            session_ms,
            stop_timeout_ms: *pick(&mut rng, &[2_000, 5_000]),
            commit_every_ms: *pick(&mut rng, &[100, 500, 500, 2_000]),
            park_after_ms: *pick(&mut rng, &[2_000, 10_000]),
            wake_lead_ms: *pick(&mut rng, &[300, 1_500]),
            grace_ms: *pick(&mut rng, &[1_000, 5_000]),
            initial_backoff_ms: *pick(&mut rng, &[100, 200]),
            max_backoff_ms: *pick(&mut rng, &[1_000, 5_000]),
            max_bytes: if wide { 1 << 20 } else { *pick(&mut rng, &[2_000, 8_000]) },
            max_records: if wide { 1_000 } else { *pick(&mut rng, &[2, 5, 20]) },
            dead_letter_topic: calm || dead_letters > 2,
            drop_refused: matches!(dead_letters, 1..=4),
            missing_offset: if rng.u32(0..8) == 0 {
                MissingOffset::Fail
            } else {
                MissingOffset::Earliest
            },
            fetch_records: *pick(&mut rng, &[1, 3, 20]),
            batch_records: *pick(&mut rng, &[1, 4, 16]),
            producer_records: *pick(&mut rng, &[1, 3, 10]),
            records: rng.usize(10..120),
            active_ms: rng.i64(10_000..60_000),
            serve_ms: if calm { 20 } else { *pick(&mut rng, &[20, 20, 50, 200]) },
        }
    }

    /// Whether faults of a kind happen.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults & (1 << fault as u32) != 0
    }

    /// The kinds of faults that happen.
    pub fn faults(&self) -> Vec<Fault> {
        Fault::ALL.into_iter().filter(|fault| self.has(*fault)).collect()
    }

    /// The delay of a partition's level.
    pub fn delay_ms(&self, partition: usize) -> i64 {
        i64::try_from(self.delays_ms[partition % self.delays_ms.len()]).unwrap()
    }

    pub fn longest_ms(&self) -> i64 {
        self.delay_ms(self.delays_ms.len() - 1)
    }

    pub fn drain_timeout_ms(&self) -> i64 {
        self.session_ms / 2
    }

    pub fn levels(&self) -> LevelTable {
        let delays: Vec<Duration> =
            self.delays_ms.iter().map(|millis| Duration::from_millis(*millis)).collect();
        LevelTable::new(&delays).unwrap()
    }

    /// The settings as the worker gets them. A process that ended over a missing offset starts
    /// again with `missing_offset` as an operator would set it.
    pub fn worker(&self, missing_offset: MissingOffset) -> WorkerConfig {
        let dead_letter_topic = self.dead_letter_topic.then(|| "dlq".to_owned());
        let pattern = |entry: &str| vec![TopicPattern::parse(entry).unwrap()];
        let millis = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap());
        WorkerConfig {
            engine: EngineConfig {
                levels: self.levels(),
                policy: DestinationPolicy::new(
                    SOURCE.to_owned(),
                    dead_letter_topic.clone(),
                    pattern("/.*/"),
                    pattern("denied"),
                ),
                dead_letter_topic,
                drop_refused: self.drop_refused,
                park_after_ms: self.park_after_ms,
                wake_lead_ms: self.wake_lead_ms,
                future_tolerance_ms: 5_000,
                retry: RetryPolicy {
                    grace_ms: self.grace_ms,
                    initial_backoff_ms: self.initial_backoff_ms,
                    max_backoff_ms: self.max_backoff_ms,
                },
                max_in_flight_bytes: self.max_bytes,
                max_in_flight_records: self.max_records,
                transactional: self.exactly_once,
            },
            partitions: i32::try_from(self.partitions).unwrap(),
            commit_every: Duration::from_millis(self.commit_every_ms),
            drain_timeout: millis(self.drain_timeout_ms()),
            stop_timeout: millis(self.stop_timeout_ms),
            missing_offset,
            stuck_after: Duration::from_secs(120),
        }
    }
}

/// One of `choices`.
pub fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(0..choices.len())]
}
