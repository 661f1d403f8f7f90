//! Generative regression network: one map of the adversary's own features, and noise, to the
//! passive ones. It is trained until the estimates of all records under attack give their released
//! scores (Luo et al. 2021, which J 4.2.2 and P 3.1 attack with).
//!
//! Gradient inversion has its own solution for every record; the generator has one for all of them.
//! It learns how the passive features go with the active ones. It needs no fully known records;
//! with few records it learns little.
//!
//! Input [y; noise from N(0, I_d)], hidden layers of 600, 200 and 100 with layer norm and relu,
//! sigmoid at the end. The noise is drawn anew for every batch, and once more for the estimates.

mod generator;
mod objective;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{GenerativeRegression, MAX_BATCH, MAX_EPOCHS};

use nalgebra::DMatrix;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};
use vfl_core::model::Adam;
use vfl_core::model::contract::Parametrised;

use self::generator::Generator;
use self::objective::Objective;
use super::entry::{Entry, Group};
use super::sizes::same;
use super::{AdversaryView, Attack, AttackError, Need, Needs, Parameters, Reconstruction, Status};

/// Widths of the hidden layers.
const HIDDEN: [usize; 3] = [600, 200, 100];

/// The most multiplications of a training: an hour or less on one core of 2020.
const MOST_WORK: u64 = 8_000_000_000_000;

pub(super) static GENERATIVE_REGRESSION: Entry = Entry {
    settings: GenerativeRegression::SETTINGS,
    ..Entry::new("generative_regression", Group::Special, |settings| {
        Box::new(GenerativeRegression::from(settings))
    })
};

impl Attack for GenerativeRegression {
    fn needs(&self) -> Needs {
        let prior = if self.mean_weight > 0.0 { Need::Yes } else { Need::No };
        Needs { parameters: Parameters::Differentiable, prior, ..Needs::RELEASE }
    }

    /// Adds a remark on the misfit of the scores per record, in the first epoch and in the last.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        mut rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let model = view.differentiable()?;
        let (features, records) = (view.target_features(), view.records());
        let mean = match self.mean_weight {
            0.0 => None,
            weight => {
                let prior = view.prior()?;
                same("moments", "features", features, prior.features())?;
                Some((weight, prior.mean().clone()))
            }
        };
        let objective = Objective {
            model: &*model,
            scores: view.scores()?,
            loss: self.loss,
            variance_weight: self.variance_weight,
            mean,
        };
        let own = GeneratorInputs::of(view.active().matrix());
        let mut generator = Generator::new(own.0.nrows() + features, &HIDDEN, features, rng);
        // A step of Adam costs about eight multiplications a parameter, once for every batch.
        let of_records = (3 * generator.work() + 2 * view.model().work()) * records as u64;
        let limit = MOST_WORK
            / (of_records + 8 * generator.work() * records.div_ceil(self.batch) as u64).max(1);
        if u64::from(self.epochs) > limit {
            return Err(AttackError::Steps { what: "epochs", got: self.epochs, limit });
        }
        let mut adam = Adam::at(self.learning_rate);
        let mut order: Vec<usize> = (0..records).collect();
        let mut misfits = Vec::with_capacity(self.epochs as usize);
        for _ in 0..self.epochs {
            order.shuffle(&mut rng);
            let mut misfit = 0.0;
            for batch in order.chunks(self.batch) {
                let (of_batch, slopes) =
                    objective.at(generator.forward(own.with_noise(batch, features, rng)), batch);
                misfit += of_batch;
                let gradients = generator.backward(slopes);
                adam.step(generator.tensors_mut(), gradients)
                    .map_err(|_| AttackError::NotFinite { what: "a gradient of the generator" })?;
            }
            misfits.push(misfit / records.max(1) as f64);
        }
        let mut estimates = DMatrix::zeros(features, records);
        order.sort_unstable();
        // A pass keeps the outputs of all layers: for all records at once these could be gigabytes.
        for (place, block) in order.chunks(MAX_BATCH).enumerate() {
            let of_block = generator.forward(own.with_noise(block, features, rng));
            estimates.columns_mut(place * MAX_BATCH, block.len()).copy_from(of_block);
        }
        let mut found = Reconstruction::new(estimates, Status::Descent);
        if let (Some(first), Some(last)) = (misfits.first(), misfits.last()) {
            found.remarks.push(format!(
                "the generator was trained on {records} records: misfit of the scores per record {first:.2e} in the first epoch, {last:.2e} \
                 in the last"
            ));
        }
        Ok(found)
    }
}

/// The adversary's own features as inputs of the generator, d_act × n. Rows that leave [0, 1], as
/// outputs of its sub-model do, are scaled to it.
struct GeneratorInputs(DMatrix<f64>);

impl GeneratorInputs {
    fn of(y: &DMatrix<f64>) -> Self {
        let mut y = y.clone();
        for mut row in y.row_iter_mut() {
            let (low, high) = (row.min(), row.max());
            if low < 0.0 || high > 1.0 {
                let width = if high > low { high - low } else { 1.0 };
                row.iter_mut().for_each(|v| *v = (*v - low) / width);
            }
        }
        Self(y)
    }

    /// Returns the inputs of a batch, [y; noise].
    fn with_noise(&self, batch: &[usize], noise: usize, rng: &mut dyn Rng) -> DMatrix<f64> {
        let own = self.0.nrows();
        DMatrix::from_fn(own + noise, batch.len(), |i, j| match i < own {
            true => self.0[(i, batch[j])],
            false => StandardNormal.sample(rng),
        })
    }
}
