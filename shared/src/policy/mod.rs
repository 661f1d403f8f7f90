//! What is done to scores before they leave the coordinator, as data: config files, the wire, reports and adversaries name
//! defenses with these types. What the defenses do is the coordinator's matter.
//!
//! A policy has a text form, which reads back: `temperature (temperature = 2.0) then rounding (decimals = 1)`.

mod text;
mod wire;

use serde::{Deserialize, Serialize};

pub use text::PolicyTextError;

/// The orthonormal matrix that PRIVEE perturbs (P section 4.2). Text: `identity`, `householder`, `fisip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// I.
    #[default]
    Identity,
    /// I − (2/k) 1 1ᵀ, P (4): the negative of FISIP.
    Householder,
    /// (2/k) 1 1ᵀ − I, which turns the order round before noise is added.
    Fisip,
}

/// A defense and its parameters, as they stand in a config file (`[defense] name = "rounding"`, `decimals = 2`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum DefenseConfig {
    /// The scores as they are.
    None {},
    /// Noise at the logits along the direction that hurts least squares most (R section VII-B, theorem 4).
    LogitNoise {
        /// 1 (R (92), (93)), 2 (R (94)) or 3 ((1 − α) z + α 1, R section VIII-D).
        scheme: u32,
        /// Schemes 1 and 2: the noise budget ‖n‖², at least 0. Scheme 3: in [0, 1).
        alpha: f64,
    },
    /// Logits divided by a temperature.
    Temperature {
        /// Above 0. Above 1 the scores move together.
        temperature: f64,
    },
    /// Scores rounded, ties to the even digit.
    Rounding {
        /// Decimals kept, 0 to 15.
        decimals: u32,
    },
    /// The largest k scores, the others 0.
    TopK {
        /// Scores kept, at least 1.
        k: u32,
    },
    /// The predicted class alone.
    ClassLabel {
        /// 0 (default): the label itself. Above 0 and below 1/k: the vector with this value everywhere but at the label
        /// (R section VIII-D, figure 13's δ).
        #[serde(default, skip_serializing_if = "is_zero")]
        softening: f64,
    },
    /// Gaussian noise on every score (J section VI).
    GaussianNoise {
        /// Standard deviation, above 0.
        sigma: f64,
    },
    /// The Gaussian mechanism on every score (P section 5.4).
    DpGaussian {
        /// Above 0.
        epsilon: f64,
        /// In (0, 1).
        #[serde(default = "default_delta", skip_serializing_if = "is_default_delta")]
        delta: f64,
        /// ℓ₂ sensitivity, above 0. Default √2, the largest distance of two probability vectors.
        #[serde(default = "default_sensitivity", skip_serializing_if = "is_default_sensitivity")]
        sensitivity: f64,
    },
    /// PRIVEE-DP (P algorithm 1 with one scale). σ is given, or follows from ε, δ and the sensitivity by P (9).
    PriveeDp {
        /// σ, at least 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sigma: Option<f64>,
        /// ε, above 0. Default 0.1 where σ is not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epsilon: Option<f64>,
        /// δ of (9), in (0, 1).
        #[serde(default = "default_delta", skip_serializing_if = "is_default_delta")]
        delta: f64,
        /// Δf of (9), above 0. Default 0.1, as in P's code.
        #[serde(default = "default_privee_sensitivity", skip_serializing_if = "is_default_privee_sensitivity")]
        sensitivity: f64,
        /// The matrix perturbed.
        #[serde(default, skip_serializing_if = "is_identity")]
        template: Template,
        /// As the authors' code does it: one draw for the whole batch, u from parts of [0, 3].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_published: bool,
    },
    /// PRIVEE-DP++ (P algorithm 1): a scale for each rank, so that a larger score has no smaller scale.
    PriveeDpPlusPlus {
        /// σ from the smallest score to the largest, not falling: k values, or two, between which the others lie evenly.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sigma: Vec<f64>,
        /// ε likewise, not rising. Default 0.1 to 0.05, P's code's range, where σ is not given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        epsilon: Vec<f64>,
        /// δ of (9), in (0, 1).
        #[serde(default = "default_delta", skip_serializing_if = "is_default_delta")]
        delta: f64,
        /// Δf of (9), above 0. Default 0.1, as in P's code.
        #[serde(default = "default_privee_sensitivity", skip_serializing_if = "is_default_privee_sensitivity")]
        sensitivity: f64,
        /// The matrix perturbed.
        #[serde(default, skip_serializing_if = "is_identity")]
        template: Template,
        /// As the authors' code does it: one draw for the whole batch, u from parts of [0, 3], the largest scale at the
        /// smallest score.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_published: bool,
    },
    /// Order-preserving encryption of every score.
    OrderPreservingEncryption {},
    /// One fixed vector, dealt out by rank: at most log2 k! bits a record.
    Ranking {},
    /// The nearest of a fixed number of score vectors: at most log2 size bits a record.
    Codebook {
        /// Number of vectors, at least k.
        size: u32,
    },
}

