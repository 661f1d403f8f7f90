//! The interpretability of released parameters: their distance from the true ones, and the change
//! of odds ratios.

use nalgebra::DMatrix;

use super::MetricError;
use super::error::same;

/// The distance of released weights from the true ones.
///
/// One unit more of feature l multiplies the odds of class i against class j by exp(w_il − w_jl).
/// That is how a logistic model is read (V section V-A2). A shift common to all classes does not
/// change these odds ratios, though it changes g.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interpretability {
    /// V (33): g = ‖W_pas − W_n‖²_F / (dk), in squared units of a weight. 0 is full
    /// interpretability.
    pub g: f64,
    /// Mean over features and pairs of classes of |Δ(w_i − w_j)|: the change of a log odds ratio,
    /// in nats.
    pub mean_log_odds_change: f64,
    /// The largest of these changes.
    pub max_log_odds_change: f64,
    /// Share of the features and pairs of classes for which w_i − w_j has the opposite sign: the
    /// release says that a feature makes i less likely than j although it makes it more likely. A
    /// difference that is 0 on either side is no flip. In [0, 1].
    pub sign_flips: f64,
}

impl Interpretability {
    /// Compares `released` with `truth`, both k × d. Cost: O(k² d).
    ///
    /// # Errors
    /// [`MetricError`] if the shapes differ, there is no feature or fewer than two classes, or a
    /// difference is not finite.
    pub fn of(truth: &DMatrix<f64>, released: &DMatrix<f64>) -> Result<Self, MetricError> {
        let (k, d) = truth.shape();
        same("the released weights", "classes", k, released.nrows())?;
        same("the released weights", "features", d, released.ncols())?;
        if d == 0 {
            return Err(MetricError::Empty { what: "the weights", unit: "features" });
        }
        if k < 2 {
            return Err(MetricError::Empty { what: "the weights", unit: "pairs of classes" });
        }
        let g =
            (truth - released).iter().map(|change| change * change).sum::<f64>() / (d * k) as f64;
        let (mut sum, mut max, mut flips) = (0.0, 0.0_f64, 0_usize);
        for (truth, released) in truth.column_iter().zip(released.column_iter()) {
            for i in 1..k {
                for j in 0..i {
                    let (before, after) = (truth[i] - truth[j], released[i] - released[j]);
                    let change = (after - before).abs();
                    sum += change;
                    max = max.max(change);
                    // Signs and not the product, which may underflow.
                    flips +=
                        usize::from((before > 0.0 && after < 0.0) || (before < 0.0 && after > 0.0));
                }
            }
        }
        if !(g.is_finite() && sum.is_finite()) {
            return Err(MetricError::NotFinite { what: "the difference of the weights" });
        }
        let pairs = (d * k * (k - 1) / 2) as f64;
        Ok(Self {
            g,
            mean_log_odds_change: sum / pairs,
            max_log_odds_change: max,
            sign_flips: flips as f64 / pairs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use vfl_numerics::softmax_columns;

    fn of(truth: &DMatrix<f64>, released: &DMatrix<f64>) -> Interpretability {
        Interpretability::of(truth, released).unwrap()
    }

    #[test]
    fn by_hand() {
        let truth = DMatrix::from_row_slice(2, 2, &[1.0, 0.0, 0.0, 2.0]);
        let released = DMatrix::from_row_slice(2, 2, &[-1.0, 0.0, 0.0, 3.0]);
        // Changes 2 and 1; the first feature turns round.
        let want = Interpretability {
            g: 1.25,
            mean_log_odds_change: 1.5,
            max_log_odds_change: 2.0,
            sign_flips: 0.5,
        };
        assert_eq!(of(&truth, &released), want);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let m = |k, d| DMatrix::<f64>::zeros(k, d);
        for (truth, released) in
            [(m(2, 3), m(3, 3)), (m(2, 3), m(2, 2)), (m(2, 0), m(2, 0)), (m(1, 3), m(1, 3))]
        {
            assert!(Interpretability::of(&truth, &released).is_err());
        }
        for bad in [f64::NAN, f64::INFINITY, 1e200] {
            assert!(Interpretability::of(&m(2, 1), &m(2, 1).add_scalar(bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Odds ratios as a model gives them: from scores at a record and at the same with one unit
        /// more of a feature.
        #[test]
        fn changes_are_those_of_the_scores(k in 2usize..6, d in 1usize..6, seed in any::<u64>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut draw = |n, m| DMatrix::from_fn(n, m, |_, _| 2.0 * rng.random::<f64>() - 1.0);
            let (truth, released, x) = (draw(k, d), draw(k, d), draw(d, 1));
            let log_ratio = |w: &DMatrix<f64>, l: usize, i: usize, j: usize| {
                let odds = |x: &DMatrix<f64>| {
                    let mut c = w * x;
                    softmax_columns(&mut c);
                    (c[i] / c[j]).ln()
                };
                let mut more = x.clone();
                more[l] += 1.0;
                odds(&more) - odds(&x)
            };
            let (mut sum, mut max, mut flips, mut n) = (0.0, 0.0_f64, 0.0, 0.0);
            for l in 0..d {
                for i in 0..k {
                    for j in (0..k).filter(|j| *j != i) {
                        let (before, after) = (log_ratio(&truth, l, i, j), log_ratio(&released, l, i, j));
                        sum += (after - before).abs();
                        max = max.max((after - before).abs());
                        flips += f64::from(before * after < 0.0);
                        n += 1.0;
                    }
                }
            }
            let found = of(&truth, &released);
            prop_assert!((found.mean_log_odds_change - sum / n).abs() < 1e-9);
            prop_assert!((found.max_log_odds_change - max).abs() < 1e-9);
            prop_assert!((found.sign_flips - flips / n).abs() < 1e-9);
            prop_assert!((found.g - (&truth - &released).norm_squared() / (k * d) as f64).abs() < 1e-12);
        }

        /// A shift common to all classes is no change of any odds ratio; negation flips every sign.
        #[test]
        fn shifts_and_negation(k in 2usize..6, d in 1usize..6, shift in -3.0f64..3.0, seed in any::<u64>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let truth = DMatrix::from_fn(k, d, |_, _| rng.random::<f64>());
            let shifted = of(&truth, &truth.add_scalar(shift));
            prop_assert!(shifted.max_log_odds_change < 1e-12 && shifted.sign_flips == 0.0);
            prop_assert!((shifted.g - shift * shift).abs() < 1e-12);
            prop_assert_eq!(of(&truth, &-&truth).sign_flips, 1.0);
        }
    }
}
