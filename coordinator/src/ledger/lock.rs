//! The lock that keeps a second coordinator off a SQLite ledger: `PATH.lock`, held by the operating
//! system for as long as the process lives, so that a killed coordinator leaves none behind.
//! (PostgreSQL has locks of its own.)

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::LedgerError;
use super::connection::private;

/// Takes the lock, which is released when the file is dropped.
pub(crate) fn lock(ledger: &Path) -> Result<File, LedgerError> {
    // By the canonical name: a second path to the same file must lead to the same lock.
    let mut name = std::fs::canonicalize(ledger).map_err(|e| cannot(ledger, &e))?.into_os_string();
    name.push(".lock");
    let name = Path::new(&name);
    let mut options = OpenOptions::new();
    let file = private(options.create(true).truncate(false).write(true))
        .open(name)
        .map_err(|e| cannot(name, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LedgerError::Locked),
        Err(TryLockError::Error(e)) => Err(cannot(name, &e)),
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> LedgerError {
    LedgerError::Storage(format!("cannot lock {}: {error}", path.display()))
}
