//! P's attacks: "GRN" as in its code, which optimises inputs, and gradient inversion.

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_attack::{AdversaryView, Method, Replacement, Settings};
use vfl_core::metrics::squared_error_by_record;
use vfl_core::model::{LearnerError, Parameters, SubModel, kinds};
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_datasets::local_training::TrainedParties;

use super::super::ReproduceError;
use super::super::experiment_model::{Purpose, generator};
use super::super::statistics::mean;
use super::model::{Model, failed, stacked};
use super::sheet::PointResults;

/// The attacked records of one model.
pub(super) struct Targets<'a> {
    pub(super) model: &'a Model,
    /// The adversary's features with its embeddings below them.
    pub(super) y: FeatureBlock,
    /// The passive features, d × n.
    pub(super) truth: DMatrix<f64>,
    pub(super) seed: u64,
}

impl Targets<'_> {
    /// Runs gradient inversion on a release, and returns its loss and the error of the features,
    /// under the name of the curve. `item` selects its random numbers.
    pub(super) fn invert(
        &self,
        curve: &str,
        settings: &Settings,
        release: &ReleasedScores,
        item: u64,
    ) -> Result<PointResults, ReproduceError> {
        let off = |error| ReproduceError::Attack {
            curve: curve.to_owned(),
            d: self.truth.nrows(),
            k0: 0,
            error,
        };
        let view = AdversaryView::new(&self.model.known, &self.y, release, Replacement::default())
            .map_err(off)?;
        let mut rng = generator(self.seed, Purpose::Attack, item);
        let built = Method::GradientInversion.build(settings);
        let found = built.reconstruct(&view, &mut rng).map_err(off)?.estimates;
        let loss = view.score_mismatch(&found).map_err(off)?.squared_error.unwrap_or(f64::NAN);
        self.told(curve, loss, &found)
    }

    /// Runs a descent of P's code on a release.
    pub(super) fn descend(
        &self,
        descent: CodeDescent,
        curve: &str,
        release: &ReleasedScores,
        item: u64,
    ) -> Result<PointResults, ReproduceError> {
        let (ReleasedScores::Probabilities(p) | ReleasedScores::Numbers(p)) = release else {
            return Err(failed(
                self.truth.nrows(),
                format!("{curve}: only numbers can be attacked"),
            ));
        };
        let own = self.model.trained.models[0].spec().width() as usize;
        let own = self.y.matrix().rows(self.y.features() - own, own).into_owned();
        let mut rng = generator(self.seed, Purpose::Attack, item);
        let TrainedParties { models, top, .. } = &self.model.trained;
        let off = |e: LearnerError| failed(self.truth.nrows(), e.to_string());
        let top = top
            .as_ref()
            .ok_or_else(|| failed(self.truth.nrows(), "there is no top model".into()))?;
        let (found, loss) = descent.run(&models[1..], top, &own, p, &mut rng).map_err(off)?;
        self.told(curve, loss, &found)
    }

    /// Returns loss and error as columns.
    fn told(
        &self,
        curve: &str,
        loss: f64,
        found: &DMatrix<f64>,
    ) -> Result<PointResults, ReproduceError> {
        let errors = squared_error_by_record(found, &self.truth)?;
        let error = mean(errors.iter().copied()).mean;
        if !loss.is_finite() || !error.is_finite() {
            return Err(ReproduceError::NotFinite {
                curve: curve.to_owned(),
                d: self.truth.nrows(),
                k0: 0,
            });
        }
        Ok(vec![(curve.to_owned(), loss), (format!("{curve}_error"), error)])
    }
}

/// A descent of P's code: Adam on the features of all passive parties, by the mean squared
/// difference of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeDescent {
    /// True to start from normal numbers, false from 0.
    pub(super) normal_start: bool,
    /// True if the features are kept in [0, 1] after every step.
    pub(super) clipped: bool,
    /// True if scores approach the released numbers, false if logits do (errata P5).
    pub(super) scores: bool,
    pub(super) steps: i32,
    pub(super) rate: f64,
    /// The records by whose number the code divides a gradient; 0: those under attack. Adam adds
    /// 1e-8 to the size of a gradient: among many records, those with saturated scores stand still.
    pub(super) among: usize,
}

