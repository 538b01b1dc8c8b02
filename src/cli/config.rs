//! `kafka-delay config`: which settings there are, and which are in force.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value as Json, json};

use super::exit::Failure;
use super::global::GlobalArgs;
use super::output::{self, Severity, complain};
use crate::config::{self, Kind, Setting};

pub(super) const EXAMPLES: &str = "\
Examples:
  kafka-delay config show --origin
  kafka-delay config env";

/// The commands below `config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print the settings in force; secrets are redacted
    Show(ShowArgs),
    /// Print the environment variable of every key, with its type and default
    Env(EnvArgs),
}

/// Arguments of `config show`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay config show --origin
  kafka-delay config show -o json | jq .source
  kafka-delay config show --defaults > config.toml")]
pub struct ShowArgs {
    /// Say where each value comes from
    #[arg(long)]
    origin: bool,

    /// Print the commented reference file with all defaults instead
    #[arg(long, conflicts_with = "origin")]
    defaults: bool,

    /// Shape of the output
    #[arg(short, long, value_enum, default_value = "toml", value_name = "FORMAT")]
    output: ShowFormat,
}

/// Arguments of `config env`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay config env | grep SASL
  KAFKA_DELAY__SOURCE__TOPIC=delays kafka-delay config show --origin

Lists are separated by commas. In names of librdkafka properties `_` stands for `.`.")]
pub struct EnvArgs {}

/// How settings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShowFormat {
    /// As a configuration file.
    Toml,
    /// As one object.
    Json,
}

pub(super) fn run(
    command: &ConfigCommand,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show(args) => show(args, global, out),
        ConfigCommand::Env(EnvArgs {}) => environment(out),
    }
}

fn show(args: &ShowArgs, global: &GlobalArgs, out: &mut impl Write) -> Result<(), Failure> {
    let settings = match (args.defaults, args.output) {
        (true, ShowFormat::Toml) => {
            out.write_all(config::REFERENCE.as_bytes())?;
            return Ok(());
        }
        (true, ShowFormat::Json) => config::defaults(),
        (false, _) => {
            let loaded = global.load()?;
            for warning in &loaded.warnings {
                let color = global.color.is_on_for_stderr();
                complain(color, Severity::Warning, &warning.to_string());
            }
            loaded.effective
        }
    };
    match args.output {
        ShowFormat::Toml => show_toml(&settings, args.origin, out),
        ShowFormat::Json => {
            let json = if args.origin { with_origins(&settings) } else { nested(&settings) };
            writeln!(out, "{json:#}")?;
            Ok(())
        }
    }
}

/// As a file that could be loaded again, but for redacted secrets.
fn show_toml(settings: &[Setting], origin: bool, out: &mut impl Write) -> Result<(), Failure> {
    let mut current = None;
    for setting in settings {
        let (section, key) = section_and_key(setting);
        if current != Some(section) {
            let gap = if current.is_some() { "\n" } else { "" };
            writeln!(out, "{gap}[{section}]")?;
            current = Some(section);
        }
        let line = format!("{key} = {}", setting.value);
        match origin {
            true => writeln!(out, "{line:<40} # {}", setting.origin)?,
            false => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

/// The table that `setting` is in, and its key as TOML writes it.
fn section_and_key(setting: &Setting) -> (&str, String) {
    if let Some((table, property)) = config::split_property(&setting.path) {
        return (table, toml::Value::from(property).to_string());
    }
    let (section, key) = setting.path.rsplit_once('.').unwrap_or(("", &setting.path));
    (section, key.to_owned())
}

fn with_origins(settings: &[Setting]) -> Json {
    let entry = |setting: &Setting| {
        json!({
            "key": setting.path,
            "value": setting.value,
            "origin": setting.origin.to_string(),
        })
    };
    settings.iter().map(entry).collect()
}

/// The tables of the file as objects.
fn nested(settings: &[Setting]) -> Json {
    let mut root = Map::new();
    for setting in settings {
        let property = config::split_property(&setting.path);
        let (section, key) = property
            .or_else(|| setting.path.rsplit_once('.'))
            .unwrap_or(("", setting.path.as_str()));
        let mut table = &mut root;
        for part in section.split('.') {
            let inner = table.entry(part).or_insert_with(|| Json::Object(Map::new()));
            table = inner.as_object_mut().expect("a section is not a key");
        }
        table.insert(key.to_owned(), json!(setting.value));
    }
    Json::Object(root)
}

fn environment(out: &mut impl Write) -> Result<(), Failure> {
    let mut table = output::table(&["VARIABLE", "TYPE", "DEFAULT"]);
    for (path, kind, default) in config::keys() {
        let name = config::environment_name(path);
        match kind {
            Kind::Properties => {
                table.add_row([format!("{name}__<PROPERTY>"), "string".into(), String::new()])
            }
            kind => table.add_row([name, kind.to_string(), default.to_string()]),
        };
    }
    output::print(&table, out)?;
    Ok(())
}
