//! A scoring on the wire: the messages of one `EvaluateReconstruction` call.

use std::sync::Arc;

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use vfl_shared::rpc::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_shared::rpc::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_shared::rpc::{Refusal, WireError, decode_columns, pb, require};
use vfl_shared::types::RecordIds;

use super::scoring::{ErrorTold, Gain, Scorable, Scored, Told};
use super::{Asked, Control, Evaluation, Evaluations, Left, MAX_CANDIDATES};
use crate::config::AuditMode;
use crate::disclosure::Disclosure;
use crate::logits::LogitServer;

/// Answers one call, to its end.
///
/// # Errors
/// The status to end it with.
pub(crate) async fn evaluate(
    logits: &Arc<LogitServer>,
    evaluations: &Arc<Evaluations>,
    disclosure: &Disclosure,
    asks: &mut Streaming<pb::EvaluateReconstructionRequest>,
    answers: &mpsc::Sender<Result<pb::EvaluateReconstructionResponse, Status>>,
) -> Result<(), Status> {
    let answer = |message| pb::EvaluateReconstructionResponse { message: Some(message) };
    let gone = |_| Status::cancelled("the auditor has gone away");
    let first = asks.message().await?;
    let Some(pb::EvaluateReconstructionRequest { message: Some(Ask::Ids(ids)), model_version }) = first else {
        return Err(Refusal::invalid("the first message of a scoring names the records").into());
    };
    let ids = RecordIds::try_from(ids)?;
    let version = match model_version.as_str() {
        "" => None,
        _ => Some(WireError::model_version(model_version)?),
    };
    // What may be refused comes before the set is counted.
    let shown = disclosure.described(logits, version.as_ref()).await?;
    // Counting on disk waits for the disk: not on the threads that answer predictions.
    let (held, counted) = (logits.clone(), evaluations.clone());
    let evaluation = Arc::new(off_thread(move || counted.start(&held.table, &ids)).await?);
    let opened = pb::EvaluationOpened {
        shown: Some((&shown).into()),
        feature_names: logits.feature_names(),
        ..opened(&evaluation)?
    };
    answers.send(Ok(answer(Answer::Opened(opened)))).await.map_err(gone)?;

    let mut gathered = Gathered::default();
    while let Some(message) = asks.message().await? {
        match require("message", message.message)? {
            Ask::Ids(_) => {
                return Err(Refusal::invalid("the records of a scoring are fixed by its first message").into());
            }
            Ask::Estimates(estimates) => gathered = gathered.with(&evaluation, estimates).await?,
            Ask::Score(score) => {
                let asked = std::mem::take(&mut gathered).asked(&score)?;
                let scored = evaluation.clone();
                let clipped = asked.candidates.iter().map(Scorable::clipped).collect();
                let (scored, left) = off_thread(move || scored.score(&asked)).await?;
                answers.send(Ok(answer(Answer::Scored(told(scored, left, clipped))))).await.map_err(gone)?;
            }
        }
    }
    Ok(())
}

/// Runs work that is long, or waits for the disk, on a thread of its own.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal("the work failed"))?
}

/// What came since the last scoring: estimates reduced as soon as they are whole, and the rows of those that are not.
#[derive(Default)]
struct Gathered {
    candidates: Vec<Scorable>,
    control: Option<Scorable>,
    /// Rows so far, and whether they are the control's.
    begun: Option<(Vec<f64>, bool)>,
}

impl Gathered {
    async fn with(mut self, evaluation: &Arc<Evaluation>, message: pb::Estimates) -> Result<Self, Refusal> {
        let (d, n) = evaluation.shape();
        let (mut values, control) = self.begun.take().unwrap_or((Vec::new(), message.control));
        if control != message.control {
            return Err(Refusal::invalid("rows of a candidate and of the control are mixed; end one before the other"));
        }
        if control && self.control.is_some() {
            return Err(Refusal::invalid("a scoring has one control at most"));
        }
        if !control && self.candidates.len() >= MAX_CANDIDATES {
            return Err(Refusal::invalid(format!("a scoring takes at most {MAX_CANDIDATES} candidates")));
        }
        let rows = require("rows", message.rows)?;
        let left = n - values.len() / d.max(1);
        let expected = match rows.rows as usize {
            // At least one row must be left for the next message, and one come with each.
            some if message.more && (1..left).contains(&some) => some,
            _ => left,
        };
        if message.more && expected == left {
            return Err(Refusal::invalid(format!(
                "`more` is set, with {} rows where {left} are left: send some, and the rest in the last message",
                rows.rows
            )));
        }
        values.extend_from_slice(decode_columns("estimates", &rows, expected, Some(d))?.as_slice());
        if message.more {
            self.begun = Some((values, control));
            return Ok(self);
        }
        let evaluation = evaluation.clone();
        let scorable = off_thread(move || evaluation.scorable(DMatrix::from_vec(d, n, values))).await?;
        if control {
            self.control = Some(scorable);
        } else {
            self.candidates.push(scorable);
        }
        Ok(self)
    }

