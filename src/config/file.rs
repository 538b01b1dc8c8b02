//! The configuration file: which keys it sets, and every key or type that is wrong.

use std::ops::Range;
use std::path::Path;

use toml::Value;
use toml::de::{DeTable, DeValue, Error};

use super::kind::Kind;
use super::librdkafka::is_secret;
use super::problem::{Origin, Problem};
use super::reference::{Entry, Reference, Values, join, plain};

/// Puts what `text` sets on top of `values`. The error means that it is not TOML, so that nothing
/// else about it can be told.
pub(super) fn apply(
    path: &Path,
    text: &str,
    values: &mut Values,
    problems: &mut Vec<Problem>,
) -> Result<(), Problem> {
    let file = File { path, text, reference: Reference::get() };
    let table = DeTable::parse(text).map_err(|error| file.syntax_problem(&error))?;
    file.walk(table.get_ref(), "", values, problems);
    Ok(())
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    reference: &'static Reference,
}

impl File<'_> {
    fn walk(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        values: &mut Values,
        problems: &mut Vec<Problem>,
    ) {
        for (key, value) in table {
            let path = join(prefix, key.get_ref());
            let mut refuse = |span, message: String| {
                problems.push(Problem::new(path.as_str(), self.origin(&span), message));
            };
            match (self.reference.kind(&path), value.get_ref()) {
                _ if key.get_ref().contains('.') => {
                    refuse(key.span(), "unknown key; write it without the quotes".to_owned());
                }
                (Some(Kind::Properties), DeValue::Table(properties)) => {
                    self.properties(properties, &path, values, problems);
                }
                (Some(kind), leaf) => match checked(kind, leaf) {
                    Ok(value) => {
                        let origin = self.origin(&key.span());
                        values.insert(path, Entry { value, origin });
                    }
                    Err(message) => refuse(value.span(), message),
                },
                (None, DeValue::Table(inner)) if self.reference.is_section(&path) => {
                    self.walk(inner, &path, values, problems);
                }
                (None, other) if self.reference.is_section(&path) => {
                    let found = other.type_str();
                    refuse(
                        value.span(),
                        format!("this is a section, found {found}; write [{path}]"),
                    );
                }
                (None, _) => refuse(key.span(), self.reference.unknown(&path)),
            }
        }
    }

    fn properties(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        values: &mut Values,
        problems: &mut Vec<Problem>,
    ) {
        for (key, value) in table {
            let path = join(prefix, key.get_ref());
            let message = match value.get_ref() {
                DeValue::String(text) => {
                    let value = Value::String(text.clone().into_owned());
                    values.insert(path, Entry { value, origin: self.origin(&key.span()) });
                    continue;
                }
                DeValue::Table(_) => {
                    let example = "\"socket.keepalive.enable\" = \"true\"";
                    format!("put the whole name of the property in quotes: {example}")
                }
                other => {
                    let found = other.type_str();
                    format!("expected a string, found {found}; write the value in quotes")
                }
            };
            problems.push(Problem::new(path, self.origin(&value.span()), message));
        }
    }

    /// The parser's message with the line and a caret, unless the line may hold a secret.
    fn syntax_problem(&self, error: &Error) -> Problem {
        let span = error.span().unwrap_or_default();
        let end = self.text.len().min(span.end.max(span.start));
        let shown = self.text.get(..end).unwrap_or(self.text);
        let end_of_line =
            self.text[shown.len()..].find('\n').unwrap_or(self.text.len() - shown.len());
        let lines: Vec<&str> = self.text[..shown.len() + end_of_line].lines().collect();
        // A value over several lines begins at the last line that assigns.
        let first = lines.iter().rposition(|line| line.contains('=')).unwrap_or(0);
        let mut message = format!("not TOML: {}", error.message());
        if !lines[first..].iter().any(|line| is_secret(line)) {
            // The parser's text is a headline, three lines with the caret, and the message.
            for line in error.to_string().lines().skip(1).take(3) {
                message.push('\n');
                message.push_str(line.trim_end());
            }
        }
        Problem::new("", self.origin(&span), message)
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Origin::File {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// `value` if it has the TOML type of `kind`. The message never shows the value: it may be secret.
fn checked(kind: &Kind, value: &DeValue<'_>) -> Result<Value, String> {
    let only_strings =
        |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_str));
    let fits = |value: &Value| match kind {
        Kind::Boolean => value.is_bool(),
        Kind::Integer => value.is_integer(),
        Kind::Durations | Kind::List => only_strings(value),
        Kind::Choice(_) | Kind::Duration | Kind::Size | Kind::Text => value.is_str(),
        Kind::Properties => false,
    };
    plain(value).filter(fits).ok_or_else(|| {
        let found = match value {
            DeValue::Array(_) if matches!(kind, Kind::Durations | Kind::List) => "other items",
            other => other.type_str(),
        };
        format!("expected {}, found {found}", kind.in_toml())
    })
}
