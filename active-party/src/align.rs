//! Alignments that this party's own operator asks for.

use tokio::sync::mpsc;
use vfl_core::data::IdSet;
use vfl_core::data::table::FeatureStore as _;
use vfl_core::types::{PartyName, RecordIds, RecordIdsBuilder};
use vfl_party::alignment::{Aligner, OwnIds};
use vfl_protocol::alignment::{CompletedRun, Frame, MAX_RECORDS, Progress, Side};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::state_file::StateFileError;

use crate::client::Coordinator;
use crate::config::Settings;

/// The number of frames that wait to be sent: 256 KiB.
const WAITING: usize = 4;

/// This party's alignments.
pub(crate) struct Alignments {
    allowed: bool,
    own: OwnIds,
    coordinator: Coordinator,
    aligner: Aligner,
}

impl Alignments {
    /// Opens the alignments that the settings allow, with the record of runs in the state
    /// directory.
    ///
    /// # Errors
    /// [`StateFileError`] if there is a record that cannot be read.
    pub(crate) fn open(
        settings: &Settings,
        coordinator: Coordinator,
    ) -> Result<Self, StateFileError> {
        let rules = settings.alignment.rules();
        let aligner =
            Aligner::open(Side::Active, &settings.credentials, &settings.state_dir, rules)?;
        let own = settings.alignment.own_ids(&settings.features);
        Ok(Self { allowed: settings.alignment.allowed, own, coordinator, aligner })
    }

    /// Checks that this party allows alignments.
    ///
    /// # Errors
    /// PERMISSION_DENIED with the name of the setting.
    pub(crate) fn allows(&self) -> Result<(), Refusal> {
        if self.allowed {
            return Ok(());
        }
        let message =
            "alignments are not allowed here; the operator may set `allowed = true` in [alignment]";
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Starts to collect the ids of a request. This party must hold each of them, and each must be
    /// in the file of ids if there is one.
    pub(crate) fn list(&self) -> RequestedIds<'_> {
        RequestedIds { own: &self.own, only: None, ids: RecordIdsBuilder::default(), count: 0 }
    }

    /// Aligns these ids with a passive party.
    ///
    /// # Errors
    /// Those of [`Aligner::turn`] and `Turn::run`, and the coordinator's.
    pub(crate) async fn run(
        &self,
        passive: &PartyName,
        ids: &RecordIds,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompletedRun, Refusal> {
        let turn = self.aligner.turn(passive.clone())?;
        let (out, frames) = mpsc::channel(WAITING);
        let ended = || Refusal::unavailable("the alignment has no queue");
        out.send(Ok(Frame::Start(passive.clone()))).await.map_err(|_| ended())?;
        let answers = self.coordinator.align(frames).await?;
        turn.run(ids, answers, out, tell).await
    }
}

/// The ids of a request, collected chunk by chunk.
pub(crate) struct RequestedIds<'a> {
    own: &'a OwnIds,
    /// The ids in the file `ids`, once it has been read; `Some(None)` if there is no file.
    only: Option<Option<IdSet>>,
    ids: RecordIdsBuilder,
    count: usize,
}

impl RequestedIds<'_> {
    /// Checks a chunk of ids and adds it to the list.
    ///
    /// # Errors
    /// NOT_FOUND if some of the ids are not held here; FAILED_PRECONDITION if some are not in the
    /// file; INVALID_ARGUMENT if there are more ids than records held here; errors of the feature
    /// store.
    pub(crate) async fn take(&mut self, chunk: &RecordIds) -> Result<(), Refusal> {
        if self.only.is_none() {
            self.only = Some(self.own.only().map_err(|e| e.refusal())?);
        }
        if let Some(Some(only)) = &self.only {
            let others = chunk.iter().filter(|id| !only.contains(id)).count();
            if others > 0 {
                let message = format!(
                    "{others} of {} ids to align are not in the file `ids` of [alignment]",
                    chunk.len()
                );
                return Err(Refusal::precondition(message));
            }
        }
        let held = self
            .own
            .features()
            .held(chunk)
            .await
            .map_err(|e| vfl_features::features::refusal(&e))?;
        let missing = chunk.len() - held.len();
        if missing > 0 {
            let message = format!("{missing} of {} ids to align are not held here", chunk.len());
            return Err(Refusal::new(RefusalKind::NotFound, message));
        }
        self.count += chunk.len();
        let most = self.own.features().memory().map_or(MAX_RECORDS, |table| table.len() as u64);
        if self.count as u64 > most {
            return Err(Refusal::invalid(
                "the ids to align are more than the records held here; send each id once",
            ));
        }
        chunk.iter().for_each(|id| self.ids.push(id));
        Ok(())
    }

    /// Returns all ids of the list. If the list is empty, these are the ids in the file or those of
    /// all records.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if an id came twice; FAILED_PRECONDITION if the list is empty and the
    /// feature store cannot list its records; errors of the feature store.
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
