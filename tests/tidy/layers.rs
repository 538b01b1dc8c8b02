//! Who may know whom: dependencies point one way (docs/architecture.md).
//!
//! `main → cli → app → {config, http, worker} → kafka → engine`. Beside them stand small leaf
//! modules that everybody above `engine` may use and that know nothing but `engine` and `config`.

use super::source::{Problem, Source, words};

/// A module below the crate's root.
struct Module {
    name: &'static str,
    /// Modules of this crate that it may name; it may always name itself.
    may_name: &'static [&'static str],
    /// Whether it may name `rdkafka`.
    rdkafka: bool,
}

/// Modules that are used by all layers, and may use each other.
const LEAVES: [&str; 6] = ["build_info", "clock", "logging", "metrics", "shutdown", "status"];

const MODULES: [Module; 14] = [
    Module { name: "main", may_name: &["cli"], rdkafka: false },
    Module {
        name: "cli",
        may_name: &["app", "worker", "http", "config", "kafka", "engine", "demo"],
        rdkafka: false,
    },
    // The embedded demo runs librdkafka's mock cluster.
    Module { name: "demo", may_name: &["app", "config", "kafka", "engine"], rdkafka: true },
    Module {
        name: "app",
        may_name: &["worker", "http", "config", "kafka", "engine"],
        rdkafka: false,
    },
    Module { name: "worker", may_name: &["config", "kafka", "engine"], rdkafka: false },
    Module { name: "http", may_name: &["config", "engine"], rdkafka: false },
    Module { name: "kafka", may_name: &["config", "engine"], rdkafka: true },
    Module { name: "config", may_name: &["engine"], rdkafka: false },
    Module { name: "build_info", may_name: &[], rdkafka: false },
    Module { name: "clock", may_name: &["config", "engine"], rdkafka: false },
    Module { name: "logging", may_name: &["config", "engine"], rdkafka: false },
    Module { name: "metrics", may_name: &["config", "engine"], rdkafka: false },
    Module { name: "shutdown", may_name: &["config", "engine"], rdkafka: false },
    Module { name: "status", may_name: &["config", "engine"], rdkafka: false },
];

/// What the pure engine must do without: the world outside its arguments.
const IMPURE: [&str; 16] = [
    "rdkafka",
    "tokio",
    "tracing",
    "axum",
    "prometheus",
    "jiff",
    "anyhow",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::io",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "Mutex",
];

/// Modules know only those below them.
pub fn dependencies_point_one_way(source: &Source) -> Vec<Problem> {
    let own = source.top_module();
    if source.is_test_file() || own == "lib" || own == "engine" {
        return Vec::new();
    }
    let Some(module) = MODULES.iter().find(|module| module.name == own) else {
        let what = format!("module `{own}` is new: say in tests/tidy/layers.rs what it may name");
        return vec![source.problem_at(0, what)];
    };
    let is_leaf = |name: &str| LEAVES.contains(&name);
    let mut problems = Vec::new();
    for (at, named) in named_modules(source) {
        let below = module.may_name.contains(&named);
        let leaf = is_leaf(named) && own != "config" && own != "main";
        let known = MODULES.iter().any(|module| module.name == named) || named == "engine";
        if known && named != own && !below && !leaf {
            problems.push(source.problem_at(at, format!("`{own}` may not name `{named}`")));
        }
    }
    if !module.rdkafka {
        let named = words(source.product_code(), "rdkafka");
        let what = format!("`{own}` may not name rdkafka; that is for `kafka` alone");
        problems.extend(named.map(|at| source.problem_at(at, &what)));
    }
    problems
}

/// The engine knows no clock, no broker, no thread, no log and no other module.
pub fn the_engine_is_pure(source: &Source) -> Vec<Problem> {
    if source.top_module() != "engine" || source.is_test_file() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for impure in IMPURE {
        let named = words(source.product_code(), impure);
        let what = format!("the engine is pure; it may not name {impure}");
        problems.extend(named.map(|at| source.problem_at(at, &what)));
    }
    for (at, named) in named_modules(source).into_iter().filter(|(_, named)| *named != "engine") {
        let what = format!("the engine knows no other module; it may not name `{named}`");
        problems.push(source.problem_at(at, what));
    }
    problems
}

