//! Settings of attacks, as `key=value` pairs give them.

use super::adaptive::{Centre, KnownPolicy, UndoSettings};
use super::agnostic::{AgnosticSettings, OutOfRange};
use super::gradient_inversion::{GradientInversion, Iterate, Loss, Start};
use super::method::clip;
use super::{Descent, Method, MethodError, OneFeatureCase, Replacement, ShadowBias, ShadowFit, StatedKnowledge};

/// Settings of attacks. Each attack looks at its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What stands for a score of 0, and for the scores behind a label.
    pub replacement: Replacement,
    /// What `one_feature` knows of the weight and the bias.
    pub one_feature_case: OneFeatureCase,
    /// How a shadow model is fitted.
    pub shadow_fit: ShadowFit,
    /// What a shadow model takes for known of the bias.
    pub shadow_bias: ShadowBias,
    /// Of gradient inversion: `loss`, `start`, `projected`, `steps`, `learning_rate`, `stop_loss`, `iterate`.
    pub gradient_inversion: GradientInversion,
    /// What is known of the passive features.
    pub knowledge: StatedKnowledge,
    /// What is known of the policy: `policy`, `sigma_known`, `centre`.
    pub adaptive: KnownPolicy,
    /// How many different answers were averaged into the release.
    pub averaged: usize,
    /// Of the agnostic attack: `base`, `observed`, `alpha`, `beta`, `l2`, `out_of_range`.
    pub agnostic: AgnosticSettings,
    /// Of `undo_transform`: `column_means`. Its base is the agnostic attack's.
    pub undo: UndoSettings,
}

/// A setting: its name, and what it takes, with the default.
type Key = (&'static str, &'static str);

const ZERO_FLOOR: Key =
    ("zero_floor", "what stands for a score of 0: a number above 0 and at most 0.5 (default 1e-12)");
const ONE_FEATURE_CASE: Key = (
    "one_feature_case",
    "what one_feature knows of v = w x + b: 1 (b = 0), 2 (w b > 0), 3 (w b < 0), +- (w > 0 > b) or -+ (default 1)",
);
const SHADOW_FIT: Key = (
    "shadow_fit",
    "how a shadow model is fitted: least_squares (on log-ratios) or gradient (descent on the divergence of the scores) \
     (default least_squares)",
);
const SHADOW_BIAS: Key = (
    "shadow_bias",
    "whether a shadow model takes b as it is or estimates what it lacks: known or unknown (default known)",
);

const LOSS: Key = ("loss", "what gradient inversion lessens: `mse`, `kl`, `rkl` or `logsq` (default kl)");
const START: Key = ("start", "where gradient inversion starts: `zero`, `half` or `random` (default zero)");
const PROJECTED: Key = ("projected", "whether gradient inversion stays in [0, 1]: `true` or `false` (default true)");
const STEPS: Key = ("steps", "steps of gradient inversion: a whole number from 1 to 1000000 (default 1000)");
const LEARNING_RATE: Key = ("learning_rate", "of gradient inversion: a number above 0 and at most 1 (default 0.01)");
const STOP_LOSS: Key =
    ("stop_loss", "loss at which gradient inversion stops on a record: a number of at least 0 (default 0, never)");
const ITERATE: Key = ("iterate", "which point gradient inversion takes: `final` or `best` (default final)");

const LOWER: Key =
    ("lower", "the least value of each passive feature: one number for all, or one for each, with commas (default 0)");
const UPPER: Key = (
    "upper",
    "the greatest value of each passive feature: one number for all, or one for each, with commas (default 1)",
);
const BINARY: Key = (
    "binary",
    "which passive features are at one end of their range or the other: `all`, or positions from 0, with commas",
);
const LEVELS: Key =
    ("levels", "the values that passive features take: position:value/value/..., with commas (as 0:0/0.5/1,3:0/1)");
const DISCRETE: Key = (
    "discrete",
    "what is made of `binary` and `levels`: `snap` (to the nearest, the default) or `exact` (all assignments of the two-valued ones)",
);

const POLICY: Key = (
    "policy",
    "what adaptive attacks know the coordinator to do: a policy as `rounding (decimals = 2)` (default none, scores as they are)",
);
const SIGMA_KNOWN: Key = (
    "sigma_known",
    "whether adaptive attacks know the scale of the noise (sigma, or alpha of logit noise): `true` or `false` (default true)",
);
const CENTRE: Key = (
    "centre",
    "which point adaptive attacks take: `half`, `analytic`, `posterior` or `likely` (default the attack's own)",
);
const AVERAGED: Key =
    ("averaged", "how many different answers averaging was given the mean of: a whole number above 0 (default 1)");

const BASE: Key = (
    "base",
    "the attack that agnostic and undo_transform run in the end: one that knows the parameters and runs on one release \
     (default clamped_half_star)",
);
const OBSERVED: Key =
    ("observed", "how many records agnostic asks about first, to refine its model: a whole number (default 0)");
const ALPHA: Key = (
    "alpha",
    "weight of the scores seen, in the model of agnostic: a number of at least 0 (default 1; nothing for labels)",
);
const BETA: Key =
    ("beta", "weight of the predicted classes seen, in the model of agnostic: a number of at least 0 (default 0)");
const L2: Key =
    ("l2", "weight of the squared weights, in the model of agnostic: a number of at least 0 (default 0.001)");
