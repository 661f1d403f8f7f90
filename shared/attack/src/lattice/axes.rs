//! The grid that the passive features lie on, in whole-number coordinates: one for a feature with a
//! step, and one for each option but the first of a choice.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};

use crate::FeatureKnowledge;

/// The share of the step up to which levels count as evenly spaced.
const EVEN: f64 = 1e-9;

/// Features that are decided together.
#[derive(Debug, Clone, PartialEq)]
enum Axis {
    /// lower + t step, t from 0 to n. At n the value is `upper`.
    Steps { feature: usize, lower: f64, upper: f64, step: f64, n: i64 },
    /// One of several values of one feature.
    Levels { feature: usize, values: Vec<f64> },
    /// Exactly one of these columns is at its upper value, the others at their lower.
    Group { columns: Vec<(usize, f64, f64)> },
}

impl Axis {
    /// Returns the number of coordinates.
    fn width(&self) -> usize {
        match self {
            Self::Steps { .. } => 1,
            Self::Levels { values, .. } => values.len() - 1,
            Self::Group { columns } => columns.len() - 1,
        }
    }

    /// Returns the number of points.
    fn points(&self) -> f64 {
        match self {
            Self::Steps { n, .. } => *n as f64 + 1.0,
            _ => self.width() as f64 + 1.0,
        }
    }

    /// Sets the values of the features at an option of a choice, 0 to `width`.
    fn option(&self, option: usize, mut set: impl FnMut(usize, f64)) {
        match self {
            Self::Steps { feature, lower, upper, step, n } => {
                let t = option as i64;
                set(*feature, if t == *n { *upper } else { lower + step * t as f64 });
            }
            Self::Levels { feature, values } => set(*feature, values[option]),
            Self::Group { columns } => {
                for (at, &(column, lower, upper)) in columns.iter().enumerate() {
                    set(column, if at == option { upper } else { lower });
                }
            }
        }
    }
}

/// The grid of all passive features, d of them with p coordinates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axes {
    d: usize,
    axes: Vec<(Axis, Range<usize>)>,
    /// Features that are the same in all records.
    fixed: Vec<(usize, f64)>,
    /// Features on no grid, with their ranges. Their points are the middles.
    free: Vec<(usize, f64, f64)>,
}

impl Axes {
    /// Builds the grid of d features. `steps` (in the features' own numbers) is used where the
    /// knowledge has none.
    ///
    /// # Errors
    /// The positions of the features whose grid is not known.
    pub(super) fn new(
        knowledge: &FeatureKnowledge,
        steps: impl Fn(usize) -> Option<f64>,
    ) -> Result<Self, Vec<usize>> {
        let d = knowledge.features();
        let (axes, fixed, free) = (Vec::new(), Vec::new(), Vec::new());
        let (mut grid, mut unknown) = (Self { d, axes, fixed, free }, Vec::new());
        let mut in_group = vec![false; d];
        for group in knowledge.groups() {
            in_group[group.clone()].fill(true);
            let columns: Vec<_> = group
                .clone()
                .map(|c| (c, knowledge.ranges()[c].0, knowledge.ranges()[c].1))
                .collect();
            match columns.as_slice() {
                [(column, _, upper)] => grid.fixed.push((*column, *upper)),
                _ => grid.push(Axis::Group { columns }),
            }
        }
        for feature in (0..d).filter(|&f| !in_group[f]) {
            let (lower, upper) = knowledge.ranges()[feature];
            if lower == upper {
                grid.fixed.push((feature, lower));
                continue;
            }
            let levels = knowledge.levels()[feature].as_deref();
            let stated = knowledge.steps()[feature].map(|share| share * (upper - lower));
            match (levels, stated.or_else(|| steps(feature))) {
                (Some([value]), _) => grid.fixed.push((feature, *value)),
                (Some(values), _) => grid.push(of_levels(feature, values)),
                (None, Some(step)) => {
                    let n = ((upper - lower) / step).round() as i64;
                    grid.push(Axis::Steps {
                        feature,
                        lower,
                        upper,
                        step: (upper - lower) / n.max(1) as f64,
                        n: n.max(1),
                    });
                }
                (None, None) => unknown.push(feature),
            }
        }
        if unknown.is_empty() { Ok(grid) } else { Err(unknown) }
    }

    /// Builds the grid of all features but those that are `free`, which are solved for. `steps` is
    /// used where the knowledge has none; `None` if another one's grid is not known.
    pub(super) fn partial(
        knowledge: &FeatureKnowledge,
        free: &[usize],
        steps: impl Fn(usize) -> Option<f64>,
    ) -> Option<Self> {
        // A grid of two points stands for each of them until it is taken out.
        let range = |feature: usize| knowledge.ranges()[feature];
        let width = |feature| match free.contains(&feature) {
            true => Some(range(feature).1 - range(feature).0),
            false => steps(feature),
        };
        let mut grid = Self::new(knowledge, width).ok()?;
        let axes = std::mem::take(&mut grid.axes);
        let on_grid = |axis: &Axis| match axis {
            Axis::Steps { feature, .. } => !free.contains(feature),
            _ => true,
        };
        axes.into_iter().filter(|(axis, _)| on_grid(axis)).for_each(|(axis, _)| grid.push(axis));
        grid.free =
            free.iter().map(|&feature| (feature, range(feature).0, range(feature).1)).collect();
        Some(grid)
    }

