//! What every scenario has: topics, daemons, waiting records, a steady flow, readers, and accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::report::Row;
use super::{Form, Guarantee};
use crate::support::{
    Arrival, Client, Crew, DaemonConfig, Fault, Flow, Ledger, Repeat, Sent, Silence, Stage, Stalls,
    Verdict, Watch, eventually, now_ms, unique,
};

/// Only ends a test that hangs.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// After this a member that died is dropped from the group; see [`Stage`].
pub const SESSION: Duration = Duration::from_secs(6);

/// After the end of a fault everything that is due is out within this.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Levels of records that come in all the time.
const FLOWING_MS: [i64; 3] = [1_000, 2_000, 3_000];

/// Levels of records that are there from the beginning.
const WAITING: i32 = 8;

/// Partitions of levels whose records are due one after the other.
pub const WAITING_EVENLY: [i32; 4] = [3, 5, 7, 9];

/// The partition of the last level. Its records are due when the window ends: it is parked until
/// then, whatever happens.
pub const QUIET: i32 = 11;

/// One in so many of those that are there from the beginning is in [`QUIET`].
const QUIET_SHARE: usize = 20;

/// Every second level of those that wait has its records due together now and then, and is parked
/// in between.
const BUNCH_MS: i64 = 3_000;

/// How arrivals tell topics apart.
pub const DESTINATION: u32 = 0;
const DEAD_LETTERS: u32 = 1;
const ANEW: u32 = 2;

/// What may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing.
    Never,
    /// With at-least-once, what was not committed when a fault began.
    Uncommitted,
}

/// What must hold in the end.
pub struct Bars {
    pub repeats: Repeats,
    /// Records of a partition that go to one partition arrive in order.
    pub ordered: bool,
    /// The longest stall.
    pub stall: Duration,
    /// Offsets of the delay topic that were deleted before they were due: these are missing.
    pub deleted: BTreeMap<i32, Range<i64>>,
    /// What a bare producer and its reader measured beside the daemon: it is silent for at most
    /// 1 s longer.
    pub bare: Option<Silence>,
    /// The daemon's clock is not the test's: early is what was early by both.
    pub either_clock: bool,
}

impl Bars {
    /// Everything arrives in order, within [`PROMPT`].
    pub fn new(repeats: Repeats) -> Self {
        Self {
            repeats,
            ordered: true,
            stall: PROMPT,
            deleted: BTreeMap::new(),
            bare: None,
            either_clock: false,
        }
    }

    /// A session had to expire first.
    pub fn after_a_session(mut self) -> Self {
        self.stall += SESSION;
        self
    }
}

/// One scenario.
pub struct Scene {
    pub form: Form,
    pub guarantee: Guarantee,
    pub client: Client,
    pub stage: Stage,
    pub crew: Crew,
    pub faults: Vec<Fault>,
    name: &'static str,
    window: Duration,
    started: Instant,
    watch: Option<Watch>,
    /// Of a destination that was deleted.
    gone: Vec<Arrival>,
    doubtful: Vec<Arrival>,
    dead_letters: Watch,
    ledger: Option<Ledger>,
    flow: Option<Flow>,
}

impl Scene {
    /// Makes the topics. Records will come due for as long as `window`.
    #[track_caller]
    pub fn new(
        client: &Client,
        name: &'static str,
        (form, guarantee): (Form, Guarantee),
        window: Duration,
    ) -> Self {
        let longest_ms = millis(window + lead(form));
        let waiting = (0..=WAITING).map(|level| longest_ms + 1_000 * i64::from(level + 1));
        let delays_ms: Vec<i64> = FLOWING_MS.into_iter().chain(waiting).collect();
        let stage = Stage::new(client, &delays_ms);
        let stage = match guarantee {
            Guarantee::AtLeastOnce => stage,
            Guarantee::ExactlyOnce => {
                stage.configure(|config| {
                    config
                        .set("forward.guarantee", guarantee.name())
                        // What a frozen or dead daemon left open holds up readers for this long.
                        .set("forward.transaction_timeout", "10s")
                })
            }
        };
        Self {
            form,
            guarantee,
            client: client.clone(),
            crew: Crew::new(),
            faults: Vec::new(),
            gone: Vec::new(),
            doubtful: Vec::new(),
            name,
            window,
            started: Instant::now(),
            watch: Some(Watch::start(client, &stage.destination, DESTINATION)),
            dead_letters: Watch::start(client, &format!("{}_dlq", stage.delay_topic), DEAD_LETTERS),
            ledger: Some(stage.ledger()),
            flow: None,
            stage,
        }
    }

    /// Changes the settings of its daemons.
    pub fn configure(mut self, change: impl FnOnce(DaemonConfig) -> DaemonConfig) -> Self {
        self.stage = self.stage.configure(change);
        self
    }

