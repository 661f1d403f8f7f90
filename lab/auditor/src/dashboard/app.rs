//! The state behind the pages: the config file, the folder of audits, the running audit and the
//! ledger.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use vfl_protocol::ledger::{RecordUse, Summary};
use vfl_server::cli::CliError;

use super::draft::Source;
use super::error_page::ErrorPage;
use super::guard::Guard;
use super::pages::PartyAnswers;
use super::runner::Runner;
use super::store::Store;
use crate::audit_config::ConfiguredAudit;

/// A reader of the coordinator's ledger: returns the totals and, if a record is named, its uses.
/// The error says why the ledger cannot be read.
pub type ReadLedger = Box<
    dyn Fn(Option<String>) -> BoxFuture<'static, Result<(Summary, Vec<RecordUse>), String>>
        + Send
        + Sync,
>;

/// The state that requests share.
pub(super) struct App {
    /// The access control.
    pub(super) guard: Guard,
    /// The folder of audits.
    pub(super) store: Store,
    /// The runner of audits.
    pub(super) runner: Runner,
    /// The reader of the ledger, if one was named.
    pub(super) ledger: Option<ReadLedger>,
    config: PathBuf,
    asked: Mutex<Option<PartyAnswers>>,
}

impl App {
    /// Checks the config file and what it names.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it; [`CliError::Failed`] if the
    /// folder of audits cannot be made.
    pub(super) fn new(
        config: PathBuf,
        out: &std::path::Path,
        ledger: Option<ReadLedger>,
        guard: Guard,
    ) -> Result<Self, CliError> {
        Source::read(&config)?.audited()?;
        let store = Store::open(out).map_err(CliError::Failed)?;
        Ok(Self {
            guard,
            runner: Runner::new(store.clone()),
            store,
            ledger,
            config,
            asked: Mutex::default(),
        })
    }

    /// Reads the config file again: it may have been corrected since the dashboard was started.
    ///
    /// # Errors
    /// [`ErrorPage`] with the fault in it.
    pub(super) fn source(&self) -> Result<(Source, ConfiguredAudit), ErrorPage> {
        let read = Source::read(&self.config).and_then(|source| Ok((source.audited()?, source)));
        let (audited, source) = read
            .map_err(|e| ErrorPage::setting(format!("{e}. Mend it and load this page again.")))?;
        Ok((source, audited))
    }

    /// Returns the last answers of the passive parties.
    pub(super) fn asked(&self) -> Option<PartyAnswers> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the answers of the passive parties.
    pub(super) fn keep(&self, asked: PartyAnswers) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
    }
}
