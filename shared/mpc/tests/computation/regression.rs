//! Training on shares against the same steps in the clear, and these against the optimum.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::SeedableRng;
use rand::prelude::*;
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    Family, FixedPoint, LARGEST_FEATURE, MpcError, PartyIndex, Regression, RegressionData, Session,
    SharedMatrix, TrainingResult,
};

use super::compute;

pub(crate) const CLASSES: usize = 4;

/// Two parties' features, correlated within and between them, and labels drawn from a softmax of
/// them.
pub(crate) fn data(records: usize, seed: u64) -> ([DMatrix<f64>; 2], DMatrix<f64>) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let common = DMatrix::from_fn(records, 2, |_, _| normal());
    let blocks = [3, 5].map(|columns| {
        let own = DMatrix::from_fn(records, columns, |_, _| normal());
        let mix = DMatrix::from_fn(2, columns, |_, _| normal());
        let turn = DMatrix::from_fn(columns, columns, |_, _| normal());
        &common * mix + own * turn
    });
    let logits = blocks.iter().fold(DMatrix::zeros(records, CLASSES), |sum, block| {
        sum + block * DMatrix::from_fn(block.ncols(), CLASSES, |_, _| 0.2 * normal())
    });
    let mut labels = DMatrix::zeros(records, CLASSES);
    for (record, row) in logits.row_iter().enumerate() {
        let total: f64 = row.iter().map(|z| z.exp()).sum();
        let mut left = rng.random::<f64>() * total;
        let class = row.iter().position(|z| {
            left -= z.exp();
            left <= 0.0
        });
        labels[(record, class.unwrap_or(CLASSES - 1))] = 1.0;
    }
    (blocks, labels)
}

/// Centres and whitens a party's features, by the first n records: XᵀX = n I over these.
pub(crate) fn whiten(block: &DMatrix<f64>, n: usize) -> DMatrix<f64> {
    let means = block.rows(0, n).row_mean();
    let centred = DMatrix::from_fn(block.nrows(), block.ncols(), |i, j| block[(i, j)] - means[j]);
    let of_first = centred.rows(0, n);
    let SymmetricEigen { eigenvectors, eigenvalues } =
        SymmetricEigen::new(of_first.tr_mul(&of_first) / n as f64);
    let scales = DMatrix::from_diagonal(&eigenvalues.map(|v| v.sqrt().recip()));
    centred * &eigenvectors * scales
}

/// Returns features of both parties, whitened by the first n records, and the constant 1, side by
/// side.
pub(crate) fn prepared(blocks: &[DMatrix<f64>; 2], n: usize) -> DMatrix<f64> {
    let records = blocks[0].nrows();
    let blocks = blocks.each_ref().map(|block| whiten(block, n));
    let columns = blocks.iter().flat_map(|block| block.column_iter().map(|c| c.into_owned()));
    let columns: Vec<_> = columns.chain([DVector::repeat(records, 1.0)]).collect();
    DMatrix::from_columns(&columns)
}

pub(crate) fn settings(epochs: usize) -> Regression {
    let fixed = FixedPoint::new(20).unwrap();
    let (validation, patience) = (0, 0);
    Regression {
        family: Family::Multinomial,
        epochs,
        penalty: 1e-3,
        free: 1,
        blocks: 2,
        validation,
        patience,
        fixed,
    }
}

pub(crate) fn scores(features: &DMatrix<f64>, weights: &DMatrix<f64>) -> DMatrix<f64> {
    let mut scores = (features * weights).map(f64::exp);
    for mut row in scores.row_iter_mut() {
        let sum = row.sum();
        row /= sum;
    }
    scores
}

/// The mean loss with its penalty, and the norm of its gradient, of weights in the coordinates of
/// the whitened features.
fn loss(
    features: &DMatrix<f64>,
    labels: &DMatrix<f64>,
    weights: &DMatrix<f64>,
    penalty: f64,
) -> (f64, DMatrix<f64>) {
    let n = features.nrows() as f64;
    let scores = scores(features, weights);
    let entropy = -labels.component_mul(&scores.map(f64::ln)).sum() / n;
    // The last feature is the constant, which bears no penalty.
    let mut penalised = weights.clone();
    penalised.row_mut(weights.nrows() - 1).fill(0.0);
    let gradient = features.tr_mul(&(scores - labels)) / n + &penalised * (2.0 * penalty);
    (entropy + penalty * penalised.norm_squared(), gradient)
}

/// Shares features and labels, and trains. Party 0 holds the labels, the constant and three
/// features, party 2 the others.
pub(crate) fn train(
    session: &mut Session,
    of: Regression,
    features: &DMatrix<f64>,
    labels: &DMatrix<f64>,
    on_epoch: &mut dyn FnMut(usize) -> bool,
) -> Result<TrainingResult, MpcError> {
    let (n, d) = features.shape();
    let columns = |from: usize, count: usize| {
        of.fixed.encode(features.columns(from, count).clone_owned().as_slice()).unwrap()
    };
    let (first, third) = (PartyIndex::FIRST, PartyIndex::THIRD);
    let mut share = |owner, words: Vec<u64>| {
        let mine = (session.party() == owner).then_some(&words[..]);
        session.share(owner, mine, words.len())
    };
    let x = share(first, columns(0, 3))?;
    let x = x.concat(&share(third, columns(3, d - 4))?);
    let x = x.concat(&share(first, columns(d - 1, 1))?);
    let y = share(first, of.fixed.encode(labels.as_slice()).unwrap())?;
    let data = RegressionData {
        features: SharedMatrix::new(n, d, x).unwrap(),
        labels: SharedMatrix::new(n, labels.ncols(), y).unwrap(),
    };
    session.regress(of, &data, on_epoch)
}

