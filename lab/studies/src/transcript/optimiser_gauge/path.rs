//! The weights that Adam gives one feature, from the gradients that every party received.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::Adam;

/// The gradients of a training in the coordinates of candidate features.
///
/// A candidate a (r numbers) is the feature x = Cᵀ a. Its weights start at 0, and the gradient of
/// step t is G_t a + 2 l2 w_t with G_t = R_t Cᵀ, where R_t (k × B) is the gradient of the mean loss
/// with respect to the logits and C is taken at the records of the batch.
pub(super) struct Paths {
    /// The transposes of G_t (r × k) of every step but the last, whose update no message shows.
    pub(super) gradients: Vec<DMatrix<f64>>,
    /// The steps from one row of weights to the next: weights are compared after every
    /// `stride`-th step.
    pub(super) stride: usize,
    /// The step size of Adam.
    pub(super) rate: f64,
    /// The weight of the squared norm of all weights.
    pub(super) l2: f64,
}

/// The weights of a candidate after every `stride`-th step, and their slopes.
pub(super) struct Path {
    /// Less their mean over the classes: entry k t + c is of the t-th of these steps and class c.
    pub(super) weights: DVector<f64>,
    /// The slopes of `weights` with respect to the candidate: r × their number.
    pub(super) slopes: DMatrix<f64>,
}

impl Paths {
    /// Returns the number of classes.
    fn classes(&self) -> usize {
        self.gradients.first().map_or(0, DMatrix::ncols)
    }

    /// Returns the signs of the candidate's gradient in the first step, one per class.
    pub(super) fn signs(&self, a: &DVector<f64>) -> DVector<f64> {
        let first = self.gradients.first().map(|g| g.tr_mul(a));
        first.unwrap_or_else(|| DVector::zeros(0)).map(f64::signum)
    }

    /// Runs Adam on the candidate's weights, with exact slopes.
    ///
    /// Adam's first step is −rate g / (|g| + ε), almost the sign of the gradient, and jumps where g
    /// changes its sign. With `signs` the first step is −rate times these instead, so that the path
    /// is continuous in the candidate.
    pub(super) fn path(&self, a: &DVector<f64>, signs: Option<&DVector<f64>>) -> Path {
        let (k, r) = (self.classes(), a.len());
        let steps = self.gradients.len() / self.stride;
        let mut weights = DVector::zeros(k * steps);
        let mut slopes = DMatrix::zeros(r, k * steps);
        let gradients: Vec<DVector<f64>> = self.gradients.iter().map(|g| g.tr_mul(a)).collect();
        let mut slope = DVector::zeros(r);
        for class in 0..k {
            let (mut w, mut m, mut v) = (0.0, 0.0, 0.0);
            let mut dw = DVector::zeros(r);
            let (mut dm, mut dv) = (DVector::zeros(r), DVector::zeros(r));
            let (mut power1, mut power2) = (1.0, 1.0);
            for (t, (map, value)) in self.gradients.iter().zip(&gradients).enumerate() {
                let g = value[class] + 2.0 * self.l2 * w;
                slope.copy_from(&map.column(class));
                slope.axpy(2.0 * self.l2, &dw, 1.0);
                m = Adam::BETA1 * m + (1.0 - Adam::BETA1) * g;
                v = Adam::BETA2 * v + (1.0 - Adam::BETA2) * g * g;
                dm.axpy(1.0 - Adam::BETA1, &slope, Adam::BETA1);
                dv.axpy(2.0 * (1.0 - Adam::BETA2) * g, &slope, Adam::BETA2);
                power1 *= Adam::BETA1;
                power2 *= Adam::BETA2;
                let (c1, c2) = (1.0 - power1, 1.0 - power2);
                match signs {
                    Some(signs) if t == 0 => w = -self.rate * signs[class],
                    _ => {
                        let root = (v / c2).sqrt();
                        let divisor = root + Adam::EPSILON;
                        w -= self.rate * (m / c1) / divisor;
                        dw.axpy(-self.rate / (c1 * divisor), &dm, 1.0);
                        if root > 0.0 {
                            let of_root = 0.5 / (root * c2);
                            let by = self.rate * (m / c1) / (divisor * divisor);
                            dw.axpy(by * of_root, &dv, 1.0);
                        }
                    }
                }
                if (t + 1) % self.stride == 0 {
                    let row = (t + 1) / self.stride - 1;
                    weights[k * row + class] = w;
                    slopes.set_column(k * row + class, &dw);
                }
            }
        }
        for t in 0..steps {
            let mean = weights.rows(k * t, k).mean();
            weights.rows_mut(k * t, k).add_scalar_mut(-mean);
            let mean = slopes.columns(k * t, k).column_mean();
            slopes.columns_mut(k * t, k).column_iter_mut().for_each(|mut c| c -= &mean);
        }
        Path { weights, slopes }
    }
}
