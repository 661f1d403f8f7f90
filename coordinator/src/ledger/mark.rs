//! The state directory's memory of the ledger: which one it is, and how far it had come.
//!
//! The ledger counts the commits that changed it; the count is its mark. The file `ledger.mark`
//! follows a moment behind: it is written after every [`EVERY_COMMITS`] commits or [`EVERY`], when
//! there is nothing to do, and at the end. So it costs no synchronisation of the disk per request,
//! and it never says more than what is durable in the ledger: a crash at any moment leaves a mark
//! that the ledger has reached. A ledger that has not reached it is an old copy.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vfl_state::state_file::StateFile;

use super::LedgerError;
use super::chain::LinkId;

/// Most commits that the file may be behind.
const EVERY_COMMITS: u64 = 1000;
/// Longest time that the file may be behind.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownLedger {
    /// The ledger's random id.
    pub(super) ledger: String,
    /// Number of commits that the ledger has at least.
    pub(super) mark: u64,
    /// Fingerprint of the noise secret that the ledger was begun with.
    pub(super) secret: String,
    /// The last fixed link of its chain of releases at that mark. Files of earlier versions have
    /// none.
    #[serde(default)]
    pub(super) head: LinkId,
}

/// Returns the file of a state directory.
fn state_file(state_dir: &Path) -> StateFile {
    let fix = "restore it, or go on without it by `coordinator serve --begin-new-ledger`";
    StateFile::new(state_dir.join("ledger.mark"), fix)
}

/// Reads what the state directory knows; `None` if it has known no ledger.
pub(super) fn read(state_dir: &Path) -> Result<Option<KnownLedger>, LedgerError> {
    Ok(state_file(state_dir).read_json()?)
}

/// The writer that keeps the file up to date.
pub(super) struct MarkFile {
    state_dir: Option<PathBuf>,
    written: KnownLedger,
    written_at: Instant,
    reached: u64,
    head: LinkId,
}

impl MarkFile {
    /// Writes the first mark: a ledger that cannot be recognised again is not opened.
    pub(super) fn start(
        state_dir: Option<PathBuf>,
        known: KnownLedger,
    ) -> Result<Self, LedgerError> {
        let (reached, head) = (known.mark, known.head.clone());
        let marker = Self { state_dir, written: known, written_at: Instant::now(), reached, head };
        marker.write(&marker.written)?;
        Ok(marker)
    }

    /// Returns the id of the ledger.
    pub(super) fn ledger(&self) -> &str {
        &self.written.ledger
    }

    /// Returns the number of commits that are known to be durable.
    pub(super) fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the last fixed link of the chain that is known to be durable.
    pub(super) fn head(&self) -> &LinkId {
        &self.head
    }

    /// Notes a durable commit; writes the file if it is time.
    pub(super) fn reach(&mut self, mark: u64, head: &LinkId) {
        self.reached = mark;
        head.clone_into(&mut self.head);
        if mark.saturating_sub(self.written.mark) >= EVERY_COMMITS
            || self.written_at.elapsed() >= EVERY
        {
            self.flush();
        }
    }

    /// Returns `true` if the file is behind.
    pub(super) fn behind(&self) -> bool {
        self.reached > self.written.mark
    }

    /// Brings the file up to date. A failure to write it costs no request: an old copy is then
    /// noticed later only.
    pub(super) fn flush(&mut self) {
        if !self.behind() {
            return;
        }
        let next =
            KnownLedger { mark: self.reached, head: self.head.clone(), ..self.written.clone() };
        match self.write(&next) {
            Ok(()) => self.written = next,
            Err(error) => tracing::error!(%error, "the mark of the ledger was not written"),
        }
        self.written_at = Instant::now();
    }

    fn write(&self, known: &KnownLedger) -> Result<(), LedgerError> {
        let Some(dir) = &self.state_dir else { return Ok(()) };
        Ok(state_file(dir).write_json(known)?)
    }
}
