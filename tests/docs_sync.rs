//! Documentation that names something of the code must name what is there: modules, tests, limits,
//! settings, metrics, reasons, exit codes, log lines, and other documents.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kafka_delay::cli::exit;
use kafka_delay::config::{self, Config};
use kafka_delay::engine::{CONTROL_HEADERS, RejectReason};
use regex::Regex;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below `folder` that end in `ending`, relative to the project.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<String> {
    let mut documents = files("docs", ".md");
    documents.extend(["README.md".to_owned(), "SECURITY.md".to_owned()]);
    documents
}

/// All source text, tests included.
fn sources() -> String {
    let files = files("src", ".rs").into_iter().chain(files("tests", ".rs"));
    files.map(|path| read(&path)).collect()
}

/// Everything between two backticks of a text, code blocks left out.
fn quoted(text: &str) -> BTreeSet<String> {
    let blocks = Regex::new(r"(?s)```.*?```").unwrap();
    let text = blocks.replace_all(text, "");
    let quotes = Regex::new("`([^`\n]+)`").unwrap();
    quotes.captures_iter(&text).map(|found| found[1].to_owned()).collect()
}

fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn the_architecture_names_every_module_and_no_other() {
    let named = quoted(&read("docs/architecture.md"));
    let mut modules = BTreeSet::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        modules.insert(format!("src/{name}{}", if path.is_dir() { "/" } else { "" }));
    }
    assert!(modules.len() > 10, "{modules:?}");
    let missing = modules.difference(&named).map(|module| format!("not named: {module}"));
    let top = Regex::new(r"^src/[a-z_]+(\.rs|/)$").unwrap();
    let gone = named.difference(&modules).filter(|name| top.is_match(name));
    assert_none(missing.chain(gone.map(|module| format!("not there: {module}"))).collect());
}

#[test]
fn the_architecture_names_files_and_functions_that_exist() {
    let sources = files("src", ".rs");
    let text: String = sources.iter().map(|path| read(path)).collect();
    let file = Regex::new(r"^(?:[a-z_]+/)?[a-z_]+\.rs$").unwrap();
    let function = Regex::new(r"^[A-Z][A-Za-z]+::([a-z_]+)$").unwrap();
    let mut problems = Vec::new();
    for name in quoted(&read("docs/architecture.md")) {
        let ending = format!("/{}", name.trim_start_matches("src/"));
        let ours = file.is_match(&name) && !name.starts_with("tests/");
        if ours && !sources.iter().any(|path| path.ends_with(&ending)) {
            problems.push(format!("no file {name}"));
        }
        if let Some(found) = function.captures(&name)
            && !text.contains(&format!("fn {}(", &found[1]))
        {
            problems.push(format!("no function {name}"));
        }
    }
    assert_none(problems);
}

#[test]
fn paths_in_the_source_exist() {
    let path = Regex::new(r"^(src|deploy|docs)/[a-z_/.-]+\.[a-z]+$").unwrap();
    let mut problems = Vec::new();
    for document in documents() {
        for name in quoted(&read(&document)).iter().filter(|name| path.is_match(name)) {
            if !root().join(name).exists() {
                problems.push(format!("{document}: {name} does not exist"));
            }
        }
    }
    assert_none(problems);
}

/// The anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn links_between_documents_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut problems = Vec::new();
    for document in documents() {
        let text = read(&document);
        for target in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if target.contains("://") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let here = root().join(&document);
            let path = if file.is_empty() { here } else { here.parent().unwrap().join(file) };
            let headings = || fs::read_to_string(&path).unwrap_or_default();
            if !path.exists() {
                problems.push(format!("{document}: {target} does not exist"));
            } else if !fragment.is_empty()
                && !headings()
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line.trim_start_matches('#')) == fragment)
            {
                problems.push(format!("{document}: {target} has no such heading"));
            }
        }
    }
    assert_none(problems);
}

#[test]
fn tests_that_prove_something_exist() {
    let name = Regex::new("^[a-z0-9]+(_[a-z0-9]+){3,}$").unwrap();
    let sources = sources();
    let mut problems = Vec::new();
    let mut found = 0;
    for document in ["docs/guarantees.md", "docs/testing.md", "SECURITY.md"] {
        let named = quoted(&read(document));
        for test in named.iter().filter(|test| name.is_match(test) && !is_metric(test)) {
            found += 1;
            if !sources.contains(&format!("fn {test}(")) {
                problems.push(format!("{document}: no test is called {test}"));
            }
        }
    }
    assert!(found > 50, "{found}");
    assert_none(problems);
}

