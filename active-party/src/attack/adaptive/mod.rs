//! Adaptive attacks: for each defense, the adversary who has read its source.
//!
//! What a known defense releases confines the differences of logits to a [`Cell`](super::Cell), and with the features in [0, 1] that makes
//! a polytope, which the truth lies in. The estimate is a centre of it.

pub(in crate::attack) mod averaging;
pub(in crate::attack) mod chosen_shares;
pub(in crate::attack) mod cones;
mod estimate;
pub(in crate::attack) mod interval;
pub(in crate::attack) mod noise_direction;
pub(in crate::attack) mod noisy_label;
mod preimage;
mod privee;
mod purified;
pub(in crate::attack) mod shadow_purifier;
mod strongest;
pub(in crate::attack) mod undo;

use vfl_shared::policy::{DefenseConfig, Leaves, Policy};

use super::Settings;
use super::settings::{AnySetting, Setting};

pub use averaging::{Averaging, average};
pub use chosen_shares::{ChosenShares, Gathered};
pub use cones::{CodebookCell, LabelCone, RankingCone};
pub use interval::{Interval, RecoveredScores};
pub use noise_direction::NoiseDirection;
pub use noisy_label::NoisyLabel;
pub use shadow_purifier::ShadowPurifier;
pub use strongest::strongest_on;
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

/// The name of the strongest attack on one release of the policy that the settings state, where there is one.
pub(super) fn strongest_on_one_release(settings: &Settings) -> Option<&'static str> {
    let mut policy = settings.get(&POLICY)?;
    policy.unbound_shares = false;
    strongest_on(&policy)
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
    pub(in crate::attack) const SETTINGS: &'static [&'static dyn AnySetting] = &[&POLICY, &SIGMA_KNOWN, &CENTRE];

    /// The defenses at the logits, and those at the scores.
    fn stages(&self) -> (Vec<&DefenseConfig>, Vec<&DefenseConfig>) {
        let real = self.policy.defenses.iter().filter(|d| d.leaves() != Leaves::Everything);
        real.partition(|d| d.facts().at_logits)
    }

    /// The factor that makes differences of logits out of those of what is left after temperature and scheme 3; `None` for
    /// other defenses at the logits, and for parameters out of range.
    pub(in crate::attack) fn stretch(&self) -> Option<f64> {
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
