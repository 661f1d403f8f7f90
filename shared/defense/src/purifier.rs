//! The purifier of score vectors: an autoencoder whose narrow hidden layer passes on what score
//! vectors have in common (J 6.1.3.3 and (26); Yang, Shao, Xin, Wang, Chang: "Defending model
//! inversion and membership inference attacks via prediction purification").
//!
//! The coordinator trains one and applies it. An adversary that knows the defense trains one of its
//! own.
//!
//! G(c) = softmax(D tanh(E c + e) + d) for k scores c, with k/2 hidden units. J specifies one
//! hidden layer of half the input size and nothing else: tanh, the softmax at the end and the
//! optimiser are ours. With a linear end the class of 15 % of satellite's records changes.

use std::borrow::Cow;
use std::fmt;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use vfl_core::model::Adam;
use vfl_core::model::contract::{ParameterRole, Tensor};
use vfl_core::types::ShapeError;
use vfl_numerics::{arg_max, softmax_columns};

/// The largest number of classes, for which the training takes half a minute.
pub const MAX_CLASSES: usize = 256;

/// The number of vectors of a random training set.
const RANDOM_VECTORS: usize = 10_000;

/// The number of vectors of a step.
const BATCH: usize = 128;

/// The number of steps. The last third have a tenth of the learning rate.
const STEPS: u32 = 3000;

/// The first learning rate of Adam.
const LEARNING_RATE: f64 = 0.01;

/// An autoencoder of vectors with k entries. `Debug` shows its size, since parameters may reveal
/// the scores it was trained on.
#[derive(Clone, PartialEq)]
pub struct Purifier {
    /// E, h × k.
    encoder: DMatrix<f64>,
    /// e, of h entries.
    encoder_bias: DVector<f64>,
    /// D, k × h.
    decoder: DMatrix<f64>,
    /// d, of k entries.
    decoder_bias: DVector<f64>,
}

impl fmt::Debug for Purifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, h) = self.decoder.shape();
        write!(f, "Purifier({k} classes, {h} hidden units, parameters withheld)")
    }
}

/// The slopes of the loss in the parameters, in the order of [`Purifier::tensors_mut`].
type Gradients = Vec<Vec<f64>>;

impl Purifier {
    /// Creates an untrained purifier of `classes` scores: parameters uniform within 1/√inputs, as
    /// PyTorch's `Linear` draws them.
    pub fn untrained(classes: usize, rng: &mut dyn Rng) -> Self {
        let hidden = (classes / 2).max(1);
        let mut layer = |rows: usize, columns: usize| {
            let reach = 1.0 / (columns.max(1) as f64).sqrt();
            let mut uniform = || reach * (2.0 * rng.random::<f64>() - 1.0);
            (
                DMatrix::from_fn(rows, columns, |_, _| uniform()),
                DVector::from_fn(rows, |_, _| uniform()),
            )
        };
        let (encoder, encoder_bias) = layer(hidden, classes);
        let (decoder, decoder_bias) = layer(classes, hidden);
        Self { encoder, encoder_bias, decoder, decoder_bias }
    }

    /// Trains a purifier to reproduce the vectors of a set (k × n). The loss is the mean of ‖c −
    /// G(c)‖² plus `label_weight` (λ of (26), at least 0) times the cross-entropy between the class
    /// of c and G(c).
    ///
    /// Deviation: J names the distance, not its square.
    ///
    /// # Errors
    /// [`ShapeError`] for a set without vectors or with values that are not finite.
    pub fn train(
        set: &DMatrix<f64>,
        label_weight: f64,
        rng: &mut dyn Rng,
    ) -> Result<Self, ShapeError> {
        let mut purifier = Self::untrained(set.nrows(), rng);
        purifier.learn(set, set, label_weight, rng)?;
        Ok(purifier)
    }

