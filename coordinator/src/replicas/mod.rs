//! The state that coordinators sharing a ledger have in common beside it, in the same database:
//! published models, records of trainings, audit sessions, and the lock of the one that trains.
//!
//! Models and trainings are written in transactions under the ledger's own lock, and counted in
//! `meta`: a coordinator reads the count with every request that it records, and so knows in that
//! transaction whether the models it holds are the models in service. Each write about an audit
//! session locks the session's row.

mod audits;
mod database;
mod models;
mod publish_lock;

pub(crate) use audits::{EndedSession, OpenOutcome, SessionLimits, SpendOutcome, StoredSession};
pub use database::Replicas;
pub(crate) use models::{Change, LocalModels, Publication};
pub(crate) use publish_lock::DatabasePublishLock;
