//! Training that stops early, is watched, and has columns of zeros.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use nalgebra::DMatrix;
use vfl_mpc::{MpcError, PartyIndex, Regression, RegressionData, Session, SharedMatrix};

use super::regression::{CLASSES, data, distance, opened, prepared, scores, settings, train};
use super::{Outcome, compute};

const TRAINED: usize = 60;
pub(crate) const VALIDATION: usize = 300;
const RECORDS: usize = TRAINED + VALIDATION;

/// Settings under which few records are soon learnt by heart, and their prepared data.
pub(crate) fn overfitted(seed: u64) -> (Regression, DMatrix<f64>, DMatrix<f64>) {
    let (blocks, labels) = data(RECORDS, seed);
    let (validation, patience) = (VALIDATION, 12);
    let of = Regression { penalty: 0.0, validation, patience, ..settings(80) };
    let features = of.prepare(prepared(&blocks, TRAINED).as_slice(), RECORDS);
    (of, DMatrix::from_vec(RECORDS, features.len() / RECORDS, features), labels)
}

/// The mean Brier score on the validation records, by exact softmax, after each of `epochs` epochs
/// of training on the other records alone; and the weights.
pub(crate) fn curve(
    of: Regression,
    epochs: usize,
    features: &DMatrix<f64>,
    labels: &DMatrix<f64>,
) -> Vec<(f64, Vec<f64>)> {
    let first = |of: &DMatrix<f64>| of.rows(0, TRAINED).into_owned();
    let last = |of: &DMatrix<f64>| of.rows(TRAINED, VALIDATION).into_owned();
    let (x, y) = (first(features), first(labels));
    let after = |epochs: usize| {
        let of = Regression { epochs, validation: 0, ..of };
        let weights = of.train_in_the_clear(x.as_slice(), y.as_slice(), TRAINED).weights;
        let matrix = DMatrix::from_column_slice(features.ncols(), CLASSES, &weights);
        let off = scores(&last(features), &matrix) - last(labels);
        (off.norm_squared() / VALIDATION as f64, weights)
    };
    (1..=epochs).map(after).collect()
}

#[test]
fn the_best_weights_are_those_of_an_unvalidated_training_that_ended_there() {
    for seed in 1..5 {
        let (of, features, labels) = overfitted(seed);
        let result = of.train_in_the_clear(features.as_slice(), labels.as_slice(), RECORDS);
        let curve = curve(of, of.epochs, &features, &labels);
        let (best, weights) = &curve[result.best_epoch - 1];
        assert_eq!(&result.weights, weights, "{seed}");
        assert_eq!(result.epochs, of.epochs.min(result.best_epoch + of.patience));
        // Scores follow the logits up to an error of third order.
        let seen = curve[..result.epochs].iter().map(|(brier, _)| *brier);
        let lowest = seen.fold(f64::INFINITY, f64::min);
        assert!(best - lowest < 1e-3, "{seed}: {best} {lowest}");
        let last = curve[of.epochs - 1].0;
        assert!(result.epochs < of.epochs && last > best + 0.01, "{seed}: {best} {last}");
    }
}

/// The most rounds of any party.
fn rounds<T>(outcomes: &[Outcome<T>; 3]) -> usize {
    outcomes.iter().map(|outcome| outcome.round as usize).max().unwrap()
}

#[test]
fn early_stop_on_shares_is_that_in_the_clear() {
    for seed in 1..4 {
        let (of, features, labels) = overfitted(seed);
        let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), RECORDS);
        // No comparison is so close that rounding could decide it.
        let mut best = f64::INFINITY;
        for (brier, _) in curve(of, expected.epochs, &features, &labels) {
            assert!((brier - best).abs() > 1e-5, "{seed}: {brier} {best}");
            best = best.min(brier);
        }
        let outcomes = compute(|session| {
            let result = train(session, of, &features, &labels, &mut |_| true).unwrap();
            opened(session, of, result)
        });
        for outcome in &outcomes {
            let result = &outcome.result;
            let counts = (result.epochs, result.best_epoch);
            assert_eq!(counts, (expected.epochs, expected.best_epoch), "{seed}");
            let away = distance(&result.weights, &expected.weights);
            assert!(away < 200.0 * of.fixed.unit(), "{seed}: {}", away / of.fixed.unit());
        }
        // 14 rounds an epoch, 24 more in each of the first ten, and 7 for the comparison in all
        // but the first; two of inputs, one of the opening.
        let e = expected.epochs;
        assert_eq!(rounds(&outcomes), e * 14 + 10 * 24 + (e - 1) * 7 + 3, "{seed}");
    }
}

