//! The contributions to the logits of all steps as a product of unknown weights and features.
//!
//! A record r of step t contributes o = W_t x_r, with W_t (k × d, centred over the classes) the
//! weights before that step. Every step has its own weights, but 64 records; every record has d
//! features, but occurs again in every epoch. So the products determine both factors, up to one
//! invertible d × d matrix, once (k − 1) · E is somewhat larger than d for E epochs. Known records
//! determine that matrix (see `gauge`).
//!
//! Expectation maximisation finds the factors in the model
//!
//! o = W_t x_r + noise, x_r ~ N(B z_r, Σ), W_{t+1} = W_t + N(0, (learning rate)²), W_0 = 0,
//!
//! where z_r is what the adversary knows of the record: its label and its own features. B, Σ and
//! the noise are estimated, and the noise falls towards 0, as there is none. The prior of x helps
//! as long as the equations do not suffice; once they do, it does not matter. Adam's increments are
//! at most about the learning rate; no other property of the optimiser is used.

use nalgebra::{DMatrix, DMatrixView};
use rayon::prelude::*;

use super::record::{Step, Transcript};

/// The least noise: the squared rounding error of double precision after (c − e_y) / B and a
/// logarithm, with a margin.
pub(super) const NOISE_FLOOR: f64 = 1e-14;
/// A ridge on the diagonal of Σ, so that it stays invertible if features depend on each other.
const SPREAD_FLOOR: f64 = 1e-8;
/// The weight of the penalty on B.
const RIDGE: f64 = 1e-3;

/// The current estimates of the factors.
pub(super) struct Factors<'a> {
    steps: &'a [Step],
    /// The records that occur in steps, in the order of the columns of `x`: positions in the
    /// training's list.
    pub(super) records: Vec<usize>,
    /// The sightings of each of them: step and column.
    sightings: Vec<Vec<(usize, usize)>>,
    /// The column of `x` by position.
    slots: Vec<usize>,
    /// The known values z, p × m.
    known: DMatrix<f64>,
    /// The estimates, d × m.
    pub(super) x: DMatrix<f64>,
    /// The prior mean B z, d × m.
    mean: DMatrix<f64>,
    /// The covariance of each estimate, d × d.
    spread: Vec<DMatrix<f64>>,
    /// The prior covariance Σ.
    prior: DMatrix<f64>,
    /// The weights W_t, k × d.
    pub(super) weights: Vec<DMatrix<f64>>,
    /// The variance of the noise of one logit.
    pub(super) noise: f64,
    /// The precision of an increment of one weight.
    stiffness: f64,
}

/// Returns the inverse of a symmetric positive definite matrix. If round-off has made it
/// indefinite, it inverts a slightly larger one.
pub(super) fn inverse(mut a: DMatrix<f64>) -> DMatrix<f64> {
    let size = a.diagonal().amax().max(f64::MIN_POSITIVE);
    let mut lift = 1e-15 * size;
    loop {
        if let Some(factor) = a.clone().cholesky() {
            return factor.inverse();
        }
        (0..a.nrows()).for_each(|i| a[(i, i)] += lift);
        lift *= 10.0;
        if lift > 10.0 * size {
            // Only values that are not finite lead here: nothing is known.
            return DMatrix::identity(a.nrows(), a.nrows());
        }
    }
}

impl<'a> Factors<'a> {
    /// Starts from estimates of all records of the training's list, d × n.
    pub(super) fn new(transcript: &'a Transcript, steps: &'a [Step], start: &DMatrix<f64>) -> Self {
        let n = transcript.labels.len();
        let mut slots = vec![usize::MAX; n];
        let (mut records, mut sightings) = (Vec::new(), Vec::<Vec<_>>::new());
        for (t, step) in steps.iter().enumerate() {
            for (column, &position) in step.positions.iter().enumerate() {
                let slot = &mut slots[position as usize];
                if *slot == usize::MAX {
                    *slot = records.len();
                    records.push(position as usize);
                    sightings.push(Vec::new());
                }
                sightings[*slot].push((t, column));
            }
        }
        let x = start.select_columns(&records);
        let d = x.nrows();
        let prior = DMatrix::identity(d, d) * 0.05;
        Self {
            known: known_of(transcript, &records),
            mean: x.clone(),
            spread: vec![prior.clone(); records.len()],
            prior,
            x,
            weights: vec![DMatrix::zeros(transcript.classes, d); steps.len()],
            noise: 1e-2,
            stiffness: transcript.learning_rate.powi(-2),
            steps,
            records,
            sightings,
            slots,
        }
    }

    /// Runs one iteration: weights from features, features from weights, then B, Σ and the noise.
    pub(super) fn iterate(&mut self) {
        self.update_weights();
        let energy = self.update_features();
        self.update_prior();
        let k = self.weights.first().map_or(2, |w| w.nrows());
        let logits: usize = self.steps.iter().map(|s| s.positions.len() * (k - 1)).sum();
        self.noise = (energy / logits.max(1) as f64).max(NOISE_FLOOR);
    }

