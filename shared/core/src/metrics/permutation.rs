//! The error of a reconstruction whose features may be in another order.

use nalgebra::DMatrix;
use rayon::prelude::*;

use super::error::{comparable, finite};
use super::{Direction, Metric, MetricError, Reconstruction, Unit};

/// [`permutation_matched_mse`] in an audit: features are matched within one passive party.
///
/// Its bound is that of the mean squared error. Let f_π(x) be the mean squared error under the
/// order π. For two truths that differ in record i, |min_π f_π(x) − min_π f_π(x′)| ≤ max_π |f_π(x)
/// − f_π(x′)|. Under each π the terms of record i change by at most Σ_j max(e_ij², (1 − e_ij)²) in
/// all: the same sum for every π, since π only deals out the same estimates to other features.
#[derive(Debug)]
pub struct PermutationMatchedError;

impl Metric for PermutationMatchedError {
    fn name(&self) -> &'static str {
        "permutation_matched_mse"
    }

    fn title(&self) -> &'static str {
        "matched MSE"
    }

    fn meaning(&self) -> &'static str {
        "the smallest mean squared error per feature over all orders of the estimated features"
    }

    fn unit(&self) -> Unit {
        Unit::SquaredFeature
    }

    fn direction(&self) -> Direction {
        Direction::Lower
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        permutation_matched_mse(of.estimates, of.truth).map(|matched| Some(matched.overall))
    }

    fn sensitivity(&self, estimates: &DMatrix<f64>) -> Option<f64> {
        let (d, n) = estimates.shape();
        let range = |e: f64| e.max(1.0 - e).powi(2);
        let records = estimates.as_slice().chunks_exact(d.max(1));
        let most =
            records.map(|record| record.iter().map(|&e| range(e)).sum::<f64>()).fold(0.0, f64::max);
        Some(most / (d.max(1) * n.max(1)) as f64)
    }
}

/// The best one-to-one assignment of estimated features to true ones.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedError {
    /// Mean squared error per feature (R equation 7) under the assignment: the mean of
    /// `by_feature`.
    pub overall: f64,
    /// (1 / n) Σ (x̂_j − x_i)² of each true feature i, j = `assignment[i]`.
    pub by_feature: Vec<f64>,
    /// For each true feature i the row of the estimates that is taken for it.
    /// `estimates.select_rows(&assignment)` are the estimates in the order of the truth.
    pub assignment: Vec<usize>,
}

/// Returns the least mean squared error over all d! assignments of estimated features to true ones,
/// both d × n.
///
/// The plain error calls a reconstruction bad that is perfect up to the order of its features. An
/// adversary who knows the features' supports finds that order (R section IX). This error is never
/// above [`mse`](super::mse). It grants the adversary the best order, found with the truth at hand:
/// with few records and many features it flatters even a guess.
///
/// Cost: O(d² n) for the errors of all pairs, O(d³) for the assignment. Among equally good
/// assignments it is always the same one.
///
/// # Errors
/// [`MetricError`] if the shapes differ, there is no feature or no record, or a value or its square
/// is not finite.
pub fn permutation_matched_mse(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
) -> Result<MatchedError, MetricError> {
    let (d, n) = comparable(estimates, truth)?;
    finite("the estimates", estimates)?;
    finite("the truth", truth)?;
    // One feature per column, so that a pair is two stretches of memory.
    let (estimated, given) = (estimates.transpose(), truth.transpose());
    let mut costs = vec![0.0; d * d];
    costs.par_chunks_exact_mut(d).zip(given.as_slice().par_chunks_exact(n)).for_each(
        |(costs, x)| {
            for (cost, e) in costs.iter_mut().zip(estimated.as_slice().chunks_exact(n)) {
                *cost = e.iter().zip(x).map(|(e, x)| (e - x) * (e - x)).sum::<f64>() / n as f64;
            }
        },
    );
    if !costs.iter().all(|cost| cost.is_finite()) {
        return Err(MetricError::NotFinite { what: "the squared error" });
    }
    let assignment = assign(&costs, d);
    let by_feature: Vec<f64> =
        assignment.iter().enumerate().map(|(i, &j)| costs[i * d + j]).collect();
    Ok(MatchedError { overall: by_feature.iter().sum::<f64>() / d as f64, by_feature, assignment })
}

/// Marks a column that no row holds yet.
const FREE: usize = usize::MAX;

