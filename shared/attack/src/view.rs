//! The adversary's view of a release.

use std::fmt;
use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_core::model::{Link, TrainingConfig};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::affine::affine;
use super::differentiable::LinearLogits;
use super::numbers;
use super::sizes::same;
use super::{
    AttackError, AuxiliaryRecords, Colluders, Differentiable, Equations, KnownModel,
    LabelledRecords, LinearSystem, ObservedRecords, Prior, RepeatedQuestions, Replacement,
    ShareOracle,
};

/// The adversary's knowledge beside the release, as far as its threat model grants it. The default
/// is nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SideInformation<'a> {
    /// The statistics of several releases of the records, if the release is their mean.
    pub repeated: Option<RepeatedQuestions>,
    /// The coordinator, for questions with shares of the adversary's own choice.
    pub oracle: Option<&'a dyn ShareOracle>,
    /// The adversary's own labelled records.
    pub labelled: Option<&'a LabelledRecords>,
    /// The training configuration of the joint model.
    pub recipe: Option<&'a TrainingConfig>,
    /// Records asked about before.
    pub seen: Option<ObservedRecords<'a>>,
    /// True if these are the first of the records under attack.
    pub seen_are_targets: bool,
    /// Records whose passive features the adversary knows.
    pub auxiliary: Option<&'a AuxiliaryRecords>,
    /// The data that colluding passive parties give.
    pub colluders: Option<&'a Colluders>,
    /// Moments of the features.
    pub prior: Option<&'a Prior>,
    /// The model with transforms undone, if their owners disclosed them.
    pub told: Option<DisclosedModel<'a>>,
}

/// A model whose transforms were undone because their owners disclosed them.
#[derive(Debug, Clone, Copy)]
pub struct DisclosedModel<'a> {
    /// The model with transforms undone.
    pub model: &'a KnownModel,
    /// The disclosures, party by party.
    pub by: &'a str,
}

/// Everything that an attack is given: the model as known, the adversary's own features of the
/// records, their release, and its [side information](SideInformation).
pub struct AdversaryView<'a> {
    model: &'a KnownModel,
    y: &'a FeatureBlock,
    /// The release, with b' of its scores.
    released: Option<(&'a ReleasedScores, Arc<DMatrix<f64>>)>,
    replacement: Replacement,
    side: SideInformation<'a>,
}

/// Shows the shape only: what was released is for the adversary's eyes.
impl fmt::Debug for AdversaryView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdversaryView({} records, {:?})", self.records(), self.model)
    }
}

impl<'a> AdversaryView<'a> {
    /// Creates a view: `y` holds the adversary's own features (d_act × n) of the n records of
    /// `released`.
    ///
    /// # Errors
    /// [`AttackError::View`] if the parts differ in classes, features or records, or if δ is too
    /// large for k classes; [`AttackError::NotFinite`] if b' overflows.
    pub fn new(
        model: &'a KnownModel,
        y: &'a FeatureBlock,
        released: &'a ReleasedScores,
        replacement: Replacement,
    ) -> Result<Self, AttackError> {
        let k = model.classes();
        same("released scores", "classes", model.released_numbers(), released.classes())?;
        same("active features", "features", model.minus_a_act.ncols(), y.features())?;
        same("active features", "records", released.records(), y.records())?;
        let floor = replacement.zero_floor;
        // b' = c' − J W_act y − J b. c' = J ln c comes last, with one logarithm per score, kept for
        // one record only.
        let mut b_prime = affine(&model.minus_a_act, Some(&model.minus_j_bias), y.matrix());
        let columns = b_prime.as_mut_slice().chunks_exact_mut(k - 1);
        let ln_floor = floor.ln();
        let mut logs = vec![ln_floor; k];
        match released {
            ReleasedScores::Numbers(v) if model.link().is_numeric() => {
                for (b_prime, v) in b_prime.iter_mut().zip(v) {
                    *b_prime += numbers::predictor(model.link(), *v, replacement);
                }
            }
            _ if model.link().is_numeric() => {
                return Err(AttackError::unfit("an attack on numbers", "numbers", released));
            }
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
        Ok(Self {
            model,
            y,
            released: Some((released, Arc::new(b_prime))),
            replacement,
            side: SideInformation::default(),
        })
    }

    /// Creates the view of an adversary that has no score of the records: `y` holds its own
    /// features of them (d_act × n).
    ///
    /// # Errors
    /// [`AttackError::View`] if the model has another number of active features.
    pub fn without_scores(
        model: &'a KnownModel,
        y: &'a FeatureBlock,
        replacement: Replacement,
    ) -> Result<Self, AttackError> {
        same("active features", "features", model.minus_a_act.ncols(), y.features())?;
        Ok(Self { model, y, released: None, replacement, side: SideInformation::default() })
    }

    /// Returns the same view with this side information.
    #[must_use]
    pub fn with_side_information(self, side: SideInformation<'a>) -> Self {
        Self { side, ..self }
    }

    /// Creates a view of auxiliary records under a model, which must have as many passive features.
    pub(super) fn of_auxiliary(
        model: &'a KnownModel,
        records: &'a AuxiliaryRecords,
    ) -> Result<Self, AttackError> {
        same(
            "auxiliary passive features",
            "features",
            model.target_features(),
            records.features(),
        )?;
        Self::new(model, &records.y, &records.released, records.replacement)
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.y.records()
    }

    /// Returns the model as the adversary knows it.
    #[must_use]
    pub fn model(&self) -> &'a KnownModel {
        self.model
    }

