//! The link of a model: the function between its outputs and its linear predictor.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{Logits, ShapeError};

/// The link of a model. Scores of k classes are softmax(z), or the σ(z) of models one against the
/// rest divided by their sum. A number is g⁻¹(η) of one linear predictor η = w_act y + Σ w_pas x +
/// b (McCullagh and Nelder, Generalized Linear Models, 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Confidence scores of k ≥ 2 classes, c = softmax(z).
    #[default]
    Softmax,
    /// Confidence scores of k ≥ 2 classes, c_i = σ(z_i) / Σ_j σ(z_j), as of one-vs-rest
    /// classifiers.
    OneVsRest,
    /// A number: η itself, as in linear and ridge regression.
    Identity,
    /// A number above 0: e^η, as in Poisson, Gamma and Tweedie regression.
    Log,
    /// A number between 0 and 1: 1 / (1 + e^−η), as in regression of a proportion.
    Logit,
}

impl Link {
    /// The links of scores of classes.
    pub const OF_CLASSES: [Self; 2] = [Self::Softmax, Self::OneVsRest];
    /// The links of numbers.
    pub const NUMERIC: [Self; 3] = [Self::Identity, Self::Log, Self::Logit];

    /// Returns the name, as in files and settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::OneVsRest => "one_vs_rest",
            Self::Identity => "identity",
            Self::Log => "log",
            Self::Logit => "logit",
        }
    }

    /// Returns the link of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::OF_CLASSES.into_iter().chain(Self::NUMERIC).find(|link| link.as_str() == name)
    }

    /// Returns true if the output of a record is one number, false for scores of classes.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        !Self::OF_CLASSES.contains(&self)
    }

    /// Returns the logits (k × n) of which the scores are the softmax, from a model's outputs: z
    /// under [`Link::Softmax`], ln σ(z) under [`Link::OneVsRest`]. Outputs of numbers stay as they
    /// are.
    ///
    /// # Errors
    /// [`ShapeError`] for outputs that are not finite.
    pub fn score_logits(self, outputs: Logits) -> Result<Logits, ShapeError> {
        match self {
            Self::OneVsRest => Logits::new(outputs.into_matrix().map(ln_sigmoid)),
            _ => Ok(outputs),
        }
    }

    /// Returns the number of a linear predictor, g⁻¹(η). Under [`Link::Log`] it is infinite above
    /// 709.7. The links of classes have no number of one predictor and give η.
    #[must_use]
    pub fn number(self, eta: f64) -> f64 {
        match self {
            Self::Softmax | Self::OneVsRest | Self::Identity => eta,
            Self::Log => eta.exp(),
            Self::Logit => 1.0 / (1.0 + (-eta).exp()),
        }
    }

    /// Returns the linear predictor of a number, g(v): infinite at an end of the range of g⁻¹, and
    /// at this end for a number beyond it, which rounding and noise make.
    #[must_use]
    pub fn predictor(self, number: f64) -> f64 {
        match self {
            Self::Softmax | Self::OneVsRest | Self::Identity => number,
            Self::Log => number.max(0.0).ln(),
            Self::Logit => {
                let p = number.clamp(0.0, 1.0);
                // ln p − ln(1 − p), each exact near its end.
                p.ln() - (-p).ln_1p()
            }
        }
    }
}

/// Returns ln σ(z) = −ln(1 + e^−z), to the last digits at both ends.
#[must_use]
pub fn ln_sigmoid(z: f64) -> f64 {
    if z < 0.0 { z - z.exp().ln_1p() } else { -(-z).exp().ln_1p() }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;
    use proptest::prelude::*;

    use crate::types::ConfidenceScores;

    use super::*;

    #[test]
    fn numbers_beyond_the_range_have_the_predictor_of_its_end() {
        assert_eq!(Link::Log.predictor(-3.0), f64::NEG_INFINITY);
        assert_eq!(Link::Logit.predictor(-0.1), f64::NEG_INFINITY);
        assert_eq!(Link::Logit.predictor(1.1), f64::INFINITY);
        assert_eq!(Link::Identity.predictor(-3.0), -3.0);
        assert_eq!(Link::Log.number(710.0), f64::INFINITY);
    }

    #[test]
    fn names_are_read_back() {
        for link in Link::OF_CLASSES.into_iter().chain(Link::NUMERIC) {
            assert_eq!(Link::named(link.as_str()), Some(link));
            assert_eq!(serde_json::to_string(&link).unwrap(), format!("\"{link}\""));
        }
        assert_eq!(Link::named("probit"), None);
    }

    /// The scores are the sigmoids divided by their sum, also where a sigmoid is 0 to a double.
    #[test]
    fn one_vs_rest_divides_sigmoids_by_their_sum() {
        let z = DMatrix::from_row_slice(3, 2, &[-1.5, -800.0, 0.25, -801.0, 3.0, -900.0]);
        let logits = Link::OneVsRest.score_logits(Logits::new(z.clone()).unwrap()).unwrap();
        let found = ConfidenceScores::softmax(logits).into_matrix();
        let sigmoids = z.column(0).map(|z| 1.0 / (1.0 + (-z).exp()));
        let want = &sigmoids / sigmoids.sum();
        assert!((found.column(0) - want).amax() < 1e-15);
        // Far out σ(z) is e^z.
        assert!((found[(0, 1)] - 1.0 / (1.0 + (-1f64).exp())).abs() < 1e-15);
        assert_eq!(ln_sigmoid(800.0), 0.0);
        assert!((ln_sigmoid(40.0) + (-40f64).exp()).abs() < 1e-30);
    }

    proptest! {
        #[test]
        fn each_is_the_inverse_of_the_other(eta in -15f64..15.0) {
            for link in Link::NUMERIC {
                let back = link.predictor(link.number(eta));
                prop_assert!((back - eta).abs() < 1e-9 * (1.0 + eta.abs()), "{link}: {eta} {back}");
            }
            prop_assert!((Link::Logit.number(eta) - eta.exp() / (1.0 + eta.exp())).abs() < 1e-15);
        }
    }
}
