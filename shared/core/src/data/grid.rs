//! Detection of the decimal grid that numbers lie on.

/// The largest number of decimals that is tried.
const MOST_DECIMALS: usize = 6;
/// The powers of ten for 0 to `MOST_DECIMALS` decimals.
const POWERS: [f64; MOST_DECIMALS + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/// 2⁵³, up to which doubles represent every whole number.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// The smallest number of decimals that represents every number seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decimals {
    /// The number of decimals; [`MOST_DECIMALS`] + 1 if none suffices.
    least: usize,
}

impl Decimals {
    /// Includes a number.
    pub fn take(&mut self, value: f64) {
        // A decimal is the double nearest to a whole number over a power of ten. Beyond `LARGEST`
        // every double is whole.
        let is_written = |power: &f64| {
            (value * power).abs() <= LARGEST && (value * power).round() / power == value
        };
        while self.least < POWERS.len() && !POWERS.get(self.least).is_some_and(is_written) {
            self.least += 1;
        }
    }

    /// Returns the distance of neighbouring numbers with that many decimals: 1 for whole numbers,
    /// 0.01 for cents. `None` if some number has more than six.
    #[must_use]
    pub fn step(self) -> Option<f64> {
        POWERS.get(self.least).map(|power| 1.0 / power)
    }

    /// Returns the step of all the numbers.
    pub fn step_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut decimals = Self::default();
        for value in values {
            decimals.take(value);
            decimals.step()?;
        }
        decimals.step()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_decimals_that_numbers_are_written_with() {
        for (numbers, step) in [
            (&["17", "98", "-3"][..], Some(1.0)),
            (&["17", "0.5"], Some(0.1)),
            (&["19.99", "0.01", "1234567.89"], Some(0.01)),
            (&["0.000001", "3"], Some(1e-6)),
            (&["0.0000001"], None),
            (&["0.3333333333333333"], None),
            (&["1e300"], None),
            (&["12345678901.2345678"], None),
        ] {
            let values = numbers.iter().map(|n| n.parse().unwrap());
            assert_eq!(Decimals::step_of(values), step, "{numbers:?}");
        }
    }
}
