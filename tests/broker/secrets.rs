//! Every setting that holds a secret, with a secret of its own; everything the process says about
//! it at the highest verbosity, in success and failure.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rig::PATIENCE;
use crate::secure::{AUDIENCE, PASSWORD, USER, secure, text};
use crate::support::tls::file;
use crate::support::token::Issuer;
use crate::support::{Daemon, DaemonConfig, now_ms, unique};

/// Fails the test when `said` has one of `secrets`, as it is or in Base64.
#[track_caller]
fn assert_silent(secrets: &[&str], what: &str, said: &str) {
    for secret in secrets {
        for shape in [(*secret).to_owned(), STANDARD.encode(secret)] {
            if let Some(at) = said.find(&shape) {
                let before = said[..at].lines().last().unwrap_or_default();
                panic!("{what} has a secret: {before}<here>");
            }
        }
    }
}

/// With everything logged that the daemon and librdkafka can log.
fn talkative(config: &DaemonConfig) -> DaemonConfig {
    config
        .clone()
        .set("log.filter", "trace")
        .set("log.repeat_window", "0s")
        .set("kafka.librdkafka.debug", "all")
}

/// Runs the daemon until it is ready or ends, and all commands that read the configuration.
#[track_caller]
fn assert_nothing_leaks(config: &DaemonConfig, secrets: &[&str], starts: bool) -> Daemon {
    let config = talkative(config);
    let daemon = config.start();
    if starts {
        daemon.wait_ready();
        for page in ["/", "/livez", "/readyz?verbose", "/metrics", "/status", "/version"] {
            let (_, body) = daemon.http_get(page).unwrap();
            assert_silent(secrets, page, &body);
        }
        daemon.stop(PATIENCE);
    } else {
        assert_ne!(daemon.wait_exit(PATIENCE).code(), Some(0));
    }
    assert_silent(secrets, "the log", &daemon.log());
    for command in [
        &["config", "show", "--origin"][..],
        &["config", "show", "-o", "json"],
        &["check", "--strict"],
        &["topics", "check"],
        &["send", "--level", "1", "--to", "orders", "x"],
    ] {
        let output = config.run(command);
        let said = [output.stdout, output.stderr].concat();
        assert_silent(secrets, &format!("{command:?}"), &String::from_utf8_lossy(&said));
    }
    daemon
}

/// The daemon does not start, and neither it nor `check` says a secret. (`config show` prints what
/// is set, and cannot know what a misspelt property holds.)
#[track_caller]
fn assert_fails_silently(config: &DaemonConfig, secrets: &[&str]) {
    let config = talkative(config);
    let daemon = config.start();
    assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(78), "{}", daemon.log());
    assert_silent(secrets, "the log", &daemon.log());
    for command in [&["check"][..], &["topics", "check"]] {
        assert_silent(secrets, "a command", &format!("{:?}", config.run(command)));
    }
}

fn secret_file(content: &str) -> PathBuf {
    file("secret", &[content.into()])
}

#[test]
fn passwords_stay_secret_in_success_and_failure() {
    let base = secure().rig("LOGIN", "1s");
    let destination = base.destination(1);
    secure().admit(&base, USER, &destination);
    let base = base.set("kafka.sasl.username", USER);
    let wrong = unique("wrong-password");
    for mechanism in ["SCRAM-SHA-512", "PLAIN"] {
        let config = base.config.clone().set("kafka.sasl.mechanism", mechanism);
        let right = config.clone().set("kafka.sasl.password", PASSWORD);
        let daemon = assert_nothing_leaks(&right, &[PASSWORD], true);
        // Or nothing would be tested.
        assert!(daemon.log().contains("DEBUG librdkafka"), "{}", daemon.log());
        let direct = config.clone().set("kafka.sasl.password", &wrong);
        assert_nothing_leaks(&direct, &[&wrong], false);
        let from_file = config.set("kafka.sasl.password_file", text(&secret_file(&wrong)));
        assert_nothing_leaks(&from_file, &[&wrong], false);
    }
}

#[test]
fn keys_and_their_passwords_stay_secret_in_success_and_failure() {
    let (right, wrong) = (unique("right-key-password"), unique("wrong-key-password"));
    let rig = secure().rig("MUTUAL", "1s");
    let destination = rig.destination(1);
    secure().admit(&rig, "CN=quiet-daemon", &destination);
    let identity = secure().certificate("quiet-daemon");
    let key_file = identity.key_file(Some(&right));
    let key = std::fs::read_to_string(&key_file).unwrap();
    let line_of_key = key.lines().nth(1).unwrap();
    let rig = rig
        .set("kafka.tls.cert_file", text(&identity.certificate_file()))
        .set("kafka.tls.key_file", text(&key_file));
    for (password, starts) in [(&right, true), (&wrong, false)] {
        let path = secret_file(password);
        let config = rig.config.clone().set("kafka.tls.key_password_file", text(&path));
        assert_nothing_leaks(&config, &[password, line_of_key], starts);
    }
    // A key where a certificate should be, and the other way round.
    let swapped = rig.config.clone().set("kafka.tls.cert_file", text(&key_file));
    assert_nothing_leaks(&swapped, &[line_of_key], false);
}

#[test]
fn tokens_stay_secret_in_success_and_failure() {
    let in_an_hour = now_ms() / 1_000 + 3_600;
    let good = secure().issuer.token("quiet-token", AUDIENCE, in_an_hour);
    let forged = Issuer::new().token("quiet-token", AUDIENCE, in_an_hour);
    let rig = secure().rig("TOKEN", "1s").set("kafka.sasl.mechanism", "OAUTHBEARER");
    let destination = rig.destination(1);
    secure().admit(&rig, "quiet-token", &destination);
    let no_token = unique("a-password-in-the-wrong-place");
    for (token, starts) in [(&good, true), (&forged, false), (&no_token, false)] {
        let signature = token.rsplit('.').next().unwrap();
        let config = rig.config.clone().set("kafka.sasl.token_file", text(&secret_file(token)));
        assert_nothing_leaks(&config, &[token, signature], starts);
    }
}

#[test]
fn secrets_among_librdkafkas_properties_stay_secret() {
    let secret = unique("property-secret");
    let rig = secure().rig("TLS", "1s");
    let config = rig.config.clone().set("kafka.librdkafka.ssl_keystore_password", &secret);
    assert_nothing_leaks(&config, &[&secret], true);
    // Owned by other settings; ones that librdkafka cannot use; and a misspelt one.
    for property in [
        "kafka.librdkafka.sasl_password",
        "kafka.librdkafka.ssl_key_password",
        "kafka.librdkafka.ssl_key_pem",
        "kafka.librdkafka.sasl_oauthbearer_client_secret",
        "source.librdkafka.sasl_oauthbearer_client_secret",
        "forward.librdkafka.ssl_keystore_pasword",
    ] {
        let config = rig.config.clone().set(property, &secret);
        assert_fails_silently(&config, &[&secret]);
    }
}
