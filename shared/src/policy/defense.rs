//! The defenses: the parameters of each, and what others need to know of it.
//!
//! A new defense is a variant of [`DefenseConfig`] and its [`Facts`], which stand in [`DefenseConfig::ALL`]. The compiler names
//! the matches to complete, all of them below.

use serde::{Deserialize, Serialize};

use super::facts::{Absent, Leaves, Parameter, ParameterKind};

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
    /// Logits divided by a temperature.
    Temperature {
        /// Above 0. Above 1 the scores move together.
        temperature: f64,
    },
    /// Noise at the logits along the direction that hurts least squares most (R section VII-B, theorem 4).
    LogitNoise {
        /// 1 (R (92), (93)), 2 (R (94)) or 3 ((1 − α) z + α 1, R section VIII-D).
        scheme: u32,
        /// Schemes 1 and 2: the noise budget ‖n‖², at least 0. Scheme 3: in [0, 1).
        alpha: f64,
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

/// What is the same for every setting of a defense. Each defense states it once, beside its variant of [`DefenseConfig`].
#[derive(Debug)]
pub struct Facts {
    /// The name, as in a config file.
    pub name: &'static str,
    /// The parameters, in the order of the help.
    pub parameters: &'static [Parameter],
    /// Sensible settings for a model of so many classes (at least 2), with parameters of the papers where they name some. The
    /// demo audits them all; tests and fuzz seeds are made of them.
    pub examples: fn(classes: usize) -> Vec<DefenseConfig>,
    /// Whether it changes logits, before the link function. Otherwise it changes scores.
    pub at_logits: bool,
    /// Whether it takes microseconds a score, so that it must not run on a thread that serves connections.
    pub costly: bool,
    /// Whether it is fitted on undefended scores of the model's training, which an imported model does not have.
    pub fitted: bool,
}

impl Facts {
    /// The parameter of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The names of the parameters in a row, or `none`.
    #[must_use]
    pub fn parameter_names(&self) -> String {
        match self.parameters {
            [] => "none".to_owned(),
            all => all.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", "),
        }
    }
}

const fn parameter(name: &'static str, kind: ParameterKind, takes: &'static str, absent: Absent) -> Parameter {
    Parameter { name, kind, takes, absent }
}

const DELTA: Parameter =
    parameter("delta", ParameterKind::Number, "above 0 and below 1; default 1e-5", Absent::Optional);
const PRIVEE_SENSITIVITY: Parameter =
    parameter("sensitivity", ParameterKind::Number, "above 0; default 0.1", Absent::Optional);
const TEMPLATE: Parameter = parameter(
    "template",
    ParameterKind::Word(&["identity", "householder", "fisip"]),
    "the matrix perturbed; default identity",
    Absent::Optional,
);
const AS_PUBLISHED: Parameter =
    parameter("as_published", ParameterKind::Truth, "as the authors' code; default false", Absent::Optional);

/// A defense of the scores without parameters that is not costly and not fitted.
const PLAIN: Facts =
    Facts { name: "", parameters: &[], examples: |_| Vec::new(), at_logits: false, costly: false, fitted: false };

const NONE: Facts = Facts { name: "none", examples: |_| vec![DefenseConfig::None {}], ..PLAIN };

const ROUNDING: Facts = Facts {
    name: "rounding",
    parameters: &[parameter("decimals", ParameterKind::Whole, "0 to 15", Absent::Required(2.0))],
    examples: |_| [2, 1].map(|decimals| DefenseConfig::Rounding { decimals }).into(),
    ..PLAIN
};

const TOP_K: Facts = Facts {
    name: "top_k",
    parameters: &[parameter("k", ParameterKind::Whole, "1 to the number of classes less 1", Absent::Required(1.0))],
    examples: |classes| vec![DefenseConfig::TopK { k: if classes > 2 { 2 } else { 1 } }],
    ..PLAIN
};

const CLASS_LABEL: Facts = Facts {
    name: "class_label",
    parameters: &[parameter(
        "softening",
        ParameterKind::Number,
        "0 (default), or up to below 1/classes",
        Absent::Optional,
    )],
    examples: |_| vec![DefenseConfig::ClassLabel { softening: 0.0 }],
    ..PLAIN
};

