//! The steps of a training: epochs, batches, validation, and the scores that defenses are fitted
//! on.

use vfl_core::model::{HeadLearner, LearnerError, Schedule, cross_entropy};
use vfl_core::types::{ConfidenceScores, LogitShare, Logits, OutputGradient};
use vfl_party::training::max_batch;
use vfl_protocol::Refusal;
use vfl_protocol::training::computation::EpochCounts;
use vfl_protocol::training::messages::{Command, Progress, Step};
use vfl_state::blocking::heavy;

use super::checks::{ShareBound, check_passed_on, check_residuals};
use super::client::Link;
use super::job::{Job, JournaledTraining};

/// Records of one validation message.
pub(super) const VALIDATION_CHUNK: usize = 4096;
/// The most records whose scores are kept for defenses that are fitted.
const CALIBRATION_RECORDS: usize = 10_000;
/// The most scores kept for these defenses: 16 MiB.
const CALIBRATION_SCORES: usize = 1 << 21;

/// The result of the loop over epochs.
pub(super) struct Outcome {
    pub(super) epochs: u32,
    pub(super) best_epoch: u32,
    pub(super) steps: u64,
    pub(super) from_checkpoint: bool,
    /// Undefended scores under the parameters to be published, k × n; `ranking`, `codebook` and
    /// `purifier` are fitted on them. A private training has them by consent.
    pub(super) calibration: Option<ConfidenceScores>,
}

impl Outcome {
    /// Returns the result of a private training, in which an epoch is a step.
    pub(super) fn of_epochs(
        EpochCounts { epochs, best_epoch }: EpochCounts,
        calibration: Option<ConfidenceScores>,
    ) -> Self {
        let steps = u64::from(epochs);
        Self { epochs, best_epoch, steps, from_checkpoint: false, calibration }
    }
}

/// The participants in the steps: the parties, the active one first, and the coordinator's head.
pub(super) struct Parties<'a> {
    pub(super) links: &'a mut [Link],
    pub(super) head: &'a mut HeadLearner,
    pub(super) classes: usize,
}

/// The next message to the parties, with the gradient of the last batch for each of them.
#[derive(Default)]
struct NextStep {
    step: Step,
    /// One for each party, the active one first. Empty: no update.
    gradients: Vec<OutputGradient>,
}

/// Runs the loop over epochs and batches.
pub(super) async fn learn(
    parties: &mut Parties<'_>,
    job: &Job,
    recorded: &mut JournaledTraining,
    bound: ShareBound,
) -> Result<Outcome, Refusal> {
    let v = job.config.values();
    let mut schedule = Schedule::new(&job.config, job.ids.len());
    let validation = schedule.validation().to_vec();
    let mut next = NextStep::default();
    let (mut steps, mut best_epoch, mut best_loss, mut epochs) = (0u64, 0u32, f64::INFINITY, 0u32);
    'training: for epoch in 1..=v.epochs {
        epochs = epoch;
        let (mut loss_sum, mut trained) = (0.0, 0usize);
        for batch in schedule.next_epoch() {
            let y: Vec<u32> = batch.iter().map(|&p| job.labels[p as usize]).collect();
            next.step.batch = batch;
            next.step.evaluation = false;
            recorded.step().await?;
            let logits = exchange(parties, &mut next, |share| bound.check(share, steps)).await?;
            let (loss, gradient, _) = cross_entropy(logits, &y);
            let residuals: Vec<f64> = gradient.column_iter().map(|g| g.amax()).collect();
            let step = match check_residuals(&gradient) {
                Ok(()) => {
                    let work = parties.head.work(y.len());
                    let gradients = heavy(work, || parties.head.update(gradient))
                        .map_err(|e| head_refusal(&e))?;
                    let passed_on =
                        |party: &OutputGradient| check_passed_on(&residuals, party.matrix());
                    gradients.iter().skip(1).try_for_each(passed_on).map(|()| gradients)
                }
                Err(refusal) => Err(refusal),
            };
            match step {
                Ok(gradients) => next.gradients = gradients,
                Err(refusal) => {
                    // A model that has learnt nearly everything there is to learn is still worth
                    // having: the best one so far is kept.
                    if best_epoch == 0 || validation.is_empty() {
                        return Err(refusal);
                    }
                    tracing::warn!(epoch, reason = %refusal, "the training ends with the best parameters so far");
                    break 'training;
                }
            }
            loss_sum += loss * y.len() as f64;
            trained += y.len();
            steps += 1;
        }
        let training_loss = loss_sum / trained.max(1) as f64;
        let mut progress = Progress {
            epoch,
            epochs: v.epochs,
            training_loss: Some(training_loss),
            validation_loss: None,
            validation_accuracy: None,
        };
        if validation.is_empty() {
            best_epoch = epoch;
        } else {
            let (loss, right) =
                validate(parties, &mut next, job, &validation, |share| bound.check(share, steps))
                    .await?;
            progress.validation_loss = Some(loss);
            progress.validation_accuracy = Some(right);
            if loss < best_loss {
                (best_loss, best_epoch) = (loss, epoch);
                // The checkpoint is taken with the next message, before its gradient changes
                // anything: none is pending now.
                next.step.checkpoint = true;
                parties.head.checkpoint();
            }
        }
        parties.links[0].send(Command::Progress(progress)).await?;
        if !validation.is_empty() && epoch - best_epoch >= v.patience {
            break;
        }
    }
    if !next.gradients.is_empty() || next.step.checkpoint {
        next.step.batch = Vec::new();
        exchange(parties, &mut next, |_| Ok(())).await?;
    }
    let from_checkpoint = !validation.is_empty();
    let check = |share: &LogitShare| bound.check(share, steps);
    let calibration = calibrate(parties, &mut next, job, from_checkpoint, check).await?;
    let calibration = Some(calibration);
    Ok(Outcome { epochs, best_epoch, steps, from_checkpoint, calibration })
}

