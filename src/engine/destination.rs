//! Which topics the daemon may write to.
//!
//! The destination comes from a header, so any producer of the delay topic makes the daemon write
//! with its own rights. Names are therefore checked, and an allow and a deny list decide; deny
//! wins. Always denied: the dead-letter topic and names that begin with `__` (Kafka's own topics).
//! The delay topic itself is a loop.

use regex::Regex;

use super::reject::{RejectReason, Rejection};

/// Longest topic name Kafka accepts (`Topic.MAX_NAME_LENGTH`).
pub(super) const MAX_TOPIC_NAME_BYTES: usize = 249;

/// Whether `name` is a topic name Kafka accepts: `[a-zA-Z0-9._-]{1,249}`, not `.` or `..`.
pub fn is_legal_topic_name(name: &str) -> bool {
    let legal_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= MAX_TOPIC_NAME_BYTES
        && name != "."
        && name != ".."
        && name.bytes().all(legal_byte)
}

/// An entry of the allow or deny list: an exact name, or a regular expression between slashes.
#[derive(Debug, Clone)]
pub enum TopicPattern {
    /// Exactly this topic.
    Literal(String),
    /// Every topic whose whole name matches.
    Anchored(Regex),
}

impl TopicPattern {
    /// Parses `name` or `/regex/`. The error says what is wrong with the entry.
    pub fn parse(entry: &str) -> Result<Self, String> {
        match entry.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(expression) => match Regex::new(&format!("^(?:{expression})$")) {
                Ok(regex) => Ok(Self::Anchored(regex)),
                Err(error) => Err(format!("`{entry}` is not a regular expression: {error}")),
            },
            None if is_legal_topic_name(entry) => Ok(Self::Literal(entry.to_owned())),
            None => Err(format!(
                "`{entry}` is not a topic name; write a regular expression as `/{entry}/`"
            )),
        }
    }

    fn matches(&self, topic: &str) -> bool {
        match self {
            Self::Literal(name) => name == topic,
            Self::Anchored(regex) => regex.is_match(topic),
        }
    }
}

/// Decides whether a record may go to the topic that its header names.
#[derive(Debug, Clone)]
pub struct DestinationPolicy {
    delay_topic: String,
    dead_letter_topic: Option<String>,
    allow: Vec<TopicPattern>,
    deny: Vec<TopicPattern>,
}

impl DestinationPolicy {
    /// A policy for a daemon that reads `delay_topic` and dead-letters to `dead_letter_topic`.
    pub fn new(
        delay_topic: String,
        dead_letter_topic: Option<String>,
        allow: Vec<TopicPattern>,
        deny: Vec<TopicPattern>,
    ) -> Self {
        Self { delay_topic, dead_letter_topic, allow, deny }
    }

    /// Whether records may be forwarded to `topic`; the rejection says why not.
    pub fn check(&self, topic: &str) -> Result<(), Rejection> {
        if topic == self.delay_topic {
            let detail =
                format!("`{topic}` is the delay topic: the record would come back for ever");
            return Err(Rejection::new(RejectReason::Loop, detail));
        }
        let denied = |why: &str| {
            Err(Rejection::new(RejectReason::DeniedOriginTopic, format!("`{topic}` {why}")))
        };
        if self.dead_letter_topic.as_deref() == Some(topic) {
            return denied("is the dead-letter topic");
        }
        if topic.starts_with("__") {
            return denied("begins with `__`: such topics belong to Kafka");
        }
        if self.deny.iter().any(|pattern| pattern.matches(topic)) {
            return denied("matches forward.deny_topics");
        }
        if !self.allow.iter().any(|pattern| pattern.matches(topic)) {
            return denied("matches no entry of forward.allow_topics");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> DestinationPolicy {
        let parse = |entries: &[&str]| {
            entries.iter().map(|entry| TopicPattern::parse(entry).unwrap()).collect()
        };
        DestinationPolicy::new("delay_topic".into(), Some("dlq".into()), parse(allow), parse(deny))
    }

    #[test]
    fn topic_names_follow_kafkas_rule() {
        let longest = "a".repeat(249);
        for name in ["a", "orders.created", "A-b_c.9", "...", longest.as_str()] {
            assert!(is_legal_topic_name(name), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "a\0", "ä", "a\n", too_long.as_str()] {
            assert!(!is_legal_topic_name(name), "{name:?}");
        }
    }

    #[test]
    fn deny_wins_and_patterns_are_anchored() {
        let policy =
            policy(&["/orders\\..*/", "mail", "dlq", "/__.*/"], &["orders.secret", "/.*tmp/"]);
        assert!(policy.check("orders.created").is_ok());
        assert!(policy.check("mail").is_ok());
        for (topic, reason) in [
            ("mail2", RejectReason::DeniedOriginTopic),
            ("xorders.created", RejectReason::DeniedOriginTopic),
            ("orders.secret", RejectReason::DeniedOriginTopic),
            ("orders.tmp", RejectReason::DeniedOriginTopic),
            ("dlq", RejectReason::DeniedOriginTopic),
            ("__consumer_offsets", RejectReason::DeniedOriginTopic),
            ("delay_topic", RejectReason::Loop),
        ] {
            assert_eq!(policy.check(topic).unwrap_err().reason, reason, "{topic}");
        }
    }

    #[test]
    fn an_alternation_is_anchored_as_a_whole() {
        let policy = policy(&["/a|b/"], &[]);
        assert!(policy.check("a").is_ok() && policy.check("b").is_ok());
        assert!(policy.check("ab").is_err() && policy.check("xa").is_err());
    }

    #[test]
    fn bad_patterns_say_what_to_write() {
        assert!(TopicPattern::parse("/(/").unwrap_err().contains("regular expression"));
        assert!(TopicPattern::parse("orders.*").unwrap_err().contains("`/orders.*/`"));
    }
}
