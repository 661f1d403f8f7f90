//! Rounding to a number of decimals (J section VI, P section 6).

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{RoundedSimplex, rounded_simplex_bits};

use super::definition::{Definition, Domain, OwnBound};
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "rounding";
/// The most decimals: a double has no more digits to round.
const MOST: u32 = 15;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::required("decimals", ParameterKind::Whole, "0 to 15", 2.0)],
    examples: |_| [2, 1].map(|decimals| DefenseConfig::Rounding { decimals }).into(),
    within_bits: |classes, bits| {
        let told = |decimals| rounded_simplex_bits(classes, decimals, RoundedSimplex::Whole);
        let most = (0..=MOST).rev().find(|decimals| told(*decimals) <= bits);
        most.map(|decimals| DefenseConfig::Rounding { decimals })
    },
    ..Facts::PLAIN
};

pub(super) fn definition(decimals: u32) -> Definition<'static> {
    let told =
        move |classes, scores| OwnBound::Bits(rounded_simplex_bits(classes, decimals, scores));
    Definition {
        leaves: ReleaseKind::Rounded,
        bits: Box::new(move |classes, domain| match domain {
            Domain::Simplex => told(classes, RoundedSimplex::Whole),
            Domain::Largest(kept) => told(classes, RoundedSimplex::Largest(kept)),
            Domain::Any => OwnBound::NOT_FROM_SCORES,
        }),
        // Half a step.
        zero_floor: Some(0.5 * 10f64.powi(-(decimals as i32))),
        ..Definition::at_scores(
            &FACTS,
            Output::Numbers,
            move || Rounding::check(decimals),
            move |_, _| Rounding::new(decimals),
        )
    }
}

/// Rounds each score to `decimals` digits, ties to even on c · 10^decimals, as P's code does: 0.25
/// gives 0.2, 0.35 gives 0.4.
///
/// The result is within half a step of the score but need not sum to 1, and distinct scores may
/// become equal, so neither the arg max nor the ranking is promised.
///
/// A probability vector is released as one of the vectors that real numbers of sum 1 can be rounded
/// to: where the round-off of doubles would take a tie to the wrong side, an entry is moved by a
/// step, so that [`rounded_simplex_bits`] holds for
/// what is really released.
#[derive(Debug, Clone, Copy)]
pub struct Rounding {
    step: f64,
}

impl Rounding {
    /// Creates rounding to `decimals` digits, 0 to 15.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] above 15: a double has no more digits to round.
    pub fn new(decimals: u32) -> Result<Self, DefenseError> {
        Self::check(decimals).map(|()| Self { step: 10f64.powi(decimals as i32) })
    }

    pub(super) fn check(decimals: u32) -> Result<(), DefenseError> {
        checked(decimals <= MOST, NAME, "decimals", decimals, "0 to 15")
    }
}

/// Rounds `c` to a multiple of 1/`step`. From 2⁵² units on (large numbers after noise) nothing is
/// left to round, and the product may be beyond a double.
fn rounded(c: f64, step: f64) -> f64 {
    let units = c * step;
    if units.abs() < (1u64 << 52) as f64 { units.round_ties_even() / step } else { c }
}

/// Returns how far the sum of a probability vector of k entries, in doubles, is from 1 at most.
fn round_off(k: usize) -> f64 {
    (2 * k + 8) as f64 * 0.5 * f64::EPSILON
}

/// Moves entries of a rounded probability vector, in units, until it is the rounding, ties to even,
/// of some vector of sum `step`: with sum S and p entries above 0, S − p/2 < step < S + k/2, or
/// equality at an end where all entries are even.
fn keep_reachable(units: &mut [f64], step: f64) {
    // At most one entry has to be moved while the round-off of the sum is below half a unit.
    for _ in 0..units.len() {
        let sum: f64 = units.iter().sum();
        let above = units.iter().filter(|u| **u > 0.0).count() as f64;
        let even = |u: &f64| u % 2.0 == 0.0;
        let (low, high) = (sum - 0.5 * above, sum + 0.5 * units.len() as f64);
        let all_even = units.iter().all(even);
        let by = if low > step || (low == step && !all_even) {
            -1.0
        } else if high < step || (high == step && !all_even) {
            1.0
        } else {
            return;
        };
        let moves = |u: &f64| by > 0.0 || *u > 0.0;
        let odd = units.iter().position(|u| moves(u) && !even(u));
        match odd.or_else(|| units.iter().position(moves)) {
            Some(at) => units[at] += by,
            None => return,
        }
    }
}

