//! Counters whose label values come from outside, and must not fill the memory of Prometheus.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use prometheus::{IntCounter, IntCounterVec};

/// What values beyond the limit count as. A value of this very name is not told apart.
pub(super) const OVERFLOW: &str = "other";

/// A counter with one free label, of which at most `limit` values are told apart; the rest counts
/// as [`OVERFLOW`], which exists from the start.
pub struct BoundedCounter {
    family: IntCounterVec,
    fixed: Vec<&'static str>,
    limit: usize,
    overflow: IntCounter,
    known: Mutex<HashMap<String, IntCounter>>,
}

impl BoundedCounter {
    /// A counter in `family`, whose last label is the free one; `fixed` are the values before it.
    pub(super) fn new(family: &IntCounterVec, fixed: &[&'static str], limit: usize) -> Self {
        let overflow = family.with_label_values(&[fixed, &[OVERFLOW]].concat());
        let (family, fixed) = (family.clone(), fixed.to_vec());
        Self { family, fixed, limit, overflow, known: Mutex::default() }
    }

    /// Adds one to the counter of `value`.
    pub fn inc(&self, value: &str) {
        self.inc_by(value, 1);
    }

    /// Adds `amount` to the counter of `value`.
    pub fn inc_by(&self, value: &str, amount: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = known.get(value) {
            counter.inc_by(amount);
        } else if known.len() < self.limit {
            let labels = [self.fixed.as_slice(), &[value]].concat();
            let counter = self.family.with_label_values(&labels);
            counter.inc_by(amount);
            known.insert(value.to_owned(), counter);
        } else {
            self.overflow.inc_by(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    #[test]
    fn values_beyond_the_limit_count_as_other() {
        let family = IntCounterVec::new(Opts::new("x_total", "x"), &["client", "code"]).unwrap();
        let counter = BoundedCounter::new(&family, &["consumer"], 2);
        for value in ["a", "b", "c", "a", "d"] {
            counter.inc(value);
        }
        let count = |code| family.with_label_values(&["consumer", code]).get();
        assert_eq!((count("a"), count("b"), count("other")), (2, 1, 2));
        assert_eq!(prometheus::core::Collector::collect(&family)[0].get_metric().len(), 3);
    }
}