    /// Returns the features that are solved for, with their ranges.
    pub(super) fn free(&self) -> &[(usize, f64, f64)] {
        &self.free
    }

    fn push(&mut self, axis: Axis) {
        let first = self.coordinates();
        let range = first..first + axis.width();
        self.axes.push((axis, range));
    }

    /// Returns the number of coordinates, p.
    pub(super) fn coordinates(&self) -> usize {
        self.axes.last().map_or(0, |(_, range)| range.end)
    }

    /// Returns ln of the number of grid points.
    pub(super) fn ln_points(&self) -> f64 {
        self.axes.iter().map(|(axis, _)| axis.points().ln()).sum()
    }

    /// Returns x at t = 0 (d), and the change of x with each coordinate (d × p).
    pub(super) fn map(&self) -> (DVector<f64>, DMatrix<f64>) {
        let mut origin = DVector::zeros(self.d);
        let mut slopes = DMatrix::zeros(self.d, self.coordinates());
        self.fixed.iter().for_each(|&(feature, value)| origin[feature] = value);
        self.free
            .iter()
            .for_each(|&(feature, lower, upper)| origin[feature] = 0.5 * (lower + upper));
        for (axis, range) in &self.axes {
            axis.option(0, |feature, value| origin[feature] = value);
            for (option, coordinate) in range.clone().enumerate() {
                match axis {
                    Axis::Steps { feature, step, .. } => slopes[(*feature, coordinate)] = *step,
                    _ => axis
                        .option(option + 1, |f, value| slopes[(f, coordinate)] = value - origin[f]),
                }
            }
        }
        (origin, slopes)
    }

    /// Returns the middle of the grid (p), the inverse square root of its covariance (p × p), and
    /// its covariance, if all points are equally likely.
    pub(super) fn spread(&self) -> (Vec<f64>, DMatrix<f64>, DMatrix<f64>) {
        let p = self.coordinates();
        let (mut centre, mut metric, mut covariance) =
            (vec![0.0; p], DMatrix::zeros(p, p), DMatrix::zeros(p, p));
        for (axis, range) in &self.axes {
            match axis {
                Axis::Steps { n, .. } => {
                    let (at, n) = (range.start, *n as f64);
                    centre[at] = n / 2.0;
                    covariance[(at, at)] = n * (n + 2.0) / 12.0;
                    metric[(at, at)] = 1.0 / covariance[(at, at)].sqrt();
                }
                _ => {
                    // With g options, the indicators but the first have the covariance (I − J/g)/g.
                    // Its inverse is g (I + J), with the square root √g (I + s J), where s =
                    // (√(w + 1) − 1)/w for w = g − 1.
                    let (w, g) = (axis.width() as f64, axis.points());
                    let s = ((w + 1.0).sqrt() - 1.0) / w;
                    for i in range.clone() {
                        centre[i] = 1.0 / g;
                        for j in range.clone() {
                            let same = f64::from(u8::from(i == j));
                            covariance[(i, j)] = (same - 1.0 / g) / g;
                            metric[(i, j)] = g.sqrt() * (same + s);
                        }
                    }
                }
            }
        }
        (centre, metric, covariance)
    }

    /// Returns the largest ‖metric (t − centre)‖² of a grid point.
    pub(super) fn reach(&self) -> f64 {
        let of = |(axis, _): &(Axis, _)| match axis {
            Axis::Steps { n, .. } => 3.0 * *n as f64 / (*n as f64 + 2.0),
            _ => axis.width() as f64,
        };
        self.axes.iter().map(of).sum()
    }

    /// Returns true if these coordinates are a point of the grid.
    pub(super) fn contains(&self, t: &[i64]) -> bool {
        self.axes.iter().all(|(axis, range)| {
            let own = &t[range.clone()];
            match axis {
                Axis::Steps { n, .. } => (0..=*n).contains(&own[0]),
                _ => own.iter().all(|t| *t == 0 || *t == 1) && own.iter().sum::<i64>() <= 1,
            }
        })
    }

    /// Returns the same grid with steps `factor` times as fine; `None` if no axis has steps.
    pub(super) fn finer(&self, factor: i64) -> Option<Self> {
        let mut finer = self.clone();
        let mut any = false;
        for (axis, _) in &mut finer.axes {
            if let Axis::Steps { step, n, .. } = axis {
                (*step, *n, any) = (*step / factor as f64, n.saturating_mul(factor), true);
            }
        }
        any.then_some(finer)
    }

