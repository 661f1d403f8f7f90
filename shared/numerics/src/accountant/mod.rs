//! The privacy accountant of DP-SGD: the (ε, δ) that repeated noisy sums over random samples spend.
//!
//! "M" is I. Mironov, K. Talwar, L. Zhang, *Rényi Differential Privacy of the Sampled Gaussian
//! Mechanism*, arXiv:1908.10530; "M 3.3" is its section 3.3.

mod tail;
#[cfg(test)]
mod tests;

use std::f64::consts::{LN_2, SQRT_2};
use std::fmt;

use tail::{log_erfc, log_scaled_erfc};

/// The noise multipliers that [`GaussianSampling`] accepts. Outside this range the sums lose
/// digits.
const NOISE: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// Width of the interval in which [`GaussianSampling::noise_for`] stops, relative to the noise.
const NOISE_TOLERANCE: f64 = 1e-4;

/// The number of terms of an alternating series that are summed. The error is below 2 ·
/// 5.8^(−TERMS) of its first term: 1e-18.
const TERMS: u32 = 24;

/// One step of DP-SGD: the sampled Gaussian mechanism.
///
/// A step takes every record with the probability `rate`, each independently of the others. It sums
/// a vector of each record that it took, of Euclidean length at most C. It adds normal noise of
/// standard deviation `noise` · C to every entry of the sum. Two data sets are neighbours if one
/// has one record more.
///
/// The guarantee is for that sampling only. Batches of a fixed size and shuffled passes over the
/// records are not covered.
///
/// # Example
///
/// The tutorial of TensorFlow Privacy: 60 passes over 60000 records in batches of 256, with the
/// noise multiplier 1.12.
///
/// ```
/// use vfl_numerics::{GaussianSampling, classic_epsilon};
///
/// let step = GaussianSampling::new(256.0 / 60000.0, 1.12)?;
/// assert!((step.epsilon(14063, 1e-5).epsilon - 2.5187).abs() < 1e-3);
/// // The tutorial gives 2.92. It uses the older conversion.
/// assert!((step.epsilon_by(classic_epsilon, 14063, 1e-5).epsilon - 2.92).abs() < 5e-3);
///
/// // How much noise the same training needs for an epsilon of 1.
/// let noise = GaussianSampling::noise_for(1.0, 1e-5, 14063, 256.0 / 60000.0)?;
/// assert!((noise - 2.1785).abs() < 1e-3);
/// # Ok::<(), vfl_numerics::AccountantError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianSampling {
    rate: f64,
    noise: f64,
}

/// A guarantee of (ε, δ)-differential privacy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivacyLoss {
    /// ε in nats, at least 0. Infinite if there is no guarantee.
    pub epsilon: f64,
    /// The Rényi order that ε comes from. Infinite if none was needed: without a step, or for δ
    /// outside (0, 1).
    pub order: f64,
}

/// Errors from setting up an accountant or from looking for the noise of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AccountantError {
    /// The sampling rate is not in (0, 1].
    Rate {
        /// The sampling rate that was given.
        rate: f64,
    },
    /// The noise multiplier is not in [1e-6, 1e6].
    Noise {
        /// The noise multiplier that was given.
        noise: f64,
    },
    /// Even the noise multiplier 1e6 does not give the wanted ε.
    Epsilon {
        /// The ε that was wanted.
        wanted: f64,
        /// The ε of the noise multiplier 1e6.
        least: f64,
    },
}

impl fmt::Display for AccountantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { rate } => write!(f, "the sampling rate {rate} is not in (0, 1]"),
            Self::Noise { noise } => {
                write!(
                    f,
                    "the noise multiplier {noise} is not in [{:e}, {:e}]",
                    NOISE.start(),
                    NOISE.end()
                )
            }
            Self::Epsilon { wanted, least } => {
                write!(
                    f,
                    "no noise multiplier up to {:e} gives epsilon {wanted}: the least is {least:.3e}",
                    NOISE.end()
                )
            }
        }
    }
}

impl std::error::Error for AccountantError {}

