//! The page of errata: the cards that it names exist and are made by the commands beside them, and whatever cites an item finds it there.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vfl_papers::cards::shelf;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/errata.md")).unwrap()
}

/// The names of the items, `R6` and so on.
fn items(page: &str) -> BTreeSet<String> {
    let heads = page.lines().filter_map(|line| line.strip_prefix("### ")?.split_once('.'));
    heads.map(|(name, _)| name.to_owned()).collect()
}

/// What stands between single backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The bullets that name cards, each with the lines that belong to it.
fn bullets(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line {
            _ if line.starts_with("- Card") => {
                found.push(line.to_owned());
                open = true;
            }
            _ if open && line.starts_with("  ") => found.last_mut().unwrap().push_str(&line[1..]),
            _ => open = false,
        }
    }
    found
}

#[test]
fn cards_are_named_with_the_commands_that_make_them() {
    let cards = shelf().unwrap().cards;
    let page = page();
    let bullets = bullets(&page);
    assert!(bullets.len() >= 15, "{bullets:?}");
    assert_eq!(bullets.len(), page.matches("\n- Card").count());
    for bullet in bullets {
        let commands: BTreeSet<String> = quoted(&bullet)
            .filter(|text| text.starts_with("cloison "))
            .map(str::to_owned)
            .collect();
        let mut wanted = BTreeSet::new();
        for name in quoted(&bullet).filter(|text| !text.starts_with("cloison ")) {
            let card = cards
                .iter()
                .find(|card| card.id == name)
                .unwrap_or_else(|| panic!("no card {name}: {bullet}"));
            let (figure, dataset) =
                card.computed().unwrap().unwrap_or_else(|| panic!("{name} is not computed"));
            wanted.insert(format!("cloison reproduce {} --dataset {dataset}", figure.as_str()));
        }
        assert!(!wanted.is_empty() && commands == wanted, "{bullet}: {wanted:?}");
    }
}

/// Items that a text cites: `errata R6`, `errata R6 and J4`, `errata R6, J4`; what is not an item's name is given as it stands.
fn cited(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("errata ") {
        let mut rest = &text[at + "errata ".len()..];
        loop {
            let token: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            let mut letters = token.chars();
            let (first, others) = (letters.next(), letters.as_str());
            let item = first.is_some_and(|c| c.is_ascii_uppercase())
                && !others.is_empty()
                && others.chars().all(|c| c.is_ascii_digit());
            let numbered = first.is_some_and(|c| c.is_ascii_digit());
            if !item && !numbered {
                break;
            }
            rest = &rest[token.len()..];
            found.push(token);
            let Some(next) =
                [", ", " and ", " to "].iter().find_map(|between| rest.strip_prefix(between))
            else {
                break;
            };
            rest = next;
        }
    }
    found
}

#[test]
fn citations_are_read_as_they_are_written() {
    let text = |cites: &str| format!("as printed ({} {cites}); done", ["err", "ata"].concat());
    assert_eq!(cited(&text("R6")), ["R6"]);
    assert_eq!(cited(&text("R6, J4 and V10")), ["R6", "J4", "V10"]);
    assert_eq!(cited(&text("4b")), ["4b"], "a name of another list is told, and is no item");
    assert!(cited(&text("of the papers")).is_empty() && cited(&text("R")).is_empty());
}

/// Source, cards and documents under a folder.
fn texts(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "results", "data", "corpus"].contains(&&*name)
            {
                texts(&path, into);
            }
        } else if ["rs", "toml", "md", "py", "sh", "proto"]
            .iter()
            .any(|e| path.extension().is_some_and(|x| x == *e))
        {
            into.push(path);
        }
    }
}

#[test]
fn whatever_is_cited_is_on_the_page() {
    let items = items(&page());
    assert!(["R1", "J4", "V11", "P9"].iter().all(|item| items.contains(*item)), "{items:?}");
    let mut files = Vec::new();
    texts(&root(), &mut files);
    let (mut citations, mut missing) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for item in cited(&text) {
            citations += 1;
            if !items.contains(&item) {
                missing.push(format!("{}: errata {item}", file.display()));
            }
        }
    }
    assert!(citations > 100, "{citations} citations");
    assert!(missing.is_empty(), "{missing:#?}");
}
