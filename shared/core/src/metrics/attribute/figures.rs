//! The figures of an attack on one attribute, beside those of its control.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};
use vfl_numerics::three_significant_digits;

use super::error_reduction::ErrorReduction;
use super::event::{Event, EventFigures, ScoredEvent};
use super::ranks::{Distribution, SAME, area_under_curve};
use super::schema::{Attribute, AttributeKind};

/// A control whose error is below this share of an attribute's variance leaves nothing that an
/// attack could remove.
const NOTHING_LEFT: f64 = 1e-9;

/// The spread, as a share of the largest value, that round-off may give a constant.
const ROUND_OFF: f64 = 1e-12;
/// The smallest number of records below a reported percentile. With fewer, it is the error of a
/// single record.
const LEAST_BELOW: f64 = 20.0;

/// A figure of an attack, and the same figure of its control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlledFigure {
    /// The figure of the attack.
    pub attack: f64,
    /// The figure of the control.
    pub control: f64,
}

/// Shares of records whose estimate is within a tolerance, in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToleranceShare {
    /// The tolerance, in the units of the source.
    pub tolerance: f64,
    /// The shares of records.
    pub share: ControlledFigure,
}

/// The figures of an attack on one attribute. A figure is absent if it is not defined for the
/// attribute or not reported. With noise, all but `removed` are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributeFigures {
    /// The name of the attribute.
    pub attribute: String,
    /// The positions of its columns among the party's features, from 0.
    pub columns: Vec<usize>,
    /// Mean squared errors in units of the attribute's variance over the records, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ControlledFigure>,
    /// The share of the control's squared error that the attack removes; absent if the control
    /// leaves no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<ErrorReduction>,
    /// The same share for squared errors of ranks, which heavy tails do not affect. Absent for
    /// groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_ranks: Option<ErrorReduction>,
    /// The natural frequencies of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventFigures>,
    /// Area under the ROC curve for the event of an attribute that is binary, or for which more
    /// than half of the records share one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<ControlledFigure>,
    /// Share of records whose category has the largest estimate; for ties, the expected share. For
    /// groups only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_category: Option<ControlledFigure>,
    /// Shares of records within a tolerance. For numbers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<ToleranceShare>,
    /// Shares of records for which every value is reconstructed to within 1e-6 of the spread of its
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<ControlledFigure>,
    /// The 1st percentile of the squared errors of single records, in units of the variance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_1: Option<ControlledFigure>,
    /// The 5th percentile of the same errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_5: Option<ControlledFigure>,
}

impl AttributeFigures {
    fn nothing(attribute: &Attribute) -> Self {
        Self {
            attribute: attribute.name.clone(),
            columns: attribute.columns.clone(),
            error: None,
            removed: None,
            removed_ranks: None,
            event: None,
            auc: None,
            top_category: None,
            within: None,
            exact: None,
            percentile_1: None,
            percentile_5: None,
        }
    }

    /// Computes the figures from noisy errors by feature. `attack` and `control` each are the
    /// errors and the standard deviation of the noise in every one of them. The interval is at `z`
    /// deviations. Errors of several columns add up, and so do the variances of their noise.
    #[must_use]
    pub fn of_noised(
        attribute: &Attribute,
        attack: (&[f64], f64),
        control: (&[f64], f64),
        z: f64,
    ) -> Self {
        let total = |(errors, sigma): (&[f64], f64)| {
            let sum: f64 = attribute.columns.iter().filter_map(|c| errors.get(*c)).sum();
            (sum, sigma * (attribute.columns.len() as f64).sqrt())
        };
        let removed = Some(ErrorReduction::of_noised(total(attack), total(control), z));
        Self { removed, ..Self::nothing(attribute) }
    }

