//! Converts messages to auditors' requests, and results of attacks to messages.

use vfl_attack::{Evidence, FailureClass, MethodError, Questions, Settings, Status, Termination};
use vfl_core::types::{Estimates, RecordIds};
use vfl_protocol::pb::attack_result as wire;
use vfl_protocol::pb::reconstruct_event::Event as WireEvent;
use vfl_protocol::{Refusal, WireError, encode_columns, pb, require};

use super::adversary_inputs::AttackEstimates;
use super::event::{AttackOutcome, Event};
use super::request::ReconstructionRequest;

/// The most attacks of one call.
const MAX_ATTACKS: usize = 64;

/// The most settings of one attack, more than there are. Of each name only the last counts, so
/// there is no use in reading more.
const MAX_SETTINGS: usize = 64;

impl TryFrom<pb::ReconstructRequest> for ReconstructionRequest {
    type Error = Refusal;

    /// Reads a request. The error is INVALID_ARGUMENT with the field, the attack or the setting.
    fn try_from(request: pb::ReconstructRequest) -> Result<Self, Refusal> {
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        if ids.is_empty() {
            return Err(Refusal::invalid("no records were named"));
        }
        if !(1..=MAX_ATTACKS).contains(&request.attacks.len()) {
            return Err(Refusal::invalid(format!("a request takes 1 to {MAX_ATTACKS} attacks")));
        }
        if let Some(spec) = request.attacks.iter().find(|spec| spec.settings.len() > MAX_SETTINGS) {
            return Err(Refusal::invalid(format!(
                "an attack has {} settings, at most {MAX_SETTINGS} are read",
                spec.settings.len()
            )));
        }
        let attacks = request
            .attacks
            .iter()
            .map(|spec| {
                let method = spec.name.parse()?;
                let settings = Settings::read(
                    spec.settings.iter().map(|s| (s.key.as_str(), s.value.as_str())),
                )?;
                Ok((method, settings))
            })
            .collect::<Result<Vec<_>, MethodError>>()
            .map_err(|e| Refusal::invalid(e.to_string()))?;
        let colluders =
            request.colluders.into_iter().map(|name| WireError::party_name("colluders", name));
        Ok(Self {
            audit_session: request.audit_session,
            version: WireError::model_version(request.model_version)?,
            ids,
            attacks,
            seed: request.seed,
            queries: request.queries,
            auxiliary_ids: RecordIds::try_from(request.auxiliary_ids.unwrap_or_default())?,
            auxiliary_session: request.auxiliary_session,
            colluders: colluders.collect::<Result<_, _>>()?,
        })
    }
}

impl From<Event> for pb::ReconstructEvent {
    fn from(event: Event) -> Self {
        let event = match event {
            Event::Progress { done, total, stage } => {
                WireEvent::Progress(pb::ReconstructProgress { done, total, stage })
            }
            Event::Scores { rows, accuracy } => {
                WireEvent::Scores(pb::ReconstructedScores { rows, accuracy })
            }
            Event::Attacked(attacked) => WireEvent::Result(result(*attacked)),
        };
        Self { event: Some(event) }
    }
}

/// Converts the result of an attack, and splits its estimates by passive party.
fn result(attacked: AttackOutcome) -> pb::AttackResult {
    let AttackOutcome { method, targets, auxiliary_records, ended } = attacked;
    let mut out = pb::AttackResult {
        attack: method.as_str().to_owned(),
        auxiliary_records: auxiliary_records as u64,
        ..Default::default()
    };
    let found = match ended {
        Err(error) => {
            out.set_refused(refused(error.not_run()));
            out.refusal = error.to_string();
            return out;
        }
        Ok(AttackEstimates { found, score_mismatch }) => {
            out.score_mismatch = score_mismatch;
            found
        }
    };
    for target in targets {
        let rows = found.estimates.rows(target.features.start, target.features.len()).into_owned();
        let estimates = Some(encode_columns(&Estimates::new(rows)));
        out.blocks.push(wire::Block { passive_party: target.party, estimates });
    }
    out.set_outcome(outcome(found.status));
    out.set_evidence(evidence(&found.evidence));
    out.releases = found.releases() as u32;
    if let Some(solved) = &found.solved {
        out.rank = Some(solved.rank as u32);
        // Features that are known beforehand are not unknowns.
        out.unknowns = Some((solved.rank + solved.nullity) as u32);
        out.condition_number = Some(solved.condition_number);
    }
    let count = |ended| found.outcomes.iter().filter(|o| o.ended == ended).count() as u64;
    (out.nearest_consistent, out.step_limit) =
        (count(Termination::NearestConsistent), count(Termination::StepLimit));
    let certain = || found.certain.iter().filter(|certain| **certain).count() as u32;
    out.certain = (!found.certain.is_empty()).then(certain);
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

fn refused(why: FailureClass) -> wire::Refused {
    match why {
        FailureClass::ParametersHidden => wire::Refused::ParametersHidden,
        FailureClass::Missing => wire::Refused::Missing,
        FailureClass::Unsuitable => wire::Refused::Unsuitable,
        FailureClass::TooLarge => wire::Refused::TooLarge,
        FailureClass::Unanswered => wire::Refused::Unanswered,
        FailureClass::Settings => wire::Refused::Settings,
        FailureClass::Numerics => wire::Refused::Numerics,
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
        Status::Regression => wire::Outcome::Regression,
        Status::LayerByLayer => wire::Outcome::LayerByLayer,
        Status::GridPoint { .. } => wire::Outcome::GridPoint,
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
