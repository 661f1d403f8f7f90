//! Adaptive attacks: for each defense, the adversary who has read its source.
//!
//! The release of a known defense confines the differences of logits to a [`Cell`](super::Cell).
//! With the features in [0, 1] this makes a polytope, in which the truth lies. The estimate is a
//! centre of the polytope.

pub(crate) mod averaging;
pub(crate) mod chosen_shares;
pub(crate) mod cones;
mod estimate;
pub(crate) mod interval;
pub(crate) mod noise_direction;
pub(crate) mod noisy_label;
mod preimage;
mod privee;
mod purified_model;
mod selection;
pub(crate) mod shadow_purifier;
pub(crate) mod undo;

use vfl_defense::policy::ReleaseKind;
use vfl_defense::{DefenseConfig, Policy};

use super::Settings;
use super::settings::{AnySetting, Setting};

pub use averaging::{Averaging, average};
pub use chosen_shares::{ChosenShares, ChosenSharesResult};
pub use cones::{CodebookCell, LabelCone, RankingCone};
pub use interval::{Interval, RecoveredScores};
pub use noise_direction::NoiseDirection;
pub use noisy_label::NoisyLabel;
pub use selection::strongest_on;
pub use shadow_purifier::ShadowPurifier;
pub use undo::{
    Examination, Hypothesis, RemainingHypotheses, TransformEvidence, UndoTransform, Verdict,
};

/// The point of a polytope that is the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// The point nearest to ½·1, as in the second relaxation of the Chebyshev centre.
    Half,
    /// The analytic centre: the maximum of the sum of logarithms of the distances to the bounds.
    Analytic,
    /// The mean under a uniform prior. An adversary who knows only the range of the features should
    /// take it. It is computed by hit and run, so it depends slightly on the seed.
    Posterior,
    /// The likeliest point of the polytope. The logarithms of the scores are taken for normal, with
    /// the moments of their intervals. The features are taken for normal around ½, with the
    /// variance of uniform ones. If the release makes no point likelier than others, as a label
    /// does, the analytic centre is taken.
    Likely,
}

impl Centre {
    /// Returns the name of the centre.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Analytic => "analytic",
            Self::Posterior => "posterior",
            Self::Likely => "likely",
        }
    }

    /// Returns the centre of this name: `half`, `analytic`, `posterior` or `likely`.
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

/// The adversary's knowledge of the policy, and its choice of the estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownPolicy {
    /// The policy. Without a defense the release is taken for the exact scores.
    pub policy: Policy,
    /// True if the scale of the policy's noise is known: σ of PRIVEE, α of logit noise, σ of
    /// Gaussian noise.
    pub scale_known: bool,
    /// The centre; `None` for the default of each attack, the best measured.
    pub centre: Option<Centre>,
}

impl Default for KnownPolicy {
    /// Returns a policy without a defense.
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

/// Returns the name of the strongest attack on one release of the policy in the settings, if there
/// is one.
pub(super) fn strongest_on_one_release(settings: &Settings) -> Option<&'static str> {
    let mut policy = settings.get(&POLICY)?;
    policy.unbound_shares = false;
    strongest_on(&policy)
}

impl KnownPolicy {
    /// Returns settings of an attack that state this knowledge.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let centre = self.centre.map(|centre| (CENTRE.key, centre.as_str().to_owned()));
        let policy = (POLICY.key, self.policy.to_string());
        let pairs =
            [policy, (SIGMA_KNOWN.key, self.scale_known.to_string())].into_iter().chain(centre);
        Settings::accepted(pairs)
    }

    /// The settings that state the known policy.
    pub(crate) const SETTINGS: &'static [&'static dyn AnySetting] =
        &[&POLICY, &SIGMA_KNOWN, &CENTRE];

    /// Returns the defenses at the logits, and those at the scores.
    fn stages(&self) -> (Vec<&DefenseConfig>, Vec<&DefenseConfig>) {
        let real = self.policy.defenses.iter().filter(|d| d.leaves() != ReleaseKind::Everything);
        real.partition(|d| d.facts().at_logits)
    }

    /// Returns the factor by which temperature and scheme 3 shrink differences of logits; `None`
    /// for other defenses at the logits, and for parameters out of range.
    pub(crate) fn stretch(&self) -> Option<f64> {
        self.stages().0.into_iter().try_fold(1.0, |factor, defense| {
            let by = match defense {
                DefenseConfig::Temperature { temperature } => *temperature,
                DefenseConfig::LogitNoise { scheme: 3, alpha } if *alpha >= 0.0 && *alpha < 1.0 => {
                    1.0 / (1.0 - alpha)
                }
                _ => return None,
            };
            (by > 0.0 && by.is_finite()).then_some(factor * by)
        })
    }
}
