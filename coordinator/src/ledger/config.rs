//! Where the ledger is and what it allows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::budgets::Budgets;
use super::connection::Place;
use super::error::LedgerError;
use super::journal::JournalLimits;
use super::meter::LedgerMeter;

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
    /// Whether other coordinators use it too: PostgreSQL only.
    pub shared: bool,
    /// What coordinators that share it must have in common beside the budgets, by name, in words.
    pub terms: BTreeMap<String, String>,
    /// Finds the fingerprints of versions that an older program recorded without.
    pub derive: Option<Derive>,
    /// When rows go to the journal of the embedded ledger.
    pub journal: JournalLimits,
    /// What is measured of it. By default nobody reads that.
    pub meter: LedgerMeter,
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
    /// [`LedgerError::Url`], which does not quote it; [`LedgerError::SharedFile`].
    pub fn check(&self) -> Result<(), LedgerError> {
        match Place::parse(&self.url)? {
            Place::Sqlite(_) if self.shared => Err(LedgerError::SharedFile),
            _ => Ok(()),
        }
    }

    /// What coordinators that share the ledger must have in common, by name.
    pub(super) fn terms(&self) -> BTreeMap<String, String> {
        let limit = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        let Budgets { records, queries_per_record, models_per_record, bits_per_record, rows_per_minute } = self.budgets;
        let budgets = [
            ("[budget] records", limit(records)),
            ("[budget] queries_per_record", limit(queries_per_record)),
            ("[budget] models_per_record", limit(models_per_record)),
            ("[budget] rows_per_minute", limit(rows_per_minute)),
            ("[ledger] request_memory_h", format!("{}", self.request_memory.as_secs_f64() / 3600.0)),
        ];
        // Named only where it is set: coordinators of before know nothing of it.
        let bits = bits_per_record.map(|bits| ("[budget] bits_per_record", bits.to_string()));
        let budgets = budgets.into_iter().chain(bits).map(|(name, value)| (name.to_owned(), value));
        self.terms.clone().into_iter().chain(budgets).collect()
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

    pub(super) fn of(&self, version: &str) -> Option<String> {
        (self.0)(version)
    }
}
