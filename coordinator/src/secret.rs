//! The server's secret, which keyed noise is drawn from: made on first start, kept from then on.

use std::io;
use std::path::{Path, PathBuf};

use rand::Rng;
use vfl_shared::files::write_atomic;
use vfl_shared::hex;

use crate::defense::NoiseSecret;

/// The environment variable that holds the secret instead of the file: 64 hexadecimal digits.
pub const VARIABLE: &str = "CLOISON_NOISE_SECRET";

/// Why there is no secret. Never shows any of it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The disk refuses.
    #[error("cannot {action} the noise secret {}: {source}", path.display())]
    Io {
        /// read or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else than a secret.
    #[error("{place} does not hold a noise secret: 64 hexadecimal digits; restore it from a backup")]
    Malformed {
        /// A file, or the environment.
        place: String,
    },
    /// Others may read it.
    #[error("the noise secret {} can be read by others (mode {mode:o}); run `chmod 600` on it", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The secret of the environment if it is set, else that of `noise.secret` in the state directory, which is made, readable by
/// the owner alone, if it is missing.
///
/// # Errors
/// [`SecretError`] when it cannot be read or written, is malformed, or can be read by others.
pub fn noise_secret(state_dir: &Path) -> Result<NoiseSecret, SecretError> {
    match std::env::var(VARIABLE) {
        Ok(text) => parse(text.trim()).ok_or_else(|| SecretError::Malformed { place: format!("${VARIABLE}") }),
        Err(_) => from_file(&state_dir.join("noise.secret")),
    }
}

fn from_file(path: &Path) -> Result<NoiseSecret, SecretError> {
    let io = |action, source| SecretError::Io { action, path: path.to_owned(), source };
    match std::fs::read_to_string(path) {
        Ok(text) => {
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = std::fs::metadata(path).map_err(|e| io("read", e))?.permissions().mode() & 0o777;
                if mode & 0o077 != 0 {
                    return Err(SecretError::Readable { path: path.to_owned(), mode });
                }
            }
            parse(text.trim()).ok_or_else(|| SecretError::Malformed { place: path.display().to_string() })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut secret = [0; 32];
            rand::rng().fill_bytes(&mut secret);
            let text = hex(secret) + "\n";
            write_atomic(path, text.as_bytes(), true).map_err(|e| io("write", e))?;
            Ok(NoiseSecret::new(secret))
        }
        Err(e) => Err(io("read", e)),
    }
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
        let first = from_file(&path).unwrap().fingerprint();
        assert_eq!(from_file(&path).unwrap().fingerprint(), first);
        assert_ne!(from_file(&dir.path().join("other")).unwrap().fingerprint(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(from_file(&path), Err(SecretError::Readable { mode: 0o640, .. })));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for bad in ["", "ab", &"g".repeat(64), &"é".repeat(32), &"a".repeat(63)] {
            std::fs::write(&path, bad).unwrap();
            let error = from_file(&path).unwrap_err();
            assert!(matches!(error, SecretError::Malformed { .. }), "{error}");
        }
        std::fs::write(&path, format!("{}\n", "A1".repeat(32))).unwrap();
        assert_eq!(from_file(&path).unwrap().fingerprint(), NoiseSecret::new([0xa1; 32]).fingerprint());
    }
}
