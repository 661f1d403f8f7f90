//! W x + b of many records, computed so that a record's outputs do not depend on the other records.

use nalgebra::{DMatrix, DVector};

/// The number of records from which a product of matrices takes the blocked route, which adds in
/// another order.
const MANY: usize = 6;

/// Computes W x (+ b) for W w × d and a block d × n, one record per column. A record's column is
/// the same to the last bit whatever the other records are: the coordinator recognises a share by
/// its bits.
///
/// # Panics
/// If the shapes do not fit.
pub(super) fn affine(
    weights: &DMatrix<f64>,
    bias: Option<&DVector<f64>>,
    block: &DMatrix<f64>,
) -> DMatrix<f64> {
    let records = block.ncols();
    if (1..MANY).contains(&records) {
        let padded = block.clone().resize_horizontally(MANY, 0.0);
        return affine(weights, bias, &padded).columns(0, records).into_owned();
    }
    let mut z = match bias {
        Some(b) => DMatrix::from_fn(weights.nrows(), records, |i, _| b[i]),
        None => DMatrix::zeros(weights.nrows(), records),
    };
    if weights.ncols() > 0 {
        z.gemm(1.0, weights, block, 1.0);
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn an_output_does_not_depend_on_the_records_beside_it() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(5);
        for k in [1, 2, 3, 5, 6, 7, 8, 11, 26, 128] {
            for d in [1, 4, 5, 6, 9, 36, 300] {
                let mut random = |rows, columns| {
                    DMatrix::from_fn(rows, columns, |_, _| rng.random::<f64>() - 0.3)
                };
                let weights = random(k, d);
                let bias = DVector::from_fn(k, |i, _| 0.1 * i as f64);
                let x = random(d, 70);
                let all = affine(&weights, Some(&bias), &x);
                for (from, n) in [
                    (0, 1),
                    (3, 1),
                    (69, 1),
                    (2, 2),
                    (1, 3),
                    (7, 4),
                    (5, 5),
                    (4, 6),
                    (0, 7),
                    (9, 13),
                    (6, 64),
                ] {
                    let part = affine(&weights, Some(&bias), &x.columns(from, n).into_owned());
                    assert_eq!(
                        part,
                        all.columns(from, n).into_owned(),
                        "{k} outputs, {d} features, {n} records"
                    );
                }
            }
        }
    }
}
