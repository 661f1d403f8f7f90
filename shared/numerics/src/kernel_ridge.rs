//! Kernel ridge regression that chooses its kernel and its penalty by the leave-one-out error.

use faer::{Mat, Side};
use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use crate::pseudo_inverse::DecompositionError;

/// A regression of several outputs on the same inputs: linear, with all products of two inputs, or
/// smooth (Gaussian kernel).
///
/// Each output f minimises Σ (o_i − c − f(z_i))² + λ ‖f‖² over a constant c, which is not
/// penalised, and the functions f of a kernel, on inputs z of mean 0 and variance 1. Kernel and λ
/// are those of the least leave-one-out error, which follows from one decomposition for each
/// kernel: (o_i − f(z_i)) / (1 − S_ii) with the smoothing matrix S.
///
/// # Example
///
/// A product of two inputs, from 60 records:
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::KernelRidge;
///
/// let inputs = DMatrix::from_fn(2, 60, |i, j| ((j * (7 + 6 * i)) % 31) as f64 / 30.0);
/// let outputs = DMatrix::from_fn(1, 60, |_, j| inputs[(0, j)] * inputs[(1, j)]);
/// let fitted = KernelRidge::fit(&inputs, &outputs)?;
/// let there = fitted.predict(&DMatrix::from_column_slice(2, 1, &[0.5, 0.8]));
/// assert!((there[0] - 0.4).abs() < 1e-3);
/// # Ok::<(), vfl_numerics::DecompositionError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct KernelRidge {
    mean: DVector<f64>,
    /// 1 / deviation of each input; 0 for one that is constant.
    scale: DVector<f64>,
    /// Inputs of the records, p × n, of mean 0 and variance 1.
    known: DMatrix<f64>,
    /// One fit for each output.
    fits: Vec<Fit>,
    left_out: Vec<f64>,
}

/// The function of one output.
#[derive(Clone, PartialEq)]
struct Fit {
    /// `None` if only the constant is used.
    kernel: Option<Kernel>,
    constant: f64,
    /// One weight for each record.
    weights: DVector<f64>,
}

/// A kernel of two vectors with p entries of mean 0 and variance 1.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kernel {
    /// z · z′ / p.
    Linear,
    /// (1 + z · z′ / p)²: the inputs, their squares and all products of two.
    Products,
    /// exp(−‖z − z′‖² / (2 p w²)) with width w.
    Gaussian(f64),
}

impl Kernel {
    const ALL: [Self; 5] = [
        Self::Linear,
        Self::Products,
        Self::Gaussian(0.5),
        Self::Gaussian(1.0),
        Self::Gaussian(2.0),
    ];

    /// Evaluates the kernel at vectors with this inner product and squared distance, each divided
    /// by p.
    fn at(self, product: f64, distance: f64) -> f64 {
        match self {
            Self::Linear => product,
            Self::Products => (1.0 + product) * (1.0 + product),
            Self::Gaussian(width) => (-0.5 * distance / (width * width)).exp(),
        }
    }
}

/// Returns the penalties that are tried, as shares of the mean eigenvalue of the centred kernel:
/// half decades from 1e-8 to 1e3.
fn penalties() -> impl Iterator<Item = f64> {
    (-16..=6).map(|half| 10f64.powf(0.5 * f64::from(half)))
}

/// A record with 1 − S_ii at or below this determines its own value: its leave-one-out error is
/// unknown.
const DETERMINED: f64 = 1e-10;

impl std::fmt::Debug for KernelRidge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kernels: Vec<_> = self.fits.iter().map(|fit| fit.kernel).collect();
        write!(
            f,
            "KernelRidge({} inputs, {} records, {kernels:?}, values withheld)",
            self.mean.len(),
            self.known.ncols()
        )
    }
}

