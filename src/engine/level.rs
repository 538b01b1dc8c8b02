//! The table of delay levels: which delay a partition of the delay topic stands for.
//!
//! Level numbers are 1-based as in RocketMQ; partition `p` has level `p mod levels + 1`, so a topic
//! may have any multiple of the number of levels ("shards"). Order holds per partition.

use std::fmt;
use std::time::Duration;

/// A delay longer than this is taken for a mistake (`1M` instead of `1m`).
pub(super) const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// More levels than this are taken for a mistake; it also bounds the metric series of one instance.
pub(super) const MAX_LEVELS: usize = 256;

/// One delay level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// 1-based number, as producers and dashboards name it.
    pub number: u16,
    /// How long a record of this level waits, in milliseconds.
    pub delay_ms: i64,
}

impl Level {
    /// The delay as people write it: `1s`, `10m`, `1h 30m`.
    pub fn label(&self) -> String {
        let delay_ms = u64::try_from(self.delay_ms).unwrap_or(0);
        humantime::format_duration(Duration::from_millis(delay_ms)).to_string()
    }
}

/// Why a list of delays is not a level table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelTableError {
    /// No delay at all.
    #[error("the list of levels is empty; give at least one delay")]
    Empty,
    /// More delays than [`MAX_LEVELS`].
    #[error("{0} levels are too many; at most {MAX_LEVELS} are supported")]
    TooMany(usize),
    /// A delay of zero or with a fraction of a millisecond.
    #[error("level {number} is {delay:?}; a delay is a whole number of milliseconds above zero")]
    NotMillis {
        /// 1-based position in the list.
        number: usize,
        /// The delay as given.
        delay: Duration,
    },
    /// A delay above [`MAX_DELAY`].
    #[error("level {number} is {}; the longest supported delay is 30days (`1M` is a month, `1m` a minute)", humantime::format_duration(*.delay))]
    TooLong {
        /// 1-based position in the list.
        number: usize,
        /// The delay as given.
        delay: Duration,
    },
    /// A delay not above the one before it.
    #[error("level {number} is {}, not longer than the level before it; levels must strictly increase", humantime::format_duration(*.delay))]
    NotIncreasing {
        /// 1-based position in the list.
        number: usize,
        /// The delay as given.
        delay: Duration,
    },
}

/// A checked, non-empty, strictly increasing list of delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelTable {
    delays_ms: Vec<i64>,
}

impl LevelTable {
    /// Checks `delays`, shortest first.
    pub fn new(delays: &[Duration]) -> Result<Self, LevelTableError> {
        if delays.is_empty() {
            return Err(LevelTableError::Empty);
        }
        if delays.len() > MAX_LEVELS {
            return Err(LevelTableError::TooMany(delays.len()));
        }
        let mut delays_ms = Vec::with_capacity(delays.len());
        for (index, &delay) in delays.iter().enumerate() {
            let number = index + 1;
            if delay > MAX_DELAY {
                return Err(LevelTableError::TooLong { number, delay });
            }
            if delay.is_zero() || delay.subsec_nanos() % 1_000_000 != 0 {
                return Err(LevelTableError::NotMillis { number, delay });
            }
            if index > 0 && delay <= delays[index - 1] {
                return Err(LevelTableError::NotIncreasing { number, delay });
            }
            delays_ms.push(i64::try_from(delay.as_millis()).expect("30 days fit in 64 bits"));
        }
        Ok(Self { delays_ms })
    }

    /// Number of levels, at least 1.
    pub fn count(&self) -> usize {
        self.delays_ms.len()
    }

    /// The level of `partition`.
    pub fn of_partition(&self, partition: i32) -> Level {
        let count = i32::try_from(self.count()).expect("at most MAX_LEVELS");
        let index = usize::try_from(partition.rem_euclid(count)).expect("not negative");
        self.at(index)
    }

    /// All levels, shortest first.
    pub fn iter(&self) -> impl Iterator<Item = Level> + '_ {
        (0..self.count()).map(|index| self.at(index))
    }

    /// The longest delay, in milliseconds.
    pub fn longest_ms(&self) -> i64 {
        *self.delays_ms.last().expect("never empty")
    }

    /// Whether a topic of `partitions` partitions holds each level equally often, at least once.
    pub fn fits(&self, partitions: usize) -> bool {
        partitions > 0 && partitions.is_multiple_of(self.count())
    }

    /// The level whose delay is exactly `delay`.
    pub fn with_delay(&self, delay: Duration) -> Option<Level> {
        self.iter().find(|level| u128::try_from(level.delay_ms) == Ok(delay.as_millis()))
    }

    fn at(&self, index: usize) -> Level {
        let number = u16::try_from(index + 1).expect("at most MAX_LEVELS");
        Level { number, delay_ms: self.delays_ms[index] }
    }
}

impl fmt::Display for LevelTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.iter().map(|level| level.label()).collect();
        formatter.write_str(&labels.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCKETMQ: [&str; 18] = [
        "1s", "5s", "10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m",
        "20m", "30m", "1h", "2h",
    ];

    fn parse(delays: &[&str]) -> Vec<Duration> {
        delays.iter().map(|delay| humantime::parse_duration(delay).unwrap()).collect()
    }

    // R65: an off-by-one here gives every record the delay of a neighbouring level.
    #[test]
    fn every_partition_of_every_shard_has_its_own_level() {
        let table = LevelTable::new(&parse(&ROCKETMQ)).unwrap();
        for partition in 0..54 {
            let level = table.of_partition(partition);
            let index = usize::try_from(partition).unwrap() % 18;
            assert_eq!(usize::from(level.number), index + 1);
            assert_eq!(level.label(), ROCKETMQ[index]);
        }
        assert!(table.fits(18) && table.fits(36));
        assert!(!table.fits(0) && !table.fits(17) && !table.fits(19));
        assert_eq!(table.longest_ms(), 7_200_000);
    }

    #[test]
    fn bad_tables_are_refused_and_say_which_level() {
        let cases: [(&[&str], &str); 6] = [
            (&[], "empty"),
            (&["0s"], "level 1"),
            (&["1s", "1s"], "level 2"),
            (&["5s", "1s"], "level 2"),
            (&["1m", "1M"], "`1M` is a month"),
            (&["1s", "1500us"], "level 2"),
        ];
        for (delays, needle) in cases {
            let message = LevelTable::new(&parse(delays)).unwrap_err().to_string();
            assert!(message.contains(needle), "{delays:?}: {message}");
        }
        let limit = LevelTable::new(&[MAX_DELAY]).unwrap();
        assert_eq!(limit.count(), 1);
        assert!(LevelTable::new(&[MAX_DELAY + Duration::from_millis(1)]).is_err());
    }

    #[test]
    fn a_delay_is_found_by_its_value_only() {
        let table = LevelTable::new(&parse(&ROCKETMQ)).unwrap();
        assert_eq!(table.with_delay(Duration::from_secs(30)).unwrap().number, 4);
        assert_eq!(table.with_delay(Duration::from_secs(31)), None);
    }
}