/// Every `crate::x` and every `x` in `use crate::{...}`, with its place.
fn named_modules(source: &Source) -> Vec<(usize, &str)> {
    let code = source.product_code();
    let is_root = source.path.matches('/').count() == 1 || source.path.ends_with("/mod.rs");
    let mut found = Vec::new();
    for root in ["crate", "kafka_delay", "super"] {
        // `super` is the crate's root only in its direct modules.
        if root == "super" && !(is_root && source.path.matches('/').count() <= 2) {
            continue;
        }
        for at in words(code, root) {
            let Some(path) = code[at + root.len()..].strip_prefix("::") else { continue };
            match path.strip_prefix('{') {
                Some(group) => found.extend(group_members(group).map(|name| (at, name))),
                None => found.push((at, identifier(path))),
            }
        }
    }
    found
}

/// The first identifiers of the members of a `{a, b::c, d::{e, f}}`, after its opening brace.
fn group_members(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 1;
    let mut starts = vec![0];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => starts.push(at + 1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    starts.into_iter().map(|at| identifier(group[at..].trim_start()))
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn upward_dependencies_are_found() {
    let cases = [
        ("src/kafka/a.rs", "use crate::worker::Worker;", "`kafka` may not name `worker`"),
        ("src/kafka/a.rs", "use crate::{engine::X, http};", "`kafka` may not name `http`"),
        ("src/http/mod.rs", "use crate::{\n  status::{A, B},\n  kafka,\n};", "name `kafka`"),
        ("src/http/mod.rs", "fn f() { super::worker::run() }", "may not name `worker`"),
        ("src/worker.rs", "use super::cli;", "`worker` may not name `cli`"),
        ("src/config/mod.rs", "use crate::metrics::X;", "`config` may not name `metrics`"),
        ("src/main.rs", "use kafka_delay::app;", "`main` may not name `app`"),
        ("src/clock.rs", "use crate::kafka::X;", "`clock` may not name `kafka`"),
        ("src/worker.rs", "use rdkafka::X;", "`worker` may not name rdkafka"),
        ("src/novel.rs", "", "module `novel` is new"),
    ];
    for (path, text, expected) in cases {
        let problems = dependencies_point_one_way(&Source::new(path, text));
        assert!(problems.iter().any(|found| found.contains(expected)), "{path}: {problems:?}");
    }
}

#[test]
fn downward_dependencies_are_allowed() {
    let cases = [
        ("src/kafka/a.rs", "use crate::{engine::X, metrics};\nuse rdkafka::X;"),
        ("src/http/pages.rs", "use super::Routes;\nuse crate::status::S;\nuse crate::kafka_delay;"),
        (
            "src/config/mod.rs",
            "use crate::engine::L; // crate::kafka\nconst A: &str = \"crate::app\";",
        ),
        ("src/worker.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n use crate::app::A;\n}"),
        ("src/main.rs", "fn main() { kafka_delay::cli::run() }"),
    ];
    for (path, text) in cases {
        let problems = dependencies_point_one_way(&Source::new(path, text));
        assert!(problems.is_empty(), "{path}: {problems:?}");
    }
}

#[test]
fn impurity_of_the_engine_is_found() {
    for text in [
        "use rdkafka::X;",
        "use std::time::{Duration, Instant};",
        "let t = std::time::SystemTime::now();",
        "tracing::info!(1);",
        "use std::fs;",
        "use crate::config::Config;",
    ] {
        let source = Source::new("src/engine/lane.rs", text);
        assert_eq!(the_engine_is_pure(&source).len(), 1, "{text}");
        assert!(the_engine_is_pure(&Source::new("src/worker.rs", text)).is_empty(), "{text}");
    }
    let pure = "use crate::engine::Level;\nuse std::time::Duration; // no Instant\n";
    assert!(the_engine_is_pure(&Source::new("src/engine/lane.rs", pure)).is_empty());
}
