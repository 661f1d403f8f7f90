//! M X + o 1ᵀ for small M and many columns. All work per record here has this shape: a handful of
//! equations, some dozens of features, any number of records.
//!
//! A general product packs its operands for matrices far larger than these, and leaves the offset
//! to a second pass over memory. Here M and o are laid out once in strips of rows that fit in
//! registers; a block of results is made in the cache and appended to fresh memory, which is
//! written once and never filled beforehand. Each column is computed alone and in one order, so
//! that a record's result does not depend, to the bit, on the records beside it.

use nalgebra::{DMatrix, DVector};

/// Rows of one strip: their sums stay in registers while the columns of M pass by.
const STRIP: usize = 6;

/// Columns of a block of results, which stays in the first-level cache.
const BLOCK: usize = 32;

/// Entries of the largest M laid out in strips (32 KiB). For a larger one the general product is
/// faster than strips that do not stay in the first-level cache.
const SMALL: usize = 4096;

/// Returns M X, plus `offset` on every column if there is one. M is r × m, X is m × n; the result
/// is r × n.
///
/// # Panics
/// If the inner dimensions differ, as with any product.
pub(super) fn affine(
    m: &DMatrix<f64>,
    offset: Option<&DVector<f64>>,
    x: &DMatrix<f64>,
) -> DMatrix<f64> {
    let ((rows, inner), records) = (m.shape(), x.ncols());
    assert_eq!(inner, x.nrows(), "inner dimensions of a product");
    if m.len() > SMALL {
        let mut out = m * x;
        if let Some(offset) = offset {
            out.column_iter_mut().for_each(|mut column| column += offset);
        }
        return out;
    }
    let strips = strips(m, offset);
    let mut out = Vec::with_capacity(rows * records);
    // The last strip of a column may run over its end: into the next column, which is written after
    // it, or the slack.
    let mut block = vec![0.0; BLOCK * rows + STRIP];
    let mut record = 0;
    while record < records {
        let width = BLOCK.min(records - record);
        for column in 0..width {
            let x = &x.as_slice()[(record + column) * inner..][..inner];
            for (s, strip) in strips.chunks_exact(inner + 1).enumerate() {
                let mut sums = strip[0];
                for (entries, x) in strip[1..].iter().zip(x) {
                    for (sum, entry) in sums.iter_mut().zip(entries) {
                        *sum += entry * x;
                    }
                }
                block[column * rows + s * STRIP..][..STRIP].copy_from_slice(&sums);
            }
        }
        out.extend_from_slice(&block[..width * rows]);
        record += width;
    }
    DMatrix::from_vec(rows, records, out)
}

/// Lays M out in strips. Each has the offset of its rows, then its rows of each column of M, with
/// zeros below the last row.
fn strips(m: &DMatrix<f64>, offset: Option<&DVector<f64>>) -> Vec<[f64; STRIP]> {
    let (rows, inner) = m.shape();
    let mut strips = vec![[0.0; STRIP]; rows.div_ceil(STRIP) * (inner + 1)];
    for row in 0..rows {
        let (strip, place) = (row / STRIP * (inner + 1), row % STRIP);
        strips[strip][place] = offset.map_or(0.0, |o| o[row]);
        for column in 0..inner {
            strips[strip + 1 + column][place] = m[(row, column)];
        }
    }
    strips
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers: every sum is exact, so that any order of adding gives the same bits.
    fn integers(rows: usize, columns: usize, step: usize) -> DMatrix<f64> {
        DMatrix::from_fn(rows, columns, |i, j| ((i * 7 + j * step) % 23) as f64 - 11.0)
    }

    #[test]
    fn equals_the_product_in_every_shape() {
        let sizes = [0, 1, 5, 6, 7, 18, 64];
        for rows in sizes {
            for inner in [0, 1, 5, 66] {
                for records in [0, 1, 31, 32, 33, 100] {
                    let (m, x) = (integers(rows, inner, 3), integers(inner, records, 5));
                    let offset = DVector::from_fn(rows, |i, _| i as f64 - 2.0);
                    let want = DMatrix::from_fn(rows, records, |i, j| {
                        (0..inner).map(|l| m[(i, l)] * x[(l, j)]).sum()
                    });
                    assert_eq!(affine(&m, None, &x), want, "{rows} × {inner} × {records}");
                    let want = DMatrix::from_fn(rows, records, |i, j| want[(i, j)] + offset[i]);
                    assert_eq!(
                        affine(&m, Some(&offset), &x),
                        want,
                        "{rows} × {inner} × {records}, offset"
                    );
                }
            }
        }
    }
}
