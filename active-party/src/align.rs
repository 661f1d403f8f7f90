//! Alignments that this party's own operator asks for.

use tokio::sync::mpsc;
use vfl_shared::alignment::{Aligner, Completed, Frame, MAX_RECORDS, OwnIds, Progress, Side};
use vfl_shared::data::{FeatureStore as _, IdSet};
use vfl_shared::rpc::{Refusal, RefusalKind};
use vfl_shared::state_file::StateFileError;
use vfl_shared::types::{PartyName, RecordIds, RecordIdsBuilder};

use crate::client::Coordinator;
use crate::config::Settings;

/// Frames that wait to be sent: 256 KiB.
const WAITING: usize = 4;

/// This party's alignments.
pub(crate) struct Alignments {
    allowed: bool,
    own: OwnIds,
    coordinator: Coordinator,
    aligner: Aligner,
}

impl Alignments {
    /// By the settings, with the record of the state directory.
    ///
    /// # Errors
    /// [`StateFileError`] if there is a record that cannot be read.
    pub(crate) fn open(settings: &Settings, coordinator: Coordinator) -> Result<Self, StateFileError> {
        let rules = settings.alignment.rules();
        let aligner = Aligner::open(Side::Active, &settings.credentials, &settings.state_dir, rules)?;
        let own = settings.alignment.own_ids(&settings.features);
        Ok(Self { allowed: settings.alignment.allowed, own, coordinator, aligner })
    }

    /// Whether this party aligns at all.
    ///
    /// # Errors
    /// PERMISSION_DENIED naming the setting.
    pub(crate) fn allows(&self) -> Result<(), Refusal> {
        if self.allowed {
            return Ok(());
        }
        let message = "alignments are not allowed here; the operator may set `allowed = true` in [alignment]";
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Collects the ids of a request, which must be held here, and be in the file of ids if there is one.
    pub(crate) fn list(&self) -> List<'_> {
        List { own: &self.own, only: None, ids: RecordIdsBuilder::default(), count: 0 }
    }

    /// Aligns these ids with a passive party.
    ///
    /// # Errors
    /// As [`Aligner::turn`] and `Turn::run`, and what the coordinator says.
    pub(crate) async fn run(
        &self,
        passive: &PartyName,
        ids: &RecordIds,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Completed, Refusal> {
        let turn = self.aligner.turn(passive.clone())?;
        let (out, frames) = mpsc::channel(WAITING);
        let ended = || Refusal::unavailable("the alignment has no queue");
        out.send(Ok(Frame::Start(passive.clone()))).await.map_err(|_| ended())?;
        let answers = self.coordinator.align(frames).await?;
        turn.run(ids, answers, out, tell).await
    }
}

/// The ids of a request, as they come.
pub(crate) struct List<'a> {
    own: &'a OwnIds,
    /// Those of the file, once it is read; `Some(None)`: there is no file.
    only: Option<Option<IdSet>>,
    ids: RecordIdsBuilder,
    count: usize,
}

impl List<'_> {
    /// Takes a chunk.
    ///
    /// # Errors
    /// NOT_FOUND if some of them are not held here, which goes for lists that are longer than the table too; FAILED_PRECONDITION if some are
    /// not in the file; as the store of the features.
    pub(crate) async fn take(&mut self, chunk: &RecordIds) -> Result<(), Refusal> {
        if self.only.is_none() {
            self.only = Some(self.own.only().map_err(|e| e.refusal())?);
        }
        if let Some(Some(only)) = &self.only {
            let others = chunk.iter().filter(|id| !only.contains(id)).count();
            if others > 0 {
                let message =
                    format!("{others} of {} ids to align are not in the file `ids` of [alignment]", chunk.len());
                return Err(Refusal::precondition(message));
            }
        }
        let held = self.own.features().held(chunk).await.map_err(|e| e.refusal())?;
        let missing = chunk.len() - held.len();
        if missing > 0 {
            let message = format!("{missing} of {} ids to align are not held here", chunk.len());
            return Err(Refusal::new(RefusalKind::NotFound, message));
        }
        self.count += chunk.len();
        let most = self.own.features().memory().map_or(MAX_RECORDS, |table| table.len() as u64);
        if self.count as u64 > most {
            return Err(Refusal::invalid("the ids to align are more than the records held here; send each id once"));
        }
        chunk.iter().for_each(|id| self.ids.push(id));
        Ok(())
    }

    /// All of them; of no list, all records, or those of the file.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if an id came twice; FAILED_PRECONDITION where only a list would do; as the store of the features.
    pub(crate) async fn finish(self) -> Result<RecordIds, Refusal> {
        if self.count == 0 && !self.own.known() {
            let message = "the feature service of [data.http] cannot list its records: name those to align by `--ids`, or by `ids` in \
                           [alignment]";
            return Err(Refusal::precondition(message));
        }
        if self.count == 0 {
            return self.own.all().await.map_err(|e| e.refusal());
        }
        self.ids.finish().map_err(|e| Refusal::invalid(e.to_string()))
    }
}
