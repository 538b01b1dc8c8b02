//! The program from outside: what it prints, where, and the exit code.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

use std::path::PathBuf;

use assert_cmd::Command;
use clap::CommandFactory;
use kafka_delay::cli::{Cli, exit};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, is_empty};

/// The program with an empty environment.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kafka-delay"));
    command.env_clear().args(arguments);
    command
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn with_file(text: &str) -> (Self, String) {
        let scratch = Self(tempfile::tempdir().unwrap());
        let path = scratch.path("config.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (scratch, path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn stdout(command: &mut Command) -> String {
    let output = command.assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn check_points_at_each_mistake_and_exits_78() {
    let (_scratch, path) = Scratch::with_file("[source]\nsesion_timeout = \"10s\"\ntopic = \"\"\n");
    let unknown = "source.sesion_timeout: unknown key; did you mean session_timeout?";
    program(&["check", &path])
        .assert()
        .code(i32::from(exit::CONFIG))
        .stdout(is_empty())
        .stderr(contains(format!("{path}:2:1: {unknown}\n")))
        .stderr(contains(format!("{path}:3:1: source.topic: must not be empty\n")))
        .stderr(contains("2 errors, 0 warnings"));
}

#[test]
fn check_accepts_the_shipped_file_and_an_empty_one() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    program(&["check", "--strict", shipped]).assert().success().stderr(is_empty());
    let (_scratch, path) = Scratch::with_file("");
    program(&["check", &path]).assert().success().stdout(contains("ok: 0 keys set"));
}

#[test]
fn check_fails_on_a_warning_only_when_strict() {
    let (_scratch, path) = Scratch::with_file("[shutdown]\ntimeout = \"2m\"\n");
    let warning = || contains(format!("warning: {path}:2:1: shutdown.timeout:"));
    program(&["check", &path]).assert().success().stderr(warning());
    program(&["check", "--strict", &path]).assert().code(78).stderr(warning());
}

#[test]
fn a_file_that_is_not_there_is_a_configuration_error() {
    let missing = "/does/not/exist.toml";
    for arguments in [&["check", missing][..], &["-c", missing, "levels"]] {
        program(arguments).assert().code(78).stderr(contains("cannot read /does/not/exist.toml"));
    }
    let by_variable =
        program(&["config", "show"]).env("KAFKA_DELAY_CONFIG", missing).assert().code(78);
    by_variable.stderr(contains("KAFKA_DELAY_CONFIG: cannot read"));
}

#[test]
fn a_command_line_that_makes_no_sense_exits_2() {
    for arguments in [
        &["chekc"][..],
        &["levels", "--partitions", "0"],
        &["levels", "--partitions", "19"],
        &["levels", "--set", "source.topic"],
        &["levels", "-X", "=1"],
        &["levels", "-v", "-q"],
        &["levels", "-v", "--log-filter", "info"],
        &["config", "show", "--defaults", "--origin"],
        &["check", "a.toml", "-c", "b.toml"],
        &[],
    ] {
        program(arguments).assert().code(i32::from(exit::USAGE)).stdout(is_empty());
    }
}

#[test]
fn flag_wins_over_environment_over_file() {
    let text = "[source]\ntopic = \"file\"\ngroup_id = \"file\"\n[kafka]\nclient_id = \"file\"\n";
    let (_scratch, path) = Scratch::with_file(text);
    let shown = stdout(
        program(&["config", "show", "--origin", "-c", &path, "--topic", "flag"])
            .env("KAFKA_DELAY__SOURCE__TOPIC", "variable")
            .env("KAFKA_DELAY__SOURCE__GROUP_ID", "variable"),
    );
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(line("topic = \"flag\"").ends_with("# --topic"), "{shown}");
    assert!(line("group_id = \"variable\"").ends_with("# KAFKA_DELAY__SOURCE__GROUP_ID"));
    assert!(line("client_id = \"file\"").ends_with(&format!("# {path}:5:1")));
    assert!(line("rack = \"\"").ends_with("# default"));
}

#[test]
fn every_global_flag_sets_its_key_before_or_after_the_command() {
    let flags = [
        ("-b=a:1,b:2", "bootstrap_servers = [\"a:1\", \"b:2\"] # --bootstrap-server"),
        ("--bootstrap-servers=a:1", "bootstrap_servers = [\"a:1\"] # --bootstrap-server"),
        ("-g=g", "group_id = \"g\" # --group"),
        ("-Xdebug=cgrp", "\"debug\" = \"cgrp\" # -X"),
        ("--set=delay.levels=1s,1m", "levels = [\"1s\", \"1m\"] # --set"),
        ("-v", "filter = \"debug\" # --verbose"),
        ("-vv", "filter = \"trace\" # --verbose"),
        ("-q", "filter = \"warn\" # --quiet"),
        ("-qq", "filter = \"error\" # --quiet"),
        ("--log-filter=off", "filter = \"off\" # --log-filter"),
        ("--log-format=json", "format = \"json\" # --log-format"),
    ];
    for (flag, expected) in flags {
        for arguments in
            [[flag, "config", "show", "--origin"], ["config", "show", "--origin", flag]]
        {
            let shown = stdout(&mut program(&arguments));
            let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let lines: Vec<String> = shown.lines().map(squeeze).collect();
            assert!(lines.iter().any(|line| line == expected), "{flag}: {shown}");
        }
    }
    let both = ["config", "show", "--set=source.topic=set", "--topic=topic"];
    assert!(stdout(&mut program(&both)).contains("topic = \"topic\""));
}

#[test]
fn config_show_never_prints_a_password_in_any_shape() {
    let text = "[kafka.sasl]\nmechanism = \"SCRAM-SHA-512\"\n\
                username = \"u\"\npassword = \"hunter2\"\n\
                [kafka.librdkafka]\n\"ssl.keystore.password\" = \"hunter2\"\n";
    let (_scratch, path) = Scratch::with_file(text);
    for arguments in [&[][..], &["--origin"], &["-o", "json"], &["-o", "json", "--origin"]] {
        let mut command = program(&["config", "show", "-c", &path]);
        let assert = command.args(arguments).assert().success();
        assert.stdout(contains("hunter2").not()).stdout(contains("[redacted]"));
    }
    program(&["check", "--set", "kafka.sasl.password=hunter2", "--set", "nonsense=hunter2"])
        .assert()
        .code(78)
        .stderr(contains("hunter2").not());
}

#[test]
fn what_config_show_prints_can_be_loaded_again() {
    let text =
        "[kafka.librdkafka]\n\"socket.keepalive.enable\" = \"true\"\n[http]\nlisten = \"\"\n";
    let (scratch, path) = Scratch::with_file(text);
    for arguments in [&["config", "show", "-c", &path][..], &["config", "show", "--defaults"]] {
        let shown = stdout(&mut program(arguments));
        let copy = scratch.path("copy.toml");
        std::fs::write(&copy, &shown).unwrap();
        program(&["check", "--strict", copy.to_str().unwrap()]).assert().success();
        if arguments.contains(&"-c") {
            let again = stdout(&mut program(&["config", "show", "-c", copy.to_str().unwrap()]));
            assert_eq!(again, shown);
        }
    }
}

#[test]
fn config_show_as_json_has_the_tables_of_the_file() {
    let output = stdout(&mut program(&["config", "show", "-o", "json", "-X", "debug=cgrp"]));
    let json: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(json["source"]["topic"], "delay_topic");
    assert_eq!(json["kafka"]["tls"]["enabled"], false);
    assert_eq!(json["kafka"]["librdkafka"]["debug"], "cgrp");
    assert_eq!(json["metrics"]["per_topic_limit"], 100);
    let defaults = stdout(&mut program(&["config", "show", "-o", "json", "--defaults"]));
    let defaults: serde_json::Value = serde_json::from_str(&defaults).unwrap();
    assert_eq!(defaults["delay"]["levels"][17], "2h");
}

#[test]
fn config_env_lists_a_variable_that_works() {
    let listed = stdout(&mut program(&["config", "env"]));
    for (name, kind) in [
        ("KAFKA_DELAY__SOURCE__SESSION_TIMEOUT", "duration"),
        ("KAFKA_DELAY__SOURCE__GROUP_PROTOCOL", "classic | consumer"),
        ("KAFKA_DELAY__FORWARD__ALLOW_TOPICS", "list of strings"),
        ("KAFKA_DELAY__KAFKA__LIBRDKAFKA__<PROPERTY>", "string"),
    ] {
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(name));
        assert!(line.is_some_and(|line| line.contains(kind)), "{name}: {listed}");
    }
    let mut command = program(&["config", "show"]);
    command.env("KAFKA_DELAY__SOURCE__SESSION_TIMEOUT", "20s");
    assert!(stdout(&mut command).contains("session_timeout = \"20s\""));
}

