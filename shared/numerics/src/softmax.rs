//! The softmax link function and the arg max.

use nalgebra::DMatrix;

/// Returns the position of the largest entry; the lowest index wins ties. 0 for an empty slice.
#[must_use]
pub fn arg_max(values: &[f64]) -> usize {
    let mut best = 0;
    for (i, v) in values.iter().enumerate().skip(1) {
        if *v > values[best] {
            best = i;
        }
    }
    best
}

/// Replaces every column z by softmax(z). Each column's own maximum is subtracted first: one
/// maximum for the whole matrix would flatten the columns that lie far below it.
///
/// # Example
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::{arg_max, softmax_columns};
///
/// let mut z = DMatrix::from_column_slice(2, 2, &[0.0, 0.0, -900.0, 900.0]);
/// softmax_columns(&mut z);
/// assert_eq!(z.as_slice(), [0.5, 0.5, 0.0, 1.0]);
/// assert_eq!(arg_max(z.column(1).as_slice()), 1);
/// ```
pub fn softmax_columns(m: &mut DMatrix<f64>) {
    let rows = m.nrows();
    if rows == 0 {
        return;
    }
    for column in m.as_mut_slice().chunks_exact_mut(rows) {
        let max = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for v in column.iter_mut() {
            *v = (*v - max).exp();
            sum += *v;
        }
        for v in column.iter_mut() {
            *v /= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_far_apart_keep_their_own_scale() {
        let mut m = DMatrix::from_column_slice(2, 3, &[0.0, 0.0, -40.0, -41.0, 900.0, -900.0]);
        softmax_columns(&mut m);
        assert!((m[(0, 1)] - 0.731_058_578_630_004_9).abs() < 1e-15);
        assert_eq!(m[(0, 0)], 0.5);
        assert_eq!((m[(0, 2)], m[(1, 2)]), (1.0, 0.0));
    }

    #[test]
    fn ties_go_to_the_lowest_index() {
        assert_eq!(arg_max(&[0.2, 0.4, 0.4]), 1);
        assert_eq!(arg_max(&[0.5, 0.5]), 0);
    }
}
