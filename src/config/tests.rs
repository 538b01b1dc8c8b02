//! Mistakes that people make, and what the daemon says to each.

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;

mod hostile;

fn file(text: &str) -> Sources {
    Sources { file: Some(("config.toml".into(), text.to_owned())), ..Sources::default() }
}

fn environment(name: &str, value: &str) -> Sources {
    Sources { environment: vec![(name.to_owned(), value.to_owned())], ..Sources::default() }
}

fn flag(path: &str, value: &str) -> Sources {
    let set = Override { path: path.to_owned(), value: value.to_owned(), flag: "--set".to_owned() };
    Sources { flags: vec![set], ..Sources::default() }
}

fn errors(sources: &Sources) -> Vec<String> {
    match load(sources) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.errors.iter().map(ToString::to_string).collect(),
    }
}

/// The only error of `sources`.
fn error(sources: &Sources) -> String {
    let mut errors = errors(sources);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.remove(0)
}

fn warnings(sources: &Sources) -> Vec<String> {
    load(sources).unwrap().warnings.iter().map(ToString::to_string).collect()
}

fn value(loaded: &Loaded, path: &str) -> String {
    let setting = loaded.effective.iter().find(|setting| setting.path == path).unwrap();
    format!("{} ({})", setting.value, setting.origin)
}

#[test]
fn a_misspelt_key_is_refused_with_its_place_and_the_nearest_name() {
    let message = error(&file("[source]\n  sesion_timeout = \"10s\"\n"));
    let expected =
        "config.toml:2:3: source.sesion_timeout: unknown key; did you mean session_timeout?";
    assert_eq!(message, expected);
    assert!(
        error(&file("[sorce]\ntopic = \"a\"\n")).contains("config.toml:1:2: sorce: unknown key")
    );
    let elsewhere = error(&file("[source]\nbootstrap_servers = [\"a\"]\n"));
    assert!(elsewhere.contains("did you mean kafka.bootstrap_servers?"), "{elsewhere}");
    assert!(error(&file("nonsense = 1\n")).contains("kafka-delay config env"));
}

#[test]
fn all_mistakes_are_reported_together_in_the_order_of_the_layers() {
    let mut sources = file(
        "[source]\ntopic = \"a b\"\ngroup = \"g\"\n[kafka]\nrequest_timeout = 30\n\
         [retry]\nmax_backoff = \"fast\"\n",
    );
    sources.environment.push(("KAFKA_DELAY__LOG__FORMAT".into(), "xml".into()));
    sources.flags = flag("metrics.per_topic_limit", "many").flags;
    let errors = errors(&sources);
    let starts: Vec<&str> =
        errors.iter().map(|error| error.split_once(": ").map_or("", |(start, _)| start)).collect();
    let expected = [
        "config.toml:2:1",
        "config.toml:3:1",
        "config.toml:5:19",
        "config.toml:7:1",
        "KAFKA_DELAY__LOG__FORMAT",
        "--set",
    ];
    assert_eq!(starts, expected, "{errors:#?}");
}

#[test]
fn a_file_that_is_not_toml_shows_the_place_with_a_caret() {
    let message = error(&file("[source]\ntopic = delay\n"));
    assert!(message.starts_with("config.toml:2:9: not TOML:"), "{message}");
    assert!(message.contains("2 | topic = delay") && message.contains('^'), "{message}");
}