impl CodeDescent {
    /// The attack that P's code for several parties calls a generative regression network.
    pub(super) const SEVERAL: Self =
        Self { normal_start: true, clipped: true, scores: false, steps: 5, rate: 0.1, among: 0 };
    /// The attack that P's code for two parties calls a generative regression network, on MNIST.
    pub(super) const TWO: Self =
        Self { normal_start: true, clipped: false, scores: true, steps: 50, rate: 0.1, among: 0 };
    /// Gradient inversion of P's code.
    pub(super) const INVERSION: Self =
        Self { normal_start: false, clipped: true, scores: true, steps: 500, rate: 1e-3, among: 0 };

    /// Runs the descent so that the model's numbers approach the released ones (k × n). `parts` are
    /// the passive sub-models, `own` the adversary's embeddings. Returns the estimates (d × n) and
    /// the mean squared difference before the last step, which is what P prints.
    ///
    /// # Errors
    /// [`LearnerError`] if a number exceeds the range of a double.
    fn run(
        self,
        parts: &[Arc<dyn SubModel>],
        top: &Arc<dyn SubModel>,
        own: &DMatrix<f64>,
        released: &DMatrix<f64>,
        rng: &mut dyn Rng,
    ) -> Result<(DMatrix<f64>, f64), LearnerError> {
        let mut parts = parts.iter().map(copy).collect::<Result<Vec<_>, _>>()?;
        let mut top = copy(top)?;
        let d = parts.iter().map(|part| part.features()).sum();
        let (k, n) = released.shape();
        let among = if self.among == 0 { n } else { self.among };
        // Draws record by record, so that a record's start does not depend on how many follow it.
        let mut x = match self.normal_start {
            true => DMatrix::from_fn(d, n, |_, _| StandardNormal.sample(rng)),
            false => DMatrix::zeros(d, n),
        };
        let (mut first, mut second) = (DMatrix::zeros(d, n), DMatrix::zeros(d, n));
        let mut loss = f64::NAN;
        for step in 1..=self.steps {
            let mut embeddings = vec![own.clone()];
            let mut from = 0;
            for part in &mut parts {
                let rows = x.rows(from, part.features()).into_owned();
                from += rows.nrows();
                embeddings.push(part.forward(rows)?.into_matrix());
            }
            let mut numbers =
                top.forward(stacked(&embeddings.iter().collect::<Vec<_>>()))?.into_matrix();
            if self.scores {
                vfl_numerics::softmax_columns(&mut numbers);
            }
            let difference = &numbers - released;
            loss = difference.norm_squared() / difference.len() as f64;
            let mut slope = difference * (2.0 / (k * among) as f64);
            if self.scores {
                for (mut g, c) in slope.column_iter_mut().zip(numbers.column_iter()) {
                    let mean = g.dot(&c);
                    g.zip_apply(&c, |g, c| *g = c * (*g - mean));
                }
            }
            let of_embeddings = inputs(&mut *top, &slope)?;
            let (mut row, mut gradients) = (own.nrows(), Vec::with_capacity(parts.len()));
            for part in &mut parts {
                let width = part.spec().width() as usize;
                let slope = of_embeddings.rows(row, width).into_owned();
                gradients.push(inputs(&mut **part, &slope)?);
                row += width;
            }
            let gradient = stacked(&gradients.iter().collect::<Vec<_>>());
            first.zip_apply(&gradient, |m: &mut f64, g| *m = 0.9 * *m + 0.1 * g);
            second.zip_apply(&gradient, |v: &mut f64, g| *v = 0.999 * *v + 0.001 * g * g);
            let (m_scale, v_scale) = (1.0 - 0.9f64.powi(step), 1.0 - 0.999f64.powi(step));
            x.zip_zip_apply(&first, &second, |x: &mut f64, m, v| {
                *x -= self.rate * (m / m_scale) / ((v / v_scale).sqrt() + 1e-8);
                if self.clipped {
                    *x = x.clamp(0.0, 1.0);
                }
            });
        }
        Ok((x, loss))
    }
}

/// Returns a separate model with the same parameters: a pass that is differentiated stores its
/// batch in the model.
fn copy(model: &Arc<dyn SubModel>) -> Result<Box<dyn SubModel>, LearnerError> {
    Ok(kinds::restore(&Parameters::of(&**model, model.snapshot()))?)
}

