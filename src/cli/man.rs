//! `kafka-delay man`: manual pages, generated from the same definitions as `--help`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};

use super::exit::{self, Failure};

/// Arguments of `man`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay man | man -l -
  kafka-delay man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write a page for every command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs, command: Command, out: &mut impl Write) -> Result<(), Failure> {
    let Some(directory) = &args.dir else {
        clap_mangen::Man::new(command).render(out)?;
        return Ok(());
    };
    let written =
        fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    written.map_err(|error| {
        Failure::new(exit::FAILED, format!("cannot write to {}: {error}", directory.display()))
    })
}
