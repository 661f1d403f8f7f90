//! Iteration over columns, and the order of their entries.

use rayon::prelude::*;

/// Fewest values for which threads save more than they cost.
const PARALLEL_FROM: usize = 1 << 14;

/// Calls `f` with every column of `rows` values and its position. `scratch` is made once per
/// thread.
pub(super) fn each_column<T: Send, S>(
    values: &mut [T],
    rows: usize,
    scratch: impl Fn() -> S + Sync + Send,
    f: impl Fn(&mut S, usize, &mut [T]) + Sync + Send,
) {
    if rows == 0 {
        return;
    }
    if values.len() < PARALLEL_FROM || values.len() == rows {
        let mut scratch = scratch();
        values
            .chunks_exact_mut(rows)
            .enumerate()
            .for_each(|(at, column)| f(&mut scratch, at, column));
    } else {
        values
            .par_chunks_exact_mut(rows)
            .enumerate()
            .for_each_init(scratch, |s, (at, column)| f(s, at, column));
    }
}

/// The order of a column's entries: larger first, the lowest index first among equal ones. Reuses
/// its memory.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The leading bits of each value, inverted so that larger ones sort first, above the index.
    /// Sorting single words is faster than sorting by comparison.
    keys: Vec<u64>,
    /// Mask of the index's bits.
    index: u64,
}

/// Returns a number that falls as the value rises; the same for both zeros.
fn falling(value: f64) -> u64 {
    // −0 + 0 is 0: the two zeros are equal, and so must their bits be.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { bits } else { !(bits | 1 << 63) }
}

impl Order {
    /// Sorts a column of finite values.
    pub(super) fn sort(&mut self, column: &[f64]) {
        let index = column.len().next_power_of_two() as u64 - 1;
        self.index = index;
        self.keys.clear();
        self.keys.extend(
            column.iter().enumerate().map(|(at, &value)| falling(value) & !index | at as u64),
        );
        self.keys.sort_unstable();
        // Values that differ in their last bits only are sorted in full.
        for run in self.keys.chunk_by_mut(|a, b| (a ^ b) & !index == 0).filter(|run| run.len() > 1)
        {
            run.sort_unstable_by_key(|key| (falling(column[(key & index) as usize]), *key));
        }
    }

    /// Returns the indices, best rank first.
    pub(super) fn best_first(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        self.keys.iter().map(|&key| (key & self.index) as usize)
    }
}

/// Lifts entries of `p`, by as little as doubles allow, until strictly larger entries of `c` are
/// strictly larger in `p` too and equal ones keep their order. `order` is that of `c`. Where a
/// formula keeps the order, only round-off is lifted.
pub(super) fn keep_order(order: &Order, c: &[f64], p: &mut [f64]) {
    let mut below: Option<(f64, f64)> = None;
    for at in order.best_first().rev() {
        p[at] = lifted(below, c[at], p[at]);
        below = Some((c[at], p[at]));
    }
}

/// Lifts `p`, the release of an entry `c`, to at least the release of the next lower entry, and
/// above it if `c` is larger. `below` = (that entry, its release).
pub(super) fn lifted(below: Option<(f64, f64)>, c: f64, p: f64) -> f64 {
    match below {
        Some((lower, released)) if c > lower => p.max(released.next_up()),
        Some((_, released)) => p.max(released),
        None => p,
    }
}

/// Lifts the entry `at` until it is the arg max of `p`; the lowest index wins ties.
pub(super) fn keep_arg_max(at: usize, p: &mut [f64]) {
    let best = vfl_numerics::arg_max(p);
    if best != at {
        // An entry before the largest wins a tie, so equality is enough.
        p[at] = if at < best { p[best] } else { p[best].next_up() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vfl_numerics::arg_max;

    fn order(c: &[f64]) -> Vec<usize> {
        let mut order = Order::default();
        order.sort(c);
        order.best_first().collect()
    }

    #[test]
    fn larger_first_then_lower_index() {
        assert_eq!(order(&[0.2, 0.5, 0.3]), [1, 2, 0]);
        assert_eq!(order(&[0.0, -0.0, -1.0, 0.0, 2.0]), [4, 0, 1, 3, 2]);
        assert_eq!(order(&[]), [0usize; 0]);
    }

    proptest! {
        #[test]
        fn a_stable_sort_is_the_oracle(c in prop::collection::vec(prop_oneof![
            -2.0f64..2.0,
            Just(0.0),
            Just(-0.0),
            Just(1e-310),
            (0u64..40).prop_map(|ulps| f64::from_bits(0.5f64.to_bits() + ulps)),
            (0u64..40).prop_map(|ulps| -f64::from_bits(0.5f64.to_bits() + ulps)),
        ], 0..60)) {
            let mut expected: Vec<usize> = (0..c.len()).collect();
            expected.sort_by(|&i, &j| c[j].partial_cmp(&c[i]).unwrap());
            prop_assert_eq!(order(&c), expected);
        }

        #[test]
        fn any_release_can_be_put_in_order(
            pairs in prop::collection::vec(((0u8..5).prop_map(f64::from), (0u8..4).prop_map(f64::from)), 1..20),
            at in any::<prop::sample::Index>(),
        ) {
            let (c, p): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let mut order = Order::default();
            order.sort(&c);
            let mut kept = p.clone();
            keep_order(&order, &c, &mut kept);
            for i in 0..c.len() {
                prop_assert!(kept[i] >= p[i]);
                for j in 0..c.len() {
                    prop_assert!(c[i] <= c[j] || kept[i] > kept[j]);
                }
            }
            prop_assert_eq!(arg_max(&kept), arg_max(&c));
            let (mut kept, at) = (p.clone(), at.index(p.len()));
            keep_arg_max(at, &mut kept);
            prop_assert_eq!(arg_max(&kept), at);
        }
    }
}
