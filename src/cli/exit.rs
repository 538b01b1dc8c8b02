//! Exit codes, and how a command ends with one. They follow `sysexits.h` where it has a code.

use std::io;

use crate::app::AppError;
use crate::config::Problems;

/// All went well.
pub const OK: u8 = 0;
/// The command ran, and what it was asked about is not so.
pub const FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// Kafka did not answer at start-up.
pub const UNAVAILABLE: u8 = 69;
/// A mistake in the daemon itself.
pub const INTERNAL: u8 = 70;
/// Kafka refused the credentials or the permission.
pub const DENIED: u8 = 77;
/// The configuration is not valid.
pub const CONFIG: u8 = 78;

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// One of the exit codes of this module.
    pub code: u8,
    /// For standard error; empty when all has been said.
    pub message: String,
}

impl Failure {
    /// A failure with its exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::new(CONFIG, problems.to_string())
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        let code = match &error {
            AppError::Unavailable(_) => UNAVAILABLE,
            AppError::Denied(_) => DENIED,
            AppError::Config(_) => CONFIG,
            AppError::Internal(_) => INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // The reader of a pipe has seen enough, as `head` does.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(OK, "");
        }
        Self::new(FAILED, error.to_string())
    }
}
