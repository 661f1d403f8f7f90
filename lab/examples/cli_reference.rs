//! Writes the reference of all commands: `cargo run --example cli_reference > docs/cli.md`.

fn main() {
    print!("{}", vfl_lab::cli_reference::cli_reference());
}
