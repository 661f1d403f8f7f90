//! Adaptive attacks: for each defense, the adversary who has read its source.
//!
//! What a known defense releases confines the differences of logits to a [`Cell`], and with the features in [0, 1] that makes
//! a polytope, which the truth lies in. The estimate is a centre of it.

pub(in crate::attack) mod averaging;
mod cell;
pub(in crate::attack) mod chosen_shares;
pub(in crate::attack) mod cones;
pub(in crate::attack) mod interval;
pub(in crate::attack) mod noise_direction;
mod preimage;
mod privee;
pub(in crate::attack) mod undo;

use vfl_shared::policy::{DefenseConfig, Leaves, NoiseMode, Policy};

use super::settings::{AnySetting, Setting};
use super::{Method, Settings};

pub use averaging::{Averaged, Averaging, average};
pub use cell::{Bound, Cell, Cells};
pub use chosen_shares::{Answer, ChosenShares, Gathered, OracleError, ShareOracle};
pub use cones::{CodebookCell, LabelCone, RankingCone};
pub use interval::{Interval, RecoveredScores};
pub use noise_direction::NoiseDirection;
pub use undo::{Examination, Grounds, Hypothesis, UndoTransform, Undone, Verdict};

/// Which point of a polytope stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// The point nearest to ½·1, as the second relaxation of the Chebyshev centre takes.
    Half,
    /// The maximum of the sum of logarithms of the distances to the bounds.
    Analytic,
    /// The mean under a uniform prior: what an adversary who knows nothing of the features but their range should take. By hit
    /// and run, so that it depends on the seed a little.
    Posterior,
    /// The likeliest: scores like normal deviates in their logarithms, as the intervals have them, features like those of
    /// uniform ones' variance around ½, within the polytope. For a release that makes nothing likelier than the
    /// rest, such as a label, the analytic centre.
    Likely,
}

impl Centre {
    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Analytic => "analytic",
            Self::Posterior => "posterior",
            Self::Likely => "likely",
        }
    }

    /// The centre of this name: `half`, `analytic`, `posterior` or `likely`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "half" => Some(Self::Half),
            "analytic" => Some(Self::Analytic),
            "posterior" => Some(Self::Posterior),
            "likely" => Some(Self::Likely),
            _ => None,
        }
    }
}

/// What the adversary knows of the policy, and how it chooses its estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownPolicy {
    /// The policy; without one the release is taken for the scores as they are.
    pub policy: Policy,
    /// Whether the scale of the policy's noise is known: σ of PRIVEE, α of logit noise, σ of Gaussian noise.
    pub scale_known: bool,
    /// The centre; each attack has its own default, the best measured.
    pub centre: Option<Centre>,
}

impl Default for KnownPolicy {
    /// No defense.
    fn default() -> Self {
        Self { policy: Policy::default(), scale_known: true, centre: None }
    }
}

impl From<Policy> for KnownPolicy {
    fn from(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }
}

static POLICY: Setting<Policy> = Setting {
    key: "policy",
    takes: "what adaptive attacks know the coordinator to do: a policy as `rounding (decimals = 2)` (default none, scores as they are)",
    read: |value| value.parse().ok(),
};
static SIGMA_KNOWN: Setting<bool> = Setting {
    key: "sigma_known",
    takes: "whether adaptive attacks know the scale of the noise (sigma, or alpha of logit noise): `true` or `false` (default true)",
    read: |value| value.trim().parse().ok(),
};
static CENTRE: Setting<Centre> = Setting {
    key: "centre",
    takes: "which point adaptive attacks take: `half`, `analytic`, `posterior` or `likely` (default the attack's own)",
    read: |value| Centre::named(value.trim()),
};

impl From<&Settings> for KnownPolicy {
    fn from(settings: &Settings) -> Self {
        let default = Self::default();
        Self {
            policy: settings.get(&POLICY).unwrap_or(default.policy),
            scale_known: settings.get(&SIGMA_KNOWN).unwrap_or(default.scale_known),
            centre: settings.get(&CENTRE),
        }
    }
}

impl KnownPolicy {
    /// Settings of an attack that state it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let centre = self.centre.map(|centre| (CENTRE.key, centre.as_str().to_owned()));
        let policy = (POLICY.key, self.policy.to_string());
        let pairs = [policy, (SIGMA_KNOWN.key, self.scale_known.to_string())].into_iter().chain(centre);
        Settings::accepted(pairs)
    }

    /// The settings that state it.
    const SETTINGS: &'static [&'static dyn AnySetting] = &[&POLICY, &SIGMA_KNOWN, &CENTRE];

    /// The defenses at the logits, and those at the scores.
    fn stages(&self) -> (Vec<&DefenseConfig>, Vec<&DefenseConfig>) {
        let real = self.policy.defenses.iter().filter(|d| d.leaves() != Leaves::Everything);
        real.partition(|d| d.facts().at_logits)
    }

    /// The factor that makes differences of logits out of those of what is left after temperature and scheme 3; `None` for
    /// other defenses at the logits, and for parameters out of range.
    fn stretch(&self) -> Option<f64> {
        self.stages().0.into_iter().try_fold(1.0, |factor, defense| {
            let by = match defense {
                DefenseConfig::Temperature { temperature } => *temperature,
                DefenseConfig::LogitNoise { scheme: 3, alpha } if *alpha >= 0.0 && *alpha < 1.0 => 1.0 / (1.0 - alpha),
                _ => return None,
            };
            (by > 0.0 && by.is_finite()).then_some(factor * by)
        })
    }
}

