//! A top model that the coordinator's operator has imported, and that waits to be published with
//! the parties' embeddings.

use std::path::Path;
use std::sync::Arc;

use vfl_core::model::{NetworkFile, NetworkFileError, Parameters, SubModelSpec, TOP_KIND};
use vfl_core::types::{ModelVersion, PartyName};
use vfl_protocol::Refusal;
use vfl_server::service::off_thread;
use vfl_state::{
    ImportError, ImportReport, ShareStore, StagedParameters, Staging, StoredShare, restage,
};

use crate::registry::{Registry, tops};

/// Checks a file of a top model, stores it and stages it for an active party. A top model is a
/// perceptron from all parties' embeddings to one output per class. The service may run or not.
///
/// # Errors
/// [`ImportError`] naming the file, what is wrong in it and the fix. Nothing is staged then; what
/// was staged before stays.
pub fn import_top(
    path: &Path,
    state_dir: &Path,
    active_party: &PartyName,
) -> Result<ImportReport, ImportError> {
    let refused = |source| ImportError::Network { path: path.to_owned(), source };
    let file = NetworkFile::read(path).map_err(refused)?;
    let (spec, classes) = (&file.parameters().spec, file.class_names());
    if spec.kind() != TOP_KIND {
        let problem = format!("is `{}`: a top model is `{TOP_KIND}`", spec.kind());
        return Err(refused(NetworkFileError::Metadata { key: "kind", problem }));
    }
    if classes.is_empty() {
        return Err(refused(NetworkFileError::NoClasses));
    }
    if classes.len() != spec.width() as usize {
        let problem = format!(
            "has {} names, and the top model {} outputs: one per class",
            classes.len(),
            spec.width()
        );
        return Err(refused(NetworkFileError::Metadata { key: "class_names", problem }));
    }
    let (kind, width) = (spec.kind().to_owned(), spec.width());
    let digest = tops(state_dir)?.put(file.parameters(), file.feature_names())?;
    let (staged, replaced) =
        restage(&state_dir.into(), digest, active_party, classes.to_vec(), None)?;
    let features = file.feature_names().len();
    let StagedParameters { digest, active_party, class_names, .. } = staged;
    Ok(ImportReport {
        digest,
        active_party,
        class_names,
        kind,
        width,
        features,
        reordered: false,
        replaced,
    })
}

/// A top model that is staged for an active party.
pub(super) struct StagedTop {
    staging: Staging,
    staged: StagedParameters,
    share: StoredShare,
}

impl StagedTop {
    /// Returns the top model that is staged for this active party, if there is one.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it is of other classes; INTERNAL if it cannot be read.
    pub(super) async fn find(
        registry: &Arc<Registry>,
        active_party: &PartyName,
        classes: &[String],
    ) -> Result<Option<Self>, Refusal> {
        let dir = registry.dir().to_owned();
        let found = off_thread("publishing", move || {
            let staging = Staging::of(&dir);
            let Some(staged) = staging.staged().map_err(unreadable)? else { return Ok(None) };
            let share = tops(&dir)
                .and_then(|store: ShareStore| store.stored(&staged.digest))
                .map_err(unreadable)?;
            Ok(Some(Self { staging, staged, share }))
        })
        .await?;
        let Some(top) = found.filter(|top| top.staged.active_party == *active_party) else {
            return Ok(None);
        };
        if top.staged.class_names != classes {
            return Err(Refusal::precondition(
                "the top model staged at the coordinator is of other classes than the active party's parameters, or has them in \
                 another order; the files of all parties name the same classes in the same order",
            ));
        }
        Ok(Some(top))
    }

    /// Returns the settings and width of the top model.
    pub(super) fn spec(&self) -> SubModelSpec {
        self.share.model().spec().clone()
    }

    pub(super) fn parameters(&self) -> Parameters {
        Parameters::of(self.share.model(), self.share.model().snapshot())
    }

    pub(super) fn digest(&self) -> &str {
        &self.staged.digest
    }

    /// Checks that the inputs of the top model are these outputs of the parties, in this order.
    pub(super) fn check_inputs(&self, expected: &[String]) -> Result<(), Refusal> {
        let found = &self.share.feature_names;
        if found == expected {
            return Ok(());
        }
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        let difference = match at {
            Some(at) => {
                format!("input {} is `{}` there, expected `{}`", at + 1, found[at], expected[at])
            }
            None => format!(
                "it has {} inputs, and the parties have {} outputs",
                found.len(),
                expected.len()
            ),
        };
        Err(Refusal::precondition(format!(
            "the top model staged at the coordinator does not take what the parties have staged: {difference}; its \
             `feature_names` are PARTY.1, PARTY.2 and so on, the active party's first, then the passive parties' in the order of \
             the coordinator's configuration"
        )))
    }

    /// Uses the staging for this version, durably: it is good for one version.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it was used for another version, which was not completed; INTERNAL if
    /// the disk fails.
    pub(super) async fn claim(&self, version: &ModelVersion) -> Result<(), Refusal> {
        let (staging, staged, version) =
            (self.staging.clone(), self.staged.clone(), version.clone());
        off_thread("publishing", move || {
            let used = staging.use_for(&staged, &version).map_err(unreadable)?;
            if used == version {
                return Ok(());
            }
            Err(Refusal::precondition(format!(
                "the top model staged at the coordinator was to be published as {used}, and one staging is good for one model; \
                 the coordinator's operator imports it again for another"
            )))
        })
        .await
    }

    /// Withdraws the staging of a top model that is in service: the next publication is without it,
    /// unless another one is staged.
    pub(super) async fn done(self) {
        let withdrawn = off_thread("publishing", move || {
            // Another top model may have been staged meanwhile.
            match self.staging.staged().map_err(unreadable)? {
                Some(staged) if staged == self.staged => {
                    self.staging.withdraw().map(drop).map_err(unreadable)
                }
                _ => Ok(()),
            }
        })
        .await;
        if withdrawn.is_err() {
            tracing::warn!(
                "the published top model is still staged; withdraw it with `coordinator import-parameters --withdraw`"
            );
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Refusal {
    tracing::error!(%error, "the staged top model cannot be published");
    Refusal::internal(
        "the top model staged at the coordinator cannot be read or written; its log says why",
    )
}
