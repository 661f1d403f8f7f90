//! The adversary's knowledge of the model.

use std::fmt;
use std::sync::OnceLock;

use nalgebra::{DMatrix, DVector};
use vfl_core::model::Link;
use vfl_core::types::ShapeError;
use vfl_numerics::row_differences;

use super::sizes::same;
use super::{AttackError, KnownNetwork, LinearSystem};

/// The model as the adversary knows it: its own parameters, and those of the passive parties if
/// they were released.
pub struct KnownModel {
    pub(super) w_act: DMatrix<f64>,
    pub(super) bias: DVector<f64>,
    /// −J W_act, (k − 1) × d_act.
    pub(super) minus_a_act: DMatrix<f64>,
    /// −J b, k − 1.
    pub(super) minus_j_bias: DVector<f64>,
    target_features: usize,
    w_pas: Option<DMatrix<f64>>,
    /// The passive sub-models, if they are not linear.
    network: Option<KnownNetwork>,
    /// The link. A number's predictor is the difference of two logits.
    link: Link,
    system: OnceLock<Result<LinearSystem, AttackError>>,
}

/// Shows the shape only: parameters are private.
impl fmt::Debug for KnownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.w_pas.is_some() || self.network.is_some();
        let (k, knowledge) = (self.classes(), if known { "white box" } else { "black box" });
        let (d_act, d) = (self.minus_a_act.ncols(), self.target_features);
        write!(f, "KnownModel({k} classes, {d_act} + {d} features, {knowledge}, values withheld)")
    }
}

impl KnownModel {
    /// Creates a model with the passive parameters known: `w_act` k × d_act, `w_pas` k × d (several
    /// passive parties side by side, in their order), `bias` k.
    ///
    /// # Errors
    /// [`AttackError::View`] if the numbers of classes differ.
    pub fn white_box(
        w_act: DMatrix<f64>,
        bias: DVector<f64>,
        w_pas: DMatrix<f64>,
    ) -> Result<Self, AttackError> {
        let mut model = Self::black_box(w_act, bias, w_pas.ncols())?;
        same("passive weights", "classes", model.classes(), w_pas.nrows())?;
        model.w_pas = Some(w_pas);
        Ok(model)
    }

    /// Creates a model with passive sub-models that are not linear. `w_act` (k × d_act) and `bias`
    /// (k) give the adversary's own part of the logits. Under a top model they are 0, and the last
    /// of the adversary's features are its own embeddings.
    ///
    /// # Errors
    /// [`AttackError::View`] if the numbers of classes or of embeddings differ.
    pub fn of_network(
        w_act: DMatrix<f64>,
        bias: DVector<f64>,
        network: KnownNetwork,
    ) -> Result<Self, AttackError> {
        let mut model = Self::black_box(w_act, bias, network.features())?;
        network.check(model.classes())?;
        let (own, below) = (network.own_width(), model.w_act.ncols());
        if own > below {
            same("embeddings of the active party", "numbers", own, below)?;
        }
        model.network = Some(network);
        Ok(model)
    }

    /// Creates a model with the passive parameters hidden. Only the number of passive features is
    /// known.
    ///
    /// # Errors
    /// [`AttackError::View`] if the numbers of classes differ.
    pub fn black_box(
        w_act: DMatrix<f64>,
        bias: DVector<f64>,
        target_features: usize,
    ) -> Result<Self, AttackError> {
        if w_act.nrows() < 2 {
            return Err(
                ShapeError::TooFewClasses { what: "active weights", got: w_act.nrows() }.into()
            );
        }
        same("bias", "classes", w_act.nrows(), bias.len())?;
        let minus_a_act = -row_differences(&w_act);
        let minus_j_bias =
            DVector::from_iterator(bias.len() - 1, bias.as_slice().windows(2).map(|b| b[0] - b[1]));
        Ok(Self {
            w_act,
            bias,
            minus_a_act,
            minus_j_bias,
            target_features,
            w_pas: None,
            network: None,
            link: Link::Softmax,
            system: OnceLock::new(),
        })
    }

    /// Returns the same model with another link; a link of numbers takes two logits, of which the
    /// predictor is the difference.
    #[must_use]
    pub fn with_link(self, link: Link) -> Self {
        Self { link, ..self }
    }

    /// Returns the link of the model.
    #[must_use]
    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns how many numbers are released of a record: one for each class, or the number itself.
    pub(super) fn released_numbers(&self) -> usize {
        if self.link.is_numeric() { 1 } else { self.classes() }
    }

    /// Returns W_act, k × d_act.
    #[must_use]
    pub fn active_weights(&self) -> &DMatrix<f64> {
        &self.w_act
    }

    /// Returns the bias b, k entries.
    #[must_use]
    pub fn bias(&self) -> &DVector<f64> {
        &self.bias
    }

    /// Returns the number of passive features to estimate.
    #[must_use]
    pub fn target_features(&self) -> usize {
        self.target_features
    }

    /// Returns the passive sub-models, if they are known and not linear.
    #[must_use]
    pub fn network(&self) -> Option<&KnownNetwork> {
        self.network.as_ref()
    }

    /// Returns the approximate number of multiplications for the logits of a record.
    pub(super) fn work(&self) -> u64 {
        let linear = self.classes() as u64 * self.target_features() as u64;
        self.network.as_ref().map_or(linear, KnownNetwork::work)
    }

    /// Returns W_pas, k × d.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box, [`AttackError::NotLinear`] for sub-models
    /// without such weights, and for scores of which differences of logarithms are not those of the
    /// outputs.
    pub fn passive_weights(&self) -> Result<&DMatrix<f64>, AttackError> {
        match self.output_weights() {
            Ok(_) if self.link == Link::OneVsRest => Err(AttackError::NotLinear),
            weights => weights,
        }
    }

    /// Returns W_pas, k × d, of outputs that are linear, whatever the link.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box, [`AttackError::NotLinear`] for networks.
    pub(super) fn output_weights(&self) -> Result<&DMatrix<f64>, AttackError> {
        match (&self.w_pas, &self.network) {
            (Some(w_pas), _) => Ok(w_pas),
            (None, Some(_)) => Err(AttackError::NotLinear),
            (None, None) => Err(AttackError::NeedsParameters),
        }
    }

    /// Returns true if the passive parameters are known and the scores are no softmax of linear
    /// outputs.
    pub(super) fn needs_tangents(&self) -> bool {
        self.network.is_some() || (self.w_pas.is_some() && self.link == Link::OneVsRest)
    }

    /// Returns the number of classes, k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Returns the equations of the passive weights, factored on first use.
    ///
    /// # Errors
    /// As [`KnownModel::passive_weights`]; [`AttackError::Decomposition`].
    pub fn linear(&self) -> Result<&LinearSystem, AttackError> {
        let w_pas = self.passive_weights()?;
        self.system.get_or_init(|| LinearSystem::new(w_pas)).as_ref().map_err(Clone::clone)
    }
}
