//! The directory of a party's state: a folder of one process, or a table that several processes
//! share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::state_file::{StateFile, StateFileError, make_state_dir};
use crate::state_table::StateTable;

/// A directory of state: a folder, or the names in a table with a common prefix.
#[derive(Debug, Clone)]
pub struct StateDir(Place);

#[derive(Debug, Clone)]
enum Place {
    Folder(PathBuf),
    /// The prefix is empty, or ends with a slash.
    Table {
        table: Arc<dyn StateTable>,
        prefix: String,
    },
}

impl From<&Path> for StateDir {
    fn from(folder: &Path) -> Self {
        Self(Place::Folder(folder.to_owned()))
    }
}

impl From<&PathBuf> for StateDir {
    fn from(folder: &PathBuf) -> Self {
        folder.as_path().into()
    }
}

impl From<&StateDir> for StateDir {
    fn from(dir: &StateDir) -> Self {
        dir.clone()
    }
}

impl From<Arc<dyn StateTable>> for StateDir {
    fn from(table: Arc<dyn StateTable>) -> Self {
        Self(Place::Table { table, prefix: String::new() })
    }
}

impl StateDir {
    /// Returns the folder; `None` if several processes share the state.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Place::Folder(path) => Some(path),
            Place::Table { .. } => None,
        }
    }

    /// Returns the path, or a description of the place in the database, for messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.0 {
            Place::Folder(path) => path.clone(),
            Place::Table { prefix, .. } if prefix.is_empty() => "the database of [state]".into(),
            Place::Table { prefix, .. } => format!("[state] {prefix}").into(),
        }
    }

    /// Returns a directory in this one. Creates nothing.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self(match &self.0 {
            Place::Folder(path) => Place::Folder(path.join(name)),
            Place::Table { table, prefix } => {
                Place::Table { table: table.clone(), prefix: format!("{prefix}{name}/") }
            }
        })
    }

    /// Returns a file in the directory; `fix` is that of [`StateFile::new`].
    #[must_use]
    pub fn file(&self, name: &str, fix: &'static str) -> StateFile {
        match &self.0 {
            Place::Folder(path) => StateFile::new(path.join(name), fix),
            Place::Table { table, prefix } => {
                StateFile::in_table(table.clone(), format!("{prefix}{name}"), fix)
            }
        }
    }

    /// Creates the folder if there is none. A table needs nothing.
    ///
    /// # Errors
    /// [`StateFileError::Io`] if the folder cannot be created.
    pub fn make(&self) -> Result<(), StateFileError> {
        self.folder().map_or(Ok(()), make_state_dir)
    }

    /// Returns the names of the entries, in order; none if the directory does not exist.
    ///
    /// # Errors
    /// [`StateFileError`] if the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StateFileError> {
        match &self.0 {
            Place::Folder(path) => {
                let io = |source| StateFileError::io("read", path, source);
                let entries = match std::fs::read_dir(path) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                    entries => entries.map_err(io)?,
                };
                let name = |entry: std::io::Result<std::fs::DirEntry>| {
                    Ok(entry.map_err(io)?.file_name().to_string_lossy().into_owned())
                };
                let mut names = entries.map(name).collect::<Result<Vec<_>, _>>()?;
                names.sort_unstable();
                Ok(names)
            }
            Place::Table { table, prefix } => {
                let away =
                    |source| StateFileError::Away { action: "list", name: prefix.clone(), source };
                let names = table.names(prefix).map_err(away)?;
                Ok(names
                    .iter()
                    .filter_map(|name| name.strip_prefix(prefix.as_str()))
                    .map(str::to_owned)
                    .collect())
            }
        }
    }
}
