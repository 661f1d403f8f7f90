//! Why an attack cannot run.

use vfl_shared::metrics::MetricError;
use vfl_shared::model::SpecError;
use vfl_shared::numerics::{DecompositionError, GaussianError};
use vfl_shared::types::{ReleasedScores, ShapeError};

use super::{KnowledgeError, OneFeatureError, OracleError, PriorError};

/// Why an attack cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// The view does not hold the passive parameters.
    #[error("this attack needs the passive party's parameters, and they are hidden (black box)")]
    NeedsParameters,
    /// The parameters are those of a network, and the attack takes weights.
    #[error(
        "this attack solves linear equations for the features, and the sub-models are not linear; `gradient_inversion` takes \
         them, and `gaussian` where moments are known"
    )]
    NotLinear,
    /// A sub-model that cannot be differentiated.
    #[error("sub-models of kind `{kind}` have no gradient with respect to their features here")]
    NotDifferentiable {
        /// The kind.
        kind: String,
    },
    /// A network that cannot be turned back layer by layer.
    #[error(
        "this attack turns a network back layer by layer, and {what} has no inverse; `gradient_inversion` takes such networks, and \
         `gaussian` where moments are known"
    )]
    NotInvertible {
        /// What has none.
        what: String,
    },
    /// Too many features for a solve per record and step.
    #[error(
        "through a network a system is solved at each step of each record: {got} features, expected at most {limit}"
    )]
    Features {
        /// What came.
        got: usize,
        /// The most that is tried.
        limit: usize,
    },
    /// More steps than a descent, or a training, may take.
    #[error("{}", too_much_work(what, *got, *limit))]
    Steps {
        /// The setting.
        what: &'static str,
        /// What came.
        got: u32,
        /// The most for these records.
        limit: u64,
    },
    /// The attack was not given what it needs.
    #[error("this attack needs {what}")]
    Missing {
        /// What is missing, and where it comes from.
        what: &'static str,
    },
    /// The attack was refused what it needs.
    #[error("{reason}")]
    NotGranted {
        /// Who refused, and which setting would grant it.
        reason: String,
    },
    /// Nothing was released of the records.
    #[error("this attack needs scores, and none were released of the records")]
    NoScores,
    /// Parts of a view that do not fit together.
    #[error("the adversary's view is inconsistent: {0}")]
    View(#[from] ShapeError),
    /// The replacement of zero scores is out of range.
    #[error("`zero_floor` is {got}, expected above 0 and at most 0.5")]
    Floor {
        /// What came.
        got: f64,
    },
    /// Numbers grew beyond what a double holds.
    #[error("{what} is not finite: parameters, ranges or scores are too large or too small to compute with")]
    NotFinite {
        /// What came out.
        what: &'static str,
    },
    /// The difference of weights cannot be decomposed.
    #[error("the system A x = b' cannot be solved: {0}")]
    Decomposition(#[from] DecompositionError),
    /// The moments of the features cannot be used.
    #[error("what is known of the features beforehand: {0}")]
    Gaussian(#[from] GaussianError),
    /// Moments that do not fit.
    #[error("moments of the features: {0}")]
    Prior(#[from] PriorError),
    /// An attack that says nothing that a prior could be put together with.
    #[error(
        "the attack chosen by `evidence` says nothing of the features that does not come from its own guess: choose one that \
         works out equations, bounds or noisy scores"
    )]
    NoEvidence,
    /// The attack on one feature cannot run.
    #[error(transparent)]
    OneFeature(#[from] OneFeatureError),
    /// A shadow of an architecture that cannot be built.
    #[error("the shadow model: {0}")]
    Shadow(#[from] SpecError),
    /// Nothing to estimate the passive parameters from.
    #[error("there is no auxiliary record")]
    NoAuxiliary,
    /// A coalition against nobody.
    #[error("no passive party with a feature is a target")]
    NoTarget,
    /// A passive party whose part does not fit.
    #[error("passive party {party}: {error}")]
    Party {
        /// Its position, from 0.
        party: usize,
        /// What does not fit.
        #[source]
        error: ShapeError,
    },
    /// The solutions have more dimensions than their corners can be counted in.
    #[error(
        "the exact Chebyshev centre is found from corners: {features} features leave {nullity} dimensions free, \
         expected at most {limit}"
    )]
    Nullity {
        /// Features, d.
        features: usize,
        /// d − rank A.
        nullity: usize,
        /// The most that is tried.
        limit: usize,
    },
    /// The solutions of a record have too many corners.
    #[error(
        "the exact Chebyshev centre is found from corners: with {features} features and {nullity} dimensions free, a \
         record has more than {limit}"
    )]
    Corners {
        /// Features, d.
        features: usize,
        /// d − rank A.
        nullity: usize,
        /// The most that is tried.
        limit: usize,
    },
    /// What is known of the features does not fit them, or itself.
    #[error("what is known of the features: {0}")]
    Knowledge(#[from] KnowledgeError),
    /// More two-valued features than all assignments of can be tried.
    #[error(
        "all assignments of two-valued features are tried: there are {got} such features, expected at most {limit}"
    )]
    Binary {
        /// What came.
        got: usize,
        /// The most that is tried.
        limit: usize,
    },
    /// The policy is not one that the attack is made for.
    #[error("{attack} is made for {expected}; the policy is `{got}`: set `policy` to what the coordinator does")]
    Policy {
        /// The attack.
        attack: &'static str,
        /// What it is made for.
        expected: &'static str,
        /// The policy.
        got: String,
    },
    /// What was released is of a kind that the attack, or the policy it was told, has no use for.
    #[error("{attack} needs {expected}, and {got} were released")]
    Unfit {
        /// The attack.
        attack: &'static str,
        /// What it needs.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// Releases that cannot be averaged.
    #[error("releases cannot be averaged: {reason}")]
    Releases {
        /// Why.
        reason: &'static str,
    },
    /// The attack asks questions, and was given answers.
    #[error("{attack} asks the coordinator itself, with shares of its own choice: it does not run on one release")]
    NeedsOracle {
        /// The attack.
        attack: &'static str,
    },
    /// The attack needs records with labels, and was given a release.
    #[error(
        "{attack} attacks records that were never scored, by a model of the adversary's own: it needs records with labels \
         (`training` in a case)"
    )]
    NoLabelled {
        /// The attack.
        attack: &'static str,
    },
    /// A label that is no class.
    #[error("the label of labelled record {record} is no class: expected 0 to {}", .classes - 1)]
    Label {
        /// Its position, from 0.
        record: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A weight of an objective that is none.
    #[error("`{what}` is {got}, expected a finite number of at least 0")]
    Weight {
        /// The setting.
        what: &'static str,
        /// What came.
        got: f64,
    },
    /// Scores and estimates of them that cannot be compared.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// An attack that cannot be built upon.
    #[error("`base` is {got}, expected an attack that knows the parameters and runs on one release")]
    Base {
        /// What came.
        got: &'static str,
    },
    /// The coordinator could not be asked.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// Not even the honest question was answered.
    #[error("every record was refused at the first question: the budget is spent, or other shares were bound before")]
    Refused,
}

