//! `kafka-delay completions`: scripts that let a shell complete commands and flags.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::Failure;

/// Arguments of `completions`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(kafka-delay completions bash)
  kafka-delay completions zsh > ~/.zfunc/_kafka-delay
  kafka-delay completions fish > ~/.config/fish/completions/kafka-delay.fish")]
pub struct CompletionsArgs {
    /// The shell that will read the script
    shell: Shell,
}

pub(super) fn run(
    args: &CompletionsArgs,
    command: &mut Command,
    out: &mut impl Write,
) -> Result<(), Failure> {
    // The generator panics when it cannot write, so it does not get the real output.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "kafka-delay", &mut script);
    out.write_all(&script)?;
    Ok(())
}
