//! From values by key to the checked [`KafkaConfig`]: brokers, encryption, credentials.

use std::time::Duration;

use secrecy::ExposeSecret;

use super::choice::SaslMechanism;
use super::model::{ClientCertificate, Credentials, KafkaConfig, SaslConfig, TlsConfig};
use super::reader::Reader;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Reads `[kafka]` and the tables below it.
pub(super) fn kafka(reader: &mut Reader<'_>) -> KafkaConfig {
    KafkaConfig {
        bootstrap_servers: bootstrap_servers(reader),
        client_id: reader.required("kafka.client_id"),
        rack: reader.optional("kafka.rack"),
        connect_timeout: reader.duration("kafka.connect_timeout", MS..=HOUR),
        // librdkafka takes at most 5 minutes, and wants a second more than a fetch may wait.
        request_timeout: reader.duration("kafka.request_timeout", 2 * SECOND..=300 * SECOND),
        tls: tls(reader),
        sasl: sasl(reader),
        librdkafka: reader.properties("kafka.librdkafka"),
    }
}

fn bootstrap_servers(reader: &mut Reader<'_>) -> Vec<String> {
    const PATH: &str = "kafka.bootstrap_servers";
    let servers = reader.list(PATH);
    if servers.is_empty() {
        reader.refuse(PATH, "the list is empty; name at least one broker");
    }
    for server in &servers {
        if server.contains("://") {
            let hint = "encryption follows from [kafka.tls]";
            reader.refuse(PATH, format!("`{server}`: write host:port without a scheme; {hint}"));
        } else if !is_host_and_port(server) {
            reader.refuse(PATH, format!("`{server}` is not host:port"));
        }
    }
    servers
}

/// Whether `server` is `host`, `host:port`, `[v6]` or `[v6]:port`.
fn is_host_and_port(server: &str) -> bool {
    let (host, port) = match server.rfind(']') {
        Some(end) => (&server[..=end], server[end + 1..].strip_prefix(':')),
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    let rest = server.len() - host.len();
    let legal = |character: char| !character.is_whitespace() && !",/".contains(character);
    let port_is_legal = match port {
        Some(port) => port.parse::<u16>().is_ok_and(|port| port > 0),
        None => rest == 0,
    };
    !host.is_empty() && host.chars().all(legal) && !host.contains(char::is_control) && port_is_legal
}

fn tls(reader: &mut Reader<'_>) -> TlsConfig {
    const CERT: &str = "kafka.tls.cert_file";
    const KEY: &str = "kafka.tls.key_file";
    const PASSWORD: &str = "kafka.tls.key_password_file";
    let enabled = reader.boolean("kafka.tls.enabled");
    let ca_file = reader.file("kafka.tls.ca_file");
    let cert_file = reader.file(CERT);
    let key_file = reader.file(KEY);
    let key_password = reader.secret_file(PASSWORD);
    if reader.is_fine(&[CERT, KEY, PASSWORD]) {
        match (&cert_file, &key_file) {
            (Some(_), None) => reader.refuse(CERT, format!("set {KEY} as well: its private key")),
            (None, Some(_)) => reader.refuse(KEY, format!("set {CERT} as well: its certificate")),
            (None, None) if key_password.is_some() => {
                reader.refuse(PASSWORD, format!("has no effect without {KEY}; remove it"));
            }
            _ => {}
        }
    }
    let client_certificate = cert_file
        .zip(key_file)
        .map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file, key_password });
    TlsConfig {
        enabled: enabled || ca_file.is_some() || client_certificate.is_some(),
        ca_file,
        client_certificate,
        verify_hostname: reader.boolean("kafka.tls.verify_hostname"),
    }
}

/// No mechanism with credentials, or credentials without a mechanism, must never reach librdkafka:
/// its default would be GSSAPI.
fn sasl(reader: &mut Reader<'_>) -> Option<SaslConfig> {
    const MECHANISM: &str = "kafka.sasl.mechanism";
    const USERNAME: [&str; 2] = ["kafka.sasl.username", "kafka.sasl.username_file"];
    const PASSWORD: [&str; 2] = ["kafka.sasl.password", "kafka.sasl.password_file"];
    const TOKEN: &str = "kafka.sasl.token_file";
    let mechanism: Option<SaslMechanism> = reader.optional_choice(MECHANISM);
    let username = reader.credential(USERNAME[0], USERNAME[1]);
    let password = reader.credential(PASSWORD[0], PASSWORD[1]);
    let token_file = reader.file(TOKEN);
    if !reader.is_fine(&[MECHANISM, USERNAME[0], USERNAME[1], PASSWORD[0], PASSWORD[1], TOKEN]) {
        return None;
    }
    let Some(mechanism) = mechanism else {
        if username.is_some() || password.is_some() || token_file.is_some() {
            let paths = [&USERNAME[..], &PASSWORD[..], &[TOKEN]].concat();
            let message = format!("credentials without {MECHANISM}; set the mechanism");
            reader.refuse_together(&paths, message);
        }
        return None;
    };
    let credentials = match (mechanism, username, password, token_file) {
        (SaslMechanism::OauthBearer, None, None, Some(token_file)) => {
            Credentials::TokenFile(token_file)
        }
        (SaslMechanism::OauthBearer, ..) => {
            let message = format!("OAUTHBEARER takes {TOKEN}, and no user name or password");
            reader.refuse(MECHANISM, message);
            return None;
        }
        (_, Some(username), Some(password), None) => {
            Credentials::Password { username: username.expose_secret().to_owned(), password }
        }
        _ => {
            let message = "PLAIN and SCRAM take a user name and a password, and no token; set \
                           kafka.sasl.username and kafka.sasl.password_file";
            reader.refuse(MECHANISM, message);
            return None;
        }
    };
    Some(SaslConfig { mechanism, credentials })
}
