//! Checks of the delay topic and the dead-letter topic before anything is read.
//!
//! Each finding names the setting, what it is, what it should be, and the command's direction.
//! `source.verify_topic` decides whether findings stop the start.

use std::collections::BTreeMap;
use std::fmt;

use super::admin::TopicState;
use crate::engine::LevelTable;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Records would be lost or not forwarded.
    Error,
    /// Worth changing.
    Warning,
}

/// Something about a topic that should be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The topic.
    pub topic: String,
    /// What is wrong and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "topic `{}`: {}", self.topic, self.text)
    }
}

/// Checks the delay topic against the level table. `margin_ms` is the time that records must
/// survive beyond the longest delay.
pub fn check_delay_topic(
    topic: &str,
    state: &TopicState,
    levels: &LevelTable,
    margin_ms: i64,
) -> Vec<Finding> {
    let mut findings = Findings { topic, list: Vec::new() };
    let partitions = usize::try_from(state.partitions).unwrap_or(0);
    if !levels.fits(partitions) {
        findings.error(format!(
            "it has {partitions} partitions, which is no multiple of the {} levels; set delay.levels to \
             the level of each partition, or recreate the topic",
            levels.count()
        ));
    }
    let Some(settings) = &state.settings else {
        findings.warning(
            "its settings cannot be read (grant DescribeConfigs): retention, cleanup policy and \
             timestamp type are not checked"
                .to_owned(),
        );
        return findings.list;
    };
    let value = |name: &str| settings.get(name).map(String::as_str);
    if value("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
        findings.error(
            "cleanup.policy includes compact, which deletes waiting records of equal keys; set it \
             to delete"
                .to_owned(),
        );
    }
    check_retention(&mut findings, settings, levels, margin_ms);
    if value("message.timestamp.type") == Some("CreateTime") {
        findings.warning(
            "message.timestamp.type is CreateTime: the producers' clocks decide when records are \
             due; LogAppendTime is recommended"
                .to_owned(),
        );
    }
    findings.list
}

fn check_retention(
    findings: &mut Findings<'_>,
    settings: &BTreeMap<String, String>,
    levels: &LevelTable,
    margin_ms: i64,
) {
    let number = |name: &str| settings.get(name).and_then(|value| value.parse::<i64>().ok());
    let needed_ms = levels.longest_ms().saturating_add(margin_ms);
    if let Some(retention_ms) = number("retention.ms")
        && retention_ms >= 0
        && retention_ms < needed_ms
    {
        findings.error(format!(
            "retention.ms is {retention_ms}: records are deleted before or soon after they are due; \
             it must be at least {needed_ms} (longest delay plus source.retention_margin)"
        ));
    }
    if let Some(bytes) = number("retention.bytes").filter(|bytes| *bytes >= 0) {
        findings.error(format!(
            "retention.bytes is {bytes}: a burst deletes records that still wait; set it to -1"
        ));
    }
}

/// Checks the dead-letter topic: it must take every record the delay topic takes.
pub fn check_dead_letter_topic(
    topic: &str,
    state: &TopicState,
    delay_topic: &TopicState,
) -> Vec<Finding> {
    /// Bytes that the headers added to a dead letter may take.
    const ADDED_HEADERS_BYTES: i64 = 1_024;
    let mut findings = Findings { topic, list: Vec::new() };
    let limit = |state: &TopicState| {
        let settings = state.settings.as_ref()?;
        settings.get("max.message.bytes")?.parse::<i64>().ok()
    };
    if state.settings.is_none() {
        findings.warning(
            "its settings cannot be read (grant DescribeConfigs): max.message.bytes and cleanup \
             policy are not checked"
                .to_owned(),
        );
    }
    if let (Some(takes), Some(source)) = (limit(state), limit(delay_topic))
        && takes < source.saturating_add(ADDED_HEADERS_BYTES)
    {
        let needed = source.saturating_add(ADDED_HEADERS_BYTES);
        findings.warning(format!(
            "max.message.bytes is {takes}; the largest records of the delay topic with their reason \
             need {needed}: a rejected one of that size would hold up its level"
        ));
    }
    if let Some(settings) = &state.settings
        && settings.get("cleanup.policy").is_some_and(|policy| policy.contains("compact"))
    {
        findings.warning(
            "cleanup.policy includes compact: rejected records of equal keys replace one another, \
             and records without a key are refused"
                .to_owned(),
        );
    }
    findings.list
}

