//! The defenses: the parameters of each, and its facts for other modules.
//!
//! A new defense is a variant of [`DefenseConfig`] (in `config.rs`), and its [`Facts`], which are
//! listed in [`DefenseConfig::ALL`]. The compiler names the matches to complete, all of them below.

use super::config::{
    DefenseConfig, PurifierTraining, Template, default_delta, default_privee_sensitivity,
    default_sensitivity,
};
use super::facts::{DefaultValue, Parameter, ParameterKind, ReleaseKind};

/// The bits b of the unit 2⁻ᵇ in which order-preserving encryption takes scores.
pub const ENCRYPTED_UNIT_BITS: u32 = 32;
/// The number of bits of an encrypted unit.
pub const ENCRYPTED_BITS: u32 = 37;
/// The number of bits below them, for the order of scores that share a unit.
pub const ENCRYPTED_ORDER_BITS: u32 = 16;

/// Computes the scale of the Gaussian mechanism, √(2 ln(1.25/δ)) Δf / ε (P (9)).
#[must_use]
pub fn gaussian_scale(epsilon: f64, delta: f64, sensitivity: f64) -> f64 {
    (2.0 * (1.25 / delta).ln()).sqrt() * sensitivity / epsilon
}

/// Computes the probability with which k-ary randomised response keeps one of `classes` labels,
/// e^ε/(e^ε + k − 1).
#[must_use]
pub fn kept_label_probability(classes: usize, epsilon: f64) -> f64 {
    1.0 / (1.0 + (classes as f64 - 1.0) * (-epsilon).exp())
}

/// The facts that are the same for every setting of a defense. Each defense states them once.
#[derive(Debug)]
pub struct Facts {
    /// The name, as in a config file.
    pub name: &'static str,
    /// The parameters, in the order of the help.
    pub parameters: &'static [Parameter],
    /// Sensible settings for a model of this many classes (at least 2), with parameters of the
    /// papers if they name some. The demo audits them all; tests and fuzz seeds are made of them.
    pub examples: fn(classes: usize) -> Vec<DefenseConfig>,
    /// True if it changes logits, before the link function. Otherwise it changes scores.
    pub at_logits: bool,
    /// True if it takes microseconds a score, so that it must not run on a thread that serves
    /// connections.
    pub costly: bool,
    /// True if it may be fitted on undefended scores of the model's training, which an imported
    /// model does not have. [`DefenseConfig::fitted`] decides it for given settings.
    pub fitted: bool,
}

impl Facts {
    /// Returns the parameter of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the names of the parameters, separated by commas, or `none`.
    #[must_use]
    pub fn parameter_names(&self) -> String {
        match self.parameters {
            [] => "none".to_owned(),
            all => all.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", "),
        }
    }
}

const fn parameter(
    name: &'static str,
    kind: ParameterKind,
    takes: &'static str,
    absent: DefaultValue,
) -> Parameter {
    Parameter { name, kind, takes, absent }
}

const DELTA: Parameter = parameter(
    "delta",
    ParameterKind::Number,
    "above 0 and below 1; default 1e-5",
    DefaultValue::Optional,
);
const PRIVEE_SENSITIVITY: Parameter =
    parameter("sensitivity", ParameterKind::Number, "above 0; default 0.1", DefaultValue::Optional);
const TEMPLATE: Parameter = parameter(
    "template",
    ParameterKind::Word(&["identity", "householder", "fisip"]),
    "the matrix perturbed; default identity",
    DefaultValue::Optional,
);
const AS_PUBLISHED: Parameter = parameter(
    "as_published",
    ParameterKind::Truth,
    "as the authors' code; default false",
    DefaultValue::Optional,
);

/// A defense of the scores without parameters that is not costly and not fitted.
const PLAIN: Facts = Facts {
    name: "",
    parameters: &[],
    examples: |_| Vec::new(),
    at_logits: false,
    costly: false,
    fitted: false,
};

const NONE: Facts = Facts { name: "none", examples: |_| vec![DefenseConfig::None {}], ..PLAIN };

