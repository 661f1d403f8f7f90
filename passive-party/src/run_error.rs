//! The errors with which the passive party does not start, or ends.

use vfl_core::data::table::StoreError as FeatureError;
use vfl_server::monitoring::EndpointError;
use vfl_server::service::ServeError;
use vfl_state::StoreError;
use vfl_state::common_rules::RulesError;
use vfl_state::journal::JournalError;
use vfl_state::state_file::StateFileError;
use vfl_state::state_folder::FolderError;
use vfl_transform::TransformError;

use crate::evaluation::EvaluationError;
use crate::release::ReleaseError;
use crate::training_map::TrainingMapError;

/// Errors from starting or running the passive party.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of the state.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The rules that other processes serve under.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The store of the features.
    #[error("[data]: {0}")]
    Features(#[from] FeatureError),
    /// The stored releases.
    #[error(transparent)]
    Releases(#[from] ReleaseError),
    /// The record of scorings.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// The audit policy.
    #[error("[audit]: {0}")]
    Audit(String),
    /// The release policy.
    #[error("[release]: {0}")]
    Release(String),
    /// The rules for alignments.
    #[error("[alignment]: {0}")]
    Alignment(String),
    /// The record of alignments.
    #[error(transparent)]
    Alignments(#[from] StateFileError),
    /// The part in predictions.
    #[error("[serving]: {0}")]
    Serving(String),
    /// The rules for trainings.
    #[error("[training]: {0}")]
    Training(String),
    /// The journal of trainings.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The map that features go through before training.
    #[error("[training]: {0}")]
    TrainingMap(#[from] TrainingMapError),
    /// A map for another number of features.
    #[error("[training]: {0}")]
    Transform(#[from] TransformError),
    /// The address for metrics.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The transport of gRPC.
    #[error(transparent)]
    Serve(#[from] ServeError),
}
