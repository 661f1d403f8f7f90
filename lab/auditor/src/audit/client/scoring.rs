//! The auditor's client of scorings of one set of records at a passive party.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use vfl_core::metrics::{AttributeFigures, Metric};
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::pb::score as wire;
use vfl_protocol::{
    EncodedEstimates, MAX_MESSAGE_BYTES, Refusal, ShownParameters, WireError, pb, require,
};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, nonsense, refused};
use crate::audit::reported_errors::{ReportedErrors, ReportedFigure, ReportedGain};
use crate::report::Halves;

/// A stream of scorings of one set of records.
pub(crate) struct Scoring {
    peer: Peer,
    asks: mpsc::Sender<pb::EvaluateReconstructionRequest>,
    answers: Streaming<pb::EvaluateReconstructionResponse>,
}

/// A passive party's answer when the scorings are opened.
pub(crate) struct ScoringInfo {
    /// The names of its features.
    pub(crate) feature_names: Vec<String>,
    /// The parameters that it shows the active party.
    pub(crate) shown: ShownParameters,
    /// True if it answers with noise.
    pub(crate) noised: bool,
    /// True if it simulates the adversary that knows its moments.
    pub(crate) plays: bool,
    /// The number of further candidates that it scores, without noise.
    pub(crate) scorings_left: u32,
    /// The total budget of the records, with noise.
    pub(crate) rho_total: Option<f64>,
    /// The budget left, with noise.
    pub(crate) rho_left: f64,
    /// The errors of guessing ½, if it reports them.
    pub(crate) half: Option<ReportedErrors>,
    /// The errors of guessing each feature's mean, if it reports them.
    pub(crate) column_mean: Option<ReportedErrors>,
}

/// A question about the candidates that were uploaded since the last scoring.
pub(crate) struct Question<'a> {
    /// The candidates whose errors are reported.
    pub(crate) told: CandidateChoice,
    /// The control that they are compared with.
    pub(crate) control: Control,
    /// True if the party simulates the adversary that knows its moments: two more candidates after
    /// the uploaded ones.
    pub(crate) moments: bool,
    /// The most that the scoring may spend, with noise.
    pub(crate) rho: Option<f64>,
    /// The metrics beside the mean squared error.
    pub(crate) metrics: &'a [&'static dyn Metric],
}

/// The candidates whose errors are reported.
#[derive(Clone, Copy)]
pub(crate) enum CandidateChoice {
    /// The best candidate.
    Best,
    All,
}

/// The control that errors are compared with; its own error is reported too.
#[derive(Clone, Copy)]
pub(crate) enum Control {
    /// No control.
    None,
    /// Each feature's mean over the records.
    ColumnMean,
    /// The estimates that were uploaded as the control.
    Given,
    /// Each feature's mean over the party's records that are not scored.
    Moments,
}

