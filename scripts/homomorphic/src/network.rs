//! Batcher's odd-even mergesort (AFIPS 1968), without what the first outputs do not depend on.

/// A comparison of two places. The higher number goes to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparator {
    pub first: usize,
    pub second: usize,
    pub output: Output,
}

/// The outputs of a comparison that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Higher,
    Lower,
    Both,
}

/// A network that selects the highest numbers.
pub struct Selection {
    /// The comparisons. Those of one stage have no place in common.
    pub stages: Vec<Vec<Comparator>>,
    /// The places of the highest numbers in the end, the highest first.
    pub selected: Vec<usize>,
}

impl Selection {
    /// Creates the network for the `top` ≥ 1 highest of n numbers. Halves are selected from and
    /// merged, so that the number of comparisons is linear in n.
    pub fn new(n: usize, top: usize) -> Self {
        let mut pairs = Vec::new();
        let selected = select(&(0..n).collect::<Vec<_>>(), top, &mut pairs);
        let mut needed = vec![false; n];
        for place in &selected {
            needed[*place] = true;
        }
        let mut used = Vec::new();
        for (first, second) in pairs.into_iter().rev() {
            let output = match (needed[first], needed[second]) {
                (true, true) => Output::Both,
                (true, false) => Output::Higher,
                (false, true) => Output::Lower,
                (false, false) => continue,
            };
            (needed[first], needed[second]) = (true, true);
            used.push(Comparator { first, second, output });
        }
        let mut stages: Vec<Vec<Comparator>> = Vec::new();
        let mut free = vec![0; n];
        for comparator in used.into_iter().rev() {
            let stage: usize = free[comparator.first].max(free[comparator.second]);
            if stage == stages.len() {
                stages.push(Vec::new());
            }
            stages[stage].push(comparator);
            (free[comparator.first], free[comparator.second]) = (stage + 1, stage + 1);
        }
        Self { stages, selected }
    }

    /// Returns the number of comparisons.
    pub fn comparisons(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }
}

/// Adds the comparisons that bring the `top` highest numbers of `places` in order. Returns where
/// they are then.
fn select(places: &[usize], top: usize, pairs: &mut Vec<(usize, usize)>) -> Vec<usize> {
    if places.len() < 2 {
        return places.to_vec();
    }
    let (left, right) = places.split_at(places.len().div_ceil(2));
    let (left, right) = (select(left, top, pairs), select(right, top, pairs));
    let half = left.len().max(right.len()).next_power_of_two();
    let laid = |places: Vec<usize>| {
        let laid = places.into_iter().map(Some).chain(std::iter::repeat(None));
        laid.take(half).collect::<Vec<_>>()
    };
    let mut wires = laid(left);
    wires.extend(laid(right));
    merge(&mut wires, 0, 1, pairs);
    wires.into_iter().flatten().take(top).collect()
}

/// Adds the comparisons that merge the sorted halves of each `step`-th wire from `low` on. A wire
/// without a place is below all numbers: what is compared with it takes its place for nothing.
fn merge(wires: &mut [Option<usize>], low: usize, step: usize, pairs: &mut Vec<(usize, usize)>) {
    let n = wires.len();
    let compared = if 2 * step < n {
        merge(wires, low, 2 * step, pairs);
        merge(wires, low + step, 2 * step, pairs);
        (low + step..n - step).step_by(2 * step)
    } else {
        (low..n - step).step_by(n)
    };
    for i in compared {
        match (wires[i], wires[i + step]) {
            (Some(first), Some(second)) => pairs.push((first, second)),
            (None, Some(_)) => wires.swap(i, i + step),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the 0-1 principle a network selects all inputs if it selects those of zeros and ones.
    #[test]
    fn the_highest_come_first() {
        for n in 2..=13usize {
            for top in 1..=n.min(5) {
                let Selection { stages, selected } = Selection::new(n, top);
                for bits in 0u32..1 << n {
                    let mut places: Vec<u32> = (0..n).map(|i| bits >> i & 1).collect();
                    for Comparator { first, second, output } in stages.iter().flatten().copied() {
                        let (a, b) = (places[first], places[second]);
                        // What is not used has no value: one that would be noticed.
                        (places[first], places[second]) = match output {
                            Output::Both => (a.max(b), a.min(b)),
                            Output::Higher => (a.max(b), 7),
                            Output::Lower => (7, a.min(b)),
                        };
                    }
                    let ones = bits.count_ones() as usize;
                    let want: Vec<u32> = (0..top).map(|i| u32::from(i < ones)).collect();
                    let found: Vec<u32> = selected.iter().map(|place| places[*place]).collect();
                    assert_eq!(found, want, "{n} {top} {bits:b}");
                }
            }
        }
    }

    /// A whole network of 2^p numbers has (p² − p + 4) 2^(p − 2) − 1 comparisons (Batcher 1968).
    #[test]
    fn a_whole_network_is_batchers() {
        for p in 1..=7usize {
            let n = 1 << p;
            let count = (p * p - p + 4) * n / 4 - 1;
            assert_eq!(Selection::new(n, n).comparisons(), count, "{n}");
        }
    }

    /// Twice the numbers need no more than twice the comparisons and a merge.
    #[test]
    fn a_selection_is_linear() {
        let count = |n| Selection::new(n, 5).comparisons();
        for p in 4..=13 {
            assert!(count(2 << p) <= 2 * count(1 << p) + 15, "{p}");
        }
    }

    #[test]
    fn places_of_a_stage_are_distinct() {
        for stage in Selection::new(100, 5).stages {
            let mut places: Vec<usize> = stage.iter().flat_map(|c| [c.first, c.second]).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 2 * stage.len());
        }
    }
}
