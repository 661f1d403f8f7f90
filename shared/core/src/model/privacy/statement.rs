//! A party's statement of the privacy that it trained with.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A party's statement of the privacy that it trained with; [`privacy`](super) describes what it
/// means. Nobody else can check it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyStatement {
    /// γ: the largest length of a record's part of the gradient of the summed loss.
    pub clip: f64,
    /// σ: standard deviation of the noise over γ.
    pub noise: f64,
    /// ε in nats, for the replacement of one record's features at this party.
    pub epsilon: f64,
    /// The δ of the guarantee.
    pub delta: f64,
    /// The largest number of updates that a record took part in.
    pub steps: u64,
}

/// A statement that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` of the privacy is not {expected}")]
pub struct PrivacyStatementError {
    /// The value that is wrong.
    pub key: &'static str,
    /// The values that are expected.
    pub expected: &'static str,
}

impl PrivacyStatement {
    /// Returns the statement, if its numbers are finite and within their ranges.
    ///
    /// # Errors
    /// [`PrivacyStatementError`] names the value that is not.
    pub fn checked(self) -> Result<Self, PrivacyStatementError> {
        let check = |ok, key, expected| {
            if ok { Ok(()) } else { Err(PrivacyStatementError { key, expected }) }
        };
        let positive = |value: f64| value.is_finite() && value > 0.0;
        check(positive(self.clip), "clip", "a finite number above 0")?;
        check(positive(self.noise), "noise", "a finite number above 0")?;
        check(
            self.epsilon.is_finite() && self.epsilon >= 0.0,
            "epsilon",
            "a finite number, at least 0",
        )?;
        check(self.delta > 0.0 && self.delta < 1.0, "delta", "between 0 and 1")?;
        // Without an update there is nothing to account for.
        check(self.steps > 0 || self.epsilon == 0.0, "epsilon", "0 without an update")?;
        Ok(self)
    }

    /// Shows ε with three significant digits, rounded up.
    #[must_use]
    pub fn shown_epsilon(&self) -> String {
        significant(self.epsilon)
    }
}

impl fmt::Display for PrivacyStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clip, noise, epsilon, delta, steps } = self;
        let epsilon = significant(*epsilon);
        write!(
            f,
            "epsilon {epsilon} for delta {delta:e} (clip {clip}, noise {noise}, {steps} updates of a record at most)"
        )
    }
}

/// Shows three significant digits, rounded up: a promise must not become smaller when it is shown.
fn significant(value: f64) -> String {
    if !(value.is_finite() && value > 0.0) {
        return value.to_string();
    }
    let decimals = 2 - value.log10().floor() as i32;
    let unit = 10f64.powi(-decimals);
    // A multiple of the unit, up to rounding, stays what it is.
    let rounded = (value / unit - 1e-9).ceil() * unit;
    format!("{rounded:.*}", usize::try_from(decimals).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_is_shown_with_three_digits_and_never_smaller() {
        for (value, shown) in [
            (8.7612, "8.77"),
            (8.76, "8.76"),
            (0.012341, "0.0124"),
            (123.4, "124"),
            (1234.0, "1240"),
            (9.999, "10.00"),
            (0.0, "0"),
        ] {
            assert_eq!(significant(value), shown, "{value}");
        }
    }

    #[test]
    fn statements_that_cannot_be_true_are_refused() {
        let good =
            PrivacyStatement { clip: 1.0, noise: 4.0, epsilon: 8.761, delta: 1e-5, steps: 10 };
        assert_eq!(good.checked(), Ok(good));
        let said = "epsilon 8.77 for delta 1e-5 (clip 1, noise 4, 10 updates of a record at most)";
        assert_eq!(good.to_string(), said);
        let nothing = PrivacyStatement { epsilon: 0.0, steps: 0, ..good };
        assert_eq!(nothing.checked(), Ok(nothing));
        for (bad, key) in [
            (PrivacyStatement { clip: 0.0, ..good }, "clip"),
            (PrivacyStatement { clip: f64::NAN, ..good }, "clip"),
            (PrivacyStatement { noise: -1.0, ..good }, "noise"),
            (PrivacyStatement { noise: f64::INFINITY, ..good }, "noise"),
            (PrivacyStatement { epsilon: -1.0, ..good }, "epsilon"),
            (PrivacyStatement { epsilon: f64::INFINITY, ..good }, "epsilon"),
            (PrivacyStatement { steps: 0, ..good }, "epsilon"),
            (PrivacyStatement { delta: 0.0, ..good }, "delta"),
            (PrivacyStatement { delta: 1.0, ..good }, "delta"),
        ] {
            assert_eq!(bad.checked().unwrap_err().key, key, "{bad:?}");
        }
    }
}
