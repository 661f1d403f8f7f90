//! The auditor's client of scorings of one set of records at a passive party.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::scoring::{Question, ScoringInfo, ScoringReport};
use vfl_protocol::{EncodedEstimates, EstimateRows, MAX_MESSAGE_BYTES, Refusal, pb};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, nonsense, refused};

/// A stream of scorings of one set of records.
pub(crate) struct Scoring {
    peer: Peer,
    asks: mpsc::Sender<pb::EvaluateReconstructionRequest>,
    answers: Streaming<pb::EvaluateReconstructionResponse>,
}

impl Scoring {
    /// Opens the scorings of a set of records for a model version.
    ///
    /// # Errors
    /// [`Refusal`] with what the party said, or that it is not reachable or answers with nonsense.
    pub(crate) async fn open(
        credentials: &Credentials,
        peer: &Peer,
        version: &ModelVersion,
        ids: &RecordIds,
    ) -> Result<(Self, ScoringInfo), Refusal> {
        let mut client = PassivePartyClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (asks, outgoing) = mpsc::channel(2);
        let first = pb::EvaluateReconstructionRequest {
            message: Some(Ask::Ids(ids.into())),
            model_version: version.as_str().to_owned(),
        };
        asks.send(first).await.map_err(|_| gone(peer))?;
        let answers = client
            .evaluate_reconstruction(ReceiverStream::new(outgoing))
            .await
            .map_err(refused(peer))?;
        let mut scoring = Self { peer: peer.clone(), asks, answers: answers.into_inner() };
        let Some(Answer::Opened(opened)) = scoring.answer().await? else {
            return Err(Refusal::internal(format!("{peer} did not open the scoring")));
        };
        let opened = ScoringInfo::try_from(opened).map_err(nonsense(peer))?;
        Ok((scoring, opened))
    }

    /// Returns the party that scores.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Uploads the estimates of one candidate, or of the control.
    pub(crate) async fn upload(&mut self, estimates: EncodedEstimates, control: bool) {
        for rows in EstimateRows::split(estimates, control, MAX_MESSAGE_BYTES / 2) {
            self.send(Ask::Estimates(rows.into())).await;
        }
    }

    /// Has the uploaded candidates scored.
    ///
    /// # Errors
    /// [`Refusal`] with what the party said, or that it went away or answered with nonsense.
    pub(crate) async fn score(&mut self, question: Question) -> Result<ScoringReport, Refusal> {
        let (by_attribute, metrics) = (question.by_attribute, question.metrics.clone());
        self.send(Ask::Score(question.into())).await;
        let Some(Answer::Scored(scored)) = self.answer().await? else {
            return Err(Refusal::internal(format!("{} did not score", self.peer)));
        };
        let scored = ScoringReport::try_from(scored)?;
        if by_attribute && scored.errors.iter().any(|of| of.attributes.is_empty()) {
            return Err(Refusal::precondition(format!(
                "{} tells no figures by attribute, which the verdict goes by; update it",
                self.peer
            )));
        }
        for of in &scored.errors {
            let told = of.error.metrics.iter().map(|figure| figure.metric.as_str());
            if !told.eq(metrics.iter().map(|metric| metric.name())) {
                return Err(Refusal::internal(format!(
                    "{} told other metrics than those asked for",
                    self.peer
                )));
            }
        }
        Ok(scored)
    }

    async fn send(&mut self, message: Ask) {
        let ask =
            pb::EvaluateReconstructionRequest { message: Some(message), ..Default::default() };
        // If the stream has ended, the answer to the scoring says why.
        let _ = self.asks.send(ask).await;
    }

    async fn answer(&mut self) -> Result<Option<Answer>, Refusal> {
        let answer = self.answers.message().await.map_err(refused(&self.peer))?;
        Ok(answer.ok_or_else(|| gone(&self.peer))?.message)
    }
}

fn gone(peer: &Peer) -> Refusal {
    Refusal::unavailable(format!("{peer} went away"))
}
