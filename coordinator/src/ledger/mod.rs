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

mod begin;
mod budgets;
mod connection;
mod decide;
mod erased;
mod lock;
mod maintain;
mod mark;
mod models;
mod postgres;
mod rate;
mod read;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use vfl_shared::types::{ModelVersion, PartyName, RecordIds};

pub use begin::secret_fingerprint;
pub use budgets::Budgets;
use connection::Place;
pub use maintain::{Erased, Retained, backup, erase, retain};
pub use models::approve;
pub use read::{Event, PartySummary, RecordUse, Summary, UseSummary, record_uses, summary};

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
    /// Where it is remembered which ledger this is and how far it had come; `None`: a ledger that is lost is not missed.
    pub state_dir: Option<PathBuf>,
    /// Go on with what is at the URL, whatever the state directory remembers; refused where it remembers nothing else.
    pub begin_new: bool,
    /// Finds the fingerprints of versions that an older program recorded without.
    pub derive: Option<Derive>,
}

impl LedgerConfig {
    /// Default budgets, request ids remembered for a day, and no state directory.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            budgets: Budgets::default(),
            request_memory: Duration::from_secs(24 * 3600),
            state_dir: None,
            begin_new: false,
            derive: None,
        }
    }

    /// Checks the URL, without a connection.
    ///
    /// # Errors
    /// [`LedgerError::Url`], which does not quote it.
    pub fn check(&self) -> Result<(), LedgerError> {
        Place::parse(&self.url).map(drop)
    }
}

impl std::fmt::Debug for LedgerConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerConfig({:?}, request ids for {:?})", self.budgets, self.request_memory)
    }
}

/// From a version to the fingerprint of its passive parameters.
type FingerprintOf = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Gives the fingerprint of a version's passive parameters, if its manifest is there.
#[derive(Clone)]
pub struct Derive(Arc<FingerprintOf>);

impl Derive {
    /// A way to find fingerprints.
    pub fn new(of: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    fn of(&self, version: &str) -> Option<String> {
        (self.0)(version)
    }
}

/// One request, to be recorded before anything is computed for it.
#[derive(Clone)]
pub struct Spend {
    /// Who asks.
    pub party: PartyName,
    /// The model asked.
    pub model: ModelVersion,
    /// The fingerprint of its passive parties' parameters: shares are bound and models counted by it, not by the version.
    pub passive: String,
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
    /// When by the clock of the process, which nobody sets: the rate goes by it.
    pub uptime: Duration,
}

impl std::fmt::Debug for Spend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spend({}, {}, {:?})", self.party, self.model, self.ids)
    }
}

/// What became of one row. A row that is granted costs a query of its record, whatever becomes of it later; one that is refused
/// is counted in the party's sums, and takes of the rate, but writes nothing of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowVerdict {
    /// It may be answered.
    Granted,
    /// Another logit share is bound to this record and model.
    ShareChanged,
    /// The record's budget is spent.
    RecordBudget,
    /// The record was answered under as many models as allowed, and this is a further one.
    ModelBudget,
}

impl RowVerdict {
    const ALL: [Self; 4] = [Self::Granted, Self::ShareChanged, Self::RecordBudget, Self::ModelBudget];

    const fn letter(self) -> char {
        match self {
            Self::Granted => 'G',
            Self::ShareChanged => 'S',
            Self::RecordBudget => 'R',
            Self::ModelBudget => 'M',
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
    /// What the state directory knows cannot be read.
    #[error("{path} is damaged: restore it, or go on without it by `coordinator serve --begin-new-ledger`")]
    DamagedMark {
        /// The file.
        path: String,
    },
    /// `--begin-new-ledger` without need.
    #[error(
        "--begin-new-ledger was given, but the ledger is the one that this coordinator used last, or its first: start without it"
    )]
    NothingToBegin,
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

impl LedgerError {
    /// The id of the ledger that the state directory knows, where that is what is wrong.
    fn known(&self) -> Option<&str> {
        match self {
            Self::Lost { ledger: known, .. } | Self::Another { known, .. } | Self::OldCopy { known, .. } => Some(known),
            _ => None,
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
    /// are not synchronised; [`LedgerError::Lost`], [`LedgerError::Another`], [`LedgerError::OldCopy`],
    /// [`LedgerError::DamagedMark`] where it is not the one that the state directory knows; [`LedgerError::Storage`] for the
    /// rest.
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
