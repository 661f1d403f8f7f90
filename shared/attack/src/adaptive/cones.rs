//! Orders and labels as cones of logits: a release that shows only the ranks of the scores, their
//! largest, or the nearest word of a codebook.

use rand::Rng;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{Polytope, arg_max};

use super::estimate::words_of;
use super::{Centre, KnownPolicy};
use crate::cells::Likelihood;
use crate::{
    AdversaryView, Attack, AttackError, Cell, Cells, Entry, Group, Needs, Parameters,
    Reconstruction,
};

/// The order of the scores: z_i ≥ z_j wherever the release of class i is larger. The cone is
/// correct under order-preserving encryption, `ranking`, PRIVEE, rounding and every other defense
/// that keeps the order. Classes with equal releases are not compared.
#[derive(Debug, Clone, Copy)]
pub struct RankingCone {
    /// The point of the polytope that is the estimate.
    pub centre: Centre,
}

/// The predicted class: z_label ≥ z_j for all j. The cone is correct under every defense that keeps
/// the arg max.
#[derive(Debug, Clone, Copy)]
pub struct LabelCone {
    /// The point of the polytope that is the estimate.
    pub centre: Centre,
}

/// The word of a codebook: the cone of its arg max, and in this cone the points that are nearer to
/// the word than to the others of the same arg max. The words are those that were released.
///
/// The cone is certain. The fit of the codebook chooses the word that is nearest by relative
/// entropy, but the cells of this choice are not convex in the features. Only the centre
/// `posterior` keeps to them. `likely` takes the logarithms of the word as likely, with a larger
/// deviation the smaller they are. The other centres use the cone alone.
#[derive(Debug, Clone, Copy)]
pub struct CodebookCell {
    /// The point of the polytope that is the estimate.
    pub centre: Centre,
}

/// Returns the cone of each record's order.
pub(super) fn orders(released: &ReleasedScores) -> Vec<Cell> {
    match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => m
            .column_iter()
            .map(|c| order(c.len(), |i, j| c[i].total_cmp(&c[j]).is_gt() && c[i] > c[j]))
            .collect(),
        ReleasedScores::Ciphertexts(m) => {
            m.column_iter().map(|c| order(c.len(), |i, j| c[i] > c[j])).collect()
        }
        ReleasedScores::Labels { classes, .. } => labels(released, *classes),
    }
}

fn order(k: usize, above: impl Fn(usize, usize) -> bool) -> Cell {
    let mut cell = Cell::default();
    for i in 0..k {
        for j in (0..k).filter(|&j| above(i, j)) {
            // A pair with a class between follows from two others.
            if !(0..k).any(|m| above(i, m) && above(m, j)) {
                cell.certain(i, j, 0.0, f64::INFINITY);
            }
        }
    }
    cell
}

fn labels(released: &ReleasedScores, k: usize) -> Vec<Cell> {
    released.predicted_labels().iter().map(|&label| label_cone(label as usize, k)).collect()
}

/// Returns the cone z_label ≥ z_j for all other j.
pub(super) fn label_cone(label: usize, k: usize) -> Cell {
    let mut cell = Cell::default();
    (0..k).filter(|&j| j != label).for_each(|j| cell.certain(label, j, 0.0, f64::INFINITY));
    cell
}

impl RankingCone {
    /// Returns the set of features that each record's order allows.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box.
    pub fn polytopes(&self, view: &AdversaryView<'_>) -> Result<Vec<Polytope>, AttackError> {
        let cells = Cells::new(view, orders(view.released()?))?;
        Ok((0..view.records()).map(|r| cells.polytope(r)).collect())
    }
}

pub(crate) static RANKING_CONE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("ranking_cone", Group::Adaptive, |settings| {
        Box::new(RankingCone {
            centre: KnownPolicy::from(settings).centre.unwrap_or(Centre::Analytic),
        })
    })
};

impl Attack for RankingCone {
    fn needs(&self) -> Needs {
        ORDERS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        Cells::new(view, orders(view.released()?))?.estimate(view, self.centre, rng)
    }
}

/// The needs of attacks on orders of the outputs, which are those of the scores under every link of
/// classes.
pub(super) const ORDERS: Needs =
    Needs { parameters: Parameters::Differentiable, ..Needs::WHITE_BOX };

impl LabelCone {
    /// Returns the set of features that each record's label allows.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box.
    pub fn polytopes(&self, view: &AdversaryView<'_>) -> Result<Vec<Polytope>, AttackError> {
        let cells = Cells::new(view, labels(view.released()?, view.model().classes()))?;
        Ok((0..view.records()).map(|r| cells.polytope(r)).collect())
    }
}

pub(crate) static LABEL_CONE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("label_cone", Group::Adaptive, |settings| {
        Box::new(LabelCone {
            centre: KnownPolicy::from(settings).centre.unwrap_or(Centre::Analytic),
        })
    })
};

impl Attack for LabelCone {
    fn needs(&self) -> Needs {
        ORDERS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        Cells::new(view, labels(view.released()?, view.model().classes()))?.estimate(
            view,
            self.centre,
            rng,
        )
    }
}

impl CodebookCell {
    fn cells(&self, view: &AdversaryView<'_>) -> Result<Cells, AttackError> {
        let k = view.model().classes();
        let (ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) =
            view.released()?
        else {
            return Err(AttackError::unfit("codebook_cell", "score vectors", view.released()?));
        };
        let (words, of) = words_of(scores);
        // A word is a mean of score vectors: the smaller a score is, the less the word tells of it.
        let likely: Vec<Vec<(f64, f64)>> = words
            .logs
            .column_iter()
            .map(|word| word.iter().map(|log| (*log, 2.0 - 0.4 * log)).collect())
            .collect();
        let cells = of
            .iter()
            .map(|&word| {
                let mut cell = label_cone(arg_max(words.logs.column(word).as_slice()), k);
                (cell.likely, cell.stretch) = (likely[word].clone(), 1.0);
                cell.likelihood = Likelihood::Word(word);
                cell
            })
            .collect();
        let mut cells = Cells::new(view, cells)?;
        cells.words = Some(words);
        Ok(cells)
    }

    /// Returns the set of features that is certain for each record: the cone of its word's arg max.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::Unfit`] for labels and
    /// ciphertexts.
    pub fn polytopes(&self, view: &AdversaryView<'_>) -> Result<Vec<Polytope>, AttackError> {
        let cells = self.cells(view)?;
        Ok((0..view.records()).map(|r| cells.polytope(r)).collect())
    }
}

pub(crate) static CODEBOOK_CELL: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("codebook_cell", Group::Adaptive, |settings| {
        Box::new(CodebookCell {
            centre: KnownPolicy::from(settings).centre.unwrap_or(Centre::Likely),
        })
    })
};

impl Attack for CodebookCell {
    fn needs(&self) -> Needs {
        Needs::WHITE_BOX
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        view.weights()?;
        self.cells(view)?.estimate(view, self.centre, rng)
    }
}
