//! For how long nothing came although something was due.

use std::collections::BTreeMap;

use super::{Arrival, Ledger, Repeat};

/// Something that was broken for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// When it was broken.
    pub start_ms: i64,
    /// When it was whole again; or when another could have taken over.
    pub end_ms: i64,
    /// What the daemons' group had committed at the start.
    pub committed: BTreeMap<i32, i64>,
}

impl Fault {
    /// Whether an at-least-once daemon had to forward the record again because of this: it had
    /// sent it on before the fault was over, and had not committed it when the fault began.
    pub fn explains(&self, repeat: &Repeat) -> bool {
        let committed = self.committed.get(&repeat.sent.partition).copied().unwrap_or(0);
        repeat.first_ms <= self.end_ms
            && repeat.again_ms >= self.start_ms
            && repeat.sent.offset >= committed
    }
}

/// Waiting times of one ledger, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalls {
    /// The longest time from due to seen.
    pub latest_ms: i64,
    /// The longest time from due, or from the end of a fault if that was later, to seen.
    pub stall_ms: i64,
    /// The longest time for which a partition of a destination got nothing although something that
    /// goes there was due.
    pub gap_ms: i64,
}

impl Stalls {
    /// Measures first arrivals.
    #[track_caller]
    pub fn measure(ledger: &Ledger, arrivals: &[Arrival], faults: &[Fault]) -> Self {
        let mut first: Vec<Option<&Arrival>> = vec![None; ledger.len()];
        for arrival in arrivals {
            let known = &mut first[usize::try_from(arrival.id).expect("a place")];
            if known.is_none_or(|known| arrival.seen_at < known.seen_at) {
                *known = Some(arrival);
            }
        }
        let mut first: Vec<&Arrival> = first.into_iter().flatten().collect();
        first.sort_by_key(|arrival| (arrival.seen_at, arrival.place()));
        let mut stalls = Self::default();
        let mut last_seen: BTreeMap<(u32, i32), i64> = BTreeMap::new();
        for arrival in first {
            let (due_ms, seen_ms) = (ledger.find(arrival.id).due_ms, arrival.seen_at);
            stalls.latest_ms = stalls.latest_ms.max(seen_ms - due_ms);
            let in_fault = |fault: &Fault| (fault.start_ms..fault.end_ms).contains(&seen_ms);
            let ended = faults.iter().map(|fault| fault.end_ms).filter(|end_ms| *end_ms <= seen_ms);
            let from_ms = ended.fold(due_ms, i64::max);
            if !faults.iter().any(in_fault) {
                stalls.stall_ms = stalls.stall_ms.max(seen_ms - from_ms);
            }
            let last_ms = last_seen.insert((arrival.topic, arrival.partition), seen_ms);
            let idle_ms = seen_ms - due_ms.max(last_ms.unwrap_or(due_ms));
            stalls.gap_ms = stalls.gap_ms.max(idle_ms);
        }
        stalls
    }
}