/// The rows of the table of public failures: number and what holds each.
fn public_failures() -> Vec<(u32, String)> {
    let row = Regex::new(r"(?m)^\| R([0-9]+) \| [^|]+ \| (.+) \|$").unwrap();
    let text = read("docs/testing.md");
    row.captures_iter(&text).map(|row| (row[1].parse().unwrap(), row[2].to_owned())).collect()
}

#[test]
fn every_public_failure_names_a_test_of_its_tier_or_says_why_not() {
    let folders = [("broker: ", "tests/broker"), ("mock: ", "tests/mock_cluster")];
    let tests_in = |folder: &str| -> BTreeSet<String> {
        let test = Regex::new(r"#\[(?:tokio::)?test\][^{}]*?\bfn ([a-z0-9_]+)\(").unwrap();
        let text: String = files(folder, ".rs").iter().map(|path| read(path)).collect();
        test.captures_iter(&text).map(|found| found[1].to_owned()).collect()
    };
    let unit = tests_in("src");
    let tiers = folders.map(|(tier, folder)| (tier, tests_in(folder)));
    let name = Regex::new("^[a-z0-9]+(_[a-z0-9]+){2,}$").unwrap();
    let rows = public_failures();
    assert!(rows.len() > 65 && rows.is_sorted_by_key(|(number, _)| *number), "{}", rows.len());
    let mut problems = Vec::new();
    for (number, held) in rows {
        let mut found = 0;
        for part in held.split("; ") {
            let tier = tiers.iter().find(|(tier, _)| part.starts_with(tier));
            let known = tier.map_or(&unit, |(_, known)| known);
            for test in quoted(part).iter().filter(|test| name.is_match(test)) {
                found += 1;
                if !known.contains(test) {
                    problems.push(format!("R{number}: {test} is no test where the row says"));
                }
            }
        }
        let explained = held.starts_with("not applicable: ") || held.contains("](");
        if found == 0 && !explained {
            problems.push(format!("R{number}: neither a test nor a reason: {held}"));
        }
    }
    assert_none(problems);
}

#[test]
fn limits_are_those_of_the_code() {
    let limit = Regex::new("`([A-Z][A-Z_]+)` = ([0-9]+)").unwrap();
    let constant = Regex::new(r"const ([A-Z][A-Z_]+): [a-z0-9]+ = ([0-9_]+);").unwrap();
    let sources = sources();
    let constants: BTreeSet<(String, String)> = constant
        .captures_iter(&sources)
        .map(|found| (found[1].to_owned(), found[2].replace('_', "")))
        .collect();
    let text = read("docs/guarantees.md");
    let named: BTreeSet<_> = limit
        .captures_iter(&text)
        .map(|found| (found[1].to_owned(), found[2].to_owned()))
        .collect();
    assert!(named.len() >= 10, "{named:?}");
    assert_none(named.difference(&constants).map(|limit| format!("{limit:?}")).collect());
}

#[test]
fn settings_in_the_documents_exist() {
    let keys: BTreeSet<String> = config::keys().map(|(path, ..)| path.to_owned()).collect();
    let sections: BTreeSet<&str> = keys.iter().map(|key| key.split('.').next().unwrap()).collect();
    let key = Regex::new(r"^([a-z_]+\.)+[a-z_]+").unwrap();
    let file = Regex::new(r"\.(rs|md|toml|sh|yml)$").unwrap();
    let mut problems = Vec::new();
    for document in documents() {
        for name in quoted(&read(&document)) {
            let Some(path) = key.find(&name).map(|found| found.as_str()) else { continue };
            let ours = sections.contains(path.split('.').next().unwrap());
            if ours && !file.is_match(path) && !keys.contains(path) {
                problems.push(format!("{document}: there is no setting {path}"));
            }
        }
    }
    assert_none(problems);
}

fn is_metric(name: &str) -> bool {
    name.starts_with("kafka_delay_") && !name.starts_with("kafka_delay_dlq_")
}

