//! Known noise at the logits (R section VII-B). It lies along one direction for each predicted
//! class, and hides only the component along this direction.
//!
//! - Scheme 1: n = t ñ/‖ñ‖ with t = √α, where ñ is v₁ with max v₁ at the predicted class i*. The
//!   scheme keeps i*, so ñ is known. If α is known, so is n, and the scores are recovered exactly.
//! - Scheme 2: n = t v₁, and then z̃_{i*} is raised to the maximum. Without a tie at the top
//!   nothing was raised, and n is known. With a tie, i* is the one of the two classes with the
//!   smaller entry of v₁ (noise took it below the other). Only the amount of the raise is hidden:
//!   z_{i*} ≥ z_j for all j, and z'_{i*} ≤ z'_{j*}.
//! - Temperature and scheme 3 only stretch differences of logits. The attack undoes them.
//!
//! If α is secret, t is one more unknown, common to all records. Each record confines it, and t
//! stays in the intersection of these ranges.

use nalgebra::{DMatrix, SymmetricEigen};
use rand::Rng;
use rayon::prelude::*;
use vfl_defense::DefenseConfig;
use vfl_numerics::{ActiveSet, NearestOutcome, Polytope, arg_max};

use super::preimage::vectors;
use super::{Centre, Interval, KnownPolicy};
use crate::cells::Noise;
use crate::{
    AdversaryView, Attack, AttackError, Bound, Cell, Cells, Entry, Group, Needs, Parameters,
    Reconstruction,
};

/// Logits closer than this are tied: scheme 2 sets them equal, or apart by a margin.
const TIED: f64 = 1e-9;

/// The attack that removes noise along a known direction.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseDirection {
    /// The known policy.
    pub known: KnownPolicy,
}

impl NoiseDirection {
    fn cells(
        &self,
        view: &AdversaryView<'_>,
        scheme: u32,
        alpha: f64,
    ) -> Result<Cells, AttackError> {
        let v = worst_direction(view)?;
        let released = view.released()?;
        let released = vectors(released)
            .map_err(|_| AttackError::unfit("noise_direction", "score vectors", released))?;
        // A score of 0 says only that it is small; its logarithm is that of the view's replacement.
        let scores = view.scores()?;
        let length = alpha.sqrt();
        let ends = if self.known.scale_known { (length, length) } else { (0.0, f64::INFINITY) };
        let cells = (0..view.records())
            .map(|record| {
                let logs: Vec<f64> = scores.column(record).iter().map(|c| c.ln()).collect();
                let zero: Vec<bool> = released.column(record).iter().map(|c| *c <= 0.0).collect();
                if scheme == 1 {
                    first(&logs, &zero, &v, ends)
                } else {
                    second(&logs, &zero, &v, ends)
                }
            })
            .collect();
        let mut cells = Cells::new(view, cells)?;
        if !self.known.scale_known {
            let (lower, upper) = common_length(&cells);
            for noise in cells.cells.iter_mut().filter_map(|c| c.noise.as_mut()) {
                noise.ends = (lower, upper);
            }
        }
        Ok(cells)
    }

    /// Returns the set of features that each record's release allows. If the length of the noise is
    /// secret, it is the last unknown.
    ///
    /// # Errors
    /// [`AttackError::Policy`] if the policy is not one noise at the logits; [`AttackError::Unfit`]
    /// for labels and ciphertexts; [`AttackError::NeedsParameters`] in the black box.
    pub fn polytopes(&self, view: &AdversaryView<'_>) -> Result<Vec<Polytope>, AttackError> {
        match self.scheme(view)? {
            None => Interval { known: self.known.clone() }.polytopes(view),
            Some((scheme, alpha)) => {
                let cells = self.cells(view, scheme, alpha)?;
                Ok((0..view.records()).map(|r| cells.polytope(r)).collect())
            }
        }
    }

    /// Returns the scheme and α; `None` if the policy only stretches the logits.
    fn scheme(&self, view: &AdversaryView<'_>) -> Result<Option<(u32, f64)>, AttackError> {
        view.weights()?;
        let (at_logits, at_scores) = self.known.stages();
        match (at_logits.as_slice(), at_scores.is_empty()) {
            ([DefenseConfig::LogitNoise { scheme: scheme @ (1 | 2), alpha }], true)
                if *alpha >= 0.0 && alpha.is_finite() =>
            {
                Ok(Some((*scheme, *alpha)))
            }
            (_, true) if self.known.stretch().is_some() => Ok(None),
            _ => Err(AttackError::Policy {
                attack: "noise_direction",
                expected: "one logit_noise, or temperature and logit_noise scheme 3",
                got: self.known.policy.to_string(),
            }),
        }
    }
}

pub(crate) static NOISE_DIRECTION: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("noise_direction", Group::Adaptive, |settings| {
        Box::new(NoiseDirection { known: settings.into() })
    })
};

impl Attack for NoiseDirection {
    fn needs(&self) -> Needs {
        Needs { parameters: Parameters::Differentiable, ..Needs::WHITE_BOX }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let only_stretched = self.known.stages().1.is_empty() && self.known.stretch().is_some();
        if view.model().needs_tangents() && only_stretched {
            return Interval { known: self.known.clone() }.through_network(view, rng);
        }
        let centre = self.known.centre.unwrap_or(Centre::Half);
        match self.scheme(view)? {
            None => Interval { known: KnownPolicy { centre: Some(centre), ..self.known.clone() } }
                .reconstruct(view, rng),
            Some((scheme, alpha)) => self.cells(view, scheme, alpha)?.estimate(view, centre, rng),
        }
    }
}

