//! Why a connection fails, in words that name the settings to look at: librdkafka's own texts name
//! its properties, if anything.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::config::{self, Config, Credentials};

/// Parts of librdkafka's texts, with what to do. The first that is found counts.
const ADVICE: &[(&str, &str)] = &[
    (
        "certificate verify failed",
        "the broker's certificate must be signed by an authority in kafka.tls.ca_file, not expired, \
         and issued for the host in kafka.bootstrap_servers (kafka.tls.verify_hostname)",
    ),
    (
        "No matching issuer found",
        "kafka.tls.cert_file is signed by no authority that the broker trusts",
    ),
    (
        "SSL alert number",
        "the broker does not accept the client's certificate: kafka.tls.cert_file must be set, not \
         expired, and signed by an authority that the broker trusts",
    ),
    (
        "PLAINTEXT broker listener",
        "the broker may expect an unencrypted connection there: kafka.tls.enabled",
    ),
    ("Unsupported SASL mechanism", "choose another kafka.sasl.mechanism"),
    ("token file", "look at kafka.sasl.token_file"),
    ("key values mismatch", "kafka.tls.key_file is not the key of kafka.tls.cert_file"),
    (
        "ssl.key.location",
        "kafka.tls.key_file must be a PEM key, and kafka.tls.key_password_file must hold its \
         password if it is encrypted",
    ),
    ("ssl.certificate.location", "kafka.tls.cert_file must be a PEM certificate"),
    ("ssl.ca.location", "kafka.tls.ca_file must hold PEM certificates"),
    // The first request is not answered.
    (
        "in state APIVERSION_QUERY",
        "the broker may expect an encrypted connection there: kafka.tls.enabled, kafka.tls.ca_file",
    ),
];

/// What to look at, given librdkafka's text.
fn advice(text: &str, config: &Config) -> Option<&'static str> {
    let known = ADVICE.iter().find(|(part, _)| text.contains(part)).map(|(_, advice)| *advice);
    let login = || match config.kafka.sasl.as_ref().map(|sasl| &sasl.credentials) {
        Some(Credentials::Password { .. }) => {
            "look at kafka.sasl.username and kafka.sasl.password (or their files)"
        }
        Some(Credentials::TokenFile(_)) => "look at the token in kafka.sasl.token_file",
        None => "the broker may want a login: [kafka.sasl]",
    };
    // Without a login, the second request is not answered where one is wanted.
    let about_login =
        text.contains("SASL") || (text.contains("Disconnected") && config.kafka.sasl.is_none());
    known.or_else(|| about_login.then(login))
}

/// What `text` says, and the advice, if there is any.
pub(super) fn explain(text: &str, config: &Config) -> String {
    let bare = bare(text);
    match advice(text, config) {
        Some(advice) => format!("{bare}; {advice}"),
        None => bare.to_owned(),
    }
}

/// Why a client cannot be made. Unlike the error's own text it never shows the value of a property
/// that holds a secret, or of one that librdkafka does not know: its name may be misspelt.
pub(super) fn cannot_be_made(error: &KafkaError, config: &Config) -> String {
    match error {
        KafkaError::ClientConfig(_, _, property, _) if config::is_secret_property(property) => {
            format!("librdkafka does not take the value of \"{property}\"")
        }
        KafkaError::ClientConfig(_, text, ..) => explain(text, config),
        other => explain(&other.to_string(), config),
    }
}

/// A line that librdkafka logs, without its thread, the address and how long it took.
fn bare(line: &str) -> &str {
    let text = line.split_once("]: ").map_or(line, |(_, text)| text);
    let text = match text.split_once(": ") {
        Some((address, text)) if address.contains("://") || address.contains(':') => text,
        _ => text,
    };
    text.rsplit_once(" (after ").map_or(text, |(text, _)| text)
}

/// The right that the reading clients lack; the producer's errors come with their records.
pub(super) fn missing_right(code: RDKafkaErrorCode) -> Option<&'static str> {
    match code {
        RDKafkaErrorCode::TopicAuthorizationFailed => {
            Some("grant the daemon's user Read on source.topic")
        }
        RDKafkaErrorCode::GroupAuthorizationFailed => {
            Some("grant the daemon's user Read on the group of source.group_id")
        }
        _ => None,
    }
}

/// Whether waiting does not help.
pub(super) fn is_denied(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::SSL
    )
}

/// Whether `text` tells of a certificate that one side does not accept. librdkafka reports an alert
/// of the broker that comes after the handshake (TLS 1.3) as a broken connection.
pub(super) fn says_denied(text: &str) -> bool {
    const DENIALS: [&str; 6] = [
        "certificate verify failed",
        "No matching issuer found",
        "alert bad certificate",
        "alert certificate",
        "alert unknown ca",
        "alert handshake failure",
    ];
    DENIALS.iter().any(|denial| text.contains(denial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_is_reduced_to_what_happened() {
        let line = "[thrd:ssl://127.0.0.1:1/bootstrap]: ssl://127.0.0.1:1/bootstrap: SSL handshake \
                    failed: Disconnected (after 5ms in state SSL_HANDSHAKE, 1 identical error(s) \
                    suppressed)";
        assert_eq!(bare(line), "SSL handshake failed: Disconnected");
        let line = "[thrd:a:1/bootstrap]: a:1/bootstrap: Connect to ipv4#1:1 failed: refused";
        assert_eq!(bare(line), "Connect to ipv4#1:1 failed: refused");
        assert_eq!(bare("no such thing"), "no such thing");
    }
}
