//! One scoring: candidates reduced to their errors, and the figures reported of them, with noise or
//! without.
//!
//! A noised scoring has *parts*: the choice of the best candidate, unless all errors are reported
//! and give the choice; each reported error; the control's error. Its ρ is divided equally among
//! them. An error that is reported feature by feature is one part too: the features get noise as
//! one vector, and the overall error is their mean. Its σ is then about that of an overall error
//! reported alone, so that errors by feature cost nothing more. Each metric of a candidate is a
//! part of its own, and only metrics with a bound are reported. A control's metrics are reported
//! without noise only: the column mean depends on the truth, so that no bound holds for it.

mod error;

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::metrics::{
    AttributeFigures, Classify, Metric, MetricError, Reconstruction, SquaredError,
    column_mean_error, half_error, mse,
};
use vfl_numerics::three_significant_digits;
use vfl_protocol::scoring::{ReportedCandidates, ReportedError, ReportedFigure, ScoredCandidate};
use vfl_transform::scoring::Gain;
use vfl_transform::scoring::accountant::LEAST_RHO;

use super::by_attribute::AttributeScoring;
use super::noise::exponential_choice;
use super::sensitivity::{Grid, Sensitivity};

pub use error::{MAX_KEPT, ScoringError};

/// Estimates, reduced to the data that a scoring needs. The errors are private and leave only
/// through [`Scoring`].
#[derive(Clone)]
pub struct ReducedEstimates {
    errors: SquaredError,
    /// The mean squared error of each record, over its features.
    by_record: Arc<[f64]>,
    sensitivity: Sensitivity,
    clipped: u64,
    /// The clipped estimates, for the metrics that a scoring may ask for. `None` if there was no
    /// room to keep them.
    estimates: Option<Arc<DMatrix<f64>>>,
    /// True if the estimates of a record depend on its truth.
    played: bool,
}

impl std::fmt::Debug for ReducedEstimates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scorable({} features)", self.errors.by_feature.len())
    }
}

impl ReducedEstimates {
    /// Computes the errors of estimates (d × n) against the truth. The estimates are clipped to [0,
    /// 1]: outside, one record could move an error by more than 1/n, and an adversary knows the box
    /// and would clip them too.
    ///
    /// # Errors
    /// [`MetricError`] if the shapes differ or there is nothing to score.
    pub fn new(mut estimates: DMatrix<f64>, truth: &DMatrix<f64>) -> Result<Self, MetricError> {
        let mut clipped = 0;
        for value in estimates.iter_mut() {
            if !(0.0..=1.0).contains(value) {
                clipped += 1;
                // NaN is refused where messages are read; here it must not slip through `clamp`.
                *value = if value.is_nan() { 0.5 } else { value.clamp(0.0, 1.0) };
            }
        }
        let errors = mse(&estimates, truth)?;
        let sensitivity = Sensitivity::of_estimates(&estimates);
        let by_record = by_record(truth, |i, record| estimates[(i, record)]);
        Ok(Self {
            errors,
            by_record,
            sensitivity,
            clipped,
            estimates: Some(Arc::new(estimates)),
            played: false,
        })
    }

    /// Computes the errors of estimates (d × n) that the owner of the truth made: each record's
    /// from that record and from records that are not scored.
    ///
    /// # Errors
    /// As [`ReducedEstimates::new`].
    pub(super) fn played(
        estimates: DMatrix<f64>,
        truth: &DMatrix<f64>,
    ) -> Result<Self, MetricError> {
        let (d, n) = truth.shape();
        Ok(Self {
            sensitivity: Sensitivity::of_played(d, n),
            played: true,
            ..Self::new(estimates, truth)?
        })
    }

