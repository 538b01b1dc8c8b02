//! Bookkeeping of delayed records: what was sent, and what became of it. It holds some 100 000
//! records without getting in the way of what is measured.
//!
//! Each record carries its number as its value. Keys are by source partition, so that the records
//! of one source partition go to one partition of the destination, where their order can be told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::wait::now_ms;
use super::{Arrival, Client, Producer, Reader, Record, Seen};

/// Records of one batch: a producer's queue has room for them.
const BATCH: usize = 10_000;

/// A record of the delay topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub id: u64,
    /// Partition of the delay topic.
    pub partition: i32,
    /// Offset there.
    pub offset: i64,
    /// The moment before which it must not be forwarded.
    pub due_ms: i64,
}

/// All records sent to one delay topic, for one destination.
#[derive(Debug, Clone)]
pub struct Ledger {
    delay_topic: String,
    destination: String,
    delays_ms: Vec<i64>,
    /// A record's number is its place.
    sent: Vec<Sent>,
}

impl Ledger {
    /// An empty ledger. `delays_ms` are the delays of the levels.
    pub fn new(delay_topic: &str, destination: &str, delays_ms: &[i64]) -> Self {
        let (delay_topic, destination) = (delay_topic.to_owned(), destination.to_owned());
        Self { delay_topic, destination, delays_ms: delays_ms.to_vec(), sent: Vec::new() }
    }

    /// Sends one record to each of `partitions` (which may repeat), and waits for the
    /// acknowledgements.
    #[track_caller]
    pub fn send(&mut self, producer: &Producer, partitions: &[i32]) {
        let now_ms = now_ms();
        let stamped: Vec<(i32, i64)> = partitions.iter().map(|p| (*p, now_ms)).collect();
        self.send_stamped(producer, &stamped);
    }

    /// Sends records that are due at the moments given: partition and due time of each. A moment
    /// further ahead than the delay of its level takes a timestamp of the future, which does not
    /// count.
    #[track_caller]
    pub fn send_due(&mut self, producer: &Producer, due: &[(i32, i64)]) {
        let stamped = due.iter().map(|(partition, due_ms)| {
            let timestamp = due_ms - self.delay_ms(*partition);
            assert!(timestamp <= now_ms(), "{partition} cannot be due at {due_ms}");
            (*partition, timestamp)
        });
        let stamped: Vec<(i32, i64)> = stamped.collect();
        stamped.chunks(BATCH).for_each(|batch| self.send_stamped(producer, batch));
    }

    #[track_caller]
    fn send_stamped(&mut self, producer: &Producer, stamped: &[(i32, i64)]) {
        let first = self.sent.len() as u64;
        let record = |(id, (partition, timestamp)): (u64, &(i32, i64))| {
            Record::new(id.to_string())
                .partition(*partition)
                .timestamp(*timestamp)
                .key(format!("partition {partition}"))
                .to(&self.destination)
        };
        let records: Vec<Record> = (first..).zip(stamped).map(record).collect();
        let places = producer.send_all(&self.delay_topic, &records);
        for ((id, (_, timestamp)), (partition, offset)) in (first..).zip(stamped).zip(places) {
            let due_ms = timestamp + self.delay_ms(partition);
            self.sent.push(Sent { id, partition, offset, due_ms });
        }
    }

    fn delay_ms(&self, partition: i32) -> i64 {
        let partition = usize::try_from(partition).expect("not negative");
        self.delays_ms[partition % self.delays_ms.len()]
    }

