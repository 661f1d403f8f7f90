//! Means with their standard errors.

/// A mean of independent values, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    /// The mean, (1 / n) Σ vᵢ.
    pub(super) mean: f64,
    /// The standard error, √(Σ (vᵢ − mean)² / (n − 1) / n); 0 for a single value, for which it is
    /// unknown.
    pub(super) standard_error: f64,
}

/// Returns the mean and standard error of `values`, of which there is at least one.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64> + Clone) -> Mean {
    let n = values.len() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let spread: f64 = values.map(|v| (v - mean) * (v - mean)).sum();
    Mean { mean, standard_error: if n > 1.0 { (spread / (n - 1.0) / n).sqrt() } else { 0.0 } }
}

/// Returns the chance that Student's t of `freedom` ≥ 1 degrees of freedom exceeds `t` (Abramowitz
/// and Stegun, 26.7.3 and 26.7.4).
pub(super) fn student_tail(t: f64, freedom: usize) -> f64 {
    let theta = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    let odd = freedom % 2 == 1;
    // Each term is the one before it times cos² and j / (j + 1), j = 2, 4, … or 1, 3, ….
    let mut term = if odd { cosine } else { 1.0 };
    let (mut sum, mut j) = (if freedom == 1 { 0.0 } else { term }, if odd { 2 } else { 1 });
    while j + 2 < freedom {
        term *= cosine * cosine * j as f64 / (j + 1) as f64;
        sum += term;
        j += 2;
    }
    let within = if odd { std::f64::consts::FRAC_2_PI * (theta + sine * sum) } else { sine * sum };
    (1.0 - within) / 2.0
}

/// Returns √((1 / n) Σ (vᵢ − mean)²): the standard deviation of a whole population. 0 without a
/// value.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt()
}

/// Returns (mean of `errors`) / (mean of `controls`) over the same records, at least one, and its
/// standard error by the delta method; 0 for a single record. `None` if the controls have no error.
pub(super) fn ratio(errors: &[f64], controls: &[f64]) -> Option<Mean> {
    let n = errors.len() as f64;
    let below = mean(controls.iter().copied()).mean;
    if below <= 0.0 {
        return None;
    }
    let ratio = mean(errors.iter().copied()).mean / below;
    let squares: f64 =
        errors.iter().zip(controls).map(|(e, c)| (e - ratio * c) * (e - ratio * c)).sum();
    let standard_error = if n > 1.0 { (squares / (n * (n - 1.0))).sqrt() / below } else { 0.0 };
    Some(Mean { mean: ratio, standard_error })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn closed_forms() {
        // 0 … 9: variance 110/12 with divisor n − 1.
        let m = mean((0..10).map(f64::from));
        assert_eq!((m.mean, m.standard_error), (4.5, (110.0 / 12.0 / 10.0f64).sqrt()));
        assert_eq!(mean([0.25].into_iter()), Mean { mean: 0.25, standard_error: 0.0 });
        assert_eq!((deviation(&[1.0, 3.0]), deviation(&[2.0]), deviation(&[])), (1.0, 0.0, 0.0));
    }

    /// The one-sided quantiles of the tables (5 %, 1 %, 0.1 %), and both signs.
    #[test]
    fn tails_of_student_are_those_of_the_tables() {
        let tables = [
            (1, [6.314, 31.821, 318.31]),
            (2, [2.920, 6.965, 22.327]),
            (3, [2.353, 4.541, 10.215]),
            (5, [2.015, 3.365, 5.893]),
            (8, [1.860, 2.896, 4.501]),
            (30, [1.697, 2.457, 3.385]),
        ];
        for (freedom, quantiles) in tables {
            for (t, p) in quantiles.into_iter().zip([0.05, 0.01, 0.001]) {
                let (above, below) = (student_tail(t, freedom), student_tail(-t, freedom));
                assert!((above / p - 1.0).abs() < 2e-3, "{freedom} {t}: {above}");
                assert!((above + below - 1.0).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn a_ratio_is_known_as_well_as_its_residuals() {
        // Residuals of 0.5 c: ½, −½; the mean of c is 2.
        let r = ratio(&[1.0, 1.0], &[1.0, 3.0]).unwrap();
        assert_eq!((r.mean, r.standard_error), (0.5, 0.25f64.sqrt() / 2.0));
        // Proportional errors leave no residual.
        let r = ratio(&[0.2, 0.6], &[1.0, 3.0]).unwrap();
        assert!((r.mean - 0.2).abs() < 1e-15 && r.standard_error < 1e-15);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
