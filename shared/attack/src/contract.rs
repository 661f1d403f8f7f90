//! The contract of an attack: its needs, its input and its result.
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is
//! not reachable from it; estimates are scored elsewhere, after the attack has returned.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_numerics::BoxOutcome;

use super::{AdversaryView, AttackError, EstimatedScores, Evidence, Questions, SystemSummary};

/// The degree to which an attack needs an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Need {
    /// The attack does not use it.
    #[default]
    No,
    /// The attack is stronger with it, and runs without.
    IfThere,
    /// The attack does not run without it.
    Yes,
}

impl Need {
    /// Returns true if the attack has a use for it.
    #[must_use]
    pub fn wanted(self) -> bool {
        self != Self::No
    }
}

/// The knowledge of the passive side's parameters that an attack needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parameters {
    /// No parameter (black box).
    #[default]
    Hidden,
    /// The equations A x = b' of a linear model.
    Linear,
    /// The logits as a differentiable function of the passive features.
    Differentiable,
}

/// The inputs that an attack needs. The default needs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// A release of the records under attack.
    pub release: Need,
    /// Further releases of the same records.
    pub repeated: Need,
    /// A coordinator that answers logit shares of the adversary's own choice.
    pub chosen_shares: Need,
    /// Labelled records of the adversary's own.
    pub labelled: Need,
    /// The number of records that the adversary asks about first, to refine a model of its own.
    pub seen: usize,
    /// Records whose passive features the adversary knows, with their release.
    pub auxiliary: Need,
    /// Passive parties that collude with the adversary.
    pub colluders: Need,
    /// Moments of the features.
    pub prior: Need,
    /// The knowledge of the parameters.
    pub parameters: Parameters,
    /// True if it also reads releases that are numbers. Otherwise it takes scores of classes.
    pub numbers: bool,
}

impl Needs {
    /// One release of the records, and no parameters.
    pub const RELEASE: Self = Self {
        release: Need::Yes,
        repeated: Need::No,
        chosen_shares: Need::No,
        labelled: Need::No,
        seen: 0,
        auxiliary: Need::No,
        colluders: Need::No,
        prior: Need::No,
        parameters: Parameters::Hidden,
        numbers: false,
    };

    /// One release of the records, and the parameters of a linear model: the white box of the
    /// papers.
    pub const WHITE_BOX: Self = Self { parameters: Parameters::Linear, ..Self::RELEASE };

    /// The same for attacks that read the equations A x = b' alone, whatever the link.
    pub const EQUATIONS: Self = Self { numbers: true, ..Self::WHITE_BOX };

    /// Returns the need for records whose passive features are known: for the records, or for their
    /// moments.
    #[must_use]
    pub fn known_records(&self) -> Need {
        self.auxiliary.max(self.prior)
    }

    /// Returns true if parameters must be known.
    #[must_use]
    pub fn white_box(&self) -> bool {
        self.parameters != Parameters::Hidden
    }
}

/// The origin of an estimate. It is an outcome, not an error: a system with many solutions is the
/// normal case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nothing was solved: the estimate does not depend on the scores.
    Baseline,
    /// The equations determine all features.
    Unique,
    /// The solution of least norm among many.
    LeastNorm {
        /// Rank of the system.
        rank: usize,
    },
    /// The solution nearest to ½ among many.
    NearestHalf {
        /// Rank of the system.
        rank: usize,
    },
    /// The point of the box that fits the equations best.
    BestFit {
        /// Rank of the system.
        rank: usize,
    },
    /// A centre of the points of the box that satisfy the equations.
    Centre {
        /// Rank of the system.
        rank: usize,
    },
    /// A point of the posterior of an adversary that knows moments of the features.
    Posterior {
        /// Rank of the system.
        rank: usize,
    },
    /// A regression on records that the adversary knows whole.
    Regression,
    /// The solution nearest to the middle, layer by layer of a network. No single rank describes
    /// it.
    LayerByLayer,
    /// The point of the features' grid that satisfies the equations, if one was found.
    GridPoint {
        /// Rank of the system.
        rank: usize,
    },
    /// The end of a descent on the scores.
    Descent,
    /// Nothing was solved: the values of the records were scaled to [0, 1].
    Scaled,
}

impl Status {
    /// Returns its name, as in a result file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Unique => "unique",
            Self::LeastNorm { .. } => "least_norm",
            Self::NearestHalf { .. } => "nearest_half",
            Self::BestFit { .. } => "best_fit",
            Self::Centre { .. } => "centre",
            Self::Posterior { .. } => "posterior",
            Self::Regression => "regression",
            Self::LayerByLayer => "layer_by_layer",
            Self::GridPoint { .. } => "grid_point",
            Self::Descent => "descent",
            Self::Scaled => "scaled",
        }
    }
}