    /// Continues the training, towards `targets` (k × n) at `inputs` (k × n).
    ///
    /// # Errors
    /// As [`Purifier::train`], and for targets of another shape.
    pub fn learn(
        &mut self,
        inputs: &DMatrix<f64>,
        targets: &DMatrix<f64>,
        label_weight: f64,
        rng: &mut dyn Rng,
    ) -> Result<(), ShapeError> {
        let what = "training vectors of a purifier";
        for (unit, expected, got) in [
            ("classes", self.classes(), inputs.nrows()),
            ("classes", self.classes(), targets.nrows()),
            ("records", inputs.ncols().max(1), inputs.ncols()),
            ("records", inputs.ncols(), targets.ncols()),
        ] {
            if expected != got {
                return Err(ShapeError::Size { what, unit, expected, got });
            }
        }
        if let Some(at) = inputs.iter().chain(targets.iter()).position(|v| !v.is_finite()) {
            return Err(ShapeError::NotFinite {
                what,
                record: at / self.classes() % inputs.ncols(),
            });
        }
        for (steps, rate) in [(STEPS - STEPS / 3, LEARNING_RATE), (STEPS / 3, 0.1 * LEARNING_RATE)]
        {
            let mut adam = Adam::at(rate);
            for _ in 0..steps {
                let batch: Vec<usize> =
                    (0..BATCH).map(|_| rng.random_range(0..inputs.ncols())).collect();
                let (c, t) = (inputs.select_columns(&batch), targets.select_columns(&batch));
                let (_, gradients) = self.loss(&c, &t, label_weight);
                adam.step(self.tensors_mut(), gradients)?;
            }
        }
        Ok(())
    }

    /// Computes the loss of a batch and its slopes.
    fn loss(&self, c: &DMatrix<f64>, t: &DMatrix<f64>, label_weight: f64) -> (f64, Gradients) {
        let n = c.ncols() as f64;
        let hidden = self.hidden(c);
        let mut p = self.decode(&hidden);
        softmax_columns(&mut p);
        let (mut loss, mut slopes) = (0.0, p.clone());
        for (((mut slope, p), c), t) in
            slopes.column_iter_mut().zip(p.column_iter()).zip(c.column_iter()).zip(t.column_iter())
        {
            let away = p - t;
            loss += away.norm_squared();
            let along = p.dot(&away);
            slope
                .iter_mut()
                .zip(&away)
                .zip(&p)
                .for_each(|((s, e), p)| *s = 2.0 * p * (e - along) / n);
            if label_weight > 0.0 {
                let class = arg_max(c.as_slice());
                loss -= label_weight * p[class].max(f64::MIN_POSITIVE).ln();
                slope.iter_mut().zip(&p).for_each(|(s, p)| *s += label_weight * p / n);
                slope[class] -= label_weight / n;
            }
        }
        let mut of_hidden = self.decoder.tr_mul(&slopes);
        of_hidden.zip_apply(&hidden, |slope, a| *slope *= 1.0 - a * a);
        let gradients = vec![
            (&of_hidden * c.transpose()).as_slice().to_vec(),
            of_hidden.column_sum().as_slice().to_vec(),
            (&slopes * hidden.transpose()).as_slice().to_vec(),
            slopes.column_sum().as_slice().to_vec(),
        ];
        (loss / n, gradients)
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let tensor = |name, shape, values| Tensor {
            name: Cow::Borrowed(name),
            shape,
            used: ParameterRole::Free,
            values,
        };
        let (k, h) = self.decoder.shape();
        vec![
            tensor("encoder", vec![k, h], self.encoder.as_mut_slice()),
            tensor("encoder_bias", vec![h], self.encoder_bias.as_mut_slice()),
            tensor("decoder", vec![h, k], self.decoder.as_mut_slice()),
            tensor("decoder_bias", vec![k], self.decoder_bias.as_mut_slice()),
        ]
    }

