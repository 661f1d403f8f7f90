//! Inputs for the tests of all crates: the golden vectors of the project, and the public data sets.
//!
//! The golden vectors and four data sets are in the repository. A test that needs another set calls
//! [`data_set`] and returns if there is none; it then counts as passed, and reports on standard
//! error that it did not run.
//!
//! Every function here panics if its input is missing. They are called by tests and benchmarks
//! alone, and a test without its input has to fail.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use vfl_datasets::{DatasetName, DatasetSpec};

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Returns the directory of the golden vectors (`tests/golden`, described in its README).
#[must_use]
pub fn golden_dir() -> PathBuf {
    repository().join("tests/golden")
}

/// Reads a file of the golden vectors.
///
/// # Panics
/// If the file is missing or does not have this form; the message has its path.
#[must_use]
pub fn golden<T: DeserializeOwned>(name: &str) -> T {
    let path = golden_dir().join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("golden vectors {}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("golden vectors {}: {e}", path.display()))
}

/// Returns the golden cases whose name begins with `prefix`, sorted by name: the name and the text
/// of the file.
///
/// # Panics
/// If the directory cannot be read or holds no such case.
#[must_use]
pub fn golden_cases(prefix: &str) -> Vec<(String, String)> {
    let dir = golden_dir().join("cases");
    let fail = |e: std::io::Error| -> ! { panic!("golden cases {}: {e}", dir.display()) };
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| fail(e));
    let mut cases: Vec<(String, String)> = entries
        .map(|entry| entry.unwrap_or_else(|e| fail(e)).path())
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, path)| (name, std::fs::read_to_string(path).unwrap_or_else(|e| fail(e))))
        .collect();
    assert!(!cases.is_empty(), "no golden case begins with {prefix}");
    cases.sort();
    cases
}

/// Returns the directory of all public data sets: `CLOISON_DATA_DIR`, or else `datasets` in the
/// repository or `../shared/data` beside it, if one is there.
#[must_use]
pub fn data_dir() -> Option<PathBuf> {
    let near = || {
        ["datasets", "../shared/data"]
            .map(|dir| repository().join(dir))
            .into_iter()
            .find(|dir| dir.is_dir())
    };
    std::env::var_os("CLOISON_DATA_DIR").map(PathBuf::from).or_else(near)
}

/// Returns the specification of a public data set, or `None` if it is not available: then standard
/// error reports that `test` did not run.
///
/// # Panics
/// If a required set is missing: `CLOISON_DATA_DIR` is set, or `CI` is `true`.
#[must_use]
pub fn data_set(name: DatasetName, seed: u64, test: &str) -> Option<DatasetSpec> {
    if name == DatasetName::Synthetic || name.is_included() {
        return Some(DatasetSpec::new(name, None, seed));
    }
    let asked_for = std::env::var_os("CLOISON_DATA_DIR").is_some()
        || std::env::var("CI").as_deref() == Ok("true");
    match data_dir() {
        Some(dir) if asked_for || dir.join(name.as_str()).is_dir() => {
            return Some(DatasetSpec::new(name, Some(dir), seed));
        }
        None if asked_for => panic!("{test} needs data set {name}; set CLOISON_DATA_DIR"),
        _ => {}
    }
    not_run(
        test,
        &format!("data set {name} is not here; set CLOISON_DATA_DIR (scripts/fetch-datasets.sh)"),
    );
    None
}

/// Reports that a test did not run, bypassing the test harness, which would hide the message.
pub fn not_run(test: &str, reason: &str) {
    // A closed standard error cannot be handled.
    let _ = writeln!(std::io::stderr().lock(), "NOT RUN: {test}: {reason}");
}
