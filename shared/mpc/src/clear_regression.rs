//! The regression in the clear, by the steps of the one on shares.

use crate::family::Family;
use crate::regression::{Regression, TrainingResult, shift};

impl Regression {
    /// Trains in the clear, by the same steps: the oracle of
    /// [`Session::regress`](crate::Session::regress). `features` are records × features and
    /// `labels` records × classes, both column by column and with the records that validate last.
    #[must_use]
    pub fn train_in_the_clear(
        &self,
        features: &[f64],
        labels: &[f64],
        records: usize,
    ) -> TrainingResult<Vec<f64>> {
        let (d, k) = (features.len() / records.max(1), labels.len() / records.max(1));
        let (mut weights, mut reached) = (vec![0.0; d * k], vec![0.0; d * k]);
        let mut scores = vec![self.family.start(k); records * k];
        let mut predictors = vec![0.0; records * k];
        let (mut epochs, mut best_epoch) = (0, 0);
        let (mut best_weights, mut best_score) = (weights.clone(), f64::INFINITY);
        while self.goes_on(epochs, best_epoch) {
            let next = self.descended(&weights, features, (&scores, labels), (d, records));
            let momentum = Self::momentum(epochs);
            let change: Vec<f64> = (0..d * k)
                .map(|at| next[at] + momentum * (next[at] - reached[at]) - weights[at])
                .collect();
            reached = next;
            weights.iter_mut().zip(&change).for_each(|(weight, change)| *weight += change);
            let parts = Self::substeps(epochs);
            for record in 0..records {
                let moved = |class: usize| {
                    let x = |feature: usize| features[feature * records + record];
                    let sum: f64 = (0..d).map(|at| x(at) * change[class * d + at]).sum();
                    sum / parts as f64
                };
                let moved: Vec<f64> = (0..k).map(moved).collect();
                for (at, moved) in moved.iter().enumerate() {
                    predictors[at * records + record] += moved * parts as f64;
                }
                for _ in 0..parts {
                    let old: Vec<f64> = (0..k).map(|at| scores[at * records + record]).collect();
                    let half = follow(self.family, (&old, &old), &moved, 0.5);
                    for (at, score) in
                        follow(self.family, (&old, &half), &moved, 1.0).into_iter().enumerate()
                    {
                        scores[at * records + record] = score;
                    }
                }
            }
            epochs += 1;
            let validates = |at: &usize| at % records >= self.trained(records);
            let of_record = |at: usize| match self.family {
                Family::Poisson => scores[at] - labels[at] * predictors[at],
                _ => (scores[at] - labels[at]).powi(2),
            };
            let score: f64 = (0..records * k).filter(validates).map(of_record).sum();
            if self.validation == 0 || score < best_score {
                (best_epoch, best_score) = (epochs, score);
                best_weights.clone_from(&weights);
            }
        }
        TrainingResult { weights: best_weights, epochs, best_epoch }
    }

    /// Returns the weights after a step along the gradient over the records that are trained on.
    fn descended(
        &self,
        weights: &[f64],
        features: &[f64],
        (scores, labels): (&[f64], &[f64]),
        (d, records): (usize, usize),
    ) -> Vec<f64> {
        let trained = self.trained(records);
        let power = f64::from(shift(trained)).exp2();
        let shrink = |feature: usize| match feature + self.free < d {
            true => 1.0 - 2.0 * self.penalty * self.step(),
            false => 1.0,
        };
        let descended = |(at, weight): (usize, &f64)| {
            let (class, feature) = (at / d, at % d);
            let residual = |record: usize| {
                let at = class * records + record;
                scores[at] - labels[at]
            };
            let gradient: f64 = (0..trained)
                .map(|record| features[feature * records + record] * residual(record))
                .sum();
            shrink(feature) * weight - gradient / power
        };
        weights.iter().enumerate().map(descended).collect()
    }
}

/// Returns y + `length` (Δz − ⟨Δz, y′⟩) y′ for scores y and the point y′ where the slope is taken;
/// for numbers y + `length` Δz, for counts y + `length` Δz y′.
fn follow(family: Family, (scores, at): (&[f64], &[f64]), moved: &[f64], length: f64) -> Vec<f64> {
    let mean: f64 = moved.iter().zip(at).map(|(z, y)| z * y).sum();
    let slopes = moved.iter().zip(at).map(|(z, y)| match family {
        Family::Multinomial => (z - mean) * y,
        Family::Gaussian => *z,
        Family::Poisson => z * y,
    });
    scores.iter().zip(slopes).map(|(score, slope)| score + length * slope).collect()
}
