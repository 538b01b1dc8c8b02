//! Configuration: a flag wins over the environment, over the file, over the default.
//!
//! `config.toml` at the root of the repository is the manual and, compiled in, the defaults.
//! [`load`] lays the layers on top of each other and turns the result into a checked [`Config`], or
//! into all [`Problems`] at once. Only secrets and the files that settings name are read from disk.

mod check;
mod choice;
mod connection;
mod convert;
mod file;
mod kind;
mod librdkafka;
mod model;
mod overlay;
mod problem;
mod reader;
mod reference;
mod secret;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Value;

pub use choice::{
    Compression, ForwardTimestamp, GroupProtocol, Guarantee, LogFormat, OnDeadLetterFailure,
    OnMissingOffset, SaslMechanism, VerifyTopic,
};
pub use kind::{Choice, Kind};
pub use librdkafka::Properties;
pub use model::{
    ClientCertificate, Config, Credentials, DeadLetterConfig, DelayConfig, ForwardConfig,
    HealthConfig, HttpConfig, KafkaConfig, LogConfig, MetricsConfig, RetryConfig, SaslConfig,
    ShutdownConfig, SourceConfig, TlsConfig,
};
pub use overlay::{ENVIRONMENT_PREFIX, Override, environment_name};
pub use problem::{Origin, Problem, Problems};
pub use reference::REFERENCE;

use reader::Reader;
use reference::{Reference, Values};

/// Where the file is when nobody names one.
pub const DEFAULT_FILE: &str = "/etc/kafka-delay/config.toml";

/// Names the file when no flag does.
pub const FILE_VARIABLE: &str = "KAFKA_DELAY_CONFIG";

/// What is laid on top of the defaults. Not `Debug`: it may hold secrets.
#[derive(Clone, Default)]
pub struct Sources {
    /// The file's name, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables; those without [`ENVIRONMENT_PREFIX`] are ignored.
    pub environment: Vec<(String, String)>,
    /// Settings from the command line; a later one wins.
    pub flags: Vec<Override>,
}

/// A valid configuration and where it comes from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The same by key, in the order of the reference file, without secrets.
    pub effective: Vec<Setting>,
    /// What is accepted but deserves a look.
    pub warnings: Vec<Problem>,
    /// Hash of `effective`: equal on instances that are configured alike, apart from secrets.
    pub sha256: String,
}

/// One key with the value in force.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The key in dotted form.
    pub path: String,
    /// The value, `"[redacted]"` for a secret. Displays as TOML.
    pub value: Value,
    /// The type of the key.
    pub kind: Kind,
    /// Who set it.
    pub origin: Origin,
}

impl Setting {
    /// Whether it was set rather than left at its default.
    pub fn is_set(&self) -> bool {
        self.origin != Origin::Default
    }
}

impl Default for Config {
    fn default() -> Self {
        let values = Reference::get().defaults();
        let mut reader = Reader::new(&values);
        convert::config(&mut reader)
    }
}

/// Checks everything in `sources` together.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut values = Reference::get().defaults();
    let mut errors = Vec::new();
    if let Some((path, text)) = &sources.file {
        file::apply(path, text, &mut values, &mut errors).map_err(Problems::one)?;
    }
    overlay::apply_environment(&sources.environment, &mut values, &mut errors);
    overlay::apply_flags(&sources.flags, &mut values, &mut errors);

    let mut reader = Reader::with_errors(&values, errors);
    let config = convert::config(&mut reader);
    let (errors, warnings) = reader.finish();
    if !errors.is_empty() {
        return Err(Problems { errors, warnings });
    }
    let effective = effective(&values);
    let sha256 = sha256(&effective);
    Ok(Loaded { config, effective, warnings, sha256 })
}

/// The defaults by key, in the order of the reference file.
pub fn defaults() -> Vec<Setting> {
    effective(&Reference::get().defaults())
}

/// Every key that may be set with its type and default, pass-through tables included.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static Kind, &'static Value)> {
    let definitions = Reference::get().definitions().iter();
    definitions.map(|key| (key.path.as_str(), &key.kind, &key.default))
}

/// Splits the path of a pass-through property into its table and the name of the property.
pub fn split_property(path: &str) -> Option<(&'static str, &str)> {
    let (table, name) = Reference::get().property(path)?;
    Some((table.path.as_str(), name))
}

/// Whether the value of a librdkafka property must never be printed.
pub fn is_secret_property(property: &str) -> bool {
    librdkafka::is_secret(property)
}

/// Finds and reads the file: `flag`, else the one in [`FILE_VARIABLE`], else [`DEFAULT_FILE`] if
/// there is one.
pub fn find_file(flag: Option<&Path>) -> Result<Option<(PathBuf, String)>, Problems> {
    let variable = std::env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty());
    let (path, origin) = match (flag, variable) {
        (Some(path), _) => (path.to_owned(), Origin::Flag("--config".to_owned())),
        (None, Some(path)) => (path.into(), Origin::Environment(FILE_VARIABLE.to_owned())),
        (None, None) if Path::new(DEFAULT_FILE).exists() => (DEFAULT_FILE.into(), Origin::Default),
        (None, None) => return Ok(None),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            Err(Problems::one(Problem::new("", origin, message)))
        }
    }
}

/// The variables of this process. What is not UTF-8 gets replacement characters, which [`load`]
/// refuses in values.
pub fn process_environment() -> Vec<(String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

fn effective(values: &Values) -> Vec<Setting> {
    let mut settings = Vec::new();
    for key in Reference::get().definitions() {
        let is_here = |path: &str| match key.kind {
            Kind::Properties => {
                Reference::get().property(path).is_some_and(|(table, _)| table.path == key.path)
            }
            _ => path == key.path,
        };
        for (path, entry) in values.iter().filter(|(path, _)| is_here(path)) {
            settings.push(Setting {
                path: path.clone(),
                value: printable(path, &entry.value),
                kind: key.kind.clone(),
                origin: entry.origin.clone(),
            });
        }
    }
    settings
}

fn printable(path: &str, value: &Value) -> Value {
    let is_secret = match split_property(path) {
        Some((_, property)) => librdkafka::is_secret(property),
        None => path == "kafka.sasl.password",
    };
    let is_empty = value.as_str().is_some_and(str::is_empty);
    if is_secret && !is_empty {
        return Value::String(librdkafka::REDACTED.to_owned());
    }
    value.clone()
}

fn sha256(settings: &[Setting]) -> String {
    let mut hash = Sha256::new();
    for setting in settings {
        hash.update(format!("{} = {}\n", setting.path, setting.value));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
