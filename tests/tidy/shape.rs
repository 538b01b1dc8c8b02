//! Size and order of a file, and what may not stand in it.

use super::source::{Problem, Source, words};

/// Lines of code of a file, without blank lines, comments and tests.
const FILE_LINES: usize = 300;

/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// Columns of a line; only string contents may stick out, since a message is not broken over lines.
const COLUMNS: usize = 100;

/// Every file says what it is for.
pub fn files_begin_with_a_module_doc(source: &Source) -> Vec<Problem> {
    let begins = source.text.starts_with("//!");
    let what = "the first line is no `//!`: say what the file is for";
    if begins { Vec::new() } else { vec![source.problem_at(0, what)] }
}

/// A file has one subject.
pub fn files_are_short(source: &Source) -> Vec<Problem> {
    let lines = source.product_code().lines().filter(|line| !line.trim().is_empty()).count();
    let what = format!("{lines} lines of code without tests; at most {FILE_LINES}: split the file");
    if lines <= FILE_LINES { Vec::new() } else { vec![source.problem_at(0, what)] }
}

/// A function fits on a screen.
pub fn functions_are_short(source: &Source) -> Vec<Problem> {
    let code = source.product_code();
    let mut problems = Vec::new();
    for at in words(code, "fn") {
        let Some(length) = function_lines(&code[at..]) else { continue };
        if length > FUNCTION_LINES {
            let name: String =
                code[at + 2..].trim_start().chars().take_while(|c| is_name(*c)).collect();
            let what = format!("`{name}` has {length} lines; at most {FUNCTION_LINES}");
            problems.push(source.problem_at(at, what));
        }
    }
    problems
}

/// Lines fit beside each other.
pub fn lines_are_short(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in source.measured.lines().enumerate() {
        let columns = line.chars().count();
        // An address cannot be broken.
        if columns > COLUMNS && !line.contains("://") {
            let number = index + 1;
            let path = &source.path;
            problems.push(format!("{path}:{number}: {columns} columns; at most {COLUMNS}"));
        }
    }
    problems
}

/// Nothing is left for later, and no test is switched off.
pub fn nothing_is_unfinished(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for found in ["todo!", "unimplemented!", "dbg!", "#[ignore"] {
        let what = format!("{found} may not stay");
        let places = source.code.match_indices(found).map(|(at, _)| at);
        problems.extend(places.map(|at| source.problem_at(at, &what)));
    }
    for mark in [concat!("FIX", "ME"), concat!("X", "XX")] {
        for (index, _) in source.text.lines().enumerate().filter(|(_, line)| line.contains(mark)) {
            problems.push(format!("{}:{}: {mark} may not stay", source.path, index + 1));
        }
    }
    problems
}

/// One file reads the wall clock; everybody else is told the time.
pub fn only_the_clock_reads_the_time(source: &Source) -> Vec<Problem> {
    if source.path == "src/clock.rs" {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for reader in ["SystemTime::now", "UNIX_EPOCH", "Timestamp::now", "Zoned::now"] {
        let what = format!("{reader}: only src/clock.rs reads the wall clock");
        let places = words(source.product_code(), reader);
        problems.extend(places.map(|at| source.problem_at(at, &what)));
    }
    problems
}

/// Memory safety has to be looked at in one file only.
pub fn unsafe_code_is_in_one_file(source: &Source) -> Vec<Problem> {
    if source.path == "src/kafka/raw.rs" || !source.path.starts_with("src/") {
        return Vec::new();
    }
    let what = "`unsafe` is for src/kafka/raw.rs alone";
    words(&source.code, "unsafe").map(|at| source.problem_at(at, what)).collect()
}

/// The lines of the function that `code` begins with; `None` for a declaration without a body.
fn function_lines(code: &str) -> Option<usize> {
    let open = code.find(['{', ';']).filter(|at| code.as_bytes()[*at] == b'{')?;
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(code[..open + at].matches('\n').count() + 1);
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
fn source(text: &str) -> Source {
    Source::new("src/worker.rs", text)
}

#[test]
fn a_missing_module_doc_is_found() {
    assert_eq!(files_begin_with_a_module_doc(&source("use x;")).len(), 1);
    assert!(files_begin_with_a_module_doc(&source("//! For this.\n")).is_empty());
}

#[test]
fn a_long_file_is_found() {
    let limit = "//! Doc.\n\n/// Doc.\n".to_owned() + &"let x = 1;\n\n// why\n".repeat(FILE_LINES);
    assert!(files_are_short(&source(&limit)).is_empty());
    let tests = format!("{limit}#[cfg(test)]\nmod tests {{\nlet x = 1;\n}}\n");
    assert!(files_are_short(&source(&tests)).is_empty());
    assert_eq!(files_are_short(&source(&format!("{limit}let y = 1;"))).len(), 1);
}

#[test]
fn a_long_function_is_found() {
    let body =
        |lines: usize| format!("trait T {{ fn g(); }}\nfn f() {{\n{}}}\n", "x;\n".repeat(lines));
    assert!(functions_are_short(&source(&body(FUNCTION_LINES - 2))).is_empty());
    let problems = functions_are_short(&source(&body(FUNCTION_LINES - 1)));
    assert_eq!(problems, ["src/worker.rs:2: `f` has 71 lines; at most 70"]);
}

#[test]
fn a_long_line_is_found() {
    let code = "x".repeat(COLUMNS);
    assert!(lines_are_short(&source(&code)).is_empty());
    assert_eq!(lines_are_short(&source(&format!("\n{code}x"))).len(), 1);
    assert_eq!(lines_are_short(&source(&format!("// {code}"))).len(), 1);
    assert!(lines_are_short(&source(&format!("a(\"{code}\")"))).is_empty());
}

#[test]
fn unfinished_work_is_found() {
    let mark = concat!("// FIX", "ME later");
    for bad in ["fn f() { todo!() }", "#[ignore = \"slow\"]", mark, "dbg!(x)", "unimplemented!()"] {
        assert_eq!(nothing_is_unfinished(&source(bad)).len(), 1, "{bad}");
    }
    assert!(nothing_is_unfinished(&source("a(\"todo!\"); // todo!")).is_empty());
}

#[test]
fn other_readers_of_the_clock_are_found() {
    let text = "let now = SystemTime::now();";
    assert_eq!(only_the_clock_reads_the_time(&source(text)).len(), 1);
    assert!(only_the_clock_reads_the_time(&Source::new("src/clock.rs", text)).is_empty());
}

#[test]
fn unsafe_code_elsewhere_is_found() {
    let text = "unsafe { x() }";
    assert_eq!(unsafe_code_is_in_one_file(&source(text)).len(), 1);
    assert!(unsafe_code_is_in_one_file(&Source::new("src/kafka/raw.rs", text)).is_empty());
    assert!(unsafe_code_is_in_one_file(&source("#![deny(unsafe_code)] // unsafe")).is_empty());
}
