//! State files: the data that a party needs after a restart. All of them are written whole or not
//! at all, are readable by the owner alone, and fail with one error, which names the file and the
//! fix.
//!
//! A "file" is one in a folder, or a name in a [`StateTable`] that several processes share
//! ([`StateDir`](crate::state_dir::StateDir) gives either).
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use vfl_state::state_file::StateFile;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Content {
//!     schema: u32,
//!     count: u64,
//! }
//!
//! let dir = tempfile::tempdir()?;
//! let file = StateFile::new(dir.path().join("count.json"), "restore it from a backup");
//! assert!(file.read_versioned::<Content>(1)?.is_none());
//! file.write_json(&Content { schema: 1, count: 7 })?;
//! assert_eq!(file.read_versioned::<Content>(1)?.map(|c| c.count), Some(7));
//!
//! std::fs::write(file.path(), "{\"schema\": 1, \"co")?;
//! let error = file.read_versioned::<Content>(1).err().map(|e| e.to_string()).unwrap_or_default();
//! assert!(error.contains("count.json is damaged") && error.ends_with("restore it from a backup"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vfl_core::json::json_error;

use crate::files::{make_private_dir, write_atomic};
use crate::state_table::{Revision, StateTable, StateTableError, TableReading};

/// Errors from using a state file. They contain no value of the file.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The disk fails.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action: read, write, make, lock or remove.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The database that holds the state cannot be reached.
    #[error("cannot {action} {name} in the database of [state]: {source}")]
    Away {
        /// The action: read, write, list or remove.
        action: &'static str,
        /// The name in the table.
        name: String,
        /// The error of the database.
        source: StateTableError,
    },
    /// The content of the file is damaged.
    #[error("{} is damaged: {reason}; {fix}", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// A description of the damage.
        reason: String,
        /// The advice for the operator.
        fix: &'static str,
    },
    /// Another version of the program wrote it.
    #[error(
        "{} has schema {found}, this program reads schema {expected}: use the version of the program that wrote the file, or \
         restore an older file from a backup", path.display()
    )]
    Schema {
        /// The path of the file.
        path: PathBuf,
        /// The schema in the file.
        found: u64,
        /// The schema that this program reads.
        expected: u32,
    },
}

impl StateFileError {
    /// Creates the error of a disk that fails to `action` (read, write, make, lock or remove) a
    /// file or directory.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// Returns true if the database that holds the state could not be reached, so that the caller
    /// may try again.
    #[must_use]
    pub fn away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    /// Returns true if the disk is full, or its quota is used up.
    #[must_use]
    pub fn disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// A state file at its place, which may not exist yet.
#[derive(Debug, Clone)]
pub struct StateFile {
    /// The path of the file, or a description of its place in the table.
    path: PathBuf,
    fix: &'static str,
    table: Option<Shared>,
}

/// A name in a table.
#[derive(Debug, Clone)]
struct Shared {
    table: Arc<dyn StateTable>,
    name: String,
}

/// The content and revision that are newer than those seen, or the first ones seen; the content is
/// `None` if there is none.
pub type NewerContent = (Revision, Option<Vec<u8>>);

impl StateFile {
    /// Creates a handle of the file at `path`. `fix` tells an operator what to do if it is damaged,
    /// in the imperative: it ends the error's message.
    pub fn new(path: impl Into<PathBuf>, fix: &'static str) -> Self {
        Self { path: path.into(), fix, table: None }
    }

    /// Creates a handle of this name in a table.
    pub fn in_table(
        table: Arc<dyn StateTable>,
        name: impl Into<String>,
        fix: &'static str,
    ) -> Self {
        let name = name.into();
        Self {
            path: PathBuf::from(format!("[state] {name}")),
            fix,
            table: Some(Shared { table, name }),
        }
    }

    /// Returns `true` if this is a file in a folder.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.table.is_none()
    }

    /// Returns the path, or a description of a name in a table.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the error of damaged content.
    pub fn damaged(&self, reason: impl std::fmt::Display) -> StateFileError {
        StateFileError::Damaged {
            path: self.path.clone(),
            reason: reason.to_string(),
            fix: self.fix,
        }
    }

