//! What the state directory remembers of the ledger: which one it is, and how far it had come.
//!
//! The ledger counts the commits that changed it, its mark. The file `ledger.mark` follows a moment behind: it is written after
//! every [`EVERY_COMMITS`] commits or [`EVERY`], when there is nothing to do, and at the end. So it costs no synchronisation
//! of the disk per request, and it never says more than what is durable in the ledger: a crash at any moment leaves a mark
//! that the ledger has reached. A ledger that has not reached it is an old copy.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vfl_shared::state_file::StateFile;

use super::LedgerError;
use super::chain::Head;

/// How far the file may be behind, in commits …
const EVERY_COMMITS: u64 = 1000;
/// … and in time.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// The ledger's random id.
    pub(super) ledger: String,
    /// Commits that the ledger has, or more.
    pub(super) mark: u64,
    /// Fingerprint of the noise secret it was begun with.
    pub(super) secret: String,
    /// The last fixed link of its chain of releases at that mark. Files of earlier versions have none.
    #[serde(default)]
    pub(super) head: Head,
}

/// The file of a state directory.
fn state_file(state_dir: &Path) -> StateFile {
    let fix = "restore it, or go on without it by `coordinator serve --begin-new-ledger`";
    StateFile::new(state_dir.join("ledger.mark"), fix)
}

/// What the state directory knows; `None` if it has known no ledger.
pub(super) fn read(state_dir: &Path) -> Result<Option<Known>, LedgerError> {
    Ok(state_file(state_dir).read_json()?)
}

/// Keeps the file up to date.
pub(super) struct Marker {
    state_dir: Option<PathBuf>,
    written: Known,
    written_at: Instant,
    reached: u64,
    head: Head,
}

impl Marker {
    /// Writes the first mark: a ledger that cannot be recognised again is not opened.
    pub(super) fn start(state_dir: Option<PathBuf>, known: Known) -> Result<Self, LedgerError> {
        let (reached, head) = (known.mark, known.head.clone());
        let marker = Self { state_dir, written: known, written_at: Instant::now(), reached, head };
        marker.write(&marker.written)?;
        Ok(marker)
    }

    /// The ledger this is.
    pub(super) fn ledger(&self) -> &str {
        &self.written.ledger
    }

    /// How many commits are known to be durable.
    pub(super) fn reached(&self) -> u64 {
        self.reached
    }

    /// The last fixed link of the chain that is known to be durable.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Takes note of a commit that is durable; writes the file if it is time.
    pub(super) fn reach(&mut self, mark: u64, head: &Head) {
        self.reached = mark;
        head.clone_into(&mut self.head);
        if mark.saturating_sub(self.written.mark) >= EVERY_COMMITS || self.written_at.elapsed() >= EVERY {
            self.flush();
        }
    }

    /// Whether the file is behind.
    pub(super) fn behind(&self) -> bool {
        self.reached > self.written.mark
    }

    /// Brings the file up to date. That it cannot be written costs no request: an old copy is then noticed later only.
    pub(super) fn flush(&mut self) {
        if !self.behind() {
            return;
        }
        let next = Known { mark: self.reached, head: self.head.clone(), ..self.written.clone() };
        match self.write(&next) {
            Ok(()) => self.written = next,
            Err(error) => tracing::error!(%error, "the mark of the ledger was not written"),
        }
        self.written_at = Instant::now();
    }

    fn write(&self, known: &Known) -> Result<(), LedgerError> {
        let Some(dir) = &self.state_dir else { return Ok(()) };
        Ok(state_file(dir).write_json(known)?)
    }
}
