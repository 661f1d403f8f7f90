//! The most that a party was found to learn by deviating, or by its choice of inputs.

use std::sync::Arc;
use std::time::Duration;

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    LARGEST_FEATURE, LOGIT_BITS, Logits, MpcError, PartyIndex, Regression, RegressionData, Session,
    SharedMatrix, encode_logits,
};

use super::regression::{settings, train, whiten};
use super::tampering::{Change, Deviation, Part, Protocol, SILENCE, SideLinks, play, protocol};
use super::validation::{VALIDATION, curve, overfitted};
use super::{compute, input};

const UNIT: f64 = 1.0 / (1_u64 << LOGIT_BITS) as f64;

/// The receiver of labels computes with other numbers than it has shared: its messages of one
/// comparison are others, and nobody notices. One label a bit, down to 2^-20 in 26 labels.
#[test]
fn the_receiver_of_labels_bisects_a_difference_of_logits() {
    let (own, others) = ([0.25, -1.5], [3.7, -2.123_456_789]);
    let difference = own[0] + others[0] - own[1] - others[1];
    let outcomes = compute(|session| {
        let [own, others] = [own, others].map(|z| encode_logits(&z).unwrap());
        let shares = input(session, 0, &own).plus(&input(session, 2, &others)).unwrap();
        let (mut low, mut high) = (-32.0, 32.0);
        for _ in 0..26 {
            let middle = 0.5 * (low + high);
            let mut shares = shares.clone();
            if session.party() == PartyIndex::FIRST {
                let offset = ((-middle / UNIT).round() as i64) as u64;
                shares = shares.plus(&session.public(&[offset, 0])).unwrap();
            }
            let logits = Logits::new(1, 2, shares).unwrap();
            match session.release_label(PartyIndex::FIRST, &logits).unwrap().as_deref() {
                Some([0]) => low = middle,
                Some(_) => high = middle,
                None => {}
            }
        }
        (low, high)
    });
    let (low, high) = outcomes[0].result;
    assert!(low <= difference && difference <= high && high - low <= 2_f64.powi(-20));
}

/// A sender that makes a label impossible where it is one of the classes would learn from an error
/// that it was that one. Its receiver alone hears of it: the session goes on for all.
#[test]
fn an_impossible_label_is_told_to_its_receiver_alone() {
    let opening = |label: usize, at: Option<usize>| {
        let part: Part = Arc::new(move |session: &mut Session, _: &mut SideLinks| {
            let mut z = [0_u64; 3];
            z[label] = 1 << LOGIT_BITS;
            let logits = Logits::new(1, 3, input(session, 1, &z))?;
            let first = session.release_label(PartyIndex::FIRST, &logits);
            let refused = matches!(first, Err(MpcError::NoResult { .. }));
            let second = session.release_label(PartyIndex::FIRST, &logits)?;
            let second = second.iter().flatten().map(|label| *label as f64);
            Ok(std::iter::once(f64::from(u8::from(refused))).chain(second).collect())
        });
        let of = protocol("two labels", part, [const { Vec::new() }; 4], 0.0);
        let way = (2, 0, false);
        let deviation = at.map(|at| Deviation { way, at, change: Change::First });
        let (learnt, counts) = play(&of, deviation);
        let sent = [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)]
            .map(|(from, to)| counts.of((from, to, false)));
        (learnt.into_iter().map(|learnt| learnt.unwrap().unwrap()).collect::<Vec<_>>(), sent)
    };
    let honest = opening(0, None).1;
    // The greeting, and as many for each label, of which the last opens it.
    let last = (honest[4] - 1) / 2;
    for label in 0..3 {
        let (learnt, sent) = opening(label, Some(last));
        // The word of the first class is changed, and is no longer 0 where this is the label.
        let refused = if label == 0 { 1.0 } else { 0.0 };
        assert_eq!(learnt, [vec![refused, label as f64], vec![0.0], vec![0.0]]);
        assert_eq!(sent, honest);
    }
}

/// A training of two epochs whose second is better or not, by the word of `deviation`; an error
/// ends it.
fn validated(
    (of, deviation, silence): (Regression, Option<Deviation>, Duration),
    features: &DMatrix<f64>,
    labels: &DMatrix<f64>,
) -> Vec<Result<(usize, usize), MpcError>> {
    let (features, labels) = (features.clone(), labels.clone());
    let part: Part = Arc::new(move |session: &mut Session, _: &mut SideLinks| {
        let result = train(session, of, &features, &labels, &mut |_| true)?;
        session.open(&result.weights.into_shares())?;
        Ok(vec![result.epochs as f64, result.best_epoch as f64])
    });
    let of = protocol("validation", part, [const { Vec::new() }; 4], 0.0);
    let of = Protocol { silence, ..of };
    let (learnt, _) = play(&of, deviation);
    let counts = |learnt: Vec<f64>| (learnt[0] as usize, learnt[1] as usize);
    learnt.into_iter().map(|learnt| learnt.unwrap().map(counts)).collect()
}

