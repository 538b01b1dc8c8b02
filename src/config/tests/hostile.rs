//! Whatever stands in a file, in the environment or in a flag: it is taken or refused, with words.
//!
//! `make fuzz` runs these at length.

use super::*;

/// Loading everything is slower than what `make fuzz` counts by.
fn slower() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(8), ..usual }
}

/// Words and signs of TOML and of our keys, and any characters.
fn soup() -> impl Strategy<Value = String> {
    let words = "[ ] [[ ]] = . , { } # \" ' \"\"\" ''' \n \r\n \t \0 \\ \\u0000 \\ud800 \u{feff} \
                 kafka source delay forward levels topic librdkafka sasl password tls true false \
                 nan inf -0 0x 1_0 1e400 99999999999999999999 1979-05-27 07:32:00 \"1s\" \"/.*/\"";
    let words: Vec<&'static str> = words.split(' ').collect();
    let piece = prop_oneof![
        8 => prop::sample::select(words).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[ -~]{0,20}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(""))
}

/// Text that nearly is a duration, a size, a list, a path, an address or a pattern.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[0-9]{0,25}(ns|us|ms|s|m|h|d|y|M|B|KiB|GB|EiB)?",
        2 => "(/?[*+?(){}\\[\\]|^$.a-z]{0,20}/?,?){0,4}",
        2 => "[0-9a-f.:\\[\\]]{0,30}",
        2 => any::<String>(),
        1 => (0..5_000_usize).prop_map(|length| "x".repeat(length)),
    ]
}

/// A value of any type, nested.
fn toml_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::Integer),
        1 => any::<f64>().prop_map(Value::Float),
        1 => any::<bool>().prop_map(Value::Boolean),
    ];
    leaf.prop_recursive(4, 32, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::btree_map("[a-z.]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Table(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(keys().map(|(path, ..)| path).collect::<Vec<_>>())
}

/// Loads; what is refused is explained, briefly and in printable characters.
fn survives(sources: &Sources) -> Result<(), TestCaseError> {
    match load(sources) {
        Ok(loaded) => {
            prop_assert_eq!(loaded.sha256.len(), 64);
            for setting in &loaded.effective {
                prop_assert!(!setting.path.is_empty() && !setting.value.to_string().is_empty());
            }
        }
        Err(problems) => {
            prop_assert!(!problems.errors.is_empty());
            for problem in &problems.errors {
                prop_assert!(!problem.to_string().is_empty());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(slower())]

    #[test]
    fn any_text_is_a_file_or_is_refused(text in soup()) {
        survives(&file(&text))?;
    }

    #[test]
    fn any_value_of_any_key_is_taken_or_refused(
        values in prop::collection::vec((key(), toml_value()), 1..6),
    ) {
        let lines = values.iter().map(|(path, value)| format!("{path} = {value}\n"));
        survives(&file(&lines.collect::<String>()))?;
    }

    #[test]
    fn any_environment_and_any_flag_is_taken_or_refused(
        variables in prop::collection::vec((key(), soup(), text()), 0..4),
        flags in prop::collection::vec((soup(), key(), text()), 0..4),
        known in any::<bool>(),
    ) {
        let environment = variables.into_iter().map(|(path, soup, value)| {
            let name = if known { environment_name(path) } else { format!("{ENVIRONMENT_PREFIX}{soup}") };
            (name, value)
        });
        let flags = flags.into_iter().map(|(soup, path, value)| {
            let path = if known { path.to_owned() } else { soup };
            Override { path, value, flag: "--set".to_owned() }
        });
        let sources = Sources {
            environment: environment.collect(),
            flags: flags.collect(),
            ..Sources::default()
        };
        survives(&sources)?;
    }
}

#[test]
fn deep_nesting_and_huge_files_are_refused_or_taken_in_bounded_stack_and_time() {
    let deep = 200_000;
    for text in [
        format!("a = {}", "[".repeat(deep)),
        format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("a = {}", "{a=".repeat(deep)),
        format!("[{}a]", "a.".repeat(deep)),
        format!("{}a = 1", "a.".repeat(deep)),
        format!("delay.levels = [{}\"1s\"]", "\"1s\",".repeat(deep)),
        format!("forward.allow_topics = [\"/{}x{}/\"]", "(".repeat(deep), ")".repeat(deep)),
        "forward.allow_topics = [\"/(((x{1000}){1000}){1000})/\"]".to_owned(),
        format!("source.topic = \"{}\"", "x".repeat(8_000_000)),
    ] {
        assert!(load(&file(&text)).is_err(), "{}", &text[..40]);
    }
    let many: String =
        (0..2_000).map(|number| format!("kafka.librdkafka.x{number} = \"1\"\n")).collect();
    survives(&file(&many)).unwrap();
    // Patterns are matched in linear time: what hangs others is no more than odd.
    let odd = format!("forward.allow_topics = [\"/{}/\"]", "(a*)*".repeat(1_000));
    assert!(load(&file(&odd)).is_ok());
}
