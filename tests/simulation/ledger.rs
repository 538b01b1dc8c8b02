//! What really became of each record. The engine is never asked.

use std::collections::BTreeSet;

use kafka_delay::engine::RejectReason;

use crate::record::RecordId;

/// What is to become of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It goes to a topic, by its key, by chance, or to the partition it names.
    Forward { topic: usize, key: Option<u8>, partition: Option<usize> },
    /// It is dead-lettered whatever happens.
    Reject(RejectReason),
}

/// A record's way.
#[derive(Debug, Clone)]
pub struct Fate {
    pub partition: usize,
    pub offset: i64,
    pub timestamp_ms: Option<i64>,
    pub size: usize,
    pub expect: Expect,
    /// Brokers refuse it for itself.
    pub cursed: bool,
    pub appended_ms: i64,
    /// A worker was told that its destination or the dead-letter topic took it.
    pub acknowledged: bool,
    /// Retention deleted it, or it is excused otherwise.
    pub gone: bool,
    /// How often its destination and the dead-letter topic hold it.
    pub landed: u32,
    pub dead: u32,
    /// A worker was told that it is refused for good.
    pub refused: bool,
    /// Its destination refused it, and others may have overtaken it.
    pub waited: bool,
}

impl Fate {
    pub fn new(
        partition: usize,
        offset: i64,
        timestamp_ms: Option<i64>,
        size: usize,
        expect: Expect,
        cursed: bool,
        appended_ms: i64,
    ) -> Self {
        Self {
            partition,
            offset,
            timestamp_ms,
            size,
            expect,
            cursed,
            appended_ms,
            acknowledged: false,
            gone: false,
            landed: 0,
            dead: 0,
            refused: false,
            waited: false,
        }
    }

    pub fn settled(&self) -> bool {
        self.acknowledged || self.gone
    }

    pub fn arrived(&self) -> bool {
        self.landed + self.dead > 0
    }
}

/// All records ever written.
#[derive(Debug, Default)]
pub struct Ledger {
    pub fates: Vec<Fate>,
    /// Records that are neither acknowledged nor gone.
    pub open: BTreeSet<RecordId>,
    /// Partitions that changed hands, at some time, in a way that explains repetitions.
    pub unclean: Vec<bool>,
    /// In a topic that was made anew, records below may be passed over.
    excused_below: Vec<i64>,
    /// Records that arrived more than once.
    pub repeated: u64,
}

impl Ledger {
    pub fn new(partitions: usize) -> Self {
        Self {
            unclean: vec![false; partitions],
            excused_below: vec![i64::MIN; partitions],
            ..Self::default()
        }
    }

    pub fn add(&mut self, mut fate: Fate) {
        if fate.offset < self.excused_below[fate.partition] {
            fate.gone = true;
            self.fates.push(fate);
            return;
        }
        self.open.insert(self.fates.len());
        self.fates.push(fate);
    }

    pub fn delete(&mut self, record: RecordId) {
        self.fates[record].gone = true;
        self.open.remove(&record);
    }

    /// The topic was made anew: what comes to lie below `offset` may be passed over.
    pub fn passed_over(&mut self, partition: usize, offset: i64) {
        self.excused_below[partition] = offset;
    }

    pub fn acknowledge(&mut self, record: RecordId) {
        self.fates[record].acknowledged = true;
        self.open.remove(&record);
    }
}
