//! An attack, a defense and a metric in a crate of one's own, to copy.
//!
//! - [`NearestToMean`] is an attack: the solution of A x = b' nearest to means of the features that
//!   the adversary knows.
//! - [`Floor`] is a defense: scores below a threshold become 0, and the others are scaled to sum to
//!   1.
//! - [`MeanAbsoluteError`] is a metric: the mean distance of a value from its estimate. The metrics
//!   of audits are a list in `vfl-core`; one of another crate is called by one's own program.
//!
//! `cargo run --example compare` in this directory runs the attack on exact scores and on defended
//! ones.

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use vfl_attack::{AdversaryView, Attack, AttackError, Evidence, Needs, Reconstruction, Status};
use vfl_core::metrics::{Direction, Metric, MetricError, Unit, mse};
use vfl_core::types::ReleasedScores;
use vfl_defense::{Contract, Defense, DefenseError, Noise, Output};

/// The attack x̂ = A⁺ b' + (I − A⁺ A) μ: of all features that give the scores, those nearest to the
/// known means μ.
///
/// `half_star` is the case μ = ½.
#[derive(Debug, Clone)]
pub struct NearestToMean {
    /// The mean of each passive feature, d entries in [0, 1].
    pub means: DVector<f64>,
}

impl Attack for NearestToMean {
    fn needs(&self) -> Needs {
        // One release of the records, and the parameters of a linear model.
        Needs::WHITE_BOX
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        if self.means.len() != view.target_features() {
            return Err(AttackError::Missing { what: "one mean for each passive feature" });
        }
        let offset = &self.means - system.pseudo_inverse() * (system.matrix() * &self.means);
        let mut estimates = system.least_norm(view.b_prime()?);
        estimates.column_iter_mut().for_each(|mut x| x += &offset);
        // Features lie in [0, 1].
        estimates.apply(|x| *x = x.clamp(0.0, 1.0));
        let solved = system.solved(&estimates, view.b_prime()?);
        let status = match solved.nullity {
            0 => Status::Unique,
            _ => Status::LeastNorm { rank: solved.rank },
        };
        Ok(Reconstruction {
            solved: Some(solved),
            evidence: Evidence::Equations(view.equations()?),
            ..Reconstruction::new(estimates, status)
        })
    }
}

/// The defense: scores below `threshold` become 0, and what is left is scaled to sum to 1.
#[derive(Debug, Clone, Copy)]
pub struct Floor {
    threshold: f64,
}

impl Floor {
    /// A threshold from 0 to below 1/k, so that the largest score always stays.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] out of range.
    pub fn new(threshold: f64, classes: usize) -> Result<Self, DefenseError> {
        let most = 1.0 / classes.max(1) as f64;
        if threshold >= 0.0 && threshold < most {
            Ok(Self { threshold })
        } else {
            Err(DefenseError::setting(
                "floor",
                "threshold",
                threshold,
                format!("from 0 to below {most}"),
            ))
        }
    }
}

impl Defense for Floor {
    fn contract(&self) -> Contract {
        // Small scores become equal, so the ranking is not kept.
        Contract {
            output: Output::Probabilities,
            keeps_arg_max: true,
            keeps_ranking: false,
            randomised: false,
            // log2 of the number of releases, where they are few: of a label log2 k.
            bits: None,
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        for mut column in scores.column_iter_mut() {
            column.apply(|c| *c = if *c < self.threshold { 0.0 } else { *c });
            let sum = column.sum();
            column /= sum;
        }
        Ok(ReleasedScores::Probabilities(scores))
    }
}

/// The metric: the mean of |x̂ − x| over features and records, in [0, 1].
#[derive(Debug, Clone, Copy)]
pub struct MeanAbsoluteError;

impl Metric for MeanAbsoluteError {
    fn name(&self) -> &'static str {
        "mean_absolute_error"
    }

