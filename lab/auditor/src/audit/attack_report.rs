//! The result of one attack, as the active party reports it.

use super::client::Estimates;
use crate::report::{Refused, Status};

/// The result of one attack.
pub(super) struct AttackReport {
    pub(super) attack: String,
    /// The estimates, or the reason that the attack did not run.
    pub(super) outcome: Result<PartyEstimates, NotRun>,
    /// The most answers about one record that the attack used.
    pub(super) releases: u32,
    /// The questions beyond one honest question a record.
    pub(super) questions: Option<Questions>,
    /// The source of the scores, if they were estimated.
    pub(super) estimated_scores: Option<EstimatedScores>,
    /// The number of records with known passive features that it was given.
    pub(super) auxiliary_records: usize,
    /// Other findings of the attack, in sentences.
    pub(super) remarks: Vec<String>,
}

/// The estimates of an attack that ran.
pub(super) struct PartyEstimates {
    /// The way in which the estimates were found.
    pub(super) status: Status,
    /// The number of records whose scores no features in the box give; the nearest scores that some
    /// features give were taken.
    pub(super) nearest_consistent: u64,
    /// The number of records on which the attack stopped at its limit of steps.
    pub(super) step_limit: u64,
    /// The number of records that the attack is certain to have rebuilt exactly, if it can tell.
    pub(super) certain: Option<u64>,
    /// The mean squared difference between the released scores and those at the estimates, if the
    /// adversary can tell.
    pub(super) score_mismatch: Option<f64>,
    /// The estimates of each passive party's features, by the party's name.
    pub(super) blocks: Vec<(String, Estimates)>,
}

/// The reason that an attack did not run.
pub(super) struct NotRun {
    pub(super) why: Refused,
    pub(super) reason: String,
}

/// The questions of an attack beyond one honest question a record.
pub(super) enum Questions {
    /// The same question, repeated.
    Repeated {
        /// The number of questions a record.
        queries: u32,
        /// The fewest different answers about a record.
        distinct: u32,
    },
    /// Questions with logit shares of its own choice.
    Chosen {
        questions: u64,
        /// The number of rows asked for.
        asked: u64,
        /// The number of rows that were refused.
        refused: u64,
        /// The number of records whose later answers gave more than the first.
        gained: u64,
        records: u64,
    },
}

/// The data that estimated scores come from.
pub(super) struct EstimatedScores {
    pub(super) labelled: u64,
    /// The number of records that were asked about.
    pub(super) seen: u64,
    /// The number of records under attack whose own score was attacked instead.
    pub(super) own_scores: u64,
    /// The number of records under attack.
    pub(super) records: u64,
}

impl AttackReport {
    /// Returns true if the attack lacked the passive parameters.
    pub(super) fn lacked_parameters(&self) -> bool {
        self.outcome.as_ref().is_err_and(|not_run| not_run.why == Refused::ParametersHidden)
    }

    /// Returns the attack's remarks beside its estimates, in sentences.
    pub(super) fn said(&self) -> Vec<String> {
        let asked = self.questions.as_ref().map(|questions| match questions {
            Questions::Repeated { queries, distinct } => {
                format!("{queries} questions, {distinct} distinct answers a record")
            }
            Questions::Chosen { questions, asked, refused, gained, records } => format!(
                "{questions} questions, {refused} of {asked} rows refused, {gained} of {records} records gave more than once"
            ),
        });
        let estimated = self.estimated_scores.as_ref().map(|estimated| {
            let EstimatedScores { labelled, seen, own_scores, records } = estimated;
            format!(
                "scores estimated by a model of the adversary's own features, fitted to {labelled} labelled records and {seen} \
                 records seen; {own_scores} of the {records} records under attack had their own score, which was attacked instead"
            )
        });
        let known = (self.auxiliary_records > 0).then(|| {
            format!(
                "given {} records whose passive features the active party knows",
                self.auxiliary_records
            )
        });
        asked
            .into_iter()
            .chain(estimated)
            .chain(known)
            .chain(self.remarks.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_on_estimated_scores_counts_those_that_were_not_estimated() {
        let found = AttackReport {
            attack: "agnostic".into(),
            outcome: Err(NotRun { why: Refused::Unknown, reason: "why".into() }),
            releases: 0,
            questions: None,
            estimated_scores: Some(EstimatedScores {
                labelled: 7,
                seen: 3,
                own_scores: 3,
                records: 9,
            }),
            auxiliary_records: 0,
            remarks: Vec::new(),
        };
        let said = found.said();
        assert!(
            said[0].contains("3 of the 9 records under attack had their own score"),
            "{said:?}"
        );
        assert!(said[0].contains("7 labelled records and 3 records seen"), "{said:?}");
    }
}
