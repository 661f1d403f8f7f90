//! The configuration of the ledger: its location and its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Budgets;
use super::connection::DatabaseLocation;
use super::error::LedgerError;
use super::journal::JournalLimits;
use super::meter::LedgerMeter;

/// The location of the ledger, its limits and its options.
#[derive(Clone)]
pub struct LedgerConfig {
    /// The URL: `sqlite:PATH` or `postgres://…`.
    pub url: String,
    /// The budgets of each active party.
    pub budgets: Budgets,
    /// Time for which a request id is remembered; a retry within that time costs nothing. 24 hours
    /// are usual.
    pub request_memory: Duration,
    /// Directory that remembers which ledger this is and how far it had come; `None`: a ledger that
    /// is lost is not missed.
    pub state_dir: Option<PathBuf>,
    /// True to go on with what is at the URL, whatever the state directory remembers; refused where
    /// it remembers nothing else.
    pub begin_new: bool,
    /// True if other coordinators use it too: PostgreSQL only.
    pub shared: bool,
    /// The settings that coordinators sharing it must have in common beside the budgets, by name,
    /// in words.
    pub terms: BTreeMap<String, String>,
    /// The source of fingerprints of versions that an older program recorded without.
    pub derive: Option<FingerprintLookup>,
    /// The limits beyond which rows go to the journal of the embedded ledger.
    pub journal: JournalLimits,
    /// The measurements of the ledger. By default nobody reads them.
    pub meter: LedgerMeter,
}

impl LedgerConfig {
    /// Creates a config with default budgets, request ids remembered for a day, and no state
    /// directory.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            budgets: Budgets::default(),
            request_memory: Duration::from_secs(24 * 3600),
            state_dir: None,
            begin_new: false,
            shared: false,
            terms: BTreeMap::new(),
            derive: None,
            journal: JournalLimits::default(),
            meter: LedgerMeter::default(),
        }
    }

    /// Checks the URL, without a connection.
    ///
    /// # Errors
    /// [`LedgerError::Url`], which does not quote it; [`LedgerError::SharedFile`];
    /// [`LedgerError::Unsupported`] for PostgreSQL in a program that was built without it.
    pub fn check(&self) -> Result<(), LedgerError> {
        match DatabaseLocation::parse(&self.url)? {
            DatabaseLocation::Sqlite(_) if self.shared => Err(LedgerError::SharedFile),
            _ => Ok(()),
        }
    }

    /// Returns the settings that coordinators sharing the ledger must have in common, by name.
    pub(super) fn terms(&self) -> BTreeMap<String, String> {
        let limit = |limit: Option<u64>| {
            limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
        };
        let Budgets {
            records,
            queries_per_record,
            models_per_record,
            bits_per_record,
            rows_per_minute,
        } = self.budgets;
        let budgets = [
            ("[budget] records", limit(records)),
            ("[budget] queries_per_record", limit(queries_per_record)),
            ("[budget] models_per_record", limit(models_per_record)),
            ("[budget] rows_per_minute", limit(rows_per_minute)),
            (
                "[ledger] request_memory_h",
                format!("{}", self.request_memory.as_secs_f64() / 3600.0),
            ),
        ];
        // Named only where it is set: earlier versions of the coordinator do not know it.
        let bits = bits_per_record.map(|bits| ("[budget] bits_per_record", bits.to_string()));
        let budgets = budgets.into_iter().chain(bits).map(|(name, value)| (name.to_owned(), value));
        self.terms.clone().into_iter().chain(budgets).collect()
    }
}

impl std::fmt::Debug for LedgerConfig {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerConfig({:?}, request ids for {:?})", self.budgets, self.request_memory)
    }
}

/// A function from a version to the fingerprint of its passive parameters.
type FingerprintOf = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The source of fingerprints: gives that of a version's passive parameters, if its manifest is
/// there.
#[derive(Clone)]
pub struct FingerprintLookup(Arc<FingerprintOf>);

impl FingerprintLookup {
    /// Wraps a function that finds fingerprints.
    pub fn new(of: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    pub(super) fn of(&self, version: &str) -> Option<String> {
        (self.0)(version)
    }
}
