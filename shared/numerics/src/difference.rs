//! The difference matrix J: (k − 1) × k with −1 on the diagonal and +1 right of it (R section II).
//!
//! J removes the common shift of all classes, to which softmax is invariant: J ln c = J z.

use nalgebra::DMatrix;

/// Returns J M: row i of the result is row i + 1 of M less row i. J itself is never formed. The
/// result is empty if M has fewer than two rows.
///
/// # Example
///
/// ```
/// use nalgebra::DMatrix;
///
/// let m = DMatrix::from_column_slice(3, 1, &[1.0, 4.0, 2.0]);
/// assert_eq!(vfl_numerics::row_differences(&m).as_slice(), [3.0, -2.0]);
/// ```
#[must_use]
pub fn row_differences(m: &DMatrix<f64>) -> DMatrix<f64> {
    let (k, n) = m.shape();
    if k == 0 {
        return DMatrix::zeros(0, n);
    }
    let mut out = Vec::with_capacity((k - 1) * n);
    for column in m.as_slice().chunks_exact(k) {
        out.extend(column.windows(2).map(|w| w[1] - w[0]));
    }
    DMatrix::from_vec(k - 1, n, out)
}

/// Returns the rows of M that an exact release determines: differences of neighbouring rows, as
/// softmax determines logits of classes, or the only row, as a number determines its predictor.
#[must_use]
pub fn determined_rows(m: &DMatrix<f64>) -> DMatrix<f64> {
    if m.nrows() == 1 { m.clone() } else { row_differences(m) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_dense_product() {
        let m = DMatrix::from_fn(5, 4, |i, j| ((i * 7 + j * 3) % 11) as f64 - 4.5);
        let j = DMatrix::from_fn(4, 5, |r, c| if c == r { -1.0 } else { f64::from(c == r + 1) });
        assert_eq!(row_differences(&m), &j * &m);
        assert_eq!(determined_rows(&m), j * &m);
        let number = m.rows(2, 1).into_owned();
        assert_eq!(determined_rows(&number), number);
        assert_eq!(row_differences(&DMatrix::zeros(1, 3)).shape(), (0, 3));
    }
}
