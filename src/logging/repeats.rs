//! Which lines are repetitions: pure, the time is an argument.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Fields that differ between occurrences of the same trouble. They do not count when warnings are
/// compared, and always count when errors are.
const VOLATILE_FIELDS: [&str; 4] = ["offset", "attempt", "elapsed_ms", "retry_in_ms"];

/// Different lines told apart within one window. Beyond that, warnings are told apart by their
/// place in the source alone, which bounds the log whatever the records contain, and errors are
/// all printed.
const MAX_TRACKED: usize = 256;

/// What makes a line the same as another, and what to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Level, target and source location.
    place: String,
    /// Message and the fields that count.
    content: String,
    level: Level,
    target: String,
    text: String,
}

/// A line that was printed once and then repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) level: Level,
    pub(super) target: String,
    pub(super) text: String,
    pub(super) repeated: u64,
    /// Whether the repetitions came from the same place, and were otherwise not compared.
    pub(super) similar: bool,
}

struct Entry {
    since_ms: i64,
    summary: Summary,
}

/// The lines printed within the current window.
pub(super) struct Repeats {
    window_ms: i64,
    entries: HashMap<String, Entry>,
}

impl Repeats {
    /// Nothing is collapsed when `window_ms` is 0.
    pub(super) fn new(window_ms: i64) -> Self {
        Self { window_ms, entries: HashMap::new() }
    }

    /// Whether to print `line`. Call [`Repeats::expire`] first.
    pub(super) fn admit(&mut self, now_ms: i64, line: Line) -> bool {
        if self.window_ms <= 0 {
            return true;
        }
        let full = self.entries.len() >= MAX_TRACKED;
        let exact = format!("{}|{}", line.place, line.content);
        let (key, similar) = if !full || self.entries.contains_key(&exact) {
            (exact, false)
        } else if line.level == Level::WARN {
            (line.place, true)
        } else {
            return true;
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.summary.repeated += 1;
            return false;
        }
        let Line { level, target, text, .. } = line;
        let summary = Summary { level, target, text, repeated: 0, similar };
        self.entries.insert(key, Entry { since_ms: now_ms, summary });
        true
    }

    /// Ends the windows that are over, and tells which lines were repeated in them.
    pub(super) fn expire(&mut self, now_ms: i64) -> Vec<Summary> {
        let window_ms = self.window_ms;
        // A clock that was set back must not keep a line silent: its window ends too.
        let over = |entry: &Entry| !(0..window_ms).contains(&now_ms.saturating_sub(entry.since_ms));
        let mut ended: Vec<Entry> =
            self.entries.extract_if(|_, entry| over(entry)).map(|(_, entry)| entry).collect();
        ended.retain(|entry| entry.summary.repeated > 0);
        ended.sort_by_key(|entry| entry.since_ms);
        ended.into_iter().map(|entry| entry.summary).collect()
    }

    /// Ends all windows.
    pub(super) fn expire_all(&mut self) -> Vec<Summary> {
        self.expire(i64::MAX)
    }
}

impl Line {
    /// Reads `event` if it is a warning or an error; other lines are never collapsed.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let metadata = event.metadata();
        let level = *metadata.level();
        if level > Level::WARN {
            return None;
        }
        let mut reader = Reader {
            level,
            target: None,
            message: String::new(),
            fields: [const { String::new() }; 2],
        };
        event.record(&mut reader);
        let Reader { target, message, fields: [counting, volatile], .. } = reader;
        let target = target.unwrap_or_else(|| metadata.target().to_owned());
        let file = metadata.file().unwrap_or_default();
        let place = format!("{level} {target} {file}:{}", metadata.line().unwrap_or_default());
        let compared = match level {
            Level::WARN => without_numbers(&message),
            _ => message.clone(),
        };
        let content = format!("{compared}|{counting}");
        let text = printable(&format!("{message}{counting}{volatile}"));
        Some(Self { place, content, level, target, text })
    }
}

