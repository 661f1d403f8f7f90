//! Claims about the true parameters behind the released ones.

use std::fmt;

use nalgebra::DMatrix;
use vfl_numerics::PseudoInverse;

use crate::{AttackError, KnownModel};

/// A claim about the true W and b, given the released W_n and b_n, which a passive party may have
/// transformed (R section VII-A, VIII-D; V remark 10). b_n includes the shift that was announced
/// with the release, if there was one: W_n is to be read with features in [0, 1].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hypothesis {
    /// W = W_n, b = b_n.
    Identity,
    /// W = −W_n, b = b_n: the release is for −x.
    Negate,
    /// W = −W_n, b = b_n + W_n 1: the release is for 1 − x, and b_n includes the announced shift W
    /// 1 = −W_n 1.
    Complement,
    /// Some features negated, some complemented, the others as they are.
    Features {
        /// Positions of the negated features, from 0, rising.
        negated: Vec<usize>,
        /// Positions of the complemented features, rising.
        complemented: Vec<usize>,
    },
    /// Column j of W_n belongs to feature `order[j]`.
    Permutation(Vec<usize>),
    /// W_n = W R for the R of R theorem 3 under known second moments.
    LeastSquaresOptimal,
    /// Two transforms: trained on 1 − x, and released such that the inner hypothesis undoes it. If
    /// the inner one gives the weights V and the bias c, then W = −V and b = c + V 1.
    AfterComplement(Box<Hypothesis>),
}

impl fmt::Display for Hypothesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::Negate => f.write_str("negate"),
            Self::Complement => f.write_str("complement"),
            Self::Features { negated, complemented } => {
                write!(f, "features (negated {negated:?}, complemented {complemented:?})")
            }
            Self::Permutation(order) => write!(f, "permutation {order:?}"),
            Self::LeastSquaresOptimal => f.write_str("least_squares_optimal"),
            Self::AfterComplement(inner) => write!(f, "{inner} after complement"),
        }
    }
}

impl Hypothesis {
    /// Returns the claim that explains the same records by 1 − x in place of x: V x + c = −V (1 −
    /// x) + (c + V 1).
    #[must_use]
    pub fn partner(&self) -> Self {
        match self {
            Self::Identity => Self::Complement,
            Self::Complement => Self::Identity,
            Self::AfterComplement(inner) => (**inner).clone(),
            other => Self::AfterComplement(Box::new(other.clone())),
        }
    }

    /// Returns the true model, if the hypothesis holds; `moments` is E x xᵀ (d × d) for
    /// [`Hypothesis::LeastSquaresOptimal`].
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::Decomposition`];
    /// [`AttackError::NotFinite`].
    pub fn model(
        &self,
        released: &KnownModel,
        moments: Option<&DMatrix<f64>>,
    ) -> Result<KnownModel, AttackError> {
        let shown = released.passive_weights()?;
        if let Self::AfterComplement(inner) = self {
            return Self::Complement.model(&inner.model(released, moments)?, None);
        }
        let mut weights = shown.clone();
        let mut bias = released.bias().clone();
        match self {
            Self::Identity => {}
            Self::Negate => weights.neg_mut(),
            Self::Complement => {
                weights.neg_mut();
                bias += shown.column_sum();
            }
            Self::Features { negated, complemented } => {
                for &i in negated.iter().chain(complemented) {
                    weights.column_mut(i).neg_mut();
                }
                for &i in complemented {
                    bias += shown.column(i);
                }
            }
            Self::Permutation(order) => {
                for (from, &to) in order.iter().enumerate() {
                    weights.column_mut(to).copy_from(&shown.column(from));
                }
            }
            Self::LeastSquaresOptimal => {
                if let Some(moments) = moments {
                    weights = before_least_squares_optimal(shown, moments)?;
                }
            }
            // The branch above handles it.
            Self::AfterComplement(_) => {}
        }
        if !(weights.iter().all(|v| v.is_finite()) && bias.iter().all(|v| v.is_finite())) {
            return Err(AttackError::NotFinite { what: "the model of a hypothesis" });
        }
        let model = KnownModel::white_box(released.active_weights().clone(), bias, weights)?;
        Ok(model.with_link(released.link()))
    }
}

/// Returns a W with the J W from before R theorem 3's transform, given W_n and K₀ = E x xᵀ.
///
/// With P = A⁺A and P K₀ = U S Vᵀ, the transform is A_n = −A U Vᵀ. Its rows lie in the span of V,
/// which is K₀ times the rows of A. So K₀⁻¹ leads back to them and to P, and A = −A_n V Uᵀ. V Uᵀ is
/// the partial isometry of the polar decomposition K₀ P = (V Uᵀ) (U S Uᵀ), and needs no choice of
/// bases.
fn before_least_squares_optimal(
    shown: &DMatrix<f64>,
    moments: &DMatrix<f64>,
) -> Result<DMatrix<f64>, AttackError> {
    // No score shows the part that all classes share.
    let mean = shown.row_mean();
    let mut centred = shown.clone();
    for mut row in centred.row_iter_mut() {
        row -= &mean;
    }
    let rows = PseudoInverse::new(moments)?.matrix * centred.transpose();
    let projection = &rows * PseudoInverse::new(&rows)?.matrix;
    let product = moments * &projection;
    // V Uᵀ = K₀P (PK₀²P)^(−½), the root by Newton's iteration on the polar factor's inverse
    // transpose: X ← (X + X⁺ᵀ) / 2.
    let mut polar = product.clone()
        / PseudoInverse::new(&product)?.singular_values.first().copied().unwrap_or(1.0);
    for _ in 0..100 {
        let next = (&polar + PseudoInverse::new(&polar)?.matrix.transpose()) * 0.5;
        let moved = (&next - &polar).amax();
        polar = next;
        if moved <= 1e-14 {
            break;
        }
    }
    Ok(-(centred * polar))
}
