//! The conditions that characterise the answers, checked on the answers themselves: no second solver can be wrong here.

use nalgebra::{DMatrix, DVector};

use crate::subspace::{Subspaces, nonnegative_residual};

/// A coordinate this near to 0 or 1 may push against that face.
const ON_FACE: f64 = 1e-9;

/// How far the point `x` of the box is from being the one nearest to ½ among all x' of the box with A x' = A x: the least
/// ‖P⊥(x − ½ − μ)‖ over multipliers μ that are ≥ 0 where x is 0, ≤ 0 where x is 1 and 0 elsewhere. It is 0 for that point
/// and for no other: x − ½ = Aᵀλ + μ is the Karush-Kuhn-Tucker condition.
pub(crate) fn off_nearest_half(spaces: &Subspaces, x: &DVector<f64>) -> f64 {
    let at_zero = (0..x.len()).filter(|&i| x[i] <= ON_FACE).map(|i| (i, 1.0));
    let at_one = (0..x.len()).filter(|&i| x[i] >= 1.0 - ON_FACE).map(|i| (i, -1.0));
    let pushes: Vec<(usize, f64)> = at_zero.chain(at_one).collect();
    let null = &spaces.null;
    let cone =
        DMatrix::from_fn(null.ncols(), pushes.len(), |r, c| pushes[c].1 * null[(pushes[c].0, r)]);
    nonnegative_residual(&cone, &(null.transpose() * x.add_scalar(-0.5)))
}

/// How far the point `x` of the box is from minimising ‖A x − b‖² there: the largest violation of the sign that the gradient
/// Aᵀ(A x − b) must have at each coordinate.
pub(crate) fn off_least_squares(a: &DMatrix<f64>, b: &DVector<f64>, x: &DVector<f64>) -> f64 {
    let gradient = a.transpose() * (a * x - b);
    let violation = |(&g, &x): (&f64, &f64)| {
        if x <= ON_FACE {
            (-g).max(0.0)
        } else if x >= 1.0 - ON_FACE {
            g.max(0.0)
        } else {
            g.abs()
        }
    };
    gradient.iter().zip(x.iter()).map(violation).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x₁ + x₂ = b: by symmetry both are b/2. With weights 3 and 1, a face stops the first at 1.
    #[test]
    fn tells_right_from_wrong() {
        let spaces = Subspaces::of(&DMatrix::from_row_slice(2, 2, &[1.0, 1.0, 2.0, 2.0]));
        assert_eq!(spaces.rows.ncols(), 1);
        assert!(off_nearest_half(&spaces, &DVector::from_vec(vec![0.3, 0.3])) < 1e-15);
        assert!(off_nearest_half(&spaces, &DVector::from_vec(vec![0.3, 0.300_001])) > 5e-7);
        assert!(off_nearest_half(&spaces, &DVector::from_vec(vec![1.0, 0.6])) > 0.1);

        let spaces = Subspaces::of(&DMatrix::from_row_slice(1, 2, &[3.0, 1.0]));
        assert!(off_nearest_half(&spaces, &DVector::from_vec(vec![1.0, 0.9])) < 1e-15);
        assert!(off_nearest_half(&spaces, &DVector::from_vec(vec![0.97, 0.99])) > 1e-2);

        let a = DMatrix::from_row_slice(1, 2, &[3.0, 1.0]);
        let b = DVector::from_vec(vec![5.0]);
        assert!(off_least_squares(&a, &b, &DVector::from_vec(vec![1.0, 1.0])) < 1e-15);
        assert!(off_least_squares(&a, &b, &DVector::from_vec(vec![1.0, 0.9])) > 0.1);
        assert!(off_least_squares(&a, &b, &DVector::from_vec(vec![0.0, 1.0])) > 0.1);
    }
}
