//! The number of vectors that rounding produces from score vectors.

use super::LogSum;

/// For more classes than this, the count is an upper bound, too large by less than log2 of their
/// number.
const MOST_COUNTED: usize = 2048;

/// The scores before they are rounded: all of them, or only the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoundedSimplex {
    /// All scores of a record.
    #[default]
    Whole,
    /// This many largest scores, the others 0.
    Largest(usize),
}

/// Returns log2 of the number of vectors that rounding to `decimals` digits produces from vectors
/// of `classes` scores.
///
/// In units of 10^−D, Q = 10^D, a vector r of whole numbers with sum S and p entries above 0
/// results from the scores c, Σ c = Q, in the box [r − ½, r + ½] (from 0 where r is 0): so if S −
/// p/2 < Q < S + k/2. At one of the ends every score is a tie, and ties go to even: then all
/// entries of r are even. There are C(k, p) C(S − 1, p − 1) vectors r of one S and p.
///
/// It is exact for real numbers, up to 2048 classes. Scores are doubles, whose sum is 1 up to
/// (2k + 8) 2⁻⁵³: if that is half a unit or more (D = 15, and fewer digits of many classes), all
/// vectors within it are counted, and the result is an upper bound. It is also an upper bound for
/// more classes, by less than log2 k bits, and for [`RoundedSimplex::Largest`], where Σ_p C(k, p)
/// C(⌊Q + p/2⌋, p) counts all vectors of at most so many entries with S − p/2 ≤ Q.
///
/// `decimals` is at most 15. Cost: O(k²). 0 bits for no class.
#[must_use]
pub fn rounded_simplex_bits(classes: usize, decimals: u32, scores: RoundedSimplex) -> f64 {
    if classes == 0 {
        return 0.0;
    }
    let units = Units::new(classes, decimals);
    match scores {
        RoundedSimplex::Largest(kept) if kept < classes => units.largest(kept),
        _ if classes > MOST_COUNTED => units.upper_bound(),
        _ => units.counted(),
    }
}

/// The integers in which the vectors are counted.
struct Units {
    /// The number of classes, k.
    classes: u64,
    /// The scale Q = 10^D.
    whole: u64,
    /// Twice the round-off of a sum, in whole units.
    slack: u64,
}

impl Units {
    fn new(classes: usize, decimals: u32) -> Self {
        let whole = 10u64.pow(decimals.min(15));
        let round_off = (2 * classes + 8) as f64 * 0.5 * f64::EPSILON;
        Self {
            classes: classes as u64,
            whole,
            slack: (2.0 * whole as f64 * round_off).floor() as u64,
        }
    }

    /// Returns the possible sums S of any number of entries.
    fn sums(&self) -> std::ops::RangeInclusive<u64> {
        let (twice, ends) = (2 * self.whole, self.classes + self.slack);
        (twice.saturating_sub(ends) / 2)..=((twice + ends) / 2)
    }

    fn counted(&self) -> f64 {
        let of_classes = choices(self.classes, self.classes);
        let (k, twice, slack) = (self.classes, 2 * self.whole, self.slack);
        let mut count = LogSum::EMPTY;
        for sum in self.sums() {
            if 2 * sum + k + slack < twice {
                continue;
            }
            let at_upper_end = slack == 0 && 2 * sum + k == twice;
            // The logarithm of C(S − 1, p − 1), from p = 1 on.
            let mut compositions = 0.0;
            for entries in 0..=k.min(sum) {
                if (entries == 0) != (sum == 0) {
                    continue;
                }
                if entries > 1 {
                    compositions += ((sum - entries + 1) as f64 / (entries - 1) as f64).ln();
                }
                if 2 * sum > twice + slack + entries {
                    continue;
                }
                let vectors = if at_upper_end || (slack == 0 && 2 * sum == twice + entries) {
                    all_even(sum, entries)
                } else {
                    compositions
                };
                count.add(of_classes[entries as usize] + vectors);
            }
        }
        count.log2()
    }

    /// Counts every sum of p entries as the greatest one.
    fn upper_bound(&self) -> f64 {
        let of_classes = choices(self.classes, self.classes);
        let (sums, mut count) = (self.sums(), LogSum::EMPTY);
        if *sums.start() == 0 {
            count.add(0.0);
        }
        for entries in 1..=self.classes {
            let most = (2 * self.whole + entries + self.slack) / 2;
            let least = (*sums.start()).max(entries);
            if most >= least {
                let of_sums = ((most - least + 1) as f64).ln();
                count
                    .add(of_classes[entries as usize] + of_sums + ln_choose(most - 1, entries - 1));
            }
        }
        count.log2()
    }

    fn largest(&self, kept: usize) -> f64 {
        let kept = kept as u64;
        let of_classes = choices(self.classes, kept);
        let mut count = LogSum::EMPTY;
        for entries in 0..=kept {
            let most = (2 * self.whole + entries + self.slack) / 2;
            count.add(of_classes[entries as usize] + ln_choose(most, entries));
        }
        count.log2()
    }
}

/// Returns the logarithm of the number of vectors of so many even entries above 0 with this sum.
fn all_even(sum: u64, entries: u64) -> f64 {
    match (sum.is_multiple_of(2), entries) {
        (false, _) => f64::NEG_INFINITY,
        (true, 0) => 0.0,
        (true, _) if sum / 2 < entries => f64::NEG_INFINITY,
        (true, _) => (1..entries).map(|i| ((sum / 2 - i) as f64 / i as f64).ln()).sum(),
    }
}

/// Returns the logarithms of C(n, 0) … C(n, most).
fn choices(n: u64, most: u64) -> Vec<f64> {
    let mut ln = 0.0;
    (0..=most)
        .map(|m| {
            if m > 0 {
                ln += ((n - m + 1) as f64 / m as f64).ln();
            }
            ln
        })
        .collect()
}

/// Returns the logarithm of C(n, m), or for a large n an upper bound, n^m / m!. Minus infinity for
/// m above n.
fn ln_choose(n: u64, m: u64) -> f64 {
    /// Below this, the difference of logarithms of Γ keeps seven digits.
    const SMALL: u64 = 100_000_000;
    let ln_factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    if m > n {
        f64::NEG_INFINITY
    } else if n < SMALL {
        ln_factorial(n) - ln_factorial(m) - ln_factorial(n - m)
    } else {
        m as f64 * (n as f64).ln() - ln_factorial(m)
    }
}
