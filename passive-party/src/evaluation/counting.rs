//! The record of all scorings, which is changed on disk before any answer leaves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::{StateFile, StateFileError};

use super::MAX_CANDIDATES;
use super::record::{self, EvaluationError, LoadedRecord, Record};
use super::scoring::MAX_KEPT;
use crate::config::AuditPolicy;

/// The memory of open scorings: the number of pieces and the bytes of each, 256 MiB in all.
const PIECES: u32 = 4096;
const PIECE: usize = 64 << 10;

/// The record of all scorings, on disk.
pub struct Evaluations {
    file: StateFile,
    policy: AuditPolicy,
    kept: Mutex<LoadedRecord>,
    /// The free memory for open scorings, in pieces of [`PIECE`].
    room: Arc<Semaphore>,
}

impl std::fmt::Debug for Evaluations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluations({})", self.file.path().display())
    }
}

impl Evaluations {
    /// Opens the record in a directory.
    ///
    /// # Errors
    /// [`EvaluationError`] if it cannot be read or is damaged.
    pub fn open(dir: impl Into<StateDir>, policy: AuditPolicy) -> Result<Self, EvaluationError> {
        let file = record::file(&dir.into());
        let kept = Mutex::new(Record::read(&file)?);
        Ok(Self { file, policy, kept, room: Arc::new(Semaphore::new(PIECES as usize)) })
    }

    /// Returns the rules for the answers to scorings.
    #[must_use]
    pub fn policy(&self) -> &AuditPolicy {
        &self.policy
    }

    /// Reserves memory for a scoring of so many records and features, while it is open. The first
    /// scoring always gets it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the open scorings leave too little.
    pub(super) fn room(
        &self,
        records: usize,
        features: usize,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        // Ids, the truth, estimates in transit, and those of candidates that are kept.
        let block = records.saturating_mul(features);
        let numbers = block
            .saturating_mul(2)
            .saturating_add(block.saturating_mul(MAX_CANDIDATES).min(MAX_KEPT));
        let bytes =
            records.saturating_mul(128).saturating_add(numbers.saturating_mul(size_of::<f64>()));
        let pieces = u32::try_from(bytes / PIECE + 1).unwrap_or(PIECES).min(PIECES);
        self.room.clone().try_acquire_many_owned(pieces).map_err(|_| {
            exhausted(format!(
                "the scorings that are open here hold {} of {} MiB; end one of them first",
                ((PIECES as usize - self.room.available_permits()) * PIECE) >> 20,
                (PIECES as usize * PIECE) >> 20
            ))
        })
    }

    /// Returns the record as it was last read or written here.
    pub(super) fn kept(&self) -> MutexGuard<'_, LoadedRecord> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current record, whichever process wrote it.
    pub(super) fn newest(&self) -> Result<MutexGuard<'_, LoadedRecord>, Refusal> {
        let mut kept = self.kept();
        kept.refresh(&self.file).map_err(|error| self.uncounted(&error))?;
        Ok(kept)
    }

    fn uncounted(&self, error: &StateFileError) -> Refusal {
        tracing::error!(path = %self.file.path().display(), %error, "a scoring cannot be counted on disk");
        let message =
            "cannot count the scoring on disk, so it is not done; the passive party's log says why";
        Refusal::own_state(error.away(), message)
    }

    /// Changes the record, on disk first: if the disk does not take it, nothing has changed and
    /// nothing may be answered. Returns `None` if another process has changed the record since it
    /// was read, so that all has to be decided again.
    pub(super) fn change_kept<T>(
        &self,
        kept: &mut LoadedRecord,
        change: impl FnOnce(&mut Record) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        let mut changed = kept.record.clone();
        let done = change(&mut changed)?;
        let replaced = kept.replace(&self.file, changed).map_err(|error| self.uncounted(&error))?;
        Ok(replaced.then_some(done))
    }

    /// Changes the newest record, with as many tries as it takes: of several processes, one
    /// succeeds each time.
    pub(super) fn change<T>(
        &self,
        mut change: impl FnMut(&mut Record) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        loop {
            let mut kept = self.newest()?;
            if let Some(done) = self.change_kept(&mut kept, &mut change)? {
                return Ok(done);
            }
        }
    }
}

/// Returns the refusal for a spent budget.
pub(super) fn exhausted(message: String) -> Refusal {
    Refusal::new(RefusalKind::ResourceExhausted, message)
}
