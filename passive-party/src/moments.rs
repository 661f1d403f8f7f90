//! Second moments of features about three points: all that a closed form for the error of an attack needs of the records.

use nalgebra::{DMatrix, DVector};

/// μ, and K_z = (1/n) Σ (x − z)(x − z)ᵀ, d × d, for the three z of R theorem 2.
pub(crate) struct Moments {
    /// μ: the mean of the records, d.
    pub(crate) mean: DVector<f64>,
    /// K₀: z = 0.
    pub(crate) about_zero: DMatrix<f64>,
    /// K_½: z = ½ in every feature.
    pub(crate) about_half: DMatrix<f64>,
    /// K_μ: z = the mean of the records; the covariance with divisor n.
    pub(crate) about_mean: DMatrix<f64>,
}

impl Moments {
    /// Of the columns of `x` (d × n, n ≥ 1); `None` where a sum overflows. Each is summed from differences: K_½ from K₀ and μ
    /// would cancel.
    pub(crate) fn of(x: &DMatrix<f64>) -> Option<Self> {
        let n = x.ncols();
        let mut shifted = x.clone();
        let mut gram = |z: &DVector<f64>| {
            shifted.copy_from(x);
            for mut column in shifted.column_iter_mut() {
                column -= z;
            }
            let k = &shifted * shifted.transpose() / n as f64;
            k.iter().all(|v| v.is_finite()).then_some(k)
        };
        let mean = x.column_mean();
        Some(Self {
            about_zero: gram(&DVector::zeros(x.nrows()))?,
            about_half: gram(&DVector::from_element(x.nrows(), 0.5))?,
            about_mean: gram(&mean)?,
            mean,
        })
    }
}
