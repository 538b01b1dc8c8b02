//! The pass-through tables: properties of librdkafka that have no setting of their own.
//!
//! A property that the daemon sets itself is refused, since two places for one thing is how
//! guarantees get lost. Names of properties are those of librdkafka's `CONFIGURATION.md`.

use std::collections::BTreeMap;
use std::fmt;

/// Properties for librdkafka. Printing them redacts what looks like a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Every property with its value, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Properties {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(properties: I) -> Self {
        Self(properties.into_iter().collect())
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable =
            self.iter().map(|(name, value)| (name, if is_secret(name) { REDACTED } else { value }));
        formatter.debug_map().entries(printable).finish()
    }
}

/// Stands for a secret wherever settings are printed.
pub(super) const REDACTED: &str = "[redacted]";

/// Whether the value of `property` must never be printed.
pub(super) fn is_secret(property: &str) -> bool {
    let property = property.to_ascii_lowercase();
    ["password", "secret", "passphrase", ".key.pem"].iter().any(|part| property.contains(part))
        || property == "sasl.oauthbearer.config"
}

/// Why `property` may not be passed through, and what to do; `None` when it may.
pub(super) fn refusal(property: &str) -> Option<String> {
    let (_, ours) = OWNED.iter().find(|(owned, _)| *owned == property)?;
    Some(match *ours {
        "" => format!("the daemon needs `{property}` as it is; remove it"),
        ours => format!("`{property}` follows from {ours}; set that instead"),
    })
}

/// What the daemon sets itself, with the key that decides; no key = it must not change.
const OWNED: &[(&str, &str)] = &[
    ("acks", ""),
    ("allow.auto.create.topics", ""),
    ("auto.commit.enable", ""),
    ("auto.commit.interval.ms", "source.commit_interval"),
    ("auto.offset.reset", "source.on_missing_offset"),
    ("bootstrap.servers", "kafka.bootstrap_servers"),
    ("client.id", "kafka.client_id"),
    ("client.rack", "kafka.rack"),
    ("compression.codec", "forward.compression"),
    ("compression.type", "forward.compression"),
    ("delivery.report.only.error", ""),
    ("delivery.timeout.ms", ""),
    ("enable.auto.commit", ""),
    ("enable.auto.offset.store", ""),
    ("enable.idempotence", ""),
    ("enable.partition.eof", ""),
    ("group.id", "source.group_id"),
    ("group.instance.id", "source.group_instance_id"),
    ("group.protocol", "source.group_protocol"),
    ("heartbeat.interval.ms", "source.heartbeat_interval"),
    ("isolation.level", ""),
    ("linger.ms", "forward.linger"),
    ("max.poll.interval.ms", "source.max_poll_interval"),
    ("message.timeout.ms", ""),
    ("metadata.broker.list", "kafka.bootstrap_servers"),
    ("offset.store.method", ""),
    ("partition.assignment.strategy", ""),
    ("queue.buffering.max.ms", "forward.linger"),
    ("queued.max.messages.kbytes", "source.max_queued"),
    ("request.required.acks", ""),
    ("sasl.mechanism", "kafka.sasl.mechanism"),
    ("sasl.mechanisms", "kafka.sasl.mechanism"),
    ("sasl.password", "kafka.sasl.password"),
    ("sasl.username", "kafka.sasl.username"),
    ("security.protocol", "kafka.tls.enabled and kafka.sasl.mechanism"),
    ("session.timeout.ms", "source.session_timeout"),
    ("socket.timeout.ms", "kafka.request_timeout"),
    ("ssl.ca.location", "kafka.tls.ca_file"),
    ("ssl.certificate.location", "kafka.tls.cert_file"),
    ("ssl.endpoint.identification.algorithm", "kafka.tls.verify_hostname"),
    ("ssl.key.location", "kafka.tls.key_file"),
    ("ssl.key.password", "kafka.tls.key_password_file"),
    ("statistics.interval.ms", "metrics.librdkafka_interval"),
    ("transaction.timeout.ms", "forward.transaction_timeout"),
    ("transactional.id", "forward.transactional_id"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_the_daemon_owns_names_the_key_to_use() {
        assert!(refusal("group.id").unwrap().contains("source.group_id"));
        assert!(refusal("acks").unwrap().contains("as it is"));
        assert_eq!(refusal("socket.keepalive.enable"), None);
        assert!(OWNED.is_sorted(), "keep the list sorted");
    }

    #[test]
    fn secrets_among_properties_are_not_printed() {
        for name in [
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.config",
        ] {
            let properties: Properties =
                [(name.to_owned(), "hunter2".to_owned())].into_iter().collect();
            let printed = format!("{properties:?}");
            assert!(printed.contains(REDACTED) && !printed.contains("hunter2"), "{printed}");
        }
    }
}