    fn asked(self, score: &pb::Score) -> Result<Asked, Refusal> {
        if self.begun.is_some() {
            return Err(Refusal::invalid("the last estimates are not whole: `more` was set and no further rows came"));
        }
        let unknown = |field: &str, value: i32| Refusal::invalid(format!("`{field}` is {value}, which says nothing"));
        use pb::score as wire;
        let told = match wire::Told::try_from(score.told) {
            Ok(wire::Told::Unspecified) => Told::Nobody,
            Ok(wire::Told::Best) => Told::Best,
            Ok(wire::Told::All) => Told::All,
            Err(_) => return Err(unknown("told", score.told)),
        };
        let control = match (wire::Control::try_from(score.control), self.control) {
            (Ok(wire::Control::Given), Some(given)) => Control::Given(given),
            (Ok(wire::Control::Given), None) => return Err(Refusal::invalid("no control came: mark its estimates")),
            (Ok(_), Some(_)) => return Err(Refusal::invalid("a control came that the scoring does not ask for")),
            (Ok(wire::Control::Unspecified), None) => Control::None,
            (Ok(wire::Control::Half), None) => Control::Half,
            (Ok(wire::Control::ColumnMean), None) => Control::ColumnMean,
            (Err(_), _) => return Err(unknown("control", score.control)),
        };
        Ok(Asked { candidates: self.candidates, control, told, by_feature: score.by_feature, rho: score.rho })
    }
}

fn opened(evaluation: &Evaluation) -> Result<pb::EvaluationOpened, Refusal> {
    let policy = evaluation.policy();
    Ok(match policy.mode {
        AuditMode::Noised => {
            let (total, left) = evaluation.rho();
            pb::EvaluationOpened {
                mode: pb::ScoringMode::Noised.into(),
                rho_total: Some(total),
                rho_left: Some(left),
                rho_per_scoring: Some(policy.rho_per_scoring),
                ..Default::default()
            }
        }
        AuditMode::Trusted => {
            let (half, column_mean) = evaluation.baselines()?.unzip();
            pb::EvaluationOpened {
                mode: pb::ScoringMode::Trusted.into(),
                half: half.map(error),
                column_mean: column_mean.map(error),
                scorings_left: evaluation.scorings_left(),
                ..Default::default()
            }
        }
    })
}

fn error(told: ErrorTold) -> pb::ReconstructionError {
    let ErrorTold { mse, by_feature, sigma, sigma_by_feature } = told;
    pb::ReconstructionError { mse, mse_by_feature: by_feature, sigma, sigma_by_feature }
}

fn told(scored: Scored, left: Left, clipped: Vec<u64>) -> pb::Scored {
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let gain = |g: Gain| pb::Gain { value: g.value, low: g.interval.map(|i| i.0), high: g.interval.map(|i| i.1) };
    let errors = scored.errors.into_iter().map(|(at, e, g)| pb::scored::Candidate {
        candidate: index(at),
        error: Some(error(e)),
        gain: g.map(gain),
    });
    let (rho_spent, rho_left, scorings_left) = match left {
        Left::Noised { spent, left } => (Some(spent), Some(left), 0),
        Left::Trusted { scorings } => (None, None, scorings),
    };
    pb::Scored {
        best: scored.best.map(index),
        errors: errors.collect(),
        control: scored.control.map(error),
        clipped,
        rho_spent,
        rho_left,
        scorings_left,
    }
}
