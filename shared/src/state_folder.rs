//! A folder of state that one process holds, and the way of its state into a database that several processes share.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::files;
use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

/// Says in a folder that its state is elsewhere: two records of what was spent would each allow it all.
const MOVED: &str = "moved";
/// The lock of a folder.
const LOCK: &str = "lock";
/// What to do about what is damaged on the way, which nothing looks at.
const FIX: &str = "restore it from a backup";

/// Why a folder of state cannot be held, or taken elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Two processes would each count what they tell without knowing of the other's.
    #[error(
        "state_dir {} is in use by another process; stop it, give each party a state_dir of its own, or have processes of one party \
         share a database ([state])", .0.display()
    )]
    InUse(PathBuf),
    /// The state is in a database by now.
    #[error(
        "the state in {} was moved to a database: name that in [state] in place of state_dir, or name another state_dir", .0.display()
    )]
    Moved(PathBuf),
    /// A file, or the database.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The database holds something else.
    #[error(
        "the database holds `{0}`, which is not in the folder or is another one there: take an empty database, or a schema of its own"
    )]
    NotEmpty(String),
    /// Not a database.
    #[error("name a database in [state] in place of state_dir: the folder's state goes there")]
    NoDatabase,
}

/// Takes the lock of a folder of state, whose state is still there.
///
/// # Errors
/// [`FolderError`].
pub fn hold(folder: &Path) -> Result<File, FolderError> {
    let lock = lock(folder)?;
    match folder.join(MOVED).exists() {
        true => Err(FolderError::Moved(folder.to_owned())),
        false => Ok(lock),
    }
}

/// The same where state is in a folder; what is in a database several processes have.
///
/// # Errors
/// [`FolderError`].
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

/// Copies the state of a folder into a database that holds none, and marks the folder, so that no process serves from it again. What
/// was interrupted may be done again. Gives the number of files.
///
/// # Errors
/// [`FolderError`]; a database that holds anything else is left as it is.
pub fn adopt(folder: &Path, into: &StateDir) -> Result<usize, FolderError> {
    if into.folder().is_some() {
        return Err(FolderError::NoDatabase);
    }
    let held = lock(folder)?;
    let mut names = Vec::new();
    list(folder, "", &mut names)?;
    // The owner's name is put there by the table itself.
    if let Some(other) = into.names()?.into_iter().find(|name| name != "owner" && !names.contains(name)) {
        return Err(FolderError::NotEmpty(other));
    }
    // All that is there is looked at before anything is written.
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
    StateFile::new(folder.join(MOVED), FIX).write(b"the state of this folder is in the database of [state]\n")?;
    drop(held);
    Ok(names.len())
}

/// The files below a folder, by their names from there.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), StateFileError> {
    let dir = folder.join(prefix);
    for name in StateDir::from(&dir).names()? {
        let path = format!("{prefix}{name}");
        if dir.join(&name).is_dir() {
            list(folder, &format!("{path}/"), names)?;
        } else if !(name.starts_with(".tmp-") || prefix.is_empty() && (name == LOCK || name == MOVED)) {
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
        for name in ["lock", "evaluations.json", "shares/a.json", "shares/.tmp-1", "trainings/journal.jsonl"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let mut names = Vec::new();
        list(dir.path(), "", &mut names).unwrap();
        assert_eq!(names, ["evaluations.json", "shares/a.json", "trainings/journal.jsonl"]);
    }
}
