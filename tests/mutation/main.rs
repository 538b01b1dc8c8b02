//! Whether the simulation would notice: the source is copied, every deliberate fault of
//! [`faults`] is put into the copy behind a switch, the copy is built once, and the simulation runs
//! in it with one fault at a time. A fault that no seed finds is a hole in the simulation.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

mod faults;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use faults::FAULTS;

/// Each fault has to be found among so many seeds; so many have to pass without one.
const SEEDS: &str = "2000";

/// Added to the copy's library: which fault is selected.
const SWITCH: &str = r#"
/// Whether the deliberate fault `name` is selected.
#[doc(hidden)]
pub fn fault(name: &str) -> bool {
    static SELECTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("SIMULATION_FAULT").unwrap_or_default());
    *SELECTED == name
}
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Copies what the simulation is built from. The copy has no binary, so that its build leaves the
/// real one alone.
fn copy_source(to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    copy(&root().join("src"), &to.join("src"));
    copy(&root().join("tests/simulation"), &to.join("tests/simulation"));
    for file in ["Cargo.lock", "build.rs", "config.toml", "README.md"] {
        fs::copy(root().join(file), to.join(file)).unwrap();
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (manifest, _) = manifest.split_once("[[bench]]").unwrap();
    fs::write(to.join("Cargo.toml"), manifest).unwrap();
    fs::remove_file(to.join("src/main.rs")).unwrap();
}

fn put_in_faults(copy: &Path) {
    for fault in FAULTS {
        let path = copy.join(fault.file);
        let text = fs::read_to_string(&path).unwrap();
        let places = text.matches(fault.find).count();
        assert_eq!(
            places, 1,
            "`{}`: its text stands {places} times in {}; the code has changed, so change the fault",
            fault.name, fault.file,
        );
        let library = if fault.file.starts_with("src/") { "crate" } else { "kafka_delay" };
        let question = format!("{library}::fault({:?})", fault.name);
        let replacement = fault.replace.replace("FAULT", &question);
        fs::write(&path, text.replace(fault.find, &replacement)).unwrap();
    }
    let library = copy.join("src/lib.rs");
    let text = fs::read_to_string(&library).unwrap();
    fs::write(&library, text + SWITCH).unwrap();
}

/// Builds the copy in our own target directory, where all dependencies are built already.
fn build(copy: &Path) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(3).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["test", "--release", "--locked", "--offline", "--test", "simulation", "--no-run"])
        .args(["--message-format", "json"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(copy)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let executable = text.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executable.unwrap()
}

/// Runs the simulation with one fault: the seed that breaks, and the guarantee.
fn run(simulation: &Path, fault: &str) -> Option<(String, String)> {
    let output = Command::new(simulation)
        .args(["seeds_", "--test-threads=1"])
        .env("SIMULATION_SEEDS", SEEDS)
        .env("SIMULATION_FAULT", fault)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let found = text.lines().find_map(|line| {
        let (seed, rest) = line.strip_prefix("seed ")?.split_once(" breaks ")?;
        Some((seed.to_owned(), rest.split_once(':')?.0.to_owned()))
    });
    assert_eq!(output.status.success(), found.is_none(), "{fault}: {text}");
    found
}

#[test]
fn every_deliberate_fault_is_found_by_some_seed() {
    let copy = root().join("target/mutants");
    copy_source(&copy);
    put_in_faults(&copy);
    let simulation = build(&copy);
    assert_eq!(run(&simulation, ""), None, "it fails without a fault");
    let mut survivors = Vec::new();
    for fault in FAULTS {
        let (name, file) = (fault.name, fault.file);
        match run(&simulation, name) {
            Some((seed, guarantee)) => println!("| {name} | `{file}` | {seed} | {guarantee} |"),
            None => survivors.push(name),
        }
    }
    assert!(survivors.is_empty(), "no seed finds: {survivors:#?}");
}

#[test]
fn the_documents_list_every_fault() {
    let text = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let row = |fault: &&faults::Fault| format!("| {} | `{}` |", fault.name, fault.file);
    let missing: Vec<String> = FAULTS
        .iter()
        .filter(|fault| !text.contains(&row(fault)))
        .map(|fault| row(&fault))
        .collect();
    assert!(missing.is_empty(), "docs/testing.md lacks:\n{}", missing.join("\n"));
}