impl Defense for Rounding {
    fn contract(&self) -> Contract {
        let output = Output::Numbers;
        Contract {
            output,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: false,
            bits: None,
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        let slack = round_off(k);
        for column in scores.as_mut_slice().chunks_exact_mut(k.max(1)) {
            let probabilities = (column.iter().sum::<f64>() - 1.0).abs() <= slack
                && column.iter().all(|c| *c >= 0.0);
            // With more digits, the sum of the units is not exact to half a unit.
            if probabilities && 2.0 * slack * self.step < 1.0 {
                column.iter_mut().for_each(|c| *c = (*c * self.step).round_ties_even());
                keep_reachable(column, self.step);
                column.iter_mut().for_each(|c| *c /= self.step);
            } else {
                column.iter_mut().for_each(|c| *c = rounded(*c, self.step));
            }
        }
        Ok(ReleasedScores::Numbers(scores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reachable(k: usize, units: &[f64], step: f64) -> Vec<f64> {
        assert_eq!(units.len(), k);
        let mut units = units.to_vec();
        keep_reachable(&mut units, step);
        units
    }

    #[test]
    fn a_tie_that_round_off_took_to_the_wrong_side_is_taken_back() {
        // 5.5 and 4.5 give 6 and 4, never 5 and 4 or 6 and 5.
        assert_eq!(reachable(2, &[6.0, 4.0], 10.0), [6.0, 4.0]);
        assert_eq!(reachable(2, &[5.0, 4.0], 10.0), [6.0, 4.0]);
        assert_eq!(reachable(2, &[6.0, 5.0], 10.0), [6.0, 4.0]);
        // One half each gives two zeros, a half and two quarters one 0 at least.
        assert_eq!(reachable(2, &[0.0, 0.0], 1.0), [0.0, 0.0]);
        assert_eq!(reachable(2, &[1.0, 1.0], 1.0), [0.0, 1.0]);
        assert_eq!(reachable(3, &[0.0, 0.0, 0.0], 1.0), [0.0, 0.0, 0.0]);
    }

    /// Doubles around all ties of two classes: no more vectors than are counted.
    #[test]
    fn scores_at_ties_give_no_more_vectors_than_are_counted() {
        for decimals in [0u32, 1, 2, 6] {
            let (defense, step) = (Rounding::new(decimals).unwrap(), 10f64.powi(decimals as i32));
            let bits = vfl_numerics::rounded_simplex_bits(2, decimals, Default::default());
            let mut seen = std::collections::HashSet::new();
            for tie in 0..(step as u64).min(100) {
                let tie = (tie as f64 + 0.5) / step;
                for (up, down) in (-3..=3).flat_map(|a| (-3..=3).map(move |b| (a, b))) {
                    let nudge =
                        |c: f64, ulps: i64| f64::from_bits((c.to_bits() as i64 + ulps) as u64);
                    let scores =
                        DMatrix::from_vec(2, 1, vec![nudge(tie, up), nudge(1.0 - tie, down)]);
                    if (scores.sum() - 1.0).abs() > round_off(2) {
                        continue;
                    }
                    let ReleasedScores::Numbers(out) =
                        defense.apply(scores, &Noise::fresh([0; 32])).unwrap()
                    else {
                        panic!("kind")
                    };
                    let units = (out[0] * step).round() as i64 + (out[1] * step).round() as i64;
                    assert!(decimals == 0 || units == step as i64, "{decimals}: {out}");
                    seen.insert([out[0].to_bits(), out[1].to_bits()]);
                }
            }
            assert!((seen.len() as f64).log2() <= bits + 1e-9, "{decimals}: {} {bits}", seen.len());
        }
    }
}
