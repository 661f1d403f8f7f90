//! The hyperbolic tangent and its slope on shares, by a wave of sines.
//!
//! For u = a + b, of which the first party knows a and the others know b, sin ωu is
//! sin ωa cos ωb + cos ωa sin ωb: the first party tells its two factors in shares, and the others
//! multiply what they hold of them by their own. A sum of sines costs no other message, nor does
//! its derivative, and a period that divides the ring needs no carry. (Boura et al., FC 2018,
//! compute Fourier series so with masks from a dealer; here the others know the mask itself.)
//!
//! The wave Σₘ (−1)^m tanh(u − 16 m) has the period 32 and the odd harmonics ωₖ = (2 k + 1) π / 16
//! with coefficients (π / 8) / sinh(π ωₖ / 2), by the Fourier transform of sech². Ten of them are
//! within 2.6e-3 of tanh u for |u| ≤ 10. Beyond 13 the wave turns back, to −tanh(u − 16).

use std::f64::consts::PI;

use crate::error::MpcError;
use crate::fixed_point::FixedPoint;
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The number of harmonics.
const HARMONICS: usize = 10;
/// Their coefficients, rounded to 10^−12.
const COEFFICIENTS: [f64; HARMONICS] = [
    1.253274970541,
    0.369400843786,
    0.176074934663,
    0.091893619208,
    0.049119355130,
    0.026433843466,
    0.014253367596,
    0.007689913942,
    0.004149514660,
    0.002239205956,
];
/// The base-2 logarithm of the period.
const PERIOD_BITS: u32 = 5;
/// The fraction bits of a factor.
const FACTOR_BITS: u32 = 30;

/// Returns the frequency of a harmonic.
fn frequency(at: usize) -> f64 {
    (2 * at + 1) as f64 * PI / f64::from(1_u32 << (PERIOD_BITS - 1))
}

/// Computes cos and sin of an angle of at most π in magnitude. Sums and products alone: two parties
/// must get the same bits on any machine.
fn turn(angle: f64) -> (f64, f64) {
    let small = angle / 32.0;
    let square = small * small;
    // cos for the first factor 1, and sin x / x for 2.
    let series = |first: u32| {
        let terms = (0..5).rev().map(|at| first + 2 * at);
        terms.fold(1.0, |sum, factor| 1.0 - square / f64::from(factor * (factor + 1)) * sum)
    };
    let (mut cos, mut sin) = (series(1), small * series(2));
    for _ in 0..5 {
        (cos, sin) = (cos * cos - sin * sin, 2.0 * cos * sin);
    }
    (cos, sin)
}

/// Calls `with` for each harmonic with its place, and the cos and sin of its multiple of an angle.
fn for_harmonics(angle: f64, mut with: impl FnMut(usize, f64, f64)) {
    let (mut cos, mut sin) = turn(angle);
    let (cos_two, sin_two) = (cos * cos - sin * sin, 2.0 * cos * sin);
    for at in 0..HARMONICS {
        with(at, cos, sin);
        (cos, sin) = (cos * cos_two - sin * sin_two, sin * cos_two + cos * sin_two);
    }
}

/// Computes the wave and its slope at u: the oracle of [`Session::tanh`].
pub(crate) fn wave(u: f64) -> (f64, f64) {
    let turns = u / f64::from(1_u32 << PERIOD_BITS);
    let (mut value, mut slope) = (0.0, 0.0);
    for_harmonics((turns - turns.round()) * 2.0 * PI, |at, cos, sin| {
        value += COEFFICIENTS[at] * sin;
        slope += COEFFICIENTS[at] * frequency(at) * cos;
    });
    (value, slope)
}

/// Encodes a factor, rounded towards 0: a call of the library for each would take most of the time.
fn scaled(value: f64) -> u64 {
    (value * f64::from(1_u32 << FACTOR_BITS)) as i64 as u64
}

/// Returns the angle of a summand of u, from −π to π.
fn angle(word: u64, fixed: FixedPoint) -> f64 {
    let unused = 64 - PERIOD_BITS - fixed.fraction_bits();
    let turns = ((word << unused) as i64) as f64 * (-64_f64).exp2();
    turns * 2.0 * PI
}

impl Session {
    /// Computes tanh u and its slope. For |u| ≤ 10 the errors are at most 2.6e-3 and 1.3e-2, and a
    /// unit; beyond 13 the result has another sign. Three rounds, 160 bytes per number and two
    /// truncations.
    ///
    /// # Errors
    /// Those of links.
    pub fn tanh(
        &mut self,
        numbers: &Shares,
        fixed: FixedPoint,
    ) -> Result<(Shares, Shares), MpcError> {
        let count = numbers.len();
        let known = self.known_summand(numbers);
        let mut factors = Vec::new();
        if self.party() == PartyIndex::FIRST {
            factors.reserve(2 * HARMONICS * count);
            for word in &known {
                for_harmonics(angle(*word, fixed), |_, cos, sin| {
                    factors.extend([scaled(cos), scaled(sin)]);
                });
            }
        }
        let factors = self.share_first_numbers(&factors, 2 * HARMONICS * count, 64)?;
        let mut parts = vec![0_u64; 2 * count];
        if let Some(part) = self.part_of_first(&factors.own, &factors.next) {
            let (values, slopes) = parts.split_at_mut(count);
            let rows = part.chunks_exact(2 * HARMONICS).zip(&known);
            for ((value, slope), (row, word)) in values.iter_mut().zip(slopes).zip(rows) {
                for_harmonics(angle(*word, fixed), |at, cos, sin| {
                    let (first_cos, first_sin) = (row[2 * at], row[2 * at + 1]);
                    let of = |factor: f64| (scaled(factor * cos), scaled(factor * sin));
                    let (cos_part, sin_part) = of(COEFFICIENTS[at]);
                    let sum = first_sin.wrapping_mul(cos_part);
                    let sum = sum.wrapping_add(first_cos.wrapping_mul(sin_part));
                    *value = value.wrapping_add(sum);
                    let (cos_part, sin_part) = of(COEFFICIENTS[at] * frequency(at));
                    let sum = first_cos.wrapping_mul(cos_part);
                    let sum = sum.wrapping_sub(first_sin.wrapping_mul(sin_part));
                    *slope = slope.wrapping_add(sum);
                });
            }
        }
        let both = self.truncate_parts(parts, 2 * FACTOR_BITS - fixed.fraction_bits())?;
        Ok(both.split_at(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wave_is_tanh_and_its_slope() {
        for (at, coefficient) in COEFFICIENTS.into_iter().enumerate() {
            let exact = PI / 8.0 / (frequency(at) * PI / 2.0).sinh();
            assert!((coefficient - exact).abs() < 1e-12, "{at}: {exact}");
        }
        for step in -1000..=1000 {
            let u = f64::from(step) / 100.0;
            let (value, slope) = wave(u);
            assert!((value - u.tanh()).abs() < 2.6e-3, "{u}: {value}");
            assert!((slope - u.cosh().powi(-2)).abs() < 1.3e-2, "{u}: {slope}");
            // Sines by the library.
            let sines = (0..HARMONICS).map(|k| COEFFICIENTS[k] * (frequency(k) * u).sin());
            assert!((value - sines.sum::<f64>()).abs() < 1e-13, "{u}: {value}");
            let (next, _) = wave(u + 32.0);
            assert!((value - next).abs() < 1e-12, "{u}: {next}");
        }
    }
}