const TEMPERATURE: Facts = Facts {
    name: "temperature",
    parameters: &[parameter("temperature", ParameterKind::Number, "1e-6 to 1e6", Absent::Required(2.0))],
    examples: |_| vec![DefenseConfig::Temperature { temperature: 4.0 }],
    at_logits: true,
    ..PLAIN
};

const LOGIT_NOISE: Facts = Facts {
    name: "logit_noise",
    parameters: &[
        parameter("scheme", ParameterKind::Whole, "1, 2 or 3", Absent::Required(1.0)),
        parameter(
            "alpha",
            ParameterKind::Number,
            "noise budget, at least 0; in scheme 3 below 1",
            Absent::Required(0.5),
        ),
    ],
    examples: |_| {
        [(1, 10.0), (2, 10.0), (3, 0.75)].map(|(scheme, alpha)| DefenseConfig::LogitNoise { scheme, alpha }).into()
    },
    at_logits: true,
    ..PLAIN
};

const GAUSSIAN_NOISE: Facts = Facts {
    name: "gaussian_noise",
    parameters: &[parameter("sigma", ParameterKind::Number, "above 0", Absent::Required(0.1))],
    examples: |_| vec![DefenseConfig::GaussianNoise { sigma: 0.1 }],
    ..PLAIN
};

const DP_GAUSSIAN: Facts = Facts {
    name: "dp_gaussian",
    parameters: &[
        parameter("epsilon", ParameterKind::Number, "above 0, a guarantee up to 1", Absent::Required(0.5)),
        DELTA,
        parameter("sensitivity", ParameterKind::Number, "above 0; default sqrt 2", Absent::Optional),
    ],
    examples: |_| {
        let (delta, sensitivity) = (default_delta(), default_sensitivity());
        vec![DefenseConfig::DpGaussian { epsilon: 0.5, delta, sensitivity }]
    },
    ..PLAIN
};

const PRIVEE_DP: Facts = Facts {
    name: "privee_dp",
    parameters: &[
        parameter("sigma", ParameterKind::Number, "at least 0, in place of epsilon", Absent::Optional),
        parameter("epsilon", ParameterKind::Number, "above 0; default 0.1", Absent::Optional),
        DELTA,
        PRIVEE_SENSITIVITY,
        TEMPLATE,
        AS_PUBLISHED,
    ],
    examples: |_| {
        let of = |(sigma, epsilon)| DefenseConfig::PriveeDp {
            sigma,
            epsilon,
            delta: default_delta(),
            sensitivity: default_privee_sensitivity(),
            template: Template::Householder,
            as_published: false,
        };
        [(None, Some(0.1)), (Some(48.0), None)].map(of).into()
    },
    ..PLAIN
};

const PRIVEE_DP_PLUS_PLUS: Facts = Facts {
    name: "privee_dp_plus_plus",
    parameters: &[
        parameter(
            "sigma",
            ParameterKind::Numbers,
            "one value for each class or two ends, not falling, in place of epsilon",
            Absent::Optional,
        ),
        parameter("epsilon", ParameterKind::Numbers, "likewise, not rising; default 0.1,0.05", Absent::Optional),
        DELTA,
        PRIVEE_SENSITIVITY,
        TEMPLATE,
        AS_PUBLISHED,
    ],
    examples: |_| {
        vec![DefenseConfig::PriveeDpPlusPlus {
            sigma: Vec::new(),
            epsilon: Vec::new(),
            delta: default_delta(),
            sensitivity: default_privee_sensitivity(),
            template: Template::Householder,
            as_published: false,
        }]
    },
    ..PLAIN
};

const ORDER_PRESERVING_ENCRYPTION: Facts = Facts {
    name: "order_preserving_encryption",
    examples: |_| vec![DefenseConfig::OrderPreservingEncryption {}],
    costly: true,
    ..PLAIN
};

const RANKING: Facts = Facts { name: "ranking", examples: |_| vec![DefenseConfig::Ranking {}], fitted: true, ..PLAIN };

const CODEBOOK: Facts = Facts {
    name: "codebook",
    parameters: &[parameter(
        "size",
        ParameterKind::Whole,
        "at least the number of classes",
        Absent::RequiredPerClass(4.0),
    )],
    examples: |classes| vec![DefenseConfig::Codebook { size: classes.max(32) as u32 }],
    costly: true,
    fitted: true,
    ..PLAIN
};

/// What stands for a score of 0 behind a label: δ of the vector that attacks put in place of the scores that it hides.
const LABEL_FLOOR: f64 = 0.01;

