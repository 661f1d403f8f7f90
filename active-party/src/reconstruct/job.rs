//! What an auditor asks for, checked.

use vfl_shared::types::{ModelVersion, RecordIds};

use super::helped::AuxiliaryIds;
use crate::attack::{Method, Needs, Settings};

/// One attack to run.
pub(super) struct Task {
    pub(super) method: Method,
    pub(super) settings: Settings,
    pub(super) needs: Needs,
}

impl Task {
    pub(super) fn new(method: Method, settings: Settings) -> Self {
        Self { needs: method.build(&settings).needs(), method, settings }
    }

    /// How many of the first of `records` records it needs the scores of.
    pub(super) fn asks(&self, records: usize) -> usize {
        // Whoever asks with shares of its own choice asks honestly first.
        if self.needs.release.wanted() || self.needs.chosen_shares.wanted() { records } else { self.needs.seen }
    }

    /// The method that is run in the end: the base of one that wraps another.
    pub(super) fn effective_method(&self) -> Method {
        self.method.base(&self.settings).unwrap_or(self.method)
    }
}

/// A checked request.
pub struct Job {
    pub(super) audit_session: String,
    pub(super) version: ModelVersion,
    pub(super) ids: RecordIds,
    pub(super) tasks: Vec<Task>,
    pub(super) seed: u64,
    /// How often every record is asked for.
    pub(super) queries: usize,
    /// Records whose passive features this party knows.
    pub(super) auxiliary: AuxiliaryIds,
    /// Passive parties that lend their shares.
    pub(super) colluders: Vec<String>,
}
