//! The adversary's prior knowledge of the passive features: their moments.

use nalgebra::{DMatrix, DVector};
use vfl_numerics::{PseudoInverse, SampleMoments};

use super::PriorError;
use crate::AttackError;
use crate::sizes::same;

/// Mean and covariance of the passive features (d), and, if known, their moments with features that
/// the adversary has of each record. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct Prior {
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
    joint: Option<Joint>,
}

/// Moments with the adversary's features.
#[derive(Clone, PartialEq)]
struct Joint {
    /// The first of the adversary's features that is part of it.
    first: usize,
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
    /// The covariance of passive features with these, d × the features that are part of it.
    cross: DMatrix<f64>,
}

impl std::fmt::Debug for Prior {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let active = self.joint.as_ref().map_or(0, |joint| joint.mean.len());
        write!(f, "Prior({} features, {active} active, values withheld)", self.mean.len())
    }
}

fn shape(
    what: &'static str,
    m: &DMatrix<f64>,
    rows: usize,
    columns: usize,
) -> Result<(), PriorError> {
    if m.shape() != (rows, columns) {
        let expected = format!("{rows} × {columns}");
        return Err(PriorError::Shape { what, rows: m.nrows(), columns: m.ncols(), expected });
    }
    if m.iter().any(|v| !v.is_finite()) { Err(PriorError::NotFinite { what }) } else { Ok(()) }
}

fn covariance(what: &'static str, m: &DMatrix<f64>, features: usize) -> Result<(), PriorError> {
    shape(what, m, features, features)?;
    let skew = (m - m.transpose()).amax();
    if skew > 1e-8 * m.amax() { Err(PriorError::Asymmetric { what }) } else { Ok(()) }
}

impl Prior {
    /// Creates a prior from mean (d) and covariance (d × d) of the passive features.
    ///
    /// # Errors
    /// [`PriorError`] for shapes that do not fit, values that are not finite, or a matrix that is
    /// not symmetric.
    pub fn new(mean: DVector<f64>, covariances: DMatrix<f64>) -> Result<Self, PriorError> {
        shape("mean", &DMatrix::from_column_slice(mean.len(), 1, mean.as_slice()), mean.len(), 1)?;
        covariance("covariance", &covariances, mean.len())?;
        Ok(Self { mean, covariance: covariances, joint: None })
    }

    /// Returns the same prior with the mean (d_act) and covariance (d_act × d_act) of the active
    /// features, and the covariance of passive with active ones (d × d_act).
    ///
    /// # Errors
    /// As [`Prior::new`].
    pub fn with_active(
        self,
        mean: DVector<f64>,
        covariances: DMatrix<f64>,
        cross: DMatrix<f64>,
    ) -> Result<Self, PriorError> {
        let features = mean.len();
        shape(
            "active_mean",
            &DMatrix::from_column_slice(features, 1, mean.as_slice()),
            features,
            1,
        )?;
        covariance("active_covariance", &covariances, features)?;
        shape("cross_covariance", &cross, self.mean.len(), features)?;
        Ok(Self { joint: Some(Joint { first: 0, mean, covariance: covariances, cross }), ..self })
    }

    /// Computes the joint moments of records that the adversary has whole: passive features `x` (d
    /// × n) and active ones `y` (d_act × n), with [shrunk](SampleMoments::shrunk) correlations.
    ///
    /// # Errors
    /// [`PriorError`] if the numbers of records differ, or a value is not finite.
    pub fn of_records(x: &DMatrix<f64>, y: &DMatrix<f64>) -> Result<Self, PriorError> {
        let (d, n) = x.shape();
        shape("records", y, y.nrows(), n)?;
        let all = DMatrix::from_fn(
            d + y.nrows(),
            n,
            |i, j| if i < d { x[(i, j)] } else { y[(i - d, j)] },
        );
        let SampleMoments { mean, covariance, .. } = SampleMoments::shrunk(&all);
        let part = |from: usize, rows: usize, to: usize, columns: usize| {
            covariance.view((from, to), (rows, columns)).into_owned()
        };
        let active = y.nrows();
        Self::new(mean.rows(0, d).into_owned(), part(0, d, 0, d))?.with_active(
            mean.rows(d, active).into_owned(),
            part(d, active, d, active),
            part(0, d, d, active),
        )
    }

    /// Returns the moments of the passive features alone.
    #[must_use]
    pub fn own(&self) -> Self {
        Self { joint: None, ..self.clone() }
    }

