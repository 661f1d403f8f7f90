//! The results of an attack: the status of its estimates, their errors and the added risk.

use serde::{Deserialize, Serialize};
use vfl_core::metrics::AttributeFigures;
use vfl_protocol::reconstruct::Refused;
use vfl_transform::scoring::Halves;

use super::errors::Errors;

/// The result of one attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackResult {
    /// The name, as on the command line.
    pub name: String,
    /// The outcome of the attack.
    pub outcome: Outcome,
    /// The number of records whose released scores no features in the box give; the nearest scores
    /// that some features give were taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nearest_consistent: u64,
    /// The number of records on which it stopped at its limit of steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step_limit: u64,
    /// The mean squared difference, over classes and records, between the released scores and those
    /// of the model at the estimates: the loss that the adversary sees without the truth ("MSE" of
    /// the tables of P, errata P1). At least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_mismatch: Option<f64>,
    /// The number of records that it is certain to have rebuilt exactly in every value, if it can
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certain: Option<u64>,
    /// The added risk over all features together, if there is a control: the same adversary without
    /// scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_risk: Option<AddedRisk>,
    /// The figures by attribute of the passive parties' schemas, since version 10: compared with
    /// the control of `added_risk`, or without one with the mean of each feature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeResult>,
}

/// The figures of an attack on one attribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributeResult {
    /// The passive party that holds the attribute.
    pub party: String,
    /// The figures on the attribute.
    pub figures: AttributeFigures,
}

/// The added risk of an attack over its control: 1 − error / control. Above 0 the release reveals
/// more than the control knows without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedRisk {
    /// The name of the control, an attack without scores.
    pub control: String,
    /// The mean squared error of the control per feature, on the same records.
    pub control_mse: f64,
    /// The added risk, at most 1; absent if the control has no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The lower end of the 95 % interval: over records if parties answer without noise, otherwise
    /// over the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The added risk on two halves of the records, if parties answer without noise and there are
    /// at least 100 records. Each half chooses the strongest of several attacks, which is then
    /// evaluated on the other half, free of selection bias
    /// ([`Audit::added_risk`](super::Audit::added_risk)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<Halves>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The outcome of an attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// The attack ran and was scored.
    Ran {
        /// The status of the estimates.
        status: Status,
        /// The errors of the estimates.
        errors: Errors,
    },
    /// The attack ran, but its error was not asked for.
    NotScored {
        /// The status of the estimates.
        status: Status,
        /// The reason that it was not scored, in words.
        reason: String,
    },
    /// The attack could not run against this release.
    NotRun {
        /// The kind of reason.
        why: Refused,
        /// The reason in words.
        reason: String,
    },
}

/// The way in which an attack found its estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Status {
    /// A guess that uses no release at all.
    Guess,
    /// The equations determine every feature.
    Unique,
    /// Fewer independent equations than unknowns: the solution of least norm.
    LeastNorm {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// Fewer independent equations than unknowns: the solution nearest to 1/2.
    NearestHalf {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// The point of the box that fits the equations best.
    BestFit {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// A centre of the points of the box that satisfy the equations or bounds.
    Centre {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// A point of the posterior of an adversary that knows moments of the features.
    Posterior {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// The point of the features' grid that satisfies the equations, if one was found.
    GridPoint {
        /// The number r of independent equations.
        rank: usize,
        /// The number d of unknowns.
        unknowns: usize,
    },
    /// A regression on whole records that the adversary knows.
    Regression,
    /// The solution nearest to the middle, layer by layer of a network.
    LayerByLayer,
    /// The end point of a descent on the scores.
    Descent,
    /// The records' values, scaled to the range [0, 1].
    Scaled,
    /// An iterative attack stopped at its limit.
    IterationLimit {
        /// The number of iterations.
        iterations: u64,
    },
}
