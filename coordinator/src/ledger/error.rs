//! Why the ledger refuses, or fails.

use std::time::Duration;

use vfl_shared::state_file::StateFileError;

use super::request::MAX_REQUEST_ID_CHARS;

/// Why the ledger refuses, or fails. Holds no record id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// More new records than the party has left. Nothing was spent.
    #[error("the budget of distinct records has {left} left, the request asks for {asked} new ones")]
    TotalBudget {
        /// What is left.
        left: u64,
        /// Records of the request that the party had not asked for before.
        asked: u64,
    },
    /// Too many rows in too short a time. Nothing was spent.
    #[error("{rows} rows are too many at {rows_per_minute} rows a minute; {}", advice(*.retry_after))]
    Rate {
        /// The rate.
        rows_per_minute: u64,
        /// Rows of the request.
        rows: u64,
        /// How long until the same request passes; `None` if it never will.
        retry_after: Option<Duration>,
    },
    /// The same request id with another body. Nothing was spent.
    #[error("the request id was used for another request; a new request takes a new id")]
    RequestIdReused,
    /// A request id out of range.
    #[error("a request id has 1 to {MAX_REQUEST_ID_CHARS} characters, none of them a control character")]
    RequestId,
    /// Not one share hash per record.
    #[error("{hashes} share hashes came for {records} records")]
    ShareHashes {
        /// Hashes.
        hashes: usize,
        /// Records.
        records: usize,
    },
    /// The server's noise secret is not the one the ledger was begun with.
    #[error(
        "the ledger was begun with the noise secret of fingerprint {ledger}, this server's is {server}: answers would move; \
         give the server its old secret, or move the ledger away and begin a new one with `coordinator serve --begin-new-ledger`"
    )]
    Fingerprint {
        /// The one in the ledger.
        ledger: String,
        /// The one given.
        server: String,
    },
    /// The state directory knows a ledger that is gone.
    #[error(
        "the ledger that this coordinator used (id {ledger}, {mark} commits) is gone: the one at the URL is missing or empty, and \
         with it what was spent and which shares are bound; restore the latest backup or mend the URL, or begin a new one with \
         `coordinator serve --begin-new-ledger`"
    )]
    Lost {
        /// Its id.
        ledger: String,
        /// How far it had come.
        mark: u64,
    },
    /// It is not the one that the state directory knows.
    #[error(
        "this is another ledger (id {ledger}) than the one that this coordinator used (id {known}); mend the URL, or go on with \
         this one by `coordinator serve --begin-new-ledger`"
    )]
    Another {
        /// The id found.
        ledger: String,
        /// The id known.
        known: String,
    },
    /// It had come further.
    #[error(
        "this ledger (id {known}) is an old copy: it has {has} commits, this coordinator saw {mark}, and what was spent since \
         is missing; restore the latest backup, or go on with this one by `coordinator serve --begin-new-ledger`"
    )]
    OldCopy {
        /// Its id.
        known: String,
        /// Commits it has.
        has: u64,
        /// Commits it had.
        mark: u64,
    },
    /// The chain of releases is not the one that the state directory knows.
    #[error(
        "the ledger's chain of releases was rewritten: its link {link} is not the one that this coordinator saw; \
         `coordinator ledger verify` tells more; restore the latest backup, or go on with this one by \
         `coordinator serve --begin-new-ledger`"
    )]
    Rewritten {
        /// The link.
        link: i64,
    },
    /// A link of the chain of releases is not what was written.
    #[error(
        "link {link} of the ledger's chain of releases is not what was written, or not where it was; nothing is granted; \
         `coordinator ledger verify` tells more; restore the latest backup"
    )]
    Chain {
        /// The link.
        link: i64,
    },
    /// The key that signs links cannot be read or made.
    #[error("{0}")]
    Key(String),
    /// What the state directory knows is not what was written.
    #[error("{0}")]
    DamagedMark(String),
    /// `--begin-new-ledger` without need.
    #[error(
        "--begin-new-ledger was given, but the ledger is the one that this coordinator used last, or its first: start without it"
    )]
    NothingToBegin,
    /// Another coordinator has the ledger.
    #[error(
        "another coordinator uses this ledger; stop it first, or give this one a ledger of its own (several coordinators on one ledger \
         take PostgreSQL, and `shared = true` in [ledger] of each)"
    )]
    Locked,
    /// Coordinators that share it have the ledger, and this one does not.
    #[error("coordinators with `shared = true` in [ledger] use this ledger; set that here as well, or stop them first")]
    Shared,
    /// A coordinator that does not share it has the ledger.
    #[error(
        "a coordinator without `shared = true` in [ledger] uses this ledger; stop it first, or restart it with that"
    )]
    NotShared,
    /// A ledger that cannot be shared.
    #[error("`shared = true` in [ledger] takes a ledger in PostgreSQL (`url = \"postgres://…\"`)")]
    SharedFile,
    /// A coordinator that would do otherwise than those it shares the ledger with.
    #[error(
        "the coordinators of a shared ledger have one configuration: `{name}` is {ours} here and {theirs} at those that run; \
         give all of them the same, or stop them before you change it"
    )]
    Terms {
        /// What differs.
        name: String,
        /// Its value here.
        ours: String,
        /// Its value there.
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
    /// The command is not for this engine.
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
    /// The id of the ledger that the state directory knows, where that is what is wrong.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Lost { ledger: known, .. } | Self::Another { known, .. } | Self::OldCopy { known, .. } => Some(known),
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
        // Messages of both engines name tables and columns; PostgreSQL keeps values to the detail, which is left out here.
        Self::Storage(error.to_string())
    }
}

impl From<sqlx::migrate::MigrateError> for LedgerError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self::Storage(format!("migration: {error}"))
    }
}

/// A table does not hold what the ledger writes into it.
pub(super) fn contradiction() -> LedgerError {
    LedgerError::Storage("the ledger's tables contradict each other; restore a backup".into())
}
