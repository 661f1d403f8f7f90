//! The ids that a party aligns: all that it holds, or only those listed in a file.

use std::path::PathBuf;

use vfl_core::data::IdSet;
use vfl_core::data::table::StoreError;
use vfl_core::types::RecordIds;
use vfl_features::features::Features;
use vfl_features::{IdFileError, read_ids};
use vfl_protocol::Refusal;
use vfl_state::blocking::heavy;

/// Errors from listing the ids that a party aligns.
#[derive(Debug, thiserror::Error)]
pub enum OwnIdsError {
    /// The feature store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The id file cannot be read.
    #[error("`ids` in [alignment]: {0}")]
    File(#[from] IdFileError),
    /// None of the ids in the file has features here.
    #[error("`ids` in [alignment]: none of the ids in {} is held here", .0.display())]
    NoneHeld(PathBuf),
}

impl OwnIdsError {
    /// Returns the refusal for the party's own operator.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Store(error) => vfl_features::features::refusal(error),
            _ => Refusal::precondition(self.to_string()),
        }
    }

    /// Returns the refusal for the other party. The details go to the log only.
    #[must_use]
    pub fn told(&self, who: &str) -> Refusal {
        match self {
            Self::Store(error) => vfl_features::features::refusal_for_others(error, who),
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
    /// Creates the selection of all ids of `features`, or only those in a file.
    #[must_use]
    pub fn new(features: Features, file: Option<PathBuf>) -> Self {
        Self { features, file }
    }

    /// Checks that the file, if there is one, can be read.
    ///
    /// # Errors
    /// A message that says what is wrong with the file.
    pub fn check(&self) -> Result<(), String> {
        self.file
            .as_deref()
            .map_or(Ok(()), |file| read_ids(file).map(drop))
            .map_err(|e| format!("`ids`: {e}"))
    }

    /// Returns true if the ids are known without a list from another party: a file names them, or
    /// the store can list them.
    #[must_use]
    pub fn known(&self) -> bool {
        self.file.is_some() || self.features.lists()
    }

    /// Returns the feature store.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Reads the ids of the file, if there is one: no others are aligned.
    ///
    /// # Errors
    /// [`OwnIdsError::File`] if the file cannot be read.
    pub fn only(&self) -> Result<Option<IdSet>, OwnIdsError> {
        let read =
            self.file.as_deref().map(|file| heavy(u64::MAX, || read_ids(file).map(IdSet::new)));
        Ok(read.transpose()?)
    }

    /// Returns all ids to align. Ids of the file that are not held are left out.
    ///
    /// # Errors
    /// [`OwnIdsError`] if the file or the store fails, or no id of the file is held.
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
