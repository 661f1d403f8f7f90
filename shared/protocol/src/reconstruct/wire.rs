//! Conversions of the messages of attacks.

use vfl_core::types::RecordIds;

use super::{
    AttackReport, AttackSpec, AuxiliaryIds, EstimatedScores, NotRun, PartyEstimates, Questions,
    ReconstructEvent, ReconstructionRequest, Refused,
};
use crate::pb::{attack_result as wire, reconstruct_event};
use crate::{EncodedEstimates, WireError, pb, require};

impl From<ReconstructionRequest> for pb::ReconstructRequest {
    fn from(request: ReconstructionRequest) -> Self {
        let ReconstructionRequest {
            session,
            version,
            ids,
            attacks,
            seed,
            queries,
            auxiliary: AuxiliaryIds { ids: auxiliary_ids, session: auxiliary_session },
            colluders,
        } = request;
        Self {
            audit_session: session,
            model_version: version.as_str().to_owned(),
            ids: Some(ids.into()),
            attacks: attacks.into_iter().map(Into::into).collect(),
            seed,
            queries,
            auxiliary_ids: (!auxiliary_ids.is_empty()).then(|| auxiliary_ids.into()),
            auxiliary_session,
            colluders: colluders.iter().map(ToString::to_string).collect(),
        }
    }
}

impl TryFrom<pb::ReconstructRequest> for ReconstructionRequest {
    type Error = WireError;

    fn try_from(request: pb::ReconstructRequest) -> Result<Self, WireError> {
        let pb::ReconstructRequest {
            audit_session,
            model_version,
            ids,
            attacks,
            seed,
            queries,
            auxiliary_ids,
            auxiliary_session,
            colluders,
        } = request;
        let colluders = colluders.into_iter().map(|name| WireError::party_name("colluders", name));
        Ok(Self {
            session: audit_session,
            version: WireError::model_version(model_version)?,
            ids: RecordIds::try_from(require("ids", ids)?)?,
            attacks: attacks.into_iter().map(Into::into).collect(),
            seed,
            queries,
            auxiliary: AuxiliaryIds {
                ids: RecordIds::try_from(auxiliary_ids.unwrap_or_default())?,
                session: auxiliary_session,
            },
            colluders: colluders.collect::<Result<_, _>>()?,
        })
    }
}

impl From<AttackSpec> for pb::AttackSpec {
    fn from(AttackSpec { name, settings }: AttackSpec) -> Self {
        let setting = |(key, value)| pb::attack_spec::Setting { key, value };
        Self { name, settings: settings.into_iter().map(setting).collect() }
    }
}

impl From<pb::AttackSpec> for AttackSpec {
    fn from(pb::AttackSpec { name, settings }: pb::AttackSpec) -> Self {
        let setting = |pb::attack_spec::Setting { key, value }| (key, value);
        Self { name, settings: settings.into_iter().map(setting).collect() }
    }
}

impl From<ReconstructEvent> for pb::ReconstructEvent {
    fn from(event: ReconstructEvent) -> Self {
        use reconstruct_event::Event;
        let event = match event {
            ReconstructEvent::Progress { done, total, stage } => {
                Event::Progress(pb::ReconstructProgress { done, total, stage })
            }
            ReconstructEvent::Scores { rows, accuracy } => {
                Event::Scores(pb::ReconstructedScores { rows, accuracy })
            }
            ReconstructEvent::Attacked(report) => Event::Result((*report).into()),
        };
        Self { event: Some(event) }
    }
}

impl TryFrom<reconstruct_event::Event> for ReconstructEvent {
    type Error = WireError;

    fn try_from(event: reconstruct_event::Event) -> Result<Self, WireError> {
        use reconstruct_event::Event;
        Ok(match event {
            Event::Progress(pb::ReconstructProgress { done, total, stage }) => {
                Self::Progress { done, total, stage }
            }
            Event::Scores(pb::ReconstructedScores { rows, accuracy }) => {
                Self::Scores { rows, accuracy }
            }
            Event::Result(result) => Self::Attacked(Box::new(AttackReport::try_from(result)?)),
        })
    }
}

