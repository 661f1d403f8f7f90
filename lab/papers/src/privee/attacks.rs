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

    /// Runs the attack of P's code for several parties on a release, see [`towards_logits`].
    pub(super) fn grn(
        &self,
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
        let (found, loss) = towards_logits(&models[1..], top, &own, p, &mut rng).map_err(off)?;
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

/// The steps of the attack of P's code for several parties, and their length.
const STEPS: i32 = 5;
const RATE: f64 = 0.1;

/// Runs the attack that P's code for several parties calls a generative regression network. It
/// takes a few steps of Adam on the features of all passive parties (`parts`), from normal numbers,
/// kept in [0, 1] after every step, so that the *logits* approach the released numbers (k × n;
/// errata P5). `own` are the adversary's embeddings. Returns the estimates (d × n) and the mean
/// squared difference before the last step, which is what P prints.
///
/// # Errors
/// [`LearnerError`] if a number exceeds the range of a double.
fn towards_logits(
    parts: &[Arc<dyn SubModel>],
    top: &Arc<dyn SubModel>,
    own: &DMatrix<f64>,
    released: &DMatrix<f64>,
    rng: &mut dyn Rng,
) -> Result<(DMatrix<f64>, f64), LearnerError> {
    let mut parts = parts.iter().map(copy).collect::<Result<Vec<_>, _>>()?;
    let mut top = copy(top)?;
    let (d, n) = (parts.iter().map(|part| part.features()).sum(), released.ncols());
    // Draws record by record, so that a record's start does not depend on how many follow it.
    let mut x = DMatrix::from_fn(d, n, |_, _| StandardNormal.sample(rng));
    let (mut first, mut second) = (DMatrix::zeros(d, n), DMatrix::zeros(d, n));
    let mut loss = f64::NAN;
    for step in 1..=STEPS {
        let mut embeddings = vec![own.clone()];
        let mut from = 0;
        for part in &mut parts {
            let rows = x.rows(from, part.features()).into_owned();
            from += rows.nrows();
            embeddings.push(part.forward(rows)?.into_matrix());
        }
        let difference =
            top.forward(stacked(&embeddings.iter().collect::<Vec<_>>()))?.into_matrix() - released;
        loss = difference.norm_squared() / difference.len() as f64;
        let slope = difference * (2.0 / released.len() as f64);
        let of_embeddings = inputs(&mut *top, &slope)?;
        let (mut row, mut gradients) = (own.nrows(), Vec::with_capacity(parts.len()));
        for part in &mut parts {
            let width = part.spec().width() as usize;
            gradients.push(inputs(&mut **part, &of_embeddings.rows(row, width).into_owned())?);
            row += width;
        }
        let gradient = stacked(&gradients.iter().collect::<Vec<_>>());
        first.zip_apply(&gradient, |m: &mut f64, g| *m = 0.9 * *m + 0.1 * g);
        second.zip_apply(&gradient, |v: &mut f64, g| *v = 0.999 * *v + 0.001 * g * g);
        let (m_scale, v_scale) = (1.0 - 0.9f64.powi(step), 1.0 - 0.999f64.powi(step));
        x.zip_zip_apply(&first, &second, |x: &mut f64, m, v| {
            *x = (*x - RATE * (m / m_scale) / ((v / v_scale).sqrt() + 1e-8)).clamp(0.0, 1.0);
        });
    }
    Ok((x, loss))
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
    /// give; Adam is written out for each number.
    #[test]
    fn the_steps_are_those_of_one_matrix() {
        let (parts, top) = ([linear(2, 3, 1), linear(3, 3, 2)], linear(2 + 6, 4, 3));
        let own = DMatrix::from_fn(2, 5, |i, j| 0.1 * i as f64 - 0.2 * j as f64);
        let released = DMatrix::from_fn(4, 5, |i, j| if i == j % 4 { 12.0 } else { -0.2 });
        let (found, loss) =
            towards_logits(&parts, &top, &own, &released, &mut ChaCha20Rng::seed_from_u64(9))
                .unwrap();

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
            let difference = logits(&x, &own) - &released;
            want = difference.iter().map(|e| e * e).sum::<f64>() / 20.0;
            let gradient = &matrix * difference * (2.0 / 20.0);
            for i in 0..25 {
                m[i] = 0.9 * m[i] + 0.1 * gradient[i];
                v[i] = 0.999 * v[i] + 0.001 * gradient[i].powi(2);
                let (m, v) = (m[i] / (1.0 - 0.9f64.powi(step)), v[i] / (1.0 - 0.999f64.powi(step)));
                x[i] = (x[i] - 0.1 * m / (v.sqrt() + 1e-8)).clamp(0.0, 1.0);
            }
        }
        assert!((&found - &x).amax() < 1e-9 && (loss - want).abs() < 1e-9, "{found} {x}");
        assert!(found.iter().any(|x| *x > 0.0 && *x < 1.0));
    }
}