    /// Returns the same records, own features and release under another model: for attacks that
    /// first estimate or rewrite the model's parameters.
    ///
    /// # Errors
    /// As [`AdversaryView::new`].
    pub fn under<'b>(&self, model: &'b KnownModel) -> Result<AdversaryView<'b>, AttackError>
    where
        'a: 'b,
    {
        self.with_active(model, self.y)
    }

    /// Returns the same release where the adversary also has some of the passive features: under
    /// `model`, in which they are active, with the own features in `y`.
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
        let view = match self.released {
            Some((released, _)) => AdversaryView::new(model, y, released, self.replacement)?,
            None => AdversaryView::without_scores(model, y, self.replacement)?,
        };
        Ok(view.with_side_information(self.side))
    }

    /// Returns the adversary's own features, d_act × n.
    pub(super) fn active(&self) -> &'a FeatureBlock {
        self.y
    }

    /// Returns the release of the records.
    ///
    /// # Errors
    /// [`AttackError::NoScores`] if nothing was released.
    pub fn released(&self) -> Result<&'a ReleasedScores, AttackError> {
        self.released.as_ref().map(|(released, _)| *released).ok_or(AttackError::NoScores)
    }

    /// Returns true if there is a release.
    #[must_use]
    pub fn has_release(&self) -> bool {
        self.released.is_some()
    }

    /// Returns the side information.
    #[must_use]
    pub fn side_information(&self) -> SideInformation<'a> {
        self.side
    }

    /// Returns the moments of the features.
    ///
    /// # Errors
    /// [`AttackError::Missing`] if none are known.
    pub fn prior(&self) -> Result<&'a Prior, AttackError> {
        self.side.prior.ok_or(AttackError::Missing { what: "moments of the passive features" })
    }

    /// Returns the replacement of scores of 0.
    #[must_use]
    pub fn replacement(&self) -> Replacement {
        self.replacement
    }

    /// Returns the known part of the logits, W_act y + b, k × n.
    #[must_use]
    pub fn known_logits(&self) -> DMatrix<f64> {
        affine(&self.model.w_act, Some(&self.model.bias), self.y.matrix())
    }

    /// Returns the released scores as vectors, k × n: entries of 0 or below replaced, a label as
    /// its softened vector.
    ///
    /// # Errors
    /// [`AttackError::NoScores`] if nothing was released, [`AttackError::Numbers`] if numbers were.
    pub fn scores(&self) -> Result<DMatrix<f64>, AttackError> {
        if self.model.link().is_numeric() {
            return Err(AttackError::Numbers);
        }
        let k = self.model.classes();
        let floor = self.replacement.zero_floor;
        Ok(match self.released()? {
            ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => {
                c.map(|c| if c > 0.0 { c } else { floor })
            }
            // An adversary without the key can only take their proportions for scores.
            ReleasedScores::Ciphertexts(c) => {
                let mut shares = c.map(|c| c as f64 + 0.5);
                for mut column in shares.column_iter_mut() {
                    let sum = column.sum();
                    column /= sum;
                }
                shares
            }
            ReleasedScores::Labels { labels, .. } => {
                DMatrix::from_fn(k, labels.len(), |class, record| {
                    if class == labels[record] as usize {
                        1.0 - (k as f64 - 1.0) * floor
                    } else {
                        floor
                    }
                })
            }
        })
    }

    /// Returns the number of passive features to estimate.
    #[must_use]
    pub fn target_features(&self) -> usize {
        self.model.target_features()
    }

    /// Returns the system A x = b' of a linear model whose passive parameters are known, factored
    /// once per model.
    ///
    /// # Errors
    /// As [`KnownModel::linear`].
    pub fn linear(&self) -> Result<&'a LinearSystem, AttackError> {
        self.model.linear()
    }

    /// Returns W_pas, k × d, of a linear model whose passive parameters are known.
    ///
    /// # Errors
    /// As [`KnownModel::passive_weights`].
    pub fn weights(&self) -> Result<&'a DMatrix<f64>, AttackError> {
        self.model.passive_weights()
    }

    /// Returns the logits as a differentiable function of the passive features, for a model whose
    /// passive parameters are known.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::NotDifferentiable`].
    pub fn differentiable(&self) -> Result<Box<dyn Differentiable + 'a>, AttackError> {
        let Some(network) = self.model.network() else {
            let (weights, known) = (self.model.output_weights()?, self.known_logits());
            return Ok(match self.model.link() {
                Link::OneVsRest => Box::new(LinearLogits::one_vs_rest(weights, known)),
                _ => Box::new(LinearLogits::new(weights, known)),
            });
        };
        let known = match network.own_width() {
            0 => self.known_logits(),
            own => self.y.matrix().rows(self.y.features() - own, own).into_owned(),
        };
        Ok(Box::new(network.logits(known)?))
    }

    /// Returns b' of each record, (k − 1) × n.
    ///
    /// # Errors
    /// [`AttackError::NoScores`] if nothing was released.
    pub fn b_prime(&self) -> Result<&DMatrix<f64>, AttackError> {
        self.released.as_ref().map(|(_, b_prime)| &**b_prime).ok_or(AttackError::NoScores)
    }

    /// Returns A x = b' as evidence.
    ///
    /// # Errors
    /// As [`AdversaryView::linear`] and [`AdversaryView::b_prime`].
    pub fn equations(&self) -> Result<Equations, AttackError> {
        let b_prime = self
            .released
            .as_ref()
            .map(|(_, b_prime)| b_prime.clone())
            .ok_or(AttackError::NoScores)?;
        Ok(Equations { a: self.linear()?.shared_matrix(), b_prime })
    }
}

/// Adds J `logs` to `b_prime`.
fn add_differences(b_prime: &mut [f64], logs: &[f64]) {
    for (b, pair) in b_prime.iter_mut().zip(logs.windows(2)) {
        *b += pair[1] - pair[0];
    }
}
