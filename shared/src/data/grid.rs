//! The grid that numbers lie on, read off the numbers.

/// The most decimals that are looked for.
const MOST_DECIMALS: usize = 6;
/// The powers of ten of so many decimals.
const POWERS: [f64; MOST_DECIMALS + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/// The largest number whose neighbours a double tells from it by less than 1.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// The fewest decimals that write every number seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decimals {
    /// One more than [`MOST_DECIMALS`] where no number of decimals does.
    least: usize,
}

impl Decimals {
    /// Takes a number in.
    pub fn take(&mut self, value: f64) {
        // A decimal is the double nearest to a whole number over a power of ten. Beyond the largest every double is whole.
        let is_written = |power: &f64| (value * power).abs() <= LARGEST && (value * power).round() / power == value;
        while self.least < POWERS.len() && !POWERS.get(self.least).is_some_and(is_written) {
            self.least += 1;
        }
    }

    /// The distance of neighbouring numbers with so many decimals: 1 of whole numbers, 0.01 of cents. `None` where some have
    /// more than six.
    #[must_use]
    pub fn step(self) -> Option<f64> {
        POWERS.get(self.least).map(|power| 1.0 / power)
    }

    /// That of all the numbers.
    pub(super) fn step_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
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
