//! The bits that a policy reveals about a record: a certificate that holds for every model and
//! every adversary, whatever it knows besides.

use std::fmt;

use super::{DefenseConfig, Facts, NoiseMode, Policy};
use crate::definition::{Domain, OwnBound};
use crate::definition_of;
use crate::none::EXACT;

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

impl DefenseConfig {
    /// Returns the setting of the defense `name` that reveals the most and yet at most `bits` bits
    /// of a record, for a model of `classes` classes: the most decimals, the largest codebook, the
    /// least σ (to three digits, rounded up), the greatest ε (to three decimals, rounded down).
    /// `None` if no setting is within them, if the defense has no finite bound, or if there is no
    /// such defense.
    #[must_use]
    pub fn within_bits(name: &str, classes: usize, bits: f64) -> Option<Self> {
        // A model of a number has one output: its `bins` need ends that are not known here.
        let facts = Facts::named(name).ok().filter(|_| !bits.is_nan() && classes > 1)?;
        (facts.within_bits)(classes, bits)
    }

    /// Returns all settings that [`DefenseConfig::within_bits`] finds, in the order of
    /// [`DefenseConfig::ALL`].
    #[must_use]
    pub fn all_within_bits(classes: usize, bits: f64) -> Vec<Self> {
        Self::NAMES.iter().filter_map(|name| Self::within_bits(name, classes, bits)).collect()
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
    ///
    /// A model of one output is one of a number, which only `bins` bounds.
    #[must_use]
    pub fn leakage(&self, classes: usize) -> Leakage {
        if classes < 2 {
            return number_leakage(self);
        }
        if self.unbound_shares {
            let reason = "whoever may change its shares learns more with each answer";
            return Leakage::Unbounded { reason: reason.to_owned() };
        }
        let (mut domain, mut least, mut why, mut fresh) = (Domain::Simplex, None, EXACT, false);
        for defense in &self.defenses {
            let definition = definition_of(defense);
            fresh |= self.noise == NoiseMode::Fresh && definition.draws;
            match (definition.bits)(classes, domain) {
                OwnBound::Bits(_) if fresh => why = "fresh noise tells more with each answer",
                OwnBound::Bits(bits) if least.is_none_or(|(found, _)| bits < found) => {
                    least = Some((bits, definition.facts.name))
                }
                OwnBound::Bits(_) => {}
                OwnBound::None(_) if matches!(defense, DefenseConfig::None {}) => {}
                OwnBound::None(reason) => why = reason,
            }
            domain = definition.domain_after(domain);
        }
        match least {
            Some((bits, by)) => Leakage::Bits { bits, by },
            None => Leakage::Unbounded { reason: why.to_owned() },
        }
    }
}

/// Computes the maximal leakage of a record's number under a policy, as [`Policy::leakage`] does of
/// scores. `bins` alone bounds it: a number has no range that rounding or noise would be measured
/// against.
fn number_leakage(policy: &Policy) -> Leakage {
    let unbounded = |reason: &str| Leakage::Unbounded { reason: reason.to_owned() };
    if policy.unbound_shares {
        return unbounded("whoever may change its shares learns more with each answer");
    }
    // Behind fresh noise each answer tells more.
    let until = policy
        .defenses
        .iter()
        .position(|d| policy.noise == NoiseMode::Fresh && definition_of(d).draws)
        .unwrap_or(policy.defenses.len());
    let counts = policy.defenses[..until].iter().filter_map(|defense| match defense {
        DefenseConfig::Bins { count, .. } => Some((*count).max(1)),
        _ => None,
    });
    match counts.min() {
        Some(count) => Leakage::Bits { bits: f64::from(count).log2(), by: "bins" },
        None => unbounded("a number has no range; `bins` gives it one"),
    }
}
