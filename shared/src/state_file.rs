//! Files of state: what a party must find again after a restart. All of them are written whole or not at all, readable by the
//! owner alone, and fail with one error, which names the file and the fix.
//!
//! A "file" is one in a folder, or a name in a [`StateTable`] that several processes share ([`StateDir`](crate::state_dir::StateDir)
//! gives either).
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use vfl_shared::state_file::StateFile;
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

use crate::files::{make_private_dir, write_atomic};
use crate::json::json_error;
use crate::state_table::{Reading, Revision, StateTable, StateTableError};

/// Why a file of state cannot be used. No value of the file is in it.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The disk refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// read, write, make, lock or remove.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database that holds the state cannot be asked.
    #[error("cannot {action} {name} in the database of [state]: {source}")]
    Away {
        /// read, write, list or remove.
        action: &'static str,
        /// The name there.
        name: String,
        /// Why.
        source: StateTableError,
    },
    /// The file is not what was written.
    #[error("{} is damaged: {reason}; {fix}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What an operator does about it.
        fix: &'static str,
    },
    /// Another version of the program wrote it.
    #[error(
        "{} has schema {found}, this program reads schema {expected}: use the version of the program that wrote the file, or \
         restore an older file from a backup", path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema in the file.
        found: u64,
        /// The schema that is read.
        expected: u32,
    },
}

impl StateFileError {
    /// The disk refuses to `action` (read, write, make, lock or remove) a file or directory.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// Whether the database that holds the state could not be asked: what needs it may be asked for again.
    #[must_use]
    pub fn away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    /// Whether no space is left on the disk, or no more of it may be used.
    #[must_use]
    pub fn disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// A file of state at its place, there or not.
#[derive(Debug, Clone)]
pub struct StateFile {
    /// Where it is, or what it is called where it is none.
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

/// A content that is newer than the one seen, or the first one seen; `None`: there is none.
pub type Newer = (Revision, Option<Vec<u8>>);

impl StateFile {
    /// The file at `path`. `fix` is what an operator does if it is damaged, in the imperative: it ends the error's message.
    pub fn new(path: impl Into<PathBuf>, fix: &'static str) -> Self {
        Self { path: path.into(), fix, table: None }
    }

    /// What has this name in a table.
    pub fn in_table(table: Arc<dyn StateTable>, name: impl Into<String>, fix: &'static str) -> Self {
        let name = name.into();
        Self { path: PathBuf::from(format!("[state] {name}")), fix, table: Some(Shared { table, name }) }
    }

    /// Its place; of a name in a table, words for it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// That its content is not what was written.
    pub fn damaged(&self, reason: impl std::fmt::Display) -> StateFileError {
        StateFileError::Damaged { path: self.path.clone(), reason: reason.to_string(), fix: self.fix }
    }

    /// That the disk refuses to `action` it.
    pub fn io(&self, action: &'static str) -> impl Fn(io::Error) -> StateFileError + use<'_> {
        move |source| StateFileError::io(action, &self.path, source)
    }

    /// Its bytes; `None` if there is no such file.
    ///
    /// # Errors
    /// [`StateFileError::Io`], [`StateFileError::Away`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, StateFileError> {
        Ok(self.read_newer(None)?.and_then(|(_, content)| content))
    }

    /// Its bytes, unless they are still those that were seen. A file in a folder has one process, which knows what it wrote: what was
    /// seen there is the newest.
    ///
    /// # Errors
    /// [`StateFileError::Io`], [`StateFileError::Away`].
    pub fn read_newer(&self, seen: Option<Revision>) -> Result<Option<Newer>, StateFileError> {
        let Some(shared) = &self.table else {
            if seen.is_some() {
                return Ok(None);
            }
            return match std::fs::read(&self.path) {
                Ok(content) => Ok(Some((Revision::default(), Some(content)))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some((Revision::default(), None))),
                Err(source) => Err(self.io("read")(source)),
            };
        };
        Ok(match shared.table.read(&shared.name, seen).map_err(shared.away("read"))? {
            Reading::Same => None,
            Reading::Absent if seen == Some(Revision::default()) => None,
            Reading::Absent => Some((Revision::default(), None)),
            Reading::Content(revision, content) => Some((revision, Some(content))),
        })
    }