impl KernelRidge {
    /// Fits every row of `outputs` (d × n) to `inputs` (p × n). It takes O(n³ + n² d) for each of
    /// five kernels and 23 penalties, which suits n up to about a thousand. An output of fewer than
    /// three records, or without any input that varies, is fitted by its mean.
    ///
    /// # Errors
    /// [`DecompositionError`] for values that are not finite, or an iteration that does not
    /// converge.
    ///
    /// # Panics
    /// If inputs and outputs differ in records.
    pub fn fit(inputs: &DMatrix<f64>, outputs: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        let (p, n) = inputs.shape();
        assert_eq!(n, outputs.ncols(), "inputs and outputs of the same records");
        if inputs.iter().chain(outputs.iter()).any(|v| !v.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let count = n.max(1) as f64;
        let mean = DVector::from_fn(p, |i, _| inputs.row(i).sum() / count);
        let scale = DVector::from_fn(p, |i, _| {
            let row = inputs.row(i);
            let variance = row.iter().map(|v| (v - mean[i]).powi(2)).sum::<f64>() / count;
            // Round-off of a constant does not count as variation.
            if row.iter().all(|v| *v == row[0]) || variance <= 0.0 {
                0.0
            } else {
                variance.sqrt().recip()
            }
        });
        if scale.iter().any(|v| !v.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let known = standard(inputs, &mean, &scale);
        let mut fitted = Self { mean, scale, known, fits: Vec::new(), left_out: Vec::new() };
        for row in outputs.row_iter() {
            let constant = row.sum() / count;
            let about = row.iter().map(|o| (o - constant).powi(2)).sum::<f64>() / count;
            // The mean of the others, for each record.
            let left_out =
                if n > 1 { about * (count / (count - 1.0)).powi(2) } else { f64::INFINITY };
            fitted.fits.push(Fit { kernel: None, constant, weights: DVector::zeros(n) });
            fitted.left_out.push(left_out);
        }
        if n >= 3 && fitted.varying() > 0 {
            let tried: Result<Vec<_>, _> =
                Kernel::ALL.into_par_iter().map(|kernel| fitted.with(kernel, outputs)).collect();
            for (kernel, better) in Kernel::ALL.into_iter().zip(tried?) {
                for (at, (weights, constant, error)) in
                    better.into_iter().enumerate().filter_map(|(i, b)| Some((i, b?)))
                {
                    if error < fitted.left_out[at] {
                        fitted.left_out[at] = error;
                        fitted.fits[at] = Fit { kernel: Some(kernel), constant, weights };
                    }
                }
            }
        }
        Ok(fitted)
    }

    /// Returns the leave-one-out mean squared error of each output. Kernel and penalty were chosen
    /// by it, so it is a little less than the error of new records.
    #[must_use]
    pub fn left_out(&self) -> &[f64] {
        &self.left_out
    }

    /// Predicts the outputs (d × m) at these inputs (p × m).
    ///
    /// # Panics
    /// If there is another number of inputs than was fitted.
    #[must_use]
    pub fn predict(&self, inputs: &DMatrix<f64>) -> DMatrix<f64> {
        assert_eq!(inputs.nrows(), self.mean.len(), "as many inputs as were fitted");
        let (d, m) = (self.fits.len(), inputs.ncols());
        // A block at a time: the kernel of all records at once may not fit in memory.
        let blocks: Vec<DMatrix<f64>> = (0..m.div_ceil(BLOCK))
            .into_par_iter()
            .map(|block| {
                let from = block * BLOCK;
                self.block(&inputs.columns(from, BLOCK.min(m - from)).into_owned())
            })
            .collect();
        let mut outputs = DMatrix::zeros(d, m);
        for (block, found) in blocks.iter().enumerate() {
            outputs.columns_mut(block * BLOCK, found.ncols()).copy_from(found);
        }
        outputs
    }

    fn block(&self, inputs: &DMatrix<f64>) -> DMatrix<f64> {
        let here = standard(inputs, &self.mean, &self.scale);
        let mut outputs =
            DMatrix::from_fn(self.fits.len(), inputs.ncols(), |i, _| self.fits[i].constant);
        for kernel in Kernel::ALL {
            let mut of: Option<DMatrix<f64>> = None;
            for (at, fit) in
                self.fits.iter().enumerate().filter(|(_, fit)| fit.kernel == Some(kernel))
            {
                let values =
                    of.get_or_insert_with(|| self.kernel(kernel, &here)).tr_mul(&fit.weights);
                outputs
                    .row_mut(at)
                    .iter_mut()
                    .zip(values.iter())
                    .for_each(|(to, value)| *to += value);
            }
        }
        outputs
    }

    /// Returns the number of inputs that vary.
    fn varying(&self) -> usize {
        self.scale.iter().filter(|s| **s > 0.0).count()
    }

    /// Returns the kernel of the records (rows) with `here` (columns), n × m.
    fn kernel(&self, kernel: Kernel, here: &DMatrix<f64>) -> DMatrix<f64> {
        let p = self.varying().max(1) as f64;
        let length =
            |m: &DMatrix<f64>| m.column_iter().map(|z| z.norm_squared() / p).collect::<Vec<_>>();
        let (known, new) = (length(&self.known), length(here));
        let mut values = self.known.tr_mul(here);
        for (j, mut column) in values.column_iter_mut().enumerate() {
            for (i, value) in column.iter_mut().enumerate() {
                let product = *value / p;
                *value = kernel.at(product, (known[i] + new[j] - 2.0 * product).max(0.0));
            }
        }
        values
    }

    /// Returns, for each output, weights, constant and leave-one-out error of the best penalty with
    /// this kernel; `None` where the kernel is flat.
    #[allow(clippy::type_complexity, reason = "a triple for each output")]
    fn with(
        &self,
        kernel: Kernel,
        outputs: &DMatrix<f64>,
    ) -> Result<Vec<Option<(DVector<f64>, f64, f64)>>, DecompositionError> {
        let n = self.known.ncols();
        let count = n as f64;
        let values = self.kernel(kernel, &self.known);
        let means = DVector::from_iterator(n, values.column_iter().map(|c| c.sum() / count));
        let (lengths, vectors) = centred_eigen(&values)?;
        let typical = lengths.iter().sum::<f64>() / count;
        let mut best = vec![None; outputs.nrows()];
        if typical <= 0.0 {
            return Ok(best);
        }
        let squares = vectors.map(|v| v * v);
        let mut about = outputs.transpose();
        let constants: Vec<f64> = about.column_iter().map(|c| c.sum() / count).collect();
        about.column_iter_mut().zip(&constants).for_each(|(mut c, mean)| c.add_scalar_mut(-mean));
        let along = vectors.tr_mul(&about);
        for penalty in penalties().map(|share| share * typical) {
            let shrink =
                DVector::from_iterator(n - 1, lengths.iter().map(|l| (l + penalty).recip()));
            // 1 − S_ii over the penalty.
            let own = &squares * &shrink;
            if own.iter().any(|g| g * penalty <= DETERMINED) {
                continue;
            }
            let mut weights = along.clone();
            weights.column_iter_mut().for_each(|mut c| c.component_mul_assign(&shrink));
            let weights = &vectors * weights;
            for (at, column) in weights.column_iter().enumerate() {
                let error =
                    column.iter().zip(&own).map(|(w, g)| (w / g).powi(2)).sum::<f64>() / count;
                if best[at]
                    .as_ref()
                    .is_none_or(|(_, _, least): &(DVector<f64>, f64, f64)| error < *least)
                {
                    // The weights sum to 0, so that only the records' own means remain of the
                    // centring.
                    let constant = constants[at] - column.dot(&means);
                    best[at] = Some((column.into_owned(), constant, error));
                }
            }
        }
        Ok(best)
    }
}

/// Returns the eigenvalues (n − 1, none below 0) and eigenvectors (n × (n − 1)) of a kernel without
/// its constant part.
///
/// The kernel is decomposed in a basis orthogonal to the constants. With the constants among the
/// eigenvectors, 1 − S_ii would be a small difference of large numbers for a small penalty.
fn centred_eigen(kernel: &DMatrix<f64>) -> Result<(Vec<f64>, DMatrix<f64>), DecompositionError> {
    let n = kernel.nrows();
    // The reflection I − 2 v vᵀ / vᵀv takes the constants to the first axis; its other columns are
    // the basis.
    let mut v = DVector::from_element(n, (n as f64).sqrt().recip());
    v[0] += 1.0;
    let twice = 2.0 / v.norm_squared();
    let image = kernel * &v;
    let (along, image) = (v.dot(&image), image * twice);
    let reflected = |i: usize, j: usize| {
        0.5 * (kernel[(i, j)] + kernel[(j, i)]) - v[i] * image[j] - image[i] * v[j]
            + twice * twice * along * v[i] * v[j]
    };
    let inner = Mat::from_fn(n - 1, n - 1, |i, j| reflected(i + 1, j + 1));
    let eigen =
        inner.self_adjoint_eigen(Side::Lower).map_err(|_| DecompositionError::NoConvergence)?;
    let lengths = eigen.S().column_vector().iter().map(|l| l.max(0.0)).collect();
    let mut vectors =
        DMatrix::from_fn(n, n - 1, |i, j| if i == 0 { 0.0 } else { eigen.U()[(i - 1, j)] });
    for mut vector in vectors.column_iter_mut() {
        let by = twice * v.dot(&vector);
        vector.axpy(-by, &v, 1.0);
    }
    Ok((lengths, vectors))
}

/// The number of records in a block of [`KernelRidge::predict`].
const BLOCK: usize = 512;

fn standard(inputs: &DMatrix<f64>, mean: &DVector<f64>, scale: &DVector<f64>) -> DMatrix<f64> {
    let mut here = inputs.clone();
    for mut column in here.column_iter_mut() {
        column -= mean;
        column.component_mul_assign(scale);
    }
    here
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    fn records(p: usize, n: usize, seed: u64) -> DMatrix<f64> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        DMatrix::from_fn(p, n, |_, _| rng.random::<f64>())
    }

    /// Fitted naively: the constant is a column of ones beside the kernel's own features, and is
    /// not penalised.
    fn naive(kernel: &DMatrix<f64>, outputs: &DVector<f64>, penalty: f64) -> (DVector<f64>, f64) {
        let n = outputs.len();
        // (K + λ) w + c 1 = o, Σ w = 0.
        let system = DMatrix::from_fn(n + 1, n + 1, |i, j| match (i < n, j < n) {
            (true, true) => kernel[(i, j)] + if i == j { penalty } else { 0.0 },
            (false, false) => 0.0,
            _ => 1.0,
        });
        let right = DVector::from_fn(n + 1, |i, _| if i < n { outputs[i] } else { 0.0 });
        let solved = system.lu().solve(&right).unwrap();
        (solved.rows(0, n).into_owned(), solved[n])
    }

    /// Fit and leave-one-out error of every kernel against systems solved one by one, each record
    /// left out and fitted again.
    #[test]
    fn the_shortcut_is_what_leaving_out_gives() {
        let (p, n) = (3, 14);
        let inputs = records(p, n, 1);
        let outputs = DMatrix::from_fn(2, n, |i, j| (3.0 * inputs[(i, j)]).sin() + inputs[(2, j)]);
        let mean = DVector::from_fn(p, |i, _| inputs.row(i).mean());
        let scale = DVector::from_fn(p, |i, _| inputs.row(i).variance().sqrt().recip());
        let known = standard(&inputs, &mean, &scale);
        let plain = KernelRidge { mean, scale, known, fits: Vec::new(), left_out: Vec::new() };
        for kernel in Kernel::ALL {
            let values = plain.kernel(kernel, &plain.known);
            let centred = |i: usize, j: usize| {
                values[(i, j)] - values.row(i).mean() - values.row(j).mean() + values.mean()
            };
            let typical = (0..n).map(|i| centred(i, i)).sum::<f64>() / n as f64;
            let found = plain.with(kernel, &outputs).unwrap();
            for (row, found) in outputs.row_iter().zip(found) {
                let (weights, constant, error) = found.unwrap();
                let row = row.transpose();
                let naively = |penalty: f64| {
                    let error = (0..n).map(|out| {
                        let others: Vec<usize> = (0..n).filter(|i| *i != out).collect();
                        let (w, c) = naive(
                            &values.select_rows(&others).select_columns(&others),
                            &row.select_rows(&others),
                            penalty,
                        );
                        let there = c + others
                            .iter()
                            .zip(w.iter())
                            .map(|(i, w)| w * values[(*i, out)])
                            .sum::<f64>();
                        (row[out] - there).powi(2)
                    });
                    error.sum::<f64>() / n as f64
                };
                let best = penalties()
                    .map(|share| share * typical)
                    .min_by(|a, b| naively(*a).total_cmp(&naively(*b)))
                    .unwrap();
                assert!(
                    (naively(best) / error - 1.0).abs() < 1e-5,
                    "{kernel:?}: {} {error}",
                    naively(best)
                );
                let (w, c) = naive(&values, &row, best);
                assert!((&w - &weights).amax() < 1e-5 * w.amax().max(1.0), "{kernel:?}");
                assert!((c - constant).abs() < 1e-5, "{kernel:?}: {c} {constant}");
            }
        }
    }

    /// A relation of products alone, or of a smooth function alone, is found, and the error of new
    /// records is about that of the records left out.
    #[test]
    fn each_kernel_is_chosen_where_it_fits() {
        let (inputs, new) = (records(3, 150, 2), records(3, 2000, 3));
        let truth = |z: &DMatrix<f64>| {
            DMatrix::from_fn(3, z.ncols(), |i, j| match i {
                0 => 0.3 * z[(0, j)] - 0.2 * z[(1, j)] + 0.5,
                1 => (z[(0, j)] - 0.5) * (z[(2, j)] - 0.5),
                _ => (6.0 * z[(1, j)]).sin(),
            })
        };
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let outputs = truth(&inputs).map(|v| v + 0.02 * (rng.random::<f64>() - 0.5));
        let fitted = KernelRidge::fit(&inputs, &outputs).unwrap();
        let errors = fitted.predict(&new) - truth(&new);
        for (i, limit) in [3e-6, 6e-6, 3e-4].into_iter().enumerate() {
            let mse = errors.row(i).norm_squared() / 2000.0;
            assert!(mse < limit, "output {i}: {mse}");
            // Those left out have noise of variance 0.02² / 12 = 3.3e-5 as well.
            assert!(
                (0.5..2.0).contains(&(fitted.left_out()[i] / (mse + 0.02f64.powi(2) / 12.0))),
                "output {i}"
            );
        }
        assert_eq!(fitted.fits[1].kernel, Some(Kernel::Products));
        assert!(matches!(fitted.fits[2].kernel, Some(Kernel::Gaussian(_))));
    }

    #[test]
    fn where_nothing_helps_the_mean_is_the_answer() {
        let outputs = records(1, 40, 5);
        let constant = KernelRidge::fit(&DMatrix::from_element(2, 40, 0.3), &outputs).unwrap();
        let there = constant.predict(&DMatrix::from_element(2, 3, 0.9));
        assert!(there.iter().all(|v| (v - outputs.mean()).abs() < 1e-12));
        let about = outputs.map(|o| (o - outputs.mean()).powi(2)).mean();
        assert!((constant.left_out()[0] / (about * (40.0f64 / 39.0).powi(2)) - 1.0).abs() < 1e-12);
        // Inputs that have nothing to do with it gain little over the mean of new records.
        let noise = KernelRidge::fit(&records(5, 40, 6), &outputs).unwrap();
        let (new, truth) = (records(5, 3000, 7), records(1, 3000, 8));
        let mse = (noise.predict(&new) - &truth).norm_squared() / 3000.0;
        assert!(mse < 1.15 / 12.0, "{mse}");
        for few in [0, 1, 2] {
            let fitted = KernelRidge::fit(&records(2, few, 9), &records(1, few, 10)).unwrap();
            assert!(fitted.predict(&records(2, 4, 11)).iter().all(|v| v.is_finite()), "{few}");
        }
        let nan = KernelRidge::fit(&DMatrix::from_element(1, 4, f64::NAN), &DMatrix::zeros(1, 4));
        assert_eq!(nan, Err(DecompositionError::NotFinite));
    }
}
