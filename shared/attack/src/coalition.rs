//! Several passive parties, some of which may collude with the adversary.
//!
//! z = W_act y + Σ W_p x_p + b has one term per passive party. A party that colludes shows the
//! adversary its features of the records. Its term W_p x_p moves to the known side, beside the
//! adversary's own. All others are estimated together, as one joint block: the targets, and the
//! parties that are neither target nor colluder, whose features are unknown too. Estimates of these
//! unknown parties are a by-product, which [`Coalition::target_rows`] leaves out.
//!
//! For half_star on exact scores an unknown party never helps: the error of the target's block is,
//! record by record, at least what it would be if that party colluded. (Let e = P⊥(x − ½) be the
//! joint error. Directions that A_t x_t does not see lie in the null space of the joint system too,
//! so along them e_t has the components of x_t − ½, which are all of the error when the others are
//! known.) And the error of the joint block never exceeds that of ½ (R theorem 1).

use std::fmt;
use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use vfl_core::types::{FeatureBlock, ReleasedScores, ShapeError};

use super::sizes::same;
use super::{AdversaryView, AttackError, KnownModel, Replacement};

/// The role of a passive party in the attack.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// Its features are the target of the attack.
    Target,
    /// Its features are unknown and no target.
    Unknown,
    /// It gives the adversary its features of the records, d_p × n.
    Colluder(FeatureBlock),
}

/// A passive party: its weights W_p (k × d_p) and its role. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct Party {
    /// The weights W_p, k × d_p.
    pub weights: DMatrix<f64>,
    /// The role of the party.
    pub role: Role,
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "Party({k} × {d}, {:?}, values withheld)", self.role)
    }
}

/// The adversary with its colluders, against all other passive parties.
#[derive(Debug)]
pub struct Coalition {
    model: KnownModel,
    own: FeatureBlock,
    targets: Vec<(usize, Range<usize>)>,
}

impl Coalition {
    /// Combines the adversary's part (`w_act` k × d_act, `bias` k, its features `y` d_act × n) with
    /// the passive parties.
    ///
    /// The known side is the adversary's features followed by the colluders'. The joint block is
    /// the features of targets and unknown parties. Both are in the order given.
    ///
    /// # Errors
    /// [`AttackError::NoTarget`] if no party with a feature is a target; [`AttackError::Party`]
    /// naming the party whose weights or features do not fit; [`AttackError::View`] for the
    /// adversary's own part.
    pub fn new(
        w_act: DMatrix<f64>,
        bias: DVector<f64>,
        y: FeatureBlock,
        parties: &[Party],
    ) -> Result<Self, AttackError> {
        let (k, n) = (bias.len(), y.records());
        same("active weights", "classes", k, w_act.nrows())?;
        same("active features", "features", w_act.ncols(), y.features())?;
        let mut known = vec![(&w_act, y.matrix())];
        let (mut joint, mut width, mut targets) = (Vec::new(), 0, Vec::new());
        for (party, Party { weights, role }) in parties.iter().enumerate() {
            let of_party = |error: ShapeError| AttackError::Party { party, error };
            same("passive weights", "classes", k, weights.nrows()).map_err(of_party)?;
            let d = weights.ncols();
            if let Role::Colluder(x) = role {
                same("features", "features", d, x.features()).map_err(of_party)?;
                same("features", "records", n, x.records()).map_err(of_party)?;
                known.push((weights, x.matrix()));
                continue;
            }
            if matches!(role, Role::Target) {
                targets.push((party, width..width + d));
            }
            joint.push(weights);
            width += d;
        }
        if targets.iter().all(|(_, rows)| rows.is_empty()) {
            return Err(AttackError::NoTarget);
        }
        let known_weights = side_by_side(k, known.iter().map(|(weights, _)| *weights));
        let mut own = DMatrix::zeros(known_weights.ncols(), n);
        let mut from = 0;
        for (_, features) in known {
            own.rows_mut(from, features.nrows()).copy_from(features);
            from += features.nrows();
        }
        let model = KnownModel::white_box(known_weights, bias, side_by_side(k, joint.into_iter()))?;
        Ok(Self { model, own: FeatureBlock::new(own)?, targets })
    }

    /// Returns the model that the coalition attacks: its own and its colluders' weights on the
    /// known side, the joint block's on the other.
    #[must_use]
    pub fn model(&self) -> &KnownModel {
        &self.model
    }

    /// Returns the features that the coalition holds, (d_act + Σ colluders' d_p) × n.
    #[must_use]
    pub fn known_features(&self) -> &FeatureBlock {
        &self.own
    }

    /// Returns the view of a release of the records.
    ///
    /// # Errors
    /// As [`AdversaryView::new`].
    pub fn view<'a>(
        &'a self,
        released: &'a ReleasedScores,
        replacement: Replacement,
    ) -> Result<AdversaryView<'a>, AttackError> {
        AdversaryView::new(&self.model, &self.own, released, replacement)
    }

    /// Returns the position of each target among the parties given, and its rows of the joint
    /// block.
    #[must_use]
    pub fn target_rows(&self) -> &[(usize, Range<usize>)] {
        &self.targets
    }

    /// Returns the estimates of each target (d_p × n) out of those of the joint block, with its
    /// position among the parties given.
    ///
    /// # Errors
    /// [`AttackError::View`] if `estimates` has not one row per feature of the joint block.
    pub fn target_estimates(
        &self,
        estimates: &DMatrix<f64>,
    ) -> Result<Vec<(usize, DMatrix<f64>)>, AttackError> {
        same("estimates", "features", self.model.target_features(), estimates.nrows())?;
        let block = |(party, rows): &(usize, Range<usize>)| {
            (*party, estimates.rows_range(rows.clone()).into_owned())
        };
        Ok(self.targets.iter().map(block).collect())
    }
}

fn side_by_side<'a>(k: usize, blocks: impl Iterator<Item = &'a DMatrix<f64>>) -> DMatrix<f64> {
    let mut columns = Vec::new();
    for block in blocks {
        columns.extend_from_slice(block.as_slice());
    }
    DMatrix::from_vec(k, columns.len() / k.max(1), columns)
}
