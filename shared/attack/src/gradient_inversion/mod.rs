//! Gradient inversion: descent, record by record, towards features whose scores are the released
//! ones (J section 4.3.1, algorithm 1; R remark 7).
//!
//! Exact scores of models that are not linear are inverted by second order (`second_order`), unless
//! a setting asks for the papers' descent.
//!
//! By first order, x̂ = argmin D(c, softmax(W_pas x + W_act y + b)) by Adam (β 0.9 and 0.999, ε
//! 1e-8 added to √v̂), with the gradient in closed form. On exact scores every solution of A x = b'
//! is a minimum, so the estimate depends on the start as much as on the scores. Every record is
//! kept as it ends. The code of R's authors draws a record again if its descent went badly; this
//! attack does not.

mod descent;
pub(super) mod loss;
pub(super) mod settings;

pub use loss::Loss;
pub use settings::{GradientInversion, GradientInversionError, Iterate, MAX_STEPS, Order, Start};

use nalgebra::DMatrix;
use rand::Rng;
use rayon::prelude::*;
use vfl_core::types::ReleasedScores;

use self::descent::{DescentProblem, Workspace};
use super::entry::{Entry, Group};
use super::second_order::{self, Fit, MOST_WORK};
use super::{
    AdversaryView, Attack, AttackError, Differentiable, Needs, Parameters, Reconstruction,
    RecordOutcome, Status, Termination,
};

pub(super) static GRADIENT_INVERSION: Entry = Entry {
    settings: GradientInversion::SETTINGS,
    ..Entry::new("gradient_inversion", Group::General, |settings| {
        Box::new(GradientInversion::from(settings))
    })
};

impl Attack for GradientInversion {
    fn needs(&self) -> Needs {
        Needs { parameters: Parameters::Differentiable, ..Needs::RELEASE }
    }

    /// By second order each outcome has the steps of all starts, and the squared misfit of the
    /// log-ratios as its objective; a record without a point that has the scores ends at the step
    /// limit. By first order the objective is the loss at the estimate. With a `stop_loss`, a
    /// record that has not reached it ends at the step limit. Without one, a record ends as solved
    /// after all steps.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let status = Status::Descent;
        if let Some(fits) = self.second_order(view)? {
            let centre = DMatrix::from_element(view.target_features(), view.records(), 0.5);
            let (estimates, outcomes) = second_order::estimates(view, &fits, &centre, rng)?;
            return Ok(Reconstruction { outcomes, ..Reconstruction::new(estimates, status) });
        }
        let (estimates, outcomes) = self.descend(view, &*view.differentiable()?, 0.0, rng)?;
        let found = match view.linear() {
            Ok(_) => Reconstruction::solving(view, estimates, |_| status)?,
            Err(_) => Reconstruction::new(estimates, status),
        };
        Ok(Reconstruction { status, outcomes, ..found })
    }
}

impl GradientInversion {
    /// Returns the fits of an inversion by second order; `None` if it is done by first order.
    ///
    /// # Errors
    /// If second order is asked for, and the scores are not exact or there are too many records.
    fn second_order(&self, view: &AdversaryView<'_>) -> Result<Option<Vec<Fit>>, AttackError> {
        let is_wanted = match self.order {
            Some(order) => order == Order::Second,
            None => view.model().needs_tangents(),
        };
        if !is_wanted {
            return Ok(None);
        }
        let fits = match view.released()? {
            ReleasedScores::Probabilities(c) => {
                second_order::exact_fits(c, view.replacement().zero_floor)
            }
            _ => None,
        };
        let asked = self.order.is_some();
        let Some(fits) = fits else {
            let unfit = "inversion by second order";
            return match asked {
                true => Err(AttackError::unfit(unfit, "exact scores", view.released()?)),
                false => Ok(None),
            };
        };
        match second_order::check_work(view) {
            Err(limit) if asked => Err(limit),
            checked => Ok(checked.ok().map(|()| fits)),
        }
    }

    /// Returns the estimates (d × n) of a view's records under `model`. It may be more than the
    /// view's own model, such as one with a change of the logits. `pull` times the squared distance
    /// to ½ is added to the loss of each record.
    pub(crate) fn descend(
        &self,
        view: &AdversaryView<'_>,
        model: &dyn Differentiable,
        pull: f64,
        rng: &mut dyn Rng,
    ) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
        let (features, records, classes) =
            (view.target_features(), view.records(), view.model().classes());
        // A step of Adam, and the scores of the logits, cost about eight multiplications a number.
        let work = view.model().work() + 8 * (features + classes) as u64;
        let limit = MOST_WORK / (work * records as u64).max(1);
        if u64::from(self.steps) > limit {
            return Err(AttackError::Steps { what: "steps", got: self.steps, limit });
        }
        let scores = view.scores()?;
        let loss = self.loss.unwrap_or_else(|| Loss::for_release(view.released().ok()));
        // A divergence from scores that do not sum to 1 may be below 0 far from its least value.
        let sums = scores.column_iter().all(|c| (c.sum() - 1.0).abs() < 1e-9);
        let stop_loss =
            if sums || matches!(loss, Loss::Mse | Loss::LogSq) { self.stop_loss } else { 0.0 };
        let start = self.start.points(features, records, rng);
        let descents =
            DescentProblem { settings: *self, loss, stop_loss, pull, model, scores, start };
        let blocks: Vec<_> = (0..descents.blocks())
            .into_par_iter()
            .map_init(|| Workspace::new(features, classes), |work, block| descents.run(block, work))
            .collect();
        let mut estimates = descents.start;
        let mut outcomes = Vec::with_capacity(records);
        for (record, (block, l)) in
            blocks.iter().flat_map(|b| (0..b.iterations.len()).map(move |l| (b, l))).enumerate()
        {
            if record == records {
                break;
            }
            estimates.column_mut(record).iter_mut().zip(&block.x).for_each(|(to, x)| *to = x.0[l]);
            outcomes.push(RecordOutcome {
                ended: if self.stop_loss > 0.0 && !block.stopped[l] {
                    Termination::StepLimit
                } else {
                    Termination::Solved
                },
                iterations: block.iterations[l],
                objective: block.losses.0[l],
            });
        }
        Ok((estimates, outcomes))
    }
}
