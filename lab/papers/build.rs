//! The cards of `lab/papers/cards` are compiled in, and no source names them one by one: a card that
//! changes has the crate built again.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=cards");
}
