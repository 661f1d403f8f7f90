//! The auditor's client of the active party.

use tonic::Streaming;
use tonic::transport::Channel;
use vfl_core::types::PartyName;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::attack_result as wire;
use vfl_protocol::pb::reconstruct_event::Event as WireEvent;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, WireError, pb, require};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, refused};
use crate::audit::attack_report::{
    AttackReport, EstimatedScores, NotRun, PartyEstimates, Questions,
};
use crate::audit::request::{Request, Spec};
use crate::report::{Refused, Status};

/// A client of the active party.
pub(crate) struct ActiveParty {
    peer: Peer,
    client: ActivePartyClient<Channel>,
}

/// An event that the active party reports while it runs attacks.
pub(crate) enum Event {
    /// A stage begins.
    Progress {
        /// The number of stages that have ended.
        done: usize,
        /// The stage that begins, in words.
        stage: String,
    },
    /// The scores were received.
    Scores {
        /// The share of the released rows whose predicted class is the label, if it is reported.
        accuracy: Option<f64>,
    },
    /// An attack has ended.
    Found(Box<AttackReport>),
}

/// The events of one request, as they arrive.
pub(crate) struct Events<'a> {
    peer: &'a Peer,
    events: Streaming<pb::ReconstructEvent>,
}

impl ActiveParty {
    /// Creates a client, which connects on first use.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the address is malformed.
    pub(crate) fn new(credentials: &Credentials, peer: &Peer) -> Result<Self, Refusal> {
        let client = ActivePartyClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer: peer.clone(), client })
    }

    pub(crate) fn name(&self) -> &PartyName {
        &self.peer.name
    }

    /// Requests attacks and returns the stream of their events.
    ///
    /// # Errors
    /// [`Refusal`] with what the active party said, or that it is not reachable.
    pub(crate) async fn reconstruct(&self, request: Request) -> Result<Events<'_>, Refusal> {
        let events = self.client.clone().reconstruct(pb::ReconstructRequest::from(request)).await;
        Ok(Events { peer: &self.peer, events: events.map_err(refused(&self.peer))?.into_inner() })
    }
}

impl Events<'_> {
    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// [`Refusal`] with what the active party said, or that it went away or answered with nonsense.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Refusal> {
        while let Some(message) = self.events.message().await.map_err(refused(self.peer))? {
            let event = match message.event {
                Some(WireEvent::Progress(p)) => {
                    Event::Progress { done: p.done as usize, stage: p.stage }
                }
                Some(WireEvent::Scores(scores)) => Event::Scores { accuracy: scores.accuracy },
                Some(WireEvent::Result(result)) => {
                    Event::Found(Box::new(AttackReport::try_from(result)?))
                }
                // An event of a later version.
                None => continue,
            };
            return Ok(Some(event));
        }
        Ok(None)
    }
}

impl From<Request> for pb::ReconstructRequest {
    fn from(request: Request) -> Self {
        let (auxiliary_ids, auxiliary_session) = match request.auxiliary {
            Some(auxiliary) => (Some(auxiliary.ids.into()), auxiliary.session),
            None => (None, String::new()),
        };
        Self {
            audit_session: request.session,
            model_version: request.version.as_str().to_owned(),
            ids: Some(request.ids.into()),
            attacks: request.attacks.into_iter().map(pb::AttackSpec::from).collect(),
            seed: request.seed,
            queries: request.queries,
            auxiliary_ids,
            auxiliary_session,
            colluders: request.colluders,
        }
    }
}

impl From<Spec> for pb::AttackSpec {
    fn from(spec: Spec) -> Self {
        let setting = |(key, value)| pb::attack_spec::Setting { key, value };
        Self {
            name: spec.method.as_str().into(),
            settings: spec.settings.into_iter().map(setting).collect(),
        }
    }
}

impl TryFrom<pb::AttackResult> for AttackReport {
    type Error = WireError;

