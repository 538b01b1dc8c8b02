//! `kafka-delay check`: everything that is wrong with the configuration, without a broker.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use super::output::{Severity, complain};
use crate::config::Origin;
use crate::kafka::settings;

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay check config.toml
  kafka-delay check --strict /etc/kafka-delay/config.toml
  kafka-delay check --set delay.levels=1s,1m,1h

The environment and flags count as they would for the daemon. Files that settings name, such as
certificates, must be there. Exit code 78 when anything is wrong.")]
pub struct CheckArgs {
    /// File to check in place of --config
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(
    args: &CheckArgs,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let color = global.color.is_on_for_stderr();
    let file = args.file.as_deref().or(global.config.as_deref());
    let (mut errors, mut refused) = (Vec::new(), None);
    let (warnings, settings) = match global.load_from(file) {
        Ok(loaded) => {
            refused = settings::check(&loaded.config).err();
            (loaded.warnings, loaded.effective)
        }
        Err(problems) => {
            errors = problems.errors;
            (problems.warnings, Vec::new())
        }
    };
    for warning in &warnings {
        complain(color, Severity::Warning, &warning.to_string());
    }
    for error in &errors {
        complain(color, Severity::Error, &error.to_string());
    }
    if let Some(refused) = &refused {
        complain(color, Severity::Error, refused);
    }
    let count = errors.len() + usize::from(refused.is_some());
    let found = format!("{}, {}", counted(count, "error"), counted(warnings.len(), "warning"));
    if count > 0 || (args.strict && !warnings.is_empty()) {
        return Err(Failure::new(exit::CONFIG, found));
    }
    let set = settings.iter().filter(|setting| setting.origin != Origin::Default).count();
    writeln!(out, "ok: {} set, {found}", counted(set, "key"))?;
    Ok(())
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
