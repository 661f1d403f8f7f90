//! Completions and pages of the manual know every command, and a real shell completes with them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::Command as Process;

use clap::{Command, CommandFactory, ValueEnum};
use vfl_server::cli::completions;

#[path = "../examples/reference/mod.rs"]
#[allow(dead_code)]
mod reference;

use reference::binaries;

/// Every command below one, with the names above it; hidden ones are left out.
fn all_below(command: &Command, above: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = [above, &[sub.get_name().to_owned()]].concat();
        paths.extend(all_below(sub, &path));
        paths.push(path);
    }
    paths
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
    let siblings = [vfl_reproduce::cli::Cli::command(), vfl_load::cli::Cli::command()];
    for mut program in binaries().into_iter().chain(siblings) {
        program.build();
        check(&program);
    }
}

#[test]
fn every_shell_has_every_command() {
    for binary in binaries() {
        let paths = all_below(&binary, &[]);
        assert!(
            paths.len() >= 8 && paths.iter().any(|path| path == &["completions"]),
            "{}",
            binary.get_name()
        );
        for &shell in clap_complete::Shell::value_variants() {
            let script = String::from_utf8(completions(shell, binary.clone())).unwrap();
            for name in paths.iter().flatten() {
                assert!(script.contains(name.as_str()), "{} in {shell}: {name}", binary.get_name());
            }
        }
    }
}

/// Bash itself is asked what may follow the name of the binary, and what may follow the options of a command.
#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().unwrap();
    for binary in binaries() {
        let name = binary.get_name().to_owned();
        let script = folder.path().join(&name);
        std::fs::write(&script, completions(clap_complete::Shell::Bash, binary.clone())).unwrap();
        let bash = |command: &str| {
            let asked =
                Process::new("bash").args(["--norc", "-c", command, "bash"]).arg(&script).output();
            asked.inspect_err(|e| eprintln!("did not run: no bash ({e})")).ok()
        };
        let Some(parsed) = bash("bash -n \"$1\"") else { return };
        assert!(parsed.status.success(), "{name}: {}", String::from_utf8_lossy(&parsed.stderr));
        let completed = |words: &str| {
            // The function is the one that the script registers for the name of the binary.
            let ask = format!(
                "source \"$1\"; f=$(complete -p {name}); f=${{f#* -F }}; f=${{f%% *}}; COMP_WORDS=({name} {words} ''); \
                 COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); $f {name} '' x >/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            );
            let output = bash(&ask).unwrap();
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let offered = completed("");
        for path in all_below(&binary, &[]) {
            match path.as_slice() {
                [command] => {
                    assert!(offered.contains(command), "{name} offers {offered:?}, not {command}")
                }
                [command, below] => {
                    let offered = completed(command);
                    assert!(
                        offered.contains(below),
                        "{name} {command} offers {offered:?}, not {below}"
                    );
                }
                _ => {}
            }
        }
        assert!(completed("man").contains(&"--out".to_owned()), "{name} man");
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    for binary in binaries() {
        let name = binary.get_name().to_owned();
        let paths = all_below(&binary, &[]);
        clap_mangen::generate_to(binary, folder.path()).unwrap();
        for path in std::iter::once(Vec::new()).chain(paths) {
            let page = [std::slice::from_ref(&name), path.as_slice()].concat().join("-");
            let text = std::fs::read_to_string(folder.path().join(format!("{page}.1"))).unwrap();
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
                assert!(text.contains(section), "{page} has no {section}");
            }
        }
    }
    assert!(!folder.path().join("cloison-load-worker.1").exists());
}
