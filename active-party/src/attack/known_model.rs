//! What the adversary knows of the model.

use std::fmt;
use std::sync::OnceLock;

use nalgebra::{DMatrix, DVector};
use vfl_shared::numerics::row_differences;
use vfl_shared::types::ShapeError;

use super::{AttackError, LinearSystem};

/// What the adversary knows of the model: its own parameters, and those of the passive parties if they were released.
pub struct KnownModel {
    pub(super) w_act: DMatrix<f64>,
    pub(super) bias: DVector<f64>,
    /// −J W_act, (k − 1) × d_act.
    pub(super) minus_a_act: DMatrix<f64>,
    /// −J b, k − 1.
    pub(super) minus_j_bias: DVector<f64>,
    target_features: usize,
    w_pas: Option<DMatrix<f64>>,
    system: OnceLock<Result<LinearSystem, AttackError>>,
}

/// Shows the shape only: parameters are private.
impl fmt::Debug for KnownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, knowledge) = (self.classes(), if self.w_pas.is_some() { "white box" } else { "black box" });
        let (d_act, d) = (self.minus_a_act.ncols(), self.target_features);
        write!(f, "KnownModel({k} classes, {d_act} + {d} features, {knowledge}, values withheld)")
    }
}

impl KnownModel {
    /// A model with the passive parameters known: `w_act` k × d_act, `w_pas` k × d (several passive parties side by side,
    /// in their order), `bias` k.
    ///
    /// # Errors
    /// [`AttackError::View`] if the numbers of classes differ.
    pub fn white_box(w_act: DMatrix<f64>, bias: DVector<f64>, w_pas: DMatrix<f64>) -> Result<Self, AttackError> {
        let mut model = Self::black_box(w_act, bias, w_pas.ncols())?;
        same("passive weights", "classes", model.classes(), w_pas.nrows())?;
        model.w_pas = Some(w_pas);
        Ok(model)
    }

    /// A model with the passive parameters hidden; of them only the number of features is known.
    ///
    /// # Errors
    /// [`AttackError::View`] if the numbers of classes differ.
    pub fn black_box(w_act: DMatrix<f64>, bias: DVector<f64>, target_features: usize) -> Result<Self, AttackError> {
        if w_act.nrows() < 2 {
            return Err(ShapeError::TooFewClasses { what: "active weights", got: w_act.nrows() }.into());
        }
        same("bias", "classes", w_act.nrows(), bias.len())?;
        let minus_a_act = -row_differences(&w_act);
        let minus_j_bias = DVector::from_iterator(bias.len() - 1, bias.as_slice().windows(2).map(|b| b[0] - b[1]));
        Ok(Self { w_act, bias, minus_a_act, minus_j_bias, target_features, w_pas: None, system: OnceLock::new() })
    }

    /// W_act, k × d_act.
    #[must_use]
    pub fn active_weights(&self) -> &DMatrix<f64> {
        &self.w_act
    }

    /// b, k.
    #[must_use]
    pub fn bias(&self) -> &DVector<f64> {
        &self.bias
    }

    /// Number of passive features to estimate.
    #[must_use]
    pub fn target_features(&self) -> usize {
        self.target_features
    }

    /// W_pas, k × d.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box.
    pub fn passive_weights(&self) -> Result<&DMatrix<f64>, AttackError> {
        self.w_pas.as_ref().ok_or(AttackError::NeedsParameters)
    }

    /// Number of classes, k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// The equations of the passive weights, factored on first use.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::Decomposition`].
    pub fn linear(&self) -> Result<&LinearSystem, AttackError> {
        let w_pas = self.passive_weights()?;
        self.system.get_or_init(|| LinearSystem::new(w_pas)).as_ref().map_err(Clone::clone)
    }
}

pub(super) fn same(what: &'static str, unit: &'static str, expected: usize, got: usize) -> Result<(), ShapeError> {
    if expected == got { Ok(()) } else { Err(ShapeError::Size { what, unit, expected, got }) }
}
