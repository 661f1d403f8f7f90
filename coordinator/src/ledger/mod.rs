//! The query ledger: who asked for which record under which model and policy, how often, when.
//!
//! [`Ledger::spend`] returns only when what it granted is on disk, so whatever was released is recorded: a coordinator
//! killed at any point has recorded as much as it released, or more. A commit that fails grants nothing.
//!
//! One thread writes. It takes the requests that wait, reads what is known of their records, decides them in order
//! (`decide`) and writes the sum of the changes in one transaction: many callers share one synchronisation of the disk. The
//! ledger is not kept in memory; only the names of parties, models and policies and the erased records are.
//!
//! Tables and SQL are the same for SQLite and PostgreSQL (`migrations/`), and are meant to be read with plain SQL.

mod connection;
mod decide;
mod erased;
mod lock;
mod maintain;
mod rate;
mod read;
mod writer;

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use vfl_shared::types::{ModelVersion, PartyName, RecordIds};

use connection::Place;
pub use maintain::{Erased, Retained, backup, erase, retain};
pub use read::{PartySummary, RecordUse, Summary, UseSummary, record_uses, summary};

/// The longest request id, in characters.
pub const MAX_REQUEST_ID_CHARS: usize = 128;
/// How many requests may wait for the writer before callers wait to be let in.
const WAITING_REQUESTS: usize = 256;

/// Where the ledger is and what it allows.
#[derive(Clone)]
pub struct LedgerConfig {
    /// `sqlite:PATH` or `postgres://…`.
    pub url: String,
    /// What each active party may ask.
    pub budgets: Budgets,
    /// For how long a request id is remembered; a retry within that time costs nothing. 24 hours are usual.
    pub request_memory: Duration,
}

impl LedgerConfig {
    /// No budgets, and request ids remembered for a day.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), budgets: Budgets::default(), request_memory: Duration::from_secs(24 * 3600) }
    }
}

impl std::fmt::Debug for LedgerConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerConfig({:?}, request ids for {:?})", self.budgets, self.request_memory)
    }
}

/// What one active party may ask; `None` is unlimited. Rows that are refused or fail later cost as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// Distinct records, ever. A request that would pass it is refused as a whole and costs nothing.
    pub records: Option<u64>,
    /// Queries of one record, across models and policies. The rows beyond it are refused, and counted.
    pub queries_per_record: Option<u64>,
    /// Rows in a minute. A request that comes too early is refused as a whole and costs nothing.
    pub rows_per_minute: Option<u64>,
}

/// One request, to be recorded before anything is computed for it.
#[derive(Clone)]
pub struct Spend {
    /// Who asks.
    pub party: PartyName,
    /// The model asked.
    pub model: ModelVersion,
    /// The policy the answer is released under, as it is displayed.
    pub policy: String,
    /// The client's name for the request, 1 to [`MAX_REQUEST_ID_CHARS`] characters; with it, a retry costs nothing.
    pub request_id: Option<String>,
    /// A hash of the whole request but its id.
    pub body_hash: [u8; 32],
    /// The records.
    pub ids: RecordIds,
    /// A hash of each record's logit share, to be bound to it; empty where shares are not bound.
    pub share_hashes: Vec<[u8; 16]>,
    /// When.
    pub at: SystemTime,
}

impl std::fmt::Debug for Spend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spend({}, {}, {:?})", self.party, self.model, self.ids)
    }
}

/// What became of one row. Each costs a query of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowVerdict {
    /// It may be answered.
    Granted,
    /// Another logit share is bound to this record and model.
    ShareChanged,
    /// The record's budget is spent.
    RecordBudget,
}

impl RowVerdict {
    const ALL: [Self; 3] = [Self::Granted, Self::ShareChanged, Self::RecordBudget];

    const fn letter(self) -> char {
        match self {
            Self::Granted => 'G',
            Self::ShareChanged => 'S',
            Self::RecordBudget => 'R',
        }
    }
}

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
         give the server its old secret, or begin a new ledger"
    )]
    Fingerprint {
        /// The one in the ledger.
        ledger: String,
        /// The one given.
        server: String,
    },
    /// Another coordinator has the ledger.
    #[error("another coordinator uses this ledger; stop it first, or give this one a ledger of its own")]
    Locked,
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

/// What a caller waits for.
type Answer = Result<Vec<RowVerdict>, LedgerError>;

/// A request on its way to the writer.
struct Waiting {
    spend: Spend,
    answer: oneshot::Sender<Answer>,
}

/// An open ledger: its writer runs until [`Ledger::close`], or until the ledger is dropped.
pub struct Ledger {
    place: Place,
    requests: mpsc::Sender<Waiting>,
    ended: oneshot::Receiver<()>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ledger")
    }
}

impl Ledger {
    /// Opens the ledger, beginning it if there is none, and locks it for this coordinator.
    ///
    /// # Errors
    /// [`LedgerError::Url`], [`LedgerError::Locked`], [`LedgerError::Fingerprint`], [`LedgerError::NotDurable`] where commits
    /// are not synchronised, [`LedgerError::Storage`] for the rest.
    pub async fn open(config: &LedgerConfig, secret_fingerprint: &str) -> Result<Self, LedgerError> {
        let place = Place::parse(&config.url)?;
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        let ended = writer::start(place.clone(), config, secret_fingerprint.to_owned(), waiting).await?;
        Ok(Self { place, requests, ended })
    }

    /// Records a request and returns once that is on disk: one verdict per row, in the order of the ids.
    ///
    /// # Errors
    /// [`LedgerError::TotalBudget`], [`LedgerError::Rate`] and [`LedgerError::RequestIdReused`] refuse the request as a whole
    /// and spend nothing. After [`LedgerError::Storage`] nothing is granted, though it may have been spent.
    pub async fn spend(&self, request: Spend) -> Result<Vec<RowVerdict>, LedgerError> {
        let (hashes, records) = (request.share_hashes.len(), request.ids.len());
        if hashes != 0 && hashes != records {
            return Err(LedgerError::ShareHashes { hashes, records });
        }
        let fits =
            |id: &String| (1..=MAX_REQUEST_ID_CHARS).contains(&id.chars().count()) && !id.contains(char::is_control);
        if !request.request_id.as_ref().is_none_or(fits) {
            return Err(LedgerError::RequestId);
        }
        let (answer, answered) = oneshot::channel();
        let stopped = |()| LedgerError::Storage("the ledger's writer has stopped".into());
        self.requests.send(Waiting { spend: request, answer }).await.map_err(|_| stopped(()))?;
        answered.await.map_err(|_| stopped(()))?
    }

    /// What was spent, of one active party or of all, and what is left.
    ///
    /// # Errors
    /// [`LedgerError::Storage`].
    pub async fn describe(&self, party: Option<&PartyName>) -> Result<Summary, LedgerError> {
        read::summarise(&self.place, party.map(PartyName::as_str)).await
    }

    /// Answers what waits, and gives the ledger up.
    pub async fn close(self) {
        drop(self.requests);
        let _ = self.ended.await;
    }
}