    /// Computes the errors of the estimate ½ everywhere.
    ///
    /// # Errors
    /// As [`ReducedEstimates::new`].
    pub fn half(truth: &DMatrix<f64>) -> Result<Self, MetricError> {
        let (d, n) = truth.shape();
        let estimates = Some(Arc::new(DMatrix::from_element(d, n, 0.5)));
        let errors = half_error(truth)?;
        let by_record = by_record(truth, |_, _| 0.5);
        Ok(Self {
            errors,
            by_record,
            sensitivity: Sensitivity::of_half(d, n),
            clipped: 0,
            estimates,
            played: false,
        })
    }

    /// Computes the errors of each feature's mean over these records.
    ///
    /// # Errors
    /// As [`ReducedEstimates::new`].
    pub fn column_mean(truth: &DMatrix<f64>) -> Result<Self, MetricError> {
        let (d, n) = truth.shape();
        let errors = column_mean_error(truth)?;
        let mean = truth.column_mean();
        let estimates = Some(Arc::new(DMatrix::from_fn(d, n, |feature, _| mean[feature])));
        let by_record = by_record(truth, |feature, _| mean[feature]);
        Ok(Self {
            errors,
            by_record,
            sensitivity: Sensitivity::of_column_mean(d, n),
            clipped: 0,
            estimates,
            played: false,
        })
    }

    /// Drops the estimates, after which no metric can be measured.
    #[must_use]
    pub fn without_estimates(self) -> Self {
        Self { estimates: None, ..self }
    }

    /// Returns the number of estimated values that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.estimates.as_ref().map_or(0, |estimates| estimates.len())
    }

    /// Returns the number of clipped values.
    #[must_use]
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Returns the errors of all records but one.
    #[cfg(test)]
    pub(super) fn others(&self, but: usize) -> Vec<f64> {
        self.by_record.iter().enumerate().filter(|(at, _)| *at != but).map(|(_, e)| *e).collect()
    }

    fn exact(&self, by_feature: bool) -> ReportedError {
        let features = if by_feature { self.errors.by_feature.as_slice() } else { &[] };
        ReportedError {
            mse: three_significant_digits(self.errors.overall),
            by_feature: features.iter().map(|&e| three_significant_digits(e)).collect(),
            sigma: None,
            sigma_by_feature: None,
            metrics: Vec::new(),
        }
    }

    fn measured<T>(
        &self,
        measures: &Measures<'_>,
        figure: impl Fn(&dyn Metric, &Reconstruction<'_>) -> Result<T, ScoringError>,
    ) -> Result<Vec<T>, ScoringError> {
        if measures.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let estimates = self.estimates.as_deref().ok_or(ScoringError::NotKept)?;
        let of = Reconstruction { estimates, truth: measures.truth, classify: measures.classify };
        measures.wanted.iter().map(|metric| figure(*metric, &of)).collect()
    }

    fn exact_metrics(&self, measures: &Measures<'_>) -> Result<Vec<ReportedFigure>, ScoringError> {
        let values = self.measured(measures, |metric, of| {
            Ok(metric.measure(of)?.map(three_significant_digits))
        })?;
        let told = measures.wanted.iter().zip(values);
        Ok(told
            .map(|(metric, value)| ReportedFigure {
                metric: metric.name().to_owned(),
                value,
                sigma: None,
            })
            .collect())
    }

    /// Returns the metrics with noise. Each of them costs `rho`.
    fn noised_metrics(
        &self,
        measures: &Measures<'_>,
        rho: f64,
        rng: &mut impl Rng,
    ) -> Result<Vec<ReportedFigure>, ScoringError> {
        let figures = self.measured(measures, |metric, of| {
            let unbounded = ScoringError::Unbounded { metric: metric.name() };
            let bound = metric.sensitivity(of.estimates).filter(|b| b.is_finite() && *b > 0.0);
            let value = metric.measure(of)?.filter(|v| v.is_finite());
            // A metric with a bound is always defined; being defined must not depend on the truth.
            let (bound, value) = bound.zip(value).ok_or(unbounded)?;
            Ok((Grid::new(bound, 1, rho).ok_or(ScoringError::TooSmall { rho })?, value))
        })?;
        let told =
            measures.wanted.iter().zip(figures).map(|(metric, (grid, value))| ReportedFigure {
                metric: metric.name().to_owned(),
                value: Some(grid.noised(value, rng)),
                sigma: Some(grid.sigma()),
            });
        Ok(told.collect())
    }

    fn noised(
        &self,
        by_feature: bool,
        rho: f64,
        rng: &mut impl Rng,
    ) -> Result<ReportedError, ScoringError> {
        let d = self.errors.by_feature.len();
        let small = || ScoringError::TooSmall { rho };
        if !by_feature {
            let grid = Grid::new(self.sensitivity.overall, 1, rho).ok_or_else(small)?;
            let mse = grid.noised(self.errors.overall, rng);
            let sigma = Some(grid.sigma());
            return Ok(ReportedError {
                mse,
                by_feature: Vec::new(),
                sigma,
                sigma_by_feature: None,
                metrics: Vec::new(),
            });
        }
        let grid = Grid::new(self.sensitivity.by_feature, d, rho).ok_or_else(small)?;
        let told: Vec<f64> = self.errors.by_feature.iter().map(|&e| grid.noised(e, rng)).collect();
        Ok(ReportedError {
            mse: told.iter().sum::<f64>() / d.max(1) as f64,
            by_feature: told,
            sigma: Some(grid.sigma() / (d.max(1) as f64).sqrt()),
            sigma_by_feature: Some(grid.sigma()),
            metrics: Vec::new(),
        })
    }
}

