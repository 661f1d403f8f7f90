//! The bits that a policy reveals about a record: a certificate that holds for every model and
//! every adversary, whatever it knows besides.

use std::fmt;

use vfl_numerics::{
    RoundedSimplex, gaussian_simplex_bits, permutation_bits, randomized_response_bits,
    rounded_simplex_bits,
};

use super::{DefenseConfig, NoiseMode, Policy};

/// The sentence that goes with every multiplier.
pub const MULTIPLIER_MEANS: &str = "whatever an adversary knows besides, its chance of a right guess \
    about a record (a category, a value within a tolerance, a place in the top tenth) grows by a \
    factor of at most 2^bits (Issa, Wagner and Kamath, arXiv 1807.07878); this is about gains, never \
    about removed error, and no chance exceeds 100 %";

/// The assumptions of every bound.
pub const BOUND_ASSUMES: &str = "for one model and one policy, shares bound by the ledger, noise keyed \
    by record; answers about a record under other models or policies add up";

/// The maximal leakage of a policy's release of one record, however often it is requested.
#[derive(Debug, Clone, PartialEq)]
pub enum Leakage {
    /// At most this many bits.
    Bits {
        /// The bound, at least 0.
        bits: f64,
        /// The defense that sets the bound.
        by: &'static str,
    },
    /// No finite bound holds, or none is known.
    Unbounded {
        /// The reason, as a sentence without its full stop.
        reason: String,
    },
}

impl Leakage {
    /// Returns the bits, if there is a bound.
    #[must_use]
    pub fn bits(&self) -> Option<f64> {
        match self {
            Self::Bits { bits, .. } => Some(*bits),
            Self::Unbounded { .. } => None,
        }
    }

    /// Returns 2^bits, if there is a bound: the largest factor by which any adversary's expected
    /// gain grows.
    #[must_use]
    pub fn multiplier(&self) -> Option<f64> {
        self.bits().map(f64::exp2)
    }
}

impl fmt::Display for Leakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits { bits, by } => write!(f, "at most {bits:.2} bits a record (`{by}`)"),
            Self::Unbounded { reason } => write!(f, "no finite bound: {reason}"),
        }
    }
}

/// The vectors that a defense is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    /// Probability vectors.
    Simplex,
    /// Probability vectors with all but this many entries set to 0.
    Largest(usize),
    /// Vectors of any other numbers.
    Any,
}

/// The bound of one defense by itself.
enum OwnBound {
    Bits(f64),
    /// No bound is known, for this reason.
    None(&'static str),
}

const EXACT: &str = "exact scores give back features that lie on a grid (docs/lattice.md)";
const PROPORTIONAL: &str = "PRIVEE's noise is proportional to the score and vanishes with it, so that Σ_r max_x P(r | x) diverges";
const NOT_FROM_SCORES: &str =
    "its bound is for probability vectors, which the defense before it does not give out";

impl DefenseConfig {
    /// Returns the bits of this defense by itself, applied to vectors of a domain.
    ///
    /// There is no finite bound for noise of PRIVEE: on [0, ε] a score c is released as c (1 + uσ)
    /// up to a known shift, u uniform in an interval of length 1/k, so that the density at r is at
    /// least k/(σ c) for some c in [r/(1 + σ), r], at least k/(σ r): its integral over r from 0
    /// diverges. Nor is there one for the others that are one-to-one or leave a continuum of
    /// values.
    fn own_bits(&self, classes: usize, domain: Domain) -> OwnBound {
        let rounded =
            |decimals, scores| OwnBound::Bits(rounded_simplex_bits(classes, decimals, scores));
        match self {
            Self::None {} => OwnBound::None(EXACT),
            Self::Temperature { .. } => {
                OwnBound::None("a temperature is undone by a factor, and exact scores are left")
            }
            Self::LogitNoise { .. } => OwnBound::None(
                "logit_noise draws nothing at random and is undone by who knows the weights",
            ),
            Self::TopK { .. } => OwnBound::None("top_k leaves the largest scores exact"),
            Self::OrderPreservingEncryption {} => OwnBound::None(
                "order-preserving encryption leaves every score to some ten bits and its order exactly",
            ),
            Self::Purifier { .. } => OwnBound::None(
                "a purifier gives out a continuum of vectors, for which no bound is known",
            ),
            Self::PriveeDp { .. } | Self::PriveeDpPlusPlus { .. } => OwnBound::None(PROPORTIONAL),
            Self::Rounding { decimals } => match domain {
                Domain::Simplex => rounded(*decimals, RoundedSimplex::Whole),
                Domain::Largest(kept) => rounded(*decimals, RoundedSimplex::Largest(kept)),
                Domain::Any => OwnBound::None(NOT_FROM_SCORES),
            },
            Self::GaussianNoise { .. } | Self::DpGaussian { .. } => {
                match (self.gaussian_sigma(), domain) {
                    (Some(sigma), Domain::Simplex) => {
                        OwnBound::Bits(gaussian_simplex_bits(classes, sigma))
                    }
                    // The sum of the others counts as one score more; the release is a part of that
                    // longer vector's.
                    (Some(sigma), Domain::Largest(_)) => {
                        OwnBound::Bits(gaussian_simplex_bits(classes + 1, sigma))
                    }
                    _ => OwnBound::None(NOT_FROM_SCORES),
                }
            }
            Self::ClassLabel { .. } => OwnBound::Bits((classes as f64).log2()),
            Self::RandomizedLabel { epsilon } => {
                OwnBound::Bits(randomized_response_bits(classes, *epsilon))
            }
            Self::Ranking {} => OwnBound::Bits(permutation_bits(classes)),
            Self::Codebook { size } => OwnBound::Bits(f64::from(*size).log2()),
        }
    }