    fn title(&self) -> &'static str {
        "mean absolute error"
    }

    fn meaning(&self) -> &'static str {
        "the mean distance of a feature from its estimate"
    }

    fn unit(&self) -> Unit {
        Unit::Coefficient
    }

    fn direction(&self) -> Direction {
        Direction::Lower
    }

    fn measure(
        &self,
        of: &vfl_core::metrics::Reconstruction<'_>,
    ) -> Result<Option<f64>, MetricError> {
        // It refuses estimates of another shape.
        mse(of.estimates, of.truth)?;
        let sum: f64 = of.estimates.iter().zip(of.truth).map(|(e, x)| (e - x).abs()).sum();
        Ok(Some(sum / of.truth.len() as f64))
    }

    /// Returns the most that one record moves the figure. A record with the estimates e adds
    /// between 0 and Σ_j max(e_j, 1 − e_j) / (n d), wherever in [0, 1] its features lie.
    fn sensitivity(&self, estimates: &DMatrix<f64>) -> Option<f64> {
        let of_record = |e: f64| e.max(1.0 - e);
        let most = estimates.column_iter().map(|e| e.iter().copied().map(of_record).sum::<f64>());
        Some(most.fold(0.0, f64::max) / estimates.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    /// By hand: |0.5 − 0| and |0 − 1| of two records, and what the second adds at most.
    #[test]
    fn the_metric_is_the_mean_distance() {
        let estimates = DMatrix::from_row_slice(1, 2, &[0.5, 0.0]);
        let truth = DMatrix::from_row_slice(1, 2, &[0.0, 1.0]);
        let classify = |_: &DMatrix<f64>| -> Result<Vec<u32>, MetricError> { Ok(Vec::new()) };
        let of = |truth| vfl_core::metrics::Reconstruction {
            estimates: &estimates,
            truth,
            classify: &classify,
        };
        assert_eq!(MeanAbsoluteError.measure(&of(&truth)).unwrap(), Some(0.75));
        assert_eq!(MeanAbsoluteError.sensitivity(&estimates), Some(0.5));
        let short = DMatrix::zeros(1, 1);
        assert!(MeanAbsoluteError.measure(&of(&short)).is_err());
        // On a model: the estimates of an attack that is exact.
        let world = World::new(4, 3, 50);
        let attack = NearestToMean { means: DVector::from_element(3, 0.9) };
        let estimates = world.estimates(&attack, &world.scores()).unwrap();
        let of = vfl_core::metrics::Reconstruction {
            estimates: &estimates,
            truth: world.truth(),
            classify: &classify,
        };
        assert!(MeanAbsoluteError.measure(&of).unwrap().unwrap() < 1e-10);
    }

    #[test]
    fn with_fewer_features_than_classes_the_attack_is_exact() {
        let world = World::new(4, 3, 50);
        let attack = NearestToMean { means: DVector::from_element(3, 0.9) };
        let error = world.error(&attack, &world.scores()).unwrap();
        assert!(error < 1e-20, "{error:e}");
    }

    #[test]
    fn the_means_help_where_equations_are_few() {
        let world = World::new(3, 8, 400);
        let by_means = NearestToMean { means: world.means() };
        let by_half = NearestToMean { means: DVector::from_element(8, 0.5) };
        let (means, half) =
            (world.error(&by_means, &world.scores()), world.error(&by_half, &world.scores()));
        assert!(means.unwrap() < half.unwrap());
    }

    #[test]
    fn the_defense_keeps_what_it_promises() {
        let world = World::new(5, 4, 300);
        let noise = Noise::fresh([1; 32]);
        let ReleasedScores::Probabilities(c) = world.scores() else {
            panic!("undefended scores are probabilities")
        };
        let released = Floor::new(0.1, 5).unwrap().apply(c.clone(), &noise).unwrap();
        let ReleasedScores::Probabilities(p) = released else {
            panic!("it promises probabilities")
        };
        for (before, after) in c.column_iter().zip(p.column_iter()) {
            assert_eq!(before.imax(), after.imax());
            assert!((after.sum() - 1.0).abs() < 1e-12);
        }
        assert!(
            p.iter().any(|c| *c == 0.0),
            "no score was below the threshold: the test shows nothing"
        );
        assert!(Floor::new(0.2, 5).is_err());
    }
}

pub mod world {
    //! A small model to try the attack and the defense on.

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use vfl_attack as attack;
    use vfl_attack::{KnownModel, Replacement};
    use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits};

    use super::*;

    /// A softmax regression of k classes with one active and d passive features, and n records.
    /// Passive features lie in [0, 0.4].
    #[derive(Debug)]
    pub struct World {
        model: KnownModel,
        y: FeatureBlock,
        x: DMatrix<f64>,
        scores: ReleasedScores,
    }

    impl World {
        /// Draws one; the seed is fixed.
        ///
        /// # Panics
        /// If there is no class or no record.
        #[must_use]
        pub fn new(k: usize, d: usize, n: usize) -> Self {
            let mut rng = ChaCha20Rng::seed_from_u64(7);
            let mut uniform = |rows, columns, most: f64| {
                DMatrix::from_fn(rows, columns, |_, _| most * rng.random::<f64>())
            };
            let (w_act, w_pas) = (uniform(k, 1, 2.0), uniform(k, d, 4.0));
            let bias = uniform(k, 1, 1.0).column(0).into_owned();
            let (y, x) = (uniform(1, n, 1.0), uniform(d, n, 0.4));
            let mut logits = &w_act * &y + &w_pas * &x;
            logits.column_iter_mut().for_each(|mut z| z += &bias);
            let logits = Logits::new(logits).expect("finite logits");
            let scores =
                ReleasedScores::Probabilities(ConfidenceScores::softmax(logits).into_matrix());
            let model = KnownModel::white_box(w_act, bias, w_pas).expect("weights of k classes");
            Self { model, y: FeatureBlock::new(y).expect("finite features"), x, scores }
        }

        /// The scores as they are.
        #[must_use]
        pub fn scores(&self) -> ReleasedScores {
            self.scores.clone()
        }

        /// The mean of each passive feature.
        #[must_use]
        pub fn means(&self) -> DVector<f64> {
            self.x.column_mean()
        }

        /// The passive features, d × n.
        #[must_use]
        pub fn truth(&self) -> &DMatrix<f64> {
            &self.x
        }

        /// The estimates of an attack on a release, d × n.
        ///
        /// # Errors
        /// Those of the attack.
        pub fn estimates(
            &self,
            attack: &dyn Attack,
            released: &ReleasedScores,
        ) -> Result<DMatrix<f64>, AttackError> {
            // Half a step of what the defense set to 0 would do better than the default; see
            // `Floor`.
            let view = AdversaryView::new(&self.model, &self.y, released, Replacement::default())?;
            // Says what is missing if the view has not what the attack needs.
            Ok(attack::run(attack, &view, 1)?.estimates)
        }

        /// The mean squared error of an attack on a release, per feature.
        ///
        /// # Errors
        /// Those of the attack.
        ///
        /// # Panics
        /// If the attack gives another number of features or records.
        pub fn error(
            &self,
            attack: &dyn Attack,
            released: &ReleasedScores,
        ) -> Result<f64, AttackError> {
            let estimates = self.estimates(attack, released)?;
            Ok(mse(&estimates, &self.x).expect("estimates of the records' shape").overall)
        }
    }
}
