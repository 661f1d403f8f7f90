//! The contract of a metric, which measures estimates of features against the truth, beside the
//! mean squared error.

use std::fmt;

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::MetricError;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share of records or of values, in [0, 1].
    Share,
    /// A number without a unit, in [0, 1].
    Coefficient,
    /// Squared units of a feature, whose range is [0, 1]: in [0, 1] too.
    SquaredFeature,
    /// Bits, at least 0.
    Bits,
}

impl Unit {
    /// Returns the largest possible figure; the least is 0.
    #[must_use]
    pub fn most(self) -> f64 {
        match self {
            Self::Share | Self::Coefficient | Self::SquaredFeature => 1.0,
            Self::Bits => f64::INFINITY,
        }
    }
}

/// The direction in which a figure moves as the adversary does better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The figure rises.
    Higher,
    /// The figure falls.
    Lower,
}

/// A function that classifies records (d × n) by the measured features alone and returns n classes.
///
/// # Errors
/// [`MetricError::NoClasses`] if there is no such classifier.
pub type Classify<'a> = &'a dyn Fn(&DMatrix<f64>) -> Result<Vec<u32>, MetricError>;

/// The input of a metric.
#[derive(Clone, Copy)]
pub struct Reconstruction<'a> {
    /// Estimates, d × n, in [0, 1].
    pub estimates: &'a DMatrix<f64>,
    /// The truth, d × n, in [0, 1].
    pub truth: &'a DMatrix<f64>,
    /// A classifier that does not depend on the estimates.
    pub classify: Classify<'a>,
}

/// Shows the size only.
impl fmt::Debug for Reconstruction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (d, n) = self.truth.shape();
        write!(f, "Reconstruction({d} × {n}, values withheld)")
    }
}

/// A metric of reconstructions that an audit may ask for.
pub trait Metric: fmt::Debug + Sync {
    /// Returns the name in options, on the wire and in a report: letters, digits and `_`.
    fn name(&self) -> &'static str;

    /// Returns the heading of the metric's column, at most 20 characters.
    fn title(&self) -> &'static str;

    /// Returns the meaning of a figure, in half a sentence that follows its title and a colon.
    fn meaning(&self) -> &'static str;

    /// Returns the unit of the figures.
    fn unit(&self) -> Unit;

    /// Returns the direction in which figures move as the adversary does better.
    fn direction(&self) -> Direction;

    /// Computes the figure; `None` if it is not defined for these records. A metric with a
    /// [`Metric::sensitivity`] is always defined.
    ///
    /// # Errors
    /// [`MetricError`] if the shapes differ, there is no feature or no record, a value is not
    /// finite, or a classifier is missing.
    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError>;

    /// Returns a proved bound, above 0, on the change of the figure of these estimates (d × n, in
    /// [0, 1]) if all features of one record of the truth change to any others in [0, 1]; `None` if
    /// there is no such bound. A figure without a bound is never reported with noise, since no
    /// amount of noise is known to be enough.
    ///
    /// The estimates are the auditor's and not secret, so the bound may depend on them. It must not
    /// depend on the truth.
    fn sensitivity(&self, estimates: &DMatrix<f64>) -> Option<f64>;

    /// Returns true if the metric has a [`Metric::sensitivity`].
    fn bounded(&self) -> bool {
        self.sensitivity(&DMatrix::from_element(1, 1, 0.5)).is_some()
    }
}

/// Metrics are equal if their names are equal.
impl PartialEq for dyn Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
