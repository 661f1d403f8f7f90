//! The server's secret, which keyed noise is drawn from: made on first start, kept from then on.

use std::path::{Path, PathBuf};

use rand::Rng;
use vfl_shared::hex;
use vfl_shared::state_file::{StateFile, StateFileError};

use crate::defense::NoiseSecret;
use crate::ledger::{LedgerConfig, LedgerError, secret_fingerprint};

/// The environment variable that holds the secret instead of the file: 64 hexadecimal digits.
pub const VARIABLE: &str = "CLOISON_NOISE_SECRET";

/// What a secret looks like.
const FORM: &str = "a noise secret is 64 hexadecimal digits";

/// What to do about a file that holds none.
const FIX: &str = "restore it from a backup";

/// Why there is no secret. Never shows any of it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file.
    #[error("the noise secret: {0}")]
    File(#[from] StateFileError),
    /// The environment holds something else than a secret.
    #[error("${VARIABLE}: {FORM}; set it to the secret, or remove the variable to use the file")]
    Malformed,
    /// Others may read it.
    #[error("the noise secret {} can be read by others (mode {mode:o}); run `chmod 600` on it", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It was there once.
    #[error(
        "the noise secret {} is gone, though the ledger was begun with it (fingerprint {fingerprint}): with another one every \
         answer would move; restore it from a backup, or move the ledger away and begin a new one with \
         `coordinator serve --begin-new-ledger`", path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// Fingerprint of the secret.
        fingerprint: String,
    },
    /// The ledger, which may know the secret, cannot be read.
    #[error("ledger: {0}")]
    Ledger(#[from] LedgerError),
}

/// The secret of the environment if it is set, else that of `noise.secret` in the state directory. If there is none, one is
/// made, readable by the owner alone, unless the ledger knows that there was one.
///
/// # Errors
/// [`SecretError`] when it cannot be read or written, is malformed, can be read by others, or is lost.
pub async fn noise_secret(state_dir: &Path, ledger: Option<&LedgerConfig>) -> Result<NoiseSecret, SecretError> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return parse(text.trim()).ok_or(SecretError::Malformed);
    }
    let path = state_dir.join("noise.secret");
    if let Some(secret) = read(&path)? {
        return Ok(secret);
    }
    if let Some(ledger) = ledger
        && let Some(fingerprint) = secret_fingerprint(ledger).await?
    {
        return Err(SecretError::Lost { path, fingerprint });
    }
    make(&path)
}

/// The secret of a file; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<NoiseSecret>, SecretError> {
    let file = StateFile::new(path, FIX);
    let Some(content) = file.read()? else { return Ok(None) };
    let text = String::from_utf8_lossy(&content);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_err(file.io("read"))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::Readable { path: path.to_owned(), mode });
        }
    }
    let secret = parse(text.trim()).ok_or_else(|| file.damaged(FORM))?;
    Ok(Some(secret))
}

fn make(path: &Path) -> Result<NoiseSecret, SecretError> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let text = hex(secret) + "\n";
    StateFile::new(path, FIX).write(text.as_bytes())?;
    Ok(NoiseSecret::new(secret))
}

fn parse(text: &str) -> Option<NoiseSecret> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut secret = [0; 32];
    for (byte, at) in secret.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(NoiseSecret::new(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("noise.secret");
        assert!(read(&path).unwrap().is_none());
        let first = make(&path).unwrap().fingerprint();
        let again = || read(&path).map(|s| s.unwrap().fingerprint());
        assert_eq!(again().unwrap(), first);
        assert_ne!(make(&dir.path().join("other")).unwrap().fingerprint(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(again(), Err(SecretError::Readable { mode: 0o640, .. })));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for bad in ["", "ab", &"g".repeat(64), &"é".repeat(32), &"a".repeat(63)] {
            std::fs::write(&path, bad).unwrap();
            let error = again().unwrap_err();
            assert!(matches!(error, SecretError::File(StateFileError::Damaged { .. })), "{error}");
        }
        std::fs::write(&path, format!("{}\n", "A1".repeat(32))).unwrap();
        assert_eq!(again().unwrap(), NoiseSecret::new([0xa1; 32]).fingerprint());
    }
}