    /// Returns the number of classes, k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.decoder.nrows()
    }

    /// Returns the number of hidden units, h.
    #[must_use]
    pub fn hidden_units(&self) -> usize {
        self.decoder.ncols()
    }

    /// Computes tanh(E c + e), h × n.
    fn hidden(&self, c: &DMatrix<f64>) -> DMatrix<f64> {
        let mut a = DMatrix::from_fn(self.hidden_units(), c.ncols(), |i, _| self.encoder_bias[i]);
        a.gemm(1.0, &self.encoder, c, 1.0);
        a.apply(|a| *a = a.tanh());
        a
    }

    /// Computes D a + d, k × n.
    fn decode(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        let mut z = DMatrix::from_fn(self.classes(), hidden.ncols(), |i, _| self.decoder_bias[i]);
        z.gemm(1.0, &self.decoder, hidden, 1.0);
        z
    }

    /// Computes G(c) of each column, k × n.
    ///
    /// # Panics
    /// If `c` has another number of classes.
    #[must_use]
    pub fn apply(&self, c: &DMatrix<f64>) -> DMatrix<f64> {
        let mut p = self.decode(&self.hidden(c));
        softmax_columns(&mut p);
        p
    }

    /// Computes D a + d, the values before the softmax at the end, of one vector `c` (k) into `z`
    /// (k). `hidden` (h) takes a.
    pub fn logits_of(&self, c: &[f64], hidden: &mut [f64], z: &mut [f64]) {
        hidden.copy_from_slice(self.encoder_bias.as_slice());
        for (column, c) in self.encoder.as_slice().chunks_exact(hidden.len()).zip(c) {
            hidden.iter_mut().zip(column).for_each(|(a, w)| *a += w * c);
        }
        hidden.iter_mut().for_each(|a| *a = a.tanh());
        z.copy_from_slice(self.decoder_bias.as_slice());
        for (column, a) in self.decoder.as_slice().chunks_exact(z.len()).zip(hidden.iter()) {
            z.iter_mut().zip(column).for_each(|(z, w)| *z += w * a);
        }
    }

    /// Computes the slopes in c into `slopes_c` (k), from those in the logits of
    /// [`Purifier::logits_of`] (k) and the `hidden` (h) that it left. `hidden` is overwritten.
    pub fn pull_back(&self, slopes_z: &[f64], hidden: &mut [f64], slopes_c: &mut [f64]) {
        for (column, a) in
            self.decoder.as_slice().chunks_exact(slopes_z.len()).zip(hidden.iter_mut())
        {
            let slope: f64 = column.iter().zip(slopes_z).map(|(w, s)| w * s).sum();
            *a = slope * (1.0 - *a * *a);
        }
        for (column, to) in self.encoder.as_slice().chunks_exact(hidden.len()).zip(slopes_c) {
            *to = column.iter().zip(hidden.iter()).map(|(w, s)| w * s).sum();
        }
    }
}

/// The result of [`Purifier::apply`] for one vector, with its slopes.
#[derive(Clone)]
pub struct PurifierOutput {
    /// G(c), of k entries.
    pub scores: DVector<f64>,
    /// ∂G/∂c, k × k: a row for each entry of G(c).
    pub slopes: DMatrix<f64>,
}

impl Purifier {
    /// Computes G(c) and its slopes in c (k).
    #[must_use]
    pub fn with_slopes(&self, c: &[f64]) -> PurifierOutput {
        let k = self.classes();
        let (mut hidden, mut z) = (vec![0.0; self.hidden_units()], DMatrix::zeros(k, 1));
        self.logits_of(c, &mut hidden, z.as_mut_slice());
        softmax_columns(&mut z);
        let p = z.column(0).into_owned();
        let mut slopes = DMatrix::zeros(k, k);
        let (mut row, mut work) = (vec![0.0; k], hidden.clone());
        for j in 0..k {
            let of_logits: Vec<f64> = (0..k).map(|i| p[j] * (f64::from(i == j) - p[i])).collect();
            work.copy_from_slice(&hidden);
            self.pull_back(&of_logits, &mut work, &mut row);
            slopes.row_mut(j).copy_from_slice(&row);
        }
        PurifierOutput { scores: p, slopes }
    }
}

/// Draws a random training set of score vectors, k × 10 000: softmax of independent N(0, 1) logits.
pub fn random_scores(classes: usize, rng: &mut dyn Rng) -> DMatrix<f64> {
    let mut set = random_vectors(classes, rng);
    softmax_columns(&mut set);
    set
}