impl DefenseConfig {
    /// All defenses, in the order in which the demo audits them.
    pub const ALL: &'static [&'static Facts] = &[
        &NONE,
        &ROUNDING,
        &TOP_K,
        &CLASS_LABEL,
        &TEMPERATURE,
        &LOGIT_NOISE,
        &GAUSSIAN_NOISE,
        &DP_GAUSSIAN,
        &PRIVEE_DP,
        &PRIVEE_DP_PLUS_PLUS,
        &ORDER_PRESERVING_ENCRYPTION,
        &RANKING,
        &CODEBOOK,
    ];

    /// The names of all defenses.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name;
            at += 1;
        }
        names
    };

    /// The name, as in a config file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// What is the same for every setting of the defense.
    #[must_use]
    pub fn facts(&self) -> &'static Facts {
        match self {
            Self::None {} => &NONE,
            Self::Rounding { .. } => &ROUNDING,
            Self::TopK { .. } => &TOP_K,
            Self::ClassLabel { .. } => &CLASS_LABEL,
            Self::Temperature { .. } => &TEMPERATURE,
            Self::LogitNoise { .. } => &LOGIT_NOISE,
            Self::GaussianNoise { .. } => &GAUSSIAN_NOISE,
            Self::DpGaussian { .. } => &DP_GAUSSIAN,
            Self::PriveeDp { .. } => &PRIVEE_DP,
            Self::PriveeDpPlusPlus { .. } => &PRIVEE_DP_PLUS_PLUS,
            Self::OrderPreservingEncryption {} => &ORDER_PRESERVING_ENCRYPTION,
            Self::Ranking {} => &RANKING,
            Self::Codebook { .. } => &CODEBOOK,
        }
    }

    /// What it leaves of the scores. Attacks that adapt to a policy are chosen by it.
    #[must_use]
    pub fn leaves(&self) -> Leaves {
        match self {
            Self::None {} => Leaves::Everything,
            Self::Rounding { .. } => Leaves::Rounded,
            Self::TopK { .. } => Leaves::Largest,
            Self::ClassLabel { .. } => Leaves::Label,
            Self::Temperature { .. } | Self::LogitNoise { scheme: 3, .. } => Leaves::Scaled,
            Self::LogitNoise { .. } => Leaves::Projected,
            Self::GaussianNoise { .. } | Self::DpGaussian { .. } => Leaves::Noised,
            Self::PriveeDp { .. } | Self::PriveeDpPlusPlus { .. } => Leaves::OrderNoised,
            Self::OrderPreservingEncryption {} => Leaves::Ciphertexts,
            Self::Ranking {} => Leaves::Order,
            Self::Codebook { .. } => Leaves::Word,
        }
    }

    /// What stands for a score of 0 behind it, for attacks that take the release for the true scores: half a step of rounded
    /// ones, 0.01 behind a label. `None` where it makes no zeros of positive scores, or says nothing of them.
    #[must_use]
    pub fn zero_floor(&self) -> Option<f64> {
        match self {
            Self::Rounding { decimals } => Some(0.5 * 10f64.powi(-(*decimals as i32))),
            Self::ClassLabel { softening } => (*softening == 0.0).then_some(LABEL_FLOOR),
            Self::None {}
            | Self::TopK { .. }
            | Self::Temperature { .. }
            | Self::LogitNoise { .. }
            | Self::GaussianNoise { .. }
            | Self::DpGaussian { .. }
            | Self::PriveeDp { .. }
            | Self::PriveeDpPlusPlus { .. }
            | Self::OrderPreservingEncryption {}
            | Self::Ranking {}
            | Self::Codebook { .. } => None,
        }
    }

    /// Whether the coordinator needs the parameters of the passive parties to apply it.
    #[must_use]
    pub fn needs_passive_weights(&self) -> bool {
        match self {
            Self::LogitNoise { scheme, .. } => matches!(scheme, 1 | 2),
            Self::None {}
            | Self::Rounding { .. }
            | Self::TopK { .. }
            | Self::ClassLabel { .. }
            | Self::Temperature { .. }
            | Self::GaussianNoise { .. }
            | Self::DpGaussian { .. }
            | Self::PriveeDp { .. }
            | Self::PriveeDpPlusPlus { .. }
            | Self::OrderPreservingEncryption {}
            | Self::Ranking {}
            | Self::Codebook { .. } => false,
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
