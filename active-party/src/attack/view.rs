//! What the adversary knows.

use std::fmt;
use std::sync::OnceLock;

use nalgebra::{DMatrix, DVector};
use vfl_shared::numerics::row_differences;
use vfl_shared::types::{FeatureBlock, ReleasedScores, ShapeError};

use super::affine::affine;
use super::{AttackError, LinearSystem};

/// What the adversary knows of the model: its own parameters, and those of the passive parties if they were released.
pub struct KnownModel {
    w_act: DMatrix<f64>,
    bias: DVector<f64>,
    /// −J W_act, (k − 1) × d_act.
    minus_a_act: DMatrix<f64>,
    /// −J b, k − 1.
    minus_j_bias: DVector<f64>,
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

    /// The system of the passive weights, factored on first use.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::Decomposition`].
    pub fn system(&self) -> Result<&LinearSystem, AttackError> {
        let w_pas = self.passive_weights()?;
        self.system.get_or_init(|| LinearSystem::new(w_pas)).as_ref().map_err(Clone::clone)
    }
}

/// What stands for the logarithm of a score that says nothing: exactly 0 (after rounding, or behind a label) or below (noise).
/// Any other value, however small, is used as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replacement {
    zero_floor: f64,
}

impl Replacement {
    /// Scores of 0 or below become `zero_floor`, in (0, 0.5]: half a step for rounded scores. A label becomes the vector
    /// with `zero_floor` everywhere but at the label, where it is 1 − (k − 1) · `zero_floor` (R figure 13's δ).
    ///
    /// # Errors
    /// [`AttackError::Floor`] out of range.
    pub fn new(zero_floor: f64) -> Result<Self, AttackError> {
        if zero_floor > 0.0 && zero_floor <= 0.5 {
            Ok(Self { zero_floor })
        } else {
            Err(AttackError::Floor { got: zero_floor })
        }
    }

    /// A score, or what stands for it.
    pub(super) fn of(self, score: f64) -> f64 {
        if score > 0.0 { score } else { self.zero_floor }
    }
}

impl Default for Replacement {
    /// 1e-12: well below any score a model gives in practice.
    fn default() -> Self {
        Self { zero_floor: 1e-12 }
    }
}

/// Everything an attack is given: the model as known, the adversary's own features of the records, and what was released.
pub struct AdversaryView<'a> {
    model: &'a KnownModel,
    y: &'a FeatureBlock,
    released: &'a ReleasedScores,
    replacement: Replacement,
    b_prime: DMatrix<f64>,
}

/// Shows the shape only: what was released is for the adversary's eyes.
impl fmt::Debug for AdversaryView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdversaryView({} records, {:?})", self.records(), self.model)
    }
}

impl<'a> AdversaryView<'a> {
    /// Puts a view together: `y` holds the adversary's own features (d_act × n) of the n records of `released`.
    ///
    /// # Errors
    /// [`AttackError::View`] if the parts differ in classes, features or records, or if δ is too large for k classes;
    /// [`AttackError::NotFinite`] if b' overflows.
    pub fn new(
        model: &'a KnownModel,
        y: &'a FeatureBlock,
        released: &'a ReleasedScores,
        replacement: Replacement,
    ) -> Result<Self, AttackError> {
        let k = model.classes();
        same("released scores", "classes", k, released.classes())?;
        same("active features", "features", model.minus_a_act.ncols(), y.features())?;
        same("active features", "records", released.records(), y.records())?;
        let floor = replacement.zero_floor;
        // b' = c' − J W_act y − J b, of which c' = J ln c comes last: one logarithm per score, kept for one record only.
        let mut b_prime = affine(&model.minus_a_act, Some(&model.minus_j_bias), y.matrix());
        let columns = b_prime.as_mut_slice().chunks_exact_mut(k - 1);
        let ln_floor = floor.ln();
        let mut logs = vec![ln_floor; k];
        match released {
            ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => {
                for (b_prime, c) in columns.zip(c.as_slice().chunks_exact(k)) {
                    for (log, c) in logs.iter_mut().zip(c) {
                        *log = if *c > 0.0 { c.ln() } else { ln_floor };
                    }
                    add_differences(b_prime, &logs);
                }
            }
            ReleasedScores::Ciphertexts(c) => {
                for (b_prime, c) in columns.zip(c.as_slice().chunks_exact(k)) {
                    for (log, c) in logs.iter_mut().zip(c) {
                        *log = (*c as f64 + 0.5).ln();
                    }
                    add_differences(b_prime, &logs);
                }
            }
            ReleasedScores::Labels { labels, .. } => {
                let top = 1.0 - (k as f64 - 1.0) * floor;
                if top <= 0.0 {
                    return Err(AttackError::Floor { got: floor });
                }
                let ln_top = top.ln();
                for (b_prime, label) in columns.zip(labels) {
                    for (class, log) in logs.iter_mut().enumerate() {
                        *log = if class == *label as usize { ln_top } else { ln_floor };
                    }
                    add_differences(b_prime, &logs);
                }
            }
        }
        if !b_prime.iter().all(|b| b.is_finite()) {
            return Err(AttackError::NotFinite { what: "b', the right side of A x = b'," });
        }
        Ok(Self { model, y, released, replacement, b_prime })
    }

