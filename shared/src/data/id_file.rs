//! Files of record ids, one a line.

use std::path::{Path, PathBuf};

use crate::types::{IdError, RecordIds};

/// Why a file of ids was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IdFileError {
    /// The disk.
    #[error("cannot read the ids in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What stands in it.
    #[error("{}: {source}", path.display())]
    Ids {
        /// The file.
        path: PathBuf,
        /// Why.
        source: IdError,
    },
    /// There is nothing in it.
    #[error("{} holds no record id", .0.display())]
    Empty(PathBuf),
}

/// Reads record ids, one a line. Empty lines are left out.
///
/// # Errors
/// [`IdFileError`] naming the file.
pub fn read_ids(path: &Path) -> Result<RecordIds, IdFileError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| IdFileError::Read { path: path(), source })?;
    let ids = RecordIds::new(text.lines().filter(|line| !line.is_empty()));
    let ids = ids.map_err(|source| IdFileError::Ids { path: path(), source })?;
    if ids.is_empty() { Err(IdFileError::Empty(path())) } else { Ok(ids) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_of_ids_has_one_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_ids(file.path()).map_err(|e| e.to_string())
        };
        assert_eq!(read("b\n\na\r\nc").unwrap(), RecordIds::new(["b", "a", "c"]).unwrap());
        let name = file.path().display().to_string();
        for (text, says) in [("a\nb\na\n", "position 2 stands in the batch twice"), ("\n", "no record id")] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(says) && refused.contains(&name), "{refused}");
        }
        assert!(read_ids(Path::new("/nowhere/x.ids")).unwrap_err().to_string().contains("/nowhere/x.ids"));
    }
}
