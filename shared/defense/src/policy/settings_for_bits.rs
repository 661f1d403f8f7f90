//! The settings of a defense that keep a release within a number of bits.

use vfl_numerics::{RoundedSimplex, gaussian_simplex_bits, permutation_bits, rounded_simplex_bits};

use super::DefenseConfig;

/// The largest number of words of a codebook.
const MOST_WORDS: f64 = (1u32 << 20) as f64;
/// The greatest ε of `randomized_label`.
const MOST_EPSILON: f64 = 50.0;
/// The smallest and the largest σ.
const SIGMAS: (f64, f64) = (1e-12, 1e12);

impl DefenseConfig {
    /// Returns the setting of the defense `name` that reveals the most and yet at most `bits` bits
    /// of a record, for a model of `classes` classes: the most decimals, the largest codebook, the
    /// least σ (to three digits, rounded up), the greatest ε (to three decimals, rounded down).
    /// `None` if no setting is within them, if the defense has no finite bound, or if there is no
    /// such defense.
    #[must_use]
    pub fn within_bits(name: &str, classes: usize, bits: f64) -> Option<Self> {
        let k = classes as f64;
        if bits.is_nan() {
            return None;
        }
        match name {
            "rounding" => {
                let told =
                    |decimals| rounded_simplex_bits(classes, decimals, RoundedSimplex::Whole);
                (0..=15)
                    .rev()
                    .find(|d| told(*d) <= bits)
                    .map(|decimals| Self::Rounding { decimals })
            }
            "codebook" => {
                let size = bits.exp2().min(MOST_WORDS).floor();
                (size >= k).then_some(Self::Codebook { size: size as u32 })
            }
            "gaussian_noise" => {
                sigma_within(classes, bits).map(|sigma| Self::GaussianNoise { sigma })
            }
            "randomized_label" => {
                epsilon_within(k, bits).map(|epsilon| Self::RandomizedLabel { epsilon })
            }
            "ranking" => (permutation_bits(classes) <= bits).then_some(Self::Ranking {}),
            "class_label" => (k.log2() <= bits).then_some(Self::ClassLabel { softening: 0.0 }),
            _ => None,
        }
    }

    /// Returns all settings that [`DefenseConfig::within_bits`] finds, in the order of
    /// [`DefenseConfig::ALL`].
    #[must_use]
    pub fn all_within_bits(classes: usize, bits: f64) -> Vec<Self> {
        Self::NAMES.iter().filter_map(|name| Self::within_bits(name, classes, bits)).collect()
    }
}

/// Finds σ by bisection of its logarithm: the bits fall as it grows.
fn sigma_within(classes: usize, bits: f64) -> Option<f64> {
    let told = |sigma: f64| gaussian_simplex_bits(classes, sigma);
    if told(SIGMAS.1) > bits {
        return None;
    }
    let (mut low, mut high) = (SIGMAS.0.ln(), SIGMAS.1.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if told(middle.exp()) <= bits { high = middle } else { low = middle }
    }
    let digit = 10f64.powf((high.exp().log10()).floor() - 2.0);
    let rounded = (high.exp() / digit).ceil() * digit;
    // Twelve digits remove the rounding error of multiplying by a power of ten.
    format!("{rounded:.11e}").parse().ok().filter(|sigma| told(*sigma) <= bits)
}

/// Solves k e^ε/(e^ε + k − 1) = 2^bits for ε.
fn epsilon_within(k: f64, bits: f64) -> Option<f64> {
    let told = bits.exp2();
    let exact = if told < k { (told * (k - 1.0) / (k - told)).ln() } else { MOST_EPSILON };
    let epsilon = (exact.min(MOST_EPSILON) * 1000.0).floor() / 1000.0;
    (epsilon > 0.0).then_some(epsilon)
}
