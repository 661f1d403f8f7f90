//! Kernels for matrices of a few dozen rows: row-major slices, no allocation, sums in a fixed
//! order.

/// Returns Σ a_i b_i, in four running sums so that the loop vectorises.
#[inline]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut sums = [0.0; 4];
    let (mut left, mut right) = (a.chunks_exact(4), b.chunks_exact(4));
    for (a, b) in left.by_ref().zip(right.by_ref()) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Adds s x to y.
#[inline]
pub(crate) fn axpy(y: &mut [f64], s: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += s * x;
    }
}

/// Returns the largest magnitude.
pub(crate) fn amax(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m, v| v.abs().max(m))
}

/// Replaces the lower triangle of a symmetric n × n matrix by its Cholesky factor L. Returns false
/// if the matrix is not positive definite; the triangle is then only partly replaced.
#[inline]
pub fn cholesky(a: &mut [f64], n: usize) -> bool {
    for i in 0..n {
        let (above, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..=i];
        for j in 0..i {
            let other = &above[j * n..][..=j];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return false;
        }
        row[i] = pivot.sqrt();
    }
    true
}

/// Computes x ← (L Lᵀ)⁻¹ x.
#[inline]
pub fn solve(l: &[f64], n: usize, x: &mut [f64]) {
    for i in 0..n {
        let row = &l[i * n..][..=i];
        x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
    }
    for i in (0..n).rev() {
        let row = &l[i * n..][..=i];
        let value = x[i] / row[i];
        x[i] = value;
        axpy(&mut x[..i], -value, &row[..i]);
    }
}

