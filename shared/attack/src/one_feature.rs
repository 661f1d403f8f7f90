//! The black box with one passive feature (R section VI): no parameter of the passive party is
//! known, only that its feature lies in [0, 1] and that many records were scored.
//!
//! The adversary takes its own part out of the scores and is left with v_i = ω x_i + β, with ω ≠ 0
//! and β unknown. Among many records some x_i is near 1 and some near 0 (R lemma 2), so the
//! extremes of v stand for the ends of [0, 1] and the error vanishes as records are added. A
//! [`OneFeatureCase`], the knowledge of ω and β, says which extreme is which end.
//!
//! In a view, v is b' = c' − J W_act y − J b, all that the adversary does not know, and β is the
//! part of the true bias that `b` lacks. It is 0 where the active party holds the bias, as in this
//! project. An adversary that does not know the bias has `b` = 0.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use super::entry::{Entry, Group};
use super::settings::Setting;
use super::{
    AdversaryView, Attack, AttackError, Need, Needs, OneFeatureCase, OneFeatureError,
    Reconstruction, Status,
};

/// Estimates the feature of every record from v (one value per record, any unit), by R section VI:
///
/// - [`OneFeatureCase::NoIntercept`]: x̂ = v / v_M with M = arg max |v| (R (64)).
/// - [`OneFeatureCase::SameSign`]: x̂ = (v − v_m) / (v_M − v_m), with m = arg min |v|. This is R's
///   1/(1 − α) without its division by zero at v = v_m. By magnitudes, not signed values: R's code
///   takes the latter, which is wrong when ω, β < 0.
/// - [`OneFeatureCase::OppositeSigns`]: the same with M and m exchanged if all v have one sign (a 0
///   has either), else ½, the mean of the two estimates that cannot be told apart (R VI-C2).
/// - [`OneFeatureCase::Rising`] and [`OneFeatureCase::Falling`]: (v − min v)/(max v − min v) and 1
///   less that.
///
/// The error of the first is at most (1 − max x)² per record in the mean (R (65)), of the others at
/// most (1 − max x)² + (min x)² (R (71)), whenever the case is true. No records give no estimates.
///
/// # Errors
/// [`OneFeatureError::NotFinite`]; [`OneFeatureError::Undefined`] if all v are equal (all 0 in the
/// first case).
pub fn one_feature(case: OneFeatureCase, v: &[f64]) -> Result<Vec<f64>, OneFeatureError> {
    if let Some(record) = v.iter().position(|v| !v.is_finite()) {
        return Err(OneFeatureError::NotFinite { record });
    }
    if v.is_empty() {
        return Ok(Vec::new());
    }
    let Some((zero, one)) = case.ends(v) else { return Ok(vec![0.5; v.len()]) };
    if zero == one {
        return Err(OneFeatureError::Undefined { case });
    }
    // Halves where the range itself overflows; elsewhere the plain quotient, exact at both ends.
    let scale = if (one - zero).is_finite() { 1.0 } else { 0.5 };
    let (zero, range) = (zero * scale, one * scale - zero * scale);
    Ok(v.iter().map(|v| (v * scale - zero) / range).collect())
}

/// Works as [`one_feature`], and uses the population's mean μ of the feature if the case leaves
/// open which end is which (R footnote 15).
///
/// In that case v fits x̂ = u and x̂ = 1 − u, with u the min-max scaled v. The sum over the records
/// of ω x + β = v says that the right one has their mean. For n records it lies around μ with
/// variance s²/n (s² that of u, the same of both). So if both were equally likely before, the
/// probability of u is w = 1 / (1 + exp(−2 n (ū − ½)(μ − ½) / s²)). The estimate is the mean of the
/// two, ½ + (2w − 1)(u − ½): u or 1 − u as soon as there are many records, and still ½ if μ does
/// not tell them apart.
///
/// # Errors
/// As [`one_feature`].
pub fn one_feature_of_mean(
    case: OneFeatureCase,
    v: &[f64],
    mean: f64,
) -> Result<Vec<f64>, OneFeatureError> {
    let found = one_feature(case, v)?;
    if v.is_empty() || case.ends(v).is_some() {
        return Ok(found);
    }
    let u = one_feature(OneFeatureCase::Rising, v)?;
    let n = u.len() as f64;
    let average = u.iter().sum::<f64>() / n;
    let variance = u.iter().map(|u| (u - average).powi(2)).sum::<f64>() / n;
    // Both signs are among v, so that u takes 0 and 1 and its variance is not 0.
    let lead = 2.0 * n * (average - 0.5) * (mean - 0.5) / variance;
    let weight = 1.0 / (1.0 + (-lead).exp());
    Ok(u.iter().map(|u| 0.5 + (2.0 * weight - 1.0) * (u - 0.5)).collect())
}