const OUT_OF_RANGE: Key = (
    "out_of_range",
    "what agnostic makes of estimates out of range: `keep`, `clamp`, `half` (these become 1/2) or `all_half` (all of the record \
     do) (default clamp)",
);

const COLUMN_MEANS: Key = (
    "column_means",
    "the mean of each passive feature, if public, for undo_transform: one number for each, with commas (default unknown)",
);

impl Settings {
    /// The settings there are, each with what it takes.
    pub const KEYS: &'static [Key] = &[
        ZERO_FLOOR,
        LOWER,
        UPPER,
        BINARY,
        LEVELS,
        DISCRETE,
        LOSS,
        START,
        PROJECTED,
        STEPS,
        LEARNING_RATE,
        STOP_LOSS,
        ITERATE,
        ONE_FEATURE_CASE,
        SHADOW_FIT,
        SHADOW_BIAS,
        POLICY,
        SIGMA_KNOWN,
        CENTRE,
        AVERAGED,
        BASE,
        OBSERVED,
        ALPHA,
        BETA,
        L2,
        OUT_OF_RANGE,
        COLUMN_MEANS,
    ];

    /// The names of all settings, with commas.
    #[must_use]
    pub fn names() -> String {
        Self::KEYS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// Reads `key`, `value` pairs; the last of a key counts.
    ///
    /// # Errors
    /// [`MethodError`] naming the setting that is unknown, or whose value it does not take.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, MethodError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            let key =
                *Self::KEYS.iter().find(|(name, _)| *name == key).ok_or_else(|| MethodError::Key { key: clip(key) })?;
            settings.set(key, value).ok_or_else(|| MethodError::Value {
                key: key.0,
                value: clip(value),
                expected: key.1,
            })?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: Key, value: &str) -> Option<()> {
        match key {
            ZERO_FLOOR => self.replacement = Replacement::new(value.parse().ok()?).ok()?,
            LOWER => self.knowledge.lower = numbers(value, ',')?,
            UPPER => self.knowledge.upper = numbers(value, ',')?,
            BINARY if value.trim() == "all" => self.knowledge.binary = Some(None),
            BINARY => {
                let positions = value.split(',').map(|p| p.trim().parse().ok()).collect::<Option<_>>()?;
                self.knowledge.binary = Some(Some(positions));
            }
            LEVELS => {
                let feature = |text: &str| {
                    let (position, levels) = text.split_once(':')?;
                    Some((position.trim().parse().ok()?, numbers(levels, '/')?))
                };
                self.knowledge.levels = value.split(',').map(feature).collect::<Option<_>>()?;
            }
            DISCRETE => {
                self.knowledge.exact = match value.trim() {
                    "snap" => false,
                    "exact" => true,
                    _ => return None,
                }
            }
            ONE_FEATURE_CASE => self.one_feature_case = value.parse().ok()?,
            SHADOW_FIT => {
                self.shadow_fit = match value {
                    "least_squares" => ShadowFit::LeastSquares,
                    "gradient" => ShadowFit::Gradient(Descent::default()),
                    _ => return None,
                }
            }
            SHADOW_BIAS => {
                self.shadow_bias = match value {
                    "known" => ShadowBias::Known,
                    "unknown" => ShadowBias::Unknown,
                    _ => return None,
                }
            }
            POLICY => self.adaptive.policy = value.parse().ok()?,
            SIGMA_KNOWN => self.adaptive.scale_known = value.trim().parse().ok()?,
            CENTRE => self.adaptive.centre = Some(Centre::named(value.trim())?),
            AVERAGED => self.averaged = value.trim().parse().ok().filter(|n| *n > 0)?,
            BASE => self.agnostic.base = value.trim().parse().ok().filter(|m: &Method| m.is_base())?,
            OBSERVED => self.agnostic.observed = value.trim().parse().ok()?,
            ALPHA => self.agnostic.alpha = weight(value)?,
            BETA => self.agnostic.beta = weight(value)?,
            L2 => self.agnostic.l2 = weight(value)?,
            OUT_OF_RANGE => self.agnostic.out_of_range = OutOfRange::named(value.trim())?,
            COLUMN_MEANS => self.undo.column_means = Some(numbers(value, ',')?),
            _ => self.gradient_inversion = set_gradient_inversion(self.gradient_inversion, key, value)?,
        }
        Some(())
    }
}

/// A finite number of at least 0.
fn weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| *n >= 0.0 && n.is_finite())
}

/// Finite numbers with separators.
fn numbers(text: &str, separator: char) -> Option<Vec<f64>> {
    text.split(separator).map(|n| n.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect()
}

fn set_gradient_inversion(attack: GradientInversion, key: Key, value: &str) -> Option<GradientInversion> {
    match key {
        LOSS => Some(attack.with_loss(Loss::named(value)?)),
        START => Some(attack.with_start(Start::named(value)?)),
        PROJECTED => Some(attack.with_projected(value.parse().ok()?)),
        STEPS => attack.with_steps(value.parse().ok()?).ok(),
        LEARNING_RATE => attack.with_learning_rate(value.parse().ok()?).ok(),
        STOP_LOSS => attack.with_stop_loss(value.parse().ok()?).ok(),
        ITERATE => Some(attack.with_iterate(Iterate::named(value)?)),
        _ => None,
    }
}
