//! Features that take only a few values (R section IX: x₁ + x₂ = 0.5 has many solutions in [0, 1]²,
//! and one if x₁ is 0 or 1).

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rayon::prelude::*;
use vfl_core::types::FeatureBlock;
use vfl_numerics::PseudoInverse;

use super::{
    AdversaryView, Attack, AttackError, Evidence, FeatureKnowledge, KnownModel, LinearSystem,
    Needs, Reconstruction, RecordOutcome, Status, Termination,
};

/// The most two-valued features. All their assignments are tried: 4096 of them.
pub const MAX_BINARY: usize = 12;

/// An attack whose estimates of discrete features move to the nearest level; of two equally near,
/// to the lower.
#[derive(Debug, Clone)]
pub struct Snap<A> {
    /// The attack whose estimates are moved.
    pub inner: A,
    /// The levels. Ranges are ignored.
    pub knowledge: FeatureKnowledge,
}

impl<A: Attack> Attack for Snap<A> {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// Runs the inner attack and moves its estimates to their levels.
    ///
    /// # Errors
    /// As the inner attack; [`AttackError::Knowledge`] if the levels are about another number of
    /// features.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        self.knowledge.fits(view.target_features())?;
        let mut found = self.inner.reconstruct(view, rng)?;
        let mut moved = false;
        for (mut row, levels) in found.estimates.row_iter_mut().zip(self.knowledge.levels()) {
            let Some(levels) = levels else { continue };
            for x in row.iter_mut() {
                let level = nearest(levels, *x);
                moved |= level != *x;
                *x = level;
            }
        }
        if moved {
            // The outcomes were about the points before.
            found.outcomes.clear();
        }
        if let Some(solved) = &mut found.solved {
            solved.residuals = view.linear()?.solved(&found.estimates, view.b_prime()?).residuals;
        }
        Ok(found)
    }
}

/// Returns the level nearest to `x`, from levels in rising order; of two equally near, the lower.
fn nearest(levels: &[f64], x: f64) -> f64 {
    let above = levels.partition_point(|&level| level < x);
    match (above.checked_sub(1).map(|below| levels[below]), levels.get(above)) {
        (Some(below), Some(&above)) => {
            if x - below <= above - x {
                below
            } else {
                above
            }
        }
        (Some(level), None) | (None, Some(&level)) => level,
        (None, None) => x,
    }
}

/// An attack that decides the two-valued features by trying all their assignments. Another attack
/// then estimates the others, with the decided features among its own.
///
/// With A_b the columns of the two-valued features and A_c the others, an assignment x_b leaves A_c
/// x_c = b' − A_b x_b. The assignment with the least misfit ‖(I − A_c A_c⁺)(b' − A_b x_b)‖ is
/// chosen. Among those that differ by no more than round-off (1e-9 of ‖A‖) it is the one whose
/// solution nearest to ½, x_c = A_c⁺(b' − A_b x_b) + ½ P⊥ 1, lies nearest to the box, and among
/// those the one whose x_c is nearest to ½. If a tie is left, the first one counts, with the first
/// feature's lower value before its upper.
///
/// The records' outcomes are those of the inner attack, if it has any. Otherwise the objective is
/// the squared misfit, and `iterations` are the assignments with that misfit.
#[derive(Debug, Clone)]
pub struct ExactBinary<A> {
    /// The attack on the other features.
    pub inner: A,
    /// The levels. Features with two are decided. Ranges are ignored, and the other features are
    /// taken to lie in [0, 1].
    pub knowledge: FeatureKnowledge,
}

/// The decision about one record.
struct Decision {
    assignment: usize,
    misfit: f64,
    /// The number of assignments with the least misfit.
    tied: u32,
    /// True if the misfit is round-off.
    consistent: bool,
}

