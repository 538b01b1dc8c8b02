//! A source file, and what is left of it without comments and string contents.

use std::fs;
use std::path::Path;

/// One file of the project.
pub struct Source {
    /// Relative to the project, with `/`: `src/engine/lane.rs`.
    pub path: String,
    /// As it is.
    pub text: String,
    /// Without comments, and with nothing between the quotes of strings; line numbers stay.
    pub code: String,
    /// `text` without string contents, to measure columns: a message is not broken over lines.
    pub measured: String,
}

/// Something to be put right: `path:line: what and why`.
pub type Problem = String;

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, measured) = strip(text);
        Self { path: path.to_owned(), text: text.to_owned(), code, measured }
    }

    /// All Rust files below `folder`, in order.
    pub fn all_below(folder: &str) -> Vec<Self> {
        let mut paths = Vec::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), folder, &mut paths);
        paths.sort();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &String| {
            let text = fs::read_to_string(root.join(path));
            Self::new(path, &text.expect("source files are readable UTF-8"))
        };
        paths.iter().map(read).collect()
    }

    /// The module below the crate's root: `engine` for `src/engine/lane.rs`, `main` for
    /// `src/main.rs`.
    pub fn top_module(&self) -> &str {
        let inside = self.path.strip_prefix("src/").unwrap_or(&self.path);
        inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
    }

    /// Whether the whole file is test code (a `tests.rs` beside its module, or below `tests/`).
    pub fn is_test_file(&self) -> bool {
        let test_file = ["/tests.rs", "/testing.rs"].iter().any(|name| self.path.ends_with(name));
        test_file || !self.path.starts_with("src/") || self.path.contains("/tests/")
    }

    /// The code before the test module at the bottom; nothing in a test file.
    pub fn product_code(&self) -> &str {
        if self.is_test_file() {
            return "";
        }
        let is_test_module = |at: usize| {
            let after = self.code[at + TEST_MODULE.len()..].trim_start();
            after.starts_with("mod ") && after.find('{') < after.find(';').or(Some(usize::MAX))
        };
        let mut marks = self.code.match_indices(TEST_MODULE).map(|(at, _)| at);
        &self.code[..marks.find(|at| is_test_module(*at)).unwrap_or(self.code.len())]
    }

    /// A problem at a byte of `code`.
    pub fn problem_at(&self, byte: usize, what: impl std::fmt::Display) -> Problem {
        let line = self.code[..byte].matches('\n').count() + 1;
        format!("{}:{line}: {what}", self.path)
    }
}

const TEST_MODULE: &str = "#[cfg(test)]";

/// Where `word` stands in `code` as a word of its own.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !is_part(before) && !is_part(bytes.get(at + word.len()))
    })
}

fn collect(folder: &Path, name: &str, paths: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &name, paths);
        } else if name.ends_with(".rs") {
            paths.push(name);
        }
    }
}

/// `text` without comments and strings, and without strings only.
fn strip(text: &str) -> (String, String) {
    let (mut code, mut measured) = (String::new(), String::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let part = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            measured.push_str(&rest[..end]);
            end
        } else if rest.starts_with("/*") {
            let end = block_comment(rest);
            measured.push_str(&rest[..end]);
            code.extend(rest[..end].chars().filter(|c| *c == '\n'));
            end
        } else if let Some(end) = literal(rest, code.chars().next_back()) {
            for out in [&mut code, &mut measured] {
                out.push('"');
                out.extend(rest[..end].chars().filter(|c| *c == '\n'));
                out.push('"');
            }
            end
        } else {
            code.push(first);
            measured.push(first);
            first.len_utf8()
        };
        rest = &rest[part..];
    }
    (code, measured)
}

/// The length of the block comment that `rest` begins with; such comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest[at..];
        let (change, step) = match here {
            _ if here.starts_with("/*") => (1, 2),
            _ if here.starts_with("*/") => (-1, 2),
            _ => (0, here.chars().next().map_or(1, char::len_utf8)),
        };
        depth += change;
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of the string or character literal that `rest` begins with, if it does.
fn literal(rest: &str, previous: Option<char>) -> Option<usize> {
    if previous.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix);
        let opens = |text: &str| text.trim_start_matches('#').starts_with('"');
        after.is_some_and(|text| text.starts_with('"') || (prefix.ends_with('r') && opens(text)))
    });
    if let Some(prefix) = prefix {
        let body = &rest[prefix.len()..];
        if prefix.ends_with('r') {
            let hashes = body.len() - body.trim_start_matches('#').len();
            let close = format!("\"{}", "#".repeat(hashes));
            let inside = &body[hashes + 1..];
            let end = inside.find(&close).map_or(inside.len(), |at| at + close.len());
            return Some(prefix.len() + hashes + 1 + end);
        }
        return Some(prefix.len() + quoted(body, '"'));
    }
    let prefix = if rest.starts_with("b'") { 1 } else { 0 };
    let body = &rest[prefix..];
    let mut inside = body.strip_prefix('\'')?.chars();
    let (first, second) = (inside.next()?, inside.next()?);
    // 'x' or '\n', not the lifetime 'x.
    (first == '\\' || second == '\'').then(|| prefix + quoted(body, '\''))
}

/// The length of a literal with escapes, from its opening quote to its closing one.
fn quoted(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    body.len()
}

#[test]
fn comments_and_strings_are_taken_out_and_lines_stay() {
    let text = "let a = \"x // \\\" y\"; // note\nlet b = r#\"raw \"q\" \n\"#; /* a /* b */\n c */ 'x' 'a: \
                b\"z\"\n'\\'' end";
    let source = Source::new("src/x.rs", text);
    assert_eq!(source.code, "let a = \"\"; \nlet b = \"\n\"; \n \"\" 'a: \"\"\n\"\" end");
    assert_eq!(source.text.lines().count(), source.code.lines().count());
}

#[test]
fn the_test_module_at_the_bottom_is_no_product_code() {
    let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\n}\n";
    let source = Source::new("src/x.rs", text);
    assert_eq!(source.product_code(), "#[cfg(test)]\nmod tests;\nfn a() {}\n");
    assert_eq!(Source::new("src/x/tests.rs", text).product_code(), "");
}

#[test]
fn words_stand_alone() {
    let code = "unsafe unsafe_code not_unsafe (unsafe)";
    assert_eq!(words(code, "unsafe").collect::<Vec<_>>(), [0, 31]);
}
