//! Files of 32 secret bytes, as 64 hexadecimal digits: made at random when they are first needed,
//! readable by their owner alone.

use std::path::PathBuf;

use rand::Rng;
use vfl_core::{hex, unhex};

use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

/// The form of such a file, for messages.
const FORM: &str = "a secret is 64 hexadecimal digits";

/// Errors from reading or making a secret file. None shows any of the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// An error of the file.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The file can be read by others.
    #[error("{} can be read by others (mode {mode:o}); run `chmod 600` on it", path.display())]
    Readable {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
}

/// Reads the secret of a file; `None` if there is no such file.
///
/// # Errors
/// [`SecretFileError`] if it cannot be read, holds no secret, or can be read by others.
pub fn read(file: &StateFile) -> Result<Option<[u8; 32]>, SecretFileError> {
    let Some(content) = file.read()? else { return Ok(None) };
    let text = String::from_utf8_lossy(&content);
    #[cfg(unix)]
    if file.is_on_disk() {
        use std::os::unix::fs::PermissionsExt;
        let path = file.path();
        let mode = std::fs::metadata(path).map_err(file.io("read"))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretFileError::Readable { path: path.to_owned(), mode });
        }
    }
    Ok(Some(unhex(text.trim()).ok_or_else(|| file.damaged(FORM))?))
}

/// Returns the secret of a file, which is made if there is none. Of several processes that share
/// the file, the first makes it, and the others take that one.
///
/// # Errors
/// As [`read`]; [`SecretFileError::File`] if it cannot be written.
pub fn read_or_make(file: &StateFile) -> Result<[u8; 32], SecretFileError> {
    if let Some(secret) = read(file)? {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let text = hex(secret) + "\n";
    match file.swap(Revision::default(), text.as_bytes())? {
        Some(_) => Ok(secret),
        None => Ok(read(file)?.ok_or_else(|| file.damaged(FORM))?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("noise.secret");
        let file = StateFile::new(&path, "restore it");
        assert!(read(&file).unwrap().is_none());
        let first = read_or_make(&file).unwrap();
        let again = || read(&file).map(Option::unwrap);
        assert_eq!(again().unwrap(), first);
        assert_eq!(read_or_make(&file).unwrap(), first);
        let other = StateFile::new(dir.path().join("other"), "restore it");
        assert_ne!(read_or_make(&other).unwrap(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(again(), Err(SecretFileError::Readable { mode: 0o640, .. })));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for bad in ["", "ab", &"g".repeat(64), &"é".repeat(32), &"a".repeat(63)] {
            std::fs::write(&path, bad).unwrap();
            let error = again().unwrap_err();
            assert!(
                matches!(error, SecretFileError::File(StateFileError::Damaged { .. })),
                "{error}"
            );
        }
        std::fs::write(&path, format!("{}\n", "A1".repeat(32))).unwrap();
        assert_eq!(again().unwrap(), [0xa1; 32]);
    }
}