    /// Computes the figures from estimates of an attack and of its control against the truth,
    /// without noise and unrounded. All are d × n, with the columns of the attribute among the d.
    #[must_use]
    pub fn of(
        attribute: &Attribute,
        truth: &DMatrix<f64>,
        attack: &DMatrix<f64>,
        control: &DMatrix<f64>,
    ) -> Self {
        let n = truth.ncols();
        let variance: f64 = attribute.columns.iter().map(|c| variance(truth, *c)).sum();
        let largest = attribute.columns.iter().map(|c| truth.row(*c).amax()).fold(0.0, f64::max);
        // Variation by round-off alone does not count.
        let varies = variance > (ROUND_OFF * largest).powi(2);
        if n == 0 || !varies {
            return Self::nothing(attribute);
        }
        let errors = |estimates: &DMatrix<f64>| -> Vec<f64> {
            let of = |record| {
                let columns = attribute.columns.iter();
                columns
                    .map(|c| (estimates[(*c, record)] - truth[(*c, record)]).powi(2))
                    .sum::<f64>()
                    / variance
            };
            (0..n).map(of).collect()
        };
        let (e, c) = (errors(attack), errors(control));
        let mean = |of: &[f64]| of.iter().sum::<f64>() / n as f64;
        let both = |figure: &dyn Fn(&[f64]) -> f64| {
            Some(ControlledFigure { attack: figure(&e), control: figure(&c) })
        };
        let percentile = |p: f64| both(&|of| Distribution::of(of).quantile(p));
        let of_many = |p: &f64| p * n as f64 >= LEAST_BELOW;
        let asked = ScoredEvent::of(attribute, truth);
        let told = FigureInputs { attribute, truth, attack, control };
        Self {
            error: both(&mean),
            removed: (mean(&c) > NOTHING_LEFT)
                .then(|| ErrorReduction::of_records(&e, &c))
                .flatten(),
            removed_ranks: told.ranks(),
            auc: asked.as_ref().and_then(|asked| told.auc(asked)),
            event: asked.map(|asked| told.event(asked)),
            top_category: told.top_category(),
            within: told.within(),
            exact: Some(told.exact()),
            percentile_1: Some(0.01).filter(of_many).and_then(percentile),
            percentile_5: Some(0.05).filter(of_many).and_then(percentile),
            ..Self::nothing(attribute)
        }
    }

    /// Rounds the figures to three significant digits, as a scorer reports them.
    #[must_use]
    pub fn rounded(self) -> Self {
        let three = three_significant_digits;
        let both = |b: ControlledFigure| ControlledFigure {
            attack: three(b.attack),
            control: three(b.control),
        };
        let event = |event: Event| match event {
            Event::TopDecile { from } => Event::TopDecile { from: three(from) },
            Event::NotUsual { value } => Event::NotUsual { value: three(value) },
            Event::Rarer { .. } | Event::Category { .. } => event,
        };
        Self {
            error: self.error.map(both),
            removed: self.removed.map(ErrorReduction::rounded),
            removed_ranks: self.removed_ranks.map(ErrorReduction::rounded),
            event: self.event.map(|e| EventFigures {
                event: event(e.event),
                // Rounding up must not name more than there are.
                attack: three(e.attack).min(e.named as f64),
                control: three(e.control).min(e.named as f64),
                having: three(e.having as f64) as u64,
                ..e
            }),
            auc: self.auc.map(both),
            top_category: self.top_category.map(both),
            within: self
                .within
                .map(|w| ToleranceShare { tolerance: three(w.tolerance), share: both(w.share) }),
            exact: self.exact.map(both),
            percentile_1: self.percentile_1.map(both),
            percentile_5: self.percentile_5.map(both),
            ..self
        }
    }
}

/// Returns the variance of a row, with divisor n.
fn variance(truth: &DMatrix<f64>, row: usize) -> f64 {
    let x = truth.row(row);
    let mean = x.mean();
    x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len().max(1) as f64
}

/// The attribute, truth and estimates from which figures are computed.
struct FigureInputs<'a> {
    attribute: &'a Attribute,
    truth: &'a DMatrix<f64>,
    attack: &'a DMatrix<f64>,
    control: &'a DMatrix<f64>,
}