/// Returns the mean squared error of each record, over its features.
fn by_record(truth: &DMatrix<f64>, estimate: impl Fn(usize, usize) -> f64) -> Arc<[f64]> {
    let d = truth.nrows().max(1) as f64;
    let of = |(record, x): (usize, nalgebra::DVectorView<'_, f64>)| {
        x.iter().enumerate().map(|(i, x)| (estimate(i, record) - x).powi(2)).sum::<f64>() / d
    };
    truth.column_iter().enumerate().map(of).collect()
}

/// Returns an overall error with the deviation of its noise.
fn with_noise(error: &ReportedError) -> (f64, f64) {
    (error.mse, error.sigma.unwrap_or(0.0))
}

/// Returns errors by feature with the deviation of the noise in each.
fn features_with_noise(error: &ReportedError) -> (&[f64], f64) {
    (&error.by_feature, error.sigma_by_feature.unwrap_or(0.0))
}

/// The metrics that a scoring reports beside the errors.
#[derive(Clone, Copy)]
pub struct Measures<'a> {
    /// The metrics that were asked for.
    pub wanted: &'a [&'static dyn Metric],
    /// The true features, d × n.
    pub truth: &'a DMatrix<f64>,
    /// The classifier, for metrics that need one.
    pub classify: Classify<'a>,
}

/// Shows the metrics only.
impl std::fmt::Debug for Measures<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Measures({:?})", self.wanted)
    }
}

/// A scoring of candidates.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// The candidates to score.
    pub candidates: &'a [ReducedEstimates],
    /// The control that they are compared with.
    pub control: Option<&'a ReducedEstimates>,
    /// The choice of candidates whose errors are reported.
    pub told: ReportedCandidates,
    /// True if errors by feature are reported too.
    pub by_feature: bool,
    /// The metrics of each candidate whose error is reported.
    pub measures: Option<Measures<'a>>,
    /// The attributes that have figures, for each candidate whose error is reported. They need
    /// errors by feature and a control.
    pub attributes: Option<AttributeScoring<'a>>,
}

/// The answer to a scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringAnswer {
    /// The position of the best candidate.
    pub best: Option<usize>,
    /// The candidates whose errors are reported.
    pub errors: Vec<ScoredCandidate>,
    /// The control's error.
    pub control: Option<ReportedError>,
}

