//! One feature of a public schema: its kind, its range, and its place in [0, 1].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::scale::Scale;

/// The kind of values that a feature takes. An attack that knows that a feature is binary
/// reconstructs it far better than one that only knows its range, so a party publishes the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureKind {
    /// Any number in the range.
    Numeric,
    /// One of two values: the minimum or the maximum of the range.
    Binary,
    /// Ordered steps written as numbers.
    Ordinal,
}

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Numeric => "numeric",
            Self::Binary => "binary",
            Self::Ordinal => "ordinal",
        })
    }
}

/// One row of a feature block: its name, its kind and its declared public range. A category that
/// was one-hot encoded is one such feature per category, all with the same `group`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSpec {
    /// Unique among the features of a party.
    pub name: String,
    /// The kind of its values.
    pub kind: FeatureKind,
    /// The declared minimum, in the units of the source; it becomes 0.
    pub min: f64,
    /// The declared maximum; it becomes 1. Equal to `min` for a constant feature, which becomes 0.
    pub max: f64,
    /// For a one-hot column, the categorical feature it belongs to: exactly one column of a whole
    /// group is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The distance of neighbouring values in the units of the source, starting at `min`: 1 for
    /// ages in years. It divides the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// The distance in the units of the source within which an estimate counts as right, above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The function that its values go through before its range becomes [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

impl FeatureSpec {
    /// Creates a numeric feature with the given range.
    #[must_use]
    pub fn numeric(name: impl Into<String>, min: f64, max: f64) -> Self {
        let kind = FeatureKind::Numeric;
        let (group, step, tolerance, scale) = (None, None, None, None);
        Self { name: name.into(), kind, min, max, group, step, tolerance, scale }
    }

    /// Returns the distance of neighbouring values as a share of the range, in (0, 1]: 1 for a
    /// binary feature, and one unit for an ordinal feature of whole numbers without a step. `None`
    /// if the schema does not declare the feature's grid, its range is a point, or a scale makes
    /// the distances differ.
    #[must_use]
    pub fn grid(&self) -> Option<f64> {
        if self.scale.is_some() {
            return None;
        }
        let whole = self.min.fract() == 0.0 && self.max.fract() == 0.0;
        let width = self.max - self.min;
        let step = match self.kind {
            _ if width == 0.0 => return None,
            FeatureKind::Binary => return Some(1.0),
            // A normalised range of 0 to 1 does not show how many steps are in it.
            FeatureKind::Ordinal if whole && width >= 2.0 => self.step.unwrap_or(1.0),
            FeatureKind::Numeric | FeatureKind::Ordinal => self.step?,
        };
        Some(1.0 / (width / step).round())
    }

    /// Returns true if a value of the range lies on the grid, up to a millionth of a step and
    /// round-off. Every value does if no step is declared.
    pub(super) fn is_on_grid(&self, value: f64) -> bool {
        let is_whole =
            |steps: f64, step| (steps - steps.round()).abs() <= ON_GRID + self.round_off(step);
        self.step.is_none_or(|step| is_whole((value - self.min) / step, step))
    }

    /// Returns how far, in steps, round-off can move a number of the range from its place on the
    /// grid. A decimal and `min` are each off by at most half a unit in the last place.
    fn round_off(&self, step: f64) -> f64 {
        2.0 * f64::EPSILON * (self.min.abs() + self.max.abs()) / step
    }

    /// Returns the same feature with this step, or without a step if this one is not valid: a step
    /// must divide the range and not be lost in round-off.
    #[must_use]
    pub fn with_step(self, step: Option<f64>) -> Self {
        let stepped = Self { step, ..self };
        if stepped.wrong_measure().is_none() { stepped } else { Self { step: None, ..stepped } }
    }

