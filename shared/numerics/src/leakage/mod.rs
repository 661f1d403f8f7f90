//! The maximal leakage of a release, in bits.
//!
//! For a release R of a secret X with P(r | x), L = log2 Σ_r max_x P(r | x). For every prior of X,
//! every quantity that depends on X and every gain that is not negative, the best expected gain
//! with R is at most 2^L times the best without it (Issa, Wagner and Kamath, *An Operational
//! Approach to Information Leakage*, arXiv:1807.07878, theorem 1 and section V). L is at least the
//! mutual information I(X; R), does not grow by processing R, and adds up over releases that are
//! independent given X.
//!
//! A deterministic release has L = log2 of the number of its values. Here X is a vector of k
//! confidence scores: a point of the simplex {c ≥ 0, Σ c = 1}.

mod gaussian;
mod rounding;

pub use gaussian::gaussian_simplex_bits;
pub use rounding::{RoundedSimplex, rounded_simplex_bits};

/// Returns the bits of a permutation of `classes` items, log2 k!. 0 for zero or one item.
#[must_use]
pub fn permutation_bits(classes: usize) -> f64 {
    (2..=classes).map(|i| (i as f64).log2()).sum()
}

/// Returns the bits of k-ary randomised response: one of `classes` labels, kept with probability
/// e^ε/(e^ε + k − 1), else one of the others, each as likely as the next. L = log2(k e^ε/(e^ε + k
/// − 1)), from 0 at ε = 0 to log2 k.
///
/// `epsilon` is at least 0, in nats. 0 bits for less than two classes.
#[must_use]
pub fn randomized_response_bits(classes: usize, epsilon: f64) -> f64 {
    if classes < 2 {
        return 0.0;
    }
    let k = classes as f64;
    // k e^ε/(e^ε + k − 1) without a power that overflows.
    (k.ln() - ((k - 1.0) * (-epsilon).exp()).ln_1p()) / std::f64::consts::LN_2
}

/// A sum of positive terms that are given by their logarithms.
#[derive(Debug, Clone, Copy)]
struct LogSum {
    /// The greatest logarithm so far.
    top: f64,
    /// The sum, divided by its greatest term.
    sum: f64,
}

impl LogSum {
    const EMPTY: Self = Self { top: f64::NEG_INFINITY, sum: 0.0 };

    fn add(&mut self, ln: f64) {
        if ln == f64::NEG_INFINITY {
            return;
        }
        if ln > self.top {
            self.sum = self.sum * (self.top - ln).exp() + 1.0;
            self.top = ln;
        } else {
            self.sum += (ln - self.top).exp();
        }
    }

    fn log2(self) -> f64 {
        (self.top + self.sum.ln()) / std::f64::consts::LN_2
    }
}

#[cfg(test)]
mod tests;
