//! All integer vectors u with ‖R u − y‖² within a radius (Schnorr and Euchner 1994).

/// A grid point near a target.
#[derive(Debug, Clone, PartialEq)]
pub struct GridPoint {
    /// Its d coordinates.
    pub t: Vec<i64>,
    /// ‖D (A t − b)‖².
    pub misfit: f64,
    /// ‖M (t − c)‖².
    pub away: f64,
}

/// The grid points within a radius.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The accepted points, in no order.
    pub points: Vec<GridPoint>,
    /// True if the list is complete. False if the search was given up.
    pub complete: bool,
}

/// The limits of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchLimits {
    /// The square of the radius.
    pub(super) square: f64,
    /// The number of nodes visited before the search is given up.
    pub(super) nodes: u64,
}

/// Walks through all u with ‖R u − y‖² ≤ `reach.square`, nearest first within each coordinate.
/// `visit` receives u and its squared distance and returns the square of the radius from then on.
/// Returns true if the walk was completed.
pub(super) fn walk(
    triangle: &[f64],
    y: &[f64],
    reach: SearchLimits,
    mut visit: impl FnMut(&[i64], f64) -> f64,
) -> bool {
    let d = y.len();
    if d == 0 {
        return true;
    }
    let mut square = reach.square;
    let mut left = reach.nodes;
    let mut u = vec![0i64; d];
    // For each level: the real-valued centre, the step to the next candidate, and the distance
    // above.
    let mut centre = vec![0.0; d];
    let mut step = vec![0i64; d];
    let mut above = vec![0.0; d + 1];
    let mut i = d - 1;
    let enter = |i: usize, u: &mut [i64], centre: &mut [f64], step: &mut [i64]| {
        let known: f64 = (i + 1..d).map(|j| triangle[j * d + i] * u[j] as f64).sum();
        centre[i] = (y[i] - known) / triangle[i * d + i];
        let nearest = centre[i].round();
        u[i] = nearest as i64;
        step[i] = if centre[i] >= nearest { 1 } else { -1 };
    };
    enter(i, &mut u, &mut centre, &mut step);
    loop {
        if left == 0 {
            return false;
        }
        left -= 1;
        let off = triangle[i * d + i] * (u[i] as f64 - centre[i]);
        let distance = above[i + 1] + off * off;
        if distance <= square {
            if i == 0 {
                square = visit(&u, distance);
            } else {
                above[i] = distance;
                i -= 1;
                enter(i, &mut u, &mut centre, &mut step);
                continue;
            }
        } else {
            i += 1;
            if i == d {
                return true;
            }
        }
        // The next candidate on the other side of the centre.
        u[i] += step[i];
        step[i] = if step[i] > 0 { -step[i] - 1 } else { -step[i] + 1 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The walk finds what trying all small vectors finds.
        #[test]
        fn the_walk_finds_all_points_of_a_ball(
            r in prop::collection::vec(-1.0..1.0f64, 9),
            y in prop::collection::vec(-2.0..2.0f64, 3),
            square in 0.1..9.0f64,
        ) {
            // Upper triangular with a diagonal of at least 1, so that |u| stays below 9.
            let at = |i: usize, j: usize| match i.cmp(&j) {
                std::cmp::Ordering::Less => r[3 * i + j],
                std::cmp::Ordering::Equal => 1.0 + r[3 * i + i].abs(),
                std::cmp::Ordering::Greater => 0.0,
            };
            let triangle: Vec<f64> = (0..9).map(|n| at(n % 3, n / 3)).collect();
            let distance = |u: &[i64; 3]| -> f64 {
                (0..3).map(|i| (0..3).map(|j| at(i, j) * u[j] as f64).sum::<f64>() - y[i]).map(|v| v * v).sum()
            };
            let mut want = Vec::new();
            for a in -16..17 { for b in -16..17 { for c in -16..17 {
                if distance(&[a, b, c]) <= square { want.push(vec![a, b, c]); }
            } } }
            let mut got = Vec::new();
            let reach = SearchLimits { square, nodes: 1_000_000 };
            let complete = walk(&triangle, &y, reach, |u, _| {
                got.push(u.to_vec());
                square
            });
            prop_assert!(complete);
            got.sort();
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn a_walk_without_end_is_given_up() {
        let triangle = [1e-3, 0.0, 0.0, 1e-3];
        assert!(!walk(
            &triangle,
            &[0.0, 0.0],
            SearchLimits { square: 1.0, nodes: 1000 },
            |_, _| 1.0
        ));
    }
}
