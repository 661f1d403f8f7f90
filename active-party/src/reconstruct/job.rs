//! A job: the checked form of an auditor's request.

use std::collections::HashSet;

use vfl_attack::{Method, Needs, Settings};
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_protocol::reconstruct::AuxiliaryIds;
use vfl_protocol::{Refusal, rough};

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

    /// Returns how many records the attack needs scores of: the first ones of `records`.
    pub(super) fn asks(&self, records: usize) -> usize {
        // Guesses look at no score. But the summary and the accuracy of their session are about
        // records that were asked about. An attack with shares of its own choice asks honestly
        // first.
        let estimates = self.needs.labelled.wanted() && !self.needs.release.wanted();
        if estimates { self.needs.seen } else { records }
    }

    /// Returns the method that is run in the end: the base of one that wraps another.
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
    /// The number of times that every record is asked for.
    pub(super) queries: usize,
    /// Records whose passive features this party knows.
    pub(super) auxiliary: AuxiliaryIds,
    /// Passive parties that lend their shares.
    pub(super) colluders: Vec<String>,
}

/// Checks the auxiliary records of a request. Ids and session may both be empty.
///
/// # Errors
/// INVALID_ARGUMENT if only one of them is given, or if a record is under attack itself.
pub(super) fn check_auxiliary(
    auxiliary: AuxiliaryIds,
    targets: &RecordIds,
) -> Result<AuxiliaryIds, Refusal> {
    if auxiliary.ids.is_empty() != auxiliary.session.is_empty() {
        let message = "`auxiliary_ids` and `auxiliary_session` come together: the session that answers the records";
        return Err(Refusal::invalid(message));
    }
    let targets: HashSet<&str> = targets.iter().collect();
    let both = auxiliary.ids.iter().filter(|id| targets.contains(id)).count();
    if both > 0 {
        let message = format!(
            "{} of the `auxiliary_ids` are among the records under attack; name other records",
            rough(both)
        );
        return Err(Refusal::invalid(message));
    }
    Ok(auxiliary)
}
