//! The posterior of one record as a mixture: one part for each point that descents end at.

use nalgebra::{DMatrix, DVector};

/// The distance of features within which two points are one.
const APART: f64 = 1e-3;

/// The points of a posterior, each with the weight of the Gaussian that fits there (Laplace's
/// approximation of the integral).
#[derive(Debug, Default)]
pub(super) struct Mixture {
    /// Points, with minus twice the logarithms of their weights.
    parts: Vec<(DVector<f64>, f64)>,
}

impl Mixture {
    /// Adds a point, unless it is there already.
    pub(super) fn add(&mut self, x: DVector<f64>, cost: f64) {
        let is_new = self.parts.iter().all(|(other, _)| (other - &x).amax() > APART);
        if is_new && !cost.is_nan() {
            self.parts.push((x, cost));
        }
    }

    /// Returns the point of the largest weight, if there is one.
    pub(super) fn likeliest(&self) -> Option<DVector<f64>> {
        self.parts.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(x, _)| x.clone())
    }

    /// Returns the weighted mean, if there is a point.
    pub(super) fn mean(&self) -> Option<DVector<f64>> {
        let least = self.parts.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
        let (first, _) = self.parts.first()?;
        let (mut sum, mut total) = (DVector::zeros(first.len()), 0.0);
        for (x, cost) in &self.parts {
            let weight = (-0.5 * (cost - least)).exp();
            sum += x * weight;
            total += weight;
        }
        if total > 0.0 { Some(sum / total) } else { self.likeliest() }
    }
}

/// Returns ln det (J S Jᵀ + `noise` I) for slopes J (m × d) under the covariance S; without noise,
/// of the directions in which the product is not 0.
pub(super) fn log_determinant(slopes: &DMatrix<f64>, covariance: &DMatrix<f64>, noise: f64) -> f64 {
    let product = slopes * covariance * slopes.transpose();
    let values = product.symmetric_eigenvalues();
    let cut = 1e-10 * values.amax();
    values.iter().map(|v| v + noise).filter(|v| *v > cut && *v > 0.0).map(f64::ln).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_weigh_as_their_densities_and_count_once() {
        let at = |x: f64| DVector::from_element(1, x);
        let mut mixture = Mixture::default();
        assert!(mixture.mean().is_none() && mixture.likeliest().is_none());
        mixture.add(at(0.2), 3.0);
        mixture.add(at(0.8), 3.0 + 2.0 * 3f64.ln());
        // The same point once more, and one that has no weight.
        mixture.add(at(0.2), 3.0);
        mixture.add(at(0.5), f64::NAN);
        assert!((mixture.mean().unwrap()[0] - (0.75 * 0.2 + 0.25 * 0.8)).abs() < 1e-12);
        assert_eq!(mixture.likeliest().unwrap(), at(0.2));
    }

    #[test]
    fn determinants_are_those_of_the_product() {
        let slopes = DMatrix::from_row_slice(2, 3, &[1.0, 2.0, 0.0, 0.0, 1.0, -1.0]);
        let covariance = DMatrix::from_diagonal(&DVector::from_row_slice(&[0.5, 1.0, 2.0]));
        let product = &slopes * &covariance * slopes.transpose();
        let plain = log_determinant(&slopes, &covariance, 0.0);
        assert!((plain - product.determinant().ln()).abs() < 1e-12);
        let noisy = log_determinant(&slopes, &covariance, 1.0);
        let with_noise = product + DMatrix::<f64>::identity(2, 2);
        assert!((noisy - with_noise.determinant().ln()).abs() < 1e-12);
        // A row twice spans no more than once.
        let twice = DMatrix::from_row_slice(2, 1, &[3.0, 3.0]);
        let one = DMatrix::from_element(1, 1, 1.0);
        assert!((log_determinant(&twice, &one, 0.0) - 18f64.ln()).abs() < 1e-12);
    }
}