struct Findings<'a> {
    topic: &'a str,
    list: Vec<Finding>,
}

impl Findings<'_> {
    fn error(&mut self, text: String) {
        self.push(Severity::Error, text);
    }

    fn warning(&mut self, text: String) {
        self.push(Severity::Warning, text);
    }

    fn push(&mut self, severity: Severity, text: String) {
        self.list.push(Finding { severity, topic: self.topic.to_owned(), text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MARGIN_MS: i64 = 86_400_000;

    fn levels() -> LevelTable {
        LevelTable::new(&[Duration::from_secs(1), Duration::from_secs(7_200)]).unwrap()
    }

    fn topic(partitions: i32, settings: &[(&str, &str)]) -> TopicState {
        let mut all = BTreeMap::from([
            ("cleanup.policy".to_owned(), "delete".to_owned()),
            ("retention.ms".to_owned(), "604800000".to_owned()),
            ("retention.bytes".to_owned(), "-1".to_owned()),
            ("message.timestamp.type".to_owned(), "LogAppendTime".to_owned()),
            ("max.message.bytes".to_owned(), "1048588".to_owned()),
        ]);
        for (name, value) in settings {
            all.insert((*name).to_owned(), (*value).to_owned());
        }
        TopicState { partitions, settings: Some(all) }
    }

    fn check(state: &TopicState) -> Vec<(Severity, String)> {
        check_delay_topic("delay_topic", state, &levels(), MARGIN_MS)
            .into_iter()
            .map(|finding| (finding.severity, finding.text))
            .collect()
    }

    // R47: storage that forgets before the delay is over.
    #[test]
    fn every_bad_setting_is_found_and_named() {
        assert_eq!(check(&topic(4, &[])), []);
        assert_eq!(check(&topic(2, &[("retention.ms", "-1")])), []);
        let needed = (7_200_000 + MARGIN_MS).to_string();
        let short = (7_200_000 + MARGIN_MS - 1).to_string();
        assert_eq!(check(&topic(2, &[("retention.ms", &needed)])), []);
        for (partitions, name, value) in [
            (2, "retention.ms", short.as_str()),
            (2, "retention.bytes", "1000000"),
            (2, "cleanup.policy", "compact,delete"),
            (3, "", ""),
            (0, "", ""),
        ] {
            let found = check(&topic(partitions, &[(name, value)]));
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].0, Severity::Error);
            assert!(found[0].1.contains(name), "{}", found[0].1);
        }
        let found = check(&topic(2, &[("message.timestamp.type", "CreateTime")]));
        assert_eq!(found[0].0, Severity::Warning);
    }

    #[test]
    fn settings_that_may_not_be_read_are_a_warning() {
        let found = check(&TopicState { partitions: 2, settings: None });
        assert!(
            matches!(&found[..], [(Severity::Warning, text)] if text.contains("DescribeConfigs"))
        );
    }

    #[test]
    fn the_dead_letter_topic_must_take_records_as_large() {
        let source = topic(2, &[]);
        let check = |settings: &[(&str, &str)]| {
            check_dead_letter_topic("dlq", &topic(1, settings), &source).len()
        };
        assert_eq!(check(&[("max.message.bytes", "1049612")]), 0);
        assert_eq!(check(&[("max.message.bytes", "1049611")]), 1);
        assert_eq!(check(&[("max.message.bytes", "2000000"), ("cleanup.policy", "compact")]), 1);
        let hidden = TopicState { partitions: 1, settings: None };
        assert_eq!(check_dead_letter_topic("dlq", &hidden, &source).len(), 1);
    }
}
