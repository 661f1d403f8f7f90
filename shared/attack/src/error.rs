//! Errors of attacks.

use vfl_core::metrics::MetricError;
use vfl_core::model::SpecError;
use vfl_core::types::{ReleasedScores, ShapeError};
use vfl_numerics::{DecompositionError, GaussianError};

use super::{KnowledgeError, OneFeatureError, OracleError, PriorError};

/// Errors from running an attack.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// The view does not hold the passive parameters.
    #[error("this attack needs the passive party's parameters, and they are hidden (black box)")]
    NeedsParameters,
    /// The attack takes a softmax of linear outputs, and the model is a network or one-vs-rest.
    #[error(
        "this attack solves linear equations for the features, and the scores are no softmax of linear outputs; `gradient_inversion` takes \
         them, and `gaussian` where moments are known"
    )]
    NotLinear,
    /// A sub-model cannot be differentiated.
    #[error("sub-models of kind `{kind}` have no gradient with respect to their features here")]
    NotDifferentiable {
        /// The kind of the sub-model.
        kind: String,
    },
    /// A network cannot be inverted layer by layer.
    #[error(
        "this attack turns a network back layer by layer, and {what} has no inverse; `gradient_inversion` takes such networks, and \
         `gaussian` where moments are known"
    )]
    NotInvertible {
        /// The part without an inverse.
        what: String,
    },
    /// There are too many features for a solve per record and step.
    #[error(
        "through a network a system is solved at each step of each record: {got} features, expected at most {limit}"
    )]
    Features {
        /// The number of features.
        got: usize,
        /// The largest number that is tried.
        limit: usize,
    },
    /// A descent, or a training, would take more steps than it may.
    #[error("{}", too_much_work(what, *got, *limit))]
    Steps {
        /// The name of the setting.
        what: &'static str,
        /// The number given.
        got: u32,
        /// The largest number for these records.
        limit: u64,
    },
    /// The attack was not given what it needs.
    #[error("this attack needs {what}")]
    Missing {
        /// The missing input, and its source.
        what: &'static str,
    },
    /// The attack was refused what it needs.
    #[error("{reason}")]
    NotGranted {
        /// The party that refused, and the setting that would grant it.
        reason: String,
    },
    /// The attack reads scores of classes, and the model's output is a number.
    #[error(
        "this attack reads scores of classes, and the model's output is a number; `half_star`, `rcc2`, `lattice` and `interval` \
         take numbers"
    )]
    Numbers,
    /// Nothing was released of the records.
    #[error("this attack needs scores, and none were released of the records")]
    NoScores,
    /// The parts of a view do not fit together.
    #[error("the adversary's view is inconsistent: {0}")]
    View(#[from] ShapeError),
    /// The replacement of zero scores is out of range.
    #[error("`zero_floor` is {got}, expected above 0 and at most 0.5")]
    Floor {
        /// The value given.
        got: f64,
    },
    /// Numbers grew beyond what a double holds.
    #[error(
        "{what} is not finite: parameters, ranges or scores are too large or too small to compute with"
    )]
    NotFinite {
        /// The number that is not finite.
        what: &'static str,
    },
    /// The difference of weights cannot be decomposed.
    #[error("the system A x = b' cannot be solved: {0}")]
    Decomposition(#[from] DecompositionError),
    /// The moments of the features cannot be used.
    #[error("what is known of the features beforehand: {0}")]
    Gaussian(#[from] GaussianError),
    /// The moments do not fit.
    #[error("moments of the features: {0}")]
    Prior(#[from] PriorError),
    /// The attack gives no evidence that could be combined with a prior.
    #[error(
        "the attack chosen by `evidence` says nothing of the features that does not come from its own guess: choose one that \
         works out equations, bounds or noisy scores"
    )]
    NoEvidence,
    /// The attack on one feature cannot run.
    #[error(transparent)]
    OneFeature(#[from] OneFeatureError),
    /// The architecture of the shadow cannot be built.
    #[error("the shadow model: {0}")]
    Shadow(#[from] SpecError),
    /// There is no auxiliary record to estimate the passive parameters from.
    #[error("there is no auxiliary record")]
    NoAuxiliary,
    /// A coalition has no target.
    #[error("no passive party with a feature is a target")]
    NoTarget,
    /// The part of a passive party does not fit.
    #[error("passive party {party}: {error}")]
    Party {
        /// Its position, from 0.
        party: usize,
        /// The mismatch of sizes.
        #[source]
        error: ShapeError,
    },
    /// The solutions have more dimensions than their corners can be counted in.
    #[error(
        "the exact Chebyshev centre is found from corners: {features} features leave {nullity} dimensions free, \
         expected at most {limit}"
    )]
    Nullity {
        /// The number of features, d.
        features: usize,
        /// The free dimensions, d − rank A.
        nullity: usize,
        /// The largest number that is tried.
        limit: usize,
    },
    /// The solutions of a record have too many corners.
    #[error(
        "the exact Chebyshev centre is found from corners: with {features} features and {nullity} dimensions free, a \
         record has more than {limit}"
    )]
    Corners {
        /// The number of features, d.
        features: usize,
        /// The free dimensions, d − rank A.
        nullity: usize,
        /// The largest number that is tried.
        limit: usize,
    },
    /// The knowledge of the features does not fit them, or contradicts itself.
    #[error("what is known of the features: {0}")]
    Knowledge(#[from] KnowledgeError),
    /// There are too many two-valued features to try all their assignments.
    #[error(
        "all assignments of two-valued features are tried: there are {got} such features, expected at most {limit}"
    )]
    Binary {
        /// The number of two-valued features.
        got: usize,
        /// The largest number that is tried.
        limit: usize,
    },
    /// The policy is not one that the attack is made for.
    #[error(
        "{attack} is made for {expected}; the policy is `{got}`: set `policy` to what the coordinator does"
    )]
    Policy {
        /// The name of the attack.
        attack: &'static str,
        /// The policies that it is made for.
        expected: &'static str,
        /// The policy that was given.
        got: String,
    },
    /// The attack, or the policy that it was given, has no use for this kind of release.
    #[error("{attack} needs {expected}, and {got} were released")]
    Unfit {
        /// The name of the attack.
        attack: &'static str,
        /// The kind of release that it needs.
        expected: &'static str,
        /// The kind that was released.
        got: &'static str,
    },
    /// The releases cannot be averaged.
    #[error("releases cannot be averaged: {reason}")]
    Releases {
        /// The reason in words.
        reason: &'static str,
    },
    /// The attack asks questions itself, and was given a release.
    #[error(
        "{attack} asks the coordinator itself, with shares of its own choice: it does not run on one release"
    )]
    NeedsOracle {
        /// The name of the attack.
        attack: &'static str,
    },
    /// The attack needs labelled records, and was given a release.
    #[error(
        "{attack} attacks records that were never scored, by a model of the adversary's own: it needs records with labels \
         (`training` in a case)"
    )]
    NoLabelled {
        /// The name of the attack.
        attack: &'static str,
    },
    /// A label is no class.
    #[error("the label of labelled record {record} is no class: expected 0 to {}", .classes - 1)]
    Label {
        /// Its position, from 0.
        record: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A weight of an objective is negative or not finite.
    #[error("`{what}` is {got}, expected a finite number of at least 0")]
    Weight {
        /// The name of the setting.
        what: &'static str,
        /// The value given.
        got: f64,
    },
    /// Scores and their estimates cannot be compared.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The attack cannot be a base.
    #[error(
        "`base` is {got}, expected an attack that knows the parameters and runs on one release"
    )]
    Base {
        /// The name of the attack.
        got: &'static str,
    },
    /// The coordinator could not be asked.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// Not even the honest question was answered.
    #[error(
        "every record was refused at the first question: the budget is spent, or other shares were bound before"
    )]
    Refused,
}

