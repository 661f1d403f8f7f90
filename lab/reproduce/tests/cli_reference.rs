//! The reference of the commands in `docs/` is that of the binaries.

#[path = "../examples/reference/mod.rs"]
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
