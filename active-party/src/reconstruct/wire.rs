//! The wire form of what attacks give.

use vfl_shared::rpc::encode_columns;
use vfl_shared::rpc::pb::{self, attack_result as wire};
use vfl_shared::types::Estimates;

use crate::attack::{AttackError, Ended, Evidence, NotRun, Questions, Reconstruction, Status};
use crate::scoring::ModelDescription;

/// What an attack was given beside release and parameters.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// The passive parties that collude, whose features are no target.
    pub(super) colluders: &'a [String],
    /// Records with known passive features.
    pub(super) auxiliary: usize,
}

/// What an attack gave, its estimates dealt out to the passive parties they are about.
pub(super) fn result(
    name: &str,
    model: &ModelDescription,
    given: Given<'_>,
    ended: Result<Reconstruction, AttackError>,
) -> pb::AttackResult {
    let mut out =
        pb::AttackResult { attack: name.to_owned(), auxiliary_records: given.auxiliary as u64, ..Default::default() };
    let found = match ended {
        Err(error) => {
            out.set_refused(refused(error.not_run()));
            out.refusal = error.to_string();
            return out;
        }
        Ok(found) => found,
    };
    let mut from = 0;
    for (party, features) in &model.passive_parties {
        if !given.colluders.contains(party) {
            let block = Estimates::new(found.estimates.rows(from, *features).into_owned());
            let estimates = Some(encode_columns(&block));
            out.blocks.push(wire::Block { passive_party: party.clone(), estimates });
        }
        from += features;
    }
    out.set_outcome(outcome(found.status));
    out.set_evidence(evidence(&found.evidence));
    out.releases = found.releases() as u32;
    if let Some(solved) = &found.solved {
        out.rank = Some(solved.rank as u32);
        // Features that are known beforehand are no unknowns.
        out.unknowns = Some((solved.rank + solved.nullity) as u32);
        out.condition_number = Some(solved.condition_number);
    }
    let count = |ended| found.outcomes.iter().filter(|o| o.ended == ended).count() as u64;
    (out.nearest_consistent, out.step_limit) = (count(Ended::NearestConsistent), count(Ended::StepLimit));
    out.questions = found.questions.map(|questions| match questions {
        Questions::Repeated(averaged) => wire::Questions::Repeated(wire::RepeatedQuestions {
            queries: averaged.queries as u32,
            distinct: averaged.distinct as u32,
        }),
        Questions::Chosen(chosen) => wire::Questions::Chosen(wire::ChosenQuestions {
            questions: chosen.questions as u64,
            asked: chosen.asked as u64,
            refused: chosen.refused as u64,
            gained: chosen.gained as u64,
            records: chosen.records as u64,
        }),
    });
    out.estimated_scores = found.estimated.map(|estimated| wire::EstimatedScores {
        labelled: estimated.labelled as u64,
        seen: estimated.seen as u64,
        own_scores: estimated.own_scores as u64,
        records: estimated.scores.ncols() as u64,
    });
    out.remarks = found.remarks;
    out
}

fn refused(why: NotRun) -> wire::Refused {
    match why {
        NotRun::ParametersHidden => wire::Refused::ParametersHidden,
        NotRun::Missing => wire::Refused::Missing,
        NotRun::Unsuitable => wire::Refused::Unsuitable,
        NotRun::TooLarge => wire::Refused::TooLarge,
        NotRun::Unanswered => wire::Refused::Unanswered,
        NotRun::Settings => wire::Refused::Settings,
        NotRun::Numerics => wire::Refused::Numerics,
    }
}

fn outcome(status: Status) -> wire::Outcome {
    match status {
        Status::Baseline => wire::Outcome::Guess,
        Status::Unique => wire::Outcome::Unique,
        Status::LeastNorm { .. } => wire::Outcome::LeastNorm,
        Status::NearestHalf { .. } => wire::Outcome::NearestHalf,
        Status::BestFit { .. } => wire::Outcome::BestFit,
        Status::Centre { .. } => wire::Outcome::Centre,
        Status::Descent => wire::Outcome::Descent,
        Status::Scaled => wire::Outcome::Scaled,
        Status::Posterior { .. } => wire::Outcome::Posterior,
    }
}

fn evidence(evidence: &Evidence) -> wire::Evidence {
    match evidence {
        Evidence::Nothing => wire::Evidence::Nothing,
        Evidence::Equations(_) => wire::Evidence::Equations,
        Evidence::Cells(_) => wire::Evidence::Cells,
        Evidence::NoisyScores(_) => wire::Evidence::NoisyScores,
    }
}
