//! The reference of all commands, generated from the command definitions of the binaries.

use clap::{Command, CommandFactory};

/// Returns the command lines of the four binaries, in the order of the reference.
pub(crate) fn binaries() -> [Command; 4] {
    [
        vfl_lab::cli::Cli::command(),
        vfl_coordinator::cli::Cli::command(),
        vfl_passive_party::cli::Cli::command(),
        vfl_active_party::cli::Cli::command(),
    ]
}

/// Returns the command line of a command that is a program of its own.
fn program(path: &str) -> Option<Command> {
    let of = match path {
        "cloison reproduce" => vfl_reproduce::cli::Cli::command(),
        "cloison load" => vfl_load::cli::Cli::command(),
        _ => return None,
    };
    Some(plain(of.disable_version_flag(true).term_width(100)))
}

/// Returns the reference as Markdown: `docs/cli.md`.
pub(crate) fn cli_reference() -> String {
    let mut text = String::from(
        "# Commands\n\nThe help texts of the four binaries. `cargo run -p vfl-reproduce --example cli_reference > docs/cli.md` writes this file; a test \
         fails where it is out of date.\n",
    );
    for binary in binaries() {
        // Values of environment variables would depend on the machine that writes the file.
        let binary = plain(binary.term_width(100));
        let name = binary.get_name().to_owned();
        append(&mut text, binary, &name, 2);
    }
    text
}

fn plain(command: Command) -> Command {
    command
        .mut_args(|arg| arg.hide_env_values(true))
        .mut_subcommands(|sub| plain(sub.term_width(100)))
}

fn append(text: &mut String, mut command: Command, path: &str, level: usize) {
    command = command.bin_name(path);
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!(
        "\n{} `{path}`\n\n```text\n{}\n```\n",
        "#".repeat(level),
        lines.join("\n").trim_end()
    ));
    let subcommands: Vec<Command> =
        command.get_subcommands().filter(|sub| sub.get_name() != "help").cloned().collect();
    for sub in subcommands.into_iter().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        let sub = program(&path).unwrap_or(sub);
        append(text, sub, &path, (level + 1).min(6));
    }
}
