//! Sums of one entry from each of several lists, found by meeting in the middle.

/// The maximum number of sums of one half of the lists.
const MOST_SUMS: usize = 1 << 20;
/// The maximum number of entries of these sums: 64 MiB.
const MOST_NUMBERS: usize = 1 << 23;

/// The errors of preparing lists for matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatchingError {
    /// A list is empty, or entries differ in length.
    #[error("a list of options is empty, or its entries differ in length")]
    Shape,
    /// There are too many combinations.
    #[error("one half of the lists has more than {MOST_SUMS} combinations")]
    TooMany,
}

/// A combination whose sum is near the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The position of the option chosen from each list.
    pub choices: Vec<usize>,
}

/// The combinations of half of the lists, sorted by one entry of their sums.
struct Side {
    /// Positions of its lists among all.
    lists: Vec<usize>,
    /// Sizes of its lists.
    sizes: Vec<usize>,
    /// The entry of the sum by which it is sorted, in rising order.
    keys: Vec<f64>,
    /// The combination of each key, as a number in the mixed radix of `sizes`.
    codes: Vec<u32>,
    /// m entries of each sum, in the order of the keys.
    sums: Vec<f64>,
}

/// Lists of options, each an m-vector, prepared for many targets.
pub struct Matching {
    m: usize,
    lists: usize,
    key: usize,
    left: Side,
    right: Side,
}

impl std::fmt::Debug for Matching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matching({} lists, values withheld)", self.lists)
    }
}

impl Side {
    fn new(lists: Vec<usize>, options: &[Vec<Vec<f64>>], m: usize, key: usize) -> Self {
        let sizes: Vec<usize> = lists.iter().map(|&list| options[list].len()).collect();
        let mut sums = vec![0.0; m];
        for &list in &lists {
            let before = sums;
            sums = Vec::with_capacity(before.len() * options[list].len());
            for option in &options[list] {
                for sum in before.chunks_exact(m) {
                    sums.extend(sum.iter().zip(option).map(|(a, b)| a + b));
                }
            }
        }
        let mut order: Vec<u32> = (0..(sums.len() / m) as u32).collect();
        order.sort_by(|&a, &b| sums[a as usize * m + key].total_cmp(&sums[b as usize * m + key]));
        let keys = order.iter().map(|&at| sums[at as usize * m + key]).collect();
        let sorted =
            order.iter().flat_map(|&at| sums[at as usize * m..][..m].iter().copied()).collect();
        Self { lists, sizes, keys, codes: order, sums: sorted }
    }

    /// Writes the options of the combination at a position of the sorted order.
    fn write(&self, at: usize, choices: &mut [usize]) {
        let mut code = self.codes[at] as usize;
        for (&list, &size) in self.lists.iter().zip(&self.sizes) {
            choices[list] = code % size;
            code /= size;
        }
    }
}

impl Matching {
    /// Prepares lists of options: `options[list][option]` has m entries, m ≥ 1.
    ///
    /// # Errors
    /// [`MatchingError`] if a list is empty, entries differ in length, or there are too many
    /// combinations for memory.
    pub fn new(options: &[Vec<Vec<f64>>]) -> Result<Self, MatchingError> {
        let m = options.first().and_then(|list| list.first()).map_or(0, Vec::len);
        let fits =
            |list: &Vec<Vec<f64>>| !list.is_empty() && list.iter().all(|option| option.len() == m);
        if m == 0 || !options.iter().all(fits) {
            return Err(MatchingError::Shape);
        }
        let mut order: Vec<usize> = (0..options.len()).collect();
        order.sort_by_key(|&list| std::cmp::Reverse(options[list].len()));
        let (mut left, mut right) = ((Vec::new(), 1usize), (Vec::new(), 1usize));
        for list in order {
            let side = if left.1 <= right.1 { &mut left } else { &mut right };
            side.0.push(list);
            side.1 = side.1.saturating_mul(options[list].len());
        }
        let largest = left.1.max(right.1);
        if largest > MOST_SUMS || largest.saturating_mul(m) > MOST_NUMBERS {
            return Err(MatchingError::TooMany);
        }
        let key = Self::widest(options, m);
        Ok(Self {
            m,
            lists: options.len(),
            key,
            left: Side::new(left.0, options, m, key),
            right: Side::new(right.0, options, m, key),
        })
    }

    /// Returns the entry of the sums that varies most.
    fn widest(options: &[Vec<Vec<f64>>], m: usize) -> usize {
        let spread = |entry: usize| -> f64 {
            let of = |list: &Vec<Vec<f64>>| {
                let values = || list.iter().map(|option| option[entry]);
                values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
            };
            options.iter().map(of).map(|w| w * w).sum()
        };
        (0..m).max_by(|&a, &b| spread(a).total_cmp(&spread(b))).unwrap_or(0)
    }

