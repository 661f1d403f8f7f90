//! Second moments of features about three points, which are all that the closed forms need of the
//! records.

use nalgebra::{DMatrix, DVector};

/// The mean μ, and K_z = (1/n) Σ (x − z)(x − z)ᵀ, d × d, for the three z of R theorem 2.
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

/// The number of columns that are taken together, so that memory does not grow with the records.
const CHUNK: usize = 4096;

/// Returns the mean and the covariance (divisor n) of the columns of `x` (d × N) that `which`
/// names, n ≥ 1 of them; `None` if a sum overflows.
pub fn mean_and_covariance<I: Iterator<Item = usize>>(
    x: &DMatrix<f64>,
    which: impl Fn() -> I,
) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let (mut n, mut mean) = (0.0, DVector::zeros(x.nrows()));
    for at in which() {
        mean += x.column(at);
        n += 1.0;
    }
    mean /= n;
    let mut covariance = DMatrix::zeros(x.nrows(), x.nrows());
    let mut columns = which().peekable();
    while columns.peek().is_some() {
        let taken: Vec<_> = columns.by_ref().take(CHUNK).map(|at| x.column(at) - &mean).collect();
        let taken = DMatrix::from_columns(&taken);
        covariance.gemm(1.0 / n, &taken, &taken.transpose(), 1.0);
    }
    covariance.iter().chain(mean.iter()).all(|v| v.is_finite()).then_some((mean, covariance))
}

impl Moments {
    /// Computes the moments of the columns of `x` (d × n, n ≥ 1); `None` if a sum overflows. Each
    /// is summed from differences: K_½ from K₀ and μ would cancel.
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