#[test]
fn metrics_in_the_documents_exist() {
    let manual = quoted(&read("docs/metrics.md"));
    let mut problems = Vec::new();
    for document in documents() {
        for name in quoted(&read(&document)) {
            let metric = name.split('{').next().unwrap();
            if is_metric(metric) && !manual.contains(metric) {
                problems.push(format!("{document}: docs/metrics.md has no {metric}"));
            }
        }
    }
    assert_none(problems);
}

#[test]
fn the_wire_contract_has_every_reason_header_and_level() {
    let text = read("docs/wire-contract.md");
    let dead_letter = Regex::new(r#"c"(kafka_delay_dlq_[a-z]+)""#).unwrap();
    let producer = read("src/kafka/producer.rs");
    let headers = dead_letter.captures_iter(&producer).map(|found| found[1].to_owned());
    let reasons = RejectReason::ALL.iter().map(|reason| reason.name().to_owned());
    let control = CONTROL_HEADERS.iter().map(|name| format!("header `{name}"));
    let rows = headers.map(|name| format!("| `{name}` |"));
    let rows = rows.chain(reasons.map(|name| format!("| `{name}` |"))).chain(control);
    assert_none(rows.filter(|row| !text.contains(row)).collect());

    let levels = Config::default().delay.levels;
    let delays: Vec<String> = levels.iter().map(|level| level.label()).collect();
    assert!(text.contains(&format!("| delay | {} |", delays.join(" | "))), "{delays:?}");
    assert!(read("README.md").contains(&format!("by default: {},", delays.join(" "))));
}

#[test]
fn every_exit_code_is_explained() {
    let text = read("docs/operations.md");
    let codes = [
        exit::OK,
        exit::FAILED,
        exit::USAGE,
        exit::UNAVAILABLE,
        exit::INTERNAL,
        exit::DENIED,
        exit::CONFIG,
    ];
    for code in codes {
        assert!(text.contains(&format!("\n| {code} | ")), "{code}");
    }
    let constants = read("src/cli/exit.rs").matches("pub const ").count();
    assert_eq!(constants, codes.len());
}

#[test]
fn log_lines_that_matter_are_written() {
    let text = read("docs/operations.md");
    let (_, section) = text.split_once("## Log lines that matter").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let sources = sources();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let lines: BTreeSet<String> =
        lines.flat_map(|line| quoted(line.split('|').nth(2).unwrap())).collect();
    assert!(lines.len() > 8, "{lines:?}");
    assert_none(lines.into_iter().filter(|line| !sources.contains(line.as_str())).collect());
}

#[test]
fn every_decision_is_listed() {
    let index = read("docs/adr/README.md");
    for path in files("docs/adr", ".md") {
        let name = path.strip_prefix("docs/adr/").unwrap();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "{name}");
    }
}

/// The value of a variable of the Makefile, which may go on over several lines.
fn make_variable(name: &str) -> Vec<String> {
    let makefile = read("Makefile").replace("\\\n", " ");
    let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.split_once("= "));
    let (_, value) = line.unwrap_or_else(|| panic!("Makefile: no {name}"));
    value.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_runs_on_the_oldest_kafka_exists_and_what_is_left_out_is_named() {
    let sources = sources();
    let mut problems = Vec::new();
    for name in [make_variable("COMPAT_TESTS"), make_variable("COMPAT_SKIP")].concat() {
        let exists = match name.strip_suffix("::") {
            Some(module) => root().join(format!("tests/broker/{module}.rs")).exists(),
            None => sources.contains(&format!("fn {name}(")),
        };
        if !exists {
            problems.push(format!("Makefile: there is no test {name}"));
        }
    }
    let named = quoted(&read("docs/testing.md"));
    let untold = make_variable("COMPAT_SKIP").into_iter().filter(|name| !named.contains(name));
    problems.extend(untold.map(|name| format!("docs/testing.md does not name {name}")));
    let versions = [make_variable("COMPAT_KAFKA").join(" "), read_pom_version()];
    let text = read("docs/testing.md");
    let stale = versions.iter().filter(|version| !text.contains(&format!("Kafka {version}")));
    problems.extend(stale.map(|version| format!("docs/testing.md does not name Kafka {version}")));
    assert_none(problems);
}

fn read_pom_version() -> String {
    let version = Regex::new("<kafka.version>(.+)</kafka.version>").unwrap();
    version.captures(&read("tests/support/kafka/pom.xml")).unwrap()[1].to_owned()
}