impl<A: Attack> Attack for ExactBinary<A> {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    /// Decides the two-valued features, then runs the inner attack on the others.
    ///
    /// # Errors
    /// As the inner attack; [`AttackError::Binary`] beyond [`MAX_BINARY`] two-valued features;
    /// [`AttackError::Knowledge`] if the levels are about another number of features.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        self.knowledge.fits(view.target_features())?;
        let model = view.model();
        let w_pas = model.passive_weights()?;
        let pair = |i: usize| match self.knowledge.levels()[i].as_deref() {
            Some(&[low, high]) => Some((low, high)),
            _ => None,
        };
        let (binary, others): (Vec<usize>, Vec<usize>) =
            (0..w_pas.ncols()).partition(|&i| pair(i).is_some());
        if binary.len() > MAX_BINARY {
            return Err(AttackError::Binary { got: binary.len(), limit: MAX_BINARY });
        }
        if binary.is_empty() {
            return self.inner.reconstruct(view, rng);
        }
        let system = view.linear()?;
        let pairs: Vec<(f64, f64)> = binary.iter().filter_map(|&i| pair(i)).collect();
        let table = Assignments::new(system, &binary, &pairs, &others)?;
        let decisions = table.decide(system, view.b_prime()?);
        let decided = DMatrix::from_fn(binary.len(), view.records(), |i, record| {
            let (low, high) = pairs[i];
            if (decisions[record].assignment >> i) & 1 == 1 { high } else { low }
        });

        let mut estimates = DMatrix::zeros(w_pas.ncols(), view.records());
        for (row, &feature) in decided.row_iter().zip(&binary) {
            estimates.row_mut(feature).copy_from(&row);
        }
        let mut found = if others.is_empty() {
            let rank = system.rank();
            let solved = Some(system.solved(&estimates, view.b_prime()?));
            Reconstruction {
                solved,
                ..Reconstruction::new(DMatrix::zeros(0, 0), Status::BestFit { rank })
            }
        } else {
            let w_act = beside(model.active_weights(), &w_pas.select_columns(&binary));
            let reduced =
                KnownModel::white_box(w_act, model.bias().clone(), w_pas.select_columns(&others))?
                    .with_link(model.link());
            let own = view.active().matrix();
            let y = DMatrix::from_fn(own.nrows() + binary.len(), view.records(), |i, record| {
                if i < own.nrows() { own[(i, record)] } else { decided[(i - own.nrows(), record)] }
            });
            let y = FeatureBlock::new(y)?;
            let mut side = view.side_information();
            let prior = side.prior.map(|prior| {
                let decided = DMatrix::identity(binary.len(), binary.len());
                prior.learning(&others, &binary, &decided, own.nrows())
            });
            side.prior = prior.as_ref();
            let view = view.with_active(&reduced, &y)?.with_side_information(side);
            self.inner.reconstruct(&view, rng)?
        };
        for (row, &feature) in found.estimates.row_iter().zip(&others) {
            estimates.row_mut(feature).copy_from(&row);
        }
        if found.outcomes.is_empty() {
            let outcome = |d: &Decision| RecordOutcome {
                ended: if d.consistent {
                    Termination::Solved
                } else {
                    Termination::NearestConsistent
                },
                iterations: d.tied,
                objective: d.misfit * d.misfit,
            };
            found.outcomes = decisions.iter().map(outcome).collect();
        }
        // The evidence is that of all features: the decided values are estimates, not part of it.
        let evidence = Evidence::Equations(view.equations()?);
        Ok(Reconstruction { estimates, evidence, ..found })
    }
}

/// Puts two matrices side by side.
fn beside(left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    DMatrix::from_fn(left.nrows(), left.ncols() + right.ncols(), |i, j| {
        if j < left.ncols() { left[(i, j)] } else { right[(i, j - left.ncols())] }
    })
}

/// The part that all records share: for every assignment, its part in the misfit and in the other
/// features. Bit i of an assignment stands for the upper value of the i-th two-valued feature.
struct Assignments {
    /// Zᵀ with Z an orthonormal basis of the directions that A_c x_c cannot reach, (m − rank A_c) ×
    /// m.
    unreached: DMatrix<f64>,
    /// Zᵀ A_b x_b, one column per assignment.
    of_misfit: DMatrix<f64>,
    /// The pseudo-inverse A_c⁺.
    inverse: DMatrix<f64>,
    /// ½ P⊥ 1 − A_c⁺ A_b x_b, one column per assignment.
    of_others: DMatrix<f64>,
}

