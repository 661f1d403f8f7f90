//! The errors with which the coordinator does not start, or ends.

use std::path::PathBuf;

use vfl_defense::DefenseError;
use vfl_server::monitoring::EndpointError;
use vfl_server::service::{ServeError, TlsError};

use crate::catalogue::CatalogueError;
use crate::ledger::LedgerError;
use crate::registry::RegistryError;
use crate::secret::SecretError;
use crate::sessions::SessionsError;

/// Errors from starting or running the coordinator.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An error of the registry in the state directory.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Another coordinator uses the state directory.
    #[error(
        "state_dir {} is in use by another coordinator; coordinators that share a ledger have a state_dir each", .0.display()
    )]
    InUse(PathBuf),
    /// The state directory cannot be locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The path of the lock.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An address or a certificate is not valid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The configured defense is not valid.
    #[error(transparent)]
    Defense(#[from] DefenseError),
    /// The policy tells more bits than the config allows, for the model in service.
    #[error("{0}")]
    Bits(String),
    /// An error of the query ledger.
    #[error("ledger: {0}")]
    Ledger(#[from] LedgerError),
    /// An error of the sets of records that audits were summarised over.
    #[error("the sets of earlier audits: {0}")]
    Audits(SessionsError),
    /// An error of the models that several coordinators have in common.
    #[error("models of the coordinators that share the ledger: {0}")]
    Catalogue(#[from] CatalogueError),
    /// An error of the secret that noise is keyed by.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The endpoint for metrics cannot be opened.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// An error of the transport.
    #[error(transparent)]
    Serve(#[from] ServeError),
}
