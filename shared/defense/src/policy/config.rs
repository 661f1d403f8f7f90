//! The defenses and their parameters, as config files, policy texts and messages state them.

use serde::{Deserialize, Serialize};

/// The orthonormal matrix that PRIVEE perturbs (P section 4.2). Text: `identity`, `householder`,
/// `fisip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// The identity matrix I.
    #[default]
    Identity,
    /// I − (2/k) 1 1ᵀ, P (4): the negative of FISIP.
    Householder,
    /// (2/k) 1 1ᵀ − I, which reverses the order before noise is added.
    Fisip,
}

/// The training set of a purifier. Text: `scores`, `random`, `normal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurifierTraining {
    /// Undefended scores of the model's training records.
    #[default]
    Scores,
    /// Random score vectors: softmax of standard normal logits.
    Random,
    /// Vectors of standard normal numbers, as J's text says. They are not score vectors, and the
    /// model's accuracy falls.
    Normal,
}

/// A defense and its parameters, as in a config file (`[defense] name = "rounding"`,
/// `decimals = 2`).
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
        /// 0 (default): the label itself. Above 0 and below 1/k: the vector with this value
        /// everywhere but at the label (R section VIII-D, figure 13's δ).
        #[serde(default, skip_serializing_if = "is_zero")]
        softening: f64,
    },
    /// The predicted class, kept with probability e^ε/(e^ε + k − 1), otherwise replaced by one of
    /// the others, each equally likely: k-ary randomised response (Kairouz, Oh and Viswanath,
    /// arXiv:1407.1338).
    RandomizedLabel {
        /// ε, above 0 and at most 50.
        epsilon: f64,
    },
    /// Logits divided by a temperature.
    Temperature {
        /// The temperature, above 0. Above 1 the scores move together.
        temperature: f64,
    },
    /// Noise at the logits along the direction that hurts least squares most (R section VII-B,
    /// theorem 4).
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
        /// ε, above 0.
        epsilon: f64,
        /// δ, in (0, 1).
        #[serde(default = "default_delta", skip_serializing_if = "is_default_delta")]
        delta: f64,
        /// ℓ₂ sensitivity, above 0. Default √2, the largest distance of two probability vectors.
        #[serde(default = "default_sensitivity", skip_serializing_if = "is_default_sensitivity")]
        sensitivity: f64,
        /// True for P's baseline: Δf = 0.1 as in P's code, in place of `sensitivity`. Score vectors
        /// lie up to √2 apart, so ε is only a scale there and not a guarantee.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_published: bool,
    },
    /// PRIVEE-DP (P algorithm 1 with one scale). σ is given, or follows from ε, δ and the
    /// sensitivity by P (9).
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
        #[serde(
            default = "default_privee_sensitivity",
            skip_serializing_if = "is_default_privee_sensitivity"
        )]
        sensitivity: f64,
        /// The matrix that is perturbed.
        #[serde(default, skip_serializing_if = "is_identity")]
        template: Template,
        /// True to do as the authors' code does: one draw for the whole batch, u from parts of [0,
        /// 3].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_published: bool,
    },
    /// PRIVEE-DP++ (P algorithm 1): a scale for each rank, so that a larger score has no smaller
    /// scale.
    PriveeDpPlusPlus {
        /// σ from the smallest score to the largest, not falling: k values, or two, between which
        /// the others are spaced evenly.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sigma: Vec<f64>,
        /// ε likewise, not rising. Default 0.1 to 0.05, the range of P's code, if σ is not given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        epsilon: Vec<f64>,
        /// δ of (9), in (0, 1).
        #[serde(default = "default_delta", skip_serializing_if = "is_default_delta")]
        delta: f64,
        /// Δf of (9), above 0. Default 0.1, as in P's code.
        #[serde(
            default = "default_privee_sensitivity",
            skip_serializing_if = "is_default_privee_sensitivity"
        )]
        sensitivity: f64,
        /// The matrix that is perturbed.
        #[serde(default, skip_serializing_if = "is_identity")]
        template: Template,
        /// True to do as the authors' code does: one draw for the whole batch, u from parts of [0,
        /// 3], the largest scale at the smallest score.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_published: bool,
    },
    /// Order-preserving encryption of every score.
    OrderPreservingEncryption {},
    /// One fixed vector, assigned to the scores by rank: at most log2 k! bits a record.
    Ranking {},
    /// The output of an autoencoder with a narrow hidden layer, applied to the scores (J 6.1.3.3).
    Purifier {
        /// The training set. Default: scores of the model's training.
        #[serde(default, skip_serializing_if = "is_default_training")]
        training: PurifierTraining,
        /// λ of J (26), at least 0: the weight of the class beside the distance. Default 0, as in
        /// J.
        #[serde(default, skip_serializing_if = "is_zero")]
        label_weight: f64,
    },
    /// A number to the middle of its bin: at most log2 count bits a record. For models of a number
    /// alone.
    Bins {
        /// The lower end of the first bin.
        lower: f64,
        /// The upper end of the last bin, above `lower`.
        upper: f64,
        /// The number of bins of equal width, 1 to 1 000 000.
        count: u32,
    },
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

fn is_default_training(training: &PurifierTraining) -> bool {
    *training == PurifierTraining::default()
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_identity(template: &Template) -> bool {
    *template == Template::Identity
}

pub(crate) fn default_delta() -> f64 {
    1e-5
}

pub(crate) fn default_sensitivity() -> f64 {
    std::f64::consts::SQRT_2
}

pub(crate) fn default_privee_sensitivity() -> f64 {
    0.1
}