/// Returns ε at one order by I. Mironov, *Rényi Differential Privacy*, arXiv:1702.07476,
/// proposition 3: ε = R + ln(1/δ) / (α − 1).
///
/// `order` is α > 1, `divergence` R the Rényi divergence of all steps in nats, `delta` is in (0,
/// 1). Numbers that were published before 2021 use it. [`improved_epsilon`] is smaller.
#[must_use]
pub fn classic_epsilon(order: f64, divergence: f64, delta: f64) -> f64 {
    divergence - delta.ln() / (order - 1.0)
}

/// Returns ε at one order by C. Canonne, G. Kamath, T. Steinke, *The Discrete Gaussian for
/// Differential Privacy*, arXiv:2004.00010, proposition 12: ε = R + ln((α − 1)/α) − (ln δ + ln α) /
/// (α − 1). It may be negative, which means ε = 0.
///
/// `order` is α > 1, `divergence` R the Rényi divergence of all steps in nats, `delta` is in (0,
/// 1).
#[must_use]
pub fn improved_epsilon(order: f64, divergence: f64, delta: f64) -> f64 {
    divergence + (-order.recip()).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0)
}

impl GaussianSampling {
    /// Creates an accountant for the sampling rate in (0, 1] and the noise multiplier in [1e-6,
    /// 1e6].
    ///
    /// # Errors
    ///
    /// The sampling rate or the noise multiplier is outside its range or NaN.
    pub fn new(rate: f64, noise: f64) -> Result<Self, AccountantError> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(AccountantError::Rate { rate });
        }
        if !NOISE.contains(&noise) {
            return Err(AccountantError::Noise { noise });
        }
        Ok(Self { rate, noise })
    }

    /// Returns the probability that a step takes a given record, in (0, 1].
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the standard deviation of the noise in units of the greatest length of a record's
    /// vector.
    #[must_use]
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// Returns the Rényi divergence of one step in nats, at the order α > 1. The divergences of
    /// several steps add up.
    ///
    /// It is ln A / (α − 1) with A = E[((1 − q) + q exp((2 z − 1) / 2σ²))^α] for z normal with
    /// variance σ². No pair of neighbours and no direction has more (M 3). It is infinite, so there
    /// is no guarantee, for α ≤ 1, for infinite α and if α is NaN. The time grows with α.
    ///
    /// ln A is right to 1e-12 relative for a noise multiplier of 0.1 or more. At orders that are no
    /// integers it also has an absolute error of up to 1e-14.
    #[must_use]
    pub fn renyi(&self, order: f64) -> f64 {
        if !(order > 1.0 && order.is_finite()) {
            return f64::INFINITY;
        }
        if self.rate == 1.0 {
            return 0.5 * order / (self.noise * self.noise);
        }
        let log_moment =
            if order.fract() == 0.0 { self.at_integer(order) } else { self.at_fraction(order) };
        log_moment / (order - 1.0)
    }

    /// Returns ε after that many steps, by [`improved_epsilon`] at the best of a fixed list of
    /// orders: 1.1 to 10.9 in tenths, 1.25, 1.75, 2.25, the integers from 11 to 63, and 128, 256
    /// and 512.
    ///
    /// ε = 0 without a step or for δ ≥ 1. ε is infinite for δ ≤ 0 and if δ is NaN.
    #[must_use]
    pub fn epsilon(&self, steps: u64, delta: f64) -> PrivacyLoss {
        self.epsilon_by(improved_epsilon, steps, delta)
    }

    /// Like [`Self::epsilon`], with another `conversion` from order, divergence and δ to ε:
    /// [`classic_epsilon`] for the comparison with older numbers.
    #[must_use]
    pub fn epsilon_by(
        &self,
        conversion: fn(f64, f64, f64) -> f64,
        steps: u64,
        delta: f64,
    ) -> PrivacyLoss {
        least(orders(), &[(*self, steps)], conversion, delta)
    }

    /// Returns ε after several kinds of steps on the same records, each kind so many times. The
    /// divergences add up at every order. Otherwise like [`Self::epsilon`].
    #[must_use]
    pub fn composed(parts: &[(Self, u64)], delta: f64) -> PrivacyLoss {
        least(orders(), parts, improved_epsilon, delta)
    }

    /// Returns the least noise multiplier that gives at most that ε after so many steps, to 1e-4
    /// relative from above. ε is then at most `epsilon`, and with 1e-4 less noise it is more. The
    /// result is 1e-6 if no noise is needed, for example without a step.
    ///
    /// # Errors
    ///
    /// The rate is not in (0, 1], or no noise multiplier gives that ε. The list of orders sets a
    /// limit: for δ = 1e-5 it is ε = 0.0083.
    pub fn noise_for(
        epsilon: f64,
        delta: f64,
        steps: u64,
        rate: f64,
    ) -> Result<f64, AccountantError> {
        let spent = |noise| Self::new(rate, noise).map(|step| step.epsilon(steps, delta).epsilon);
        let (mut low, mut high) = (*NOISE.start(), *NOISE.end());
        if spent(low)? <= epsilon {
            return Ok(low);
        }
        let least = spent(high)?;
        if epsilon.is_nan() || least > epsilon {
            return Err(AccountantError::Epsilon { wanted: epsilon, least });
        }
        while high > low * (1.0 + NOISE_TOLERANCE) {
            let middle = (low * high).sqrt();
            if spent(middle)? <= epsilon {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }

    /// Returns ln A for an integer order, M 3.3: A is the sum over k of C(α, k) q^k (1 − q)^(α−k)
    /// exp(k (k − 1) / 2σ²).
    ///
    /// The binomial probabilities sum to 1. So A − 1 is the same sum with exp(…) − 1 for exp(…).
    /// Its terms for 0 and 1 vanish and none is negative, which keeps the digits of a small A − 1.
    fn at_integer(&self, order: f64) -> f64 {
        let (log_in, log_out) = (self.rate.ln(), (-self.rate).ln_1p());
        let mut excess = LogSum::new();
        let (mut k, mut log_choose) = (1.0, order.ln());
        while k < order {
            log_choose += ((order - k) / (k + 1.0)).ln();
            k += 1.0;
            let exponent = 0.5 * k * (k - 1.0) / (self.noise * self.noise);
            let log_growth = exponent + (-(-exponent).exp_m1()).ln();
            excess.add(log_choose + k * log_in + (order - k) * log_out + log_growth);
        }
        let log_excess = excess.value();
        log_excess.max(0.0) + (-log_excess.abs()).exp().ln_1p()
    }

    /// Returns ln A for any other order, by the two series of M 3.3. They split the expectation at
    /// z₀, where the two parts of the mixture have the same weight. With s = √2 σ, their terms for
    /// i = 0, 1, … are
    ///
    /// - C(α, i) q^i (1 − q)^(α−i) exp(i (i − 1) / 2σ²) ½ erfc((i − z₀) / s) and
    /// - C(α, i) q^j (1 − q)^i exp(j (j − 1) / 2σ²) ½ erfc((z₀ − j) / s) with j = α − i.
    ///
    /// Up to i = ⌊α⌋ all terms are positive and are added up. From the next on the sign of C(α, i)
    /// alternates and the terms fall only like i^(−α−2), which takes thousands of them for small
    /// orders. But their sizes are moments of a positive measure: those of C(α, i) by the beta
    /// integral, and for x = (i − z₀) / s or (z₀ − j) / s the rest is a constant times exp(x²)
    /// erfc(x), a Laplace transform. [`alternating`] sums such a series from [`TERMS`] terms.
    fn at_fraction(&self, order: f64) -> f64 {
        let (log_in, log_out) = (self.rate.ln(), (-self.rate).ln_1p());
        let variance = self.noise * self.noise;
        let scale = SQRT_2 * self.noise;
        let even = variance * (log_out - log_in) + 0.5;
        let constant = order * log_out - 0.5 * even * even / variance - LN_2;
        // ln of a term without C(α, i), for x = i or j. The first form would cancel large
        // exponents.
        let part = |x: f64, from: f64| {
            if from > 0.0 {
                constant + log_scaled_erfc(from)
            } else {
                x * log_in + (order - x) * log_out + 0.5 * x * (x - 1.0) / variance + log_erfc(from)
                    - LN_2
            }
        };
        let both = |i: f64| {
            let j = order - i;
            log_add(part(i, (i - even) / scale), part(j, (even - j) / scale))
        };

        let mut moment = LogSum::new();
        let (mut i, mut log_choose) = (0.0, 0.0);
        let mut next = || {
            let term = log_choose + both(i);
            log_choose += ((order - i).abs() / (i + 1.0)).ln();
            i += 1.0;
            term
        };
        let mut left = order.floor();
        while left >= 0.0 {
            moment.add(next());
            left -= 1.0;
        }
        let first = next();
        let rest = alternating(
            std::iter::once(1.0).chain(std::iter::repeat_with(|| (next() - first).exp())),
        );
        moment.add(first + rest.ln());
        // Rounding may leave a little less than ln 1. `f64::max` would turn NaN into 0.
        if moment.value() < 0.0 { 0.0 } else { moment.value() }
    }
}

/// Returns the orders of [`GaussianSampling::epsilon`]: those of TensorFlow Privacy's tutorial and
/// script up to 2021.
fn orders() -> impl Iterator<Item = f64> {
    let tenths = (1..100).map(|x| 1.0 + f64::from(x) / 10.0);
    tenths.chain([1.25, 1.75, 2.25]).chain((11..64).map(f64::from)).chain([128.0, 256.0, 512.0])
}

/// Returns the least ε of any of the orders. See [`GaussianSampling::epsilon`] for the limits.
fn least(
    orders: impl Iterator<Item = f64>,
    parts: &[(GaussianSampling, u64)],
    conversion: fn(f64, f64, f64) -> f64,
    delta: f64,
) -> PrivacyLoss {
    if delta >= 1.0 || parts.iter().all(|(_, steps)| *steps == 0) {
        return PrivacyLoss { epsilon: 0.0, order: f64::INFINITY };
    }
    let mut best = PrivacyLoss { epsilon: f64::INFINITY, order: f64::INFINITY };
    if delta.is_nan() || delta <= 0.0 {
        return best;
    }
    for order in orders {
        let of_part = |(step, steps): &(GaussianSampling, u64)| match steps {
            0 => 0.0,
            _ => *steps as f64 * step.renyi(order),
        };
        let divergence: f64 = parts.iter().map(of_part).sum();
        let epsilon = conversion(order, divergence, delta);
        let epsilon = if epsilon.is_nan() { f64::INFINITY } else { epsilon.max(0.0) };
        if epsilon < best.epsilon {
            best = PrivacyLoss { epsilon, order };
        }
    }
    best
}

/// Sums a₀ − a₁ + a₂ − … for the moments a_i = ∫ tⁱ dm(t) of a positive measure on [0, 1], from
/// [`TERMS`] of them.
///
/// H. Cohen, F. Rodriguez Villegas, D. Zagier, *Convergence Acceleration of Alternating Series*,
/// Experimental Mathematics 9 (2000), algorithm 1.
fn alternating(terms: impl Iterator<Item = f64>) -> f64 {
    let n = f64::from(TERMS);
    let power = (3.0 + 8.0_f64.sqrt()).powf(n);
    let weight = 0.5 * (power + power.recip());
    let (mut b, mut c, mut sum) = (-1.0, -weight, 0.0);
    for (k, term) in (0..TERMS).map(f64::from).zip(terms) {
        c = b - c;
        sum += c * term;
        b *= (k + n) * (k - n) / ((k + 0.5) * (k + 1.0));
    }
    sum / weight
}

/// Returns ln(exp(a) + exp(b)) for finite a and b.
fn log_add(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

/// The logarithm of a sum of positive numbers that are given by their logarithms.
struct LogSum {
    greatest: f64,
    /// The sum over exp(greatest).
    scaled: f64,
}

impl LogSum {
    fn new() -> Self {
        Self { greatest: f64::NEG_INFINITY, scaled: 0.0 }
    }

    /// Adds exp(logarithm).
    fn add(&mut self, logarithm: f64) {
        if logarithm > self.greatest {
            self.scaled = self.scaled * (self.greatest - logarithm).exp() + 1.0;
            self.greatest = logarithm;
        } else if self.scaled > 0.0 {
            self.scaled += (logarithm - self.greatest).exp();
        }
    }

    /// Returns the logarithm of the sum: minus infinity for an empty one.
    fn value(&self) -> f64 {
        self.greatest + self.scaled.ln()
    }
}
