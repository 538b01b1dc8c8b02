//! Any command line is understood or refused with the usage code; no argument makes it panic.
//!
//! `make fuzz` runs this at length.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use proptest::prelude::*;

use super::{Cli, Command, dispatch, exit};

/// Words of our command line, values that nearly fit, and any bytes.
fn argument() -> impl Strategy<Value = OsString> {
    let words = "run check config show env levels topics --set -X --config -c --bootstrap-server -b \
                 --topic -t --group -g --format json text --partitions --origin --defaults --strict \
                 -- - --help -vvv -q --log-filter --log-format --color=always kafka.client_id=x \
                 delay.levels=1s,2s delay.levels= =x x= --partitions=-1 18446744073709551616 \
                 forward.allow_topics=/(/ kafka.librdkafka.debug=all source.group_id=%s";
    let words: Vec<&'static str> = words.split_whitespace().collect();
    prop_oneof![
        12 => prop::sample::select(words).prop_map(OsString::from),
        2 => "[a-z_.]{0,20}=[ -~]{0,20}".prop_map(OsString::from),
        1 => any::<String>().prop_map(OsString::from),
        1 => any::<Vec<u8>>().prop_map(OsString::from_vec),
    ]
}

fn slower() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(8), ..usual }
}

proptest! {
    #![proptest_config(slower())]

    #[test]
    fn any_command_line_is_run_or_refused(
        first in prop::sample::select(vec!["check", "config", "levels", "run", "topics"]),
        arguments in prop::collection::vec(argument(), 0..8),
    ) {
        let line = ["kafka-delay".into(), first.into()].into_iter().chain(arguments);
        let Ok(cli) = Cli::try_parse_from(line) else { return Ok(()) };
        // The others connect, or write files.
        if let Command::Check(_) | Command::Config(_) | Command::Levels(_) = &cli.command
            && let Err(failure) = dispatch(&cli, &mut Vec::new())
        {
            let codes = [exit::OK, exit::FAILED, exit::USAGE, exit::CONFIG];
            prop_assert!(codes.contains(&failure.code), "{failure:?}");
        }
    }
}