    /// Returns the share of each coordinate's step that is left on a grid so many times as fine, p.
    pub(super) fn shares(&self, factor: i64) -> Vec<f64> {
        let of = |(axis, range): &(Axis, Range<usize>)| match axis {
            Axis::Steps { .. } => vec![1.0 / factor as f64],
            _ => vec![1.0; range.len()],
        };
        self.axes.iter().flat_map(of).collect()
    }

    /// Returns true if two points of the grid may differ by this much.
    pub(super) fn spans(&self, v: &[i64]) -> bool {
        self.axes.iter().all(|(axis, range)| match axis {
            Axis::Steps { n, .. } => v[range.start].abs() <= *n,
            _ => v[range.clone()].iter().all(|v| v.abs() <= 1),
        })
    }

    /// Returns the features of a grid point, d.
    pub(super) fn features(&self, t: &[i64]) -> DVector<f64> {
        let mut x = DVector::zeros(self.d);
        self.fixed.iter().for_each(|&(feature, value)| x[feature] = value);
        for (axis, range) in &self.axes {
            let own = &t[range.clone()];
            let option = match axis {
                Axis::Steps { .. } => own[0].max(0) as usize,
                _ => own.iter().position(|t| *t == 1).map_or(0, |at| at + 1),
            };
            axis.option(option, |feature, value| x[feature] = value);
        }
        x
    }

    /// Returns the coordinates of each axis's options; `None` if an axis has more than `most`.
    pub(super) fn options(&self, most: f64) -> Option<Vec<Vec<Vec<i64>>>> {
        let of = |(axis, range): &(Axis, Range<usize>)| {
            (axis.points() <= most).then(|| match axis {
                Axis::Steps { n, .. } => (0..=*n).map(|t| vec![t]).collect(),
                _ => (0..=range.len())
                    .map(|o| (1..=range.len()).map(|c| i64::from(c == o)).collect())
                    .collect(),
            })
        };
        self.axes.iter().map(of).collect()
    }

    /// Returns the coordinate range of each axis, in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.axes.iter().map(|(_, range)| range.clone())
    }

    /// Converts the mean of x for each record (d × n) and its covariance (d × d) to coordinates:
    /// means (p × n) and covariance (p × p). A coordinate is never known better than to the width
    /// of its step.
    pub(super) fn moments(
        &self,
        means: &DMatrix<f64>,
        covariance: &DMatrix<f64>,
    ) -> (DMatrix<f64>, DMatrix<f64>) {
        let (p, n) = (self.coordinates(), means.ncols());
        let (centre, _, spread) = self.spread();
        let mut to = DMatrix::from_fn(p, n, |i, _| centre[i]);
        let mut rows = DMatrix::zeros(p, self.d);
        let mut least = DVector::zeros(p);
        let mut apart = vec![false; p];
        for (axis, range) in &self.axes {
            match axis {
                Axis::Steps { feature, lower, step, .. } => {
                    rows[(range.start, *feature)] = 1.0 / step;
                    least[range.start] = 1.0 / 12.0;
                    (0..n)
                        .for_each(|j| to[(range.start, j)] = (means[(*feature, j)] - lower) / step);
                }
                Axis::Group { columns } => {
                    range.clone().for_each(|i| least[i] = 1e-3);
                    let apart =
                        |(_, (_, lower, upper)): &(usize, &(usize, f64, f64))| lower < upper;
                    for (i, &(column, lower, upper)) in
                        range.clone().zip(&columns[1..]).filter(apart)
                    {
                        rows[(i, column)] = 1.0 / (upper - lower);
                        (0..n).for_each(|j| {
                            to[(i, j)] = (means[(column, j)] - lower) / (upper - lower)
                        });
                    }
                }
                // One number does not tell how likely each of several levels is.
                Axis::Levels { .. } => apart[range.clone()].fill(true),
            }
        }
        let mut known = &rows * covariance * rows.transpose() + DMatrix::from_diagonal(&least);
        for (i, j) in
            (0..p).flat_map(|i| (0..p).map(move |j| (i, j))).filter(|&(i, j)| apart[i] || apart[j])
        {
            known[(i, j)] = if apart[i] && apart[j] { spread[(i, j)] } else { 0.0 };
        }
        (to, known)
    }
}

/// Returns a grid axis for two levels, or evenly spaced ones; for others a choice.
fn of_levels(feature: usize, values: &[f64]) -> Axis {
    let (lower, upper, n) = (values[0], values[values.len() - 1], values.len() as i64 - 1);
    let step = (upper - lower) / n as f64;
    let even =
        values.iter().enumerate().all(|(i, v)| (v - lower - step * i as f64).abs() <= EVEN * step);
    if even {
        Axis::Steps { feature, lower, upper, step, n }
    } else {
        Axis::Levels { feature, values: values.to_vec() }
    }
}