/// The outcome for one record, for methods that work record by record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordOutcome {
    /// The end of the computation.
    pub ended: Termination,
    /// The number of steps taken.
    pub iterations: u32,
    /// The method's objective at the estimate: the relaxation's value, the squared misfit, the
    /// loss.
    pub objective: f64,
}

impl From<&BoxOutcome> for RecordOutcome {
    fn from(outcome: &BoxOutcome) -> Self {
        let ended = match (outcome.converged, outcome.consistent) {
            (false, _) => Termination::StepLimit,
            (true, true) => Termination::Solved,
            (true, false) => Termination::NearestConsistent,
        };
        Self { ended, iterations: outcome.iterations, objective: outcome.objective }
    }
}

/// The end of the computation for one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// The stopping rule was met on the scores as they are.
    Solved,
    /// No point of the box gives these scores, as with a defense: the nearest scores that one gives
    /// were solved for.
    NearestConsistent,
    /// The allowed steps were used up first; the estimate is the last point.
    StepLimit,
}

impl Termination {
    /// Returns its name, as in a result file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::NearestConsistent => "nearest_consistent",
            Self::StepLimit => "step_limit",
        }
    }
}

/// Estimates of the passive features, with their origin.
#[derive(Clone, PartialEq)]
pub struct Reconstruction {
    /// The estimates, d × n, one record per column.
    pub estimates: DMatrix<f64>,
    /// The origin of the estimates.
    pub status: Status,
    /// Facts of the system that was solved, if there was one.
    pub solved: Option<SystemSummary>,
    /// One outcome per record for methods that work record by record, else empty.
    pub outcomes: Vec<RecordOutcome>,
    /// For each record, true if its estimate is certain: no other value of the features gives these
    /// scores. Empty for methods that do not say.
    pub certain: Vec<bool>,
    /// Remarks in words, such as the transform that was undone and the evidence for it. Never a
    /// feature value or a score.
    pub remarks: Vec<String>,
    /// The evidence of the scores about the features, for estimators that add prior knowledge.
    pub evidence: Evidence,
    /// The questions asked, if there was more than one.
    pub questions: Option<Questions>,
    /// The scores attacked, if they are estimates themselves.
    pub estimated: Option<Box<EstimatedScores>>,
}

impl Reconstruction {
    /// Creates a reconstruction from estimates (d × n), with nothing more to say about them.
    #[must_use]
    pub fn new(estimates: DMatrix<f64>, status: Status) -> Self {
        Self {
            estimates,
            status,
            solved: None,
            outcomes: Vec::new(),
            certain: Vec::new(),
            remarks: Vec::new(),
            evidence: Evidence::Nothing,
            questions: None,
            estimated: None,
        }
    }

    /// Creates a reconstruction from the equations of a view, with the facts of the system and the
    /// equations as evidence.
    ///
    /// # Errors
    /// As [`AdversaryView::equations`].
    pub(super) fn solving(
        view: &AdversaryView<'_>,
        estimates: DMatrix<f64>,
        status: impl FnOnce(usize) -> Status,
    ) -> Result<Self, AttackError> {
        let solved = view.linear()?.solved(&estimates, view.b_prime()?);
        let status = if solved.nullity == 0 { Status::Unique } else { status(solved.rank) };
        let evidence = Evidence::Equations(view.equations()?);
        Ok(Self { solved: Some(solved), evidence, ..Self::new(estimates, status) })
    }

    /// Returns the most answers about one record that the estimates use; 0 if they depend on none.
    #[must_use]
    pub fn releases(&self) -> usize {
        match self.questions {
            _ if self.status == Status::Baseline => 0,
            None => self.estimated.as_ref().map_or(1, |estimated| usize::from(estimated.seen > 0)),
            Some(Questions::Repeated(averaged)) => averaged.queries,
            Some(Questions::Chosen(chosen)) => chosen.most_answers,
        }
    }
}

impl std::fmt::Debug for Reconstruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (d, n) = self.estimates.shape();
        write!(f, "Reconstruction({d} × {n}, {:?}, values withheld)", self.status)
    }
}

/// A reconstruction attack. Its result depends only on the view, the answers to its questions and
/// the generator.
pub trait Attack: Send + Sync + std::fmt::Debug {
    /// Returns the inputs that it needs.
    fn needs(&self) -> Needs;

    /// Estimates the passive features of every record of the view.
    ///
    /// # Errors
    /// [`AttackError`] when the view does not grant what the attack needs, or its system cannot be
    /// decomposed.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError>;
}

impl<A: Attack + ?Sized> Attack for &A {
    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

impl<A: Attack + ?Sized> Attack for Box<A> {
    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

/// Clips every estimate to [0, 1], where normalised features are known to lie.
pub(super) fn clamp(estimates: &mut DMatrix<f64>) {
    for v in estimates.as_mut_slice() {
        *v = v.clamp(0.0, 1.0);
    }
}
