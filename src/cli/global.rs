//! Flags that every command takes, and the configuration that follows from them.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};

use crate::config::{self, Loaded, Override, Problems, Sources};

/// Flags that every command takes. A flag wins over the environment, over the file.
#[derive(Args, Clone)]
pub struct GlobalArgs {
    /// Configuration file [env: KAFKA_DELAY_CONFIG] [default: /etc/kafka-delay/config.toml, if any]
    #[arg(short, long, global = true, value_name = "FILE", help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,

    /// Set any key, e.g. --set delay.levels=1s,5s; repeatable [env: KAFKA_DELAY__SECTION__KEY]
    #[arg(long, global = true, value_name = "SECTION.KEY=VALUE", help_heading = CONFIGURATION)]
    pub set: Vec<KeyValue>,

    /// Brokers, host:port, separated by commas [env: KAFKA_DELAY__KAFKA__BOOTSTRAP_SERVERS]
    #[arg(
        short,
        long,
        global = true,
        alias = "bootstrap-servers",
        value_name = "LIST",
        help_heading = KAFKA
    )]
    pub bootstrap_server: Option<String>,

    /// Delay topic [env: KAFKA_DELAY__SOURCE__TOPIC]
    #[arg(short, long, global = true, value_name = "TOPIC", help_heading = KAFKA)]
    pub topic: Option<String>,

    /// Consumer group of the daemon [env: KAFKA_DELAY__SOURCE__GROUP_ID]
    #[arg(short, long, global = true, value_name = "GROUP", help_heading = KAFKA)]
    pub group: Option<String>,

    /// Set a librdkafka property; repeatable [env: KAFKA_DELAY__KAFKA__LIBRDKAFKA__PROPERTY]
    #[arg(short = 'X', global = true, value_name = "KEY=VALUE", help_heading = KAFKA)]
    pub property: Vec<KeyValue>,

    /// Log more: debug; twice: trace
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Count,
        conflicts_with_all = ["quiet", "log_filter"],
        help_heading = LOG
    )]
    pub verbose: u8,

    /// Log less: warnings; twice: errors
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Count,
        conflicts_with = "log_filter",
        help_heading = LOG
    )]
    pub quiet: u8,

    /// Log level, also by module: info,kafka_delay::worker=debug [env: KAFKA_DELAY__LOG__FILTER]
    #[arg(long, global = true, value_name = "FILTER", help_heading = LOG)]
    pub log_filter: Option<String>,

    /// Shape of log lines [env: KAFKA_DELAY__LOG__FORMAT]
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_parser = ["auto", "text", "json"],
        help_heading = LOG
    )]
    pub log_format: Option<String>,

    /// When to use colours; auto = on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        value_enum,
        help_heading = LOG
    )]
    pub color: Color,
}

const CONFIGURATION: &str = "Configuration";
const KAFKA: &str = "Kafka";
const LOG: &str = "Output";

impl GlobalArgs {
    /// The configuration from defaults, file, environment and these flags.
    pub fn load(&self) -> Result<Loaded, Problems> {
        self.load_from(self.config.as_deref())
    }

    /// Like [`Self::load`], with `file` in place of `--config`.
    pub fn load_from(&self, file: Option<&Path>) -> Result<Loaded, Problems> {
        config::load(&Sources {
            file: config::find_file(file)?,
            environment: config::process_environment(),
            flags: self.overrides(),
        })
    }

    /// What the flags set. A flag for one key wins over `--set`.
    pub fn overrides(&self) -> Vec<Override> {
        let entry = |path: String, value: &str, flag: &str| Override {
            path,
            value: value.to_owned(),
            flag: flag.to_owned(),
        };
        let mut overrides = Vec::new();
        for KeyValue { key, value } in &self.set {
            overrides.push(entry(key.clone(), value, "--set"));
        }
        for KeyValue { key, value } in &self.property {
            overrides.push(entry(format!("kafka.librdkafka.{key}"), value, "-X"));
        }
        let level = match (self.verbose, self.quiet) {
            (0, 0) => None,
            (0, 1) => Some(("warn", "--quiet")),
            (0, _) => Some(("error", "--quiet")),
            (1, _) => Some(("debug", "--verbose")),
            (_, _) => Some(("trace", "--verbose")),
        };
        if let Some((level, flag)) = level {
            overrides.push(entry("log.filter".to_owned(), level, flag));
        }
        for (path, value, flag) in [
            ("kafka.bootstrap_servers", &self.bootstrap_server, "--bootstrap-server"),
            ("source.topic", &self.topic, "--topic"),
            ("source.group_id", &self.group, "--group"),
            ("log.filter", &self.log_filter, "--log-filter"),
            ("log.format", &self.log_format, "--log-format"),
        ] {
            if let Some(value) = value {
                overrides.push(entry(path.to_owned(), value, flag));
            }
        }
        overrides
    }
}

/// A `KEY=VALUE` argument. Not `Debug`: the value may be a secret.
#[derive(Clone)]
pub struct KeyValue {
    /// What is before the first `=`.
    pub key: String,
    /// What is after it.
    pub value: String,
}

impl FromStr for KeyValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Self { key: key.trim().to_owned(), value: value.to_owned() })
            }
            _ => Err("write KEY=VALUE".to_owned()),
        }
    }
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether what goes to standard error is coloured.
    pub fn is_on_for_stderr(self) -> bool {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => !no_color && std::io::stderr().is_terminal(),
        }
    }
}