/// The strongest adaptive attack on a policy; `None` where there is no defense, and so nothing to adapt to, and where no attack
/// here adapts to one of the defenses ([`Leaves::Unstudied`]).
///
/// Where shares are not bound that is `chosen_shares`, and where noise is drawn anew `averaging`: both need more than one
/// release. Of several defenses the one that leaves the least decides.
#[must_use]
pub fn adaptive_for(policy: &Policy) -> Option<Method> {
    if policy.is_none() {
        return None;
    }
    if policy.unbound_shares {
        return Some(Method::ChosenShares);
    }
    let leaves: Vec<Leaves> = policy.defenses.iter().map(DefenseConfig::leaves).collect();
    strongest(&leaves, policy.noise)
}

/// The strongest attack on one release of defenses that leave this, one after the other, of which one or more change the scores.
fn strongest(leaves: &[Leaves], noise: NoiseMode) -> Option<Method> {
    let all: Vec<Leaves> = leaves.iter().copied().filter(|l| *l != Leaves::Everything).collect();
    let any = |what: Leaves| all.contains(&what);
    let (at_logits, at_scores): (Vec<Leaves>, Vec<Leaves>) =
        all.iter().copied().partition(|l| matches!(l, Leaves::Scaled | Leaves::Projected));
    let projected = any(Leaves::Projected);
    Some(if any(Leaves::Unstudied) {
        return None;
    } else if any(Leaves::Label) {
        Method::LabelCone
    } else if any(Leaves::Word) {
        if projected { Method::LabelCone } else { Method::CodebookCell }
    } else if projected {
        // Both schemes keep the arg max, and nothing else once something stands behind them.
        if at_scores.is_empty() && at_logits.len() == 1 { Method::NoiseDirection } else { Method::LabelCone }
    } else if at_scores == [Leaves::Ciphertexts] {
        // Ciphertexts that sort lie where their scores lie.
        Method::Interval
    } else if any(Leaves::Ciphertexts) || any(Leaves::Order) {
        Method::RankingCone
    } else if any(Leaves::Noised) || (any(Leaves::OrderNoised) && noise == NoiseMode::Fresh) {
        Method::Averaging
    } else if at_scores.is_empty() {
        Method::NoiseDirection
    } else if any(Leaves::OrderNoised) && any(Leaves::Largest) {
        Method::LabelCone
    } else {
        // Rounded scores, the largest ones, and noise that keeps the order: each score lies between two bounds.
        Method::Interval
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_attack() {
        for (text, want) in [
            ("none", None),
            ("rounding (decimals = 1)", Some(Method::Interval)),
            ("temperature (temperature = 2.0) then rounding (decimals = 1)", Some(Method::Interval)),
            ("temperature (temperature = 2.0)", Some(Method::NoiseDirection)),
            ("top_k (k = 2)", Some(Method::Interval)),
            ("logit_noise (scheme = 1, alpha = 1.0)", Some(Method::NoiseDirection)),
            ("logit_noise (scheme = 2, alpha = 1.0) then rounding (decimals = 2)", Some(Method::LabelCone)),
            ("privee_dp", Some(Method::Interval)),
            ("privee_dp then top_k (k = 2)", Some(Method::LabelCone)),
            ("privee_dp_plus_plus, fresh noise", Some(Method::Averaging)),
            ("gaussian_noise (sigma = 0.1)", Some(Method::Averaging)),
            ("ranking", Some(Method::RankingCone)),
            ("privee_dp then order_preserving_encryption", Some(Method::RankingCone)),
            ("order_preserving_encryption", Some(Method::Interval)),
            ("class_label", Some(Method::LabelCone)),
            ("class_label, unbound shares", Some(Method::ChosenShares)),
            ("codebook (size = 16)", Some(Method::CodebookCell)),
        ] {
            assert_eq!(adaptive_for(&text.parse().unwrap()), want, "{text}");
        }
    }
    #[test]
    fn an_unstudied_defense_has_no_attack_that_knows_it() {
        for noise in [NoiseMode::Keyed, NoiseMode::Fresh] {
            assert_eq!(strongest(&[Leaves::Rounded], noise), Some(Method::Interval));
            assert_eq!(strongest(&[Leaves::Unstudied], noise), None);
            assert_eq!(strongest(&[Leaves::Unstudied, Leaves::Label], noise), None);
        }
    }

    #[test]
    fn every_defense_but_none_has_an_attack_that_knows_it() {
        for facts in DefenseConfig::ALL {
            for example in (facts.examples)(4) {
                let policy = Policy::of(example);
                assert_eq!(adaptive_for(&policy).is_some(), facts.name != "none", "{policy}");
            }
        }
    }
}
