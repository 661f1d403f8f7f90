//! Alignments that this party consents to.

use tokio_stream::StreamExt;
use vfl_core::types::PartyName;
use vfl_party::alignment::{Aligner, OwnIds};
use vfl_protocol::alignment::{Frame, FrameSender, Frames, Side};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::state_file::StateFileError;

use crate::config::{AlignmentTable, Settings};

/// This party's consent to alignments.
pub(crate) struct Alignments {
    table: AlignmentTable,
    own: OwnIds,
    aligner: Aligner,
}

impl Alignments {
    /// Opens the alignments that the settings allow, with the record of runs in the state
    /// directory.
    ///
    /// # Errors
    /// [`StateFileError`] if there is a record that cannot be read.
    pub(crate) fn open(settings: &Settings) -> Result<Self, StateFileError> {
        let table = settings.alignment.clone();
        let aligner = Aligner::open(
            Side::Passive,
            &settings.credentials,
            &settings.state_dir,
            table.rules(),
        )?;
        let own = table.own_ids(&settings.features);
        Ok(Self { table, own, aligner })
    }

    /// Takes part in one run with the active party that the first frame names and that proves its
    /// identity.
    ///
    /// # Errors
    /// [`Refusal`]: PERMISSION_DENIED without consent, those of [`Aligner::turn`], and UNAVAILABLE
    /// without the reason if the run ends early.
    pub(crate) async fn run(&self, mut frames: Frames, out: FrameSender) -> Result<(), Refusal> {
        // Checked first: a party that may not align learns nothing else.
        self.allows(None)?;
        let active = match frames.next().await.transpose()? {
            Some(Frame::Start(active)) => active,
            _ => return Err(Refusal::invalid("an alignment begins with the active party's name")),
        };
        self.allows(Some(&active))?;
        let turn = self.aligner.turn(active)?;
        let ids = async { self.own.all().await.map_err(|e| e.told("the passive party")) };
        match turn.run_listing(ids, frames, out, &mut |_| ()).await {
            Ok(_) => Ok(()),
            // Nothing was said inside the session yet.
            Err(refusal) if refusal.kind == RefusalKind::Unauthenticated => Err(refusal),
            // The active party was told inside the session. The reason may depend on both sets, of
            // which the coordinator must learn nothing.
            Err(refusal) => {
                tracing::warn!(reason = %refusal, "an alignment ended early");
                Err(Refusal::unavailable("the passive party ended the alignment before its end"))
            }
        }
    }

    fn allows(&self, active: Option<&PartyName>) -> Result<(), Refusal> {
        let refused = |message: &str| Err(Refusal::new(RefusalKind::PermissionDenied, message));
        if !self.table.allowed {
            return refused(
                "this passive party aligns with nobody; its operator may set `allowed = true` in [alignment]",
            );
        }
        match active {
            Some(name) if self.table.active_party.as_ref() != Some(name) => refused(
                "this passive party aligns with another active party (`active_party` in its [alignment])",
            ),
            _ => Ok(()),
        }
    }
}