/// Collects the message and the fields of an event.
struct Reader {
    level: Level,
    target: Option<String>,
    message: String,
    /// Those that count, and those that do not.
    fields: [String; 2],
}

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Lines of the `log` crate, which librdkafka's come through, carry their origin as fields.
        match field.name() {
            "log.target" => self.target = Some(value.to_owned()),
            "log.module_path" | "log.file" => {}
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        // Writing to a string does not fail.
        let _ = match name {
            "message" => write!(self.message, "{value:?}"),
            "log.line" => Ok(()),
            _ => {
                let volatile = self.level == Level::WARN && VOLATILE_FIELDS.contains(&name);
                write!(self.fields[usize::from(volatile)], " {name}={value:?}")
            }
        };
    }
}

/// librdkafka's lines carry durations, counters and correlation ids in their text: "after 3005ms in
/// state CONNECT, 30 identical error(s) suppressed".
fn without_numbers(text: &str) -> String {
    let mut compared = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if compared.ends_with('#') => {}
            true => compared.push('#'),
            false => compared.push(character),
        }
    }
    compared
}

/// Control characters would let a record's content write lines and colours of its own.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: Level, content: &str) -> Line {
        Line {
            place: format!("{level} a.rs:1"),
            content: content.to_owned(),
            level,
            target: "a".to_owned(),
            text: content.to_owned(),
        }
    }

    #[test]
    fn repetitions_are_counted_until_the_window_ends() {
        let mut repeats = Repeats::new(10_000);
        assert!(repeats.admit(0, line(Level::WARN, "x")));
        assert!(!repeats.admit(1, line(Level::WARN, "x")));
        assert!(repeats.admit(2, line(Level::WARN, "y")));
        assert!(!repeats.admit(9_999, line(Level::WARN, "x")));
        assert_eq!(repeats.expire(9_999), []);
        let summaries = repeats.expire(10_000);
        assert_eq!(summaries.len(), 1);
        assert_eq!((summaries[0].text.as_str(), summaries[0].repeated), ("x", 2));
        assert!(repeats.admit(10_000, line(Level::WARN, "x")));
        assert_eq!(repeats.expire(10_002), [], "a line that was not repeated needs no summary");
    }

    #[test]
    fn a_clock_that_is_set_back_ends_the_windows() {
        let mut repeats = Repeats::new(10_000);
        assert!(repeats.admit(1_000_000, line(Level::WARN, "x")));
        assert!(!repeats.admit(1_000_001, line(Level::WARN, "x")));
        assert_eq!(repeats.expire(5).len(), 1);
        assert!(repeats.admit(5, line(Level::WARN, "x")));
    }

    #[test]
    fn a_flood_of_different_warnings_is_bounded_and_errors_never_are() {
        let mut repeats = Repeats::new(10_000);
        let admitted = |repeats: &mut Repeats, level| {
            (0..10_000).filter(|n| repeats.admit(0, line(level, &n.to_string()))).count()
        };
        assert_eq!(admitted(&mut repeats, Level::WARN), MAX_TRACKED + 1);
        assert_eq!(admitted(&mut repeats, Level::ERROR), 10_000);
        let summaries = repeats.expire_all();
        assert_eq!((summaries.len(), summaries[0].similar), (1, true));
        assert_eq!(summaries[0].repeated as usize, 10_000 - MAX_TRACKED - 1);
    }

    #[test]
    fn a_window_of_zero_collapses_nothing() {
        let mut repeats = Repeats::new(0);
        assert!((0..3).all(|_| repeats.admit(0, line(Level::WARN, "x"))));
    }

    #[test]
    fn texts_that_differ_in_numbers_alone_are_the_same() {
        let compared = without_numbers("broker 1 failed after 3005ms, 30 suppressed");
        assert_eq!(compared, "broker # failed after #ms, # suppressed");
        assert_eq!(compared, without_numbers("broker 2 failed after 7ms, 1 suppressed"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\u{1b}[31m\nü"), "a\\u{1b}[31m\\nü");
    }
}
