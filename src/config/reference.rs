//! The reference: `config.toml` at the root of the repository, compiled in. It *is* the defaults,
//! so that the documented and the real default cannot differ, and it says which keys there are.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::convert;
use super::kind::Kind;
use super::problem::Origin;
use super::reader::Reader;

/// The commented reference file: every key with its default.
pub const REFERENCE: &str = include_str!("../../config.toml");

/// Values with where they come from, by key in dotted form. A pass-through property is an entry of
/// its own: `kafka.librdkafka.socket.keepalive.enable`.
pub(super) type Values = BTreeMap<String, Entry>;

/// A value and where it comes from.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A key that may be set.
pub(super) struct Definition {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) default: Value,
}

/// Every key that may be set, in the order of the reference file.
pub(super) struct Reference {
    definitions: Vec<Definition>,
}

impl Reference {
    pub(super) fn get() -> &'static Self {
        static REFERENCE: LazyLock<Reference> = LazyLock::new(Reference::build);
        &REFERENCE
    }

    /// The types of keys are not written down twice: a dry run of the conversion tells what it
    /// reads each key as.
    fn build() -> Self {
        let table = DeTable::parse(REFERENCE).expect("the reference is TOML; a test holds it");
        let mut leaves = Vec::new();
        collect(table.get_ref(), "", &mut leaves);
        leaves.sort_by_key(|(position, ..)| *position);

        let entry = |value: &Value| Entry { value: value.clone(), origin: Origin::Default };
        let values = leaves
            .iter()
            .filter(|(_, _, value)| !value.is_table())
            .map(|(_, path, value)| (path.clone(), entry(value)))
            .collect();
        let mut reader = Reader::new(&values);
        convert::config(&mut reader);
        let mut kinds = reader.into_kinds();

        let definitions = leaves.into_iter().map(|(_, path, default)| {
            let kind = kinds.remove(path.as_str()).expect("every key is read; a test holds it");
            Definition { path, kind, default }
        });
        Self { definitions: definitions.collect() }
    }

    pub(super) fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// The defaults as the lowest layer of values.
    pub(super) fn defaults(&self) -> Values {
        let settings = self.definitions.iter().filter(|setting| setting.kind != Kind::Properties);
        let entry = |setting: &Definition| Entry {
            value: setting.default.clone(),
            origin: Origin::Default,
        };
        settings.map(|setting| (setting.path.clone(), entry(setting))).collect()
    }

    pub(super) fn kind(&self, path: &str) -> Option<&Kind> {
        let setting = self.definitions.iter().find(|setting| setting.path == path)?;
        Some(&setting.kind)
    }

    /// Whether `path` is a table with keys of its own.
    pub(super) fn is_section(&self, path: &str) -> bool {
        self.definitions.iter().any(|setting| is_below(&setting.path, path))
    }

    /// The pass-through table and the name of the property, if `path` is in one.
    pub(super) fn property<'p>(&self, path: &'p str) -> Option<(&Definition, &'p str)> {
        let tables = self.definitions.iter().filter(|setting| setting.kind == Kind::Properties);
        tables.into_iter().find_map(|table| {
            let name = path.strip_prefix(table.path.as_str())?.strip_prefix('.')?;
            (!name.is_empty()).then_some((table, name))
        })
    }

    /// The key that the writer of the unknown `path` may have meant. A neighbour in the same table
    /// is given by its last part alone.
    pub(super) fn nearest(&self, path: &str) -> Option<&str> {
        let (section, leaf) = split(path);
        let neighbours = self.definitions.iter().filter_map(|setting| {
            let (its_section, its_leaf) = split(&setting.path);
            (its_section == section).then_some((its_leaf, strsim::jaro_winkler(leaf, its_leaf)))
        });
        let neighbour = best(neighbours);
        let elsewhere = || {
            best(self.definitions.iter().map(|setting| {
                let (_, its_leaf) = split(&setting.path);
                let whole = strsim::jaro_winkler(path, &setting.path);
                let likeness = if its_leaf == leaf { 1.0 } else { whole };
                (setting.path.as_str(), likeness)
            }))
        };
        neighbour.or_else(elsewhere)
    }

    /// A sentence for an unknown `path`.
    pub(super) fn unknown(&self, path: &str) -> String {
        match self.nearest(path) {
            Some(nearest) => format!("unknown key; did you mean {nearest}?"),
            None => "unknown key; remove it (`kafka-delay config env` lists all keys)".to_owned(),
        }
    }
}

/// `path` and the parts above its last one.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn is_below(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// The most alike of `candidates`, if any is alike enough not to mislead.
fn best<'a>(candidates: impl Iterator<Item = (&'a str, f64)>) -> Option<&'a str> {
    const ALIKE: f64 = 0.85;
    let alike = candidates.filter(|(_, likeness)| *likeness >= ALIKE);
    alike.max_by(|(_, left), (_, right)| left.total_cmp(right)).map(|(candidate, _)| candidate)
}

/// Lists the values below `table` with their positions. An empty table is a pass-through table.
fn collect(table: &DeTable<'_>, prefix: &str, leaves: &mut Vec<(usize, String, Value)>) {
    for (key, value) in table {
        let path = join(prefix, key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) if inner.is_empty() => {
                leaves.push((key.span().start, path, Value::Table(toml::Table::new())));
            }
            DeValue::Table(inner) => collect(inner, &path, leaves),
            leaf => {
                let leaf = plain(leaf).expect("the reference holds plain values");
                leaves.push((key.span().start, path, leaf));
            }
        }
    }
}

/// The dotted form of `key` in the table `prefix`.
pub(super) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// `value` as a string, boolean, integer or array of these.
pub(super) fn plain(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.clone().into_owned())),
        DeValue::Boolean(boolean) => Some(Value::Boolean(*boolean)),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Integer)
        }
        DeValue::Array(items) => {
            let items: Option<Vec<Value>> =
                items.iter().map(|item| plain(item.get_ref())).collect();
            items.map(Value::Array)
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}