/// The coordinator has no data. It adds a number to a validation score by one message, so that the
/// bit which all learn compares with a threshold of its choice: one bit a comparison, as before,
/// and the best epoch is the one it wants.
#[test]
fn a_party_chooses_the_threshold_of_a_validation() {
    let (of, features, labels) = overfitted(1);
    let of = Regression { epochs: 2, ..of };
    let told = curve(of, 2, &features, &labels);
    let gain = told[0].0 - told[1].0;
    // Its messages to the first party: the greeting, two for each of 19 truncations, the score, and
    // the same again in the second epoch.
    let at = 1 + 38 + 1 + 38;
    let sums = VALIDATION as f64 * 2_f64.powi(2 * of.fixed.fraction_bits() as i32);
    let is_better = |threshold: f64| {
        let change = Change::Added(((threshold * sums).round() as i64) as u64);
        let deviation = Deviation { way: (1, 0, false), at, change };
        let all = validated((of, Some(deviation), SILENCE), &features, &labels);
        let first = *all[0].as_ref().unwrap();
        assert!(all.iter().all(|one| *one == Ok(first)) && first.0 == 2);
        first.1 == 2
    };
    // Forced: a score of a record lies between 0 and 2.
    assert!(is_better(-2.0) && !is_better(2.0));
    let (mut low, mut high) = (-2.0, 2.0);
    for _ in 0..14 {
        let middle = 0.5 * (low + high);
        if is_better(middle) { low = middle } else { high = middle }
    }
    // Scores follow the logits up to an error of third order.
    assert!(gain > 0.01 && (0.5 * (low + high) - gain).abs() < 1e-3, "{gain} {low} {high}");
}

/// One comparison is opened to one party as its opposite, and this party stops where the others go
/// on: it ends with an error everywhere, by the deadline of the links, and nobody has weights.
#[test]
fn parties_that_are_told_different_comparisons_end() {
    let (of, features, labels) = overfitted(1);
    let of = Regression { epochs: 3, patience: 1, ..of };
    let honest = validated((of, None, SILENCE), &features, &labels);
    assert!(honest.iter().all(|one| *one == Ok((3, 3))), "{honest:?}");
    // The third party's messages to the first: the greeting, and two for a comparison.
    let deviation = Deviation { way: (2, 0, false), at: 2, change: Change::Lowest };
    let ended = validated((of, Some(deviation), Duration::from_millis(200)), &features, &labels);
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
}

/// Records, of which each of the first has a feature of the first party's to itself, and the third
/// party's whitened features.
struct Indicators {
    of: Regression,
    own: DMatrix<f64>,
    others: DMatrix<f64>,
}

const ALL: usize = 500;
const INDICATED: usize = 30;
const THREE: usize = 3;

impl Indicators {
    fn new(epochs: usize, seed: u64) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let others = DMatrix::from_fn(ALL, 4, |_, _| rng.random::<f64>().powi(2));
        let own = |record, column| if record == column { LARGEST_FEATURE } else { 0.0 };
        let own = DMatrix::from_fn(ALL, INDICATED, own);
        Self {
            of: Regression { penalty: 0.0, ..settings(epochs) },
            own,
            others: whiten(&others, ALL),
        }
    }

    /// Trains, and returns the weights of the own features and of the others, a row for each.
    fn train(&self, labels: &DMatrix<f64>) -> [DMatrix<f64>; 2] {
        let (of, scale) = (self.of, self.of.feature_scale(ALL));
        let encode = |block: &DMatrix<f64>| of.fixed.encode((block * scale).as_slice()).unwrap();
        let (own, others) = (encode(&self.own), encode(&self.others));
        let labels = of.fixed.encode(labels.as_slice()).unwrap();
        let ones = vec![of.fixed.encode(&[scale]).unwrap()[0]; ALL];
        let outcomes = compute(|session| {
            let x = input(session, 0, &own).concat(&input(session, 2, &others));
            let x = x.concat(&session.public(&ones));
            let columns = x.len() / ALL;
            let data = RegressionData {
                features: SharedMatrix::new(ALL, columns, x).unwrap(),
                labels: SharedMatrix::new(ALL, THREE, input(session, 0, &labels)).unwrap(),
            };
            let result = session.regress(of, &data, &mut |_| true).unwrap();
            let weights = session.open(&result.weights.into_shares()).unwrap();
            DMatrix::from_vec(columns, THREE, of.fixed.decode(&weights))
        });
        let all = &outcomes[0].result;
        [all.rows(0, INDICATED).into_owned(), all.rows(INDICATED, 4).into_owned()]
    }
}

