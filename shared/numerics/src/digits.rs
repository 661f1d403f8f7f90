//! Rounding of values that leave a party.

/// Rounds to three significant digits. Scorers and audits publish rounded values, so that two
/// answers cannot be subtracted to learn about one record. Non-finite values and 0 are kept.
///
/// # Example
///
/// ```
/// assert_eq!(vfl_numerics::three_significant_digits(0.012_345), 0.0123);
/// ```
#[must_use]
pub fn three_significant_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // Text gives the nearest double of a three-digit decimal at any magnitude.
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::three_significant_digits as three;

    #[test]
    fn three_digits_stay() {
        assert_eq!(three(0.012_345), 0.0123);
        assert_eq!(three(-98_765.0), -98_800.0);
        assert_eq!(three(1.234e-27), 1.23e-27);
        assert_eq!(three(0.0), 0.0);
        assert_eq!(three(0.9999), 1.0);
    }
}