impl Assignments {
    fn new(
        system: &LinearSystem,
        binary: &[usize],
        pairs: &[(f64, f64)],
        others: &[usize],
    ) -> Result<Self, AttackError> {
        let a = system.matrix();
        let (a_b, a_c) = (a.select_columns(binary), a.select_columns(others));
        let inverse = PseudoInverse::new(&a_c)?;
        let values = DMatrix::from_fn(pairs.len(), 1 << pairs.len(), |i, assignment| {
            if (assignment >> i) & 1 == 1 { pairs[i].1 } else { pairs[i].0 }
        });
        let shares = a_b * values;
        let unreached = complement(&(&a_c * &inverse.matrix), a.nrows() - inverse.rank);
        let half = DVector::from_element(others.len(), 0.5);
        let offset = &half - &inverse.matrix * (&a_c * &half);
        let mut of_others = -(&inverse.matrix * &shares);
        of_others.column_iter_mut().for_each(|mut column| column += &offset);
        Ok(Self { of_misfit: &unreached * shares, unreached, inverse: inverse.matrix, of_others })
    }

    fn decide(&self, system: &LinearSystem, b_prime: &DMatrix<f64>) -> Vec<Decision> {
        // The part of b' that the equations in A_b and A_c together can miss counts as a whole,
        // even where no assignment changes it.
        let (misfit, others) = (&self.unreached * b_prime, &self.inverse * b_prime);
        let assignments = self.of_misfit.ncols();
        (0..b_prime.ncols())
            .into_par_iter()
            .map_init(
                || (vec![0.0; assignments], Vec::with_capacity(assignments)),
                |(misfits, tied): &mut (Vec<f64>, Vec<(usize, f64, f64)>), record| {
                    let own = misfit.column(record);
                    for (assignment, value) in misfits.iter_mut().enumerate() {
                        let share = self.of_misfit.column(assignment);
                        *value = own
                            .iter()
                            .zip(share.iter())
                            .map(|(b, s)| (b - s) * (b - s))
                            .sum::<f64>()
                            .sqrt();
                    }
                    let tolerance = system.tolerance(b_prime.column(record).as_slice());
                    let least = misfits.iter().fold(f64::INFINITY, |m, v| m.min(*v));
                    tied.clear();
                    for assignment in (0..assignments).filter(|&a| misfits[a] <= least + tolerance)
                    {
                        let (mut outside, mut from_half) = (0.0, 0.0);
                        for (x, share) in others
                            .column(record)
                            .iter()
                            .zip(self.of_others.column(assignment).iter())
                        {
                            let x = x + share;
                            let past = (x - 0.5).abs() - 0.5;
                            outside += past.max(0.0).powi(2);
                            from_half += (x - 0.5).powi(2);
                        }
                        tied.push((assignment, outside.sqrt(), from_half.sqrt()));
                    }
                    let assignment = choose(tied);
                    Decision {
                        assignment,
                        misfit: misfits[assignment],
                        tied: tied.len() as u32,
                        consistent: misfits[assignment] <= tolerance,
                    }
                },
            )
            .collect()
    }
}

/// Distances closer than this are the same: round-off in b' blurs a tie by this much.
const SAME: f64 = 1e-9;

/// Chooses an assignment from (assignment, distance to the box, distance to ½), in rising order of
/// assignments.
fn choose(tied: &[(usize, f64, f64)]) -> usize {
    let nearest_box = tied.iter().fold(f64::INFINITY, |m, t| m.min(t.1));
    let left = || tied.iter().filter(|t| t.1 <= nearest_box + SAME);
    let nearest_half = left().fold(f64::INFINITY, |m, t| m.min(t.2));
    left().find(|t| t.2 <= nearest_half + SAME).map_or(0, |t| t.0)
}

/// Returns Zᵀ for the complement of the range of a projector P (m × m): `dimension` orthonormal
/// rows, from the columns of I − P with the longest rest.
fn complement(projector: &DMatrix<f64>, dimension: usize) -> DMatrix<f64> {
    let m = projector.nrows();
    let mut rest = DMatrix::identity(m, m) - projector;
    let mut basis = DMatrix::zeros(dimension, m);
    for i in 0..dimension {
        let longest = rest
            .column_iter()
            .map(|c| c.norm_squared())
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((longest, squared)) = longest else { break };
        let axis = rest.column(longest) / squared.sqrt();
        for mut column in rest.column_iter_mut() {
            let along = axis.dot(&column);
            column.axpy(-along, &axis, 1.0);
        }
        basis.row_mut(i).copy_from(&axis.transpose());
    }
    basis
}