impl From<AttackReport> for pb::AttackResult {
    fn from(report: AttackReport) -> Self {
        let AttackReport {
            attack,
            outcome,
            releases,
            questions,
            estimated_scores,
            auxiliary_records,
            remarks,
        } = report;
        let questions = questions.map(Into::into);
        let estimated_scores = estimated_scores.map(Into::into);
        let auxiliary_records = auxiliary_records as u64;
        match outcome {
            Ok(estimates) => {
                let PartyEstimates {
                    origin,
                    rank,
                    unknowns,
                    condition_number,
                    nearest_consistent,
                    step_limit,
                    certain,
                    score_mismatch,
                    evidence,
                    blocks,
                } = estimates;
                let block = |(passive_party, estimates): (String, EncodedEstimates)| wire::Block {
                    passive_party,
                    estimates: Some(estimates.into()),
                };
                Self {
                    attack,
                    blocks: blocks.into_iter().map(block).collect(),
                    refusal: String::new(),
                    refused: wire::Refused::Unspecified.into(),
                    outcome: wire::Outcome::from(origin).into(),
                    rank,
                    unknowns,
                    condition_number,
                    nearest_consistent,
                    step_limit,
                    remarks,
                    certain,
                    releases,
                    estimated_scores,
                    evidence: wire::Evidence::from(evidence).into(),
                    auxiliary_records,
                    score_mismatch,
                    questions,
                }
            }
            Err(NotRun { why, reason }) => Self {
                attack,
                releases,
                questions,
                estimated_scores,
                auxiliary_records,
                remarks,
                refused: wire::Refused::from(why).into(),
                refusal: reason,
                ..Self::default()
            },
        }
    }
}

impl TryFrom<pb::AttackResult> for AttackReport {
    type Error = WireError;

    /// Reads a result. An attack has run unless there is a reason, in kind or in words.
    fn try_from(result: pb::AttackResult) -> Result<Self, WireError> {
        let pb::AttackResult {
            attack,
            blocks,
            refusal,
            refused,
            outcome,
            rank,
            unknowns,
            condition_number,
            nearest_consistent,
            step_limit,
            remarks,
            certain,
            releases,
            estimated_scores,
            evidence,
            auxiliary_records,
            score_mismatch,
            questions,
        } = result;
        let why = Refused::from(wire::Refused::try_from(refused).unwrap_or_default());
        let outcome = if why == Refused::Unknown && refusal.is_empty() {
            let block = |wire::Block { passive_party, estimates }| {
                Ok((passive_party, require("estimates", estimates)?.into()))
            };
            Ok(PartyEstimates {
                origin: wire::Outcome::try_from(outcome).unwrap_or_default().into(),
                rank,
                unknowns,
                condition_number,
                nearest_consistent,
                step_limit,
                certain,
                // A hostile number is no figure.
                score_mismatch: score_mismatch.filter(|x| x.is_finite() && *x >= 0.0),
                evidence: wire::Evidence::try_from(evidence).unwrap_or_default().into(),
                blocks: blocks.into_iter().map(block).collect::<Result<_, WireError>>()?,
            })
        } else {
            Err(NotRun { why, reason: refusal })
        };
        Ok(Self {
            attack,
            outcome,
            releases,
            questions: questions.map(Into::into),
            estimated_scores: estimated_scores.map(Into::into),
            auxiliary_records: auxiliary_records as usize,
            remarks,
        })
    }
}

impl From<Questions> for wire::Questions {
    fn from(questions: Questions) -> Self {
        match questions {
            Questions::Repeated { queries, distinct } => {
                Self::Repeated(wire::RepeatedQuestions { queries, distinct })
            }
            Questions::Chosen { questions, asked, refused, gained, records } => {
                Self::Chosen(wire::ChosenQuestions { questions, asked, refused, gained, records })
            }
        }
    }
}

impl From<wire::Questions> for Questions {
    fn from(questions: wire::Questions) -> Self {
        match questions {
            wire::Questions::Repeated(wire::RepeatedQuestions { queries, distinct }) => {
                Self::Repeated { queries, distinct }
            }
            wire::Questions::Chosen(of) => {
                let wire::ChosenQuestions { questions, asked, refused, gained, records } = of;
                Self::Chosen { questions, asked, refused, gained, records }
            }
        }
    }
}

impl From<EstimatedScores> for wire::EstimatedScores {
    fn from(estimated: EstimatedScores) -> Self {
        let EstimatedScores { labelled, seen, own_scores, records } = estimated;
        Self { labelled, seen, own_scores, records }
    }
}

impl From<wire::EstimatedScores> for EstimatedScores {
    fn from(estimated: wire::EstimatedScores) -> Self {
        let wire::EstimatedScores { labelled, seen, own_scores, records } = estimated;
        Self { labelled, seen, own_scores, records }
    }
}
