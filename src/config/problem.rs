//! What is wrong with a configuration, and where it was written.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from. Later variants win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody set the key.
    Default,
    /// The configuration file.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// 1-based column, in characters.
        column: usize,
    },
    /// An environment variable, by name.
    Environment(String),
    /// A command-line flag, as the user knows it.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line, column } => {
                write!(formatter, "{}:{line}:{column}", path.display())
            }
            Self::Environment(name) | Self::Flag(name) => formatter.write_str(name),
        }
    }
}

/// One finding, an error or a warning: `config.toml:12:5: source.topic: what is wrong, what to do`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key in dotted form; empty when the finding is about a file or flag as a whole.
    pub key: String,
    /// Where the value was written.
    pub origin: Origin,
    /// What is wrong with it and what to do. Never holds a secret.
    pub message: String,
}

impl Problem {
    pub(super) fn new(key: impl Into<String>, origin: Origin, message: impl Into<String>) -> Self {
        Self { key: key.into(), origin, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(formatter, "{}: ", self.origin)?;
        }
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        formatter.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration; at least one error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// Why the configuration is refused, in the order of the file, then environment, then flags.
    pub errors: Vec<Problem>,
    /// What else deserves a look.
    pub warnings: Vec<Problem>,
}

impl Problems {
    pub(super) fn one(problem: Problem) -> Self {
        Self { errors: vec![problem], warnings: Vec::new() }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(ToString::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}
