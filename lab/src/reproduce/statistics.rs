//! Means with their standard errors.

/// A mean of independent values and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    /// (1 / n) Σ vᵢ.
    pub(super) mean: f64,
    /// √(Σ (vᵢ − mean)² / (n − 1) / n); 0 for a single value, of which nothing is known.
    pub(super) standard_error: f64,
}

/// Mean and standard error of `values`, of which there is at least one.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64> + Clone) -> Mean {
    let n = values.len() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let spread: f64 = values.map(|v| (v - mean) * (v - mean)).sum();
    Mean { mean, standard_error: if n > 1.0 { (spread / (n - 1.0) / n).sqrt() } else { 0.0 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        // 0 … 9: variance 110/12 with divisor n − 1.
        let m = mean((0..10).map(f64::from));
        assert_eq!((m.mean, m.standard_error), (4.5, (110.0 / 12.0 / 10.0f64).sqrt()));
        assert_eq!(mean([0.25].into_iter()), Mean { mean: 0.25, standard_error: 0.0 });
    }
}