/// Zeros, which a training leaves as they are.
fn zeros(session: &Session, records: usize, features: usize, classes: usize) -> RegressionData {
    let matrix = |columns: usize| {
        let zeros = session.public(&vec![0; records * columns]);
        SharedMatrix::new(records, columns, zeros).unwrap()
    };
    RegressionData { features: matrix(features), labels: matrix(classes) }
}

#[test]
fn validation_costs_as_much_whatever_the_data_are() {
    for (records, features, classes) in [(30, 2, 2), (120, 5, 7)] {
        let cost = |validation: usize| {
            let of = Regression { validation, patience: 100, ..settings(12) };
            let outcomes = compute(|session| {
                let data = zeros(session, records, features, classes);
                session.regress(of, &data, &mut |_| true).unwrap().epochs
            });
            assert_eq!(outcomes[0].result, 12);
            (rounds(&outcomes), outcomes.iter().map(|o| o.traffic.bytes).sum::<u64>())
        };
        // Three quarters of the records round up to the same power of two: truncations are alike.
        let ((rounds, bytes), (plain, plain_bytes)) = (cost(records / 4), cost(0));
        assert_eq!(rounds - plain, 11 * 7);
        // Without validation, a byte for each epoch but one keeps the third party in step.
        assert_eq!(bytes + 11 - plain_bytes, 11 * 317 + 24);
    }
}

#[test]
fn epochs_are_watched_and_may_be_stopped() {
    let (of, all) = (settings(5), Barrier::new(3));
    let outcomes = compute(|session| {
        let data = zeros(session, 8, 3, 2);
        let mut seen = Vec::new();
        let mut watch = |epoch| {
            seen.push(epoch);
            true
        };
        session.regress(of, &data, &mut watch).unwrap();
        let stopped = session.regress(of, &data, &mut |epoch| epoch < 3).unwrap_err();
        // A link that closes is another error, to those who have not come so far.
        all.wait();
        (seen, stopped, session.reveal(&session.public(&[1])))
    });
    for outcome in outcomes {
        let expected = (vec![1, 2, 3, 4, 5], MpcError::Stopped, Err(MpcError::Over));
        assert_eq!(outcome.result, expected);
    }
}

/// One party stops: the others end with an error once its links close.
#[test]
fn the_others_do_not_go_on_without_a_party_that_stops() {
    let ended = AtomicUsize::new(0);
    let links = vfl_mpc::connect_in_memory(super::DEADLINE);
    std::thread::scope(|scope| {
        for (party, (next, previous)) in PartyIndex::ALL.into_iter().zip(links) {
            let ended = &ended;
            scope.spawn(move || {
                let (next, previous) = (Box::new(next), Box::new(previous));
                let mut session = Session::begin(party, super::CONTEXT, next, previous).unwrap();
                let data = zeros(&session, 8, 3, 2);
                let mut watch = |epoch| party != PartyIndex::SECOND || epoch < 3;
                let error = session.regress(settings(5), &data, &mut watch).unwrap_err();
                assert_eq!(error == MpcError::Stopped, party == PartyIndex::SECOND, "{error}");
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(ended.into_inner(), 3);
}

/// Owners pad their blocks, so that their rank is not told.
#[test]
fn columns_of_zeros_change_nothing_and_have_no_weights() {
    let (of, features, labels) = overfitted(1);
    let d = features.ncols();
    let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), RECORDS);
    // One column within the first block, two at the end of the second, before the constant.
    let padding = [3, d, d + 1];
    let padded = padding.iter().fold(features, |x, at| x.insert_column(*at, 0.0));
    let outcomes = compute(|session| {
        let result = train(session, of, &padded, &labels, &mut |_| true).unwrap();
        opened(session, of, result)
    });
    let result = &outcomes[0].result;
    assert_eq!((result.epochs, result.best_epoch), (expected.epochs, expected.best_epoch));
    let weights = DMatrix::from_column_slice(padded.ncols(), CLASSES, &result.weights);
    assert!(padding.iter().all(|at| weights.row(*at).iter().all(|weight| *weight == 0.0)));
    let away = distance(weights.remove_rows_at(&padding).as_slice(), &expected.weights);
    assert!(away < 200.0 * of.fixed.unit(), "{}", away / of.fixed.unit());
}

/// An owner whose features tell nothing.
#[test]
fn a_block_of_zeros_has_no_weights() {
    let (of, mut features, labels) = overfitted(1);
    let block = 3..features.ncols() - 1;
    features.columns_mut(block.start, block.len()).fill(0.0);
    let outcomes = compute(|session| {
        let result = train(session, of, &features, &labels, &mut |_| true).unwrap();
        opened(session, of, result)
    });
    let weights = &outcomes[0].result.weights;
    for (at, weight) in weights.iter().enumerate() {
        let feature = at % features.ncols();
        assert_eq!(*weight == 0.0, block.contains(&feature), "{feature}: {weight}");
    }
}
