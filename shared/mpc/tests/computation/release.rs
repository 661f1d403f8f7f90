//! Releases against the same functions in the clear, what they cost, and what is seen of them.

use proptest::prelude::*;
use vfl_mpc::{
    LARGEST_LOGIT, LARGEST_THRESHOLD, Logits, MpcError, PartyIndex, SCORE_BITS, Session,
    encode_logits,
};

use super::{compute, input};

/// The step of the codebooks' numbers.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Shares the logits of two owners, whose sum is `z`, class after class.
fn shared(session: &mut Session, z: &[f64], n: usize, k: usize) -> Logits {
    let [first, third] = [PartyIndex::FIRST, PartyIndex::THIRD].map(|owner| {
        let part = |z: &f64| if owner == PartyIndex::FIRST { z - 1.5 } else { 1.5 };
        let values: Vec<f64> = z.iter().map(part).collect();
        let mine = (session.party() == owner).then_some(&values[..]);
        session.share_logits(owner, mine, n, k).unwrap()
    });
    first.plus(&third).unwrap()
}

/// Returns the classes of a record, the largest logit first, and of equal ones the first.
fn order(z: &[f64], record: usize, n: usize) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..z.len() / n).collect();
    classes.sort_by(|a, b| z[b * n + record].total_cmp(&z[a * n + record]));
    classes
}

fn softmax(z: &[f64], n: usize) -> Vec<f64> {
    let k = z.len() / n.max(1);
    let mut scores = vec![0.0; n * k];
    for record in 0..n {
        let class = |at: usize| z[at * n + record];
        let largest = (0..k).map(class).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..k).map(|at| (class(at) - largest).exp()).sum();
        (0..k).for_each(|at| scores[at * n + record] = (class(at) - largest).exp() / sum);
    }
    scores
}

/// Returns what `to` alone gets.
fn only<T: Send>(to: PartyIndex, program: impl Fn(&mut Session) -> Option<T> + Sync) -> T {
    let mut results = compute(program).map(|outcome| outcome.result);
    let got = results[PartyIndex::ALL.iter().position(|at| *at == to).unwrap()].take();
    assert!(results.iter().all(Option::is_none), "the others get nothing");
    got.unwrap()
}

