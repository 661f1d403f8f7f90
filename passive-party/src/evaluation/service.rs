//! The messages of one `EvaluateReconstruction` call, from first to last.

use std::sync::Arc;
use std::time::Duration;

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use vfl_core::types::RecordIds;
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::scoring::Question;
use vfl_protocol::{EstimateRows, Refusal, RefusalKind, WireError, pb, require};
use vfl_server::service::off_thread;

use super::scoring::{MAX_KEPT, ReducedEstimates};
use super::{Evaluation, Evaluations, MAX_CANDIDATES, ScoringRequest, answer};
use crate::disclosure::Disclosure;
use crate::logits::LogitServer;

/// The time that a scoring may stay open without a question: attacks may take hours between two.
const IDLE: Duration = Duration::from_secs(6 * 3600);

/// Answers one call, to its end.
///
/// # Errors
/// The status that ends the call.
pub(crate) async fn evaluate(
    logits: &Arc<LogitServer>,
    evaluations: &Arc<Evaluations>,
    disclosure: &Disclosure,
    asks: &mut Streaming<pb::EvaluateReconstructionRequest>,
    answers: &mpsc::Sender<Result<pb::EvaluateReconstructionResponse, Status>>,
) -> Result<(), Status> {
    let message = |of| Ok(pb::EvaluateReconstructionResponse { message: Some(of) });
    let gone = |_| Status::cancelled("the auditor has gone away");
    let first = asks.message().await?;
    let Some(pb::EvaluateReconstructionRequest { message: Some(Ask::Ids(ids)), model_version }) =
        first
    else {
        return Err(Refusal::invalid("the first message of a scoring names the records").into());
    };
    let ids = RecordIds::try_from(ids)?;
    let version = match model_version.as_str() {
        "" => None,
        _ => Some(WireError::model_version(model_version)?),
    };
    // Possible refusals come before the set is counted.
    let _room = evaluations.room(ids.len(), logits.features.schema().len())?;
    let shown = disclosure.described(logits, version.as_ref()).await?;
    // Counting waits for the disk, so it does not run on the threads that answer predictions.
    let (held, counted) = (logits.clone(), evaluations.clone());
    let mut evaluation = off_thread("scoring", move || counted.start(&held.features, &ids)).await?;
    if let Some(version) = version {
        let true_parameters =
            shown.granted && !shown.transformed() && !shown.trained_on_transformed();
        evaluation = evaluation.of_model(logits.clone(), version, true_parameters);
    }
    let evaluation = Arc::new(evaluation);
    let opened = answer::scoring_info(&evaluation, shown, logits.feature_names())?;
    answers.send(message(Answer::Opened(opened.into()))).await.map_err(gone)?;

    let mut gathered = PendingEstimates::default();
    let late = |_| {
        Refusal::new(
            RefusalKind::DeadlineExceeded,
            format!("nothing was asked for {} h", IDLE.as_secs() / 3600),
        )
    };
    while let Some(ask) = tokio::time::timeout(IDLE, asks.message()).await.map_err(late)?? {
        match require("message", ask.message)? {
            Ask::Ids(_) => {
                return Err(Refusal::invalid(
                    "the records of a scoring are fixed by its first message",
                )
                .into());
            }
            Ask::Estimates(estimates) => gathered = gathered.with(&evaluation, estimates).await?,
            Ask::Score(score) => {
                let asked = std::mem::take(&mut gathered).asked(score)?;
                let scored = evaluation.clone();
                let clipped = asked.candidates.iter().map(ReducedEstimates::clipped).collect();
                let (scored, left) = off_thread("scoring", move || scored.score(&asked)).await?;
                let scored = answer::scoring_report(scored, left, clipped);
                answers.send(message(Answer::Scored(scored.into()))).await.map_err(gone)?;
            }
        }
    }
    Ok(())
}

/// The estimates since the last scoring: those that are complete in reduced form, and the rows of
/// one that is not.
#[derive(Default)]
struct PendingEstimates {
    candidates: Vec<ReducedEstimates>,
    control: Option<ReducedEstimates>,
    /// The rows so far, and true if they are the control's.
    begun: Option<(Vec<f64>, bool)>,
}

impl PendingEstimates {
    async fn with(
        mut self,
        evaluation: &Arc<Evaluation>,
        message: pb::Estimates,
    ) -> Result<Self, Refusal> {
        let (d, n) = evaluation.shape();
        let (mut values, control) = self.begun.take().unwrap_or((Vec::new(), message.control));
        if control != message.control {
            return Err(Refusal::invalid(
                "rows of a candidate and of the control are mixed; end one before the other",
            ));
        }
        if control && self.control.is_some() {
            return Err(Refusal::invalid("a scoring has one control at most"));
        }
        if !control && self.candidates.len() >= MAX_CANDIDATES {
            return Err(Refusal::invalid(format!(
                "a scoring takes at most {MAX_CANDIDATES} candidates"
            )));
        }
        let left = n - values.len() / d.max(1);
        let EstimateRows { rows, more, .. } = message.try_into()?;
        let expected = match rows.records() {
            // Each message must bring at least one row, and leave at least one for the next.
            some if more && (1..left).contains(&some) => some,
            _ => left,
        };
        if more && expected == left {
            return Err(Refusal::invalid(format!(
                "`more` is set, with {} rows where {left} are left: send some, and the rest in the last message",
                rows.records()
            )));
        }
        values.extend_from_slice(rows.decode(expected, d)?.as_slice());
        if more {
            self.begun = Some((values, control));
            return Ok(self);
        }
        let evaluation = evaluation.clone();
        let mut scorable =
            off_thread("scoring", move || evaluation.scorable(DMatrix::from_vec(d, n, values)))
                .await?;
        let kept: usize =
            self.candidates.iter().chain(&self.control).map(ReducedEstimates::kept).sum();
        if kept > 0 && kept.saturating_add(scorable.kept()) > MAX_KEPT {
            scorable = scorable.without_estimates();
        }
        if control {
            self.control = Some(scorable);
        } else {
            self.candidates.push(scorable);
        }
        Ok(self)
    }

    /// Returns the scoring that ends with this message.
    fn asked(self, score: pb::Score) -> Result<ScoringRequest, Refusal> {
        if self.begun.is_some() {
            return Err(Refusal::invalid(
                "the last estimates are not whole: `more` was set and no further rows came",
            ));
        }
        ScoringRequest::new(Question::try_from(score)?, self.candidates, self.control)
    }
}
