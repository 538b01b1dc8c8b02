//! Shapes of output that commands share.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table};

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Warning,
    Error,
}

/// Prints one finding to standard error: an error as it is, a warning marked as such.
pub(super) fn complain(color: bool, severity: Severity, text: &str) {
    let (mark, code) = match severity {
        Severity::Warning => ("warning: ", "33"),
        Severity::Error => ("", "31"),
    };
    let line = match color {
        true => format!("\x1b[{code}m{mark}{text}\x1b[0m\n"),
        false => format!("{mark}{text}\n"),
    };
    // Nobody is left to tell when standard error is closed.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// A table without lines, which `awk` can read; wrapped only on a terminal.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

/// Prints one line.
pub(super) fn print_line(out: &mut impl Write, line: &str) -> io::Result<()> {
    writeln!(out, "{line}")
}

/// Prints `table` without blanks at the ends of its lines.
pub(super) fn print(table: &Table, out: &mut impl Write) -> io::Result<()> {
    for line in table.to_string().lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