    /// Returns the number of passive features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.mean.len()
    }

    /// Returns true if the prior includes the adversary's own features of each record.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        self.joint.is_some()
    }

    /// Returns the mean of the passive features, d.
    #[must_use]
    pub fn mean(&self) -> &DVector<f64> {
        &self.mean
    }

    /// Returns the prior of records with these active features (d_act × n), before any score: the
    /// mean of each, d × n, and the covariance of all, d × d. m = μ + C Σ_yy⁺ (y − μ_y), S = Σ − C
    /// Σ_yy⁺ Cᵀ; μ and Σ if the moments are not joint.
    ///
    /// # Errors
    /// [`AttackError::View`] if the active features are others than those of the moments.
    pub fn given(&self, y: &DMatrix<f64>) -> Result<(DMatrix<f64>, DMatrix<f64>), AttackError> {
        let (d, n) = (self.mean.len(), y.ncols());
        let mut means = DMatrix::from_fn(d, n, |i, _| self.mean[i]);
        let Some(Joint { first, mean, covariance, cross }) = &self.joint else {
            return Ok((means, self.covariance.clone()));
        };
        same("active features of the prior", "features", y.nrows(), first + mean.len())?;
        let gain = cross * PseudoInverse::new(covariance)?.matrix;
        let mut away = y.rows_range(*first..).into_owned();
        away.column_iter_mut().for_each(|mut column| column -= mean);
        means += &gain * away;
        let left = &self.covariance - gain * cross.transpose();
        Ok((means, 0.5 * (&left + left.transpose())))
    }

    /// Returns the prior of u = (x − lower) / width for the features `open`; the others are known.
    pub(crate) fn in_ranges(&self, open: &[usize], ranges: &[(f64, f64)]) -> Self {
        let width = |i: usize| ranges[i].1 - ranges[i].0;
        let mean = DVector::from_iterator(
            open.len(),
            open.iter().map(|&i| (self.mean[i] - ranges[i].0) / width(i)),
        );
        let covariance = DMatrix::from_fn(open.len(), open.len(), |i, j| {
            self.covariance[(open[i], open[j])] / (width(open[i]) * width(open[j]))
        });
        let joint = self.joint.as_ref().map(|joint| {
            let cross = DMatrix::from_fn(open.len(), joint.cross.ncols(), |i, j| {
                joint.cross[(open[i], j)] / width(open[i])
            });
            Joint { cross, ..joint.clone() }
        });
        Self { mean, covariance, joint }
    }

    /// Returns the prior of the features `others` for an adversary that also has `map` x_known (r ×
    /// the features `known`) of each record, behind `active` features of its own.
    pub(crate) fn learning(
        &self,
        others: &[usize],
        known: &[usize],
        map: &DMatrix<f64>,
        active: usize,
    ) -> Self {
        let part = |rows: &[usize], columns: &[usize]| {
            DMatrix::from_fn(rows.len(), columns.len(), |i, j| {
                self.covariance[(rows[i], columns[j])]
            })
        };
        let pick = |which: &[usize]| {
            DVector::from_iterator(which.len(), which.iter().map(|&i| self.mean[i]))
        };
        let (first, own) = match &self.joint {
            None => (active, 0),
            Some(joint) => (joint.first, joint.mean.len()),
        };
        let size = own + map.nrows();
        let (mut mean, mut covariance) = (DVector::zeros(size), DMatrix::zeros(size, size));
        let mut cross = DMatrix::zeros(others.len(), size);
        if let Some(joint) = &self.joint {
            mean.rows_mut(0, own).copy_from(&joint.mean);
            covariance.view_mut((0, 0), (own, own)).copy_from(&joint.covariance);
            cross.columns_mut(0, own).copy_from(&joint.cross.select_rows(others));
            let between = map * joint.cross.select_rows(known);
            covariance.view_mut((own, 0), (map.nrows(), own)).copy_from(&between);
            covariance.view_mut((0, own), (own, map.nrows())).copy_from(&between.transpose());
        }
        mean.rows_mut(own, map.nrows()).copy_from(&(map * pick(known)));
        covariance
            .view_mut((own, own), (map.nrows(), map.nrows()))
            .copy_from(&(map * part(known, known) * map.transpose()));
        cross.columns_mut(own, map.nrows()).copy_from(&(part(others, known) * map.transpose()));
        Self {
            mean: pick(others),
            covariance: part(others, others),
            joint: Some(Joint { first, mean, covariance, cross }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior() -> Prior {
        let spread = DMatrix::from_row_slice(
            5,
            5,
            &[
                0.3, 0.0, 0.0, 0.0, 0.0, //
                0.1, 0.2, 0.0, 0.0, 0.0, //
                -0.1, 0.1, 0.25, 0.0, 0.0, //
                0.05, -0.1, 0.1, 0.2, 0.0, //
                0.1, 0.0, 0.1, -0.1, 0.3,
            ],
        );
        let all = &spread * spread.transpose();
        Prior::new(DVector::from_row_slice(&[0.5, 0.4, 0.6]), all.view((0, 0), (3, 3)).into_owned())
            .unwrap()
            .with_active(
                DVector::from_row_slice(&[0.3, 0.7]),
                all.view((3, 3), (2, 2)).into_owned(),
                all.view((0, 3), (3, 2)).into_owned(),
            )
            .unwrap()
    }

    #[test]
    fn learning_a_feature_and_conditioning_on_it_is_conditioning_on_all() {
        let prior = prior();
        let y = DMatrix::from_column_slice(2, 1, &[0.1, 0.9]);
        let (mean, covariance) = prior.given(&y).unwrap();
        // x₁ = 0.8 is learnt: by the formula on what was left, and by the moments.
        let gain = covariance.select_columns(&[1]).select_rows(&[0, 2]) / covariance[(1, 1)];
        let want = mean.select_rows(&[0, 2]) + &gain * (0.8 - mean[1]);
        let learnt = prior.learning(&[0, 2], &[1], &DMatrix::identity(1, 1), 2);
        let (got, left) =
            learnt.given(&DMatrix::from_column_slice(3, 1, &[0.1, 0.9, 0.8])).unwrap();
        assert!((got - want).amax() < 1e-12);
        let others = covariance.select_columns(&[0, 2]).select_rows(&[0, 2]);
        assert!(
            (left - (others - &gain * covariance.select_rows(&[1]).select_columns(&[0, 2]))).amax()
                < 1e-12
        );
        // Without joint moments the own features are passed over.
        let own = Prior::new(prior.mean.clone(), prior.covariance.clone()).unwrap();
        let learnt = own.learning(&[0, 2], &[1], &DMatrix::identity(1, 1), 2);
        let (got, _) = learnt.given(&DMatrix::from_column_slice(3, 1, &[0.1, 0.9, 0.8])).unwrap();
        let want = 0.5 + own.covariance[(0, 1)] / own.covariance[(1, 1)] * 0.4;
        assert!((got[0] - want).abs() < 1e-12);
    }

    #[test]
    fn moments_of_records_are_those_of_a_regression() {
        let n = 4000;
        let y = DMatrix::from_fn(2, n, |i, j| ((j * (7 + 4 * i)) % 101) as f64 / 100.0);
        let x = DMatrix::from_fn(1, n, |_, j| 0.2 + 0.5 * y[(0, j)] - 0.3 * y[(1, j)]);
        let (means, left) = Prior::of_records(&x, &y).unwrap().given(&y).unwrap();
        assert!(
            (means - x).amax() < 5e-3 && left[(0, 0)] < 1e-3,
            "shrinkage is slight for many records"
        );
    }

    #[test]
    fn moments_that_do_not_fit_are_refused_by_name() {
        let mean = DVector::zeros(2);
        let refused = |e: PriorError| e.to_string();
        let wide = Prior::new(mean.clone(), DMatrix::zeros(3, 3)).map_err(refused).unwrap_err();
        assert_eq!(wide, "`covariance` is 3 × 3, expected 2 × 2");
        let skew = Prior::new(mean.clone(), DMatrix::from_row_slice(2, 2, &[1.0, 0.5, 0.0, 1.0]));
        assert_eq!(skew.map_err(refused).unwrap_err(), "`covariance` is not symmetric");
        let nan = Prior::new(DVector::from_element(2, f64::NAN), DMatrix::zeros(2, 2));
        assert_eq!(nan.map_err(refused).unwrap_err(), "`mean` holds a value that is not finite");
        let cross = Prior::new(mean, DMatrix::zeros(2, 2)).unwrap().with_active(
            DVector::zeros(1),
            DMatrix::zeros(1, 1),
            DMatrix::zeros(1, 2),
        );
        assert_eq!(
            cross.map_err(refused).unwrap_err(),
            "`cross_covariance` is 1 × 2, expected 2 × 1"
        );
    }
}
