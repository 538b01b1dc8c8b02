//! TLS, client certificates, logins over TLS and tokens: that they work, and that each mistake ends
//! the start with a line that says which setting to look at.

use std::time::{Duration, Instant};

use crate::rig::{PATIENCE, Rig, overdue, texts, wait_log};
use crate::secure::{AUDIENCE, PASSWORD, USER, secure, text};
use crate::support::tls::{Authority, Subject, file};
use crate::support::token::Issuer;
use crate::support::{DaemonConfig, now_ms};

/// Records go through, a dead letter too, and the daemon commits.
#[track_caller]
fn assert_works(rig: &Rig, destination: &str) {
    rig.send(&[overdue("x", destination), overdue("bad", "no topic name")]);
    let daemon = rig.config.start_ready();
    assert_eq!(texts(&rig.exactly(destination, 1)), ["x"]);
    assert_eq!(texts(&rig.exactly(&rig.dlq, 1)), ["bad"]);
    rig.wait_committed();
    let output = rig.config.run(&["topics", "check"]);
    assert!(output.status.success(), "{output:?}");
    daemon.stop(PATIENCE);
}

/// The start ends with `code` and a line that names all of `needles`; `topics check` as well.
#[track_caller]
fn assert_refused(config: &DaemonConfig, code: i32, needles: &[&str]) {
    let start = Instant::now();
    let daemon = config.start();
    let ended = daemon.wait_exit(PATIENCE).code();
    let took = start.elapsed();
    let log = daemon.log();
    let line = log.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    assert_eq!(ended, Some(code), "{log}");
    for needle in needles {
        assert!(line.contains(needle), "{needle:?} is not in the last line of\n{log}");
    }
    // kafka.connect_timeout is 5 s, and the last try may take its 2 s on a busy machine.
    assert!(took < Duration::from_secs(20), "{took:?}");
    let output = config.run(&["topics", "check"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[test]
fn an_encrypted_connection_works() {
    let rig = secure().rig("TLS", "1s");
    let destination = rig.destination(1);
    assert_works(&rig, &destination);
}

#[test]
fn a_broker_whose_certificate_is_not_trusted_is_refused_and_ca_file_named() {
    assert_refused(&secure().rig("STRANGER", "1s").config, 77, &["kafka.tls.ca_file"]);
    let other = Authority::new("another authority").file();
    let rig = secure().rig("TLS", "1s").set("kafka.tls.ca_file", text(&other));
    assert_refused(&rig.config, 77, &["kafka.tls.ca_file"]);
    // The system's authorities do not know it either.
    let rig = rig.set("kafka.tls.ca_file", "").set("kafka.tls.enabled", "true");
    assert_refused(&rig.config, 77, &["kafka.tls.ca_file"]);
}

#[test]
fn a_broker_with_another_name_is_refused_unless_names_are_not_to_be_checked() {
    let rig = secure().rig("ELSEWHERE", "1s");
    assert_refused(&rig.config, 77, &["kafka.tls.verify_hostname"]);
    let rig = rig.set("kafka.tls.verify_hostname", "false");
    let destination = rig.destination(1);
    assert_works(&rig, &destination);
}

#[test]
fn a_broker_whose_certificate_has_expired_is_refused() {
    assert_refused(&secure().rig("EXPIRED", "1s").config, 77, &["expired", "certificate"]);
}

#[test]
fn a_client_certificate_is_the_login_where_the_broker_asks_for_one() {
    let rig = secure().rig("MUTUAL", "1s");
    let destination = rig.destination(1);
    secure().admit(&rig, "CN=mutual-daemon", &destination);
    let identity = secure().certificate("mutual-daemon");
    let rig = rig
        .set("kafka.tls.cert_file", text(&identity.certificate_file()))
        .set("kafka.tls.key_file", text(&identity.key_file(None)));
    assert_works(&rig, &destination);
}

#[test]
fn an_encrypted_client_key_works_with_its_password_and_is_refused_without() {
    let rig = secure().rig("MUTUAL", "1s");
    let destination = rig.destination(1);
    secure().admit(&rig, "CN=locked-daemon", &destination);
    let identity = secure().certificate("locked-daemon");
    let locked = rig
        .set("kafka.tls.cert_file", text(&identity.certificate_file()))
        .set("kafka.tls.key_file", text(&identity.key_file(Some("open-sesame"))));
    assert_refused(&locked.config, 78, &["kafka.tls.key_password_file"]);
    let password = |password: &str| {
        let path = file("key-password", &[format!("{password}\n").into_bytes()]);
        locked.config.clone().set("kafka.tls.key_password_file", text(&path))
    };
    assert_refused(&password("open-barley"), 78, &["kafka.tls.key_password_file"]);
    assert_works(&Rig { config: password("open-sesame"), ..locked }, &destination);
}

#[test]
fn a_missing_expired_or_unknown_client_certificate_is_refused() {
    let rig = secure().rig("MUTUAL", "1s");
    assert_refused(&rig.config, 77, &["kafka.tls.cert_file"]);
    let stranger = Authority::new("nobody trusts this one");
    let expired = Subject { expired: true, ..Subject::new("expired-daemon") };
    for identity in [secure().authority.issue(expired), stranger.issue(Subject::new("stranger"))] {
        let config = rig.config.clone().set("kafka.tls.key_file", text(&identity.key_file(None)));
        let config = config.set("kafka.tls.cert_file", text(&identity.certificate_file()));
        assert_refused(&config, 77, &["kafka.tls.cert_file"]);
    }
}

#[test]
fn a_key_that_is_not_the_certificates_is_a_configuration_error() {
    let (one, other) = (secure().certificate("one"), secure().certificate("other"));
    let rig = secure()
        .rig("MUTUAL", "1s")
        .set("kafka.tls.cert_file", text(&one.certificate_file()))
        .set("kafka.tls.key_file", text(&other.key_file(None)));
    assert_refused(&rig.config, 78, &["kafka.tls.key_file"]);
}

#[test]
fn encryption_on_one_side_only_ends_with_code_69_and_names_the_setting() {
    // The daemon encrypts, the listener does not.
    let plain = secure().cluster.bootstrap();
    let rig = secure().rig("TLS", "1s").set("kafka.bootstrap_servers", &plain);
    assert_refused(&rig.config, 69, &["kafka.tls.enabled"]);
    // The listener encrypts, the daemon does not.
    let rig = secure().rig("TLS", "1s").set("kafka.tls.ca_file", "");
    assert_refused(&rig.config, 69, &["kafka.tls.enabled"]);
}

#[test]
fn no_login_where_one_is_wanted_ends_with_code_69_and_names_the_table() {
    assert_refused(&secure().rig("LOGIN", "1s").config, 69, &["[kafka.sasl]"]);
}

#[test]
fn passwords_work_over_tls_with_scram_and_plain() {
    for mechanism in ["SCRAM-SHA-512", "PLAIN"] {
        let rig = secure().rig("LOGIN", "1s");
        let destination = rig.destination(1);
        secure().admit(&rig, USER, &destination);
        let rig = rig
            .set("kafka.sasl.mechanism", mechanism)
            .set("kafka.sasl.username", USER)
            .set("kafka.sasl.password", PASSWORD);
        assert_works(&rig, &destination);
        let rig = rig.set("kafka.sasl.password", "wrong-horse-battery");
        assert_refused(&rig.config, 77, &["kafka.sasl.password"]);
    }
}

#[test]
fn a_mechanism_that_the_broker_does_not_have_is_refused() {
    let rig = secure()
        .rig("LOGIN", "1s")
        .set("kafka.sasl.mechanism", "SCRAM-SHA-256")
        .set("kafka.sasl.username", USER)
        .set("kafka.sasl.password", PASSWORD);
    assert_refused(&rig.config, 77, &["kafka.sasl.mechanism"]);
}

// The file is read once: whoever rotates a password restarts the daemon.
#[test]
fn a_password_file_that_changes_counts_from_the_next_start() {
    let rig = secure().rig("LOGIN", "1s");
    let destination = rig.destination(1);
    secure().admit(&rig, USER, &destination);
    let password = file("password", &[PASSWORD.into()]);
    let rig = rig
        .set("kafka.sasl.mechanism", "SCRAM-SHA-512")
        .set("kafka.sasl.username", USER)
        .set("kafka.sasl.password_file", text(&password));
    let daemon = rig.config.start_ready();
    std::fs::write(&password, "wrong-horse-battery").unwrap();
    rig.send(&[overdue("x", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["x"]);
    daemon.stop(PATIENCE);
    assert_refused(&rig.config, 77, &["kafka.sasl.password"]);
}

fn token_rig(token: &str) -> (Rig, std::path::PathBuf) {
    let path = file("token", &[token.into()]);
    let rig = secure()
        .rig("TOKEN", "1s")
        .set("kafka.sasl.mechanism", "OAUTHBEARER")
        .set("kafka.sasl.token_file", text(&path));
    (rig, path)
}

fn in_seconds(seconds: i64) -> i64 {
    now_ms() / 1_000 + seconds
}

#[test]
fn a_signed_token_from_a_file_works() {
    let token = secure().issuer.token("token-daemon", AUDIENCE, in_seconds(600));
    let (rig, _) = token_rig(&token);
    let destination = rig.destination(1);
    secure().admit(&rig, "token-daemon", &destination);
    assert_works(&rig, &destination);
}

#[test]
fn a_token_that_is_forged_for_somebody_else_or_expired_is_refused() {
    let issuer = &secure().issuer;
    for token in [
        Issuer::new().token("token-daemon", AUDIENCE, in_seconds(600)),
        issuer.token("token-daemon", "another-service", in_seconds(600)),
    ] {
        assert_refused(&token_rig(&token).0.config, 77, &["kafka.sasl.token_file"]);
    }
    let expired = issuer.token("token-daemon", AUDIENCE, in_seconds(-60));
    assert_refused(&token_rig(&expired).0.config, 77, &["kafka.sasl.token_file", "expired"]);
    assert_refused(&token_rig("no token").0.config, 77, &["kafka.sasl.token_file", "not a JWT"]);
}

// Kubernetes replaces a projected token while the daemon runs.
#[test]
fn a_token_is_read_again_before_it_expires() {
    let issuer = &secure().issuer;
    let (rig, path) = token_rig(&issuer.token("long-lived", AUDIENCE, in_seconds(15)));
    let destination = rig.destination(1);
    secure().admit(&rig, "long-lived", &destination);
    let daemon = rig.config.start_ready();
    std::fs::write(&path, issuer.token("long-lived", AUDIENCE, in_seconds(600))).unwrap();
    // Past the first token's end, and past the end of the sessions that it opened.
    let end = Instant::now() + Duration::from_secs(17);
    while Instant::now() < end {
        rig.send(&[overdue("x", &destination)]);
        std::thread::sleep(Duration::from_millis(200));
        assert!(daemon.is_running());
    }
    rig.wait_committed();
    let sent = usize::try_from(rig.admin.end_offsets(&rig.delay)[0]).unwrap();
    assert_eq!(rig.exactly(&destination, sent).len(), sent);
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
    wait_log(&daemon, "connected");
}