#[test]
fn levels_lists_every_shard_of_every_level() {
    let output = stdout(&mut program(&["levels", "--partitions", "36", "-o", "json"]));
    let json: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 18);
    assert_eq!(json[0]["partitions"], serde_json::json!([0, 18]));
    assert_eq!(json[17]["partitions"], serde_json::json!([17, 35]));
    assert_eq!(json[17]["delay"], "2h");
    assert_eq!(json[17]["delay_ms"], 7_200_000);
    let table = stdout(&mut program(&["levels", "--set", "delay.levels=10s,1h"]));
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows, [["LEVEL", "DELAY", "PARTITIONS"], ["1", "10s", "0"], ["2", "1h", "1"]]);
}

#[test]
fn completions_and_manual_pages_are_not_empty() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        program(&["completions", shell]).assert().success().stdout(contains("kafka-delay"));
    }
    program(&["man"]).assert().success().stdout(contains(".TH kafka-delay"));
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    program(&["man", "--dir", pages.to_str().unwrap()]).assert().success();
    for page in ["kafka-delay.1", "kafka-delay-check.1", "kafka-delay-config-show.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    program(&["man", "--dir", "/dev/null/x"]).assert().code(1).stderr(contains("cannot write"));
}

#[test]
fn the_long_version_names_the_librdkafka_that_is_linked() {
    program(&["--version"])
        .assert()
        .success()
        .stdout(contains(env!("CARGO_PKG_VERSION")))
        .stdout(contains("librdkafka 2."))
        .stdout(contains("sasl_scram"));
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("kafka-delay"))
        .args(["config", "env"])
        .env_clear()
        .stdout(writer)
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_command_has_an_example_and_its_definition_is_sound() {
    fn visit(command: &mut clap::Command) {
        let help = command.render_long_help().to_string();
        let (_, examples) = help.split_once("Examples:").unwrap();
        assert!(examples.contains("kafka-delay "), "{help}");
        for subcommand in command.get_subcommands_mut() {
            visit(subcommand);
        }
    }
    Cli::command().debug_assert();
    visit(&mut Cli::command());
    program(&["--help"])
        .assert()
        .success()
        .stdout(contains("[env: KAFKA_DELAY__SOURCE__TOPIC]"))
        .stdout(contains("Exit codes:"));
}