/// The class of the reason that kept an attack from running, for a reader who may want to act on
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The passive parameters are not released.
    ParametersHidden,
    /// The adversary lacks something else that the attack needs.
    Missing,
    /// The attack is not made for this release, this policy or this model.
    Unsuitable,
    /// The computation exceeds the limits of the attack.
    TooLarge,
    /// The coordinator did not answer.
    Unanswered,
    /// Its settings, or the facts that they state, do not fit the model.
    Settings,
    /// Numbers grew beyond what a double holds.
    Numerics,
}

/// Returns the advice for work that would go on for too long.
fn too_much_work(what: &str, got: u32, limit: u64) -> String {
    match limit {
        0 => format!(
            "a single one of the {what} on these records is more work than an attack may take; name fewer records"
        ),
        // Words that are no setting cannot be lowered.
        _ if what.contains(' ') => format!(
            "{got} {what} on these records are more work than an attack may take, expected at most {limit}; name fewer records"
        ),
        _ => format!(
            "{got} {what} on these records are more work than an attack may take, expected at most {limit}; lower `{what}`, or \
             name fewer records"
        ),
    }
}

impl AttackError {
    /// Returns the class of the reason that keeps the attack from running.
    #[must_use]
    pub fn not_run(&self) -> FailureClass {
        match self {
            Self::NeedsParameters => FailureClass::ParametersHidden,
            Self::Missing { .. }
            | Self::NotGranted { .. }
            | Self::NoScores
            | Self::NoAuxiliary
            | Self::NeedsOracle { .. }
            | Self::NoLabelled { .. }
            | Self::NoTarget => FailureClass::Missing,
            Self::NoEvidence
            | Self::NotLinear
            | Self::Numbers
            | Self::NotDifferentiable { .. }
            | Self::NotInvertible { .. }
            | Self::OneFeature(_)
            | Self::Policy { .. }
            | Self::Unfit { .. }
            | Self::Releases { .. } => FailureClass::Unsuitable,
            Self::Nullity { .. }
            | Self::Corners { .. }
            | Self::Binary { .. }
            | Self::Features { .. }
            | Self::Steps { .. } => FailureClass::TooLarge,
            Self::Oracle(_) | Self::Refused => FailureClass::Unanswered,
            Self::View(_)
            | Self::Floor { .. }
            | Self::Party { .. }
            | Self::Knowledge(_)
            | Self::Label { .. }
            | Self::Weight { .. }
            | Self::Base { .. }
            | Self::Shadow(_)
            | Self::Prior(_)
            | Self::Gaussian(GaussianError::Negative { .. }) => FailureClass::Settings,
            Self::NotFinite { .. }
            | Self::Gaussian(_)
            | Self::Decomposition(_)
            | Self::Metric(_) => FailureClass::Numerics,
        }
    }

    pub(super) fn unfit(
        attack: &'static str,
        expected: &'static str,
        released: &ReleasedScores,
    ) -> Self {
        let got = match released {
            ReleasedScores::Probabilities(_) | ReleasedScores::Numbers(_) => "score vectors",
            ReleasedScores::Labels { .. } => "labels",
            ReleasedScores::Ciphertexts(_) => "ciphertexts",
        };
        Self::Unfit { attack, expected, got }
    }
}
