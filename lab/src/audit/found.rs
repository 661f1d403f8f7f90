//! What attacks say of themselves, as the report has it.

use vfl_shared::rpc::pb::AttackResult;
use vfl_shared::rpc::pb::attack_result::{
    ChosenQuestions, EstimatedScores, Outcome, Questions, Refused as WireRefused, RepeatedQuestions,
};

use crate::report::{Refused, Status};

/// What kept an attack from running; `None` if it ran.
pub(super) fn not_run(result: &AttackResult) -> Option<Refused> {
    Some(match result.refused() {
        WireRefused::Unspecified if result.refusal.is_empty() => return None,
        WireRefused::Unspecified => Refused::Unknown,
        WireRefused::ParametersHidden => Refused::ParametersHidden,
        WireRefused::Missing => Refused::Missing,
        WireRefused::Unsuitable => Refused::Unsuitable,
        WireRefused::TooLarge => Refused::TooLarge,
        WireRefused::Unanswered => Refused::Unanswered,
        WireRefused::Settings => Refused::Settings,
        WireRefused::Numerics => Refused::Numerics,
    })
}

/// How an attack's estimates come about.
pub(super) fn status(result: &AttackResult) -> Status {
    let (rank, unknowns) = (result.rank() as usize, result.unknowns() as usize);
    match result.outcome() {
        Outcome::Unspecified | Outcome::Guess => Status::Guess,
        Outcome::Unique => Status::Unique,
        // A defense that leaves bounds leaves many solutions of equations that would have one.
        Outcome::LeastNorm => Status::LeastNorm { rank, unknowns },
        Outcome::NearestHalf => Status::NearestHalf { rank, unknowns },
        Outcome::BestFit => Status::BestFit { rank, unknowns },
        Outcome::Centre => Status::Centre { rank, unknowns },
        Outcome::Descent => Status::Descent,
        Outcome::Scaled => Status::Scaled,
    }
}

/// What an attack has to say beside its estimates, in sentences.
pub(super) fn said(result: &AttackResult) -> Vec<String> {
    let asked = result.questions.as_ref().map(|questions| match questions {
        Questions::Repeated(RepeatedQuestions { queries, distinct }) => {
            format!("{queries} questions, {distinct} distinct answers a record")
        }
        Questions::Chosen(ChosenQuestions { questions, asked, refused, gained, records }) => format!(
            "{questions} questions, {refused} of {asked} rows refused, {gained} of {records} records gave more than once"
        ),
    });
    let estimated = result.estimated_scores.as_ref().map(|estimated| {
        let EstimatedScores { labelled, seen, own_scores, records } = estimated;
        format!(
            "scores estimated by a model of the adversary's own features, fitted to {labelled} labelled records and {seen} \
             records seen; {own_scores} of the {records} records under attack had their own score, which was attacked instead"
        )
    });
    let known = (result.auxiliary_records > 0)
        .then(|| format!("given {} records whose passive features the active party knows", result.auxiliary_records));
    asked.into_iter().chain(estimated).chain(known).chain(result.remarks.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_on_estimated_scores_counts_those_that_were_not_estimated() {
        let estimated = EstimatedScores { labelled: 7, seen: 3, own_scores: 3, records: 9 };
        let result = AttackResult { estimated_scores: Some(estimated), ..Default::default() };
        let said = said(&result);
        assert!(said[0].contains("3 of the 9 records under attack had their own score"), "{said:?}");
        assert!(said[0].contains("7 labelled records and 3 records seen"), "{said:?}");
    }

    #[test]
    fn an_attack_that_gives_no_reason_in_kind_has_not_run_all_the_same() {
        let result = AttackResult { refusal: "why".into(), ..Default::default() };
        assert_eq!(not_run(&result), Some(Refused::Unknown));
        assert_eq!(not_run(&AttackResult::default()), None);
    }
}
