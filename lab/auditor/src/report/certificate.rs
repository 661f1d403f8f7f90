//! Describes the most bits that a policy reveals and the bound that they give, in words that can be
//! quoted.

use vfl_defense::policy::{BOUND_ASSUMES, MULTIPLIER_MEANS};
use vfl_present::significant;

/// Explains a factor, with its assumptions.
pub(super) fn reading() -> String {
    format!("Bits bound every adversary: {MULTIPLIER_MEANS}. They hold {BOUND_ASSUMES}.")
}

/// Formats 2^bits, the factor by which a probability grows at most, rounded up in its third digit.
pub fn factor(bits: f64) -> String {
    let factor = bits.exp2();
    if !factor.is_finite() || factor >= 1e6 {
        return format!("2^{}", bits.ceil());
    }
    let digit = 10f64.powf(factor.log10().floor() - 2.0);
    // A certificate is never rounded down; a whole number of digits stays in spite of round-off.
    significant((factor / digit - 1e-9).ceil() * digit)
}

/// Formats the bits with their factor: `3.46 bits a record, a factor of 11`.
pub(super) fn bound(bits: f64) -> String {
    format!("{} bits a record, a factor of {}", significant(bits), factor(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_two_to_the_bits_and_never_below() {
        for (bits, shown) in [
            (0.0, "1"),
            (1.0, "2"),
            (3.459_431_618, "11"),
            (5.0, "32"),
            (2.7316, "6.65"),
            (0.817, "1.77"),
        ] {
            assert_eq!(
                factor(bits).trim_end_matches('0').trim_end_matches('.'),
                shown.trim_end_matches('0'),
                "{bits}"
            );
        }
        assert_eq!(factor(28.84), "2^29");
        assert_eq!(factor(5000.0), "2^5000");
        assert!(bound(5.0).contains("a factor of 32"));
        for part in ["at most 2^bits", "never about removed error", "exceeds 100 %", "add up"] {
            assert!(reading().contains(part), "{part}");
        }
    }
}