/// Computes X ← L⁻¹ X for an n × d matrix X.
#[inline]
pub(crate) fn forward(l: &[f64], n: usize, x: &mut [f64], d: usize) {
    for i in 0..n {
        let (done, rest) = x.split_at_mut(i * d);
        let row = &mut rest[..d];
        for (j, above) in done.chunks_exact(d).enumerate() {
            axpy(row, -l[i * n + j], above);
        }
        let scale = 1.0 / l[i * n + i];
        row.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Computes out ← rows diag(w) rowsᵀ (n × n, both triangles) for an n × d matrix. `scaled` (d
/// entries) is working space.
#[inline]
pub(crate) fn weighted_gram(
    rows: &[f64],
    n: usize,
    d: usize,
    w: &[f64],
    scaled: &mut [f64],
    out: &mut [f64],
) {
    for a in 0..n {
        for ((s, r), w) in scaled.iter_mut().zip(&rows[a * d..][..d]).zip(w) {
            *s = r * w;
        }
        for b in 0..=a {
            let value = dot(&scaled[..d], &rows[b * d..][..d]);
            out[a * n + b] = value;
            out[b * n + a] = value;
        }
    }
}

/// Returns the least eigenvalue of a symmetric n × n matrix, from below, to `tolerance` of the
/// spread of its eigenvalues: Householder reduction to a tridiagonal matrix, then bisection by
/// Sturm's count. Destroys `a`; `work` has 3 n entries.
pub(crate) fn least_eigenvalue(a: &mut [f64], n: usize, tolerance: f64, work: &mut [f64]) -> f64 {
    let (diagonal, work) = work.split_at_mut(n);
    let (beyond, reflector) = work.split_at_mut(n);
    tridiagonal(a, n, diagonal, beyond, reflector);
    let (mut low, mut high) = (f64::INFINITY, f64::INFINITY);
    let mut top = f64::NEG_INFINITY;
    for i in 0..n {
        let left = if i > 0 { beyond[i - 1].abs() } else { 0.0 };
        let right = if i + 1 < n { beyond[i].abs() } else { 0.0 };
        low = low.min(diagonal[i] - left - right);
        top = top.max(diagonal[i] + left + right);
        high = high.min(diagonal[i]);
    }
    let width = tolerance * (top - low).max(f64::MIN_POSITIVE);
    while high - low > width {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if any_below(diagonal, beyond, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// Returns true if a tridiagonal matrix has an eigenvalue below `x`.
fn any_below(diagonal: &[f64], beyond: &[f64], x: f64) -> bool {
    let mut pivot = 1.0;
    for (i, d) in diagonal.iter().enumerate() {
        let coupling = if i == 0 { 0.0 } else { beyond[i - 1] * beyond[i - 1] };
        pivot = d - x - coupling / pivot;
        if pivot <= 0.0 {
            return true;
        }
    }
    false
}

/// Computes `diagonal` (n) and `beyond` (n − 1 entries used) of a similar tridiagonal matrix by
/// Householder reduction.
fn tridiagonal(a: &mut [f64], n: usize, diagonal: &mut [f64], beyond: &mut [f64], p: &mut [f64]) {
    for k in 0..n {
        diagonal[k] = a[k * n + k];
        if k + 1 >= n {
            break;
        }
        // The reflector of row k right of the diagonal, kept in place.
        let (top, below) = a.split_at_mut((k + 1) * n);
        let v = &mut top[k * n + k + 1..][..n - k - 1];
        let m = v.len();
        let norm = dot(v, v).sqrt();
        let tail = dot(&v[1..], &v[1..]);
        if tail == 0.0 || norm == 0.0 {
            beyond[k] = v[0];
            continue;
        }
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        beyond[k] = alpha;
        v[0] -= alpha;
        let scale = 2.0 / dot(v, v);
        // p = scale · A v, then A ← A − v qᵀ − q vᵀ with q = p − (scale vᵀp / 2) v.
        let p = &mut p[..m];
        for i in 0..m {
            p[i] = scale * dot(&below[i * n + k + 1..][..m], v);
        }
        let shift = 0.5 * scale * dot(p, v);
        axpy(p, -shift, v);
        for i in 0..m {
            let row = &mut below[i * n + k + 1..][..m];
            let (vi, pi) = (v[i], p[i]);
            for ((r, v), p) in row.iter_mut().zip(v.iter()).zip(p.iter()) {
                *r -= vi * p + pi * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn agrees_with_a_general_library() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for n in [1, 2, 3, 5, 13, 27] {
            let d = n + 3;
            let rows = DMatrix::from_fn(n, d, |_, _| rng.random::<f64>() - 0.5);
            let w: Vec<f64> = (0..d).map(|_| rng.random::<f64>() + 0.1).collect();
            let flat: Vec<f64> = rows.transpose().as_slice().to_vec();
            let mut gram = vec![0.0; n * n];
            weighted_gram(&flat, n, d, &w, &mut vec![0.0; d], &mut gram);
            let want = &rows * DMatrix::from_diagonal(&w.clone().into()) * rows.transpose();
            assert!((DMatrix::from_row_slice(n, n, &gram) - &want).amax() < 1e-13);

            let mut l = gram.clone();
            assert!(cholesky(&mut l, n));
            let mut x: Vec<f64> = (0..n).map(|i| i as f64 - 1.0).collect();
            let b = x.clone();
            solve(&l, n, &mut x);
            let residual =
                &want * DMatrix::from_column_slice(n, 1, &x) - DMatrix::from_column_slice(n, 1, &b);
            assert!(residual.amax() < 1e-8 * amax(&x).max(1.0));

            let shifted: Vec<f64> =
                gram.iter().enumerate().map(|(i, v)| v - f64::from(i % (n + 1) == 0)).collect();
            let want = (want - DMatrix::identity(n, n)).symmetric_eigen().eigenvalues.min();
            let got = least_eigenvalue(&mut shifted.clone(), n, 1e-12, &mut vec![0.0; 3 * n]);
            assert!((got - want).abs() < 1e-10, "{n}: {got} against {want}");
            assert!(!cholesky(&mut shifted.clone(), n) || want > 0.0);
        }
    }

    #[test]
    fn a_matrix_that_is_not_a_number_is_not_positive_definite() {
        assert!(!cholesky(&mut [f64::NAN], 1));
        assert!(!cholesky(&mut [1.0, 2.0, 2.0, 1.0], 2));
    }
}
