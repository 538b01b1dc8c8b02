//! The command line: definitions here, one file a command. Data goes to standard output,
//! everything else to standard error.

mod check;
mod completions;
mod config;
mod demo;
pub mod exit;
mod global;
mod healthcheck;
#[cfg(test)]
mod hostile;
mod levels;
mod man;
mod output;
mod run;
mod send;
mod topics;

use std::io::{self, Write};

use clap::{CommandFactory, Parser, Subcommand};

use crate::build_info::BuildInfo;
use crate::kafka;

pub use exit::Failure;
pub use global::{Color, GlobalArgs};
pub use output::Format;

/// The whole command line.
#[derive(Parser)]
#[command(
    name = "kafka-delay",
    version,
    long_version = long_version(),
    about,
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    /// Run the daemon
    Run(run::RunArgs),
    /// Show the daemon at work on a broker inside this process; nothing else is needed
    Demo(demo::DemoArgs),
    /// Write one delayed record
    Send(send::SendArgs),
    /// Create or check the delay topic and the dead-letter topic
    #[command(subcommand, after_help = topics::EXAMPLES)]
    Topics(topics::TopicsCommand),
    /// Ask a running daemon whether it is ready
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Check the configuration without a broker and report everything that is wrong with it
    Check(check::CheckArgs),
    /// Show settings: those in force, the defaults, the names of environment variables
    #[command(subcommand, after_help = config::EXAMPLES)]
    Config(config::ConfigCommand),
    /// List the delay levels with their partitions
    Levels(levels::LevelsArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(man::ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  kafka-delay demo
  kafka-delay topics create -b kafka:9092
  kafka-delay run -b kafka:9092
  kafka-delay send -b kafka:9092 --delay 30s --to orders 'cancel 4711'
  kafka-delay check config.toml
  kafka-delay config show --origin
  kafka-delay config show --defaults > config.toml
  kafka-delay levels --partitions 36

Exit codes: 0 ok, 1 failed, 2 usage, 69 Kafka unavailable at start-up, 70 internal error,
77 access denied, 78 configuration not valid";

/// Parses the command line of this process, runs the command and ends the process.
pub fn run() -> ! {
    let cli = Cli::parse();
    let color = cli.global.color.is_on_for_stderr();
    let done = dispatch(&cli, &mut io::stdout().lock());
    let failure = done.err().unwrap_or_else(|| Failure::new(exit::OK, ""));
    for line in failure.message.lines() {
        output::complain(color, output::Severity::Error, line);
    }
    // What a command wrote before it failed; nobody is left to tell that this fails too.
    let _ = io::stdout().flush();
    kafka::end_process(failure.code)
}

fn dispatch(cli: &Cli, out: &mut impl Write) -> Result<(), Failure> {
    match &cli.command {
        Command::Run(args) => run::run(args, &cli.global)?,
        Command::Demo(args) => demo::run(args, &cli.global, out)?,
        Command::Send(args) => send::run(args, &cli.global, out)?,
        Command::Topics(command) => topics::run(command, &cli.global, out)?,
        Command::Healthcheck(args) => healthcheck::run(args, &cli.global, out)?,
        Command::Check(args) => check::run(args, &cli.global, out)?,
        Command::Config(command) => config::run(command, &cli.global, out)?,
        Command::Levels(args) => levels::run(args, &cli.global, out)?,
        Command::Completions(args) => completions::run(args, &mut Cli::command(), out)?,
        Command::Man(args) => man::run(args, Cli::command(), out)?,
    }
    out.flush()?;
    Ok(())
}

/// The version with what a bug report needs.
fn long_version() -> String {
    let build = BuildInfo::new(kafka::library_version());
    let features = kafka::library_features().unwrap_or_else(|error| format!("unknown ({error})"));
    format!(
        "{}\nrevision {}\nrustc {}\nlibrdkafka {}\nlibrdkafka features {features}",
        build.version, build.revision, build.rustc, build.librdkafka
    )
}