    /// Starts one more daemon; its number.
    pub fn join(&self) -> usize {
        // Whoever writes transactions has a name of its own.
        self.crew.add(self.stage.config.clone().set("kafka.client_id", &unique("member")))
    }

    /// Starts daemons and waits until they share all partitions.
    #[track_caller]
    pub fn enlist(&self, daemons: usize) {
        for _ in 0..daemons {
            let member = self.join();
            self.crew.wait_ready(member);
        }
        self.wait_owned();
    }

    /// Waits until the daemons that run own every partition.
    #[track_caller]
    pub fn wait_owned(&self) {
        eventually(DEADLINE, || {
            let owned = self.crew.metric("kafka_delay_assigned_partitions", &[]);
            let all = f64::from(self.stage.partitions);
            if owned == all { Ok(()) } else { Err(format!("{owned} of {all} partitions owned")) }
        });
    }

    /// Fills the delay topic, and begins to write to it all the time.
    #[track_caller]
    pub fn load(&mut self) {
        let mut ledger = self.ledger.take().expect("loaded once");
        let records = self.form.pick(3_000, 75_000);
        let due = waiting(records, now_ms() + millis(lead(self.form)), millis(self.window));
        ledger.send_due(&self.stage.producer(), &due);
        self.flow = Some(self.flow_of(ledger));
        self.started = Instant::now();
    }

    /// Writes records of the flowing levels all the time.
    pub fn flow_of(&self, ledger: Ledger) -> Flow {
        let turn = |_| (0..3).collect();
        Flow::start(&self.client, ledger, Duration::from_millis(20), turn)
    }

    /// Sleeps until that part of the window has passed: faults come while records are due.
    pub fn wait_for(&self, part: f64) {
        let at = lead(self.form) + self.window.mul_f64(part);
        std::thread::sleep(at.saturating_sub(self.started.elapsed()));
    }

    /// Breaks something, and notes when it was whole again.
    #[track_caller]
    pub fn fault<T>(&mut self, fault: impl FnOnce(&Self) -> T) -> T {
        let (committed, start_ms) = (self.stage.committed(), now_ms());
        let value = fault(self);
        self.faults.push(Fault { start_ms, end_ms: now_ms(), committed });
        value
    }

    /// Keeps what `gone` tells of the destination, which was deleted, and reads the one that was
    /// made anew. Records of `doubtful` count if they are nowhere else.
    #[track_caller]
    pub fn watch_anew(&mut self, gone: Vec<Arrival>, doubtful: Vec<Arrival>) {
        let watch = self.watch.take().expect("there was one").stop();
        self.gone.extend(watch.into_iter().chain(gone));
        self.gone.sort_by_key(Arrival::place);
        // What was read before, and found in the files again.
        self.gone.dedup_by_key(|arrival| arrival.place());
        self.doubtful = doubtful;
        self.watch = Some(Watch::start(&self.client, &self.stage.destination, ANEW));
    }

    /// Everything that has arrived so far.
    pub fn arrived(&self) -> Vec<Arrival> {
        let watches = self.watch.iter().chain([&self.dead_letters]);
        let mut arrived: Vec<Arrival> = watches.flat_map(Watch::arrivals).collect();
        arrived.extend(&self.gone);
        let known: BTreeSet<u64> = arrived.iter().map(|arrival| arrival.id).collect();
        arrived.extend(self.doubtful.iter().filter(|arrival| !known.contains(&arrival.id)));
        arrived
    }

    /// How many are at the destination, or were dead-lettered.
    pub fn count(&self) -> usize {
        self.watch.iter().chain([&self.dead_letters]).map(Watch::count).sum()
    }