/// Draws a random training set of vectors of independent N(0, 1) numbers, k × 10 000, as J's text
/// says.
pub fn random_vectors(classes: usize, rng: &mut dyn Rng) -> DMatrix<f64> {
    DMatrix::from_fn(classes, RANDOM_VECTORS, |_, _| StandardNormal.sample(rng))
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;

    use super::*;

    fn generator(seed: u64) -> ChaCha12Rng {
        ChaCha12Rng::seed_from_u64(seed)
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        let mut rng = generator(1);
        let purifier = Purifier::untrained(5, &mut rng);
        let (c, t) =
            (random_scores(5, &mut rng).columns(0, 7).into_owned(), random_scores(5, &mut rng));
        let t = t.columns(7, 7).into_owned();
        for label_weight in [0.0, 0.3] {
            let (_, gradients) = purifier.loss(&c, &t, label_weight);
            for (tensor, slopes) in gradients.iter().enumerate() {
                for (place, slope) in slopes.iter().enumerate() {
                    let at = |by: f64| {
                        let mut moved = purifier.clone();
                        moved.tensors_mut()[tensor].values[place] += by;
                        moved.loss(&c, &t, label_weight).0
                    };
                    let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                    assert!(
                        (difference - slope).abs() < 1e-8,
                        "tensor {tensor}, {place}: {difference} {slope}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_vector_goes_through_as_in_a_batch_and_its_slopes_are_differences() {
        let mut rng = generator(2);
        let purifier = Purifier::untrained(6, &mut rng);
        let c = random_scores(6, &mut rng).columns(0, 3).into_owned();
        let whole = purifier.apply(&c);
        let (mut hidden, mut z) = (vec![0.0; purifier.hidden_units()], vec![0.0; 6]);
        for (c, want) in c.column_iter().zip(whole.column_iter()) {
            purifier.logits_of(c.as_slice(), &mut hidden, &mut z);
            let mut p = DMatrix::from_column_slice(6, 1, &z);
            softmax_columns(&mut p);
            assert!((p.column(0) - want).amax() < 1e-14);
            let PurifierOutput { scores, slopes } = purifier.with_slopes(c.as_slice());
            assert!((scores - want).amax() < 1e-14);
            for i in 0..6 {
                let at = |by: f64| {
                    let mut c = c.into_owned();
                    c[i] += by;
                    purifier
                        .apply(&DMatrix::from_column_slice(6, 1, c.as_slice()))
                        .column(0)
                        .into_owned()
                };
                assert!(((at(1e-6) - at(-1e-6)) / 2e-6 - slopes.column(i)).amax() < 1e-8);
            }
            let weights = [0.3, -1.0, 0.2, 0.0, 2.0, -0.4];
            let mut slopes = [0.0; 6];
            purifier.pull_back(&weights, &mut hidden, &mut slopes);
            for i in 0..6 {
                let at = |by: f64| {
                    let (mut c, mut z, mut hidden) = (c.into_owned(), [0.0; 6], [0.0; 3]);
                    c[i] += by;
                    purifier.logits_of(c.as_slice(), &mut hidden, &mut z);
                    z.iter().zip(&weights).map(|(z, w)| z * w).sum::<f64>()
                };
                assert!(((at(1e-6) - at(-1e-6)) / 2e-6 - slopes[i]).abs() < 1e-8);
            }
        }
    }

    /// Its outputs lie near a surface of h dimensions, and near its inputs.
    #[test]
    fn a_trained_purifier_gives_back_its_set_from_half_the_numbers() {
        let mut rng = generator(3);
        let set = random_scores(6, &mut rng);
        let before = Purifier::untrained(6, &mut rng);
        let purifier = Purifier::train(&set, 0.0, &mut rng).unwrap();
        let misfit = |p: &Purifier| (p.apply(&set) - &set).norm_squared() / set.ncols() as f64;
        let spread =
            (&set - set.column_mean() * DMatrix::from_element(1, set.ncols(), 1.0)).norm_squared();
        assert!(
            misfit(&purifier) < 0.5 * misfit(&before),
            "{} {}",
            misfit(&purifier),
            misfit(&before)
        );
        // The five directions have equal spread: the best linear map through three of them loses
        // two fifths. A bent surface of three dimensions does better, and still loses a tenth.
        let lost = misfit(&purifier) / (spread / set.ncols() as f64);
        assert!((0.1..0.4).contains(&lost), "{lost}");
        assert_eq!(purifier.hidden_units(), 3);
        let sums = purifier.apply(&set).row_sum();
        assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-12));
    }

    #[test]
    fn the_label_weight_keeps_more_classes() {
        let mut rng = generator(4);
        let set = random_scores(6, &mut rng);
        let kept = |weight: f64| {
            let purifier = Purifier::train(&set, weight, &mut generator(5)).unwrap();
            let out = purifier.apply(&set);
            let same = set.column_iter().zip(out.column_iter());
            same.filter(|(c, p)| arg_max(c.as_slice()) == arg_max(p.as_slice())).count()
        };
        let [most, least] = [1.0, 0.0].map(kept);
        assert!(most > least + set.ncols() / 200, "{most} {least}");
    }

    #[test]
    fn sets_that_do_not_fit_are_refused() {
        let mut rng = generator(6);
        let mut purifier = Purifier::untrained(3, &mut rng);
        let set = DMatrix::from_element(3, 4, 0.3);
        assert!(Purifier::train(&DMatrix::zeros(3, 0), 0.0, &mut rng).is_err());
        assert!(purifier.learn(&set, &DMatrix::zeros(3, 5), 0.0, &mut rng).is_err());
        assert!(
            purifier.learn(&DMatrix::zeros(2, 4), &DMatrix::zeros(2, 4), 0.0, &mut rng).is_err()
        );
        let bad = DMatrix::from_element(3, 4, f64::NAN);
        assert!(matches!(
            purifier.learn(&bad, &set, 0.0, &mut rng),
            Err(ShapeError::NotFinite { record: 0, .. })
        ));
    }
}
