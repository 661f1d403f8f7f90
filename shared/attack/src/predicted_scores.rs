//! The scores that an adversary's estimates would give: the loss that it can see without the truth.

use nalgebra::DMatrix;
use vfl_core::metrics::{ScoreMismatch, score_mismatch};
use vfl_core::model::{LANES, Lanes};
use vfl_core::types::{ConfidenceScores, Logits};

use super::sizes::same;
use super::{AdversaryView, AttackError};

impl AdversaryView<'_> {
    /// Returns the scores ĉ (k × n) that the model as known gives at estimates of the passive
    /// features (d × n), before any defense.
    ///
    /// # Errors
    /// [`AttackError::View`] for estimates of another shape or scores that are not finite; as
    /// [`AdversaryView::differentiable`].
    pub fn predicted(&self, estimates: &DMatrix<f64>) -> Result<ConfidenceScores, AttackError> {
        let (d, n, k) = (self.target_features(), self.records(), self.model().classes());
        same("estimates", "features", d, estimates.nrows())?;
        same("estimates", "records", n, estimates.ncols())?;
        let model = self.differentiable()?;
        let mut predicted = DMatrix::zeros(k, n);
        let (mut x, mut logits) = (vec![Lanes::all(0.0); d], vec![Lanes::all(0.0); k]);
        for from in (0..n).step_by(LANES) {
            let records: [usize; LANES] = std::array::from_fn(|l| (from + l).min(n - 1));
            for (feature, x) in x.iter_mut().enumerate() {
                *x = Lanes(records.map(|record| estimates[(feature, record)]));
            }
            model.block(records).logits(&x, &mut logits);
            for (class, z) in logits.iter().enumerate() {
                for (record, z) in records.iter().zip(&z.0) {
                    predicted[(class, *record)] = *z;
                }
            }
        }
        Ok(ConfidenceScores::softmax(Logits::new(predicted)?))
    }

    /// Returns the distance of the scores at estimates (d × n) from the released ones. P's code
    /// prints the mean squared difference as the error of an attack (errata P1).
    ///
    /// # Errors
    /// As [`AdversaryView::predicted`]; [`AttackError::NoScores`] if nothing was released,
    /// [`AttackError::Numbers`] if numbers were.
    pub fn score_mismatch(&self, estimates: &DMatrix<f64>) -> Result<ScoreMismatch, AttackError> {
        if self.model().link().is_numeric() {
            return Err(AttackError::Numbers);
        }
        Ok(score_mismatch(self.released()?, &self.predicted(estimates)?)?)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;
    use vfl_core::types::{FeatureBlock, ReleasedScores};

    use super::*;
    use crate::{KnownModel, Replacement};

    /// Eleven records, so that the last block is not full; two classes, where softmax is the
    /// logistic function.
    #[test]
    fn it_is_the_mean_squared_difference_of_the_scores() {
        let (w_act, w_pas) = (
            DMatrix::from_row_slice(2, 1, &[0.0, 0.5]),
            DMatrix::from_row_slice(2, 1, &[0.0, 2.0]),
        );
        let model =
            KnownModel::white_box(w_act, DVector::from_row_slice(&[0.0, -0.3]), w_pas).unwrap();
        let n = 11;
        let y = DMatrix::from_fn(1, n, |_, j| j as f64 / 10.0);
        let x = DMatrix::from_fn(1, n, |_, j| 1.0 - j as f64 / 15.0);
        let p = |at: f64, j: usize| 1.0 / (1.0 + (-(0.5 * y[j] + 2.0 * at - 0.3)).exp());
        let released =
            DMatrix::from_fn(2, n, |i, j| if i == 1 { p(x[j], j) } else { 1.0 - p(x[j], j) });
        let (y_block, released) =
            (FeatureBlock::new(y.clone()).unwrap(), ReleasedScores::Numbers(released));
        let view = AdversaryView::new(&model, &y_block, &released, Replacement::default()).unwrap();
        assert!(view.score_mismatch(&x).unwrap().squared_error.unwrap() < 1e-30);
        let half = DMatrix::from_element(1, n, 0.5);
        let want = (0..n).map(|j| (p(x[j], j) - p(0.5, j)).powi(2)).sum::<f64>() / n as f64;
        let found = view.score_mismatch(&half).unwrap().squared_error.unwrap();
        assert!((found - want).abs() < 1e-15 && want > 1e-3, "{found} {want}");
        assert!(view.score_mismatch(&half.transpose()).is_err());
        let hidden = KnownModel::black_box(DMatrix::zeros(2, 1), DVector::zeros(2), 1).unwrap();
        let view =
            AdversaryView::new(&hidden, &y_block, &released, Replacement::default()).unwrap();
        assert_eq!(view.score_mismatch(&half), Err(AttackError::NeedsParameters));
    }
}