/// The attack on a view with one passive feature. v is b', in which the passive parameters have no
/// part.
///
/// A model of k > 2 classes gives k − 1 log-ratios of each record, all of them multiples of the
/// same x when β = 0. The first case then takes v along the principal direction of b', in which x
/// weighs most, so that the effects of noise or rounding on scores are averaged over classes. The
/// other cases are about the signs of one ω and one β. Those of k − 1 log-ratios need not agree,
/// and are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneFeature {
    /// The knowledge of ω and β.
    pub case: OneFeatureCase,
    /// The population's mean of the feature, in [0, 1] of its range. `None`: that of the view's
    /// moments, if it has any.
    pub population_mean: Option<f64>,
}

static CASE: Setting<OneFeatureCase> = Setting {
    key: "one_feature_case",
    takes: "what one_feature knows of v = w x + b: 1 (b = 0), 2 (w b > 0), 3 (w b < 0), +- (w > 0 > b) or -+ (default 1)",
    read: |value| value.parse().ok(),
};

static POPULATION_MEAN: Setting<f64> = Setting {
    key: "population_mean",
    takes: "the population's mean of the one feature, 0 to 1 of its range: tells one_feature in case 3 which end is which \
            (default: that of the moments that are known, if any are)",
    read: |value| value.trim().parse().ok().filter(|mean| (0.0..=1.0).contains(mean)),
};

pub(super) static ONE_FEATURE: Entry = Entry {
    settings: &[&CASE, &POPULATION_MEAN],
    ..Entry::new("one_feature", Group::Special, |settings| {
        let case = settings.get(&CASE).unwrap_or_default();
        Box::new(OneFeature { case, population_mean: settings.get(&POPULATION_MEAN) })
    })
};

impl Attack for OneFeature {
    fn needs(&self) -> Needs {
        let prior =
            if self.case == OneFeatureCase::OppositeSigns { Need::IfThere } else { Need::No };
        Needs { prior, ..Needs::RELEASE }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if view.target_features() != 1 {
            return Err(OneFeatureError::Features { got: view.target_features() }.into());
        }
        let b_prime = view.b_prime()?;
        let known =
            || view.side_information().prior.and_then(|prior| prior.mean().iter().next().copied());
        let mean = self.population_mean.or_else(known);
        let found = if b_prime.nrows() == 1 {
            match mean {
                Some(mean) => one_feature_of_mean(self.case, b_prime.as_slice(), mean)?,
                None => one_feature(self.case, b_prime.as_slice())?,
            }
        } else if self.case == OneFeatureCase::NoIntercept {
            one_feature(self.case, along_principal_direction(b_prime)?.as_slice())?
        } else {
            return Err(
                OneFeatureError::Classes { case: self.case, got: view.model().classes() }.into()
            );
        };
        let ambiguous = self.case.ends(b_prime.as_slice()).is_none() && mean.is_none();
        let status = if ambiguous { Status::Baseline } else { Status::Scaled };
        let estimates = DMatrix::from_vec(1, found.len(), found);
        Ok(Reconstruction::new(estimates, status))
    }
}

/// Returns uᵀ b' of each record, with u the left singular vector of the largest singular value of
/// b' ((k − 1) × n).
fn along_principal_direction(b_prime: &DMatrix<f64>) -> Result<DVector<f64>, OneFeatureError> {
    let largest = b_prime.amax();
    if let Some(at) = b_prime.iter().position(|v| !v.is_finite()) {
        return Err(OneFeatureError::NotFinite { record: at / b_prime.nrows() });
    }
    if largest == 0.0 {
        return Ok(DVector::zeros(b_prime.ncols()));
    }
    // Scaled to order 1, so that no square overflows or vanishes.
    let scaled = b_prime / largest;
    let eigen = (&scaled * scaled.transpose()).symmetric_eigen();
    let principal = eigen.eigenvectors.column(eigen.eigenvalues.imax());
    Ok(scaled.tr_mul(&principal))
}