/// Returns bounds on the differences of class `reference` to all classes but `left_out`.
fn differences(
    logs: &[f64],
    zero: &[bool],
    reference: usize,
    left_out: Option<usize>,
) -> Vec<Bound> {
    (0..logs.len())
        .filter(|&j| j != reference && Some(j) != left_out)
        .map(|j| {
            let value = logs[reference] - logs[j];
            let upper = if zero[j] { f64::INFINITY } else { value };
            Bound { i: reference, j, lower: value, upper, noisy: true }
        })
        .collect()
}

fn first(logs: &[f64], zero: &[bool], v: &[f64], ends: (f64, f64)) -> Cell {
    let top = arg_max(logs);
    let largest = v[arg_max(v)];
    let mut direction: Vec<f64> =
        (0..v.len()).map(|i| if logs[i] == logs[top] { largest } else { v[i] }).collect();
    let norm = direction.iter().map(|n| n * n).sum::<f64>().sqrt();
    if norm > 0.0 {
        direction.iter_mut().for_each(|n| *n /= norm);
    }
    let mut bounds = differences(logs, zero, top, None);
    // The scheme keeps the predicted class.
    bounds.extend((0..v.len()).filter(|&j| j != top).map(|j| order(top, j)));
    Cell { bounds, noise: Some(Noise { direction, ends }), ..Cell::default() }
}

fn second(logs: &[f64], zero: &[bool], v: &[f64], ends: (f64, f64)) -> Cell {
    let top = arg_max(logs);
    let tied: Vec<usize> = (0..logs.len())
        .filter(|&i| logs[top] - logs[i] <= TIED * (1.0 + logs[top].abs()))
        .collect();
    let noise = Some(Noise { direction: v.to_vec(), ends });
    let smallest = tied.iter().copied().min_by(|&a, &b| v[a].total_cmp(&v[b])).unwrap_or(top);
    let other = tied.iter().copied().find(|&i| i != smallest);
    let mut bounds = match other {
        None => differences(logs, zero, top, None),
        Some(reference) => {
            let mut bounds = differences(logs, zero, reference, Some(smallest));
            bounds.push(Bound {
                i: smallest,
                j: reference,
                lower: f64::NEG_INFINITY,
                upper: 0.0,
                noisy: true,
            });
            bounds
        }
    };
    bounds.extend((0..v.len()).filter(|&j| j != smallest).map(|j| order(smallest, j)));
    Cell { bounds, noise, ..Cell::default() }
}

/// Returns the bound z_i ≥ z_j.
fn order(i: usize, j: usize) -> Bound {
    Bound { i, j, lower: 0.0, upper: f64::INFINITY, noisy: false }
}

/// Returns the range of noise lengths that all records allow.
fn common_length(cells: &Cells) -> (f64, f64) {
    /// The distance from which the least or greatest length is searched. From there the distance of
    /// the features to ½ counts for next to nothing.
    const FAR: f64 = 1e6;
    let n = cells.cells.len();
    let ranges: Vec<(f64, f64)> = (0..n)
        .into_par_iter()
        .map_init(ActiveSet::default, |work, record| {
            let set = cells.polytope(record);
            let unknowns = set.unknowns();
            // The most that the distance of the features to ½, at most d/8, can cost.
            let margin = Noise::SCALE * unknowns as f64 / (8.0 * FAR);
            let mut x = vec![0.5; unknowns];
            let mut end = |from: f64| {
                let mut target = vec![0.5; unknowns];
                target[unknowns - 1] = from;
                (set.nearest(&target, work, &mut x) == NearestOutcome::Found)
                    .then(|| Noise::SCALE * x[unknowns - 1])
                    .filter(|t| (t - Noise::SCALE * from).abs() > 1.0)
            };
            let lower = end(-FAR).map_or(0.0, |t| t - margin);
            let upper = end(FAR).map_or(f64::INFINITY, |t| t + margin);
            (lower.max(0.0), upper)
        })
        .collect();
    let (lower, upper) =
        ranges.iter().fold((0.0f64, f64::INFINITY), |(low, high), r| (low.max(r.0), high.min(r.1)));
    if lower <= upper { (lower, upper) } else { (0.5 * (lower + upper), 0.5 * (lower + upper)) }
}

/// Returns v₁, the right singular vector of A⁺J of the largest singular value. Its entry of largest
/// magnitude is positive (errata R8).
fn worst_direction(view: &AdversaryView<'_>) -> Result<Vec<f64>, AttackError> {
    let inverse = view.linear()?.pseudo_inverse();
    let (d, k) = (inverse.nrows(), view.model().classes());
    let m = DMatrix::from_fn(d, k, |i, j| {
        (if j > 0 { inverse[(i, j - 1)] } else { 0.0 })
            - (if j + 1 < k { inverse[(i, j)] } else { 0.0 })
    });
    let eigen = SymmetricEigen::try_new(m.transpose() * &m, f64::EPSILON, 10_000)
        .ok_or(AttackError::Decomposition(vfl_numerics::DecompositionError::NoConvergence))?;
    let largest = arg_max(eigen.eigenvalues.as_slice());
    let v = eigen.eigenvectors.column(largest);
    let sign = v.iter().fold(0.0f64, |m, x| if x.abs() > m.abs() { *x } else { m }).signum();
    Ok(v.iter().map(|x| x * sign).collect())
}
