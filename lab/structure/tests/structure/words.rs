//! The language of the source: the names of types, and the first words of doc comments.

use std::path::{Path, PathBuf};

/// Words that a doc summary does not begin with: it says what a thing is or does.
const RELATIVE: [&str; 9] =
    ["What", "How", "Whether", "Where", "Why", "Which", "Who", "Of", "That"];

/// The widest line of a comment, in characters. A row of a table cannot be broken.
const COLUMNS: usize = 100;

/// Participles of irregular verbs.
const IRREGULAR: &[&str] = &[
    "Asked", "Begun", "Built", "Came", "Chosen", "Done", "Drawn", "Found", "Given", "Gone", "Had",
    "Held", "Kept", "Known", "Laid", "Left", "Lent", "Made", "Met", "Put", "Ran", "Read", "Said",
    "Seen", "Sent", "Set", "Shown", "Spent", "Taken", "Told", "Written",
];

/// Types that a participle names well, and why.
const NAMED_BY_PARTICIPLES: &[(&str, &str)] = &[
    ("Authorized", "tower's form: the service that the layer `Authorize` makes"),
    ("Bounded", "tower's form: the service that the layer `UploadLimits` makes"),
    ("Encoded", "the encoding of a group element, as its authors call it"),
    ("Generated", "the form of the time at which a report was generated, as report.json has it"),
    ("Parametrised", "the trait of models that have parameters"),
    ("Published", "values that a paper published: `[[published]]` of a card"),
    ("Refused", "an outcome of an attack in report.json"),
    ("Sealed", "the stream that `seal` makes"),
    ("Unpacked", "the inverse of a packed message"),
];

fn is_participle(name: &str) -> bool {
    let regular = name.ends_with("ed")
        && name.chars().skip(1).all(|c| c.is_ascii_lowercase())
        && !["Seed", "Feed", "Speed", "Need"].contains(&name);
    regular || IRREGULAR.contains(&name)
}

/// Returns the name of the public type that a line declares, if it does.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Returns the text of a line of documentation, if it is one.
fn documentation(line: &str) -> Option<&str> {
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
}

/// Returns the faults of a text, each with the number of its line.
pub(crate) fn faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    let (mut in_block, mut in_example) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim();
        if let Some(words) = documentation(code) {
            let words = words.trim();
            let first = words.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if !in_block && RELATIVE.contains(&first) {
                faults.push((number + 1, format!("a summary begins with {first:?}")));
            }
            in_block = true;
            in_example ^= words.starts_with("```");
        } else {
            (in_block, in_example) = (false, false);
        }
        let is_row = documentation(code).is_some_and(|words| words.trim().starts_with('|'));
        if code.starts_with("//") && !is_row && !in_example && line.chars().count() > COLUMNS {
            faults.push((number + 1, format!("a comment of more than {COLUMNS} columns")));
        }
        let allowed = |name: &str| NAMED_BY_PARTICIPLES.iter().any(|(known, _)| *known == name);
        if let Some(name) = public_type(code).filter(|name| is_participle(name) && !allowed(name)) {
            faults.push((number + 1, format!("`{name}` is named by a participle: name a thing")));
        }
    }
    faults
}

/// Returns the source files below a directory, without those of tests.
pub(crate) fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn faults_are_found_and_good_words_are_not() {
    let bad = "//! What it is.\n\n/// Of a table.\npub(crate) struct Told;\npub enum Checked {}\n";
    let lines: Vec<usize> = faults(bad).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 3, 4, 5]);
    assert_eq!(faults(&format!("    // {}\n", "x".repeat(COLUMNS))).len(), 1);
    let good = "//! A table.\n//! What follows is the rest of it.\n/// Returns it.\npub struct Sealed;\n\
                struct Told;\npub fn ended() {}\n/// Whatever.\npub type Seed = u64;\n";
    assert_eq!(faults(good), []);
    let row = format!("/// | {} |\n/// ```\n/// {}\n/// ```\n", "x".repeat(99), "x".repeat(99));
    assert_eq!(faults(&row), []);
}
