//! Opens a set of records for scoring: checks if it may be opened, and limits what a refusal
//! reveals.

use std::collections::HashSet;
use std::sync::Arc;

use vfl_core::types::RecordIds;
use vfl_features::features::Features;
use vfl_protocol::{Refusal, RefusalKind, rough};

use super::counting::{Evaluations, exhausted};
use super::open_set::Evaluation;
use super::record::{LoadedRecord, ScoredSet, set_name};
use crate::config::AuditMode;

/// The fewest records of a scoring. If fewer of an opening are not held, their number is not
/// reported either.
pub const MIN_RECORDS: usize = 100;

impl Evaluations {
    /// Opens a set of records for scoring.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer than 100 records. NOT_FOUND if some are not held here (their
    /// number only from 100 on, never which ones) and FAILED_PRECONDITION if the set overlaps
    /// another one; both are counted, and RESOURCE_EXHAUSTED if there were too many of them, or in
    /// trusted mode too many sets. FAILED_PRECONDITION in noised mode if the set was scored without
    /// noise. UNAVAILABLE or INTERNAL, uncounted, if the features are not available. Waits for a
    /// store that is not in memory.
    pub fn start(
        self: &Arc<Self>,
        features: &Features,
        ids: &RecordIds,
    ) -> Result<Evaluation, Refusal> {
        loop {
            if let Some(evaluation) = self.try_start(features, ids)? {
                return Ok(evaluation);
            }
        }
    }

    /// Tries to open a set of records; `None` if another process has changed the record meanwhile.
    fn try_start(
        self: &Arc<Self>,
        features: &Features,
        ids: &RecordIds,
    ) -> Result<Option<Evaluation>, Refusal> {
        if ids.len() < MIN_RECORDS {
            let message =
                format!("a scoring takes at least {MIN_RECORDS} records, {} came", ids.len());
            return Err(Refusal::invalid(message));
        }
        let mut sorted: Vec<&str> = ids.iter().collect();
        sorted.sort_unstable();
        let set = set_name(&sorted);
        let trusted = self.policy().mode == AuditMode::Trusted;
        let mut kept = self.newest()?;
        let record = &kept.record;
        let known = record.find(&set).map(|s| s.exact);
        let closed = !trusted && record.sets.iter().any(|s| s.closed && s.set == set);
        if closed || known == Some(true) && !trusted {
            let message = "these records were scored without noise before, so that no budget protects them; audit other records";
            return Err(Refusal::precondition(message));
        }
        // Refusals that do not depend on the records come before the look at them, and so reveal
        // nothing.
        if trusted && known != Some(true) && record.sets_left(self.policy()) == 0 {
            return Err(exhausted(
                "no further set of records can be scored here; score one that was scored before, or ask the owner to renew \
                 (passive-party scorings renew)"
                    .into(),
            ));
        }
        if known.is_none() && record.refusals_left(self.policy()) == 0 {
            return Err(exhausted(
                "too many openings were refused because of their records, so that no new set is opened; score one that was scored \
                 before, or ask the owner to renew (passive-party scorings renew)"
                    .into(),
            ));
        }
        let found = features
            .lookup_waiting(ids)
            .map_err(|e| vfl_features::features::refusal_for_others(&e, "this passive party"))?;
        let missing = ids.len() - found.held.len();
        if missing > 0 {
            let message =
                format!("{} of the {} records are not held here", rough(missing), ids.len());
            return self.refuse_opening(&mut kept, RefusalKind::NotFound, &message);
        }
        if known.is_none() {
            let wanted: HashSet<&str> = sorted.iter().copied().collect();
            let shares_records =
                |s: &ScoredSet| s.ids.iter().any(|id| wanted.contains(id.as_str()));
            if !trusted && record.sets.iter().any(|s| s.closed && shares_records(s)) {
                let message = "records of the set were scored without noise before, so that no budget protects them; audit \
                               other records";
                return self.refuse_opening(&mut kept, RefusalKind::FailedPrecondition, message);
            }
            if record.open_sets().any(shares_records) {
                let message = match trusted {
                    true => {
                        "the set overlaps another one that was scored before; score that very set again, one that shares \
                             no record with it, or ask the owner to begin anew (passive-party scorings begin-anew)"
                    }
                    false => {
                        "the set overlaps another one that was scored before; score that very set again, or one that shares \
                              no record with it"
                    }
                };
                return self.refuse_opening(&mut kept, RefusalKind::FailedPrecondition, message);
            }
        }
        let truth = found.block;
        if known.is_none() || (trusted && known == Some(false)) {
            // A set that is not on disk must not count as known: after a restart its overlap would
            // not be seen.
            let counted = self.change_kept(&mut kept, |record| {
                if known.is_none() {
                    let ids = sorted.iter().map(|&id| id.to_owned()).collect();
                    record.sets.push(ScoredSet::new(set.clone(), ids));
                }
                if let Some(found) = record.find_mut(&set) {
                    // The opening reports the errors of the two baselines.
                    found.exact |= trusted;
                }
                Ok(())
            })?;
            if counted.is_none() {
                return Ok(None);
            }
        }
        drop(kept);
        Ok(Some(Evaluation::new(self.clone(), set, ids.clone(), truth, features.schema())))
    }

    /// Counts an opening that is refused because of its records, before the refusal leaves; `None`
    /// as in [`Self::change_kept`].
    fn refuse_opening<T>(
        &self,
        kept: &mut LoadedRecord,
        kind: RefusalKind,
        message: &str,
    ) -> Result<Option<T>, Refusal> {
        let counted = self.change_kept(kept, |record| {
            record.refused_openings = record.refused_openings.saturating_add(1);
            Ok(record.refusals_left(self.policy()))
        })?;
        match counted {
            Some(left) => {
                Err(Refusal::new(kind, format!("{message} ({left} more openings may be refused)")))
            }
            None => Ok(None),
        }
    }
}
