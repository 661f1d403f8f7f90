//! The mean and covariance of a sample, with shrinkage for small samples.

use nalgebra::{DMatrix, DVector};

/// The mean and covariance of a sample of vectors.
///
/// # Example
///
/// Twelve records of three features determine variances better than correlations, which are shrunk:
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::SampleMoments;
///
/// let records = DMatrix::from_fn(3, 12, |i, j| ((i * 5 + j * 7) % 11) as f64 / 10.0);
/// let moments = SampleMoments::shrunk(&records);
/// assert!(moments.shrinkage > 0.0 && moments.shrinkage <= 1.0);
/// assert!((moments.mean[0] - records.row(0).mean()).abs() < 1e-12);
/// ```
#[derive(Clone, PartialEq)]
pub struct SampleMoments {
    /// The mean, d entries.
    pub mean: DVector<f64>,
    /// The covariance, d × d.
    pub covariance: DMatrix<f64>,
    /// The share by which each correlation was reduced, 0 to 1.
    pub shrinkage: f64,
}

impl std::fmt::Debug for SampleMoments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SampleMoments({} features, values withheld)", self.mean.len())
    }
}

impl SampleMoments {
    /// Computes the moments of the columns of `records` (d × n). Variances are those of the sample
    /// (over n − 1). Correlations are multiplied by 1 − λ with the λ that has the least expected
    /// squared error (Schäfer and Strimmer, 2005, table 1, target D): near 0 for many records, 1
    /// for two.
    #[must_use]
    pub fn shrunk(records: &DMatrix<f64>) -> Self {
        let (d, n) = records.shape();
        if n == 0 {
            return Self {
                mean: DVector::zeros(d),
                covariance: DMatrix::zeros(d, d),
                shrinkage: 1.0,
            };
        }
        let count = n as f64;
        let mut mean = records.column_mean();
        for (mean, row) in mean.iter_mut().zip(records.row_iter()) {
            // Exact equality, so that a constant feature has no variance from round-off.
            if row.iter().all(|v| *v == row[0]) {
                *mean = row[0];
            }
        }
        let mut centred = records.clone();
        centred.column_iter_mut().for_each(|mut c| c -= &mean);
        let free = (count - 1.0).max(1.0);
        let sample = &centred * centred.transpose() / free;
        if n < 3 {
            let covariance = DMatrix::from_diagonal(&sample.diagonal());
            return Self { mean, covariance, shrinkage: 1.0 };
        }
        let deviations: Vec<f64> = sample.diagonal().iter().map(|v| v.sqrt()).collect();
        let mut standard = centred;
        for (mut row, s) in standard.row_iter_mut().zip(&deviations) {
            if *s > 0.0 {
                row /= *s;
            }
        }
        let squares = standard.map(|v| v * v);
        // Σ over i ≠ j of the sum of products over the records, and of their squares.
        let products = &standard * standard.transpose();
        let of_squares = &squares * squares.transpose();
        let (mut spread, mut size) = (0.0, 0.0);
        for i in 0..d {
            for j in (0..d).filter(|j| *j != i) {
                let mean = products[(i, j)] / count;
                spread += count / free.powi(3) * (of_squares[(i, j)] - count * mean * mean);
                size += (products[(i, j)] / free).powi(2);
            }
        }
        let shrinkage = if size > 0.0 { (spread / size).clamp(0.0, 1.0) } else { 1.0 };
        let covariance = DMatrix::from_fn(d, d, |i, j| {
            sample[(i, j)] * if i == j { 1.0 } else { 1.0 - shrinkage }
        });
        Self { mean, covariance, shrinkage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// Σ with correlations that fall with distance, and samples of it.
    fn drawn(n: usize, seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
        let d = 10;
        let covariance = DMatrix::from_fn(d, d, |i, j| 0.7f64.powi(i.abs_diff(j) as i32));
        let factor = covariance.clone().cholesky().unwrap().l();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (
            covariance,
            factor * DMatrix::from_fn(d, n, |_, _| -> f64 { StandardNormal.sample(&mut rng) }),
        )
    }

    #[test]
    fn few_records_are_shrunk_to_less_error_and_many_are_left() {
        let (mut plain, mut shrunk) = (0.0, 0.0);
        for seed in 0..40 {
            let (truth, records) = drawn(12, seed);
            let moments = SampleMoments::shrunk(&records);
            assert!((0.1..=1.0).contains(&moments.shrinkage), "{}", moments.shrinkage);
            let sample = DMatrix::from_fn(10, 10, |i, j| {
                moments.covariance[(i, j)]
                    / if i == j { 1.0 } else { (1.0 - moments.shrinkage).max(1e-9) }
            });
            plain += (sample - &truth).norm_squared();
            shrunk += (&moments.covariance - &truth).norm_squared();
            assert!(
                moments.covariance.clone().cholesky().is_some(),
                "12 records of 10 features, positive definite"
            );
        }
        assert!(shrunk < 0.85 * plain, "{shrunk} against {plain}");
        let (truth, records) = drawn(20_000, 1);
        let moments = SampleMoments::shrunk(&records);
        assert!(moments.shrinkage < 0.01 && (moments.covariance - truth).amax() < 0.05);
    }

    #[test]
    fn constant_features_and_no_records_are_cases_like_others() {
        let mut records = drawn(30, 2).1;
        records.row_mut(4).fill(0.25);
        let moments = SampleMoments::shrunk(&records);
        assert!(moments.covariance.row(4).iter().all(|v| *v == 0.0) && moments.mean[4] == 0.25);
        for n in 0..3 {
            let moments = SampleMoments::shrunk(&records.columns(0, n).clone_owned());
            assert!(moments.covariance.iter().all(|v| v.is_finite()) && moments.shrinkage == 1.0);
        }
    }
}
