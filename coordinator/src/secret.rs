//! The server's secret, which keyed noise is drawn from: made on first start, kept from then on.

use std::path::{Path, PathBuf};

use vfl_shared::unhex;

use crate::defense::NoiseSecret;
use crate::ledger::{LedgerConfig, LedgerError, secret_fingerprint};
use crate::secret_file;
pub use crate::secret_file::SecretFileError;

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
    File(#[from] SecretFileError),
    /// The environment holds something else than a secret.
    #[error("${VARIABLE}: {FORM}; set it to the secret, or remove the variable to use the file")]
    Malformed,
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
        return unhex(text.trim()).map(NoiseSecret::new).ok_or(SecretError::Malformed);
    }
    let path = state_dir.join("noise.secret");
    if let Some(secret) = secret_file::read(&path, FIX)? {
        return Ok(NoiseSecret::new(secret));
    }
    if let Some(ledger) = ledger
        && let Some(fingerprint) = secret_fingerprint(ledger).await?
    {
        return Err(SecretError::Lost { path, fingerprint });
    }
    Ok(NoiseSecret::new(secret_file::make(&path, FIX)?))
}
