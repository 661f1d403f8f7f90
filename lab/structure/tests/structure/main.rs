//! Four rules of the source, checked on the source itself:
//!
//! 1. The files of a crate do not depend on each other in a circle.
//! 2. Types generated from `proto/` (paths through `pb`) are used at the edges only.
//! 3. Types are named by nouns, and doc comments say what a thing is or does (`words.rs`).
//! 4. Crates depend downwards alone, and those of the mathematics on no server.
//!
//! `cargo test -p vfl-structure` runs the check; `lists.rs` has the edges and the floors. Tests (`#[cfg(test)]`) may do as they like.

#![allow(clippy::unwrap_used)]

mod circles;
mod lists;
mod modules;
mod paths;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::circles::circles;
use crate::lists::{EDGES, FLOORS, FOREIGN, MATHEMATICS};
use crate::modules::Crate;

/// Returns the crates, by the directory of their `src`, from the ground up.
fn crates() -> impl Iterator<Item = &'static str> {
    FLOORS.iter().flat_map(|floor| floor.iter().copied())
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

#[test]
fn types_are_nouns_and_summaries_say_what_a_thing_is_or_does() {
    let root = root();
    let mut faults = Vec::new();
    // Fuzz targets are tests.
    for name in crates().filter(|name| *name != "fuzz/targets") {
        for file in words::sources(&root.join(name).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            let shown = file.strip_prefix(&root).unwrap().display();
            let found = words::faults(&text).into_iter();
            faults.extend(found.map(|(line, fault)| format!("  {shown}:{line}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn files_do_not_depend_on_each_other_in_a_circle() {
    let root = root();
    let mut faults = Vec::new();
    for name in crates() {
        let of_crate = Crate::read(&root, &Path::new(name).join("src/lib.rs"));
        for circle in circles(&paths::dependencies(&of_crate)) {
            let files: BTreeSet<&str> =
                circle.keys().map(|(from, _)| of_crate.file(*from)).collect();
            let lines = circle
                .iter()
                .map(|((from, to), path)| {
                    format!(
                        "    {} uses {} through `{path}`",
                        of_crate.file(*from),
                        of_crate.file(*to)
                    )
                })
                .collect::<Vec<_>>();
            faults.push(format!("  a circle of {} files:\n{}", files.len(), lines.join("\n")));
        }
    }
    assert!(
        faults.is_empty(),
        "circles among files; move what both need into a file of its own:\n{}",
        faults.join("\n")
    );
}

#[test]
fn generated_types_stay_at_the_edges() {
    let root = root();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for name in crates() {
        for entry in ["src/lib.rs", "src/main.rs"] {
            let entry = Path::new(name).join(entry);
            if root.join(&entry).exists() {
                uses.extend(
                    paths::through(&Crate::read(&root, &entry), "pb")
                        .into_iter()
                        .filter(|(_, count)| *count > 0),
                );
            }
        }
    }
    let mut faults = Vec::new();
    for edge in EDGES {
        if !uses.keys().any(|file| edge.holds(file)) {
            faults.push(format!(
                "  {} ({}) does not use `pb`: delete its entry in EDGES",
                edge.path, edge.why
            ));
        }
    }
    for (file, count) in &uses {
        if !EDGES.iter().any(|edge| edge.holds(file)) {
            faults.push(format!("  {file} uses `pb` in {count} paths and is no edge"));
        }
    }
    assert!(
        faults.is_empty(),
        "generated types away from the edges; convert them to domain types where a message arrives or leaves:\n{}",
        faults.join("\n")
    );
}

/// The names under `[dependencies]` in the manifest of a crate, by the crate's name; development and
/// build dependencies do not count.
fn dependencies(root: &Path, name: &str) -> (String, Vec<String>) {
    let text = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let package = manifest["package"]["name"].as_str().unwrap().to_owned();
    let named = manifest.get("dependencies").and_then(|d| d.as_table());
    (package, named.into_iter().flat_map(|d| d.keys().cloned()).collect())
}

#[test]
fn crates_depend_downwards() {
    let root = root();
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let workspace: toml::Table = workspace.parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members: BTreeSet<&str> = members.iter().map(|member| member.as_str().unwrap()).collect();
    let listed: BTreeSet<&str> = crates().chain(["lab/structure"]).collect();
    assert_eq!(members, listed, "members of the workspace, and crates of FLOORS");

    let mut below: BTreeSet<String> = BTreeSet::new();
    let mut faults = Vec::new();
    for floor in FLOORS {
        let floor: Vec<_> = floor.iter().map(|name| dependencies(&root, name)).collect();
        for (package, on) in &floor {
            let own = on.iter().filter(|name| name.starts_with("vfl-"));
            let up = own.filter(|name| !below.contains(*name));
            faults.extend(
                up.map(|name| format!("  {package} depends on {name}, which is not below it")),
            );
        }
        below.extend(floor.into_iter().map(|(package, _)| package));
    }
    for name in MATHEMATICS {
        let (package, on) = dependencies(&root, name);
        let foreign = on.iter().filter(|name| FOREIGN.contains(&name.as_str()));
        faults.extend(foreign.map(|name| format!("  {package} depends on {name}")));
        let own = on.iter().filter(|name| name.starts_with("vfl-"));
        let others =
            own.filter(|own| !MATHEMATICS.iter().any(|name| dependencies(&root, name).0 == **own));
        faults.extend(
            others.map(|name| format!("  {package} depends on {name}, which has a server")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The checks on a small crate with every case: what must be found, and what must not.
#[test]
fn the_check_itself() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sample = Crate::read(here, Path::new("tests/sample/lib.rs"));
    let found: Vec<BTreeSet<&str>> = circles(&paths::dependencies(&sample))
        .iter()
        .map(|circle| {
            circle.keys().map(|(from, _)| sample.file(*from).rsplit('/').next().unwrap()).collect()
        })
        .collect();
    let expected = [
        BTreeSet::from(["by_macro.rs", "by_macro_too.rs"]),
        BTreeSet::from(["child.rs", "parent.rs"]),
        BTreeSet::from(["one.rs", "three.rs", "two.rs"]),
    ];
    assert_eq!(found.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
    let uses = paths::through(&sample, "pb");
    let of = |file: &str| uses[&format!("tests/sample/{file}")];
    assert_eq!((of("one.rs"), of("two.rs"), of("lib.rs")), (2, 0, 0));
}