#[test]
fn colours_are_used_only_when_asked_for_off_a_terminal() {
    let bad = ["check", "--set", "nonsense=1"];
    program(&bad).assert().code(78).stderr(contains("\x1b[").not());
    program(&bad).arg("--color=always").assert().code(78).stderr(contains("\x1b[31m"));
}

#[test]
fn what_librdkafka_would_refuse_is_found_without_a_broker() {
    program(&["-X", "foo=bar", "check"]).assert().code(78).stderr(contains("\"foo\""));
    program(&["--set", "forward.librdkafka.batch.size=-5", "check"])
        .assert()
        .code(78)
        .stderr(contains("batch.size"));
}

#[test]
fn send_refuses_bad_arguments_before_it_looks_for_a_broker() {
    let send = |arguments: &[&str]| {
        let all: Vec<&str> = ["send"].iter().chain(arguments).copied().collect();
        program(&all).assert().code(2)
    };
    send(&["--to", "orders", "x"]).stderr(contains("--delay"));
    send(&["--delay", "31s", "--to", "orders"]).stderr(contains("30s"));
    send(&["--level", "19", "--to", "orders"]).stderr(contains("--level 19"));
    send(&["--level", "1", "--to", "a b"]).stderr(contains("topic name"));
    send(&["--level", "1", "--to", "delay_topic"]).stderr(contains("for ever"));
}

#[test]
fn a_healthcheck_of_nobody_fails() {
    program(&["healthcheck", "--address", "127.0.0.1:1"])
        .assert()
        .code(1)
        .stderr(contains("/readyz"));
}

#[test]
fn a_cluster_that_is_not_there_is_unavailable() {
    program(&[
        "run",
        "-b",
        "127.0.0.1:1",
        "--set",
        "kafka.connect_timeout=1s",
        "--set",
        "http.listen=",
    ])
    .assert()
    .code(69)
    .stderr(contains("127.0.0.1:1"));
}

#[test]
fn the_demo_shows_records_in_time_and_ends_by_itself() {
    program(&["demo", "--for", "4s", "--set", "delay.levels=1s,2s,1h"])
        .assert()
        .success()
        .stdout(contains("cancel order-1"))
        .stdout(contains(" 0 early"));
}
