//! Which of its ids a party aligns: all that it holds, or those of a file that it holds.

use std::path::PathBuf;

use crate::data::{Features, IdFileError, IdSet, StoreError, read_ids};
use crate::heavy::heavy;
use crate::rpc::Refusal;
use crate::types::RecordIds;

/// Why a party has no ids to align.
#[derive(Debug, thiserror::Error)]
pub enum OwnIdsError {
    /// The store of its features.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file.
    #[error("`ids` in [alignment]: {0}")]
    File(#[from] IdFileError),
    /// None of them has features here.
    #[error("`ids` in [alignment]: none of the ids in {} is held here", .0.display())]
    NoneHeld(PathBuf),
}

impl OwnIdsError {
    /// The refusal that the party's own operator is answered with.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Store(error) => error.refusal(),
            _ => Refusal::precondition(self.to_string()),
        }
    }

    /// The refusal that the other party is answered with: the log says what is wrong.
    #[must_use]
    pub fn told(&self, who: &str) -> Refusal {
        match self {
            Self::Store(error) => error.told(who),
            _ => {
                tracing::error!(error = %self, "there are no ids to align");
                Refusal::precondition(format!("{who} has no ids to align; its log says why"))
            }
        }
    }
}

/// The ids that a party aligns.
pub struct OwnIds {
    features: Features,
    file: Option<PathBuf>,
}

impl OwnIds {
    /// Those of `features`, or of them only those in a file.
    #[must_use]
    pub fn new(features: Features, file: Option<PathBuf>) -> Self {
        Self { features, file }
    }

    /// Whether the file can be read, if there is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        self.file.as_deref().map_or(Ok(()), |file| read_ids(file).map(drop)).map_err(|e| format!("`ids`: {e}"))
    }

    /// Whether there are any without a list of somebody's.
    #[must_use]
    pub fn known(&self) -> bool {
        self.file.is_some() || self.features.lists()
    }

    /// The store they are of.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The ids of the file, if there is one: no others are aligned.
    ///
    /// # Errors
    /// [`OwnIdsError::File`].
    pub fn only(&self) -> Result<Option<IdSet>, OwnIdsError> {
        let read = self.file.as_deref().map(|file| heavy(u64::MAX, || read_ids(file).map(IdSet::new)));
        Ok(read.transpose()?)
    }

    /// All of them. Ids of the file that are not held are left out.
    ///
    /// # Errors
    /// [`OwnIdsError`].
    pub async fn all(&self) -> Result<RecordIds, OwnIdsError> {
        let Some(file) = &self.file else { return Ok(self.features.ids().await?) };
        let listed = heavy(u64::MAX, || read_ids(file))?;
        let held = self.features.held(&listed).await?;
        if held.is_empty() {
            return Err(OwnIdsError::NoneHeld(file.clone()));
        }
        let left_out = listed.len() - held.len();
        if left_out > 0 {
            tracing::warn!(file = %file.display(), left_out, "ids to align are not held here, and are left out");
        }
        Ok(held)
    }
}