/// Labels that give a record alone to each class but the first, `size` times.
fn alone(records: [usize; 2], size: f64) -> DMatrix<f64> {
    DMatrix::from_fn(ALL, THREE, |record, class| match class {
        0 if records.contains(&record) => 1.0 - size,
        0 => 1.0,
        _ if records[class - 1] == record => size,
        _ => 0.0,
    })
}

/// Returns the logits, the first of them 0, that lead from equal scores to these in the four
/// substeps of the first epoch.
fn logits_of(scores: [f64; THREE]) -> [f64; THREE] {
    let slope = |z: &[f64; THREE], y: [f64; THREE]| {
        let mean: f64 = z.iter().zip(y).map(|(z, y)| z * y).sum();
        [0, 1, 2].map(|at| 0.25 * (z[at] - mean) * y[at])
    };
    let reached = |z: &[f64; THREE]| {
        (0..4).fold([1.0 / 3.0; THREE], |y, _| {
            let first = slope(z, y);
            let second = slope(z, [0, 1, 2].map(|at| y[at] + 0.5 * first[at]));
            [0, 1, 2].map(|at| y[at] + second[at])
        })
    };
    let ratios = |y: [f64; THREE]| y.map(|score| (score / y[0]).ln());
    (0..40).fold([0.0; THREE], |z, _| {
        let (wanted, got) = (ratios(scores), ratios(reached(&z)));
        [0, 1, 2].map(|at| z[at] + wanted[at] - got[at])
    })
}

/// Features that are 1 for one record alone make the own weights of one epoch that record's label:
/// to a passive party, the label. They depend on nobody else's features, whatever the labels are.
#[test]
fn own_weights_of_one_epoch_tell_labels_and_no_features() {
    let labels = alone([3, 7], 40.0);
    let [one, other] = [1, 2].map(|seed| Indicators::new(1, seed).train(&labels)[0].clone());
    let of = Indicators::new(1, 1).of;
    assert!((&one - other).amax() <= 2.0 * of.fixed.unit());
    let step = LARGEST_FEATURE * of.feature_scale(ALL) / (ALL as f64).log2().ceil().exp2();
    let told = DMatrix::from_fn(INDICATED, THREE, |at, class| one[(at, class)] / step + 1.0 / 3.0);
    assert!((told - labels.rows(0, INDICATED)).amax() < 1e-3);
}

/// The own weights of two epochs tell the scores after the first one of each record that has a
/// feature to itself. Labels that put one record alone into a class make these the scalar products
/// of its whitened features with those of another party: for each record and each class but one, a
/// number. It takes no message that is changed. Labels that are not 0 and 1 make it more precise.
#[test]
fn own_weights_of_two_epochs_tell_products_of_the_others_features() {
    let chosen = [40, 77];
    let mut errors = Vec::new();
    for size in [1.0, 32.0] {
        let world = Indicators::new(2, 1);
        let labels = alone(chosen, size);
        let [own, _] = world.train(&labels);
        let power = (ALL as f64).log2().ceil().exp2();
        let step = LARGEST_FEATURE * world.of.feature_scale(ALL) / power;
        let told = |record: usize| {
            let residual = |class| labels[(record, class)] - 1.0 / 3.0;
            // After the momentum of the second epoch, 1 / 4.
            let score = |class: usize| {
                let second = (own[(record, class)] - step * residual(class)) / (1.25 * step);
                labels[(record, class)] - second
            };
            let logits = logits_of([0, 1, 2].map(score));
            // Less the part of the own feature and of the constant.
            let sums = [0, 1, 2].map(|class| labels.column(class).sum() / ALL as f64 - 1.0 / 3.0);
            let own = |class| LARGEST_FEATURE.powi(2) / ALL as f64 * residual(class) + sums[class];
            let [one, two] = [1, 2].map(|class| logits[class] - own(class) + own(0));
            // The logits of class 0 are less both products, and features sum to zero.
            [2.0 * one - two, 2.0 * two - one].map(|sum| sum / 3.0 * ALL as f64 / size)
        };
        let product = |one: usize, other| world.others.row(one).dot(&world.others.row(other));
        let (mut error, mut spread) = (0.0, 0.0);
        for record in 0..INDICATED {
            for (told, chosen) in told(record).iter().zip(chosen) {
                error += (told - product(record, chosen)).powi(2);
                spread += product(record, chosen).powi(2);
            }
        }
        errors.push(f64::sqrt(error / spread));
    }
    assert!(errors[0] < 0.2 && errors[1] < 0.02, "{errors:?}");
}