fn is_default_delta(value: &f64) -> bool {
    *value == default_delta()
}

fn is_default_sensitivity(value: &f64) -> bool {
    *value == default_sensitivity()
}

fn is_default_privee_sensitivity(value: &f64) -> bool {
    *value == default_privee_sensitivity()
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_identity(template: &Template) -> bool {
    *template == Template::Identity
}

fn default_delta() -> f64 {
    1e-5
}

fn default_sensitivity() -> f64 {
    std::f64::consts::SQRT_2
}

fn default_privee_sensitivity() -> f64 {
    0.1
}

/// Order-preserving encryption takes scores in units of 2 to minus this.
pub const ENCRYPTED_UNIT_BITS: u32 = 32;
/// Bits of an encrypted unit.
pub const ENCRYPTED_BITS: u32 = 37;
/// Bits below them, for the order of scores that share a unit.
pub const ENCRYPTED_ORDER_BITS: u32 = 16;

/// The scale of the Gaussian mechanism, √(2 ln(1.25/δ)) Δf / ε (P (9)).
#[must_use]
pub fn gaussian_scale(epsilon: f64, delta: f64, sensitivity: f64) -> f64 {
    (2.0 * (1.25 / delta).ln()).sqrt() * sensitivity / epsilon
}

impl DefenseConfig {
    /// The names of all defenses.
    pub const NAMES: [&'static str; 13] = [
        "none",
        "logit_noise",
        "temperature",
        "rounding",
        "top_k",
        "class_label",
        "gaussian_noise",
        "dp_gaussian",
        "privee_dp",
        "privee_dp_plus_plus",
        "order_preserving_encryption",
        "ranking",
        "codebook",
    ];

    /// The name, as in a config file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::None {} => "none",
            Self::LogitNoise { .. } => "logit_noise",
            Self::Temperature { .. } => "temperature",
            Self::Rounding { .. } => "rounding",
            Self::TopK { .. } => "top_k",
            Self::ClassLabel { .. } => "class_label",
            Self::GaussianNoise { .. } => "gaussian_noise",
            Self::DpGaussian { .. } => "dp_gaussian",
            Self::PriveeDp { .. } => "privee_dp",
            Self::PriveeDpPlusPlus { .. } => "privee_dp_plus_plus",
            Self::OrderPreservingEncryption {} => "order_preserving_encryption",
            Self::Ranking {} => "ranking",
            Self::Codebook { .. } => "codebook",
        }
    }

    /// The standard deviations, or scales, of the noise of a PRIVEE defense from the smallest score to the largest; empty for
    /// others. One value for `privee_dp`; k values, or two ends, for `privee_dp_plus_plus`.
    #[must_use]
    pub fn privee_scales(&self) -> Vec<f64> {
        match self {
            Self::PriveeDp { sigma, epsilon, delta, sensitivity, .. } => {
                vec![sigma.unwrap_or_else(|| gaussian_scale(epsilon.unwrap_or(0.1), *delta, *sensitivity))]
            }
            Self::PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, .. } if sigma.is_empty() => {
                let epsilon: &[f64] = if epsilon.is_empty() { &[0.1, 0.05] } else { epsilon };
                epsilon.iter().map(|e| gaussian_scale(*e, *delta, *sensitivity)).collect()
            }
            Self::PriveeDpPlusPlus { sigma, .. } => sigma.clone(),
            _ => Vec::new(),
        }
    }
}

/// How noise is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseMode {
    /// Keyed by (server secret, model, policy, record): asking again gives the same answer.
    #[default]
    Keyed,
    /// Anew for every answer, which repeated questions average away. For audits and offline work only.
    Fresh,
}

/// What an audit may switch off, to measure what it is worth. The live service always keys its noise and binds shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// In order; those at the logits come first. Empty: none.
    #[serde(default)]
    pub defenses: Vec<DefenseConfig>,
    /// How noise is drawn.
    #[serde(default)]
    pub noise: NoiseMode,
    /// Whether a record is answered again after its logit share has changed.
    #[serde(default)]
    pub unbound_shares: bool,
}

impl Policy {
    /// A policy of one defense.
    #[must_use]
    pub fn of(defense: DefenseConfig) -> Self {
        Self { defenses: vec![defense], ..Self::default() }
    }

    /// Whether the scores leave as they are.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.defenses.iter().all(|d| matches!(d, DefenseConfig::None {}))
    }
}

impl From<DefenseConfig> for Policy {
    fn from(defense: DefenseConfig) -> Self {
        Self::of(defense)
    }
}