/// Opens the weights of a result. One round.
pub(crate) fn opened(
    session: &mut Session,
    of: Regression,
    result: TrainingResult,
) -> TrainingResult<Vec<f64>> {
    let TrainingResult { weights, epochs, best_epoch } = result;
    let weights = of.fixed.decode(&session.open(&weights.into_shares()).unwrap());
    TrainingResult { weights, epochs, best_epoch }
}

/// The largest distance of two numbers.
pub(crate) fn distance(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn steps_in_the_clear_reach_the_optimum() {
    for seed in 1..4 {
        let (blocks, labels) = data(600, seed);
        let features = prepared(&blocks, 600);
        let of = settings(200);
        let scale = of.feature_scale(600);
        let scaled = &features * scale;
        let weights = of.train_in_the_clear(scaled.as_slice(), labels.as_slice(), 600).weights;
        let weights = DMatrix::from_vec(features.ncols(), CLASSES, weights) * scale;
        // A second solver: gradient descent with exact softmax, until nothing moves.
        let mut best = DMatrix::zeros(features.ncols(), CLASSES);
        for _ in 0..20_000 {
            let gradient = loss(&features, &labels, &best, of.penalty).1;
            if gradient.norm() < 1e-9 {
                break;
            }
            best -= gradient * 0.99;
        }
        let (lowest, gradient) = loss(&features, &labels, &best, of.penalty);
        assert!(gradient.norm() < 1e-9, "{}", gradient.norm());
        let reached = loss(&features, &labels, &weights, of.penalty).0;
        let away = (scores(&features, &weights) - scores(&features, &best)).amax();
        assert!(reached - lowest < 1e-4 && away < 0.02, "{seed}: {reached} {lowest} {away}");
    }
}

#[test]
fn training_on_shares_is_that_in_the_clear() {
    let records = 500;
    let (blocks, labels) = data(records, 7);
    let of = settings(60);
    let features = prepared(&blocks, records) * of.feature_scale(records);
    let outcomes = compute(|session| {
        let result = train(session, of, &features, &labels, &mut |_| true).unwrap();
        opened(session, of, result)
    });
    let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), records);
    assert_eq!((expected.epochs, expected.best_epoch), (60, 60));
    let result = &outcomes[0].result;
    assert_eq!((result.epochs, result.best_epoch), (60, 60));
    let away = distance(&result.weights, &expected.weights);
    assert!(away < 200.0 * of.fixed.unit(), "{}", away / of.fixed.unit());
    // 14 rounds an epoch, and 24 more in each of the first ten; two of inputs, one of the opening.
    assert_eq!(outcomes.iter().map(|o| o.round).max().unwrap(), 60 * 14 + 10 * 24 + 3);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_sent() {
    compute(|session| {
        let matrix = |rows, columns| {
            let zeros = session.public(&vec![0; rows * columns]);
            SharedMatrix::new(rows, columns, zeros).unwrap()
        };
        let data = RegressionData { features: matrix(4, 2), labels: matrix(3, 2) };
        let long = RegressionData { features: matrix(40, 2), labels: matrix(40, 2) };
        let empty = RegressionData { features: matrix(0, 2), labels: matrix(0, 2) };
        let fixed = FixedPoint::new(30).unwrap();
        let before = session.traffic();
        let fine = settings(0);
        let result = session.regress(fine, &long, &mut |_| false).unwrap();
        assert_eq!((result.epochs, result.best_epoch), (0, 0));
        let validated = Regression { validation: 39, patience: 1, ..fine };
        assert!(session.regress(validated, &long, &mut |_| false).is_ok());
        for (of, data) in [
            (fine, &data),
            (fine, &empty),
            (Regression { fixed, ..fine }, &long),
            (Regression { penalty: f64::NAN, ..fine }, &long),
            (Regression { penalty: -1.0, ..fine }, &long),
            (Regression { blocks: 0, ..fine }, &long),
            (Regression { validation: 40, ..validated }, &long),
            (Regression { validation: usize::MAX, ..validated }, &long),
            (Regression { patience: 0, ..validated }, &long),
        ] {
            assert!(session.regress(of, data, &mut |_| true).is_err(), "{of:?}");
        }
        assert_eq!(session.traffic(), before);
    });
}

/// A few records far out, as amounts of money have them, and labels that are almost certain.
#[test]
fn heavy_tails_do_not_throw_training_off() {
    let records = 1500;
    for seed in 1..4 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let block = DMatrix::from_fn(records, 6, |_, _| (1.5 * normal()).exp());
        let direction = DMatrix::from_fn(6, 1, |_, _| 4.0 * normal());
        let whitened = whiten(&block, records);
        let logits = &whitened * direction;
        let labels =
            DMatrix::from_fn(records, 2, |at, class| f64::from((logits[at] > 0.0) == (class == 1)));
        let of = Regression { blocks: 1, ..settings(100) };
        let cut = whitened.map(|x| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE));
        let features = cut.clone().insert_column(6, 1.0);
        let prepared = of.prepare(whitened.clone().insert_column(6, 1.0).as_slice(), records);
        let trained = of.train_in_the_clear(&prepared, labels.as_slice(), records);
        let weights = DMatrix::from_vec(7, 2, trained.weights) * of.feature_scale(records);
        let mut best = DMatrix::zeros(7, 2);
        for _ in 0..3000 {
            best -= loss(&features, &labels, &best, of.penalty).1;
        }
        let reached = loss(&features, &labels, &weights, of.penalty).0;
        let lowest = loss(&features, &labels, &best, of.penalty).0;
        assert!(reached - lowest < 0.02, "{seed}: {reached} {lowest}");
    }
}