const ROUNDING: Facts = Facts {
    name: "rounding",
    parameters: &[parameter(
        "decimals",
        ParameterKind::Whole,
        "0 to 15",
        DefaultValue::Required(2.0),
    )],
    examples: |_| [2, 1].map(|decimals| DefenseConfig::Rounding { decimals }).into(),
    ..PLAIN
};

const TOP_K: Facts = Facts {
    name: "top_k",
    parameters: &[parameter(
        "k",
        ParameterKind::Whole,
        "1 to the number of classes less 1",
        DefaultValue::Required(1.0),
    )],
    examples: |classes| vec![DefenseConfig::TopK { k: if classes > 2 { 2 } else { 1 } }],
    ..PLAIN
};

const CLASS_LABEL: Facts = Facts {
    name: "class_label",
    parameters: &[parameter(
        "softening",
        ParameterKind::Number,
        "0 (default), or up to below 1/classes",
        DefaultValue::Optional,
    )],
    examples: |_| vec![DefenseConfig::ClassLabel { softening: 0.0 }],
    ..PLAIN
};

const RANDOMIZED_LABEL: Facts = Facts {
    name: "randomized_label",
    parameters: &[parameter(
        "epsilon",
        ParameterKind::Number,
        "above 0, at most 50",
        DefaultValue::Required(2.0),
    )],
    examples: |_| vec![DefenseConfig::RandomizedLabel { epsilon: 2.0 }],
    ..PLAIN
};

const TEMPERATURE: Facts = Facts {
    name: "temperature",
    parameters: &[parameter(
        "temperature",
        ParameterKind::Number,
        "1e-6 to 1e6",
        DefaultValue::Required(2.0),
    )],
    examples: |_| vec![DefenseConfig::Temperature { temperature: 4.0 }],
    at_logits: true,
    ..PLAIN
};

const LOGIT_NOISE: Facts = Facts {
    name: "logit_noise",
    parameters: &[
        parameter("scheme", ParameterKind::Whole, "1, 2 or 3", DefaultValue::Required(1.0)),
        parameter(
            "alpha",
            ParameterKind::Number,
            "noise budget, at least 0; in scheme 3 below 1",
            DefaultValue::Required(0.5),
        ),
    ],
    examples: |_| {
        [(1, 10.0), (2, 10.0), (3, 0.75)]
            .map(|(scheme, alpha)| DefenseConfig::LogitNoise { scheme, alpha })
            .into()
    },
    at_logits: true,
    ..PLAIN
};

const GAUSSIAN_NOISE: Facts = Facts {
    name: "gaussian_noise",
    parameters: &[parameter(
        "sigma",
        ParameterKind::Number,
        "above 0",
        DefaultValue::Required(0.1),
    )],
    examples: |_| vec![DefenseConfig::GaussianNoise { sigma: 0.1 }],
    ..PLAIN
};

const DP_GAUSSIAN: Facts = Facts {
    name: "dp_gaussian",
    parameters: &[
        parameter(
            "epsilon",
            ParameterKind::Number,
            "above 0, a guarantee up to 1",
            DefaultValue::Required(0.5),
        ),
        DELTA,
        parameter(
            "sensitivity",
            ParameterKind::Number,
            "above 0; default sqrt 2",
            DefaultValue::Optional,
        ),
        AS_PUBLISHED,
    ],
    examples: |_| {
        let (delta, sensitivity) = (default_delta(), default_sensitivity());
        [false, true]
            .map(|as_published| DefenseConfig::DpGaussian {
                epsilon: 0.5,
                delta,
                sensitivity,
                as_published,
            })
            .into()
    },
    ..PLAIN
};

