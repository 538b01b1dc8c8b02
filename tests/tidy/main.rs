//! The rules of this project that no compiler or lint holds, each with its own test that it can
//! fail.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "test code")]

mod layers;
mod shape;
mod source;

use source::{Problem, Source};

/// Applies one rule to all files below `folders`.
fn check(folders: &[&str], rule: fn(&Source) -> Vec<Problem>) {
    let sources: Vec<Source> = folders.iter().flat_map(|name| Source::all_below(name)).collect();
    assert!(!sources.is_empty(), "no source files found");
    let problems: Vec<Problem> = sources.iter().flat_map(rule).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

const PRODUCT: &[&str] = &["src"];
const EVERYTHING: &[&str] = &["src", "tests", "benches", "examples"];

#[test]
fn dependencies_point_one_way() {
    check(PRODUCT, layers::dependencies_point_one_way);
}

#[test]
fn the_engine_is_pure() {
    check(PRODUCT, layers::the_engine_is_pure);
}

#[test]
fn files_begin_with_a_module_doc() {
    check(EVERYTHING, shape::files_begin_with_a_module_doc);
}

#[test]
fn files_are_short() {
    check(PRODUCT, shape::files_are_short);
}

#[test]
fn functions_are_short() {
    check(PRODUCT, shape::functions_are_short);
}

#[test]
fn lines_are_short() {
    check(EVERYTHING, shape::lines_are_short);
}

#[test]
fn nothing_is_unfinished() {
    check(EVERYTHING, shape::nothing_is_unfinished);
}

#[test]
fn only_the_clock_reads_the_time() {
    check(PRODUCT, shape::only_the_clock_reads_the_time);
}

#[test]
fn unsafe_code_is_in_one_file() {
    check(PRODUCT, shape::unsafe_code_is_in_one_file);
}