    /// Returns the fix for an invalid step, tolerance or scale; `None` if all are valid.
    pub(super) fn wrong_measure(&self) -> Option<&'static str> {
        if let Some(scale) = &self.scale {
            if self.kind == FeatureKind::Binary || self.group.is_some() {
                return Some("a binary feature, and a column of a group, takes no scale");
            }
            if let Err(reason) = scale.check(self.min, self.max) {
                return Some(reason);
            }
        }
        let positive = |value: Option<f64>| value.is_none_or(|v| v > 0.0 && v.is_finite());
        let number = self.kind != FeatureKind::Binary;
        match (self.step, self.max - self.min) {
            _ if !number && self.step.is_some() => {
                Some("a binary feature is its min or its max, it takes no step")
            }
            _ if !number && self.tolerance.is_some() => {
                Some("a binary feature is right or wrong, it takes no tolerance")
            }
            _ if !positive(self.step) => Some("its step must be a finite number above 0"),
            _ if !positive(self.tolerance) => Some("its tolerance must be a finite number above 0"),
            (Some(step), _) if self.round_off(step) > LOST => {
                Some("its step is too fine for numbers of this size: leave it out")
            }
            (Some(step), width)
                if width > 0.0 && (width / step < 0.5 || !self.is_on_grid(self.max)) =>
            {
                Some("its step does not divide the range from min to max: correct one of the three")
            }
            _ => None,
        }
    }

    /// Returns `true` if a number is a value of the feature: of its range, on its grid, and one of
    /// two where it is binary.
    pub(super) fn takes(&self, value: f64) -> bool {
        let binary = self.kind == FeatureKind::Binary;
        let possible = !binary || value == self.min || value == self.max;
        possible && (self.min..=self.max).contains(&value) && self.is_on_grid(value)
    }

    /// Returns the value of the feature that is nearest to a number.
    #[must_use]
    pub fn nearest(&self, value: f64) -> f64 {
        let value = value.clamp(self.min, self.max);
        let grid = |step: f64| {
            let places = ((self.max - self.min) / step).round();
            let at = ((value - self.min) / step).round();
            // From the nearer end, which is a decimal of the schema itself.
            if at < places / 2.0 { self.min + at * step } else { self.max - (places - at) * step }
        };
        match self.kind {
            FeatureKind::Binary => grid(self.max - self.min),
            _ => self.step.map_or(value, grid),
        }
    }

    /// Maps a value of the declared range to [0, 1]: (φ(v) − φ(min))/(φ(max) − φ(min)) with its
    /// scale φ, or 0 if the range is one point. The result is exact if the range is 0 to 1 and
    /// there is no scale.
    #[must_use]
    pub fn normalise(&self, value: f64) -> f64 {
        let Some(scale) = &self.scale else {
            return super::normalise::unit(value, self.min, self.max);
        };
        let (low, high) = (scale.apply(self.min), scale.apply(self.max));
        // A scale may round past its own ends.
        super::normalise::unit(scale.apply(value), low, high).clamp(0.0, 1.0)
    }

    /// Returns the value of the range that [`normalise`](Self::normalise) maps to `unit`; for a
    /// number outside [0, 1] a value as far outside the range, or its end if there is a scale.
    #[must_use]
    pub fn in_units(&self, unit: f64) -> f64 {
        let Some(scale) = &self.scale else { return self.min + unit * (self.max - self.min) };
        let (low, high) = (scale.apply(self.min), scale.apply(self.max));
        let value = scale.invert(low + unit.clamp(0.0, 1.0) * (high - low));
        value.clamp(self.min, self.max)
    }

    /// Returns the same feature after normalisation, with the range 0 to 1.
    #[must_use]
    pub fn normalised(&self) -> Self {
        let step = self.grid().filter(|_| self.kind != FeatureKind::Binary);
        // Values that round-off has moved are no longer on the grid of the range.
        let step = step.filter(|_| self.step.is_none_or(|step| self.round_off(step) <= ON_GRID));
        // A distance of scaled values is no distance of the source.
        let tolerance = self.tolerance.filter(|_| self.max > self.min && self.scale.is_none());
        let tolerance = tolerance.map(|t| t / (self.max - self.min));
        Self { min: 0.0, max: 1.0, step, tolerance, scale: None, ..self.clone() }
    }
}

/// The accepted distance of a value from its grid beyond round-off, in steps.
const ON_GRID: f64 = 1e-6;
/// The round-off, in steps, above which a step is too fine for the feature's numbers.
const LOST: f64 = 1e-2;