/// Logits of halves, with many ties, or of the whole range.
fn logits() -> impl Strategy<Value = (usize, Vec<f64>)> {
    let sizes = (2_usize..=16, prop::sample::select(vec![0_usize, 1, 65, 130]));
    sizes.prop_flat_map(|(k, n)| {
        let end = 2.0 * LARGEST_LOGIT - 4.0;
        let one = prop_oneof![
            6 => (-6_i8..6).prop_map(|z| f64::from(z) / 2.0),
            6 => -12.0..12.0,
            1 => prop::sample::select(vec![end / 2.0, -end / 2.0, 28.0, -28.0, 32.0, -32.0]),
        ];
        prop::collection::vec(one, n * k).prop_map(move |z| (k, z))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn orders_are_those_in_the_clear((k, z) in logits(), to in 0_usize..3, m in 1_usize..=16) {
        let (n, m, to) = (z.len() / k, m.min(k), PartyIndex::ALL[to]);
        let (label, top, set, ranking) = only(to, |session| {
            let logits = shared(session, &z, n, k);
            let label = session.release_label(to, &logits).unwrap();
            let top = session.release_top(to, &logits, m).unwrap();
            let set = session.release_top_set(to, &logits, m).unwrap();
            let ranking = session.release_ranking(to, &logits).unwrap();
            Some((label?, top?, set?, ranking?))
        });
        prop_assert_eq!([label.len(), top.len(), set.len(), ranking.len()], [n; 4]);
        // The sum of two encoded parts of such numbers is exact enough to keep order and ties.
        for record in 0..n {
            let order = order(&z, record, n);
            prop_assert_eq!(label[record], order[0]);
            prop_assert_eq!(&top[record][..], &order[..m]);
            let members: Vec<bool> = (0..k).map(|class| order[..m].contains(&class)).collect();
            prop_assert_eq!(&set[record], &members);
            prop_assert_eq!(&ranking[record], &order);
        }
    }

    #[test]
    fn scores_are_those_in_the_clear((k, z) in logits(), to in 0_usize..3, decimals in 0_u32..=4) {
        let (n, to) = (z.len() / k, PartyIndex::ALL[to]);
        let (raw, exact, rounded) = only(to, |session| {
            let logits = shared(session, &z, n, k);
            let raw = session.release_logits(to, &logits).unwrap();
            let exact = session.release_scores(to, &logits).unwrap();
            let rounded = session.release_rounded_scores(to, &logits, decimals).unwrap();
            Some((raw?, exact?, rounded?))
        });
        let (scores, tens) = (softmax(&z, n), 10_f64.powi(decimals as i32));
        prop_assert_eq!([raw.len(), exact.len(), rounded.len()], [n * k; 3]);
        for at in 0..n * k {
            prop_assert!((raw[at] - z[at]).abs() <= 2_f64.powi(-40));
            prop_assert!((exact[at] - scores[at]).abs() < 2_f64.powi(-38));
            let away = (f64::from(rounded[at]) - scores[at] * tens).abs();
            prop_assert!(away <= 0.5 + tens * 2_f64.powi(-22), "{} {}", scores[at], rounded[at]);
        }
    }

    #[test]
    fn the_exponential_softmax_is_within_its_bound((k, z) in logits()) {
        let n = z.len() / k;
        let scores = super::opened(|session| {
            let logits = shared(session, &z, n, k);
            session.exponential_softmax(&logits).unwrap()
        });
        let unit = (-f64::from(SCORE_BITS)).exp2();
        for (got, expected) in scores.iter().zip(softmax(&z, n)) {
            let away = (*got as i64 as f64 * unit - expected).abs();
            prop_assert!(away < 2_f64.powi(-22), "{expected}: {}", away.log2());
        }
    }

    #[test]
    fn words_are_the_nearest_of_the_class((k, z) in logits(), seed in any::<u64>(), more in 0_usize..4) {
        let (n, to) = (z.len() / k, PartyIndex::SECOND);
        let number = |at: usize| (seed.wrapping_mul(2 * at as u64 + 1) >> 40) as f64 * UNIT;
        // A word or two of each class, in any order, some with zeros.
        let word = |word: usize| -> Vec<f64> {
            let class = (seed as usize).wrapping_add(word) % k;
            let mut word: Vec<f64> =
                (0..k).map(|at| (number(word * k + at) - 0.1).max(0.0) / 2.0).collect();
            word[class] = 0.75;
            word
        };
        let mut codebook: Vec<Vec<f64>> = (0..k + more).map(word).collect();
        for class in 0..k {
            let mut word = word(k + more + class);
            word.iter_mut().for_each(|w| *w = w.min(0.6));
            word[class] = 0.8;
            codebook.insert(class % (1 + more), word);
        }
        let nearest = only(to, |session| {
            let logits = shared(session, &z, n, k);
            session.release_word(to, &logits, &codebook).unwrap()
        });
        let scores = softmax(&z, n);
        for (record, word) in nearest.iter().enumerate() {
            let class = order(&z, record, n)[0];
            let of_class = |word: &&Vec<f64>| (0..k).all(|at| at == class || word[at] < word[class]);
            let likelihood = |word: &Vec<f64>| -> f64 {
                (0..k).map(|at| scores[at * n + record] * word[at].max(1e-12).ln()).sum()
            };
            prop_assert!(of_class(&&codebook[*word]));
            let best = codebook.iter().filter(of_class).map(likelihood);
            let best = best.fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(best - likelihood(&codebook[*word]) < k as f64 * 2_f64.powi(-16));
        }
    }

    #[test]
    fn rounded_scores_of_the_best_are_those_in_the_clear(
        (k, z) in logits(),
        to in 0_usize..3,
        m in 1_usize..=16,
        decimals in 0_u32..=4,
    ) {
        let (n, m, to) = (z.len() / k, m.min(k), PartyIndex::ALL[to]);
        let units = only(to, |session| {
            let logits = shared(session, &z, n, k);
            session.release_rounded_top(to, &logits, m, decimals).unwrap()
        });
        let (scores, tens) = (softmax(&z, n), 10_f64.powi(decimals as i32));
        prop_assert_eq!(units.len(), n * k);
        for record in 0..n {
            for (rank, class) in order(&z, record, n).into_iter().enumerate() {
                let (unit, score) = (units[class * n + record], scores[class * n + record]);
                let away = (f64::from(unit) - score * tens).abs();
                let near = away <= 0.5 + tens * 2_f64.powi(-22);
                prop_assert!(if rank < m { near } else { unit == 0 }, "{score} {unit}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Numbers of quarters, with many on a threshold, which is the first of the place above.
    #[test]
    fn places_are_those_in_the_clear(
        quarters in prop::collection::vec(-40_i8..40, 0..130),
        mut thresholds in prop::collection::vec(-36_i8..36, 0..9),
        to in 0_usize..3,
    ) {
        thresholds.sort_unstable();
        let in_quarters = |all: &[i8]| all.iter().map(|q| f64::from(*q) / 4.0).collect::<Vec<_>>();
        let (z, mut bounds, n) = (in_quarters(&quarters), in_quarters(&thresholds), quarters.len());
        // Beyond every number.
        bounds.insert(0, -LARGEST_THRESHOLD);
        bounds.push(LARGEST_THRESHOLD);
        let to = PartyIndex::ALL[to];
        let (places, exact) = only(to, |session| {
            let numbers = shared(session, &z, n, 1);
            let places = session.release_place(to, &numbers, &bounds).unwrap();
            let exact = session.release_logits(to, &numbers).unwrap();
            Some((places?, exact?))
        });
        let expected = z.iter().map(|z| bounds.iter().filter(|bound| *z >= **bound).count());
        prop_assert_eq!(places, expected.collect::<Vec<_>>());
        prop_assert_eq!(exact, z);
    }
}

#[test]
fn places_of_too_much_are_refused() {
    compute(|session| {
        let one = Logits::of_numbers(session.public(&[0; 3]));
        let two = Logits::new(3, 2, session.public(&[0; 6])).unwrap();
        let mut refused = |numbers: &Logits, thresholds: &[f64]| {
            session.release_place(PartyIndex::FIRST, numbers, thresholds).is_err()
        };
        assert!(refused(&two, &[0.0]));
        assert!(refused(&one, &[0.0; 64]));
        assert!(refused(&one, &[f64::NAN]) && refused(&one, &[f64::INFINITY]));
    });
}

/// Returns the most rounds for any receiver, and the bytes of all parties per record.
fn cost(
    n: usize,
    k: usize,
    program: impl Fn(&mut Session, PartyIndex, &Logits) + Sync,
) -> (u64, f64) {
    let run = |to| {
        let outcomes = compute(|session| {
            let shares = session.public(&vec![1 << 40; n * k]);
            let logits = match k {
                1 => Logits::of_numbers(shares),
                _ => Logits::new(n, k, shares).unwrap(),
            };
            program(session, to, &logits);
        });
        let rounds = outcomes.iter().map(|outcome| outcome.round).max().unwrap();
        let bytes: u64 = outcomes.iter().map(|outcome| outcome.traffic.bytes).sum();
        (rounds, bytes as f64 / n as f64)
    };
    let [one, two, three] = PartyIndex::ALL.map(run);
    assert!(one.1 == two.1 && two.1 == three.1);
    (one.0.max(two.0).max(three.0), one.1)
}

/// The figures of the crate's documentation: of many records the rounds and the bytes, of one the
/// rounds.
#[test]
fn releases_cost_what_is_stated() {
    let releases: [(usize, Release); 15] = [
        (2, |s, to, z| drop(s.release_label(to, z).unwrap())),
        (6, |s, to, z| drop(s.release_label(to, z).unwrap())),
        (10, |s, to, z| drop(s.release_label(to, z).unwrap())),
        (2, |s, to, z| drop(s.release_rounded_scores(to, z, 3).unwrap())),
        (6, |s, to, z| drop(s.release_rounded_scores(to, z, 3).unwrap())),
        (10, |s, to, z| drop(s.release_rounded_scores(to, z, 3).unwrap())),
        (6, |s, to, z| drop(s.release_top(to, z, 2).unwrap())),
        (6, |s, to, z| drop(s.release_top_set(to, z, 2).unwrap())),
        (6, |s, to, z| drop(s.release_ranking(to, z).unwrap())),
        (6, |s, to, z| drop(s.release_rounded_top(to, z, 2, 3).unwrap())),
        (6, |s, to, z| drop(s.release_scores(to, z).unwrap())),
        (6, |s, _, z| drop(s.exponential_softmax(z).unwrap())),
        (6, |s, to, z| {
            let one = |word, at| f64::from(u8::from(at == word % 6));
            let words: Vec<Vec<f64>> =
                (0..8).map(|word| (0..6).map(|at| one(word, at)).collect()).collect();
            s.release_word(to, z, &words).unwrap();
        }),
        (1, |s, to, z| drop(s.release_logits(to, z).unwrap())),
        (1, |s, to, z| drop(s.release_place(to, z, &[0.0; 9]).unwrap())),
    ];
    let figures = releases.map(|(k, release)| {
        let (rounds, bytes) = cost(320, k, release);
        (rounds, cost(1, k, release).0, bytes)
    });
    let stated = [
        (8, 6, 73.875),
        (8, 6, 724.125),
        (8, 6, 2044.375),
        (46, 41, 1072.375),
        (51, 46, 3104.625),
        (55, 48, 5818.875),
        (11, 10, 655.875),
        (11, 10, 655.875),
        (8, 6, 630.0),
        (64, 58, 4047.75),
        (1, 1, 40.0),
        (43, 40, 2932.125),
        (69, 63, 3737.25),
        (1, 1, 8.0),
        (9, 8, 600.875),
    ];
    assert_eq!(figures[..], stated[..]);
}

/// A release, of which only the messages count.
type Release = fn(&mut Session, PartyIndex, &Logits);

/// All releases of three classes.
const RELEASES: [(&str, Release); 9] = [
    ("label", |s, to, z| drop(s.release_label(to, z).unwrap())),
    ("top", |s, to, z| drop(s.release_top(to, z, 2).unwrap())),
    ("top set", |s, to, z| drop(s.release_top_set(to, z, 2).unwrap())),
    ("ranking", |s, to, z| drop(s.release_ranking(to, z).unwrap())),
    ("logits", |s, to, z| drop(s.release_logits(to, z).unwrap())),
    ("scores", |s, to, z| drop(s.release_scores(to, z).unwrap())),
    ("rounded scores", |s, to, z| drop(s.release_rounded_scores(to, z, 2).unwrap())),
    ("rounded top", |s, to, z| drop(s.release_rounded_top(to, z, 1, 2).unwrap())),
    ("word", |s, to, z| {
        let words = [vec![0.5, 0.25, 0.25], vec![0.1, 0.6, 0.3], vec![0.25, 0.25, 0.5]];
        s.release_word(to, z, &words).unwrap();
    }),
];

/// Returns true if every byte of a message is uniform by chi-squared. Carries of 29, 30 and 33 bits
/// leave a part of their fourth or fifth byte unused.
fn hides(message: &[u8]) -> bool {
    let uniform = |stride: usize, at: usize, bits: u32| {
        let bytes = message.iter().skip(at).step_by(stride);
        super::view::uniform(&bytes.map(|byte| u64::from(*byte)).collect::<Vec<_>>(), 0, bits)
    };
    let widths: [&[u32]; 4] = [&[8], &[8, 8, 8, 5], &[8, 8, 8, 6], &[8, 8, 8, 8, 1]];
    widths
        .iter()
        .any(|widths| widths.iter().enumerate().all(|(at, bits)| uniform(widths.len(), at, *bits)))
}

/// Every message of a batch that repeats one record is uniform, the opening among them: it is the
/// result less two components that its receiver holds.
#[test]
fn releases_show_nothing_but_their_result() {
    let n = 4 * super::view::N;
    let inputs = [[0.0, 3.0, -1.0], [-900.0, 500.0, 499.0], [5.0, 5.25, 5.0]];
    for (to, z) in PartyIndex::ALL.into_iter().zip(inputs) {
        for (name, release) in RELEASES {
            let outcomes = compute(|session| {
                let all: Vec<u64> =
                    z.iter().flat_map(|z| vec![encode_logits(&[*z]).unwrap()[0]; n]).collect();
                let logits = Logits::new(n, 3, session.public(&all)).unwrap();
                // Components of which one is not public: openings of those would be bare.
                let mask = input(session, 1, &vec![1 << 50; 3 * n]);
                let zero = mask.minus(&input(session, 2, &vec![1 << 50; 3 * n])).unwrap();
                let logits = logits.plus(&Logits::new(n, 3, zero).unwrap()).unwrap();
                release(session, to, &logits);
            });
            for (party, outcome) in outcomes.iter().enumerate() {
                for (at, message) in outcome.received.iter().enumerate() {
                    assert!(hides(message), "{name} of {z:?}, party {party}, message {at}");
                }
            }
        }
    }
}

/// Eight owners whose logits are the largest of one class and the smallest of another.
#[test]
fn eight_owners_may_be_added() {
    let z = [LARGEST_LOGIT, -LARGEST_LOGIT, 0.0];
    let (label, scores) = only(PartyIndex::SECOND, |session| {
        let mut sum: Option<Logits> = None;
        for at in 0..8 {
            let owner = PartyIndex::ALL[at % 3];
            let mine = (session.party() == owner).then_some(&z[..]);
            let one = session.share_logits(owner, mine, 1, 3).unwrap();
            sum = Some(sum.map_or(one.clone(), |sum| sum.plus(&one).unwrap()));
        }
        let ranking = session.release_ranking(PartyIndex::SECOND, &sum.clone()?).unwrap();
        let scores = session.release_scores(PartyIndex::SECOND, &sum?).unwrap();
        Some((ranking?, scores?))
    });
    assert_eq!((&label[0][..], &scores[..]), (&[0, 2, 1][..], &[1.0, 0.0, 0.0][..]));
}

/// Scores whose last class is far below the others keep the precision of these.
#[test]
fn a_class_far_below_costs_no_precision() {
    let z = [0.249_011_162_973_548_97, 0.287_569_642_576_078_53, -LARGEST_LOGIT / 2.0];
    let scores = only(PartyIndex::FIRST, |session| {
        let logits = shared(session, &z, 1, 3);
        session.release_scores(PartyIndex::FIRST, &logits).unwrap()
    });
    for (got, expected) in scores.iter().zip(softmax(&z, 1)) {
        assert!((got - expected).abs() < 2_f64.powi(-39), "{got} {expected}");
    }
}

#[test]
fn wrong_requests_are_refused_before_anything_is_sent() {
    for value in [f64::NAN, f64::INFINITY, 2.0 * LARGEST_LOGIT] {
        let error = encode_logits(&[0.0, value, 1.0]).unwrap_err();
        assert_eq!(error, MpcError::NotRepresentable { at: 1, limit: LARGEST_LOGIT });
    }
    compute(|session| {
        let shares = session.public(&[0; 6]);
        assert!(Logits::new(6, 1, shares.clone()).is_err());
        let numbers = Logits::of_numbers(shares.clone());
        assert!(session.release_label(PartyIndex::FIRST, &numbers).is_err());
        assert!(session.release_scores(PartyIndex::FIRST, &numbers).is_err());
        let many = Logits::new(2, 17, session.public(&[0; 34])).unwrap_err();
        assert!(matches!(many, MpcError::Setting { .. }), "{many}");
        let sent = session.traffic();
        assert!(session.share_logits(PartyIndex::FIRST, None, 2, 17).is_err());
        assert_eq!(session.traffic(), sent);
        assert!(Logits::new(3, 3, shares.clone()).is_err());
        let logits = Logits::new(2, 3, shares.clone()).unwrap();
        assert!(logits.plus(&Logits::new(3, 2, shares).unwrap()).is_err());
        assert_eq!(format!("{logits:?}"), "Logits(2 x 3 withheld)");
        let (before, to) = (session.traffic(), PartyIndex::FIRST);
        assert!(session.release_top(to, &logits, 0).is_err());
        assert!(session.release_top_set(to, &logits, 4).is_err());
        assert!(session.release_rounded_scores(to, &logits, 5).is_err());
        assert!(session.release_rounded_top(to, &logits, 2, 5).is_err());
        assert!(session.release_rounded_top(to, &logits, 4, 2).is_err());
        let wrong = [f64::NAN, 1.5, -0.1].map(|number| vec![vec![0.0, number, 0.0]]);
        let others = [vec![], vec![vec![0.0; 2]], vec![vec![0.3; 3]], vec![vec![0.3; 3]; 257]];
        for codebook in wrong.into_iter().chain(others) {
            assert!(session.release_word(to, &logits, &codebook).is_err());
        }
        assert_eq!(session.traffic(), before);
    });
}