    /// Records sent.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Every record sent, in order.
    pub fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter()
    }

    /// The last moment at which a record is due.
    pub fn last_due_ms(&self) -> i64 {
        self.sent().map(|sent| sent.due_ms).max().unwrap_or(0)
    }

    /// The record of that number.
    #[track_caller]
    pub fn find(&self, id: u64) -> &Sent {
        let place = usize::try_from(id).ok();
        place.and_then(|place| self.sent.get(place)).unwrap_or_else(|| panic!("never sent: {id}"))
    }

    /// Compares with what arrived.
    #[track_caller]
    pub fn compare(&self, seen: &[Seen]) -> Verdict {
        let arrivals: Vec<Arrival> = seen.iter().map(Arrival::of).collect();
        self.compare_arrivals(&arrivals)
    }

    /// Compares with what arrived.
    #[track_caller]
    pub fn compare_arrivals(&self, arrivals: &[Arrival]) -> Verdict {
        let mut verdict = Verdict { sent: self.sent.len(), ..Verdict::default() };
        let mut by_place: Vec<&Arrival> = arrivals.iter().collect();
        by_place.sort_by_key(|arrival| arrival.place());
        let mut first: Vec<Option<&Arrival>> = vec![None; self.sent.len()];
        let mut last_offset: BTreeMap<(u32, i32), i64> = BTreeMap::new();
        for arrival in by_place {
            let sent = self.find(arrival.id);
            // The forwarded record carries the moment at which the daemon sent it.
            if arrival.timestamp < sent.due_ms || arrival.seen_at < sent.due_ms {
                verdict.early.push(*sent);
            }
            verdict.latest_ms = verdict.latest_ms.max(arrival.timestamp - sent.due_ms);
            let known = &mut first[usize::try_from(sent.id).expect("a place")];
            if let Some(earlier) = *known {
                verdict.duplicated.push(*sent);
                let stamps = [earlier.timestamp, arrival.timestamp];
                let [first_ms, again_ms] = [stamps[0].min(stamps[1]), stamps[0].max(stamps[1])];
                verdict.repeats.push(Repeat { sent: *sent, first_ms, again_ms });
                continue;
            }
            *known = Some(arrival);
            let last = last_offset.entry((arrival.topic, sent.partition)).or_insert(-1);
            if sent.offset < *last {
                verdict.disordered.push(*sent);
            }
            *last = sent.offset.max(*last);
        }
        let missing = self.sent.iter().zip(&first).filter(|(_, first)| first.is_none());
        verdict.lost = missing.map(|(sent, _)| *sent).collect();
        verdict
    }

    /// Waits until all but `without` records are among those that `arrived` tells, and a while for
    /// repetitions. Those missing at the deadline are lost.
    pub fn await_arrivals(
        &self,
        arrived: impl Fn() -> Vec<Arrival>,
        without: usize,
        deadline: Duration,
    ) -> Vec<Arrival> {
        let until_ms = now_ms() + i64::try_from(deadline.as_millis()).expect("a short deadline");
        while self.compare_arrivals(&arrived()).lost.len() > without && now_ms() < until_ms {
            thread::sleep(Duration::from_millis(250));
        }
        // A repetition comes soon: the daemon forwards what is overdue at once.
        thread::sleep(Duration::from_secs(2));
        arrived()
    }

    /// Reads until every record has arrived and nothing has come for a while after the last, then
    /// compares and prints the verdict. Without records at the deadline, they are lost.
    pub fn settle(&self, reader: &mut Reader, deadline: Duration) -> Verdict {
        let until_ms = now_ms() + i64::try_from(deadline.as_millis()).expect("a short deadline");
        while !self.compare(reader.seen()).lost.is_empty() && now_ms() < until_ms {
            reader.during(Duration::from_millis(200));
        }
        // A repetition comes soon: the daemon forwards what is overdue at once.
        let verdict = self.compare(reader.during(Duration::from_secs(2)));
        println!("{verdict}");
        verdict
    }
}

/// A record that arrived again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The record.
    pub sent: Sent,
    /// When the earlier of the two was sent on.
    pub first_ms: i64,
    /// When the later of the two was sent on.
    pub again_ms: i64,
}

/// What became of the records of a [`Ledger`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records sent.
    pub sent: usize,
    /// Did not arrive.
    pub lost: Vec<Sent>,
    /// Were sent on, or seen, before they were due.
    pub early: Vec<Sent>,
    /// Each arrival after the first.
    pub duplicated: Vec<Sent>,
    /// The same, with the moments at which they were sent on.
    pub repeats: Vec<Repeat>,
    /// First arrived behind a later record of the same source partition.
    pub disordered: Vec<Sent>,
    /// The longest time from due to sent on.
    pub latest_ms: i64,
}

impl Verdict {
    /// All arrived in order, once, and not early.
    #[track_caller]
    pub fn assert_exactly_once(&self) {
        self.assert_nothing_lost();
        assert!(self.duplicated.is_empty(), "{self}");
        assert!(self.disordered.is_empty(), "{self}");
    }

    /// All arrived, and not early.
    #[track_caller]
    pub fn assert_nothing_lost(&self) {
        assert!(self.lost.is_empty() && self.early.is_empty(), "{self}");
    }

    /// Nothing arrived twice that was committed already.
    #[track_caller]
    pub fn assert_repeats_only_above(&self, committed: &BTreeMap<i32, i64>) {
        let below =
            |sent: &&Sent| sent.offset < committed.get(&sent.partition).copied().unwrap_or(0);
        let repeated: Vec<&Sent> = self.duplicated.iter().filter(below).collect();
        assert!(repeated.is_empty(), "committed at {committed:?}, yet repeated {repeated:?}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, lost, early, duplicated, disordered, latest_ms, .. } = self;
        write!(
            formatter,
            "{sent} sent: {} lost, {} early, {} duplicated, {} out of order; latest {latest_ms} ms",
            lost.len(),
            early.len(),
            duplicated.len(),
            disordered.len(),
        )?;
        for (what, some) in [
            ("lost", lost),
            ("early", early),
            ("duplicated", duplicated),
            ("out of order", disordered),
        ] {
            for Sent { id, partition, offset, due_ms } in some.iter().take(5) {
                write!(formatter, "\n  {what}: {id} at {partition}@{offset}, due {due_ms}")?;
            }
        }
        Ok(())
    }
}

/// Sends records without pause, on a thread of its own, until it is stopped.
pub struct Flow {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ledger>,
}

impl Flow {
    /// Goes on with `ledger`: in turn `n` one record to each partition that `turn(n)` names.
    pub fn start(
        client: &Client,
        mut ledger: Ledger,
        every: Duration,
        turn: impl Fn(u64) -> Vec<i32> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, client) = (Arc::clone(&stop), client.clone());
        let body = move || {
            let producer = client.producer();
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                ledger.send(&producer, &turn(number));
                thread::sleep(every);
            }
            ledger
        };
        let thread = thread::Builder::new().name("flow".into()).spawn(body).expect("a thread");
        Self { stop, thread }
    }

    /// Stops; everything that was sent.
    #[track_caller]
    pub fn stop(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every record is acknowledged")
    }
}
