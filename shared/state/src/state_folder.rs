//! A state folder that one process locks, and its migration into a database that several processes
//! share.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::files;
use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

/// The file that marks a folder whose state was moved: two records of the same spending would each
/// allow all of it.
const MOVED: &str = "moved";
/// The lock file of a folder.
const LOCK: &str = "lock";
/// The advice for files that are damaged during the migration, which does not check them.
const FIX: &str = "restore it from a backup";

/// Errors from locking or migrating a folder of state.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is in use: two processes would each count releases without those of the other.
    #[error(
        "state_dir {} is in use by another process; stop it, give each party a state_dir of its own, or have processes of one party \
         share a database ([state])", .0.display()
    )]
    InUse(PathBuf),
    /// The state was moved to a database.
    #[error(
        "the state in {} was moved to a database: name that in [state] in place of state_dir, or name another state_dir", .0.display()
    )]
    Moved(PathBuf),
    /// A file or the database failed.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The database holds other state.
    #[error(
        "the database holds `{0}`, which is not in the folder or is another one there: take an empty database, or a schema of its own"
    )]
    NotEmpty(String),
    /// The target is not a database.
    #[error("name a database in [state] in place of state_dir: the folder's state goes there")]
    NoDatabase,
}

/// Locks a folder of state, unless its state was moved.
///
/// # Errors
/// [`FolderError`] if the folder is in use, was moved, or cannot be locked.
pub fn hold(folder: &Path) -> Result<File, FolderError> {
    let lock = lock(folder)?;
    match folder.join(MOVED).exists() {
        true => Err(FolderError::Moved(folder.to_owned())),
        false => Ok(lock),
    }
}

/// Locks the state if it is in a folder. State in a database is shared by several processes.
///
/// # Errors
/// The errors of [`hold`].
pub fn hold_if_folder(state: &StateDir) -> Result<Option<File>, FolderError> {
    state.folder().map(hold).transpose()
}

fn lock(folder: &Path) -> Result<File, FolderError> {
    let path = folder.join(LOCK);
    match files::lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(FolderError::InUse(folder.to_owned())),
        Err(source) => Err(StateFileError::io("lock", path, source).into()),
    }
}

/// Copies the state of a folder into a database that holds none, and marks the folder, so that no
/// process serves from it again. An interrupted migration can be repeated. Returns the number of
/// files.
///
/// # Errors
/// [`FolderError`]; a database that holds anything else is left unchanged.
pub fn adopt(folder: &Path, into: &StateDir) -> Result<usize, FolderError> {
    if into.folder().is_some() {
        return Err(FolderError::NoDatabase);
    }
    let held = lock(folder)?;
    let mut names = Vec::new();
    list(folder, "", &mut names)?;
    // The table itself writes the owner's name.
    if let Some(other) =
        into.names()?.into_iter().find(|name| name != "owner" && !names.contains(name))
    {
        return Err(FolderError::NotEmpty(other));
    }
    // The existing content is checked before anything is written.
    for write in [false, true] {
        for name in &names {
            let file = StateFile::new(folder.join(name), FIX);
            let content = file.read()?.ok_or_else(|| file.damaged("it is gone"))?;
            let there = into.file(name, FIX);
            let same = match there.read()? {
                Some(found) => found == content,
                None => !write || there.swap(Revision::default(), &content)?.is_some(),
            };
            if !same {
                return Err(FolderError::NotEmpty(name.clone()));
            }
        }
    }
    StateFile::new(folder.join(MOVED), FIX)
        .write(b"the state of this folder is in the database of [state]\n")?;
    drop(held);
    Ok(names.len())
}

/// Lists the files below a folder, by their relative names.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), StateFileError> {
    let dir = folder.join(prefix);
    for name in StateDir::from(&dir).names()? {
        let path = format!("{prefix}{name}");
        if dir.join(&name).is_dir() {
            list(folder, &format!("{path}/"), names)?;
        } else if !(name.starts_with(".tmp-")
            || prefix.is_empty() && (name == LOCK || name == MOVED))
        {
            names.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_moved_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let held = hold(dir.path()).unwrap();
        assert!(matches!(hold(dir.path()), Err(FolderError::InUse(_))));
        assert!(matches!(adopt(dir.path(), &dir.path().into()), Err(FolderError::NoDatabase)));
        drop(held);
        std::fs::write(dir.path().join(MOVED), "").unwrap();
        let refused = hold(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("[state]") && refused.contains("moved"), "{refused}");
    }

    #[test]
    fn what_is_listed_are_the_files_of_state() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "lock",
            "evaluations.json",
            "shares/a.json",
            "shares/.tmp-1",
            "trainings/journal.jsonl",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let mut names = Vec::new();
        list(dir.path(), "", &mut names).unwrap();
        assert_eq!(names, ["evaluations.json", "shares/a.json", "trainings/journal.jsonl"]);
    }
}
