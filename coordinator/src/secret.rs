//! The server's secret, which keyed noise is drawn from: made on first start, kept from then on.

use std::path::{Path, PathBuf};

use vfl_core::unhex;

use crate::ledger::{LedgerConfig, LedgerError, secret_fingerprint};
use vfl_defense::NoiseSecret;
use vfl_state::secret_file;
pub use vfl_state::secret_file::SecretFileError;
use vfl_state::state_file::StateFile;

/// The environment variable that holds the secret instead of the file: 64 hexadecimal digits.
pub const VARIABLE: &str = "CLOISON_NOISE_SECRET";

/// The form of a secret, for messages.
const FORM: &str = "a noise secret is 64 hexadecimal digits";

/// Advice for a file that holds no secret.
const FIX: &str = "restore it from a backup";

/// Errors from reading or making the secret. None shows any of it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// An error of the file.
    #[error("the noise secret: {0}")]
    File(#[from] SecretFileError),
    /// The environment variable holds something else than a secret.
    #[error("${VARIABLE}: {FORM}; set it to the secret, or remove the variable to use the file")]
    Malformed,
    /// The file of the secret is gone, though the ledger was begun with it.
    #[error(
        "the noise secret {} is gone, though the ledger was begun with it (fingerprint {fingerprint}): with another one every \
         answer would move; restore it from a backup, or move the ledger away and begin a new one with \
         `coordinator serve --begin-new-ledger`", path.display()
    )]
    Lost {
        /// The path of the file.
        path: PathBuf,
        /// The fingerprint of the secret.
        fingerprint: String,
    },
    /// The ledger, which may know the secret, cannot be read.
    #[error("ledger: {0}")]
    Ledger(#[from] LedgerError),
}

/// Returns the secret of the environment if it is set, else that of `noise.secret` in the state
/// directory. If there is none, makes one, readable by the owner alone, unless the ledger knows
/// that there was one.
///
/// # Errors
/// [`SecretError`] when it cannot be read or written, is malformed, can be read by others, or is
/// lost.
pub async fn noise_secret(
    state_dir: &Path,
    ledger: Option<&LedgerConfig>,
) -> Result<NoiseSecret, SecretError> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return unhex(text.trim()).map(NoiseSecret::new).ok_or(SecretError::Malformed);
    }
    let path = state_dir.join("noise.secret");
    let file = StateFile::new(&path, FIX);
    if let Some(secret) = secret_file::read(&file)? {
        return Ok(NoiseSecret::new(secret));
    }
    if let Some(ledger) = ledger
        && let Some(fingerprint) = secret_fingerprint(ledger).await?
    {
        return Err(SecretError::Lost { path, fingerprint });
    }
    Ok(NoiseSecret::new(secret_file::read_or_make(&file)?))
}