/// What keeps an attack from running, as a reader may want to act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRun {
    /// The passive parameters are not released.
    ParametersHidden,
    /// The adversary lacks something else that the attack needs.
    Missing,
    /// The attack is not made for this release, this policy or this model.
    Unsuitable,
    /// What it would have to compute is beyond its limits.
    TooLarge,
    /// The coordinator did not answer.
    Unanswered,
    /// Its settings, or what they state, do not fit the model.
    Settings,
    /// Numbers grew beyond what a double holds.
    Numerics,
}

/// What to do about work that would go on for too long.
fn too_much_work(what: &str, got: u32, limit: u64) -> String {
    match limit {
        0 => format!(
            "a single one of the {what} on these records is more work than an attack may take; name fewer records"
        ),
        _ => format!(
            "{got} {what} on these records are more work than an attack may take, expected at most {limit}; lower `{what}`, or \
             name fewer records"
        ),
    }
}

impl AttackError {
    /// What keeps the attack from running.
    #[must_use]
    pub fn not_run(&self) -> NotRun {
        match self {
            Self::NeedsParameters => NotRun::ParametersHidden,
            Self::Missing { .. }
            | Self::NotGranted { .. }
            | Self::NoScores
            | Self::NoAuxiliary
            | Self::NeedsOracle { .. }
            | Self::NoLabelled { .. }
            | Self::NoTarget => NotRun::Missing,
            Self::NoEvidence
            | Self::NotLinear
            | Self::NotDifferentiable { .. }
            | Self::NotInvertible { .. }
            | Self::OneFeature(_)
            | Self::Policy { .. }
            | Self::Unfit { .. }
            | Self::Releases { .. } => NotRun::Unsuitable,
            Self::Nullity { .. }
            | Self::Corners { .. }
            | Self::Binary { .. }
            | Self::Features { .. }
            | Self::Steps { .. } => NotRun::TooLarge,
            Self::Oracle(_) | Self::Refused => NotRun::Unanswered,
            Self::View(_)
            | Self::Floor { .. }
            | Self::Party { .. }
            | Self::Knowledge(_)
            | Self::Label { .. }
            | Self::Weight { .. }
            | Self::Base { .. }
            | Self::Shadow(_)
            | Self::Prior(_)
            | Self::Gaussian(GaussianError::Negative { .. }) => NotRun::Settings,
            Self::NotFinite { .. } | Self::Gaussian(_) | Self::Decomposition(_) | Self::Metric(_) => NotRun::Numerics,
        }
    }

    pub(super) fn unfit(attack: &'static str, expected: &'static str, released: &ReleasedScores) -> Self {
        let got = match released {
            ReleasedScores::Probabilities(_) | ReleasedScores::Numbers(_) => "score vectors",
            ReleasedScores::Labels { .. } => "labels",
            ReleasedScores::Ciphertexts(_) => "ciphertexts",
        };
        Self::Unfit { attack, expected, got }
    }
}