impl FigureInputs<'_> {
    fn beside(&self, figure: impl Fn(&DMatrix<f64>) -> f64) -> ControlledFigure {
        ControlledFigure { attack: figure(self.attack), control: figure(self.control) }
    }

    /// Returns the attribute's only column, unless it is a group.
    fn column(&self) -> Option<usize> {
        if let ([column], false) = (
            self.attribute.columns.as_slice(),
            matches!(self.attribute.kind, AttributeKind::Categories(_)),
        ) {
            Some(*column)
        } else {
            None
        }
    }

    fn values(&self, column: usize) -> Vec<f64> {
        self.truth.row(column).iter().copied().collect()
    }

    fn ranks(&self) -> Option<ErrorReduction> {
        let column = self.column()?;
        let distribution = Distribution::of(&self.values(column));
        let errors = |estimates: &DMatrix<f64>| -> Vec<f64> {
            let pairs = estimates.row(column).into_iter().zip(self.truth.row(column));
            pairs
                .map(|(e, x)| (distribution.midrank(*e) - distribution.midrank(*x)).powi(2))
                .collect()
        };
        let controls = errors(self.control);
        let left = controls.iter().sum::<f64>() > NOTHING_LEFT * controls.len() as f64;
        left.then(|| ErrorReduction::of_records(&errors(self.attack), &controls)).flatten()
    }

    fn auc(&self, asked: &ScoredEvent) -> Option<ControlledFigure> {
        if !matches!(asked.event, Event::Rarer { .. } | Event::NotUsual { .. }) {
            return None;
        }
        let area =
            |estimates: &DMatrix<f64>| area_under_curve(&asked.scores(estimates), &asked.has);
        Some(ControlledFigure { attack: area(self.attack)?, control: area(self.control)? })
    }

    fn event(&self, asked: ScoredEvent) -> EventFigures {
        let ControlledFigure { attack, control } =
            self.beside(|estimates| asked.right(&asked.scores(estimates)));
        let having = asked.has.iter().filter(|has| **has).count() as u64;
        EventFigures { named: asked.named() as u64, having, attack, control, event: asked.event }
    }

    fn top_category(&self) -> Option<ControlledFigure> {
        if !matches!(self.attribute.kind, AttributeKind::Categories(_)) {
            return None;
        }
        let columns = &self.attribute.columns;
        let share = |estimates: &DMatrix<f64>| {
            let right = |record: usize| {
                let most = columns
                    .iter()
                    .map(|c| estimates[(*c, record)])
                    .fold(f64::NEG_INFINITY, f64::max);
                let first: Vec<usize> =
                    columns.iter().copied().filter(|c| estimates[(*c, record)] == most).collect();
                let has = first.iter().any(|c| self.truth[(*c, record)] > 0.5);
                if has { 1.0 / first.len() as f64 } else { 0.0 }
            };
            (0..self.truth.ncols()).map(right).sum::<f64>() / self.truth.ncols() as f64
        };
        Some(self.beside(share))
    }

    fn within(&self) -> Option<ToleranceShare> {
        let column = self.column().filter(|_| self.attribute.kind == AttributeKind::Numbers)?;
        let feature = &self.attribute.feature;
        let units = feature.max - feature.min;
        // Distances are those of the source: a scale is taken off.
        let place = |value: f64| match feature.scale {
            Some(_) => (feature.in_units(value) - feature.min) / units,
            None => value,
        };
        let truth: Vec<f64> = self.truth.row(column).iter().map(|x| place(*x)).collect();
        let distribution = Distribution::of(&truth);
        let own = || 0.1 * (distribution.quantile(0.75) - distribution.quantile(0.25));
        let tolerance = feature.tolerance.map_or_else(own, |tolerance| tolerance / units);
        // Round-off must not exclude an estimate that is off by exactly the tolerance.
        let reach = tolerance + distribution.near() * SAME;
        let share = |estimates: &DMatrix<f64>| {
            let pairs = estimates.row(column).into_iter().zip(&truth);
            pairs.filter(|(e, x)| (place(**e) - *x).abs() <= reach).count() as f64
                / truth.len() as f64
        };
        (tolerance > 0.0)
            .then(|| ToleranceShare { tolerance: tolerance * units, share: self.beside(share) })
    }

    fn exact(&self) -> ControlledFigure {
        let near: Vec<(usize, f64)> = self
            .attribute
            .columns
            .iter()
            .map(|c| (*c, Distribution::of(&self.values(*c)).near()))
            .collect();
        self.beside(|estimates| {
            let same = |record: usize| {
                near.iter().all(|(c, near)| {
                    (estimates[(*c, record)] - self.truth[(*c, record)]).abs() <= *near
                })
            };
            (0..self.truth.ncols()).filter(|record| same(*record)).count() as f64
                / self.truth.ncols() as f64
        })
    }
}
