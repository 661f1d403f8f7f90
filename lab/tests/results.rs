//! The documents have a marker for every table of results, and no other; nothing is run.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../examples/results/tables/mod.rs"]
#[allow(dead_code)]
mod tables;

use tables::{TABLES, blocks};

fn read(document: &str) -> String {
    std::fs::read_to_string(format!("{}/../{document}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_table_has_a_marker_and_every_marker_a_table() {
    for document in ["README.md", "docs/results.md"] {
        let known: Vec<&str> =
            TABLES.iter().filter(|t| t.document == document).map(|t| t.name).collect();
        assert_eq!(blocks::names(&read(document)).unwrap(), known, "{document}");
    }
    assert!(TABLES.iter().all(|t| ["README.md", "docs/results.md"].contains(&t.document)));
}

#[test]
fn a_document_names_a_command_of_each_table() {
    for table in TABLES {
        let text = read(table.document);
        let named =
            table.commands().into_iter().any(|command| text.lines().any(|line| line == command));
        assert!(named, "{} has no command of the table {}", table.document, table.name);
    }
}
