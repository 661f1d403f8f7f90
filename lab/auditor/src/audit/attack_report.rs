//! The result of one attack, as the active party reports it, in the words of the report.

use vfl_protocol::reconstruct::{AttackReport, EstimatedScores, Origin, PartyEstimates, Questions};

use crate::report::{Refused, Status};

/// Returns true if the attack lacked the passive parameters.
pub(super) fn lacked_parameters(report: &AttackReport) -> bool {
    report.outcome.as_ref().is_err_and(|not_run| not_run.why == Refused::ParametersHidden)
}

/// Returns the way in which an attack found its estimates.
pub(super) fn status(found: &PartyEstimates) -> Status {
    let (rank, unknowns) = (found.rank.unwrap_or(0) as usize, found.unknowns.unwrap_or(0) as usize);
    match found.origin {
        Origin::Guess => Status::Guess,
        Origin::Unique => Status::Unique,
        // A defense that leaves bounds leaves many solutions of equations that would otherwise have
        // one.
        Origin::LeastNorm => Status::LeastNorm { rank, unknowns },
        Origin::NearestHalf => Status::NearestHalf { rank, unknowns },
        Origin::BestFit => Status::BestFit { rank, unknowns },
        Origin::Centre => Status::Centre { rank, unknowns },
        Origin::Descent => Status::Descent,
        Origin::Scaled => Status::Scaled,
        Origin::Posterior => Status::Posterior { rank, unknowns },
        Origin::Regression => Status::Regression,
        Origin::LayerByLayer => Status::LayerByLayer,
        Origin::GridPoint => Status::GridPoint { rank, unknowns },
    }
}

/// Returns the attack's remarks beside its estimates, in sentences.
pub(super) fn said(report: &AttackReport) -> Vec<String> {
    let asked = report.questions.as_ref().map(|questions| match questions {
        Questions::Repeated { queries, distinct } => {
            format!("{queries} questions, {distinct} distinct answers a record")
        }
        Questions::Chosen { questions, asked, refused, gained, records } => format!(
            "{questions} questions, {refused} of {asked} rows refused, {gained} of {records} records gave more than once"
        ),
    });
    let estimated = report.estimated_scores.as_ref().map(|estimated| {
        let EstimatedScores { labelled, seen, own_scores, records } = estimated;
        format!(
            "scores estimated by a model of the adversary's own features, fitted to {labelled} labelled records and {seen} \
             records seen; {own_scores} of the {records} records under attack had their own score, which was attacked instead"
        )
    });
    let known = (report.auxiliary_records > 0).then(|| {
        format!(
            "given {} records whose passive features the active party knows",
            report.auxiliary_records
        )
    });
    asked.into_iter().chain(estimated).chain(known).chain(report.remarks.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use vfl_protocol::reconstruct::NotRun;

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
        let said = said(&found);
        assert!(
            said[0].contains("3 of the 9 records under attack had their own score"),
            "{said:?}"
        );
        assert!(said[0].contains("7 labelled records and 3 records seen"), "{said:?}");
    }
}
