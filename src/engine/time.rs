//! When a record is due. Due times are milliseconds of the wall clock since the Unix epoch; pauses
//! between retries are measured on a steady clock, which no one sets.
//!
//! `due = effective timestamp + delay`, where the effective timestamp is the record's own one, but
//! never later than the moment the daemon first knew of the record: a clock that runs ahead makes a
//! record wait no longer than its level's delay.

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, milliseconds since the Unix epoch, rounded down.
    pub wall_ms: i64,
    /// Steady clock, milliseconds since some moment before.
    pub steady_ms: i64,
}

/// The next moment of interest on each clock; `None`: only after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    /// On the wall clock: a due time, or the time to fetch a parked partition again.
    pub wall_ms: Option<i64>,
    /// On the steady clock: the next try of a destination in trouble.
    pub steady_ms: Option<i64>,
}

/// What a record's timestamp was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampQuality {
    /// Usable as it is.
    Sound,
    /// Missing, zero or negative: the record counts as written when first seen.
    Invalid,
    /// Ahead of the daemon's clock by more than the tolerance.
    Future,
}

/// Judges a record's timestamp against the daemon's clock.
pub fn judge(timestamp_ms: Option<i64>, now_ms: i64, tolerance_ms: i64) -> TimestampQuality {
    match timestamp_ms {
        Some(timestamp_ms) if timestamp_ms > now_ms.saturating_add(tolerance_ms) => {
            TimestampQuality::Future
        }
        Some(timestamp_ms) if timestamp_ms > 0 => TimestampQuality::Sound,
        Some(_) | None => TimestampQuality::Invalid,
    }
}

/// The moment from which the record may be forwarded.
pub fn due_ms(timestamp_ms: Option<i64>, first_seen_ms: i64, delay_ms: i64) -> i64 {
    let effective_ms = match timestamp_ms {
        Some(timestamp_ms) if timestamp_ms > 0 => timestamp_ms.min(first_seen_ms),
        Some(_) | None => first_seen_ms,
    };
    effective_ms.saturating_add(delay_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    #[test]
    fn due_times_at_the_edges() {
        // (timestamp, due) of a 1 s level, first seen at NOW_MS
        let cases = [
            (Some(NOW_MS - 300), NOW_MS + 700),
            (Some(NOW_MS), NOW_MS + 1_000),
            (Some(NOW_MS + 1), NOW_MS + 1_000), // ahead of our clock: clamped
            (Some(i64::MAX), NOW_MS + 1_000),
            (Some(1), 1_001), // long overdue, but a date
            (Some(0), NOW_MS + 1_000),
            (Some(-1), NOW_MS + 1_000),
            (Some(i64::MIN), NOW_MS + 1_000),
            (None, NOW_MS + 1_000),
        ];
        for (timestamp_ms, expected_ms) in cases {
            assert_eq!(due_ms(timestamp_ms, NOW_MS, 1_000), expected_ms, "{timestamp_ms:?}");
        }
        assert_eq!(due_ms(Some(i64::MAX), i64::MAX, 1_000), i64::MAX);
    }

    #[test]
    fn a_timestamp_is_future_only_beyond_the_tolerance() {
        let judged = |timestamp_ms| judge(Some(timestamp_ms), NOW_MS, 5_000);
        assert_eq!(judged(NOW_MS + 5_000), TimestampQuality::Sound);
        assert_eq!(judged(NOW_MS + 5_001), TimestampQuality::Future);
        assert_eq!(judged(0), TimestampQuality::Invalid);
        assert_eq!(judge(None, NOW_MS, 5_000), TimestampQuality::Invalid);
    }

    proptest! {
        #[test]
        fn never_later_than_one_delay_after_first_sight(
            timestamp_ms in any::<Option<i64>>(),
            seen_ms in any::<i64>(),
            delay_ms in 1..=2_592_000_000_i64,
        ) {
            let due = due_ms(timestamp_ms, seen_ms, delay_ms);
            prop_assert!(due <= seen_ms.saturating_add(delay_ms));
        }

        #[test]
        fn never_earlier_than_a_valid_timestamp_and_its_delay_allow(
            timestamp_ms in 1..=4_000_000_000_000_i64,
            age_ms in 0..=1_000_000_000_i64,
            delay_ms in 1..=2_592_000_000_i64,
        ) {
            let due = due_ms(Some(timestamp_ms), timestamp_ms + age_ms, delay_ms);
            prop_assert_eq!(due, timestamp_ms + delay_ms);
        }
    }
}
