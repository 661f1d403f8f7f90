//! The reference of the commands in `docs/` is that of the binaries.

use clap::{Command, CommandFactory};

#[path = "../examples/reference/mod.rs"]
#[allow(dead_code)]
mod reference;

#[test]
fn the_reference_is_up_to_date() {
    let written =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md"))
            .expect("docs/cli.md");
    let now = reference::cli_reference();
    if written != now {
        let at = written.lines().zip(now.lines()).position(|(a, b)| a != b).unwrap_or(0);
        panic!(
            "docs/cli.md is out of date from line {}: {:?} is now {:?}; run: cargo run -p vfl-reproduce --example cli_reference > docs/cli.md",
            at + 1,
            written.lines().nth(at),
            now.lines().nth(at)
        );
    }
}

/// A paragraph is one line of the text, which is broken where the screen ends. One that is broken already would be broken twice.
#[test]
fn paragraphs_of_help_are_not_broken_beforehand() {
    fn check(command: &Command) {
        for text in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten()
        {
            let text = text.to_string();
            let lines: Vec<&str> = text.lines().collect();
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for pair in lines.windows(2) {
                let broken = prose(pair[0]) && prose(pair[1]) && !pair[0].ends_with(':');
                assert!(
                    !broken,
                    "{}: the line after `{}` goes on with it",
                    command.get_name(),
                    pair[0]
                );
            }
        }
        command.get_subcommands().for_each(check);
    }
    for mut program in [vfl_reproduce::cli::Cli::command(), vfl_load::cli::Cli::command()] {
        program.build();
        check(&program);
    }
}