    /// Number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.released.records()
    }

    /// The model as known.
    #[must_use]
    pub fn model(&self) -> &'a KnownModel {
        self.model
    }

    /// The same records, own features and release under another model: for attacks that first estimate or rewrite the
    /// model's parameters.
    ///
    /// # Errors
    /// As [`AdversaryView::new`].
    pub fn under<'b>(&self, model: &'b KnownModel) -> Result<AdversaryView<'b>, AttackError>
    where
        'a: 'b,
    {
        AdversaryView::new(model, self.y, self.released, self.replacement)
    }

    /// The same release where the adversary also has some of the passive features: under `model`, in which they are active,
    /// with the own features in `y`.
    ///
    /// # Errors
    /// As [`AdversaryView::new`].
    pub(super) fn with_active<'b>(
        &self,
        model: &'b KnownModel,
        y: &'b FeatureBlock,
    ) -> Result<AdversaryView<'b>, AttackError>
    where
        'a: 'b,
    {
        AdversaryView::new(model, y, self.released, self.replacement)
    }

    /// The adversary's own features, d_act × n.
    pub(super) fn active(&self) -> &'a FeatureBlock {
        self.y
    }

    /// What was released.
    pub(super) fn released(&self) -> &'a ReleasedScores {
        self.released
    }

    /// The known part of the logits, W_act y + b, k × n.
    #[must_use]
    pub fn known_logits(&self) -> DMatrix<f64> {
        affine(&self.model.w_act, Some(&self.model.bias), self.y.matrix())
    }

    /// The released scores as vectors, k × n: entries of 0 or below replaced, a label as its softened vector.
    #[must_use]
    pub fn scores(&self) -> DMatrix<f64> {
        let k = self.model.classes();
        let floor = self.replacement.zero_floor;
        match self.released {
            ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => c.map(|c| if c > 0.0 { c } else { floor }),
            // Whoever has no key can only take their proportions for scores.
            ReleasedScores::Ciphertexts(c) => {
                let mut shares = c.map(|c| c as f64 + 0.5);
                for mut column in shares.column_iter_mut() {
                    let sum = column.sum();
                    column /= sum;
                }
                shares
            }
            ReleasedScores::Labels { labels, .. } => DMatrix::from_fn(k, labels.len(), |class, record| {
                if class == labels[record] as usize { 1.0 - (k as f64 - 1.0) * floor } else { floor }
            }),
        }
    }

    /// Number of passive features to estimate.
    #[must_use]
    pub fn target_features(&self) -> usize {
        self.model.target_features
    }

    /// The system A x = b' of the passive weights.
    ///
    /// # Errors
    /// As [`KnownModel::system`].
    pub fn system(&self) -> Result<&LinearSystem, AttackError> {
        self.model.system()
    }

    /// b' of each record, (k − 1) × n.
    #[must_use]
    pub fn b_prime(&self) -> &DMatrix<f64> {
        &self.b_prime
    }
}

/// Adds J `logs`.
fn add_differences(b_prime: &mut [f64], logs: &[f64]) {
    for (b, pair) in b_prime.iter_mut().zip(logs.windows(2)) {
        *b += pair[1] - pair[0];
    }
}

pub(super) fn same(what: &'static str, unit: &'static str, expected: usize, got: usize) -> Result<(), ShapeError> {
    if expected == got { Ok(()) } else { Err(ShapeError::Size { what, unit, expected, got }) }
}