#[test]
fn a_syntax_error_does_not_print_the_password_beside_it() {
    for text in [
        "[kafka.sasl]\npassword = \"hunter2\n",
        "[kafka.sasl]\npassword = hunter2\n",
        "[kafka.sasl]\npassword = \"\"\"\nhunter2\n",
        "[kafka.sasl]\npassword = \"hunter2\" \"x\"\n",
    ] {
        let message = error(&file(text));
        assert!(message.contains("not TOML") && !message.contains("hunter2"), "{message}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_without_showing_it() {
    for (text, needle) in [
        ("source = 3", "write [source]"),
        ("[source]\nsession_timeout = 15", "a duration in quotes"),
        ("[source]\nmax_queued = 65536", "a size in quotes"),
        ("[kafka]\nbootstrap_servers = \"a:9092\"", "expected a list of strings"),
        ("[kafka]\nbootstrap_servers = [1]", "found other items"),
        ("[kafka.tls]\nenabled = \"true\"", "without quotes"),
        ("[metrics]\nper_topic_limit = 1.5", "a whole number"),
        ("[metrics]\nper_topic_limit = 0xffffffffffffffffff", "a whole number"),
        ("[kafka]\nlibrdkafka = \"a=b\"", "a table of strings"),
        ("\"source.topic\" = \"a\"", "without the quotes"),
        ("[[source]]\ntopic = \"a\"", "write [source]"),
    ] {
        let message = error(&file(text));
        assert!(message.contains(needle), "{text}: {message}");
    }
    assert!(!error(&file("[kafka.sasl]\npassword = 12345")).contains("12345"));
}

#[test]
fn flag_wins_over_environment_over_file_over_default() {
    let mut sources = file("[source]\ntopic = \"of_file\"\ngroup_id = \"of_file\"\n");
    sources.environment.push(("KAFKA_DELAY__SOURCE__GROUP_ID".into(), "of_env".into()));
    sources.environment.push(("KAFKA_DELAY__KAFKA__RACK".into(), "of_env".into()));
    sources.flags = flag("kafka.rack", "of_flag").flags;
    let loaded = load(&sources).unwrap();
    assert_eq!(value(&loaded, "source.topic"), "\"of_file\" (config.toml:2:1)");
    assert_eq!(value(&loaded, "source.group_id"), "\"of_env\" (KAFKA_DELAY__SOURCE__GROUP_ID)");
    assert_eq!(value(&loaded, "kafka.rack"), "\"of_flag\" (--set)");
    assert_eq!(value(&loaded, "kafka.client_id"), "\"kafka-delay\" (default)");
    assert_eq!(loaded.config.source.topic, "of_file");
    assert_eq!(loaded.config.kafka.rack.as_deref(), Some("of_flag"));
}

#[test]
fn environment_values_have_the_type_of_the_key_and_are_never_guessed() {
    let mut sources = environment("KAFKA_DELAY__KAFKA__SASL__PASSWORD", "0123");
    for (name, value) in [
        ("KAFKA_DELAY__KAFKA__SASL__USERNAME", "true"),
        ("KAFKA_DELAY__KAFKA__SASL__MECHANISM", "SCRAM-SHA-512"),
        ("KAFKA_DELAY__KAFKA__BOOTSTRAP_SERVERS", "a:9092, b:9093"),
        ("KAFKA_DELAY__FORWARD__DENY_TOPICS", ""),
        ("KAFKA_DELAY__METRICS__PER_TOPIC", "true"),
        ("KAFKA_DELAY__METRICS__PER_TOPIC_LIMIT", "7"),
        ("KAFKA_DELAY__KAFKA__LIBRDKAFKA__SOCKET_KEEPALIVE_ENABLE", "true"),
        ("KAFKA_DELAY_CONFIG", "/somewhere"),
        ("KAFKA_DELAY_RUST", "x"),
    ] {
        sources.environment.push((name.to_owned(), value.to_owned()));
    }
    let config = load(&sources).unwrap().config;
    match config.kafka.sasl.unwrap().credentials {
        Credentials::Password { username, password } => {
            assert_eq!((username.as_str(), password.expose_secret()), ("true", "0123"));
        }
        Credentials::TokenFile(_) => panic!("not a token"),
    }
    assert_eq!(config.kafka.bootstrap_servers, ["a:9092", "b:9093"]);
    assert!(config.forward.deny_topics.is_empty());
    assert!(config.metrics.per_topic);
    assert_eq!(config.metrics.per_topic_limit, 7);
    let properties: Vec<_> = config.kafka.librdkafka.iter().collect();
    assert_eq!(properties, [("socket.keepalive.enable", "true")]);
}

#[test]
fn an_unknown_variable_with_the_prefix_is_refused_with_the_nearest_name() {
    for (name, nearest) in [
        ("KAFKA_DELAY__SOURCE__TOPICS", "did you mean KAFKA_DELAY__SOURCE__TOPIC?"),
        ("KAFKA_DELAY__SOURCE_TOPIC", "did you mean KAFKA_DELAY__SOURCE__TOPIC?"),
        ("KAFKA_DELAY__TOPIC", "did you mean KAFKA_DELAY__"),
        ("KAFKA_DELAY__", "config env"),
        ("KAFKA_DELAY__KAFKA__LIBRDKAFKA__", "sets no known key"),
    ] {
        let message = error(&environment(name, "x"));
        assert!(message.starts_with(name) && message.contains(nearest), "{message}");
    }
    let yes = error(&environment("KAFKA_DELAY__KAFKA__TLS__ENABLED", "yes"));
    assert!(yes.contains("`yes` is neither true nor false"), "{yes}");
    let spoilt = error(&environment("KAFKA_DELAY__KAFKA__SASL__PASSWORD", "a\u{fffd}"));
    assert!(spoilt.contains("not UTF-8"), "{spoilt}");
}

#[test]
fn an_unknown_flag_path_is_refused_and_a_property_needs_a_name() {
    let message = error(&flag("source.topik", "x"));
    assert_eq!(message, "--set: source.topik: unknown key; did you mean topic?");
    assert!(error(&flag("kafka.librdkafka", "x")).contains("name a property"));
    assert!(error(&flag("source", "x")).contains("unknown key"));
    let loaded = load(&flag("forward.librdkafka.batch.size", "1000")).unwrap();
    assert_eq!(value(&loaded, "forward.librdkafka.batch.size"), "\"1000\" (--set)");
}

/// Both sides of every bound: what is accepted first, what is refused second.
#[test]
fn each_bound_holds_on_both_sides() {
    let longest = "720h";
    let bounds = [
        ("kafka.connect_timeout", ["1ms", "1h"], ["0s", "3600001ms"]),
        ("kafka.request_timeout", ["2s", "5m"], ["1999ms", "300001ms"]),
        ("source.commit_interval", ["1ms", "1h"], ["0s", "3600001ms"]),
        ("source.max_poll_interval", ["15s", "24h"], ["14999ms", "86400001ms"]),
        ("source.session_timeout", ["9s", "5m"], ["8999ms", "300001ms"]),
        ("source.heartbeat_interval", ["1ms", "5s"], ["0s", "5001ms"]),
        ("source.retention_margin", ["0s", "365days"], ["", "8760h 1ms"]),
        ("source.max_queued", ["1KiB", "2097151KiB"], ["1023", "2GiB"]),
        ("delay.park_after", ["1501ms", longest], ["1500ms", "721h"]),
        ("delay.wake_lead", ["200ms", "9999ms"], ["199ms", "10s"]),
        ("delay.future_tolerance", ["0s", longest], ["", "721h"]),
        ("forward.destination_grace", ["0s", longest], ["5", "721h"]),
        ("forward.linger", ["0s", "15m"], ["1", "900001ms"]),
        ("forward.max_in_flight", ["64KiB", "2147483647KiB"], ["63KiB", "2TiB"]),
        ("retry.initial_backoff", ["1ms", "30s"], ["0s", "30001ms"]),
        ("retry.max_backoff", ["200ms", "1h"], ["199ms", "3600001ms"]),
        ("log.repeat_window", ["0s", longest], ["x", "721h"]),
        ("metrics.librdkafka_interval", ["0s", "24h"], ["-1s", "86400001ms"]),
        ("metrics.lag_interval", ["1ms", "1h"], ["0s", "3600001ms"]),
        ("metrics.per_topic_limit", ["1", "10000"], ["0", "10001"]),
        ("health.stall_after", ["1s", "1h"], ["999ms", "3600001ms"]),
        ("health.stuck_after", ["1s", "1h"], ["999ms", "3600001ms"]),
        ("shutdown.timeout", ["1s", "1h"], ["999ms", "3600001ms"]),
    ];
    for (path, accepted, refused) in bounds {
        for text in accepted {
            assert_eq!(errors(&flag(path, text)), [""; 0], "{path} = {text}");
        }
        for text in refused {
            let message = error(&flag(path, text));
            assert!(message.starts_with("--set: "), "{path} = {text}: {message}");
        }
    }
}

#[test]
fn a_month_is_not_taken_for_a_minute() {
    for text in ["1M", "1h 2M", "1month", "2 years", "1y"] {
        let message = error(&flag("retry.max_backoff", text));
        assert!(message.contains("in months or years"), "{message}");
    }
    assert!(error(&flag("delay.levels", "1s,1M")).contains("in months or years"));
    assert!(error(&flag("delay.levels", "1s,31days")).contains("longest supported delay"));
    assert!(error(&flag("delay.levels", "5s,1s")).contains("level 2"));
    assert!(error(&flag("delay.levels", "")).contains("empty"));
    assert_eq!(errors(&flag("retry.max_backoff", "1 min")), [""; 0]);
}

#[test]
fn lists_and_words_that_cannot_be_meant_are_refused() {
    for (path, text, needle) in [
        ("kafka.bootstrap_servers", "", "at least one broker"),
        ("kafka.bootstrap_servers", "ssl://a:9092", "without a scheme"),
        ("kafka.bootstrap_servers", "a:99999", "not host:port"),
        ("kafka.bootstrap_servers", "a:0", "not host:port"),
        ("kafka.bootstrap_servers", "a,", "not host:port"),
        ("kafka.bootstrap_servers", "a b:1", "not host:port"),
        ("kafka.bootstrap_servers", "[::1]x", "not host:port"),
        ("kafka.client_id", "", "must not be empty"),
        ("kafka.rack", "a\nb", "control character"),
        ("source.group_id", "", "must not be empty"),
        ("source.topic", "", "must not be empty"),
        ("source.topic", "a/b", "not a topic name"),
        ("dead_letter.topic", "..", "not a topic name"),
        ("source.group_protocol", "", "must be one of classic, consumer"),
        ("source.verify_topic", "Strict", "none of strict, warn, off"),
        ("forward.allow_topics", "orders.*", "regular expression as"),
        ("forward.deny_topics", "/(/", "not a regular expression"),
        ("http.listen", ":8080", "an IP address"),
        ("http.listen", "localhost:8080", "an IP address"),
        ("log.filter", "inof", "`inof` is no level"),
        ("log.filter", "info,kafka_delay=loud", "log.filter"),
        ("log.filter", "", "must not be empty"),
        ("metrics.lateness_buckets", "", "give 1 to 64"),
        ("metrics.lateness_buckets", "0s,1s", "above zero"),
        ("metrics.lateness_buckets", "1s,1s", "increase"),
        ("metrics.lateness_buckets", "1s,soon", "not a duration"),
    ] {
        let message = error(&flag(path, text));
        assert!(message.contains(needle), "{path} = {text}: {message}");
    }
    for (path, text) in [
        ("kafka.bootstrap_servers", "a,b.c:1,[::1],[::1]:65535,10.0.0.1:9092"),
        ("kafka.rack", ""),
        ("http.listen", ""),
        ("http.listen", "[::]:8080"),
        ("dead_letter.topic", ""),
        ("log.filter", "off"),
        ("log.filter", "INFO,kafka_delay::worker=debug"),
    ] {
        assert_eq!(errors(&flag(path, text)), [""; 0], "{path} = {text}");
    }
    let buckets = |count: usize| {
        let buckets: Vec<String> = (1..=count).map(|second| format!("{second}s")).collect();
        errors(&flag("metrics.lateness_buckets", &buckets.join(",")))
    };
    assert_eq!(buckets(64), [""; 0]);
    assert_eq!(buckets(65).len(), 1);
}

#[test]
fn the_dead_letter_topic_is_not_the_delay_topic() {
    let message = error(&file("[dead_letter]\ntopic = \"delay_topic\"\n"));
    assert!(message.starts_with("config.toml:2:1: dead_letter.topic:"), "{message}");
    // The default is not to blame for what a person wrote.
    let message = error(&flag("source.topic", "delay_topic_dlq"));
    assert!(message.starts_with("--set: source.topic:"), "{message}");
}

#[test]
fn a_property_that_the_daemon_owns_is_refused_wherever_it_is() {
    let message = error(&file("[source.librdkafka]\n\"group.id\" = \"mine\"\n"));
    let expected = "config.toml:2:1: source.librdkafka.group.id: \
                    `group.id` follows from source.group_id; set that instead";
    assert_eq!(message, expected);
    let variable = "KAFKA_DELAY__FORWARD__LIBRDKAFKA__ENABLE_IDEMPOTENCE";
    assert!(error(&environment(variable, "false")).contains("as it is"));
    assert!(error(&flag("kafka.librdkafka.acks", "1")).contains("as it is"));
}

#[test]
fn a_property_for_both_clients_is_set_once() {
    let text =
        "[kafka.librdkafka]\n\"debug\" = \"cgrp\"\n[source.librdkafka]\n\"debug\" = \"fetch\"\n";
    let message = error(&file(text));
    assert!(message.contains("kafka.librdkafka.debug and source.librdkafka.debug"), "{message}");
    // The two clients may differ.
    let text = "[forward.librdkafka]\ndebug = \"msg\"\n[source.librdkafka]\ndebug = \"fetch\"\n";
    assert_eq!(errors(&file(text)), [""; 0]);
}

#[test]
fn a_property_without_quotes_or_with_a_number_says_what_to_write() {
    let message = error(&file("[kafka.librdkafka]\nsocket.keepalive.enable = \"true\"\n"));
    assert!(message.contains("whole name of the property in quotes"), "{message}");
    let message = error(&file("[kafka.librdkafka]\n\"socket.keepalive.enable\" = true\n"));
    assert!(message.contains("write the value in quotes"), "{message}");
}

#[test]
fn credentials_and_mechanism_come_together() {
    let with = |text: &str| file(&format!("[kafka.sasl]\n{text}\n"));
    let token = tempfile::NamedTempFile::new().unwrap();
    let token = token.path().display();
    let user = "username = \"u\"\npassword = \"p\"";
    for (text, needle) in [
        (user.to_owned(), "credentials without kafka.sasl.mechanism"),
        (format!("token_file = \"{token}\""), "credentials without kafka.sasl.mechanism"),
        ("mechanism = \"GSSAPI\"".to_owned(), "none of PLAIN"),
        ("mechanism = \"PLAIN\"".to_owned(), "a user name and a password"),
        ("mechanism = \"PLAIN\"\nusername = \"u\"".to_owned(), "a user name and a password"),
        (
            "mechanism = \"SCRAM-SHA-256\"\npassword = \"p\"".to_owned(),
            "a user name and a password",
        ),
        (format!("mechanism = \"PLAIN\"\n{user}\ntoken_file = \"{token}\""), "no token"),
        ("mechanism = \"OAUTHBEARER\"".to_owned(), "takes kafka.sasl.token_file"),
        (format!("mechanism = \"OAUTHBEARER\"\n{user}"), "takes kafka.sasl.token_file"),
        (format!("username_file = \"{token}\""), "is empty"),
    ] {
        let message = error(&with(&text));
        assert!(message.contains(needle), "{text}: {message}");
    }
    let plain = load(&with(&format!("mechanism = \"PLAIN\"\n{user}"))).unwrap();
    assert_eq!(plain.config.kafka.security_protocol(), "sasl_plaintext");
    assert!(plain.warnings[0].to_string().contains("unencrypted"), "{:?}", plain.warnings);
    let token = load(&with(&format!("mechanism = \"OAUTHBEARER\"\ntoken_file = \"{token}\"")));
    assert!(matches!(
        token.unwrap().config.kafka.sasl.unwrap().credentials,
        Credentials::TokenFile(_)
    ));
}

#[test]
fn a_password_is_in_one_place_and_is_never_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    write(&path, "hunter2\n").unwrap();
    let base = "[kafka.sasl]\nmechanism = \"SCRAM-SHA-512\"\nusername = \"u\"\n";
    let from_file = format!("{base}password_file = \"{}\"\n", path.display());
    set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(warnings(&file(&from_file))[0].contains("every user can read"));
    set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    assert_eq!(warnings(&file(&from_file)), [""; 0]);
    let both = error(&file(&format!("{from_file}password = \"hunter2\"\n")));
    assert!(both.contains("both set") && !both.contains("hunter2"), "{both}");

    for text in [from_file, format!("{base}password = \"hunter2\"\n")] {
        let properties = "[kafka.librdkafka]\n\"ssl.keystore.password\" = \"hunter2\"\n";
        let loaded = load(&file(&format!("{text}{properties}"))).unwrap();
        assert!(!format!("{loaded:?}").contains("hunter2"));
        assert!(value(&loaded, "kafka.librdkafka.ssl.keystore.password").contains("[redacted]"));
        match &loaded.config.kafka.sasl.as_ref().unwrap().credentials {
            Credentials::Password { password, .. } => {
                assert_eq!(password.expose_secret(), "hunter2");
            }
            Credentials::TokenFile(_) => panic!("not a token"),
        }
    }
}

#[test]
fn a_certificate_and_its_key_come_together_and_switch_tls_on() {
    let pem = tempfile::NamedTempFile::new().unwrap();
    write(pem.path(), "x").unwrap();
    let pem = pem.path().display();
    let with = |keys: &[&str]| {
        let lines: Vec<String> = keys.iter().map(|key| format!("{key} = \"{pem}\"")).collect();
        file(&format!("[kafka.tls]\n{}\n", lines.join("\n")))
    };
    assert!(error(&with(&["cert_file"])).contains("set kafka.tls.key_file as well"));
    assert!(error(&with(&["key_file"])).contains("set kafka.tls.cert_file as well"));
    assert!(error(&with(&["key_password_file"])).contains("no effect without"));
    assert!(error(&file("[kafka.tls]\nca_file = \"/does/not/exist\"")).contains("cannot read"));
    for keys in [&["ca_file"][..], &["cert_file", "key_file", "key_password_file"]] {
        assert_eq!(load(&with(keys)).unwrap().config.kafka.security_protocol(), "ssl");
    }
}

#[test]
fn what_is_legal_but_doubtful_is_a_warning() {
    assert_eq!(warnings(&Sources::default()), [""; 0]);
    assert_eq!(warnings(&flag("shutdown.timeout", "54999ms")), [""; 0]);
    assert!(warnings(&flag("shutdown.timeout", "55s"))[0].contains("60s"));
    let allowed = warnings(&flag("forward.allow_topics", "a,delay_topic,delay_topic_dlq"));
    assert!(allowed[0].contains("is the delay topic"), "{allowed:?}");
    assert!(allowed[1].contains("is the dead-letter topic"), "{allowed:?}");
    assert!(warnings(&flag("forward.allow_topics", ""))[0].contains("no record can be forwarded"));
    let consumer = "[source]\ngroup_protocol = \"consumer\"\nsession_timeout = \"1s\"\n";
    assert!(warnings(&file(consumer))[0].contains("has no effect"));
}

#[test]
fn the_hash_tells_configurations_apart_but_not_passwords() {
    let hash = |password: &str, topic: &str| {
        let text = format!(
            "[kafka.sasl]\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = \"{password}\"\n\
             [source]\ntopic = \"{topic}\"\n"
        );
        load(&file(&text)).unwrap().sha256
    };
    assert_eq!(hash("a", "t").len(), 64);
    assert_eq!(hash("a", "t"), hash("b", "t"));
    assert_ne!(hash("a", "t"), hash("a", "u"));
}

#[test]
fn the_default_is_valid_and_its_policy_denies_the_topics_of_the_daemon() {
    let config = Config::default();
    let policy = config.destination_policy();
    assert!(policy.check("orders").is_ok());
    for topic in ["delay_topic", "delay_topic_dlq", "__consumer_offsets"] {
        assert!(policy.check(topic).is_err(), "{topic}");
    }
    assert!(load(&Sources::default()).is_ok());
}

proptest! {
    #[test]
    fn no_text_in_the_file_makes_it_panic(text in any::<String>()) {
        let _ = load(&file(&text));
    }

    #[test]
    fn no_toml_in_the_file_makes_it_panic(
        lines in prop::collection::vec(
            (
                "(\\[?\\[?[a-z_.\"]{0,12}\\]?\\]?|topic|levels)",
                "[ =]{0,3}",
                "[\"0-9a-zM.é\\[\\],{}]{0,9}",
            ),
            0..6,
        ),
    ) {
        let lines: Vec<String> =
            lines.into_iter().map(|(key, equals, value)| format!("{key}{equals}{value}")).collect();
        let _ = load(&file(&lines.join("\n")));
    }

    #[test]
    fn no_value_of_any_key_makes_it_panic(
        index in 0..keys().count(),
        value in "([0-9]{1,25} ?[a-zA-Zµé]{0,6}|\\PC*|.*)",
    ) {
        let (path, ..) = keys().nth(index).unwrap();
        let _ = load(&environment(&environment_name(path), &value));
        let _ = load(&environment(&format!("{}__{value}", environment_name(path)), &value));
        let _ = load(&flag(path, &value));
        let _ = load(&flag(&value, &value));
    }
}