    /// Returns the domain of the vectors that it releases.
    fn domain_after(&self, before: Domain) -> Domain {
        match self {
            Self::None {} => before,
            Self::TopK { k } if before == Domain::Simplex => Domain::Largest(*k as usize),
            // These act at the logits, and the link function gives probability vectors.
            Self::Temperature { .. } | Self::LogitNoise { .. } => Domain::Simplex,
            Self::ClassLabel { .. }
            | Self::Ranking {}
            | Self::Codebook { .. }
            | Self::Purifier { .. } => Domain::Simplex,
            Self::TopK { .. }
            | Self::Rounding { .. }
            | Self::GaussianNoise { .. }
            | Self::DpGaussian { .. }
            | Self::PriveeDp { .. }
            | Self::PriveeDpPlusPlus { .. }
            | Self::OrderPreservingEncryption {}
            | Self::RandomizedLabel { .. } => Domain::Any,
        }
    }

    /// Returns true if it draws at random for every record.
    fn draws(&self) -> bool {
        matches!(
            self,
            Self::GaussianNoise { .. }
                | Self::DpGaussian { .. }
                | Self::PriveeDp { .. }
                | Self::PriveeDpPlusPlus { .. }
                | Self::OrderPreservingEncryption {}
                | Self::RandomizedLabel { .. }
        )
    }
}

impl Policy {
    /// Computes the maximal leakage of a record's release for a model of `classes` classes: L =
    /// log2 Σ_r max_x P(r | x) over score vectors x.
    ///
    /// A chain of defenses reveals no more than any of its defenses by itself, since later ones
    /// only process its release and earlier ones only restrict its input. So the bound is the least
    /// of those that hold, each for the vectors that the defense before it releases. A temperature
    /// changes nothing. Noise must be keyed by record: fresh noise bounds each answer, and answers
    /// add up, so that only the defenses before it bound all of them.
    #[must_use]
    pub fn leakage(&self, classes: usize) -> Leakage {
        if self.unbound_shares {
            let reason = "whoever may change its shares learns more with each answer";
            return Leakage::Unbounded { reason: reason.to_owned() };
        }
        let (mut domain, mut least, mut why, mut fresh) = (Domain::Simplex, None, EXACT, false);
        for defense in &self.defenses {
            fresh |= self.noise == NoiseMode::Fresh && defense.draws();
            match defense.own_bits(classes, domain) {
                OwnBound::Bits(_) if fresh => why = "fresh noise tells more with each answer",
                OwnBound::Bits(bits) if least.is_none_or(|(found, _)| bits < found) => {
                    least = Some((bits, defense.name()))
                }
                OwnBound::Bits(_) => {}
                OwnBound::None(_) if matches!(defense, DefenseConfig::None {}) => {}
                OwnBound::None(reason) => why = reason,
            }
            domain = defense.domain_after(domain);
        }
        match least {
            Some((bits, by)) => Leakage::Bits { bits, by },
            None => Leakage::Unbounded { reason: why.to_owned() },
        }
    }
}
