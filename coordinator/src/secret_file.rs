//! Files of 32 secret bytes, as 64 hexadecimal digits: made at random when they are first needed,
//! readable by their owner alone.

use std::path::{Path, PathBuf};

use rand::Rng;
use vfl_core::{hex, unhex};
use vfl_state::state_file::{StateFile, StateFileError};

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

/// Reads the secret of a file; `None` if there is no such file. `fix` says what to do where the
/// file holds none.
pub(crate) fn read(path: &Path, fix: &'static str) -> Result<Option<[u8; 32]>, SecretFileError> {
    let file = StateFile::new(path, fix);
    let Some(content) = file.read()? else { return Ok(None) };
    let text = String::from_utf8_lossy(&content);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_err(file.io("read"))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretFileError::Readable { path: path.to_owned(), mode });
        }
    }
    Ok(Some(unhex(text.trim()).ok_or_else(|| file.damaged(FORM))?))
}

/// Writes a new secret and returns it.
pub(crate) fn make(path: &Path, fix: &'static str) -> Result<[u8; 32], SecretFileError> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let text = hex(secret) + "\n";
    StateFile::new(path, fix).write(text.as_bytes())?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("noise.secret");
        let fix = "restore it";
        assert!(read(&path, fix).unwrap().is_none());
        let first = make(&path, fix).unwrap();
        let again = || read(&path, fix).map(Option::unwrap);
        assert_eq!(again().unwrap(), first);
        assert_ne!(make(&dir.path().join("other"), fix).unwrap(), first);
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
