//! Errors of the ledger: refusals and failures.

use std::time::Duration;

use vfl_state::state_file::StateFileError;

use super::request::MAX_REQUEST_ID_CHARS;

/// Errors from the ledger: refusals and failures. None holds a record id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The request has more new records than the party has left. Nothing was spent.
    #[error(
        "the budget of distinct records has {left} left, the request asks for {asked} new ones"
    )]
    TotalBudget {
        /// The number of records left.
        left: u64,
        /// Records of the request that the party had not asked for before.
        asked: u64,
    },
    /// The request has too many rows in too short a time. Nothing was spent.
    #[error("{rows} rows are too many at {rows_per_minute} rows a minute; {}", advice(*.retry_after))]
    Rate {
        /// The allowed rows per minute.
        rows_per_minute: u64,
        /// The rows of the request.
        rows: u64,
        /// The wait until the same request passes; `None` if it never will.
        retry_after: Option<Duration>,
    },
    /// The same request id came with another body. Nothing was spent.
    #[error("the request id was used for another request; a new request takes a new id")]
    RequestIdReused,
    /// The request id is out of range.
    #[error(
        "a request id has 1 to {MAX_REQUEST_ID_CHARS} characters, none of them a control character"
    )]
    RequestId,
    /// The number of share hashes is not that of the records.
    #[error("{hashes} share hashes came for {records} records")]
    ShareHashes {
        /// The number of share hashes.
        hashes: usize,
        /// The number of records.
        records: usize,
    },
    /// The server's noise secret is not the one the ledger was begun with.
    #[error(
        "the ledger was begun with the noise secret of fingerprint {ledger}, this server's is {server}: answers would move; \
         give the server its old secret, or move the ledger away and begin a new one with `coordinator serve --begin-new-ledger`"
    )]
    Fingerprint {
        /// The fingerprint in the ledger.
        ledger: String,
        /// The fingerprint at the server.
        server: String,
    },
    /// The state directory knows a ledger that is gone.
    #[error(
        "the ledger that this coordinator used (id {ledger}, {mark} commits) is gone: the one at the URL is missing or empty, and \
         with it what was spent and which shares are bound; restore the latest backup or mend the URL, or begin a new one with \
         `coordinator serve --begin-new-ledger`"
    )]
    Lost {
        /// The id of the ledger that is gone.
        ledger: String,
        /// The commits that it had.
        mark: u64,
    },
    /// The ledger is not the one that the state directory knows.
    #[error(
        "this is another ledger (id {ledger}) than the one that this coordinator used (id {known}); mend the URL, or go on with \
         this one by `coordinator serve --begin-new-ledger`"
    )]
    Another {
        /// The id of the ledger found.
        ledger: String,
        /// The id of the ledger known.
        known: String,
    },
    /// The ledger is an old copy: the known one had come further.
    #[error(
        "this ledger (id {known}) is an old copy: it has {has} commits, this coordinator saw {mark}, and what was spent since \
         is missing; restore the latest backup, or go on with this one by `coordinator serve --begin-new-ledger`"
    )]
    OldCopy {
        /// The id of the ledger.
        known: String,
        /// The commits that the copy has.
        has: u64,
        /// The commits that this coordinator saw.
        mark: u64,
    },
    /// The chain of releases is not the one that the state directory knows.
    #[error(
        "the ledger's chain of releases was rewritten: its link {link} is not the one that this coordinator saw; \
         `coordinator ledger verify` tells more; restore the latest backup, or go on with this one by \
         `coordinator serve --begin-new-ledger`"
    )]
    Rewritten {
        /// The number of the link.
        link: i64,
    },
    /// A link of the chain of releases is not what was written.
    #[error(
        "link {link} of the ledger's chain of releases is not what was written, or not where it was; nothing is granted; \
         `coordinator ledger verify` tells more; restore the latest backup"
    )]
    Chain {
        /// The number of the link.
        link: i64,
    },
    /// The key that signs links cannot be read or made.
    #[error("{0}")]
    Key(String),
    /// The state directory's file about the ledger is damaged.
    #[error("{0}")]
    DamagedMark(String),
    /// `--begin-new-ledger` was given without need.
    #[error(
        "--begin-new-ledger was given, but the ledger is the one that this coordinator used last, or its first: start without it"
    )]
    NothingToBegin,
    /// Another coordinator uses the ledger.
    #[error(
        "another coordinator uses this ledger; stop it first, or give this one a ledger of its own (several coordinators on one ledger \
         take PostgreSQL, and `shared = true` in [ledger] of each)"
    )]
    Locked,
    /// Coordinators that share the ledger use it, and this one does not share it.
    #[error(
        "coordinators with `shared = true` in [ledger] use this ledger; set that here as well, or stop them first"
    )]
    Shared,
    /// A coordinator that does not share the ledger uses it.
    #[error(
        "a coordinator without `shared = true` in [ledger] uses this ledger; stop it first, or restart it with that"
    )]
    NotShared,
    /// The ledger cannot be shared.
    #[error("`shared = true` in [ledger] takes a ledger in PostgreSQL (`url = \"postgres://…\"`)")]
    SharedFile,
    /// The coordinator's settings differ from those of the coordinators that it shares the ledger
    /// with.
    #[error(
        "the coordinators of a shared ledger have one configuration: `{name}` is {ours} here and {theirs} at those that run; \
         give all of them the same, or stop them before you change it"
    )]
    Terms {
        /// The name of the setting.
        name: String,
        /// The value at this coordinator.
        ours: String,
        /// The value at the others.
        theirs: String,
    },
    /// The URL is not one of a ledger.
    #[error("the ledger's URL is malformed: {0}")]
    Url(&'static str),
    /// There is no ledger at the URL.
    #[error("there is no ledger there; `coordinator serve` begins one, check the URL")]
    Missing,
    /// The database would lose commits.
    #[error("the ledger would not survive a crash: {0}")]
    NotDurable(String),
    /// The command is not for this engine, or the program was built without the engine.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The database failed. Nothing was granted.
    #[error("the ledger's database failed: {0}")]
    Storage(String),
}

fn advice(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(wait) => format!("try again in {} s", wait.as_secs_f64().ceil()),
        None => "send smaller requests".into(),
    }
}

impl LedgerError {
    /// Returns the id of the ledger that the state directory knows, where the error is about that.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Lost { ledger: known, .. }
            | Self::Another { known, .. }
            | Self::OldCopy { known, .. } => Some(known),
            _ => None,
        }
    }
}

impl From<StateFileError> for LedgerError {
    fn from(error: StateFileError) -> Self {
        match error {
            StateFileError::Io { .. } => Self::Storage(error.to_string()),
            _ => Self::DamagedMark(error.to_string()),
        }
    }
}

impl From<sqlx::Error> for LedgerError {
    fn from(error: sqlx::Error) -> Self {
        // Messages of both engines name tables and columns. PostgreSQL has values in the detail
        // only, which is left out here.
        Self::Storage(error.to_string())
    }
}

impl From<sqlx::migrate::MigrateError> for LedgerError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self::Storage(format!("migration: {error}"))
    }
}

/// Returns the error for a table that does not hold what the ledger writes into it.
pub(super) fn contradiction() -> LedgerError {
    LedgerError::Storage("the ledger's tables contradict each other; restore a backup".into())
}
