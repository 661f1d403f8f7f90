//! Every operation by three threads, against the same operation in the clear.

#![allow(clippy::unwrap_used)]

mod deviation;
mod distinguisher;
mod families;
mod learning;
mod masked;
mod network;
mod outsiders;
mod regression;
mod release;
mod tampering;
mod validation;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;
use vfl_mpc::{
    FixedPoint, Link, LinkError, MemoryLink, MpcError, PartyIndex, RingMatrix, Session,
    SharedMatrix, Shares, Traffic, connect_in_memory, euler_softmax,
};

const DEADLINE: Duration = Duration::from_secs(20);
/// The computation that the parties agree on.
const CONTEXT: &[u8; 32] = &[7; 32];

/// A link that tells each message that arrives, and counts rounds: a message takes one, and a
/// party is in the latest round of which it has a message.
struct Recorded {
    link: MemoryLink,
    messages: Sender<Vec<u8>>,
    round: Arc<AtomicU64>,
}

impl Link for Recorded {
    fn send(&mut self, mut message: Vec<u8>) -> Result<(), LinkError> {
        message.extend(self.round.load(Ordering::Relaxed).to_le_bytes());
        self.link.send(message)
    }

    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let mut message = self.link.receive()?;
        let round = message.split_off(message.len() - 8);
        let round = u64::from_le_bytes(round.try_into().unwrap()) + 1;
        self.round.fetch_max(round, Ordering::Relaxed);
        self.messages.send(message.clone()).unwrap();
        Ok(message)
    }
}

/// One party's result, the messages that it received, its traffic, and its round at the end.
struct Outcome<T> {
    result: T,
    received: Vec<Vec<u8>>,
    traffic: Traffic,
    round: u64,
}

