//! The `kafka-delay` program. See `kafka_delay::cli` for its commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    kafka_delay::cli::run()
}