/// Scores records as [`learn`] does in the end, after a private training.
pub(super) async fn calibrate_alone(
    parties: &mut Parties<'_>,
    job: &Job,
) -> Result<ConfidenceScores, Refusal> {
    calibrate(parties, &mut NextStep::default(), job, false, |_| Ok(())).await
}

/// Scores records spread over the training's list, under the parameters that will be published.
async fn calibrate(
    parties: &mut Parties<'_>,
    next: &mut NextStep,
    job: &Job,
    from_checkpoint: bool,
    check: impl Fn(&LogitShare) -> Result<(), Refusal>,
) -> Result<ConfidenceScores, Refusal> {
    let k = job.class_names.len();
    let stride = job.ids.len().div_ceil(CALIBRATION_RECORDS.min(CALIBRATION_SCORES / k).max(1));
    let positions: Vec<u32> = (0..job.ids.len() as u32).step_by(stride).collect();
    let mut all = Vec::with_capacity(positions.len() * k);
    next.step.restore = from_checkpoint;
    if from_checkpoint {
        parties.head.restore().map_err(|e| head_refusal(&e))?;
    }
    for chunk in positions.chunks(VALIDATION_CHUNK.min(parties.largest_batch())) {
        next.step.batch = chunk.to_vec();
        next.step.evaluation = true;
        let scores = ConfidenceScores::softmax(exchange(parties, next, &check).await?);
        all.extend_from_slice(scores.matrix().as_slice());
        next.step.restore = false;
    }
    let all = nalgebra::DMatrix::from_vec(k, positions.len(), all);
    ConfidenceScores::new(all).map_err(|e| Refusal::internal(e.to_string()))
}

async fn validate(
    parties: &mut Parties<'_>,
    next: &mut NextStep,
    job: &Job,
    validation: &[u32],
    check: impl Fn(&LogitShare) -> Result<(), Refusal>,
) -> Result<(f64, f64), Refusal> {
    let (mut loss_sum, mut right_sum) = (0.0, 0usize);
    for chunk in validation.chunks(VALIDATION_CHUNK.min(parties.largest_batch())) {
        let y: Vec<u32> = chunk.iter().map(|&p| job.labels[p as usize]).collect();
        next.step.batch = chunk.to_vec();
        next.step.evaluation = true;
        let logits = exchange(parties, next, &check).await?;
        let (loss, _, right) = cross_entropy(logits, &y);
        loss_sum += loss * y.len() as f64;
        right_sum += right;
    }
    let n = validation.len() as f64;
    Ok((loss_sum / n, right_sum as f64 / n))
}

impl Parties<'_> {
    /// Returns the most records whose shares fit one message from every party.
    fn largest_batch(&self) -> usize {
        max_batch(self.head.widths().iter().copied().max().unwrap_or_default().max(self.classes))
    }
}

/// Makes one round trip with every party: sends its gradient of the last batch and receives its
/// outputs of the next one. The head makes logits of these, in the order of the parties, once
/// `check` has passed the active party's. Leaves the step ready for the next batch: no gradient, no
/// checkpoint.
///
/// All that training shows a party goes through here: an exchange in which residuals stay secret
/// would take its place.
async fn exchange(
    parties: &mut Parties<'_>,
    next: &mut NextStep,
    check: impl Fn(&LogitShare) -> Result<(), Refusal>,
) -> Result<Logits, Refusal> {
    next.step.number += 1;
    let message = next.step.clone();
    next.step.checkpoint = false;
    let mut gradients = std::mem::take(&mut next.gradients).into_iter();
    for link in parties.links.iter_mut() {
        link.stage = format!("step {}", message.number);
        link.send(Command::Step(Step { gradient: gradients.next(), ..message.clone() })).await?;
    }
    let n = message.batch.len();
    if n == 0 {
        return Logits::new(nalgebra::DMatrix::zeros(2, 0))
            .map_err(|e| Refusal::internal(e.to_string()));
    }
    let mut shares = Vec::with_capacity(parties.links.len());
    for (link, &width) in parties.links.iter_mut().zip(parties.head.widths()) {
        shares.push(link.shares(message.number, n, width).await?);
    }
    // The active party's link is the first.
    shares.first().map_or(Ok(()), &check)?;
    let work = parties.head.work(n);
    heavy(work, || parties.head.logits(shares, message.evaluation)).map_err(|e| diverged(&e))
}

fn diverged(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::precondition(format!("training diverged: {error}; lower the learning rate"))
}

pub(super) fn head_refusal(error: &LearnerError) -> Refusal {
    match error {
        LearnerError::Shape(error) => diverged(error),
        error => Refusal::internal(error.to_string()),
    }
}
