//! Second moments of features about three points.

use nalgebra::DMatrix;

use super::AssessError;

/// K_z = (1/n) Σ (x − z)(x − z)ᵀ, d × d, for the three z of R theorem 2.
pub(super) struct Moments {
    /// K₀: z = 0.
    pub(super) about_zero: DMatrix<f64>,
    /// K_½: z = ½ in every feature.
    pub(super) about_half: DMatrix<f64>,
    /// K_μ: z = the mean of the records; the covariance with divisor n.
    pub(super) about_mean: DMatrix<f64>,
}

impl Moments {
    /// Of the columns of `x` (d × n, n ≥ 1). Each is summed from differences: K_½ from K₀ and μ would cancel.
    pub(super) fn of(x: &DMatrix<f64>) -> Result<Self, AssessError> {
        let (d, n) = x.shape();
        let mut shifted = x.clone();
        let mut gram = |z: &DMatrix<f64>| {
            shifted.copy_from(x);
            for mut column in shifted.column_iter_mut() {
                column -= z;
            }
            let k = &shifted * shifted.transpose() / n as f64;
            if k.iter().all(|v| v.is_finite()) {
                Ok(k)
            } else {
                Err(AssessError::Overflow { what: "the moments of the records" })
            }
        };
        let mean = DMatrix::from_iterator(d, 1, x.column_mean().iter().copied());
        Ok(Self {
            about_zero: gram(&DMatrix::zeros(d, 1))?,
            about_half: gram(&DMatrix::from_element(d, 1, 0.5))?,
            about_mean: gram(&mean)?,
        })
    }
}