const PRIVEE_DP: Facts = Facts {
    name: "privee_dp",
    parameters: &[
        parameter(
            "sigma",
            ParameterKind::Number,
            "at least 0, in place of epsilon",
            DefaultValue::Optional,
        ),
        parameter("epsilon", ParameterKind::Number, "above 0; default 0.1", DefaultValue::Optional),
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
            DefaultValue::Optional,
        ),
        parameter(
            "epsilon",
            ParameterKind::Numbers,
            "likewise, not rising; default 0.1,0.05",
            DefaultValue::Optional,
        ),
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

const RANKING: Facts =
    Facts { name: "ranking", examples: |_| vec![DefenseConfig::Ranking {}], fitted: true, ..PLAIN };

const PURIFIER: Facts = Facts {
    name: "purifier",
    parameters: &[
        parameter(
            "training",
            ParameterKind::Word(&["scores", "random", "normal"]),
            "what it is trained on; default scores",
            DefaultValue::Optional,
        ),
        parameter(
            "label_weight",
            ParameterKind::Number,
            "0 (default) to 1000",
            DefaultValue::Optional,
        ),
    ],
    examples: |_| {
        [PurifierTraining::Scores, PurifierTraining::Random]
            .map(|training| DefenseConfig::Purifier { training, label_weight: 0.0 })
            .into()
    },
    costly: true,
    fitted: true,
    ..PLAIN
};

const CODEBOOK: Facts = Facts {
    name: "codebook",
    parameters: &[parameter(
        "size",
        ParameterKind::Whole,
        "at least the number of classes",
        DefaultValue::RequiredPerClass(4.0),
    )],
    examples: |classes| vec![DefenseConfig::Codebook { size: classes.max(32) as u32 }],
    costly: true,
    fitted: true,
    ..PLAIN
};

/// The substitute for a score of 0 behind a label: δ of the vector that attacks use in place of the
/// hidden scores.
const LABEL_FLOOR: f64 = 0.01;

impl DefenseConfig {
    /// All defenses, in the order in which the demo audits them.
    pub const ALL: &'static [&'static Facts] = &[
        &NONE,
        &ROUNDING,
        &TOP_K,
        &CLASS_LABEL,
        &RANDOMIZED_LABEL,
        &TEMPERATURE,
        &LOGIT_NOISE,
        &GAUSSIAN_NOISE,
        &DP_GAUSSIAN,
        &PRIVEE_DP,
        &PRIVEE_DP_PLUS_PLUS,
        &ORDER_PRESERVING_ENCRYPTION,
        &RANKING,
        &CODEBOOK,
        &PURIFIER,
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

    /// Returns the name, as in a config file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Returns the facts that are the same for every setting of the defense.
    #[must_use]
    pub fn facts(&self) -> &'static Facts {
        match self {
            Self::None {} => &NONE,
            Self::Rounding { .. } => &ROUNDING,
            Self::TopK { .. } => &TOP_K,
            Self::ClassLabel { .. } => &CLASS_LABEL,
            Self::RandomizedLabel { .. } => &RANDOMIZED_LABEL,
            Self::Temperature { .. } => &TEMPERATURE,
            Self::LogitNoise { .. } => &LOGIT_NOISE,
            Self::GaussianNoise { .. } => &GAUSSIAN_NOISE,
            Self::DpGaussian { .. } => &DP_GAUSSIAN,
            Self::PriveeDp { .. } => &PRIVEE_DP,
            Self::PriveeDpPlusPlus { .. } => &PRIVEE_DP_PLUS_PLUS,
            Self::OrderPreservingEncryption {} => &ORDER_PRESERVING_ENCRYPTION,
            Self::Ranking {} => &RANKING,
            Self::Codebook { .. } => &CODEBOOK,
            Self::Purifier { .. } => &PURIFIER,
        }
    }

    /// Returns the standard deviation of Gaussian noise, the same for every score; `None` for other
    /// defenses.
    #[must_use]
    pub fn gaussian_sigma(&self) -> Option<f64> {
        match *self {
            Self::GaussianNoise { sigma } => Some(sigma),
            Self::DpGaussian { epsilon, delta, as_published: true, .. } => {
                Some(gaussian_scale(epsilon, delta, default_privee_sensitivity()))
            }
            Self::DpGaussian { epsilon, delta, sensitivity, .. } => {
                Some(gaussian_scale(epsilon, delta, sensitivity))
            }
            _ => None,
        }
    }

    /// Returns true if it is fitted on undefended scores of the model's training.
    #[must_use]
    pub fn fitted(&self) -> bool {
        match self {
            Self::Purifier { training, .. } => *training == PurifierTraining::Scores,
            _ => self.facts().fitted,
        }
    }

    /// Returns the kind of its release. Attacks that adapt to a policy are chosen by it.
    #[must_use]
    pub fn leaves(&self) -> ReleaseKind {
        match self {
            Self::None {} => ReleaseKind::Everything,
            Self::Rounding { .. } => ReleaseKind::Rounded,
            Self::TopK { .. } => ReleaseKind::Largest,
            Self::ClassLabel { .. } => ReleaseKind::Label,
            Self::RandomizedLabel { .. } => ReleaseKind::NoisyLabel,
            Self::Temperature { .. } | Self::LogitNoise { scheme: 3, .. } => ReleaseKind::Scaled,
            Self::LogitNoise { .. } => ReleaseKind::Projected,
            Self::GaussianNoise { .. } | Self::DpGaussian { .. } => ReleaseKind::Noised,
            Self::PriveeDp { .. } | Self::PriveeDpPlusPlus { .. } => ReleaseKind::OrderNoised,
            Self::OrderPreservingEncryption {} => ReleaseKind::Ciphertexts,
            Self::Ranking {} => ReleaseKind::Order,
            Self::Codebook { .. } => ReleaseKind::Word,
            Self::Purifier { .. } => ReleaseKind::Purified,
        }
    }

    /// Returns the substitute for a score of 0 in the release, for attacks that take the release
    /// for the true scores: half a step for rounded ones, 0.01 behind a label. `None` if the
    /// defense makes no zeros of positive scores, or if its zeros say nothing about them.
    #[must_use]
    pub fn zero_floor(&self) -> Option<f64> {
        match self {
            Self::Rounding { decimals } => Some(0.5 * 10f64.powi(-(*decimals as i32))),
            Self::ClassLabel { softening } => (*softening == 0.0).then_some(LABEL_FLOOR),
            Self::RandomizedLabel { .. } => Some(LABEL_FLOOR),
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
            | Self::Codebook { .. }
            | Self::Purifier { .. } => None,
        }
    }

    /// Returns true if the coordinator needs the parameters of the passive parties to apply it.
    #[must_use]
    pub fn needs_passive_weights(&self) -> bool {
        match self {
            Self::LogitNoise { scheme, .. } => matches!(scheme, 1 | 2),
            Self::None {}
            | Self::Rounding { .. }
            | Self::TopK { .. }
            | Self::ClassLabel { .. }
            | Self::RandomizedLabel { .. }
            | Self::Temperature { .. }
            | Self::GaussianNoise { .. }
            | Self::DpGaussian { .. }
            | Self::PriveeDp { .. }
            | Self::PriveeDpPlusPlus { .. }
            | Self::OrderPreservingEncryption {}
            | Self::Ranking {}
            | Self::Codebook { .. }
            | Self::Purifier { .. } => false,
        }
    }

    /// Returns the standard deviations, or scales, of the noise of a PRIVEE defense from the
    /// smallest score to the largest; empty for others. One value for `privee_dp`; k values, or two
    /// ends, for `privee_dp_plus_plus`.
    #[must_use]
    pub fn privee_scales(&self) -> Vec<f64> {
        match self {
            Self::PriveeDp { sigma, epsilon, delta, sensitivity, .. } => {
                vec![sigma.unwrap_or_else(|| {
                    gaussian_scale(epsilon.unwrap_or(0.1), *delta, *sensitivity)
                })]
            }
            Self::PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, .. }
                if sigma.is_empty() =>
            {
                let epsilon: &[f64] = if epsilon.is_empty() { &[0.1, 0.05] } else { epsilon };
                epsilon.iter().map(|e| gaussian_scale(*e, *delta, *sensitivity)).collect()
            }
            Self::PriveeDpPlusPlus { sigma, .. } => sigma.clone(),
            _ => Vec::new(),
        }
    }
}
