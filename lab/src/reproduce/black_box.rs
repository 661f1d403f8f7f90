//! The attacks of the black-box figures: they do not have the shape of the others (a view in, estimates out), so the
//! figures take them as functions.

use nalgebra::{DMatrix, DVector};

/// R section VI: from vᵢ = ω xᵢ + b of N records, whether ω and b have the same sign, and nothing else, to an estimate of
/// each xᵢ. `None` where the method has none: all vᵢ equal (ERRATA R9), or ω and b of different signs and the vᵢ too.
pub type OneFeature = fn(v: &[f64], same_sign: bool) -> Option<Vec<f64>>;

/// J section 4.3.2: from records known whole, to the passive weights W_pas (k × d) or any that give the same scores.
///
/// # Errors
/// Words on why there is no estimate.
pub type ShadowModel = fn(known: &Auxiliary) -> Result<DMatrix<f64>, String>;

/// Records that the adversary knows whole, and its own share of the model.
#[derive(Clone)]
pub struct Auxiliary {
    /// W_act, k × d_act.
    pub w_act: DMatrix<f64>,
    /// b, k.
    pub bias: DVector<f64>,
    /// Its own features of these records, d_act × n.
    pub y: DMatrix<f64>,
    /// The passive party's, d × n.
    pub x: DMatrix<f64>,
    /// Their scores, k × n.
    pub scores: DMatrix<f64>,
}

/// The black-box attacks there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlackBox {
    /// For R figure 7.
    pub one_feature: Option<OneFeature>,
    /// For J figure 11a.
    pub shadow_model: Option<ShadowModel>,
}

impl BlackBox {
    /// Those of this build: the one place where they are plugged in.
    #[must_use]
    pub fn of_this_build() -> Self {
        Self { one_feature: None, shadow_model: None }
    }
}