    /// Waits for everything, stops the daemons, publishes the figures and holds them against the
    /// bars.
    #[track_caller]
    pub fn finish(mut self, bars: &Bars) {
        self.wait_for(1.0);
        let ledger = self.flow.take().expect("it was loaded").stop();
        let deleted = |sent: &&Sent| {
            bars.deleted.get(&sent.partition).is_some_and(|range| range.contains(&sent.offset))
        };
        let deleted: BTreeSet<u64> = ledger.sent().filter(deleted).map(|sent| sent.id).collect();
        let arrived = || {
            let mut arrived = self.arrived();
            for arrival in arrived.iter_mut().filter(|_| bars.either_clock) {
                arrival.seen_at = arrival.seen_at.max(arrival.timestamp);
                arrival.timestamp = arrival.seen_at;
            }
            arrived
        };
        let arrived = ledger.await_arrivals(arrived, deleted.len(), DEADLINE);
        let early_by_metric = self.crew.metric("kafka_delay_early_forwards_total", &[]);
        for member in self.crew.running() {
            self.crew.terminate(member, DEADLINE);
        }
        let mut verdict = ledger.compare_arrivals(&arrived);
        verdict.lost.retain(|sent| !deleted.contains(&sent.id));
        let stalls = Stalls::measure(&ledger, &self.arrived(), &self.faults);
        println!("\n{verdict}");
        self.row(&verdict, &stalls, bars).publish();
        verdict.assert_nothing_lost();
        assert_eq!(early_by_metric, 0.0, "handed on early");
        let back: Vec<u64> = arrived.iter().map(|arrival| arrival.id).collect();
        let back: Vec<u64> = back.into_iter().filter(|id| deleted.contains(id)).collect();
        assert!(back.is_empty(), "deleted, and yet they arrived: {back:?}");
        self.assert_repeats(&verdict, bars.repeats);
        assert!(!bars.ordered || verdict.disordered.is_empty(), "{verdict}");
        self.stage.wait_all_committed(DEADLINE);
        if self.guarantee == Guarantee::AtLeastOnce {
            assert_eq!(self.crew.own_ends(), 0, "nothing here is fatal");
        }
        if self.form == Form::Long {
            let bar_ms = millis(bars.stall);
            assert!(stalls.stall_ms <= bar_ms, "{stalls:?}, not within {bar_ms} ms");
            if let Some(bare) = bars.bare {
                // The daemon's records are seen by such a reader too.
                let bare_ms = bare.acknowledged_ms.max(bare.read_ms);
                assert!(stalls.gap_ms <= bare_ms + 1_000, "{stalls:?}; {bare:?}");
            }
        }
    }

    #[track_caller]
    fn assert_repeats(&self, verdict: &Verdict, repeats: Repeats) {
        let explained = |repeat: &Repeat| self.faults.iter().any(|fault| fault.explains(repeat));
        let wrong: Vec<&Repeat> = match (self.guarantee, repeats) {
            (Guarantee::AtLeastOnce, Repeats::Uncommitted) => {
                verdict.repeats.iter().filter(|repeat| !explained(repeat)).collect()
            }
            (Guarantee::ExactlyOnce, _) | (_, Repeats::Never) => verdict.repeats.iter().collect(),
        };
        let some = &wrong[..wrong.len().min(10)];
        assert!(wrong.is_empty(), "{} repeated without need: {some:#?}", wrong.len());
    }

    fn row(&self, verdict: &Verdict, stalls: &Stalls, bars: &Bars) -> Row {
        Row {
            scenario: self.name.to_owned(),
            form: self.form.name(),
            guarantee: self.guarantee.name(),
            records: verdict.sent,
            lost: verdict.lost.len(),
            early: verdict.early.len(),
            duplicated: verdict.duplicated.len(),
            out_of_order: verdict.disordered.len(),
            dead_lettered: self.dead_letters.count(),
            stall_ms: stalls.stall_ms,
            latest_ms: stalls.latest_ms,
            gap_ms: stalls.gap_ms,
            bare_gap_ms: bars.bare.map(|bare| bare.acknowledged_ms),
            bare_read_gap_ms: bars.bare.map(|bare| bare.read_ms),
            restarts: self.crew.own_ends(),
            seconds: self.started.elapsed().as_secs(),
        }
    }
}

/// Partition and due time of records that wait: evenly over the window, in bunches, or at its end.
fn waiting(records: usize, from_ms: i64, window_ms: i64) -> Vec<(i32, i64)> {
    let first = i32::try_from(FLOWING_MS.len()).expect("few");
    let due = |number: usize| {
        if number.is_multiple_of(QUIET_SHARE) {
            return (QUIET, from_ms + window_ms);
        }
        let level = i32::try_from(number).expect("not that many") % WAITING;
        let part = number as f64 / records as f64;
        // A whole number of milliseconds within the window.
        #[allow(clippy::cast_possible_truncation)]
        let after_ms = (part * window_ms as f64) as i64;
        let bunched = level % 2 == 1;
        let after_ms = if bunched { after_ms / BUNCH_MS * BUNCH_MS } else { after_ms };
        (first + level, from_ms + after_ms)
    };
    (0..records).map(due).collect()
}

/// A number below `below` that is another one each time.
pub fn chance(below: u64) -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let seed = u64::try_from(now_ms()).expect("after 1970");
    let mut state = STATE.load(Ordering::Relaxed) ^ seed.rotate_left(17) | 1;
    // Xorshift; the sleeps between two calls make it different each time.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.store(state, Ordering::Relaxed);
    state % below
}

fn lead(form: Form) -> Duration {
    form.seconds(3, 10)
}

pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).expect("a short time")
}
