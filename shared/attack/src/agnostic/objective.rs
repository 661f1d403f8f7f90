//! The objective of an adversary model: V (8), and V (9) if records were asked about before.

use nalgebra::{DMatrix, DVector};
use vfl_core::types::{FeatureBlock, ReleasedScores, ShapeError};

use super::super::affine::affine;
use super::super::sizes::same;
use super::super::{AttackError, LabelledRecords, ObservedRecords, Replacement};
use super::AgnosticSettings;

/// The objective in the weights W (k × d_act) and the bias b (k), for given records.
///
/// With ĉ = softmax(W y + b), H the cross-entropy in nats, n_t labelled records with labels u and
/// n_p records seen:
///
/// (1/(n_t + n_p)) (Σ H(ĉ, u) + β Σ H(ĉ, û)) + (α/n_p) Σ Σ_m (ln ĉ_m − ln c_m)² + l2 ‖W‖²_F.
///
/// The second and third sums run over the records seen; û are their predicted classes, c their
/// scores. Without such records, or with α = β = 0, it is (1/n_t) Σ H(ĉ, u) + l2 ‖W‖²_F. The bias
/// is not penalised. Labels and ciphertexts are no scores: for them α counts as 0. The objective is
/// convex for α = 0 only.
#[derive(Clone)]
pub struct AgnosticObjective<'a> {
    classes: usize,
    own: Part<'a>,
    seen: Option<Part<'a>>,
    l2: f64,
}

/// Records with the labels and scores that the model is fitted to.
#[derive(Clone)]
struct Part<'a> {
    y: &'a FeatureBlock,
    /// yᵀ, for the gradient.
    transposed: DMatrix<f64>,
    labels: Vec<u32>,
    /// The weight of the cross-entropy of one record.
    entropy_weight: f64,
    /// ln c, k × n, if there are scores.
    logarithms: Option<DMatrix<f64>>,
    /// The weight of the squared log-ratios of one record.
    ratio_weight: f64,
}

/// Shows shapes only.
impl std::fmt::Debug for AgnosticObjective<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seen = self.seen.as_ref().map_or(0, |s| s.labels.len());
        write!(
            f,
            "AgnosticObjective({} classes, {} + {seen} records, values withheld)",
            self.classes,
            self.own.labels.len()
        )
    }
}

