//! Error bounds before any training, for every rank that A may have.

use serde::Serialize;
use vfl_core::types::FeatureBlock;

use super::{AssessError, spectrum};
use crate::moments::Moments;

/// The errors of the attacks before there are parameters (R remark 4), per feature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PretrainingBounds {
    /// Number of classes k.
    pub classes: usize,
    /// Number of passive features d.
    pub features: usize,
    /// Number of records n that the moments are taken over.
    pub records: usize,
    /// `half`: (1/d) Tr K_½.
    pub mse_half: f64,
    /// `zero`: (1/d) Tr K₀.
    pub mse_zero: f64,
    /// `informed_control`: (1/d) Tr S, S the covariance.
    pub mse_informed_control: f64,
    /// The bounds for each rank of A = J W_pas, from 0 to min(k − 1, d). Training nearly always
    /// gives the last rank.
    pub by_rank: Vec<RankBounds>,
}

/// The bounds R (50), (51) for one rank, and those for an adversary that knows means and
/// covariances.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankBounds {
    /// The rank of A.
    pub rank: usize,
    /// d − rank.
    pub nul: usize,
    /// Least error of `least_squares`: (1/d) times the sum of the d − rank least eigenvalues of K₀.
    pub lb_ls: f64,
    /// Greatest error of `least_squares`: the d − rank greatest eigenvalues in place of the least.
    pub ub_ls: f64,
    /// As `lb_ls` for `half_star` and K_½.
    pub lb_half_star: f64,
    /// As `ub_ls` for `half_star` and K_½.
    pub ub_half_star: f64,
    /// As `lb_ls` for the best affine estimate of an adversary that knows means and covariances,
    /// and S.
    pub lb_informed_linear: f64,
    /// As `ub_ls` for that estimate and S.
    pub ub_informed_linear: f64,
}

/// Bounds the errors on a model of `classes` classes, for any parameters and features with the
/// moments of `x` (d × n).
///
/// # Errors
/// [`AssessError`] for fewer than two classes, no feature, no record, and values that are not
/// finite or too large.
pub fn before_training(classes: usize, x: &FeatureBlock) -> Result<PretrainingBounds, AssessError> {
    let (d, n) = x.matrix().shape();
    if classes < 2 {
        return Err(AssessError::TooFewClasses { got: classes });
    }
    if d == 0 {
        return Err(AssessError::NoFeature);
    }
    if n == 0 {
        return Err(AssessError::NoRecord);
    }
    let moments = Moments::of(x.matrix())
        .ok_or(AssessError::Overflow { what: "the moments of the records" })?;
    let (zero, half) = (spectrum(&moments.about_zero)?, spectrum(&moments.about_half)?);
    let mean = spectrum(&moments.about_mean)?;
    let per_feature = |values: &[f64]| values.iter().sum::<f64>().max(0.0) / d as f64;
    let by_rank = (0..=d.min(classes - 1))
        .map(|rank| RankBounds {
            rank,
            nul: d - rank,
            lb_ls: per_feature(&zero[rank..]),
            ub_ls: per_feature(&zero[..d - rank]),
            lb_half_star: per_feature(&half[rank..]),
            ub_half_star: per_feature(&half[..d - rank]),
            lb_informed_linear: per_feature(&mean[rank..]),
            ub_informed_linear: per_feature(&mean[..d - rank]),
        })
        .collect();
    let [mse_half, mse_zero, mse_informed_control] =
        [&half, &zero, &mean].map(|values| per_feature(values));
    if ![mse_half, mse_zero, mse_informed_control].iter().all(|v| v.is_finite()) {
        return Err(AssessError::Overflow { what: "the sums of squares" });
    }
    Ok(PretrainingBounds {
        classes,
        features: d,
        records: n,
        mse_half,
        mse_zero,
        mse_informed_control,
        by_rank,
    })
}
