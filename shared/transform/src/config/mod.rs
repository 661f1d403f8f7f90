//! Transforms of a passive party's parameters or features, as data: in a config file, in a stored
//! release, on the wire, and in statements to other parties. Only the passive party carries them
//! out.

mod text;

use serde::{Deserialize, Serialize};

pub use text::TransformTextError;

/// The attack that a `stiefel` transform is made against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StiefelCase {
    /// d ≥ k: the error of `half_star`, V (38), (39).
    I,
    /// 1 < d < k: the error of least squares, V (47), (48).
    Ii,
}

/// A transform and its parameters (`[release.to_active_party.transformed] name = "stiefel"`,
/// `epsilon = 0.1`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum TransformConfig {
    /// The parameters as they are.
    None {},
    /// −W_pas, the weights for −x (R section VIII-D before features are put back on [0, 1]).
    Negate {},
    /// −W_pas with W_pas 1 moved into the bias, for 1 − x, which is in [0, 1] again (R section
    /// VIII-D).
    Complement {},
    /// Columns in a secret order (R section VII-A).
    Permute {},
    /// `complement` for some features, the others as they are (R section VIII-D, end).
    Selective {
        /// Positions of the features, from 0.
        features: Vec<usize>,
    },
    /// W_pas R for a secret R that is uniform on the orthogonal group.
    RandomOrthonormal {},
    /// The R that hurts least squares most: Hᵀ of R theorem 3.
    LeastSquaresOptimal {},
    /// The R that hurts the attack of the case most at a distance of about ε (V (39), (48)).
    Stiefel {
        /// V's interpretability level ε ≥ 0: the distance g (V (33)) that the released parameters
        /// have from the true ones, in squared units of a weight, per weight.
        epsilon: f64,
        /// True to draw ε' uniformly from [0, ε] and keep it secret (V remarks 10, 13), so that an
        /// adversary that knows the transform and ε cannot follow the same steps.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        randomised: bool,
        /// The attack; by default the one that fits d and k.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case: Option<StiefelCase>,
        /// Weight λ ≥ 0 of (g − ε)². Default: in the documentation of the search.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        penalty: Option<f64>,
        /// Starting points of the search, half of them with determinant −1. Default: in the
        /// documentation of the search.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starts: Option<u32>,
    },
    /// d = 1: the weights at distance ε that hurt least squares most (V (50), remark 11).
    SingleFeature {
        /// V's interpretability level ε ≥ 0: the distance g (V (33)) that the released parameters
        /// have from the true ones, in squared units of a weight, per weight.
        epsilon: f64,
        /// True to draw ε' uniformly from [0, ε] and keep it secret (V remarks 10, 13), so that an
        /// adversary that knows the transform and ε cannot follow the same steps.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        randomised: bool,
    },
    /// k = 2: the weights at distance ε that hurt `half_star` most (V (54)).
    Binary {
        /// V's interpretability level ε ≥ 0: the distance g (V (33)) that the released parameters
        /// have from the true ones, in squared units of a weight, per weight.
        epsilon: f64,
        /// True to draw ε' uniformly from [0, ε] and keep it secret (V remarks 10, 13), so that an
        /// adversary that knows the transform and ε cannot follow the same steps.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        randomised: bool,
    },
}

impl TransformConfig {
    /// Returns the name, as in a config file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::None {} => "none",
            Self::Negate {} => "negate",
            Self::Complement {} => "complement",
            Self::Permute {} => "permute",
            Self::Selective { .. } => "selective",
            Self::RandomOrthonormal {} => "random_orthonormal",
            Self::LeastSquaresOptimal {} => "least_squares_optimal",
            Self::Stiefel { .. } => "stiefel",
            Self::SingleFeature { .. } => "single_feature",
            Self::Binary { .. } => "binary",
        }
    }

    /// Returns ε, if the transform has it.
    #[must_use]
    pub fn epsilon(&self) -> Option<f64> {
        match self {
            Self::Stiefel { epsilon, .. }
            | Self::SingleFeature { epsilon, .. }
            | Self::Binary { epsilon, .. } => Some(*epsilon),
            Self::None {}
            | Self::Negate {}
            | Self::Complement {}
            | Self::Permute {}
            | Self::Selective { .. }
            | Self::RandomOrthonormal {}
            | Self::LeastSquaresOptimal {} => None,
        }
    }
}