    /// Updates to the most likely weights, given the features and their uncertainty: a chain of d ×
    /// d blocks, the same for every class.
    fn update_weights(&mut self) {
        let d = self.x.nrows();
        let precision = 1.0 / self.noise;
        let told: Vec<(DMatrix<f64>, DMatrix<f64>)> = self
            .steps
            .par_iter()
            .map(|step| {
                let slots: Vec<usize> =
                    step.positions.iter().map(|&p| self.slots[p as usize]).collect();
                let x = self.x.select_columns(&slots);
                let mut information = &x * x.transpose();
                slots.iter().for_each(|&s| information += &self.spread[s]);
                (information * precision, &step.logits * x.transpose() * precision)
            })
            .collect();
        // Forward elimination from the first unknown, W_1; W_0 is 0.
        let last = told.len().saturating_sub(1);
        let stiffness = self.stiffness;
        let mut inverses = vec![DMatrix::zeros(0, 0); told.len()];
        for t in 1..told.len() {
            let mut block = told[t].0.clone();
            let own = stiffness + if t < last { stiffness } else { 0.0 };
            (0..d).for_each(|i| block[(i, i)] += own);
            let mut right = told[t].1.clone();
            if t > 1 {
                block -= &inverses[t - 1] * (stiffness * stiffness);
                right += &self.weights[t - 1] * stiffness;
            }
            inverses[t] = inverse(block);
            self.weights[t] = right * &inverses[t];
        }
        for t in (1..last).rev() {
            let back = &self.weights[t + 1] * &inverses[t] * stiffness;
            self.weights[t] += back;
        }
    }

    /// Updates the features and their spread, given the weights. Returns the expected sum of
    /// squared noise.
    fn update_features(&mut self) -> f64 {
        let (steps, weights, mean) = (self.steps, &self.weights, &self.mean);
        let precision = 1.0 / self.noise;
        let squares: Vec<DMatrix<f64>> = weights.par_iter().map(|w| w.transpose() * w).collect();
        let prior = inverse(self.prior.clone());
        let solved: Vec<(Vec<f64>, DMatrix<f64>, f64)> = self
            .sightings
            .par_iter()
            .enumerate()
            .map(|(slot, sightings)| {
                let mu = mean.column(slot);
                let mut information = DMatrix::zeros(mu.len(), mu.len());
                let mut right = nalgebra::DVector::zeros(mu.len());
                let mut misfit = Vec::with_capacity(sightings.len());
                for &(t, column) in sightings {
                    information += &squares[t];
                    let residual = steps[t].logits.column(column) - &weights[t] * mu;
                    right += weights[t].tr_mul(&residual);
                    misfit.push(residual);
                }
                let spread = inverse(&information * precision + &prior);
                let shift = &spread * right * precision;
                let mut energy = information.component_mul(&spread).sum();
                for (&(t, _), residual) in sightings.iter().zip(misfit) {
                    energy += (residual - &weights[t] * &shift).norm_squared();
                }
                ((mu + shift).as_slice().to_vec(), spread, energy)
            })
            .collect();
        let mut energy = 0.0;
        for (slot, (x, spread, misfit)) in solved.into_iter().enumerate() {
            self.x.column_mut(slot).copy_from_slice(&x);
            self.spread[slot] = spread;
            energy += misfit;
        }
        energy
    }

    /// Updates B by least squares, and Σ from the residuals.
    fn update_prior(&mut self) {
        let z = &self.known;
        let mut gram = z * z.transpose();
        (0..gram.nrows()).for_each(|i| gram[(i, i)] += RIDGE);
        let b = &self.x * z.transpose() * inverse(gram);
        self.mean = b * z;
        let left = &self.x - &self.mean;
        let mut prior = &left * left.transpose();
        self.spread.iter().for_each(|s| prior += s);
        prior /= self.records.len().max(1) as f64;
        (0..prior.nrows()).for_each(|i| prior[(i, i)] += SPREAD_FLOOR);
        self.prior = prior;
    }

    /// Returns the estimates of the given records, d × their number; records that never occurred
    /// are left out.
    pub(super) fn estimates(&self, positions: &[usize]) -> (Vec<usize>, DMatrix<f64>) {
        let seen: Vec<usize> =
            positions.iter().copied().filter(|&p| self.slots[p] != usize::MAX).collect();
        let slots: Vec<usize> = seen.iter().map(|&p| self.slots[p]).collect();
        (seen, self.x.select_columns(&slots))
    }
}

/// Returns z: one row per class and one per own feature.
pub(super) fn known_of(transcript: &Transcript, records: &[usize]) -> DMatrix<f64> {
    let k = transcript.classes;
    let own: DMatrixView<'_, f64> = transcript.own.as_view();
    DMatrix::from_fn(k + own.nrows(), records.len(), |i, column| {
        let record = records[column];
        if i < k {
            f64::from(u8::from(transcript.labels[record] == Some(i as u32)))
        } else {
            own[(i - k, record)]
        }
    })
}
