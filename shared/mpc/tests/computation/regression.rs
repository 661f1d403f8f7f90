//! Training on shares against the same steps in the clear, and these against the optimum.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::SeedableRng;
use rand::prelude::*;
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{FixedPoint, LARGEST_FEATURE, PartyIndex, Regression, RegressionData, SharedMatrix};

use super::compute;

const CLASSES: usize = 4;

/// Two parties' features, correlated within and between them, and labels drawn from a softmax of
/// them.
fn data(records: usize, seed: u64) -> ([DMatrix<f64>; 2], DMatrix<f64>) {
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

/// Centres and whitens a party's features: XᵀX = n I.
fn whiten(block: &DMatrix<f64>) -> DMatrix<f64> {
    let n = block.nrows() as f64;
    let means = block.row_mean();
    let centred = DMatrix::from_fn(block.nrows(), block.ncols(), |i, j| block[(i, j)] - means[j]);
    let SymmetricEigen { eigenvectors, eigenvalues } =
        SymmetricEigen::new(centred.tr_mul(&centred) / n);
    let scales = DMatrix::from_diagonal(&eigenvalues.map(|v| v.sqrt().recip()));
    centred * &eigenvectors * scales
}

/// Returns whitened features of both parties and the constant 1, side by side.
fn prepared(blocks: &[DMatrix<f64>; 2]) -> DMatrix<f64> {
    let blocks = blocks.each_ref().map(whiten);
    let n = blocks[0].nrows();
    let columns = blocks.iter().flat_map(|block| block.column_iter().map(|c| c.into_owned()));
    let columns: Vec<_> = columns.chain([DVector::repeat(n, 1.0)]).collect();
    DMatrix::from_columns(&columns)
}

fn settings(epochs: usize) -> Regression {
    let fixed = FixedPoint::new(20).unwrap();
    Regression { epochs, penalty: 1e-3, free: 1, blocks: 2, fixed }
}

fn scores(features: &DMatrix<f64>, weights: &DMatrix<f64>) -> DMatrix<f64> {
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

#[test]
fn steps_in_the_clear_reach_the_optimum() {
    for seed in 1..4 {
        let (blocks, labels) = data(600, seed);
        let features = prepared(&blocks);
        let of = settings(200);
        let scale = of.feature_scale(600);
        let scaled = &features * scale;
        let weights = of.train_in_the_clear(scaled.as_slice(), labels.as_slice(), 600);
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
    let features = prepared(&blocks) * of.feature_scale(records);
    let (d, fixed) = (features.ncols(), of.fixed);
    let outcomes = compute(|session| {
        // Party 0 holds the labels, the constant and three features, party 2 the others.
        let columns = |from: usize, count: usize| {
            fixed.encode(features.columns(from, count).clone_owned().as_slice()).unwrap()
        };
        let (first, third) = (PartyIndex::FIRST, PartyIndex::THIRD);
        let mut share = |owner, words: Vec<u64>| {
            let mine = (session.party() == owner).then_some(&words[..]);
            session.share(owner, mine, words.len()).unwrap()
        };
        let x = share(first, columns(0, 3));
        let x = x.concat(&share(third, columns(3, 5)));
        let x = x.concat(&share(first, columns(8, 1)));
        let y = share(first, fixed.encode(labels.as_slice()).unwrap());
        let data = RegressionData {
            features: SharedMatrix::new(records, d, x).unwrap(),
            labels: SharedMatrix::new(records, CLASSES, y).unwrap(),
        };
        let weights = session.regress(of, &data).unwrap().into_shares();
        fixed.decode(&session.open(&weights).unwrap())
    });
    let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), records);
    let weights = &outcomes[0].result;
    let away = weights.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(away < 200.0 * fixed.unit(), "{}", away / fixed.unit());
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
        assert!(session.regress(fine, &long).is_ok());
        for (of, data) in [
            (fine, &data),
            (fine, &empty),
            (Regression { fixed, ..fine }, &long),
            (Regression { penalty: f64::NAN, ..fine }, &long),
            (Regression { penalty: -1.0, ..fine }, &long),
            (Regression { blocks: 0, ..fine }, &long),
        ] {
            assert!(session.regress(of, data).is_err(), "{of:?}");
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
        let whitened = whiten(&block);
        let logits = &whitened * direction;
        let labels =
            DMatrix::from_fn(records, 2, |at, class| f64::from((logits[at] > 0.0) == (class == 1)));
        let of = Regression { blocks: 1, ..settings(100) };
        let cut = whitened.map(|x| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE));
        let features = cut.clone().insert_column(6, 1.0);
        let prepared = of.prepare(whitened.clone().insert_column(6, 1.0).as_slice(), records);
        let weights = of.train_in_the_clear(&prepared, labels.as_slice(), records);
        let weights = DMatrix::from_vec(7, 2, weights) * of.feature_scale(records);
        let mut best = DMatrix::zeros(7, 2);
        for _ in 0..3000 {
            best -= loss(&features, &labels, &best, of.penalty).1;
        }
        let reached = loss(&features, &labels, &weights, of.penalty).0;
        let lowest = loss(&features, &labels, &best, of.penalty).0;
        assert!(reached - lowest < 0.02, "{seed}: {reached} {lowest}");
    }
}