impl<'a> Scoring<'a> {
    /// Creates a scoring of overall errors alone.
    #[must_use]
    pub fn of(
        candidates: &'a [ReducedEstimates],
        control: Option<&'a ReducedEstimates>,
        told: ReportedCandidates,
    ) -> Self {
        Self { candidates, control, told, by_feature: false, measures: None, attributes: None }
    }

    /// Returns true if the choice of the best candidate is a part of its own.
    fn chooses(&self) -> bool {
        self.told != ReportedCandidates::All && self.candidates.len() > 1
    }

    /// Returns the number of parts that the budget of this scoring is divided into.
    ///
    /// # Errors
    /// [`ScoringError::Nothing`] if there are none, [`ScoringError::Attributes`] if attributes lack
    /// errors by feature or a control.
    pub fn parts(&self) -> Result<usize, ScoringError> {
        if self.attributes.is_some() && !(self.by_feature && self.control.is_some()) {
            return Err(ScoringError::Attributes);
        }
        let errors = match self.told {
            ReportedCandidates::Nobody => 0,
            ReportedCandidates::Best => self.candidates.len().min(1),
            ReportedCandidates::All => self.candidates.len(),
        };
        let metrics = self.measures.map_or(0, |measures| measures.wanted.len());
        let parts = errors * (1 + metrics)
            + usize::from(self.chooses())
            + usize::from(self.control.is_some());
        if parts == 0 { Err(ScoringError::Nothing) } else { Ok(parts) }
    }

    /// Checks that a ρ suffices for the figures, so that nothing is charged for an answer that
    /// cannot be given.
    ///
    /// # Errors
    /// [`ScoringError`] with the reason.
    pub fn check(&self, rho: f64) -> Result<(), ScoringError> {
        if let Some(measures) = &self.measures {
            if let Some(unbounded) = measures.wanted.iter().find(|metric| !metric.bounded()) {
                return Err(ScoringError::Unbounded { metric: unbounded.name() });
            }
            if !measures.wanted.is_empty() && self.candidates.iter().any(|c| c.played) {
                return Err(ScoringError::Played);
            }
            if !measures.wanted.is_empty() && self.candidates.iter().any(|c| c.estimates.is_none())
            {
                return Err(ScoringError::NotKept);
            }
        }
        let part = rho / self.parts()? as f64;
        let d = self
            .candidates
            .iter()
            .chain(self.control)
            .map(|c| c.errors.by_feature.len())
            .max()
            .unwrap_or(0);
        let coordinates = if self.by_feature { d } else { 1 };
        let fits =
            Grid::new(1.0, coordinates, part).is_some() && Grid::of_choice(1.0, part).is_some();
        if part >= LEAST_RHO && fits { Ok(()) } else { Err(ScoringError::TooSmall { rho: part }) }
    }

    /// Returns the answer without noise, to three significant digits.
    ///
    /// # Errors
    /// [`ScoringError`] if nothing is asked for, or a metric cannot be measured.
    pub fn exact(&self) -> Result<ScoringAnswer, ScoringError> {
        self.parts()?;
        let overall =
            |at: usize| self.candidates.get(at).map_or(f64::INFINITY, |c| c.errors.overall);
        let best = (0..self.candidates.len()).min_by(|a, b| overall(*a).total_cmp(&overall(*b)));
        let exact = |scorable: &ReducedEstimates| -> Result<ReportedError, ScoringError> {
            let metrics =
                self.measures.map(|measures| scorable.exact_metrics(&measures)).transpose()?;
            Ok(ReportedError {
                metrics: metrics.unwrap_or_default(),
                ..scorable.exact(self.by_feature)
            })
        };
        let control = self.control.zip(self.control.map(&exact).transpose()?);
        let told = self.told_of(best).map(|(at, candidate)| {
            let error = exact(candidate)?;
            let gain = control.as_ref().map(|(of, told)| {
                Gain::of_records(error.mse, told.mse, &candidate.by_record, &of.by_record)
            });
            let attributes = self.exact_attributes(candidate)?;
            Ok(ScoredCandidate { candidate: at, error, gain, attributes })
        });
        let errors = told.collect::<Result<_, ScoringError>>()?;
        Ok(ScoringAnswer { best, errors, control: control.map(|(_, told)| told) })
    }

