//! The contract of an attack: what it needs, what it is given, and what it gives.
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is not reachable from it;
//! estimates are scored elsewhere, after the attack has returned.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_shared::numerics::BoxOutcome;

use super::{AdversaryView, AttackError, EstimatedScores, Evidence, Questions, Solved};

/// Whether an attack needs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Need {
    /// It does not look at it.
    #[default]
    No,
    /// It is stronger with it, and runs without.
    IfThere,
    /// It does not run without.
    Yes,
}

impl Need {
    /// Whether the attack has a use for it.
    #[must_use]
    pub fn wanted(self) -> bool {
        self != Self::No
    }
}

/// What an attack needs to know of the model's parameters on the passive side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parameters {
    /// Nothing (black box).
    #[default]
    Hidden,
    /// The equations A x = b' of a linear model.
    Linear,
    /// The logits as a function of the passive features that can be differentiated.
    Differentiable,
}

/// What an attack needs to be given. The default needs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// What was released of the records under attack.
    pub release: Need,
    /// Further releases of the same records.
    pub repeated: Need,
    /// A coordinator that answers logit shares of the adversary's own choice.
    pub chosen_shares: Need,
    /// Records of the adversary's own with their labels.
    pub labelled: Need,
    /// How many records the adversary asks about first, to refine a model of its own.
    pub seen: usize,
    /// Records whose passive features the adversary knows, with what was released of them.
    pub auxiliary: Need,
    /// Passive parties that collude with the adversary.
    pub colluders: Need,
    /// Moments of the features.
    pub prior: Need,
    /// What it needs to know of the parameters.
    pub parameters: Parameters,
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
    };

    /// One release of the records, and the parameters of a linear model: the white box of the papers.
    pub const WHITE_BOX: Self = Self { parameters: Parameters::Linear, ..Self::RELEASE };

    /// Whether it has a use for records whose passive features are known: for the records, or for their moments.
    #[must_use]
    pub fn known_records(&self) -> Need {
        self.auxiliary.max(self.prior)
    }

    /// Whether parameters must be known.
    #[must_use]
    pub fn white_box(&self) -> bool {
        self.parameters != Parameters::Hidden
    }
}

/// How an estimate came about. An outcome, not an error: a system with many solutions is the normal case.
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
    /// The solution nearest to the middle, layer by layer of a network: one rank does not tell of it.
    LayerByLayer,
    /// Where a descent on the scores ended.
    Descent,
    /// Nothing was solved: the spread of the records' values was put on [0, 1].
    Scaled,
}

impl Status {
    /// Its name, as in a result file.
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
            Self::Descent => "descent",
            Self::Scaled => "scaled",
        }
    }
}

/// How the estimate of one record came about, for methods that work record by record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordOutcome {
    /// What became of it.
    pub ended: Ended,
    /// Steps taken.
    pub iterations: u32,
    /// The method's objective at the estimate: the relaxation's value, the squared misfit, the loss.
    pub objective: f64,
}

impl From<&BoxOutcome> for RecordOutcome {
    fn from(outcome: &BoxOutcome) -> Self {
        let ended = match (outcome.converged, outcome.consistent) {
            (false, _) => Ended::StepLimit,
            (true, true) => Ended::Solved,
            (true, false) => Ended::NearestConsistent,
        };
        Self { ended, iterations: outcome.iterations, objective: outcome.objective }
    }
}

/// What became of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The stopping rule was met on the scores as they are.
    Solved,
    /// No point of the box gives these scores, as behind a defense: solved for the nearest scores that one gives.
    NearestConsistent,
    /// The steps allowed were used up first; the estimate is where they led.
    StepLimit,
}

impl Ended {
    /// Its name, as in a result file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::NearestConsistent => "nearest_consistent",
            Self::StepLimit => "step_limit",
        }
    }
}

/// Estimates of the passive features, with how they came about.
#[derive(Clone, PartialEq)]
pub struct Reconstruction {
    /// d × n, one record per column.
    pub estimates: DMatrix<f64>,
    /// How they came about.
    pub status: Status,
    /// Of the system solved, if one was.
    pub solved: Option<Solved>,
    /// One per record for methods that work record by record, else empty.
    pub outcomes: Vec<RecordOutcome>,
    /// One per record: whether the method is certain of the whole record, every value of it. Empty: it does not say.
    pub certain: Vec<bool>,
    /// What the attack has to say in words: which transform it undid, and on what evidence. Never a feature value or a score.
    pub remarks: Vec<String>,
    /// What the scores say of the features, as the adversary knows it: for estimators that add what they know beforehand.
    pub evidence: Evidence,
    /// The questions asked, where it was not one.
    pub questions: Option<Questions>,
    /// The scores attacked, where they are estimates themselves.
    pub estimated: Option<Box<EstimatedScores>>,
}

impl Reconstruction {
    /// Estimates (d × n) with nothing more to say about them.
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

    /// Estimates from the equations of a view: with what was solved, and the equations as evidence.
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

    /// Of how many answers about a record the estimates made use, at most. 0: they depend on none.
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

/// A reconstruction attack. What it gives depends on the view, the answers to its questions and the generator alone.
pub trait Attack: Send + Sync + std::fmt::Debug {
    /// What it needs to be given.
    fn needs(&self) -> Needs;

    /// Estimates the passive features of every record of the view.
    ///
    /// # Errors
    /// [`AttackError`] when the view does not grant what the attack needs, or its system cannot be decomposed.
    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError>;
}

impl<A: Attack + ?Sized> Attack for &A {
    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

impl<A: Attack + ?Sized> Attack for Box<A> {
    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

/// Clips every estimate to [0, 1], where normalised features are known to lie.
pub(super) fn clamp(estimates: &mut DMatrix<f64>) {
    for v in estimates.as_mut_slice() {
        *v = v.clamp(0.0, 1.0);
    }
}
