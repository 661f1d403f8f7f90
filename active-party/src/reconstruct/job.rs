//! What is to be run: the checked form of what an auditor asks for.

use std::collections::HashSet;

use vfl_shared::rpc::{Refusal, rough};
use vfl_shared::types::{ModelVersion, RecordIds};

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
        // Guesses look at no score, but a session of theirs is one of records that were asked about: its summary and the accuracy are
        // of these. Whoever asks with shares of its own choice asks honestly first.
        let estimates = self.needs.labelled.wanted() && !self.needs.release.wanted();
        if estimates { self.needs.seen } else { records }
    }

    /// The method that is run in the end: the base of one that wraps another.
    pub(super) fn effective_method(&self) -> Method {
        self.method.base(&self.settings).unwrap_or(self.method)
    }
}

/// A checked request.
pub(crate) struct Job {
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

/// Auxiliary records, and the session that answers them.
#[derive(Default)]
pub(super) struct AuxiliaryIds {
    pub(super) ids: RecordIds,
    pub(super) session: String,
}

impl AuxiliaryIds {
    /// Checks what a request says of them; both may be empty.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where one is there without the other, or where a record is under attack itself.
    pub(super) fn new(ids: RecordIds, session: String, targets: &RecordIds) -> Result<Self, Refusal> {
        if ids.is_empty() != session.is_empty() {
            let message = "`auxiliary_ids` and `auxiliary_session` come together: the session that answers the records";
            return Err(Refusal::invalid(message));
        }
        let targets: HashSet<&str> = targets.iter().collect();
        let both = ids.iter().filter(|id| targets.contains(id)).count();
        if both > 0 {
            let message = format!(
                "{} of the `auxiliary_ids` are among the records under attack; name other records",
                rough(both)
            );
            return Err(Refusal::invalid(message));
        }
        Ok(Self { ids, session })
    }
}