impl<'a> AgnosticObjective<'a> {
    /// Creates the objective for the adversary's labelled records and the records seen.
    /// `replacement` stands for scores of 0. Settings without `l2` have no penalty.
    ///
    /// # Errors
    /// [`AttackError::NoLabelled`] without a labelled record; [`AttackError::Label`] for a label
    /// that is no class; [`AttackError::Weight`] if α, β or l2 is negative or not finite;
    /// [`AttackError::View`] if parts differ in size.
    pub fn new(
        settings: &AgnosticSettings,
        classes: usize,
        own: &'a LabelledRecords,
        seen: Option<ObservedRecords<'a>>,
        replacement: Replacement,
    ) -> Result<Self, AttackError> {
        let l2 = settings.l2.unwrap_or(0.0);
        for (what, got) in [("alpha", settings.alpha), ("beta", settings.beta), ("l2", l2)] {
            if !(got >= 0.0 && got.is_finite()) {
                return Err(AttackError::Weight { what, got });
            }
        }
        if classes < 2 {
            return Err(
                ShapeError::TooFewClasses { what: "the adversary model", got: classes }.into()
            );
        }
        let records = own.labels.len();
        same("labelled records", "records", records, own.y.records())?;
        if records == 0 {
            return Err(AttackError::NoLabelled { attack: "agnostic" });
        }
        if let Some(record) = own.labels.iter().position(|l| *l as usize >= classes) {
            return Err(AttackError::Label { record, classes });
        }
        let seen = seen.filter(|s| s.y.records() > 0 || s.released.records() > 0);
        let seen = seen.filter(|_| settings.alpha > 0.0 || settings.beta > 0.0);
        if let Some(ObservedRecords { y, released }) = seen {
            same("scores of records seen", "classes", classes, released.classes())?;
            same("active features of records seen", "features", own.y.features(), y.features())?;
            same("active features of records seen", "records", released.records(), y.records())?;
        }
        let observed = seen.map_or(0, |s| s.released.records());
        let weight = 1.0 / (records + observed) as f64;
        let seen = seen
            .map(|ObservedRecords { y, released }| {
                let logarithms = match released {
                    ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => {
                        Some(c.map(|c| replacement.of(c).ln())).filter(|_| settings.alpha > 0.0)
                    }
                    ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_) => None,
                };
                if logarithms.as_ref().is_some_and(|l| !l.iter().all(|v| v.is_finite())) {
                    return Err(AttackError::NotFinite { what: "the logarithm of a score seen" });
                }
                Ok(Part {
                    y,
                    transposed: y.matrix().transpose(),
                    labels: released.predicted_labels(),
                    entropy_weight: settings.beta * weight,
                    logarithms,
                    ratio_weight: settings.alpha / observed as f64,
                })
            })
            .transpose()?;
        let own = Part {
            y: &own.y,
            transposed: own.y.matrix().transpose(),
            labels: own.labels.clone(),
            entropy_weight: weight,
            logarithms: None,
            ratio_weight: 0.0,
        };
        Ok(Self { classes, own, seen, l2 })
    }

    /// Returns the number of classes, k.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the weight of the mean cross-entropy of the labelled records: n_t / (n_t + n_p).
    pub(super) fn share_of_own(&self) -> f64 {
        self.own.entropy_weight * self.own.labels.len() as f64
    }

    /// Returns the terms of the records seen alone, without penalty, with their gradients in W and
    /// b.
    pub(super) fn of_seen(
        &self,
        weights: &DMatrix<f64>,
        bias: &DVector<f64>,
    ) -> (f64, DMatrix<f64>, DVector<f64>) {
        let mut sum =
            (0.0, DMatrix::zeros(self.classes, weights.ncols()), DVector::zeros(self.classes));
        self.seen.iter().for_each(|part| part.add(weights, bias, &mut sum));
        sum
    }

    /// Returns the number of parameters: k (d_act + 1), W column by column and then b.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.classes * (self.own.y.features() + 1)
    }

    /// Returns the objective at W (k × d_act) and b, with its gradients in both.
    ///
    /// # Panics
    /// If W or b is of another shape.
    #[must_use]
    pub fn at(
        &self,
        weights: &DMatrix<f64>,
        bias: &DVector<f64>,
    ) -> (f64, DMatrix<f64>, DVector<f64>) {
        assert_eq!(weights.shape(), (self.classes, self.own.y.features()), "shape of the weights");
        assert_eq!(bias.len(), self.classes, "length of the bias");
        let (value, of_weights) = (self.l2 * weights.norm_squared(), weights * (2.0 * self.l2));
        let mut sum = (value, of_weights, DVector::zeros(self.classes));
        std::iter::once(&self.own)
            .chain(&self.seen)
            .for_each(|part| part.add(weights, bias, &mut sum));
        sum
    }

    /// Returns the objective at all parameters in one vector, as a minimiser has them, and writes
    /// its gradient.
    pub(super) fn flat(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let at = self.classes * self.own.y.features();
        let weights = DMatrix::from_column_slice(self.classes, self.own.y.features(), &x[..at]);
        let (value, of_weights, of_bias) = self.at(&weights, &DVector::from_column_slice(&x[at..]));
        gradient[..at].copy_from_slice(of_weights.as_slice());
        gradient[at..].copy_from_slice(of_bias.as_slice());
        value
    }
}

impl Part<'_> {
    /// Adds the value and the gradients at W and b to `sum`.
    fn add(
        &self,
        weights: &DMatrix<f64>,
        bias: &DVector<f64>,
        sum: &mut (f64, DMatrix<f64>, DVector<f64>),
    ) {
        let mut slopes = affine(weights, Some(bias), self.y.matrix());
        sum.0 += self.value_and_slopes(&mut slopes);
        sum.1.gemm(1.0, &slopes, &self.transposed, 1.0);
        sum.2 += slopes.column_sum();
    }

    /// Replaces the logits by the derivatives in them, and returns the value.
    fn value_and_slopes(&self, logits: &mut DMatrix<f64>) -> f64 {
        let mut value = 0.0;
        for (record, mut z) in logits.column_iter_mut().enumerate() {
            let top = z.max();
            let log_sum = top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
            let label = self.labels[record] as usize;
            // z becomes ln ĉ.
            z.add_scalar_mut(-log_sum);
            value -= self.entropy_weight * z[label];
            // ∂/∂z_j: of the entropy ĉ_j − [j = label], of Σ r² with r = ln ĉ − ln c: 2 r_j − 2 ĉ_j
            // Σ r.
            let (mut pulled, mut factor) = (None, self.entropy_weight);
            if let Some(logarithms) = &self.logarithms {
                let ratios = &z - logarithms.column(record);
                value += self.ratio_weight * ratios.norm_squared();
                factor -= 2.0 * self.ratio_weight * ratios.sum();
                pulled = Some(ratios);
            }
            for (j, z) in z.iter_mut().enumerate() {
                *z = factor * z.exp()
                    + pulled.as_ref().map_or(0.0, |r| 2.0 * self.ratio_weight * r[j]);
            }
            z[label] -= self.entropy_weight;
        }
        value
    }
}