    /// Its content from JSON; `None` if there is no such file.
    ///
    /// # Errors
    /// [`StateFileError::Io`], or [`StateFileError::Damaged`] if the JSON is not a `T`.
    pub fn read_json<T: DeserializeOwned>(&self) -> Result<Option<T>, StateFileError> {
        self.read()?.map(|content| self.parse(&content)).transpose()
    }

    /// The same of a file with a number `schema`, which must be this one: looked at first, so that a file of another version
    /// of the program is not taken for damage.
    ///
    /// # Errors
    /// [`StateFileError`].
    pub fn read_versioned<T: DeserializeOwned>(&self, schema: u32) -> Result<Option<T>, StateFileError> {
        Ok(self.read_one_of(&[schema])?.map(|(_, content)| content))
    }

    /// The same where files of older schemas are read too; the first is the one that is written. Gives the one found.
    ///
    /// # Errors
    /// [`StateFileError`].
    pub fn read_one_of<T: DeserializeOwned>(&self, schemas: &[u32]) -> Result<Option<(u32, T)>, StateFileError> {
        self.read()?.map(|content| self.parse_one_of(&content, schemas)).transpose()
    }

    /// The same of content that was read.
    ///
    /// # Errors
    /// [`StateFileError::Damaged`], [`StateFileError::Schema`].
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

    /// Content of this file, from JSON.
    ///
    /// # Errors
    /// [`StateFileError::Damaged`] if the JSON is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self, content: &[u8]) -> Result<T, StateFileError> {
        serde_json::from_slice(content).map_err(|e| self.damaged(json_error(&e)))
    }

    /// Replaces it, durably, and makes its directory if need be.
    ///
    /// # Errors
    /// [`StateFileError::Io`]; what was there is then still there. [`StateFileError::Away`]; what is there then is not known.
    pub fn write(&self, content: &[u8]) -> Result<(), StateFileError> {
        match &self.table {
            None => write_atomic(&self.path, content, true).map_err(self.io("write")),
            Some(shared) => shared.table.write(&shared.name, content).map_err(shared.away("write")),
        }
    }

    /// Replaces it, durably, if it is still what was seen, and gives the revision it has now; `None`: another process has changed it,
    /// so read it and decide again. A file in a folder, which has one process, is replaced.
    ///
    /// # Errors
    /// As [`StateFile::write`].
    pub fn swap(&self, seen: Revision, content: &[u8]) -> Result<Option<Revision>, StateFileError> {
        match &self.table {
            None => self.write(content).map(|()| Some(Revision::default())),
            Some(shared) => shared.table.swap(&shared.name, seen, content).map_err(shared.away("write")),
        }
    }

    /// The same with JSON.
    ///
    /// # Errors
    /// [`StateFileError::Io`]; what was there is then still there.
    pub fn write_json<T: Serialize>(&self, content: &T) -> Result<(), StateFileError> {
        self.write(&self.json(content)?)
    }

    /// The bytes of content in JSON.
    ///
    /// # Errors
    /// [`StateFileError::Io`] for what has no JSON.
    pub fn json<T: Serialize>(&self, content: &T) -> Result<Vec<u8>, StateFileError> {
        serde_json::to_vec(content).map_err(|e| self.io("write")(e.into()))
    }

    /// Removes it; nothing to do if it is not there.
    ///
    /// # Errors
    /// [`StateFileError::Io`].
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

/// Makes a directory of state, for its owner alone; one that is there stays as it is.
///
/// # Errors
/// [`StateFileError::Io`].
pub fn make_state_dir(dir: &Path) -> Result<(), StateFileError> {
    make_private_dir(dir).map_err(|source| StateFileError::io("make", dir, source))
}

/// The number `schema` of an object, whatever else is in it.
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
        for text in ["", "{\"schema\": 2}", "{\"schema\": 2, \"weights\": [\"s3cret\"]}", "[0.125]", "\"0.125\""] {
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
        assert!(make_state_dir(&dir.path().join("file/below")).unwrap_err().to_string().starts_with("cannot make"));
    }
}