    /// Returns the combinations whose sum is within `width[i]` of `target[i]` for every i; `None`
    /// if there are more than `most`, or if the search takes more than `steps` comparisons.
    ///
    /// # Panics
    /// If `target` or `width` has not m entries.
    #[must_use]
    pub fn matches(
        &self,
        target: &[f64],
        width: &[f64],
        most: usize,
        steps: u64,
    ) -> Option<Vec<Match>> {
        let (m, key) = (self.m, self.key);
        let (aim, slack) = (target[key], width[key]);
        let (few, many) = match self.left.keys.len() <= self.right.keys.len() {
            true => (&self.left, &self.right),
            false => (&self.right, &self.left),
        };
        // As one side's keys rise, the matching keys of the other fall: from `start` up to `end`.
        let falling = || {
            let (mut start, mut end) = (many.keys.len(), many.keys.len());
            few.keys.iter().map(move |own| {
                while start > 0 && many.keys[start - 1] >= aim - slack - own {
                    start -= 1;
                }
                while end > start && many.keys[end - 1] > aim + slack - own {
                    end -= 1;
                }
                start..end
            })
        };
        // The comparisons are counted first, so that none is made in vain.
        let mut looks = 0u64;
        for within in falling() {
            looks += within.len() as u64;
            if looks > steps {
                return None;
            }
        }
        let mut found = Vec::new();
        for (at, within) in falling().enumerate() {
            for other in within {
                let near = |i: usize| {
                    let sum = few.sums[at * m + i] + many.sums[other * m + i];
                    (sum - target[i]).abs() <= width[i]
                };
                if !(0..m).all(near) {
                    continue;
                }
                if found.len() == most {
                    return None;
                }
                let mut choices = vec![0; self.lists];
                few.write(at, &mut choices);
                many.write(other, &mut choices);
                found.push(Match { choices });
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all combinations, tried one after the other.
    fn all(options: &[Vec<Vec<f64>>], target: &[f64], width: &[f64]) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new()];
        for list in options {
            let longer = |choices: Vec<usize>| {
                (0..list.len()).map(move |o| [choices.as_slice(), &[o]].concat())
            };
            found = found.into_iter().flat_map(longer).collect();
        }
        found.retain(|choices: &Vec<usize>| {
            (0..target.len()).all(|i| {
                let sum: f64 = choices.iter().zip(options).map(|(&o, list)| list[o][i]).sum();
                (sum - target[i]).abs() <= width[i]
            })
        });
        found
    }

    fn lists() -> impl Strategy<Value = Vec<Vec<Vec<f64>>>> {
        let option = prop::collection::vec(-1.0..1.0f64, 2);
        prop::collection::vec(prop::collection::vec(option, 1..5), 1..6)
    }

    proptest! {
        #[test]
        fn matches_are_those_of_all_combinations(
            options in lists(),
            target in prop::collection::vec(-1.0..1.0f64, 2),
            width in prop::collection::vec(0.0..0.8f64, 2),
        ) {
            let matching = Matching::new(&options).unwrap();
            let found = matching.matches(&target, &width, usize::MAX, u64::MAX).unwrap();
            let mut got: Vec<Vec<usize>> = found.into_iter().map(|m| m.choices).collect();
            got.sort();
            prop_assert_eq!(got, all(&options, &target, &width));
        }
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        assert_eq!(Matching::new(&[]).unwrap_err(), MatchingError::Shape);
        assert_eq!(Matching::new(&[vec![]]).unwrap_err(), MatchingError::Shape);
        assert_eq!(
            Matching::new(&[vec![vec![1.0], vec![1.0, 2.0]]]).unwrap_err(),
            MatchingError::Shape
        );
        let wide = vec![vec![0.0]; 2000];
        assert_eq!(Matching::new(&vec![wide; 4]).unwrap_err(), MatchingError::TooMany);
    }

    #[test]
    fn too_many_matches_are_none() {
        let list = vec![vec![0.0]; 10];
        let matching = Matching::new(&vec![list; 4]).unwrap();
        assert!(matching.matches(&[0.0], &[1.0], 9999, u64::MAX).is_none());
        assert!(matching.matches(&[0.0], &[1.0], 10_000, 9999).is_none());
        assert_eq!(
            matching.matches(&[0.0], &[1.0], 10_000, u64::MAX).map(|m| m.len()),
            Some(10_000)
        );
        assert_eq!(matching.matches(&[5.0], &[1.0], 1, u64::MAX).map(|m| m.len()), Some(0));
    }
}