/// Returns the gradient with respect to the inputs of the last batch.
fn inputs(model: &mut dyn SubModel, slope: &DMatrix<f64>) -> Result<DMatrix<f64>, LearnerError> {
    let found = model.backward(slope, true)?.inputs;
    Ok(found.unwrap_or_else(|| DMatrix::zeros(model.features(), slope.ncols())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use vfl_core::model::SubModelSpec;
    use vfl_core::model::contract::{SubModelOrigin, start_of};

    fn linear(features: usize, width: u32, seed: u64) -> Arc<dyn SubModel> {
        let settings = serde_json::json!({ "hidden": [], "activation": "relu" });
        let spec =
            SubModelSpec::new("mlp".to_owned(), width, settings.as_object().cloned().unwrap())
                .unwrap();
        Arc::from(
            kinds::start(&SubModelOrigin { spec, features, active: true, start: start_of(seed) })
                .unwrap(),
        )
    }

    /// Linear sub-models under a linear top model are one matrix, which evaluations at unit vectors
    /// give; Adam is written out for each number, and scores are divided out of exponentials.
    #[test]
    fn the_steps_are_those_of_one_matrix() {
        // Among so many records gradients are of the size of Adam's 1e-8.
        for (scores, clipped, among) in [(false, true, 0), (true, false, 0), (true, false, 1 << 23)]
        {
            steps_of_one_matrix(CodeDescent { scores, clipped, among, ..CodeDescent::SEVERAL });
        }
    }

    fn steps_of_one_matrix(descent: CodeDescent) {
        let (parts, top) = ([linear(2, 3, 1), linear(3, 3, 2)], linear(2 + 6, 4, 3));
        let own = DMatrix::from_fn(2, 5, |i, j| 0.1 * i as f64 - 0.2 * j as f64);
        let released = DMatrix::from_fn(4, 5, |i, j| if i == j % 4 { 12.0 } else { -0.2 });
        let (found, loss) =
            descent.run(&parts, &top, &own, &released, &mut ChaCha20Rng::seed_from_u64(9)).unwrap();

        let logits = |x: &DMatrix<f64>, own: &DMatrix<f64>| {
            let a = parts[0].outputs(&x.rows(0, 2).into_owned()).unwrap().into_matrix();
            let b = parts[1].outputs(&x.rows(2, 3).into_owned()).unwrap().into_matrix();
            top.outputs(&stacked(&[own, &a, &b])).unwrap().into_matrix()
        };
        let nothing = (DMatrix::zeros(5, 1), DMatrix::zeros(2, 1));
        let at_zero = logits(&nothing.0, &nothing.1);
        let column = |j: usize| {
            logits(&DMatrix::from_fn(5, 1, |i, _| f64::from(i == j)), &nothing.1) - &at_zero
        };
        let matrix = stacked(
            &(0..5).map(|j| column(j).transpose()).collect::<Vec<_>>().iter().collect::<Vec<_>>(),
        );
        let mut rng = ChaCha20Rng::seed_from_u64(9);
        let mut x = DMatrix::from_fn(5, 5, |_, _| StandardNormal.sample(&mut rng));
        let (mut m, mut v, mut want) =
            (DMatrix::<f64>::zeros(5, 5), DMatrix::<f64>::zeros(5, 5), f64::NAN);
        for step in 1..=5 {
            let mut numbers = logits(&x, &own);
            if descent.scores {
                for mut z in numbers.column_iter_mut() {
                    let sum: f64 = z.iter().map(|z| z.exp()).sum();
                    z.apply(|z| *z = z.exp() / sum);
                }
            }
            let difference = &numbers - &released;
            want = difference.iter().map(|e| e * e).sum::<f64>() / 20.0;
            let slope = DMatrix::from_fn(4, 5, |i, j| {
                let of_score = |a: usize| match descent.scores {
                    true => numbers[(a, j)] * (f64::from(a == i) - numbers[(i, j)]),
                    false => f64::from(a == i),
                };
                (0..4).map(|a| difference[(a, j)] * of_score(a)).sum::<f64>()
            });
            let among = if descent.among == 0 { 5 } else { descent.among };
            let gradient = &matrix * slope * (2.0 / (4 * among) as f64);
            for i in 0..25 {
                m[i] = 0.9 * m[i] + 0.1 * gradient[i];
                v[i] = 0.999 * v[i] + 0.001 * gradient[i].powi(2);
                let (m, v) = (m[i] / (1.0 - 0.9f64.powi(step)), v[i] / (1.0 - 0.999f64.powi(step)));
                x[i] -= 0.1 * m / (v.sqrt() + 1e-8);
                if descent.clipped {
                    x[i] = x[i].clamp(0.0, 1.0);
                }
            }
        }
        assert!((&found - &x).amax() < 1e-9 && (loss - want).abs() < 1e-9, "{found} {x}");
        assert!(found.iter().any(|x| *x > 0.0 && *x < 1.0));
    }
}
