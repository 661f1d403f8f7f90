//! P's defenses, as numbers that an attack treats as scores.

use nalgebra::DMatrix;
use vfl_core::types::{Logits, ReleasedScores};
use vfl_defense::{DefenseError, Grants, Noise, Pipeline, Policy};

use super::super::ReproduceError;
use super::model::failed;

/// P's defenses, by the names of their columns. PRIVEE is as in its authors' code: one draw for all
/// records, from parts of [0, 3] and, for DP++, of [0, 1].
pub(super) const DEFENSES: [(&str, &str); 8] = [
    ("none", "none"),
    ("r1", "rounding (decimals = 1)"),
    ("r2", "rounding (decimals = 2)"),
    ("ope", "order_preserving_encryption"),
    ("dp_0.5", "dp_gaussian (epsilon = 0.5, as_published = true)"),
    ("dp_0.7", "dp_gaussian (epsilon = 0.7, as_published = true)"),
    ("privee_dp", "privee_dp (as_published = true)"),
    ("privee_dp_pp", "privee_dp_plus_plus (as_published = true)"),
];

/// The defenses of table 12.
pub(super) const TABLE_12: [(&str, &str); 8] = [
    ("none", "none"),
    ("r1", "rounding (decimals = 1)"),
    ("r2", "rounding (decimals = 2)"),
    ("ope", "order_preserving_encryption"),
    ("dp_0.5", "dp_gaussian (epsilon = 0.5, as_published = true)"),
    ("dp_1", "dp_gaussian (epsilon = 1.0, as_published = true)"),
    ("privee_dp", "privee_dp (as_published = true)"),
    ("privee_dp_pp", "privee_dp_plus_plus (as_published = true)"),
];

/// The adversary that knows that PRIVEE is used: it divides by the mean scale of each rank.
pub(super) const AWARE: &str = "privee_dp_aware";
/// ε, δ and Δf of P (9) as in the policy, and the end of the interval that the authors' code draws
/// from.
pub(super) const SCALE: (f64, f64, f64) = (0.1, 1e-5, 0.1);
const UP_TO: f64 = 3.0;

/// Parses a policy.
pub(super) fn policy(text: &str) -> Result<Policy, ReproduceError> {
    text.parse().map_err(|e| failed(0, format!("{e}")))
}

/// Returns the release of a policy.
pub(super) fn released(
    policy: &Policy,
    logits: &DMatrix<f64>,
) -> Result<ReleasedScores, ReproduceError> {
    released_at(policy, logits, 0)
}

/// Returns the release of a policy with one of several draws of its noise.
pub(super) fn released_at(
    policy: &Policy,
    logits: &DMatrix<f64>,
    draw: u8,
) -> Result<ReleasedScores, ReproduceError> {
    let failed =
        |error: DefenseError| ReproduceError::Defense { defense: policy.to_string(), error };
    let pipeline =
        Pipeline::build(&policy.defenses, logits.nrows(), &Grants::default()).map_err(failed)?;
    Ok(pipeline
        .release(Logits::new(logits.clone())?, Noise::fresh([7 + draw; 32]))
        .map_err(failed)?
        .released)
}

/// Replaces ciphertexts as P's code does: by their ranks within a record, 1/K
/// for the smallest to 1.
pub(super) fn ranks(released: ReleasedScores) -> ReleasedScores {
    let ReleasedScores::Ciphertexts(cipher) = released else { return released };
    let k = cipher.nrows() as f64;
    let rank = |i, j| {
        (1 + cipher.column(j).iter().filter(|other| **other < cipher[(i, j)]).count()) as f64 / k
    };
    ReleasedScores::Numbers(DMatrix::from_fn(cipher.nrows(), cipher.ncols(), rank))
}

/// Removes PRIVEE's mean scale: p + 2/K = c (1 + σ u), u from the part of [0, 3] that belongs to
/// the rank of c.
pub(super) fn undone(p: &DMatrix<f64>, sigma: f64) -> DMatrix<f64> {
    let k = p.nrows() as f64;
    let mut out = p.clone();
    for mut column in out.column_iter_mut() {
        let mut order: Vec<usize> = (0..column.len()).collect();
        order.sort_by(|a, b| column[*a].total_cmp(&column[*b]));
        for (rank, at) in order.into_iter().enumerate() {
            let scale = 1.0 + sigma * UP_TO * (rank as f64 + 0.5) / k;
            column[at] = ((column[at] + 2.0 / k) / scale).max(0.0);
        }
        let sum = column.sum();
        if sum > 0.0 {
            column /= sum;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vfl_defense::policy::gaussian_scale;

    fn logits() -> DMatrix<f64> {
        DMatrix::from_row_slice(4, 2, &[2.0, -1.0, 0.5, 0.0, -1.0, 3.0, 0.0, 1.0])
    }

    #[test]
    fn ciphertexts_become_ranks_in_their_record() {
        let cipher = released(&policy("order_preserving_encryption").unwrap(), &logits()).unwrap();
        let ReleasedScores::Numbers(found) = ranks(cipher) else { panic!("no numbers") };
        assert_eq!(
            found,
            DMatrix::from_row_slice(4, 2, &[1.0, 0.25, 0.75, 0.5, 0.25, 1.0, 0.5, 0.75])
        );
    }

    /// An adversary that knows the formula is within the width of a part of [0, 3]: for K = 4 and a
    /// large σ, 1 + σu is known to a factor of 2 for the worst rank and 8/7 for the best, which
    /// changes the sum too. Without dividing it out, the largest entry is several times too large.
    #[test]
    fn what_is_divided_out_is_near_the_scores() {
        let exact = released(&policy("none").unwrap(), &logits()).unwrap();
        let ReleasedScores::Probabilities(exact) = exact else { panic!("no scores") };
        for epsilon in [0.05, 0.9] {
            let text = format!("privee_dp (as_published = true, epsilon = {epsilon:?})");
            let ReleasedScores::Numbers(p) = released(&policy(&text).unwrap(), &logits()).unwrap()
            else {
                panic!("no numbers")
            };
            let found = undone(&p, gaussian_scale(epsilon, SCALE.1, SCALE.2));
            for (column, exact) in found.column_iter().zip(exact.column_iter()) {
                assert!((column.sum() - 1.0).abs() < 1e-12);
                let largest = exact.imax();
                assert_eq!(column.imax(), largest);
                let ratio = column[largest] / exact[largest];
                assert!((0.5..1.6).contains(&ratio), "{ratio}");
            }
            assert!((p - &exact).norm() > (found - &exact).norm());
        }
    }
}