    /// Returns the figures by attribute of a candidate without noise, if they were asked for.
    fn exact_attributes(
        &self,
        candidate: &ReducedEstimates,
    ) -> Result<Vec<AttributeFigures>, ScoringError> {
        let Some((by, control)) = self.attributes.zip(self.control) else { return Ok(Vec::new()) };
        let control = control.estimates.as_deref().ok_or(ScoringError::NotKept)?;
        let estimates = candidate.estimates.as_deref().ok_or(ScoringError::NotKept)?;
        Ok(by.exact(estimates, control))
    }

    /// Returns the answer with noise that makes it ρ-zCDP, whatever the candidates.
    ///
    /// # Errors
    /// [`ScoringError`] with the reason.
    pub fn noised(&self, rho: f64, rng: &mut impl Rng) -> Result<ScoringAnswer, ScoringError> {
        self.check(rho)?;
        let part = rho / self.parts()? as f64;
        let mut best = match self.candidates.len() {
            0 => None,
            _ if self.chooses() => Some(self.choose(part, rng)?),
            _ => Some(0),
        };
        let mut errors = Vec::new();
        for (at, candidate) in self.told_of(best) {
            let mut error = candidate.noised(self.by_feature, part, rng)?;
            if let Some(measures) = &self.measures {
                error.metrics = candidate.noised_metrics(measures, part, rng)?;
            }
            let (gain, attributes) = (None, Vec::new());
            errors.push(ScoredCandidate { candidate: at, error, gain, attributes });
        }
        if self.told == ReportedCandidates::All {
            // This follows from the reported errors and costs nothing.
            let best_told = errors.iter().min_by(|a, b| a.error.mse.total_cmp(&b.error.mse));
            best = best_told.map(|of| of.candidate);
        }
        let control = self.control.map(|c| c.noised(self.by_feature, part, rng)).transpose()?;
        if let Some(control) = &control {
            for ScoredCandidate { error, gain, attributes, .. } in &mut errors {
                *gain = Some(Gain::of(with_noise(error), with_noise(control)));
                if let Some(by) = &self.attributes {
                    *attributes =
                        by.noised(features_with_noise(error), features_with_noise(control));
                }
            }
        }
        Ok(ScoringAnswer { best, errors, control })
    }

    /// Chooses the best candidate by the exponential mechanism. One record moves the difference of
    /// two errors by at most the sum of the two largest bounds.
    fn choose(&self, rho: f64, rng: &mut impl Rng) -> Result<usize, ScoringError> {
        let mut bounds: Vec<f64> = self.candidates.iter().map(|c| c.sensitivity.overall).collect();
        bounds.sort_by(|a, b| b.total_cmp(a));
        let grid = Grid::of_choice(bounds.iter().take(2).sum(), rho)
            .ok_or(ScoringError::TooSmall { rho })?;
        let steps: Vec<i64> =
            self.candidates.iter().map(|c| grid.steps(c.errors.overall)).collect();
        let least = steps.iter().copied().min().unwrap_or(0);
        let excess: Vec<u64> = steps.iter().map(|s| s.abs_diff(least)).collect();
        Ok(exponential_choice(&excess, rng))
    }

    fn told_of(&self, best: Option<usize>) -> impl Iterator<Item = (usize, &ReducedEstimates)> {
        let told = self.told;
        self.candidates.iter().enumerate().filter(move |(at, _)| match told {
            ReportedCandidates::Nobody => false,
            ReportedCandidates::Best => Some(*at) == best,
            ReportedCandidates::All => true,
        })
    }
}

#[cfg(test)]
mod tests;
