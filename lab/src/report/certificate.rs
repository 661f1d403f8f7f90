//! The bits that a policy tells at most, and what they bound, in words that can be quoted.

use vfl_shared::policy::{BOUND_ASSUMES, MULTIPLIER_MEANS};

use super::number::significant;

/// What a factor says, and what it does not.
pub(super) fn reading() -> String {
    format!("Bits bound every adversary: {MULTIPLIER_MEANS}. They hold {BOUND_ASSUMES}.")
}

/// 2^bits, the factor by which a chance grows at most, rounded up in its third digit.
pub(crate) fn factor(bits: f64) -> String {
    let factor = bits.exp2();
    if !factor.is_finite() || factor >= 1e6 {
        return format!("2^{}", bits.ceil());
    }
    let digit = 10f64.powf(factor.log10().floor() - 2.0);
    // A certificate is not rounded down; what is a whole number of digits but for round-off stays.
    significant((factor / digit - 1e-9).ceil() * digit)
}

/// The bits with their factor: `3.46 bits a record, a factor of 11`.
pub(super) fn bound(bits: f64) -> String {
    format!("{} bits a record, a factor of {}", significant(bits), factor(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_two_to_the_bits_and_never_below() {
        for (bits, shown) in
            [(0.0, "1"), (1.0, "2"), (3.459_431_618, "11"), (5.0, "32"), (2.7316, "6.65"), (0.817, "1.77")]
        {
            assert_eq!(factor(bits).trim_end_matches('0').trim_end_matches('.'), shown.trim_end_matches('0'), "{bits}");
        }
        assert_eq!(factor(28.84), "2^29");
        assert_eq!(factor(5000.0), "2^5000");
        assert!(bound(5.0).contains("a factor of 32"));
        for part in ["at most 2^bits", "never about removed error", "exceeds 100 %", "add up"] {
            assert!(reading().contains(part), "{part}");
        }
    }
}
