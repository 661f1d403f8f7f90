//! What an attack came to: how its estimates come about, their errors, and the risk they add.

use serde::{Deserialize, Serialize};
use vfl_shared::metrics::AttributeFigures;

use super::errors::Errors;

/// One attack and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackResult {
    /// Name as on the command line.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Records whose released scores no features in the box give: the nearest scores that some give were taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nearest_consistent: u64,
    /// Records on which it stopped at its limit of steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step_limit: u64,
    /// Mean squared difference, over classes and records, of the released scores and those that the model gives at the estimates:
    /// the loss that the adversary sees without the truth ("MSE" of the tables of P, errata P1). At least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_mismatch: Option<f64>,
    /// Records that it is certain to have rebuilt exactly, every value of them, where it says so of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certain: Option<u64>,
    /// What it adds to a control that knows the same and has no scores, if there is one: over all features together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_risk: Option<AddedRisk>,
    /// Its figures by attribute of the passive parties' schemas, since version 10: beside the control of `added_risk`, or where there is
    /// none beside the mean of each feature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeResult>,
}

/// Figures of an attack on one attribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributeResult {
    /// The passive party whose attribute it is.
    pub party: String,
    /// The figures.
    pub figures: AttributeFigures,
}

/// What an attack adds to its control: 1 − error / control. Above 0 the release tells more than the control knows without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedRisk {
    /// Name of the control, an attack without scores.
    pub control: String,
    /// Its mean squared error per feature on the same records.
    pub control_mse: f64,
    /// The figure, at most 1; absent where the control has no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Lower end of its interval of 95 %: over records where parties answer without noise, over the noise otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The figure on two halves of the records, where parties answer without noise and there are 100 records at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<Halves>,
}

/// Added risk on two halves of the records. The strongest of several attacks is chosen by either half; what the choice has not
/// flattered is told of the other ([`Audit::added_risk`](super::Audit::added_risk)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halves {
    /// On the records in even places, from 0.
    pub first: f64,
    /// On the others.
    pub second: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What came of an attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// It ran and was scored.
    Ran {
        /// How its estimates come about.
        status: Status,
        /// Their errors.
        errors: Errors,
    },
    /// It ran, and its error was not asked for.
    NotScored {
        /// How its estimates come about.
        status: Status,
        /// Why not, in words.
        reason: String,
    },
    /// It could not run against this release.
    NotRun {
        /// What kept it from running.
        why: Refused,
        /// The same in words.
        reason: String,
    },
}

/// What keeps an attack from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
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
    /// Its settings do not fit the model.
    Settings,
    /// Numbers grew beyond what a double holds.
    Numerics,
    /// The party that ran it did not say.
    Unknown,
}

/// How an attack's estimates come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Status {
    /// A guess that uses no release at all.
    Guess,
    /// The equations determine every feature.
    Unique,
    /// Fewer independent equations than unknowns: the solution of least norm.
    LeastNorm {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// Fewer independent equations than unknowns: the solution nearest to 1/2.
    NearestHalf {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// The point of the box that fits the equations best.
    BestFit {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// A centre of the points of the box that satisfy the equations or bounds.
    Centre {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// A point of the posterior of an adversary that knows moments of the features.
    Posterior {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// The point of the grid of the features that satisfies the equations, where one was found.
    GridPoint {
        /// Independent equations r.
        rank: usize,
        /// Unknowns d.
        unknowns: usize,
    },
    /// A regression on records that the adversary knows whole.
    Regression,
    /// The solution nearest to the middle, layer by layer of a network.
    LayerByLayer,
    /// Where a descent on the scores ended.
    Descent,
    /// The spread of the records' values was put on [0, 1].
    Scaled,
    /// An iterative attack stopped at its limit.
    IterationLimit {
        /// Iterations run.
        iterations: u64,
    },
}