    /// Returns a function that creates the error of a disk that fails to `action` the file.
    pub fn io(&self, action: &'static str) -> impl Fn(io::Error) -> StateFileError + use<'_> {
        move |source| StateFileError::io(action, &self.path, source)
    }

    /// Reads the content; `None` if there is no such file.
    ///
    /// # Errors
    /// [`StateFileError::Io`] or [`StateFileError::Away`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, StateFileError> {
        Ok(self.read_newer(None)?.and_then(|(_, content)| content))
    }

    /// Reads the content, unless it is still the one seen. A file in a folder belongs to one
    /// process, which knows what it wrote: the content seen there is always the newest.
    ///
    /// # Errors
    /// [`StateFileError::Io`] or [`StateFileError::Away`].
    pub fn read_newer(
        &self,
        seen: Option<Revision>,
    ) -> Result<Option<NewerContent>, StateFileError> {
        let Some(shared) = &self.table else {
            if seen.is_some() {
                return Ok(None);
            }
            return match std::fs::read(&self.path) {
                Ok(content) => Ok(Some((Revision::default(), Some(content)))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    Ok(Some((Revision::default(), None)))
                }
                Err(source) => Err(self.io("read")(source)),
            };
        };
        Ok(match shared.table.read(&shared.name, seen).map_err(shared.away("read"))? {
            TableReading::Same => None,
            TableReading::Absent if seen == Some(Revision::default()) => None,
            TableReading::Absent => Some((Revision::default(), None)),
            TableReading::Content(revision, content) => Some((revision, Some(content))),
        })
    }

    /// Reads the content as JSON; `None` if there is no such file.
    ///
    /// # Errors
    /// [`StateFileError::Io`], or [`StateFileError::Damaged`] if the JSON is not a `T`.
    pub fn read_json<T: DeserializeOwned>(&self) -> Result<Option<T>, StateFileError> {
        self.read()?.map(|content| self.parse(&content)).transpose()
    }

    /// Reads a JSON file whose number `schema` must be this one. The schema is checked first, so
    /// that a file of another version of the program is not reported as damaged.
    ///
    /// # Errors
    /// [`StateFileError`] if the file cannot be read, is damaged or has another schema.
    pub fn read_versioned<T: DeserializeOwned>(
        &self,
        schema: u32,
    ) -> Result<Option<T>, StateFileError> {
        Ok(self.read_one_of(&[schema])?.map(|(_, content)| content))
    }

    /// Reads a JSON file of one of several schemas; the first is the one that is written. Returns
    /// the schema found.
    ///
    /// # Errors
    /// [`StateFileError`] if the file cannot be read, is damaged or has another schema.
    pub fn read_one_of<T: DeserializeOwned>(
        &self,
        schemas: &[u32],
    ) -> Result<Option<(u32, T)>, StateFileError> {
        self.read()?.map(|content| self.parse_one_of(&content, schemas)).transpose()
    }

    /// Parses content that was read before, like [`StateFile::read_one_of`].
    ///
    /// # Errors
    /// [`StateFileError::Damaged`] or [`StateFileError::Schema`].
    pub fn parse_one_of<T: DeserializeOwned>(
        &self,
        content: &[u8],
        schemas: &[u32],
    ) -> Result<(u32, T), StateFileError> {
        let Head { schema: found } = self.parse(content)?;
        let Some(&schema) = schemas.iter().find(|schema| u64::from(**schema) == found) else {
            let expected = schemas.first().copied().unwrap_or_default();
            return Err(StateFileError::Schema { path: self.path.clone(), found, expected });
        };
        Ok((schema, self.parse(content)?))
    }

