//! What one attack gave, as the active party says it.

use super::client::Estimates;
use crate::report::{Refused, Status};

/// What one attack gave.
pub(super) struct Found {
    /// The attack's name.
    pub(super) attack: String,
    /// Its estimates, or what kept it from running.
    pub(super) outcome: Result<Rebuilt, NotRun>,
    /// Answers that it used of the record it had most of.
    pub(super) releases: u32,
    /// What it asked beyond one honest question a record.
    pub(super) questions: Option<Questions>,
    /// What the scores came from, if they were estimates.
    pub(super) estimated_scores: Option<EstimatedScores>,
    /// How many records with known passive features it was given.
    pub(super) auxiliary_records: usize,
    /// What else it found out, in sentences.
    pub(super) remarks: Vec<String>,
}

/// The estimates of an attack that ran.
pub(super) struct Rebuilt {
    /// How they came about.
    pub(super) status: Status,
    /// Records whose scores no features in the box give: the nearest scores that some give were taken.
    pub(super) nearest_consistent: u64,
    /// Records on which the attack stopped at its limit of steps.
    pub(super) step_limit: u64,
    /// Records that it is certain to have rebuilt exactly, where it says so of records.
    pub(super) certain: Option<u64>,
    /// Mean squared difference of the released scores and those at the estimates, where the adversary can tell.
    pub(super) score_mismatch: Option<f64>,
    /// The estimates of each passive party's features, by the party's name.
    pub(super) blocks: Vec<(String, Estimates)>,
}

/// What kept an attack from running.
pub(super) struct NotRun {
    /// The kind of reason.
    pub(super) why: Refused,
    /// The reason in words.
    pub(super) reason: String,
}

/// What an attack asked beyond one honest question a record.
pub(super) enum Questions {
    /// The same question again.
    Repeated {
        /// Questions a record.
        queries: u32,
        /// Different answers of the record that had fewest.
        distinct: u32,
    },
    /// Questions with logit shares of its own choice.
    Chosen {
        /// Questions.
        questions: u64,
        /// Rows asked for.
        asked: u64,
        /// Rows that were refused.
        refused: u64,
        /// Records of which more was learnt than from their first answer.
        gained: u64,
        /// All records.
        records: u64,
    },
}

/// What the scores under attack were estimated from.
pub(super) struct EstimatedScores {
    /// Labelled records.
    pub(super) labelled: u64,
    /// Records that were asked about.
    pub(super) seen: u64,
    /// Records under attack whose own score was attacked instead.
    pub(super) own_scores: u64,
    /// All records under attack.
    pub(super) records: u64,
}

impl Found {
    /// Whether it lacked the passive parameters.
    pub(super) fn lacked_parameters(&self) -> bool {
        self.outcome.as_ref().is_err_and(|not_run| not_run.why == Refused::ParametersHidden)
    }

    /// What the attack has to say beside its estimates, in sentences.
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
        let known = (self.auxiliary_records > 0)
            .then(|| format!("given {} records whose passive features the active party knows", self.auxiliary_records));
        asked.into_iter().chain(estimated).chain(known).chain(self.remarks.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_on_estimated_scores_counts_those_that_were_not_estimated() {
        let found = Found {
            attack: "agnostic".into(),
            outcome: Err(NotRun { why: Refused::Unknown, reason: "why".into() }),
            releases: 0,
            questions: None,
            estimated_scores: Some(EstimatedScores { labelled: 7, seen: 3, own_scores: 3, records: 9 }),
            auxiliary_records: 0,
            remarks: Vec::new(),
        };
        let said = found.said();
        assert!(said[0].contains("3 of the 9 records under attack had their own score"), "{said:?}");
        assert!(said[0].contains("7 labelled records and 3 records seen"), "{said:?}");
    }
}
