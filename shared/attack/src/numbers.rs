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
    let floor = replacement.of(0.0);
    link.predictor(match link {
        Link::Softmax | Link::Identity => number,
        Link::Log => number.max(floor),
        Link::Logit => number.clamp(floor, 1.0 - floor),
    })
}

/// Returns the numbers that a policy may have released as `number`: the truth lies between the
/// ends, with noise in all but 1 of 15 787 records. `averaged` different answers are averaged.
pub(crate) fn ends(
    known: &KnownPolicy,
    number: f64,
    averaged: usize,
) -> Result<(f64, f64), AttackError> {
    let policy = || AttackError::Policy {
        attack: "this attack on numbers",
        expected: "none, rounding, bins or gaussian_noise of known sigma",
        got: known.policy.to_string(),
    };
    let (mut low, mut high) = (number, number);
    for defense in known.policy.defenses.iter().rev() {
        match *defense {
            DefenseConfig::None {} => {}
            DefenseConfig::Rounding { decimals } => {
                let half = 0.5 * 10f64.powi(-(decimals as i32));
                (low, high) = (low - half, high + half);
            }
            DefenseConfig::Bins { lower, upper, count } => {
                let bins = Bins::new(lower, upper, count).map_err(|_| policy())?;
                (low, high) = (bins.ends(low).0, bins.ends(high).1);
            }
            DefenseConfig::GaussianNoise { sigma } if known.scale_known => {
                let reach = DEVIATIONS * sigma / (averaged.max(1) as f64).sqrt();
                (low, high) = (low - reach, high + reach);
            }
            _ => return Err(policy()),
        }
    }
    let slack = |v: f64| if v.is_finite() { ROUND_OFF * (1.0 + v.abs()) } else { 0.0 };
    Ok((low - slack(low), high + slack(high)))
}

/// Returns the cell of each record: bounds on the predictor, from numbers released under a known
/// policy.
pub(crate) fn cells(
    known: &KnownPolicy,
    link: Link,
    released: &[f64],
    averaged: usize,
) -> Result<Vec<Cell>, AttackError> {
    released
        .iter()
        .map(|&number| {
            let (low, high) = ends(known, number, averaged)?;
            let mut cell = Cell::default();
            cell.certain(1, 0, link.predictor(low), link.predictor(high));
            Ok(cell)
        })
        .collect()
}