/// The answer to a question.
pub(crate) struct ScoringReport {
    /// The candidate with the smallest error, by its place among the uploaded ones.
    pub(crate) best: Option<usize>,
    /// The errors of the candidates whose errors were asked for.
    pub(crate) errors: Vec<ReportedErrors>,
    /// The gain of each of them over the control, if there is one.
    pub(crate) gains: Vec<Option<ReportedGain>>,
    /// The figures by attribute of the party's schema for each of the errors, if there is a
    /// control.
    pub(crate) attributes: Vec<Vec<AttributeFigures>>,
    /// The errors of the control, if there is one.
    pub(crate) control: Option<ReportedErrors>,
    /// The number of values of each candidate that lay outside [0, 1] and were clipped.
    pub(crate) clipped: Vec<u64>,
    /// The cost of the scoring, with noise.
    pub(crate) rho_spent: Option<f64>,
    /// The budget left for the records, with noise.
    pub(crate) rho_left: Option<f64>,
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
        for message in estimates.messages(MAX_MESSAGE_BYTES / 2) {
            let message = pb::Estimates { control, ..message };
            self.send(Ask::Estimates(message)).await;
        }
    }

    /// Has the uploaded candidates scored.
    ///
    /// # Errors
    /// [`Refusal`] with what the party said, or that it went away or answered with nonsense.
    pub(crate) async fn score(&mut self, question: Question<'_>) -> Result<ScoringReport, Refusal> {
        let Question { told, control, moments, rho, metrics } = question;
        let by_attribute = !matches!(control, Control::None);
        let told = match told {
            CandidateChoice::Best => wire::Told::Best,
            CandidateChoice::All => wire::Told::All,
        };
        let control = match control {
            Control::None => wire::Control::Unspecified,
            Control::ColumnMean => wire::Control::ColumnMean,
            Control::Given => wire::Control::Given,
            Control::Moments => wire::Control::Moments,
        };
        let score = pb::Score {
            told: told.into(),
            by_feature: true,
            by_attribute,
            control: control.into(),
            rho,
            moments,
            metrics: metrics.iter().map(|metric| metric.name().to_owned()).collect(),
        };
        self.send(Ask::Score(score)).await;
        let Some(Answer::Scored(scored)) = self.answer().await? else {
            return Err(Refusal::internal(format!("{} did not score", self.peer)));
        };
        let scored = ScoringReport::try_from(scored)?;
        if by_attribute && scored.attributes.iter().any(Vec::is_empty) {
            return Err(Refusal::precondition(format!(
                "{} tells no figures by attribute, which the verdict goes by; update it",
                self.peer
            )));
        }
        for error in &scored.errors {
            let told = error.metrics.iter().map(|figure| figure.metric.as_str());
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

impl TryFrom<pb::EvaluationOpened> for ScoringInfo {
    type Error = WireError;

    fn try_from(opened: pb::EvaluationOpened) -> Result<Self, WireError> {
        let noised = opened.mode() != pb::ScoringMode::Trusted;
        Ok(Self {
            shown: ShownParameters::try_from(require("shown", opened.shown.as_ref())?)?,
            feature_names: opened.feature_names,
            noised,
            plays: opened.moments,
            scorings_left: opened.scorings_left,
            rho_total: opened.rho_total,
            rho_left: opened.rho_left.unwrap_or(0.0),
            half: opened.half.map(ReportedErrors::from),
            column_mean: opened.column_mean.map(ReportedErrors::from),
        })
    }
}

impl TryFrom<pb::Scored> for ScoringReport {
    type Error = WireError;

    fn try_from(scored: pb::Scored) -> Result<Self, WireError> {
        let halves = |pb::Halves { first, second }| Halves { first, second };
        let gain = |pb::Gain { value, low, high, halves: half }| ReportedGain {
            value,
            interval: low.zip(high),
            halves: half.map(halves),
        };
        let gains = scored.errors.iter().map(|candidate| candidate.gain.map(gain)).collect();
        let (mut errors, mut attributes) = (Vec::new(), Vec::new());
        for candidate in scored.errors {
            errors.push(require("error", candidate.error).map(ReportedErrors::from)?);
            let figures = candidate.attributes.into_iter().map(AttributeFigures::try_from);
            attributes.push(figures.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            best: scored.best.map(|best| best as usize),
            errors,
            gains,
            attributes,
            control: scored.control.map(ReportedErrors::from),
            clipped: scored.clipped,
            rho_spent: scored.rho_spent,
            rho_left: scored.rho_left,
        })
    }
}

impl From<pb::ReconstructionError> for ReportedErrors {
    fn from(error: pb::ReconstructionError) -> Self {
        let pb::ReconstructionError { mse, mse_by_feature, sigma, sigma_by_feature, metrics } =
            error;
        let figure =
            |pb::MetricFigure { metric, value, sigma }| ReportedFigure { metric, value, sigma };
        let metrics = metrics.into_iter().map(figure).collect();
        Self { mse, by_feature: mse_by_feature, sigma, sigma_by_feature, metrics }
    }
}
