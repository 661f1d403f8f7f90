//! What a party sees: its messages and its own random words together are uniform. The operands are
//! public, so that nothing but the masks of a protocol can hide them.

use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    Activation, Family, FixedPoint, Link, LinkError, MemoryLink, MpcError, Network, NetworkData,
    PartyIndex, Regression, RegressionData, Session, SharedMatrix, connect_in_memory,
};

use super::{CONTEXT, DEADLINE};

type Log = Arc<Mutex<Vec<Vec<u8>>>>;
/// A link that keeps what passes.
struct Tap {
    link: MemoryLink,
    sent: Log,
    got: Log,
}

impl Link for Tap {
    fn send(&mut self, m: Vec<u8>) -> Result<(), LinkError> {
        self.sent.lock().unwrap().push(m.clone());
        self.link.send(m)
    }
    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let m = self.link.receive()?;
        self.got.lock().unwrap().push(m.clone());
        Ok(m)
    }
}

/// One party's view: the keys it shares with the previous and the next party, and its messages.
pub(crate) struct View {
    keys: [Vec<u8>; 2],
    pub(crate) messages: Vec<Vec<u8>>,
}

pub(crate) fn views(program: impl Fn(&mut Session) -> Result<(), MpcError> + Sync) -> Vec<View> {
    let program = &program;
    std::thread::scope(|scope| {
        let all: Vec<_> = PartyIndex::ALL
            .into_iter()
            .zip(connect_in_memory(DEADLINE))
            .map(|(party, (next, previous))| {
                scope.spawn(move || {
                    let (sent, got) = (Log::default(), Log::default());
                    let tap = |link| Box::new(Tap { link, sent: sent.clone(), got: got.clone() });
                    let mut session =
                        Session::begin(party, CONTEXT, tap(next), tap(previous)).unwrap();
                    program(&mut session).unwrap();
                    // The greeting of the previous party, then that of the next one with its key.
                    let got = got.lock().unwrap();
                    let keys =
                        [&sent.lock().unwrap()[1], &got[1]].map(|greeting| greeting[33..].to_vec());
                    View { keys, messages: got[2..].to_vec() }
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Returns the words of a message for `n` elements, and their width in bits.
pub(crate) fn words(message: &[u8], n: usize) -> (Vec<u64>, u32) {
    let bytes = message.len() / n;
    let word = |c: &[u8]| {
        let mut w = [0; 8];
        w[..bytes].copy_from_slice(c);
        u64::from_le_bytes(w)
    };
    (message.chunks_exact(bytes).map(word).collect(), 8 * bytes as u32)
}

/// Returns the first `count` blocks of `n` words that a key gives.
pub(crate) fn block(key: &[u8], n: usize, count: usize) -> Vec<(Vec<u64>, u32)> {
    let mut rng = ChaCha12Rng::from_seed(key.try_into().unwrap());
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; 8 * n];
            rng.fill_bytes(&mut bytes);
            words(&bytes, n)
        })
        .collect()
}

/// Returns true if the byte of the values from bit `shift` on is uniform by chi-squared in its
/// lowest `bits` bits, and 0 above.
pub(crate) fn uniform(values: &[u64], shift: u32, bits: u32) -> bool {
    let cells = 1 << bits;
    let mut counts = vec![0.0_f64; cells];
    for value in values {
        match counts.get_mut(usize::from((value >> shift) as u8)) {
            Some(count) => *count += 1.0,
            None => return false,
        }
    }
    let (mean, freedom) = (values.len() as f64 / cells as f64, (cells - 1) as f64);
    // Beyond this bound less than once in 10^8 for any number of cells.
    let bound = freedom + 10.0 * (2.0 * freedom).sqrt() + 25.0;
    counts.iter().map(|c| (c - mean).powi(2) / mean).sum::<f64>() < bound
}

/// Returns the words of a message that may be longer than one word for each of `N` elements: part
/// by part, and from its middle on.
pub(crate) fn samples(message: &[u8]) -> Vec<(Vec<u64>, u32)> {
    let part = 8 * N;
    if message.len() <= part {
        return vec![words(message, N)];
    }
    let middle = (message.len() / 2).min(message.len() - part);
    let mut starts: Vec<usize> = (0..message.len() / part).map(|at| part * at).collect();
    starts.extend([middle, message.len() - part]);
    starts.sort_unstable();
    starts.dedup();
    starts.into_iter().map(|at| words(&message[at..][..part], N)).collect()
}

/// All sums with factors −1, 0, 1 of up to `terms` words, and the parity of all pairs.
pub(crate) fn check(label: &str, atoms: &[(Vec<u64>, u32)], terms: u32) {
    let total = 3_usize.pow(atoms.len() as u32);
    for code in 1..total {
        let mut factors = vec![0_i64; atoms.len()];
        let mut left = code;
        factors.iter_mut().for_each(|f| {
            *f = (left % 3) as i64;
            if *f == 2 {
                *f = -1;
            }
            left /= 3;
        });
        let used: Vec<usize> = (0..atoms.len()).filter(|at| factors[*at] != 0).collect();
        if used.len() > terms as usize || factors[used[0]] < 0 {
            continue;
        }
        let width = used.iter().map(|at| atoms[*at].1).min().unwrap();
        let n = atoms[0].0.len();
        let mut sums = vec![0_u64; n];
        let mut xors = vec![0_u64; n];
        for at in &used {
            let f = factors[*at] as u64;
            for ((s, x), v) in sums.iter_mut().zip(&mut xors).zip(&atoms[*at].0) {
                *s = s.wrapping_add(v.wrapping_mul(f));
                *x ^= v;
            }
        }
        for shift in [0, width - 8] {
            assert!(uniform(&sums, shift, 8), "{label} {factors:?} shift {shift}");
            assert!(uniform(&xors, shift, 8), "{label} xor {factors:?} shift {shift}");
        }
    }
}

pub(crate) const N: usize = 2000;

#[test]
fn a_truncation_shows_a_party_nothing_beside_its_own_numbers() {
    for value in [0_u64, 5 << 20, (7_u64 << 40).wrapping_neg()] {
        let views = views(|s| {
            let x = s.public(&vec![value; N]);
            s.truncate(&x, 23).map(drop)
        });
        // Party 0 draws four words with party 2, party 1 two.
        for (party, used) in [[4, 0], [0, 2]].into_iter().enumerate() {
            let keys = &views[party].keys;
            let messages: Vec<_> = views[party].messages.iter().map(|m| words(m, N)).collect();
            let own = [block(&keys[0], N, used[0]), block(&keys[1], N, used[1])].concat();
            // c, of which both know the sum: message plus own part (component 0: value).
            let part = if party == 0 { value } else { 0 };
            let c: Vec<u64> = messages[0]
                .0
                .iter()
                .zip(&own[0].0)
                .map(|(m, u)| m.wrapping_add(*u).wrapping_add(part))
                .collect();
            let high = (c.iter().map(|c| (c & (u64::MAX >> 1)) >> 23).collect::<Vec<_>>(), 24);
            let atoms: Vec<_> = messages.iter().cloned().chain(own).chain([high]).collect();
            check(&format!("value {value} party {party}"), &atoms, 4);
        }
    }
}

/// The operations one after the other on public shares: every message, and every pair of them.
#[test]
fn masks_are_fresh() {
    let views = views(|s| {
        let x = s.public(&vec![3; N]);
        let mut three = x.clone();
        for owner in PartyIndex::ALL {
            for _ in 0..2 {
                let mine = (s.party() == owner).then(|| vec![9; N]);
                three = three.plus(&s.share(owner, mine.as_deref(), N)?)?;
            }
        }
        drop(three);
        s.multiply(&x, &x)?;
        s.multiply(&x, &x)?;
        s.truncate(&x, 23)?;
        s.truncate(&x, 23)?;
        // A byte for each of N elements in a row of bits.
        let many = x.repeat(8);
        let b = s.is_negative(&many)?;
        let c = s.is_negative(&many)?;
        s.bit_to_number(&b)?;
        s.bit_to_number(&c)?;
        s.select(&x, &x, &x)?;
        Ok(())
    });
    for (party, view) in views.iter().enumerate() {
        let messages: Vec<_> = view.messages.iter().flat_map(|m| samples(m)).collect();
        for (at, one) in messages.iter().enumerate() {
            check(&format!("party {party} message {at}"), std::slice::from_ref(one), 1);
            for (other_at, other) in messages.iter().enumerate().skip(at + 1) {
                check(
                    &format!("party {party} messages {at} {other_at}"),
                    &[one.clone(), other.clone()],
                    2,
                );
            }
        }
    }
}

/// The messages that each party receives in a training of two epochs with one comparison.
const STEPS: [usize; 3] = [84, 159, 6];

/// Trainings of one record for each of training and validation, again and again: the first number
/// of each message over all of them. Labels are as wrong as can be, or right.
#[test]
fn a_training_shows_nothing_but_the_comparisons_of_its_validation() {
    let fixed = FixedPoint::new(20).unwrap();
    let (epochs, validation, patience) = (2, 1, 2);
    let of = Regression {
        family: Family::Multinomial,
        epochs,
        penalty: 0.0,
        free: 0,
        blocks: 1,
        validation,
        patience,
        fixed,
    };
    for wrong in [false, true] {
        let views = views(|s| {
            let ones = s.public(&fixed.encode(&[1.0, 1.0]).unwrap());
            let hot = if wrong { [0.0, 1.0, 1.0, 0.0] } else { [0.0, 0.0, 1.0, 1.0] };
            let labels = s.public(&fixed.encode(&hot).unwrap());
            let data = RegressionData {
                features: SharedMatrix::new(2, 1, ones)?,
                labels: SharedMatrix::new(2, 2, labels)?,
            };
            for _ in 0..N {
                let result = s.regress(of, &data, &mut |_| true)?;
                assert_eq!((result.epochs, result.best_epoch), (2, if wrong { 1 } else { 2 }));
            }
            Ok(())
        });
        assert_eq!(
            [0, 1, 2].map(|party| views[party].messages.len()),
            STEPS.map(|steps| steps * N)
        );
        check_trainings(&format!("{wrong}"), &views, true);
    }
}

/// Checks the first number of each message over N trainings. If `opens`, the last message of a
/// training opens a bit.
fn check_trainings(label: &str, views: &[View], opens: bool) {
    for (party, View { messages, .. }) in views.iter().enumerate() {
        let steps = messages.len() / N;
        // The third party deals the masks of all truncations.
        for step in 0..steps {
            let at_step = messages.iter().skip(step).step_by(steps);
            if opens && step + 1 == steps {
                // The bit that is opened: one component of it, and nothing above.
                let set = at_step.clone().filter(|m| m[..] == [1, 0, 0, 0, 0, 0, 0, 0]).count();
                let unset = at_step.filter(|m| m[..] == [0; 8]).count();
                assert_eq!(set + unset, N);
                assert!(set.abs_diff(N / 2) < 150, "{label} {party}: {set}");
                continue;
            }
            // A message of one byte holds a few bits of one comparison.
            let short = at_step.clone().all(|m| m.len() == 1);
            let first: Vec<u64> = at_step.map(|m| u64::from(m[0])).collect();
            let widths = if short { 1..=8 } else { 8..=8 };
            let hidden = widths.into_iter().any(|bits| uniform(&first, 0, bits));
            assert!(hidden, "{label} {party} {step}");
        }
    }
}

/// Networks of one record and one unit at each of two parties, again and again.
#[test]
fn a_training_of_networks_shows_nothing() {
    let fixed = FixedPoint::new(20).unwrap();
    for (activation, wrong) in
        [(Activation::Tanh, false), (Activation::Tanh, true), (Activation::Relu, true)]
    {
        let of = Network {
            epochs: 1,
            batch: 1,
            hidden: vec![1],
            activation,
            penalty: 0.0,
            validation: 0,
            patience: 1,
            fixed,
        };
        let views = views(|s| {
            let column = |s: &Session, values: &[f64]| s.public(&fixed.encode(values).unwrap());
            let one = SharedMatrix::new(1, 1, column(s, &[if wrong { 7.0 } else { 0.0 }]))?;
            let label = if wrong { [0.0, 1.0] } else { [0.5, 0.5] };
            let labels = SharedMatrix::new(1, 2, column(s, &label))?;
            let data = NetworkData { blocks: vec![one.clone(), one], labels };
            for _ in 0..N {
                let start = vec![if wrong { 0.7 } else { 0.0 }; 2 * of.parameters(1, 2) + 2];
                let start = column(s, &start);
                s.train_network(&of, &data, start, &mut |_| true)?;
            }
            Ok(())
        });
        check_trainings(&format!("{activation:?} {wrong}"), &views, false);
    }
}

#[test]
fn two_sessions_share_no_message() {
    let run = || {
        views(|s| {
            let x = s.public(&[3; 4]);
            s.multiply(&x, &x).map(drop)
        })
    };
    let (one, two) = (run(), run());
    for (a, b) in one.iter().zip(&two) {
        assert!(a.keys[0] != b.keys[0] && a.keys[0] != a.keys[1] && a.messages[0] != b.messages[0]);
    }
}
