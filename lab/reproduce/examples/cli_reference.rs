//! Writes the reference of all commands: `cargo run -p vfl-reproduce --example cli_reference > docs/cli.md`.

mod reference;

fn main() {
    print!("{}", reference::cli_reference());
}
