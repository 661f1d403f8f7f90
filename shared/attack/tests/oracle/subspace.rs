//! Row space and null space of A by orthogonalisation, which shares nothing with the pseudo-inverse under test.

use nalgebra::{DMatrix, DVector};

/// Directions below this, of the largest, are taken for round-off; R's golden vectors use the same.
const CUT_OFF: f64 = 1e-10;

/// Orthonormal bases (d × r, d × n) of the row space of A and of its null space.
#[derive(Debug)]
pub(crate) struct Subspaces {
    pub(crate) rows: DMatrix<f64>,
    pub(crate) null: DMatrix<f64>,
}

impl Subspaces {
    pub(crate) fn of(a: &DMatrix<f64>) -> Self {
        let d = a.ncols();
        let mut basis = vec![];
        orthogonalise(a.row_iter().map(|row| row.transpose()).collect(), d, &mut basis);
        let rank = basis.len();
        orthogonalise(
            (0..d).map(|i| DVector::from_fn(d, |r, _| f64::from(r == i))).collect(),
            d,
            &mut basis,
        );
        assert_eq!(basis.len(), d, "the unit vectors span everything");
        let matrix =
            |vectors: &[DVector<f64>]| DMatrix::from_fn(d, vectors.len(), |i, j| vectors[j][i]);
        Self { rows: matrix(&basis[..rank]), null: matrix(&basis[rank..]) }
    }
}

/// Extends an orthonormal `basis` by the span of `vectors`, the longest remainder first, up to `limit` vectors.
fn orthogonalise(mut vectors: Vec<DVector<f64>>, limit: usize, basis: &mut Vec<DVector<f64>>) {
    let largest = vectors.iter().map(|v| v.norm()).fold(0.0, f64::max);
    for v in &mut vectors {
        remove(v, basis);
    }
    while basis.len() < limit {
        let Some(longest) =
            (0..vectors.len()).max_by(|&i, &j| vectors[i].norm().total_cmp(&vectors[j].norm()))
        else {
            return;
        };
        let mut next = vectors.swap_remove(longest);
        // Once more: what is left may be short, and mostly round-off along the basis.
        remove(&mut next, basis);
        let norm = next.norm();
        if norm <= CUT_OFF * largest {
            return;
        }
        next /= norm;
        for v in &mut vectors {
            v.axpy(-next.dot(v), &next, 1.0);
        }
        basis.push(next);
    }
}

fn remove(v: &mut DVector<f64>, basis: &[DVector<f64>]) {
    for _ in 0..2 {
        for b in basis {
            v.axpy(-b.dot(v), b, 1.0);
        }
    }
}

/// The least residual ‖C μ − t‖ over μ ≥ 0, by the active-set method of Lawson and Hanson.
pub(crate) fn nonnegative_residual(c: &DMatrix<f64>, t: &DVector<f64>) -> f64 {
    let count = c.ncols();
    let (mut passive, mut mu) = (vec![false; count], DVector::<f64>::zeros(count));
    for _ in 0..10 * (count + 1) {
        let residual = t - c * &mu;
        let gain = c.transpose() * &residual;
        let entering =
            (0..count).filter(|&i| !passive[i]).max_by(|&i, &j| gain[i].total_cmp(&gain[j]));
        let Some(entering) = entering.filter(|&i| gain[i] > 1e-13) else { break };
        passive[entering] = true;
        loop {
            let chosen: Vec<usize> = (0..count).filter(|&i| passive[i]).collect();
            let Some(inner) = least_squares(c.select_columns(&chosen), t) else {
                return residual.norm();
            };
            if inner.iter().all(|&v| v > 0.0) {
                mu.fill(0.0);
                for (&i, &v) in chosen.iter().zip(inner.iter()) {
                    mu[i] = v;
                }
                break;
            }
            // Back to the first bound on the way.
            let step = chosen
                .iter()
                .zip(inner.iter())
                .filter(|&(_, &v)| v <= 0.0)
                .map(|(&i, &v)| mu[i] / (mu[i] - v))
                .fold(1.0, f64::min);
            for (&i, &v) in chosen.iter().zip(inner.iter()) {
                mu[i] += step * (v - mu[i]);
                if mu[i] <= 1e-15 {
                    mu[i] = 0.0;
                    passive[i] = false;
                }
            }
            if !passive.contains(&true) {
                break;
            }
        }
    }
    (t - c * mu).norm()
}

/// The minimiser of ‖C μ − t‖, `None` if the columns depend on each other.
fn least_squares(c: DMatrix<f64>, t: &DVector<f64>) -> Option<DVector<f64>> {
    if c.ncols() > c.nrows() {
        return None;
    }
    let qr = c.qr();
    qr.r().solve_upper_triangular(&(qr.q().transpose() * t))
}