/// Runs a computation with three parties. What they exchange to begin is not counted.
fn compute<T: Send>(program: impl Fn(&mut Session) -> T + Sync) -> [Outcome<T>; 3] {
    let places = PartyIndex::ALL.into_iter().zip(connect_in_memory(DEADLINE));
    let (program, begun) = (&program, &Barrier::new(3));
    let outcomes = std::thread::scope(|scope| {
        let run = |(party, (next, previous)): (PartyIndex, (MemoryLink, MemoryLink))| {
            scope.spawn(move || {
                let (messages, received) = channel();
                let round = Arc::new(AtomicU64::new(0));
                let recorded = |link| {
                    Box::new(Recorded { link, messages: messages.clone(), round: round.clone() })
                };
                let mut session =
                    Session::begin(party, CONTEXT, recorded(next), recorded(previous)).unwrap();
                while received.try_recv().is_ok() {}
                round.store(0, Ordering::Relaxed);
                begun.wait();
                let before = session.traffic();
                let result = program(&mut session);
                let after = session.traffic();
                let traffic = Traffic {
                    bytes: after.bytes - before.bytes,
                    messages: after.messages - before.messages,
                };
                let received = received.try_iter().collect();
                Outcome { result, received, traffic, round: round.load(Ordering::Relaxed) }
            })
        };
        let all: Vec<_> = places.map(run).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    outcomes.try_into().unwrap_or_else(|_| unreachable!("three parties"))
}

/// Shares numbers of party `owner`.
fn input(session: &mut Session, owner: usize, values: &[u64]) -> Shares {
    let owner = PartyIndex::ALL[owner];
    let mine = (session.party() == owner).then_some(values);
    session.share(owner, mine, values.len()).unwrap()
}

/// Runs a computation whose result all parties open, checks that they agree, and returns it with
/// the rounds and the bytes of all parties.
fn opened(program: impl Fn(&mut Session) -> Shares + Sync) -> Vec<u64> {
    let outcomes = compute(|session| {
        let shares = program(session);
        session.open(&shares).unwrap()
    });
    let [one, two, three] = outcomes.map(|outcome| outcome.result);
    assert!(one == two && two == three, "the parties open the same");
    one
}

/// Returns the rounds, and the bytes of all parties, of one operation on shares.
fn cost(numbers: usize, operation: impl Fn(&mut Session, &Shares) + Sync) -> (u64, u64) {
    let outcomes = compute(|session| {
        // Shares that nobody had to send.
        let shares = session.public(&vec![5; numbers]);
        operation(session, &shares);
    });
    let rounds = outcomes.iter().map(|outcome| outcome.round).max().unwrap();
    (rounds, outcomes.iter().map(|outcome| outcome.traffic.bytes).sum())
}

fn signed(value: u64) -> i64 {
    value as i64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sums_and_products_are_those_of_the_ring(
        pairs in prop::collection::vec(any::<(u64, u64)>(), 1..9),
        owners in (0_usize..3, 0_usize..3),
        factor in any::<u64>(),
    ) {
        let (one, other): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        let both = opened(|session| {
            let (x, y) = (input(session, owners.0, &one), input(session, owners.1, &other));
            let product = session.multiply(&x, &y).unwrap();
            let public = session.public(&one);
            let sum = product.plus(&x.times(factor)).unwrap().minus(&y).unwrap();
            sum.plus(&public).unwrap()
        });
        let expected = pairs.iter().map(|(x, y)| {
            x.wrapping_mul(*y).wrapping_add(x.wrapping_mul(factor)).wrapping_sub(*y).wrapping_add(*x)
        });
        prop_assert_eq!(both, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_quotient_is_the_floor_or_one_more(
        values in prop::collection::vec(-((1_i64 << 62) - 1)..(1_i64 << 62), 1..20),
        bits in 1_u32..=61,
        owner in 0_usize..3,
    ) {
        let words: Vec<u64> = values.iter().map(|v| *v as u64).collect();
        let quotients = opened(|session| {
            let shares = input(session, owner, &words);
            session.truncate(&shares, bits).unwrap()
        });
        for (value, quotient) in values.iter().zip(quotients) {
            let above = signed(quotient) - (value >> bits);
            prop_assert!(above == 0 || above == 1, "{value} >> {bits}: {}", signed(quotient));
        }
    }

    #[test]
    fn signs_are_those_of_twos_complement(
        mut values in prop_oneof![
            prop::collection::vec(any::<i64>(), 1..140),
            prop::collection::vec(any::<i64>(), 250..400),
        ],
        owner in 0_usize..3,
    ) {
        values.extend([0, 1, -1, i64::MAX, i64::MIN, i64::MIN + 1]);
        let words: Vec<u64> = values.iter().map(|v| *v as u64).collect();
        let signs = opened(|session| {
            let shares = input(session, owner, &words);
            let bits = session.is_negative(&shares).unwrap();
            session.bit_to_number(&bits).unwrap()
        });
        let expected: Vec<u64> = values.iter().map(|v| u64::from(*v < 0)).collect();
        prop_assert_eq!(signs, expected);
    }

    #[test]
    fn the_largest_number_wins_and_the_first_of_equal_ones(
        records in prop::collection::vec(prop::collection::vec(-3_i64..4, 5), 1..12),
        k in 1_usize..=5,
    ) {
        let class = |at: usize| records.iter().map(|r| r[at] as u64).collect::<Vec<_>>();
        let labels = opened(|session| {
            let classes: Vec<Shares> =
                (0..k).map(|at| input(session, at % 3, &class(at))).collect();
            session.arg_max(&classes).unwrap()
        });
        let first_of_largest = |record: &Vec<i64>| {
            let largest = record[..k].iter().max().unwrap();
            record.iter().position(|value| value == largest).unwrap() as u64
        };
        prop_assert_eq!(labels, records.iter().map(first_of_largest).collect::<Vec<_>>());
    }

    #[test]
    fn a_product_of_matrices_is_the_sum_of_products(
        (rows, inner, columns) in (1_usize..5, 1_usize..5, 1_usize..5),
        seed in any::<u64>(),
    ) {
        let number = |at: usize| (at as u64 + 1).wrapping_mul(seed | 1);
        let one: Vec<u64> = (0..rows * inner).map(number).collect();
        let other: Vec<u64> = (0..inner * columns).map(|at| number(at + 100)).collect();
        let product = opened(|session| {
            let x = input(session, 0, &one);
            let y = input(session, 1, &other);
            let x = SharedMatrix::new(rows, inner, x).unwrap();
            let y = SharedMatrix::new(inner, columns, y).unwrap();
            // (yᵀ xᵀ)ᵀ = x y, so that transposes are tested too.
            let turned = session.multiply_matrices(&y.transpose(), &x.transpose()).unwrap();
            let straight = session.multiply_matrices(&x, &y).unwrap();
            assert_eq!((straight.rows(), straight.columns()), (rows, columns));
            straight.into_shares().concat(&turned.transpose().into_shares())
        });
        let mut naive = Vec::new();
        for column in 0..columns {
            for row in 0..rows {
                let sum = (0..inner).fold(0_u64, |sum, at| {
                    sum.wrapping_add(one[at * rows + row].wrapping_mul(other[column * inner + at]))
                });
                naive.push(sum);
            }
        }
        prop_assert_eq!(product, [naive.clone(), naive].concat());
    }
}

#[test]
fn quotients_are_right_on_average() {
    let (bits, n) = (4, 40_000);
    // 5 / 16: 0 in eleven of sixteen cases, 1 in five.
    let quotients = opened(|session| {
        let shares = input(session, 1, &vec![5; n]);
        session.truncate(&shares, bits).unwrap()
    });
    let mean = quotients.iter().map(|q| *q as f64).sum::<f64>() / n as f64;
    let deviation = (5.0 / 16.0 * 11.0 / 16.0 / n as f64).sqrt();
    assert!((mean - 5.0 / 16.0).abs() < 5.0 * deviation, "{mean}");
}

#[test]
fn products_of_fixed_point_numbers_keep_their_unit() {
    let fixed = FixedPoint::new(20).unwrap();
    let (one, other) = ([1.5, -2.25, 100.0, -0.001], [0.5, 3.0, -100.0, 0.125]);
    let (x, y) = (fixed.encode(&one).unwrap(), fixed.encode(&other).unwrap());
    let products = opened(|session| {
        let (x, y) = (input(session, 0, &x), input(session, 2, &y));
        session.multiply_truncated(&x, &y, fixed.fraction_bits()).unwrap()
    });
    for ((x, y), product) in one.iter().zip(&other).zip(fixed.decode(&products)) {
        // The rounding of both factors, and of the quotient.
        let bound = fixed.unit() * (0.5 * (x.abs() + y.abs()) + 1.5);
        assert!((product - x * y).abs() <= bound, "{x} {y} {product}");
    }
    let product = opened(|session| {
        let x = SharedMatrix::new(2, 2, input(session, 0, &x)).unwrap();
        let y = SharedMatrix::new(2, 2, input(session, 1, &y)).unwrap();
        session.multiply_matrices_truncated(&x, &y, 20).unwrap().into_shares()
    });
    // Columns (1.5, -2.25), (100, -0.001) times (0.5, 3), (-100, 0.125).
    let expected = [300.75, -1.128, -137.5, 224.999_875];
    for (got, expected) in fixed.decode(&product).iter().zip(expected) {
        assert!((got - expected).abs() < 1e-3, "{got} {expected}");
    }
}

#[test]
fn softmax_is_that_of_the_steps_and_nears_the_exponential_one() {
    let fixed = FixedPoint::new(20).unwrap();
    let records = [[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [6.0, -3.0, 2.0], [-8.0, 7.0, 7.5]];
    for step_bits in [3, 5, 7] {
        let outcomes = compute(|session| {
            let class = |at: usize| records.map(|record| record[at]);
            let classes: Vec<Shares> =
                (0..3).map(|at| input(session, at, &fixed.encode(&class(at)).unwrap())).collect();
            let scores = session.softmax(&classes, fixed, step_bits).unwrap();
            scores.iter().map(|class| session.open(class).unwrap()).collect::<Vec<_>>()
        });
        let scores = &outcomes[0].result;
        for (at, record) in records.iter().enumerate() {
            let steps = euler_softmax(record, step_bits);
            let sum: f64 = record.iter().map(|x: &f64| x.exp()).sum();
            for (class, (expected, logit)) in steps.iter().zip(record).enumerate() {
                let got = fixed.decode(&scores[class][at..=at])[0];
                let bound = 2.0 * f64::from(1 << step_bits) * fixed.unit();
                if record.iter().all(|x| x.abs() * 2.0 < f64::from(1 << step_bits)) {
                    assert!((got - expected).abs() <= bound, "{step_bits}: {got} {expected}");
                }
                if step_bits == 7 {
                    assert!((got - logit.exp() / sum).abs() < 0.02, "{record:?} {got}");
                }
            }
        }
    }
}

/// The table of the crate's documentation.
#[test]
fn rounds_and_bytes_are_those_stated() {
    let n = 64;
    let per = |bytes: u64| bytes * n as u64;
    assert_eq!(cost(n, |s, _| drop(input(s, 1, &vec![1; n]))), (1, per(8)));
    assert_eq!(cost(n, |s, x| drop(s.open(x).unwrap())), (1, per(24)));
    assert_eq!(cost(n, |s, x| drop(s.open_to(PartyIndex::SECOND, x).unwrap())), (1, per(8)));
    assert_eq!(cost(n, |s, x| drop(s.multiply(x, x).unwrap())), (1, per(24)));
    assert_eq!(cost(n, |s, x| drop(s.truncate(x, 20).unwrap())), (2, per(33)));
    assert_eq!(cost(n, |s, x| drop(s.multiply_truncated(x, x, 30).unwrap())), (2, per(36)));
    // 2104 bits for each, and 335 of more numbers.
    assert_eq!(cost(n, |s, x| drop(s.is_negative(x).unwrap())), (5, per(2104) / 8));
    let more = cost(320, |s, x| drop(s.is_negative(x).unwrap()));
    assert_eq!(more, (7, 320 * 335 / 8));
    let with_bit = |s: &mut Session, x: &Shares| {
        let bits = s.is_negative(x).unwrap();
        s.bit_to_number(&bits).unwrap();
    };
    assert_eq!(cost(n, with_bit), (7, per(2104) / 8 + per(24)));
    assert_eq!(cost(320, with_bit), (8, 320 * (335 / 8 + 24) + 280));
    let five = |s: &mut Session, x: &Shares| drop(s.arg_max(&vec![x.clone(); 5]).unwrap());
    // Three levels. Party 0 knows its part of a bit before the others do.
    assert_eq!(cost(320, five), (25, 320 * (335 * 4 / 8 + 72 * 4) + 160));
    let fixed = FixedPoint::new(20).unwrap();
    let three = |s: &mut Session, x: &Shares| {
        s.softmax(&vec![x.clone(); 3], fixed, 3).unwrap();
    };
    // 20 bits are cut off the means, and 23 with the step.
    assert_eq!(cost(n, three), (4 * 8, per(8 * 33 * 4)));
    // 4 x 30 times 30 x 2: as many elements as the result has.
    let product = cost(n, |s, _| {
        let zeros = |count| s.public(&vec![0; count]);
        let one = SharedMatrix::new(4, 30, zeros(120)).unwrap();
        let other = SharedMatrix::new(30, 2, zeros(60)).unwrap();
        s.multiply_matrices(&one, &other).unwrap();
    });
    assert_eq!(product, (1, 8 * 24));
}

/// Bytes of messages are uniform by chi-squared, for inputs that are as far from it as can be.
#[test]
fn messages_are_uniform_whatever_the_inputs_are() {
    let (fine, coarse) = (FixedPoint::new(23).unwrap(), FixedPoint::new(15).unwrap());
    for value in [0.0, 1.0, -37.5] {
        let outcomes = compute(|session| {
            let words = fine.encode(&vec![value; 4000]).unwrap();
            let classes: Vec<Shares> = (0..3).map(|owner| input(session, owner, &words)).collect();
            // Carries of 24 bits, and of 16 and 24 in softmax: all bytes of a message are in use.
            let product = session.multiply_truncated(&classes[0], &classes[1], 23).unwrap();
            session.arg_max(&[product, classes[2].clone()]).unwrap();
            let words = coarse.encode(&vec![value; 800]).unwrap();
            let classes: Vec<Shares> = (0..3).map(|owner| input(session, owner, &words)).collect();
            session.softmax(&classes, coarse, 8).unwrap();
        });
        for (party, outcome) in outcomes.iter().enumerate() {
            assert!(outcome.received.len() > 7, "{:?}", outcome.traffic);
            for (at, message) in outcome.received.iter().enumerate() {
                let mut counts = [0.0_f64; 256];
                message.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
                let mean = message.len() as f64 / 256.0;
                let chi: f64 = counts.iter().map(|count| (count - mean).powi(2) / mean).sum();
                // Chi-squared of 255 degrees of freedom: beyond 450 once in 10^12.
                assert!(chi < 450.0, "input {value}, party {party}, message {at}: {chi}");
            }
        }
    }
}

#[test]
fn an_output_is_opened_to_its_receiver_alone() {
    for receiver in PartyIndex::ALL {
        let outcomes = compute(|session| {
            let shares = input(session, 0, &[7, 8]);
            session.open_to(receiver, &shares).unwrap()
        });
        for (party, outcome) in PartyIndex::ALL.into_iter().zip(&outcomes) {
            let expected = (party == receiver).then(|| vec![7, 8]);
            assert_eq!(outcome.result, expected, "{party}");
        }
    }
}

#[test]
fn numbers_that_do_not_fit_are_named() {
    let fixed = FixedPoint::new(20).unwrap();
    for value in [f64::NAN, f64::INFINITY, 2049.0, -1e300] {
        match fixed.encode(&[0.0, value]) {
            Err(MpcError::NotRepresentable { at: 1, limit }) => assert_eq!(limit, 2048.0),
            other => panic!("{value}: {other:?}"),
        }
    }
    assert_eq!(fixed.decode(&fixed.encode(&[-2048.0, 0.5]).unwrap()), vec![-2048.0, 0.5]);
    for bits in [0, 31] {
        assert!(matches!(FixedPoint::new(bits), Err(MpcError::Setting { .. })), "{bits}");
    }
    assert!(RingMatrix::new(2, 2, vec![0; 3]).is_err());
}

#[test]
fn operands_that_do_not_fit_and_wrong_settings_are_errors_before_anything_is_sent() {
    let outcomes = compute(|session| {
        let (none, zero) = (session.public(&[]), session.public(&[0]));
        let zeros = |count| (0..count).fold(none.clone(), |all, _| all.concat(&zero));
        let fixed = FixedPoint::new(20).unwrap();
        let before = session.traffic();
        assert!(session.multiply(&zeros(2), &zeros(3)).is_err());
        assert!(session.select(&zeros(2), &zeros(2), &zeros(3)).is_err());
        assert!(zeros(2).plus(&zeros(3)).is_err() && zeros(2).minus(&zeros(1)).is_err());
        assert!(session.truncate(&zeros(2), 0).is_err());
        assert!(session.truncate(&zeros(2), 62).is_err());
        assert!(session.arg_max(&[]).is_err());
        assert!(session.arg_max(&[zeros(1), zeros(2)]).is_err());
        assert!(session.softmax(&[zeros(1), zeros(2)], fixed, 3).is_err());
        assert!(session.softmax(&[zeros(1)], fixed, 11).is_err());
        let matrix = |rows, columns| SharedMatrix::new(rows, columns, zeros(6)).unwrap();
        assert!(session.multiply_matrices(&matrix(2, 3), &matrix(2, 3)).is_err());
        assert_eq!(session.traffic(), before);
    });
    assert!(outcomes.iter().all(|outcome| outcome.received.is_empty()));
}

/// A party that computes something else, ends, or says nothing: an error that names it.
#[test]
fn a_party_that_fails_is_named() {
    let outcomes = compute(|session| {
        let count = if session.party() == PartyIndex::THIRD { 5 } else { 4 };
        let zeros = session.public(&vec![0; count]);
        let failed = session.multiply(&zeros, &zeros).map_err(|error| error.to_string());
        // A session that failed says nothing any more.
        assert!(failed.is_ok() || session.open(&zeros) == Err(MpcError::Over));
        failed
    });
    let second = outcomes[1].result.as_ref().unwrap_err();
    assert!(second.contains("party 2 sent 40 bytes, this step has 32"), "{second}");

    let [(next, previous), second, third] = connect_in_memory(Duration::from_millis(50));
    let silent = Session::begin(PartyIndex::FIRST, CONTEXT, Box::new(next), Box::new(previous));
    let silent = silent.unwrap_err();
    assert!(silent.to_string().contains("party 2"), "{silent}");
    assert!(matches!(silent, MpcError::Link { error: LinkError::Silent(_), .. }), "{silent}");
    drop((second, third));

    let [(next, previous), second, third] = connect_in_memory(DEADLINE);
    drop((second, third));
    let closed = Session::begin(PartyIndex::FIRST, CONTEXT, Box::new(next), Box::new(previous));
    assert!(matches!(closed, Err(MpcError::Link { error: LinkError::Closed, .. })));
}

/// No share is printed.
#[test]
fn shares_and_sessions_print_nothing_private() {
    compute(|session| {
        let shares = session.public(&[123_456_789]);
        assert_eq!(format!("{shares:?}"), "Shares(1 withheld)");
        let matrix = SharedMatrix::new(1, 1, shares).unwrap();
        assert_eq!(format!("{matrix:?}"), "SharedMatrix(1 x 1 withheld)");
        assert!(!format!("{session:?}").contains("123"), "{session:?}");
    });
}

/// Parties that do not agree on their order or on what they compute say so before they compute.
#[test]
fn parties_that_disagree_do_not_begin() {
    let begin = |places: [usize; 3], contexts: [u8; 3]| {
        let links = connect_in_memory(Duration::from_secs(2));
        std::thread::scope(|scope| {
            let run =
                |((place, context), (next, previous)): ((usize, u8), (MemoryLink, MemoryLink))| {
                    let (next, previous) = (Box::new(next), Box::new(previous));
                    let begin = move || {
                        Session::begin(PartyIndex::ALL[place], &[context; 32], next, previous)
                    };
                    scope.spawn(move || begin().map(drop).map_err(|error| error.to_string()))
                };
            let all: Vec<_> = places.into_iter().zip(contexts).zip(links).map(run).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    assert!(begin([0, 1, 2], [1; 3]).iter().all(Result::is_ok));
    for (places, contexts, says) in [
        ([0, 1, 2], [1, 1, 2], "does not agree on the session or its settings"),
        ([0, 2, 1], [1; 3], "does not agree on the order of the parties"),
        ([0, 0, 0], [1; 3], "does not agree on the order of the parties"),
    ] {
        let results = begin(places, contexts);
        let said = |result: &Result<(), String>| result.as_ref().is_err_and(|e| e.contains(says));
        assert!(results.iter().all(Result::is_err), "{places:?}: {results:?}");
        assert!(results.iter().any(said), "{places:?}: {results:?}");
    }
}

#[test]
fn truncation_holds_at_the_ends_of_its_range() {
    for z in [(1_i64 << 62) - 1, 1 - (1 << 62)] {
        for bits in [1, 7, 8, 60, 61] {
            let quotients = opened(|session| {
                let shares = session.public(&[z as u64; 1000]);
                session.truncate(&shares, bits).unwrap()
            });
            let right = |quotient: &u64| matches!(signed(*quotient) - (z >> bits), 0 | 1);
            assert!(quotients.iter().all(right), "{z} >> {bits}");
        }
    }
}

#[test]
fn only_the_lowest_bit_of_a_word_becomes_a_number() {
    let outcomes = compute(|session| {
        let signs = session.is_negative(&session.public(&[u64::MAX, 1])).unwrap();
        // An and leaves shares of zero, all random, in the high bits.
        let signs = session.and(&signs, &signs).unwrap();
        let numbers = session.bit_to_number(&signs).unwrap();
        (session.open(&numbers).unwrap(), session.open_bits(&signs).unwrap())
    });
    for outcome in outcomes {
        assert_eq!(outcome.result, (vec![1, 0], vec![1, 0]));
    }
}