/// Returns the column of each row in the cheapest assignment; `costs` is d × d by rows and finite.
///
/// The Hungarian method by shortest augmenting paths: rows are added one by one, each along the
/// cheapest path of reassignments, with potentials u, v that keep every reduced cost c − u − v at
/// or above 0 and at 0 on the assignment.
fn assign(costs: &[f64], d: usize) -> Vec<usize> {
    let (mut u, mut v) = (vec![0.0; d], vec![0.0; d]);
    let mut row_of = vec![FREE; d];
    let (mut distance, mut previous, mut done) = (vec![0.0; d], vec![FREE; d], vec![false; d]);
    for start in 0..d {
        distance.fill(f64::INFINITY);
        done.fill(false);
        // `row` joins the tree of cheapest paths; `through` is the column it held.
        let (mut row, mut through, mut so_far) = (start, FREE, 0.0);
        let end = loop {
            let (mut nearest, mut least) = (FREE, f64::INFINITY);
            for column in (0..d).filter(|&column| !done[column]) {
                let path = so_far + (costs[row * d + column] - u[row] - v[column]);
                if path < distance[column] {
                    distance[column] = path;
                    previous[column] = through;
                }
                if nearest == FREE || distance[column] < least {
                    (nearest, least) = (column, distance[column]);
                }
            }
            done[nearest] = true;
            so_far = least;
            if row_of[nearest] == FREE {
                break nearest;
            }
            (row, through) = (row_of[nearest], nearest);
        };
        // Potentials move by how much nearer than the end a column was.
        u[start] += so_far;
        for column in (0..d).filter(|&column| done[column] && column != end) {
            u[row_of[column]] += so_far - distance[column];
            v[column] -= so_far - distance[column];
        }
        // Each column on the path takes the row that the column before it held; the first takes the
        // new row.
        let mut column = end;
        while previous[column] != FREE {
            row_of[column] = row_of[previous[column]];
            column = previous[column];
        }
        row_of[column] = start;
    }
    let mut column_of = vec![0; d];
    for (column, row) in row_of.into_iter().enumerate() {
        column_of[row] = column;
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::mse;
    use proptest::prelude::*;

    /// The cheapest of all orders, one by one.
    fn brute_force(costs: &[f64], d: usize, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == d {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..d {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[row * d + column] + brute_force(costs, d, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }

    /// R section IX's own example: marital status and salary in the wrong order.
    #[test]
    fn a_permuted_reconstruction_is_perfect() {
        let truth = DMatrix::from_column_slice(2, 4, &[0.0, 0.18, 1.0, 0.66, 0.0, 0.44, 1.0, 0.77]);
        let estimates = truth.select_rows(&[1, 0]);
        assert!((mse(&estimates, &truth).unwrap().overall - 0.098625).abs() < 1e-15);
        let matched = permutation_matched_mse(&estimates, &truth).unwrap();
        assert_eq!(
            matched,
            MatchedError { overall: 0.0, by_feature: vec![0.0; 2], assignment: vec![1, 0] }
        );
        assert_eq!(estimates.select_rows(&matched.assignment), truth);
    }

    #[test]
    fn the_greedy_choice_is_not_taken() {
        // Row 0 prefers column 0, but row 1 needs it more.
        assert_eq!(assign(&[1.0, 2.0, 1.0, 9.0], 2), [1, 0]);
        assert_eq!(assign(&[0.0], 1), [0]);
    }

    #[test]
    fn bad_input_is_refused() {
        let truth = DMatrix::from_element(2, 3, 0.5);
        assert!(matches!(
            permutation_matched_mse(&truth.transpose(), &truth),
            Err(MetricError::Size { .. })
        ));
        for shape in [(0, 3), (3, 0)] {
            let empty = DMatrix::zeros(shape.0, shape.1);
            assert!(matches!(
                permutation_matched_mse(&empty, &empty),
                Err(MetricError::Empty { .. })
            ));
        }
        for bad in [f64::NAN, f64::INFINITY, 1e200] {
            let mut estimates = truth.clone();
            estimates[(1, 1)] = bad;
            let refused = permutation_matched_mse(&estimates, &truth);
            assert!(matches!(refused, Err(MetricError::NotFinite { .. })), "{bad}: {refused:?}");
        }
    }

    proptest! {
        /// Against all orders, with ties (small integers) and without.
        #[test]
        fn equals_brute_force(d in 1usize..7, values in proptest::collection::vec(0.0f64..1.0, 36), whole in any::<bool>()) {
            let costs: Vec<f64> = values[..d * d].iter().map(|v| if whole { (v * 4.0).floor() } else { *v }).collect();
            let found = assign(&costs, d);
            let mut seen = found.clone();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..d).collect::<Vec<_>>());
            let sum: f64 = found.iter().enumerate().map(|(i, &j)| costs[i * d + j]).sum();
            let best = brute_force(&costs, d, 0, &mut vec![false; d]);
            prop_assert!((sum - best).abs() < 1e-12, "{sum} {best}");
        }

        /// The order of the estimates does not matter, and the given order is one of those
        /// compared.
        #[test]
        fn any_order_gives_the_same_error(d in 1usize..12, n in 1usize..6, values in proptest::collection::vec(0.0f64..1.0, 144), turn in 0usize..12) {
            let truth = DMatrix::from_fn(d, n, |i, j| values[i * 6 + j]);
            let estimates = DMatrix::from_fn(d, n, |i, j| values[143 - i * 6 - j]);
            let matched = permutation_matched_mse(&estimates, &truth).unwrap();
            prop_assert!(matched.overall <= mse(&estimates, &truth).unwrap().overall + 1e-15);
            let turned: Vec<usize> = (0..d).map(|i| (i + turn) % d).collect();
            let again = permutation_matched_mse(&estimates.select_rows(&turned), &truth).unwrap();
            prop_assert!((again.overall - matched.overall).abs() < 1e-14);
            let ordered = mse(&estimates.select_rows(&matched.assignment), &truth).unwrap();
            prop_assert!((ordered.overall - matched.overall).abs() < 1e-14);
        }
    }
}
