//! Whitening: features that are uncorrelated and of variance 1.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use crate::pseudo_inverse::{DecompositionError, RANK_TOLERANCE};

/// The linear map T (x − μ) that gives features mean 0 and covariance I, fitted to records.
/// Directions without variance (up to 10⁻¹⁰ of the largest) have no coordinate, so that constant
/// and collinear features do no harm.
#[derive(Debug, Clone, PartialEq)]
pub struct Whitening {
    /// μ, of d features.
    means: DVector<f64>,
    /// T, r × d.
    transform: DMatrix<f64>,
}

impl Whitening {
    /// Fits the map to `x` (d × n, a record a column). The covariance is that of the n records,
    /// with divisor n.
    ///
    /// # Errors
    /// [`DecompositionError`] for values that are not finite, or whose squares are not, and for an
    /// iteration that does not converge.
    pub fn fit(x: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        let (d, n) = x.shape();
        if d == 0 {
            return Ok(Self { means: DVector::zeros(0), transform: DMatrix::zeros(0, 0) });
        }
        let means = if n == 0 { DVector::zeros(d) } else { x.column_mean() };
        let centred = DMatrix::from_fn(d, n, |i, j| x[(i, j)] - means[i]);
        let covariance = &centred * centred.transpose() / n.max(1) as f64;
        if covariance.iter().any(|value| !value.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let eigen = SymmetricEigen::try_new(covariance, f64::EPSILON, 10_000);
        let SymmetricEigen { eigenvalues, eigenvectors } =
            eigen.ok_or(DecompositionError::NoConvergence)?;
        let least = RANK_TOLERANCE * eigenvalues.iter().copied().fold(0.0, f64::max);
        let kept: Vec<usize> = (0..d).filter(|&at| eigenvalues[at] > least).collect();
        let transform = DMatrix::from_fn(kept.len(), d, |row, column| {
            eigenvectors[(column, kept[row])] / eigenvalues[kept[row]].sqrt()
        });
        Ok(Self { means, transform })
    }

    /// Returns the number r of coordinates, at most d.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.transform.nrows()
    }

    /// Returns the coordinates (r × n) of records of d features (d × n).
    #[must_use]
    pub fn apply(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let mut coordinates = &self.transform * x;
        let shift = &self.transform * &self.means;
        coordinates.column_iter_mut().for_each(|mut record| record -= &shift);
        coordinates
    }

    /// Returns W (k × d) and b (k) with W x + b = V T (x − μ), for weights V (k × r) of the
    /// coordinates.
    #[must_use]
    pub fn weights_of_features(&self, weights: &DMatrix<f64>) -> (DMatrix<f64>, DVector<f64>) {
        let of_features = weights * &self.transform;
        let offset = -(&of_features * &self.means);
        (of_features, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> DMatrix<f64> {
        // The third feature is the sum of the first two, the fourth is constant.
        DMatrix::from_fn(4, 50, |i, j| {
            let a = ((7 * j + 3) % 50) as f64 / 10.0;
            let b = ((11 * j * j + 1) % 50) as f64;
            [a, b, a + b, 2.5][i]
        })
    }

    #[test]
    fn coordinates_are_uncorrelated_and_as_many_as_the_rank() {
        let x = records();
        let whitening = Whitening::fit(&x).unwrap();
        assert_eq!(whitening.rank(), 2);
        let coordinates = whitening.apply(&x);
        assert!(coordinates.column_sum().amax() < 1e-9);
        let covariance = &coordinates * coordinates.transpose() / 50.0;
        assert!((covariance - DMatrix::identity(2, 2)).amax() < 1e-9);
    }

    #[test]
    fn weights_of_coordinates_are_weights_of_features() {
        let x = records();
        let whitening = Whitening::fit(&x).unwrap();
        let weights = DMatrix::from_row_slice(3, 2, &[1.0, -2.0, 0.5, 0.25, 0.0, 3.0]);
        let (of_features, offset) = whitening.weights_of_features(&weights);
        let mut logits = of_features * &x;
        logits.column_iter_mut().for_each(|mut record| record += &offset);
        assert!((logits - weights * whitening.apply(&x)).amax() < 1e-9);
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_and_constants_have_no_coordinate() {
        for value in [f64::NAN, f64::INFINITY, 1e300] {
            let x = DMatrix::from_row_slice(1, 2, &[value, 0.0]);
            assert_eq!(Whitening::fit(&x), Err(DecompositionError::NotFinite));
        }
        assert_eq!(Whitening::fit(&DMatrix::repeat(2, 5, 1.0)).unwrap().rank(), 0);
        assert_eq!(Whitening::fit(&DMatrix::zeros(2, 0)).unwrap().rank(), 0);
        // A party that holds the labels alone.
        let nothing = DMatrix::zeros(0, 5);
        let whitening = Whitening::fit(&nothing).unwrap();
        assert_eq!(whitening.apply(&nothing).shape(), (0, 5));
        let (weights, offset) = whitening.weights_of_features(&DMatrix::zeros(3, 0));
        assert_eq!((weights.shape(), offset), ((3, 0), DVector::zeros(3)));
    }
}