    /// Parses content of this file from JSON.
    ///
    /// # Errors
    /// [`StateFileError::Damaged`] if the JSON is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self, content: &[u8]) -> Result<T, StateFileError> {
        serde_json::from_slice(content).map_err(|e| self.damaged(json_error(&e)))
    }

    /// Replaces the content durably, and creates the directory if necessary.
    ///
    /// # Errors
    /// [`StateFileError::Io`]: the old content is then still in place. [`StateFileError::Away`]:
    /// the content is then unknown.
    pub fn write(&self, content: &[u8]) -> Result<(), StateFileError> {
        match &self.table {
            None => write_atomic(&self.path, content, true).map_err(self.io("write")),
            Some(shared) => shared.table.write(&shared.name, content).map_err(shared.away("write")),
        }
    }

    /// Replaces the content durably, if it is still the one seen, and returns its new revision.
    /// Returns `None` if another process has changed it: read it and decide again. A file in a
    /// folder, which has one process, is always replaced.
    ///
    /// # Errors
    /// The errors of [`StateFile::write`].
    pub fn swap(&self, seen: Revision, content: &[u8]) -> Result<Option<Revision>, StateFileError> {
        match &self.table {
            None => self.write(content).map(|()| Some(Revision::default())),
            Some(shared) => {
                shared.table.swap(&shared.name, seen, content).map_err(shared.away("write"))
            }
        }
    }

    /// Replaces the content by JSON, like [`StateFile::write`].
    ///
    /// # Errors
    /// [`StateFileError::Io`] if it cannot be serialised, and the errors of [`StateFile::write`].
    pub fn write_json<T: Serialize>(&self, content: &T) -> Result<(), StateFileError> {
        self.write(&self.json(content)?)
    }

    /// Serialises content as JSON.
    ///
    /// # Errors
    /// [`StateFileError::Io`] if it cannot be serialised.
    pub fn json<T: Serialize>(&self, content: &T) -> Result<Vec<u8>, StateFileError> {
        serde_json::to_vec(content).map_err(|e| self.io("write")(e.into()))
    }

    /// Removes the file, if it exists.
    ///
    /// # Errors
    /// [`StateFileError::Io`] or [`StateFileError::Away`].
    pub fn remove(&self) -> Result<(), StateFileError> {
        if let Some(shared) = &self.table {
            return shared.table.remove(&shared.name).map_err(shared.away("remove"));
        }
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove")(e)),
            _ => Ok(()),
        }
    }
}

impl Shared {
    fn away(&self, action: &'static str) -> impl Fn(StateTableError) -> StateFileError + use<'_> {
        move |source| StateFileError::Away { action, name: self.name.clone(), source }
    }
}

/// Creates a directory of state for its owner alone; an existing one stays unchanged.
///
/// # Errors
/// [`StateFileError::Io`] if the directory cannot be created.
pub fn make_state_dir(dir: &Path) -> Result<(), StateFileError> {
    make_private_dir(dir).map_err(|source| StateFileError::io("make", dir, source))
}

/// The number `schema` of an object; other fields are ignored.
#[derive(Deserialize)]
struct Head {
    schema: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Content {
        schema: u32,
        weights: Vec<f64>,
    }

    fn file() -> (tempfile::TempDir, StateFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path().join("below/weights.json"), "train again");
        (dir, file)
    }

    #[test]
    fn what_is_written_is_read_and_what_is_removed_is_not_there() {
        let (_dir, file) = file();
        let content = Content { schema: 2, weights: vec![0.1, -3.0] };
        assert_eq!(file.read_versioned::<Content>(2).unwrap(), None);
        file.write_json(&content).unwrap();
        assert_eq!(file.read_versioned(2).unwrap(), Some(content));
        assert_eq!(file.read_json::<Content>().unwrap().unwrap().weights.len(), 2);
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn errors_name_the_file_and_the_fix_and_no_value() {
        let (_dir, file) = file();
        let error = |text: &str| {
            file.write(text.as_bytes()).unwrap();
            file.read_versioned::<Content>(2).unwrap_err()
        };
        for text in [
            "",
            "{\"schema\": 2}",
            "{\"schema\": 2, \"weights\": [\"s3cret\"]}",
            "[0.125]",
            "\"0.125\"",
        ] {
            let error = error(text);
            let words = error.to_string();
            assert!(matches!(error, StateFileError::Damaged { .. }), "{error:?}");
            assert!(words.contains("weights.json") && words.ends_with("train again"), "{words}");
            assert!(!words.contains("s3cret") && !words.contains("0.125"), "{words}");
        }
        // The schema is looked at before fields that this program does not know.
        let newer = error("{\"weights\": {}, \"schema\": 3, \"new\": 1}");
        assert!(matches!(newer, StateFileError::Schema { found: 3, expected: 2, .. }), "{newer:?}");
        assert!(newer.to_string().contains("schema 3, this program reads schema 2"));
    }

    #[test]
    fn a_disk_that_refuses_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let below = StateFile::new(dir.path().join("file/below"), "train again");
        assert!(matches!(below.write(b""), Err(StateFileError::Io { action: "write", .. })));
        let directory = StateFile::new(dir.path(), "train again");
        assert!(matches!(directory.read(), Err(StateFileError::Io { action: "read", .. })));
        assert!(
            make_state_dir(&dir.path().join("file/below"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot make")
        );
    }
}
