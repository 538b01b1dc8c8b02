//! The environment and the command line, on top of the file.

use super::kind::Kind;
use super::problem::{Origin, Problem};
use super::reference::{Definition, Entry, Reference, Values, join};

/// What all environment variables of the daemon begin with.
pub const ENVIRONMENT_PREFIX: &str = "KAFKA_DELAY__";

/// One setting from the command line. Not `Debug`: the value may be a secret.
#[derive(Clone)]
pub struct Override {
    /// The key in dotted form.
    pub path: String,
    /// The value; lists are separated by commas.
    pub value: String,
    /// The flag as the user wrote it, for messages.
    pub flag: String,
}

/// The environment variable for the key `path`.
pub fn environment_name(path: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", path.replace('.', "__").to_uppercase())
}

/// Puts the variables that begin with [`ENVIRONMENT_PREFIX`] on top of `values`.
pub(super) fn apply_environment(
    variables: &[(String, String)],
    values: &mut Values,
    problems: &mut Vec<Problem>,
) {
    let reference = Reference::get();
    for (name, text) in variables {
        if !name.starts_with(ENVIRONMENT_PREFIX) {
            continue;
        }
        let origin = Origin::Environment(name.clone());
        match path_of_variable(reference, name) {
            // Not UTF-8: what arrived here is not what was set, which would spoil a password.
            Some((path, _)) if text.contains(char::REPLACEMENT_CHARACTER) => {
                problems.push(Problem::new(path, origin, "the value is not UTF-8"));
            }
            Some((path, kind)) => set(path, kind, text, origin, values, problems),
            None => problems.push(Problem::new("", origin, unknown_variable(reference, name))),
        }
    }
}

/// Puts `overrides` on top of `values`; a later one wins.
pub(super) fn apply_flags(
    overrides: &[Override],
    values: &mut Values,
    problems: &mut Vec<Problem>,
) {
    let reference = Reference::get();
    for Override { path, value, flag } in overrides {
        let origin = Origin::Flag(flag.clone());
        let kind = match reference.property(path) {
            Some((table, _)) => Some(&table.kind),
            None => reference.kind(path),
        };
        match kind {
            Some(Kind::Properties) if reference.property(path).is_none() => {
                let message = "name a property below it, as in `-X socket.keepalive.enable=true`";
                problems.push(Problem::new(path, origin, message));
            }
            Some(kind) => set(path.clone(), kind, value, origin, values, problems),
            None => problems.push(Problem::new(path, origin, reference.unknown(path))),
        }
    }
}

fn set(
    path: String,
    kind: &Kind,
    text: &str,
    origin: Origin,
    values: &mut Values,
    problems: &mut Vec<Problem>,
) {
    match kind.parse(text) {
        Ok(value) => {
            values.insert(path, Entry { value, origin });
        }
        Err(message) => problems.push(Problem::new(path, origin, message)),
    }
}

/// The key that the variable `name` sets. In a pass-through table `_` stands for `.`: no property
/// of librdkafka that takes a text has `_` in its name.
fn path_of_variable<'r>(reference: &'r Reference, name: &str) -> Option<(String, &'r Kind)> {
    reference.definitions().iter().find_map(|Definition { path, kind, .. }| {
        let variable = environment_name(path);
        if *kind != Kind::Properties {
            return (variable == name).then(|| (path.clone(), kind));
        }
        let property = name.strip_prefix(&variable)?.strip_prefix("__")?;
        let property = property.replace('_', ".").to_lowercase();
        (!property.is_empty()).then(|| (join(path, &property), kind))
    })
}

fn unknown_variable(reference: &Reference, name: &str) -> String {
    let rest = name.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(name);
    let path = rest.replace("__", ".").to_lowercase();
    match reference.nearest(&path) {
        Some(nearest) => {
            // A neighbour comes without its table.
            let section = path.rsplit_once('.').map_or("", |(section, _)| section);
            let beside = join(section, nearest);
            let nearest = if reference.kind(&beside).is_some() { &beside } else { nearest };
            format!("sets no known key; did you mean {}?", environment_name(nearest))
        }
        None => "sets no known key; unset it (`kafka-delay config env` lists all)".to_owned(),
    }
}
