//! Reports the results of attacks to the auditor.

use std::ops::Range;

use vfl_attack::{self as attack, AttackError, FailureClass, Method, Status, Termination};
use vfl_core::types::Estimates;
use vfl_protocol::EncodedEstimates;
use vfl_protocol::reconstruct::{
    AttackReport, EstimatedScores, Evidence, NotRun, Origin, PartyEstimates, Questions, Refused,
};

use super::adversary_inputs::AttackEstimates;

/// The result of one attack.
#[derive(Debug)]
pub(crate) struct AttackOutcome {
    pub(crate) method: Method,
    /// The parties whose features are attacked.
    pub(crate) targets: Vec<Target>,
    /// The number of records with known passive features that the attack had.
    pub(crate) auxiliary_records: usize,
    /// The estimates of all passive features, or the reason why there are none.
    pub(crate) ended: Result<AttackEstimates, AttackError>,
}

/// A passive party that is attacked.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) party: String,
    /// The range of its features among those of all passive parties.
    pub(crate) features: Range<usize>,
}

impl From<AttackOutcome> for AttackReport {
    /// Splits the estimates by passive party.
    fn from(attacked: AttackOutcome) -> Self {
        let AttackOutcome { method, targets, auxiliary_records, ended } = attacked;
        let report = Self {
            attack: method.as_str().to_owned(),
            outcome: Err(NotRun { why: Refused::Unknown, reason: String::new() }),
            releases: 0,
            questions: None,
            estimated_scores: None,
            auxiliary_records,
            remarks: Vec::new(),
        };
        let AttackEstimates { found, score_mismatch } = match ended {
            Ok(estimates) => estimates,
            Err(error) => {
                let not_run = NotRun { why: refused(error.not_run()), reason: error.to_string() };
                return Self { outcome: Err(not_run), ..report };
            }
        };
        let block = |target: Target| {
            let rows = found.estimates.rows(target.features.start, target.features.len());
            (target.party, EncodedEstimates::from(&Estimates::new(rows.into_owned())))
        };
        let count = |ended| found.outcomes.iter().filter(|o| o.ended == ended).count() as u64;
        let certain = || found.certain.iter().filter(|certain| **certain).count() as u32;
        let solved = found.solved.as_ref();
        // Along tangents no single system was solved.
        let features = found.estimates.nrows();
        let (rank, unknowns) = match (solved, found.status) {
            (Some(of), _) => (Some(of.rank), Some(of.rank + of.nullity)),
            (
                None,
                Status::GridPoint { rank } | Status::Posterior { rank } | Status::Centre { rank },
            ) => (Some(rank), Some(features)),
            (None, _) => (None, None),
        };
        let estimates = PartyEstimates {
            origin: origin(found.status),
            rank: rank.map(|rank| rank as u32),
            // Features that are known beforehand are not unknowns.
            unknowns: unknowns.map(|unknowns| unknowns as u32),
            condition_number: solved.map(|of| of.condition_number),
            nearest_consistent: count(Termination::NearestConsistent),
            step_limit: count(Termination::StepLimit),
            certain: (!found.certain.is_empty()).then(certain),
            score_mismatch,
            evidence: evidence(&found.evidence),
            blocks: targets.into_iter().map(block).collect(),
        };
        Self {
            outcome: Ok(estimates),
            releases: found.releases() as u32,
            questions: found.questions.map(questions),
            estimated_scores: found.estimated.map(|estimated| EstimatedScores {
                labelled: estimated.labelled as u64,
                seen: estimated.seen as u64,
                own_scores: estimated.own_scores as u64,
                records: estimated.scores.ncols() as u64,
            }),
            remarks: found.remarks,
            ..report
        }
    }
}

fn questions(questions: attack::Questions) -> Questions {
    match questions {
        attack::Questions::Repeated(averaged) => Questions::Repeated {
            queries: averaged.queries as u32,
            distinct: averaged.distinct as u32,
        },
        attack::Questions::Chosen(chosen) => Questions::Chosen {
            questions: chosen.questions as u64,
            asked: chosen.asked as u64,
            refused: chosen.refused as u64,
            gained: chosen.gained as u64,
            records: chosen.records as u64,
        },
    }
}

fn refused(why: FailureClass) -> Refused {
    match why {
        FailureClass::ParametersHidden => Refused::ParametersHidden,
        FailureClass::Missing => Refused::Missing,
        FailureClass::Unsuitable => Refused::Unsuitable,
        FailureClass::TooLarge => Refused::TooLarge,
        FailureClass::Unanswered => Refused::Unanswered,
        FailureClass::Settings => Refused::Settings,
        FailureClass::Numerics => Refused::Numerics,
    }
}

fn origin(status: Status) -> Origin {
    match status {
        Status::Baseline => Origin::Guess,
        Status::Unique => Origin::Unique,
        Status::LeastNorm { .. } => Origin::LeastNorm,
        Status::NearestHalf { .. } => Origin::NearestHalf,
        Status::BestFit { .. } => Origin::BestFit,
        Status::Centre { .. } => Origin::Centre,
        Status::Descent => Origin::Descent,
        Status::Scaled => Origin::Scaled,
        Status::Posterior { .. } => Origin::Posterior,
        Status::Regression => Origin::Regression,
        Status::LayerByLayer => Origin::LayerByLayer,
        Status::GridPoint { .. } => Origin::GridPoint,
    }
}

fn evidence(evidence: &attack::Evidence) -> Evidence {
    match evidence {
        attack::Evidence::Nothing => Evidence::Nothing,
        attack::Evidence::Equations(_) => Evidence::Equations,
        attack::Evidence::Cells(_) => Evidence::Cells,
        attack::Evidence::NoisyScores(_) => Evidence::NoisyScores,
        attack::Evidence::Fits(fits) if fits.are_noisy_scores() => Evidence::NoisyScores,
        attack::Evidence::Fits(_) => Evidence::Cells,
    }
}
