//! Reads typed values by key and collects what is wrong with them instead of stopping at the first.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use secrecy::SecretString;
use toml::Value;

use super::kind::{Choice, Kind};
use super::librdkafka::{Properties, refusal};
use super::problem::{Origin, Problem};
use super::reference::{Entry, Values};
use super::secret;

/// A value that is refused is replaced by some other: the caller must look at [`Reader::finish`]
/// before using anything it read, and at [`Reader::is_fine`] before comparing.
pub(super) struct Reader<'v> {
    values: &'v Values,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    kinds: BTreeMap<&'static str, Kind>,
}

impl<'v> Reader<'v> {
    pub(super) fn new(values: &'v Values) -> Self {
        Self { values, errors: Vec::new(), warnings: Vec::new(), kinds: BTreeMap::new() }
    }

    /// A reader that already knows of `errors`.
    pub(super) fn with_errors(values: &'v Values, errors: Vec<Problem>) -> Self {
        Self { errors, ..Self::new(values) }
    }

    /// The kind that each key was read as.
    pub(super) fn into_kinds(self) -> BTreeMap<&'static str, Kind> {
        self.kinds
    }

    /// Errors and warnings, in the order of the layers.
    pub(super) fn finish(mut self) -> (Vec<Problem>, Vec<Problem>) {
        self.errors.sort_by(|left, right| left.origin.cmp(&right.origin));
        self.warnings.sort_by(|left, right| left.origin.cmp(&right.origin));
        (self.errors, self.warnings)
    }

    /// Refuses the value of `path`.
    pub(super) fn refuse(&mut self, path: &str, message: impl Into<String>) {
        self.errors.push(Problem::new(path, self.origin(path), message));
    }

    /// Accepts the value of `path`, with a remark.
    pub(super) fn warn(&mut self, path: &str, message: impl Into<String>) {
        self.warnings.push(Problem::new(path, self.origin(path), message));
    }

    /// Refuses that the values of `paths` come together. The one that was set last is to blame, so
    /// that the finding points at what a person wrote and not at a default.
    pub(super) fn refuse_together(&mut self, paths: &[&str], message: impl Into<String>) {
        let last = paths.iter().rev().max_by_key(|path| self.origin(path));
        self.refuse(last.copied().unwrap_or_default(), message);
    }

    /// Whether none of `paths` has been refused.
    pub(super) fn is_fine(&self, paths: &[&str]) -> bool {
        self.errors.iter().all(|problem| !paths.contains(&problem.key.as_str()))
    }

    /// Whether somebody set `path`, be it to its default.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.origin(path) != Origin::Default
    }

    pub(super) fn boolean(&mut self, path: &'static str) -> bool {
        self.value(path, Kind::Boolean).as_bool().expect(TYPED)
    }

    pub(super) fn integer(&mut self, path: &'static str, range: RangeInclusive<u32>) -> u32 {
        let number = self.value(path, Kind::Integer).as_integer().expect(TYPED);
        let checked = u32::try_from(number).ok().filter(|number| range.contains(number));
        checked.unwrap_or_else(|| {
            let (low, high) = (range.start(), range.end());
            self.refuse(path, format!("{number} is not between {low} and {high}"));
            *range.start()
        })
    }

    pub(super) fn text(&mut self, path: &'static str) -> String {
        let text = self.string(path, Kind::Text);
        if text.contains(char::is_control) {
            self.refuse(path, "the text holds a control character, such as a newline");
        }
        text.to_owned()
    }

    /// A text that is not empty.
    pub(super) fn required(&mut self, path: &'static str) -> String {
        let text = self.text(path);
        if text.is_empty() {
            self.refuse(path, "must not be empty");
        }
        text
    }

    /// A text; empty = none.
    pub(super) fn optional(&mut self, path: &'static str) -> Option<String> {
        Some(self.text(path)).filter(|text| !text.is_empty())
    }

    pub(super) fn list(&mut self, path: &'static str) -> Vec<String> {
        let items = self.value(path, Kind::List).as_array().expect(TYPED);
        items.iter().map(|item| item.as_str().expect(TYPED).to_owned()).collect()
    }

    pub(super) fn choice<T: Choice>(&mut self, path: &'static str) -> T {
        self.optional_choice(path).unwrap_or_else(|| {
            if self.is_fine(&[path]) {
                self.refuse(path, format!("must be one of {}", names::<T>().join(", ")));
            }
            T::ALL[0].1
        })
    }

    /// One of the words of `T`; empty or refused = none.
    pub(super) fn optional_choice<T: Choice>(&mut self, path: &'static str) -> Option<T> {
        let word = self.string(path, Kind::Choice(names::<T>()));
        if word.is_empty() {
            return None;
        }
        T::parse(word).map_err(|message| self.refuse(path, message)).ok()
    }

    pub(super) fn duration(
        &mut self,
        path: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let text = self.string(path, Kind::Duration);
        let checked = parse_duration(text).and_then(|duration| {
            if range.contains(&duration) {
                return Ok(duration);
            }
            let (low, high) = (range.start(), range.end());
            let format = humantime::format_duration;
            Err(format!("`{text}` is not between {} and {}", format(*low), format(*high)))
        });
        checked.unwrap_or_else(|message| {
            self.refuse(path, message);
            *range.start()
        })
    }

    /// Durations, or none when one of them is refused.
    pub(super) fn durations(&mut self, path: &'static str) -> Option<Vec<Duration>> {
        let items = self.value(path, Kind::Durations).as_array().expect(TYPED);
        let parsed = items.iter().map(|item| parse_duration(item.as_str().expect(TYPED)));
        let parsed: Result<Vec<Duration>, String> = parsed.collect();
        parsed.map_err(|message| self.refuse(path, message)).ok()
    }

    /// A number of bytes.
    pub(super) fn size(&mut self, path: &'static str, range: RangeInclusive<u64>) -> u64 {
        let text = self.string(path, Kind::Size);
        let checked = match text.trim().parse::<ByteSize>() {
            Ok(ByteSize(bytes)) if range.contains(&bytes) => Ok(bytes),
            Ok(_) => {
                let (low, high) = (ByteSize(*range.start()), ByteSize(*range.end()));
                Err(format!("`{text}` is not between {low} and {high}"))
            }
            Err(_) => Err(format!("`{text}` is not a size; write one such as 64KiB or 16MiB")),
        };
        checked.unwrap_or_else(|message| {
            self.refuse(path, message);
            *range.start()
        })
    }

    /// The path of a file that can be read now; empty = none.
    pub(super) fn file(&mut self, path: &'static str) -> Option<PathBuf> {
        let file = PathBuf::from(self.optional(path)?);
        if let Err(message) = secret::open(&file) {
            self.refuse(path, message);
        }
        Some(file)
    }

    /// The content of the file that `path` names; empty = none.
    pub(super) fn secret_file(&mut self, path: &'static str) -> Option<SecretString> {
        let file = PathBuf::from(self.optional(path)?);
        match secret::read(&file) {
            Ok(secret) => {
                if secret.world_readable {
                    let file = file.display();
                    self.warn(path, format!("every user can read {file}; chmod it to 0400"));
                }
                Some(secret.content)
            }
            Err(message) => {
                self.refuse(path, message);
                Some(SecretString::default())
            }
        }
    }

    /// A credential that is either in `path` itself or in the file that `file_path` names.
    pub(super) fn credential(
        &mut self,
        path: &'static str,
        file_path: &'static str,
    ) -> Option<SecretString> {
        let direct = self.optional(path);
        let from_file = self.secret_file(file_path);
        if direct.is_some() && from_file.is_some() {
            let message = format!("{path} and {file_path} are both set; remove one");
            self.refuse_together(&[path, file_path], message);
        }
        direct.map(SecretString::from).or(from_file)
    }

    /// The properties in the pass-through table `path`.
    pub(super) fn properties(&mut self, path: &'static str) -> Properties {
        self.kinds.insert(path, Kind::Properties);
        let mut properties = Vec::new();
        for (key, entry) in self.values {
            let Some(name) = key.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let value = entry.value.as_str().expect(TYPED);
            if let Some(message) = refusal(name) {
                self.refuse(key, message);
            } else if name.contains('\0') || value.contains('\0') {
                self.refuse(key, "a property cannot hold a NUL byte");
            }
            properties.push((name.to_owned(), value.to_owned()));
        }
        properties.into_iter().collect()
    }

    fn string(&mut self, path: &'static str, kind: Kind) -> &'v str {
        self.value(path, kind).as_str().expect(TYPED)
    }

    fn value(&mut self, path: &'static str, kind: Kind) -> &'v Value {
        self.kinds.insert(path, kind);
        &self.entry(path).expect("the reference has every key; a test holds it").value
    }

    fn entry(&self, path: &str) -> Option<&'v Entry> {
        self.values.get(path)
    }

    fn origin(&self, path: &str) -> Origin {
        self.entry(path).map_or(Origin::Default, |entry| entry.origin.clone())
    }
}

/// Why reading a value with the type of its key cannot fail.
const TYPED: &str = "a layer takes only values of the type of the key";

fn names<T: Choice>() -> Vec<&'static str> {
    T::ALL.iter().map(|(name, _)| *name).collect()
}

/// Parses a span of time. Months and years are refused: they have no fixed length, and `1M` is
/// nearly always meant to be `1m`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut units = text.split(|character: char| !character.is_alphabetic());
    let calendar = units.find(|unit| {
        matches!(*unit, "M" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years")
    });
    if let Some(unit) = calendar {
        let hint = "write days, or `m` for minutes";
        return Err(format!("`{text}` is in months or years (`{unit}`); {hint}"));
    }
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("`{text}` is not a duration such as 250ms or 1h 30m: {error}"))
}