    fn try_from(mut result: pb::AttackResult) -> Result<Self, WireError> {
        let outcome = match why_not_run(&result) {
            Some(why) => Err(NotRun { why, reason: std::mem::take(&mut result.refusal) }),
            None => {
                let block = |block: wire::Block| {
                    Ok((block.passive_party, require("estimates", block.estimates)?.into()))
                };
                Ok(PartyEstimates {
                    status: status(&result),
                    nearest_consistent: result.nearest_consistent,
                    step_limit: result.step_limit,
                    certain: result.certain.map(u64::from),
                    // A hostile number is no figure.
                    score_mismatch: result.score_mismatch.filter(|x| x.is_finite() && *x >= 0.0),
                    blocks: std::mem::take(&mut result.blocks)
                        .into_iter()
                        .map(block)
                        .collect::<Result<_, WireError>>()?,
                })
            }
        };
        Ok(Self {
            attack: result.attack,
            outcome,
            releases: result.releases,
            questions: result.questions.map(Questions::from),
            estimated_scores: result.estimated_scores.map(EstimatedScores::from),
            auxiliary_records: result.auxiliary_records as usize,
            remarks: result.remarks,
        })
    }
}

/// Returns the reason that an attack did not run; `None` if it ran.
fn why_not_run(result: &pb::AttackResult) -> Option<Refused> {
    Some(match result.refused() {
        wire::Refused::Unspecified if result.refusal.is_empty() => return None,
        wire::Refused::Unspecified => Refused::Unknown,
        wire::Refused::ParametersHidden => Refused::ParametersHidden,
        wire::Refused::Missing => Refused::Missing,
        wire::Refused::Unsuitable => Refused::Unsuitable,
        wire::Refused::TooLarge => Refused::TooLarge,
        wire::Refused::Unanswered => Refused::Unanswered,
        wire::Refused::Settings => Refused::Settings,
        wire::Refused::Numerics => Refused::Numerics,
    })
}

/// Returns the way in which an attack found its estimates.
fn status(result: &pb::AttackResult) -> Status {
    use wire::Outcome;
    let (rank, unknowns) = (result.rank() as usize, result.unknowns() as usize);
    match result.outcome() {
        Outcome::Unspecified | Outcome::Guess => Status::Guess,
        Outcome::Unique => Status::Unique,
        // A defense that leaves bounds leaves many solutions of equations that would otherwise have
        // one.
        Outcome::LeastNorm => Status::LeastNorm { rank, unknowns },
        Outcome::NearestHalf => Status::NearestHalf { rank, unknowns },
        Outcome::BestFit => Status::BestFit { rank, unknowns },
        Outcome::Centre => Status::Centre { rank, unknowns },
        Outcome::Descent => Status::Descent,
        Outcome::Scaled => Status::Scaled,
        Outcome::Posterior => Status::Posterior { rank, unknowns },
        Outcome::Regression => Status::Regression,
        Outcome::LayerByLayer => Status::LayerByLayer,
        Outcome::GridPoint => Status::GridPoint { rank, unknowns },
    }
}

impl From<wire::Questions> for Questions {
    fn from(questions: wire::Questions) -> Self {
        match questions {
            wire::Questions::Repeated(wire::RepeatedQuestions { queries, distinct }) => {
                Self::Repeated { queries, distinct }
            }
            wire::Questions::Chosen(wire::ChosenQuestions {
                questions,
                asked,
                refused,
                gained,
                records,
            }) => Self::Chosen { questions, asked, refused, gained, records },
        }
    }
}

impl From<wire::EstimatedScores> for EstimatedScores {
    fn from(estimated: wire::EstimatedScores) -> Self {
        let wire::EstimatedScores { labelled, seen, own_scores, records } = estimated;
        Self { labelled, seen, own_scores, records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_gives_no_reason_in_kind_has_not_run_all_the_same() {
        let read = |result: pb::AttackResult| AttackReport::try_from(result).unwrap().outcome;
        let not_run =
            read(pb::AttackResult { refusal: "why".into(), ..Default::default() }).err().unwrap();
        assert_eq!((not_run.why, not_run.reason.as_str()), (Refused::Unknown, "why"));
        assert!(read(pb::AttackResult::default()).is_ok());
    }
}
