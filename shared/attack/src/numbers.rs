//! Attacks on models of a number. One answer is one equation, w x = g(v) − w_act y − b.
//!
//! A linear predictor η is the difference of two logits, the first of which is 0: the equations,
//! cells and grids of scores then hold as they are.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::Link;
use vfl_defense::{Bins, DefenseConfig};

use super::adaptive::KnownPolicy;
use super::{AttackError, Cell, KnownModel, Replacement};

/// Noise lies within so many standard deviations: all but 1 of 15 787 draws.
const DEVIATIONS: f64 = 4.0;
/// The round-off of a released number, relative to its size.
const ROUND_OFF: f64 = 1e-14;

/// Returns the rows 0 and `w` (1 × d): two logits whose difference is the predictor of `w`.
#[must_use]
pub fn as_difference(w: &DMatrix<f64>) -> DMatrix<f64> {
    w.clone().insert_row(0, 0.0)
}

impl KnownModel {
    /// Creates a model of a number: weights `w_act` (1 × d_act) and `bias` of the adversary, and
    /// `w_pas` (1 × d) of the passive parties, or their number of features if they are hidden.
    ///
    /// # Errors
    /// [`AttackError::View`] unless the weights have one row.
    pub fn of_number(
        link: Link,
        w_act: &DMatrix<f64>,
        bias: f64,
        w_pas: Result<&DMatrix<f64>, usize>,
    ) -> Result<Self, AttackError> {
        super::sizes::same("active weights", "rows", 1, w_act.nrows())?;
        let (w_act, bias) = (as_difference(w_act), DVector::from_vec(vec![0.0, bias]));
        let model = match w_pas {
            Ok(w_pas) => {
                super::sizes::same("passive weights", "rows", 1, w_pas.nrows())?;
                Self::white_box(w_act, bias, as_difference(w_pas))?
            }
            Err(features) => Self::black_box(w_act, bias, features)?,
        };
        Ok(model.with_link(link))
    }
}

/// Returns the linear predictor of a released number. Beyond the range of the link, where rounding
/// and noise may take it, it is that of the number nearest to the end by `replacement`.
pub(crate) fn predictor(link: Link, number: f64, replacement: Replacement) -> f64 {
    // Behind rounding to whole numbers the floor is ½, which would be the middle of a proportion.
    let floor = replacement.of(0.0).min(0.25);
    link.predictor(match link {
        Link::Log if number <= 0.0 => floor,
        Link::Logit if number <= 0.0 => floor,
        Link::Logit if number >= 1.0 => 1.0 - floor,
        _ => number,
    })
}

/// The largest deviation of a number relative to its distance from the end of the link's range, up
/// to which the predictor is taken for normal.
const NEARLY_LINEAR: f64 = 0.3;

/// The evidence that a released number gives of the number before the policy.
struct NumberEvidence {
    /// The ends between which it lies, with noise in all but 1 of 15 787 records.
    ends: (f64, f64),
    /// The variance of the release about it; 0 without noise.
    variance: f64,
}

impl NumberEvidence {
    /// Reads a release, the mean of `averaged` different answers. Behind noise a rounding or a bin
    /// adds the variance of a uniform number.
    fn of(known: &KnownPolicy, number: f64, averaged: usize) -> Result<Self, AttackError> {
        let policy = || AttackError::Policy {
            attack: "this attack on numbers",
            expected: "none, rounding, bins or gaussian_noise of known sigma",
            got: known.policy.to_string(),
        };
        let (mut low, mut high) = (number, number);
        let (mut variance, mut quantised) = (0.0, 0.0);
        for defense in known.policy.defenses.iter().rev() {
            match *defense {
                DefenseConfig::None {} => {}
                DefenseConfig::Rounding { decimals } => {
                    let half = 0.5 * 10f64.powi(-(decimals as i32));
                    (low, high) = (low - half, high + half);
                    quantised += (2.0 * half).powi(2) / 12.0;
                }
                DefenseConfig::Bins { lower, upper, count } => {
                    let bins = Bins::new(lower, upper, count).map_err(|_| policy())?;
                    (low, high) = (bins.ends(low).0, bins.ends(high).1);
                    quantised += ((upper - lower) / f64::from(count)).powi(2) / 12.0;
                }
                DefenseConfig::GaussianNoise { sigma } if known.scale_known => {
                    let n = averaged.max(1) as f64;
                    // What follows the noise is blurred by it.
                    variance += (sigma * sigma + quantised) / n;
                    quantised = 0.0;
                    let reach = DEVIATIONS * sigma;
                    (low, high) = (low - reach, high + reach);
                }
                _ => return Err(policy()),
            }
        }
        if variance > 0.0 {
            // What stands before the noise is the same in all answers.
            variance += quantised;
        }
        let slack = |v: f64| if v.is_finite() { ROUND_OFF * (1.0 + v.abs()) } else { 0.0 };
        Ok(Self { ends: (low - slack(low), high + slack(high)), variance })
    }

    /// Returns the predictor and its deviation, if the release is the number with normal noise: not
    /// near an end of the link's range, and not in the first or the last bin.
    fn observation(&self, link: Link, number: f64, averaged: usize) -> Option<(f64, f64)> {
        let (low, high) = self.ends;
        if self.variance <= 0.0 || (averaged <= 1 && !(low.is_finite() && high.is_finite())) {
            return None;
        }
        let deviation = self.variance.sqrt();
        let slope = match link {
            Link::Softmax | Link::OneVsRest | Link::Identity => 1.0,
            Link::Log => 1.0 / number,
            Link::Logit => 1.0 / (number * (1.0 - number)),
        };
        let range = match link {
            Link::Softmax | Link::OneVsRest | Link::Identity => f64::INFINITY,
            Link::Log => number,
            Link::Logit => number.min(1.0 - number),
        };
        (deviation <= NEARLY_LINEAR * range).then(|| (link.predictor(number), deviation * slope))
    }
}

/// Returns the cell of each record, from numbers released under a known policy: the predictor with
/// its deviation behind noise, bounds on it otherwise.
pub(crate) fn cells(
    known: &KnownPolicy,
    link: Link,
    released: &[f64],
    averaged: usize,
) -> Result<Vec<Cell>, AttackError> {
    let cell = |&number: &f64| {
        let evidence = NumberEvidence::of(known, number, averaged)?;
        let observed = evidence.observation(link, number, averaged);
        let mut cell = Cell { observed, ..Cell::default() };
        let (low, high) = (link.predictor(evidence.ends.0), link.predictor(evidence.ends.1));
        // Noise may take both ends beyond the range of the link: nothing is known then.
        let some = low < f64::INFINITY && high > f64::NEG_INFINITY;
        if cell.observed.is_none() && some {
            cell.certain(1, 0, low, high);
        }
        Ok(cell)
    };
    released.iter().map(cell).collect()
}
