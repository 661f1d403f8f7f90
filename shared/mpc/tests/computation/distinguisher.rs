//! A trained classifier that looks for a party's inputs in another party's views.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    Family, FixedPoint, MpcError, PartyIndex, Regression, RegressionData, Session, SharedMatrix,
};

use super::view::views;

/// Returns the number of views of each party. The nightly run has more of them.
fn repetitions() -> usize {
    std::env::var("CLOISON_VIEWS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000)
}

/// The pairs of words whose sums and differences the classifier looks at.
const PAIRS: usize = 64;

/// Returns the share of held-out views that a classifier attributes to the right one of two inputs,
/// after it was trained on the other half: naive Bayes on the bits of all words, and on those of
/// sums and differences of pairs. A view is a list of words.
fn share_told_apart(views: &[(Vec<u64>, bool)]) -> f64 {
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    let words = views[0].0.len();
    let all = (0..words).flat_map(|one| (0..one).map(move |other| (one, other)));
    let mut pairs: Vec<_> = all.collect();
    pairs.shuffle(&mut rng);
    pairs.truncate(PAIRS);
    let seen = |view: &[u64]| -> Vec<u64> {
        let of = |&(one, other): &(usize, usize)| {
            [view[one].wrapping_add(view[other]), view[one].wrapping_sub(view[other])]
        };
        view.iter().copied().chain(pairs.iter().flat_map(of)).collect()
    };
    let mut order: Vec<usize> = (0..views.len()).collect();
    order.shuffle(&mut rng);
    let (training, test) = order.split_at(views.len() / 2);
    let bits = 64 * (words + 2 * pairs.len());
    let (mut set, mut total) = ([vec![1.0; bits], vec![1.0; bits]], [2.0_f64; 2]);
    for &at in training {
        let (view, second) = &views[at];
        let class = usize::from(*second);
        total[class] += 1.0;
        for (at, word) in seen(view).into_iter().enumerate() {
            for bit in 0..64 {
                set[class][64 * at + bit] += (word >> bit & 1) as f64;
            }
        }
    }
    let mut right = 0;
    for &at in test {
        let (view, second) = &views[at];
        let mut odds = 0.0;
        for (at, word) in seen(view).into_iter().enumerate() {
            for bit in 0..64 {
                let p = [0, 1].map(|class: usize| set[class][64 * at + bit] / total[class]);
                let likelihood = p.map(|p| if word >> bit & 1 == 1 { p } else { 1.0 - p });
                odds += (likelihood[1] / likelihood[0]).ln();
            }
        }
        right += usize::from((odds > 0.0) == *second);
    }
    right as f64 / test.len() as f64
}

/// Panics unless the classifier is right as often as by chance, to five standard deviations.
fn assert_indistinguishable(what: &str, views: &[(Vec<u64>, bool)]) {
    let told = share_told_apart(views);
    let deviation = 0.5 / ((views.len() / 2) as f64).sqrt();
    assert!((told - 0.5).abs() < 5.0 * deviation, "{what}: {told} of the views are told apart");
}

/// Returns a message as words: what is left over is the last one.
fn words_of(message: &[u8]) -> impl Iterator<Item = u64> + '_ {
    message.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// The classifier finds a number that two of the words add up to, and one whose lowest bit shows.
#[test]
fn the_classifier_finds_what_is_not_hidden() {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    let secret = |second: bool| if second { 5_u64 << 20 } else { 3 << 20 };
    let shared: Vec<_> = (0..2000)
        .map(|at| {
            let (second, mut words) = (at % 2 == 1, rng.random::<[u64; 8]>().to_vec());
            words[6] = secret(second).wrapping_sub(words[2]);
            (words, second)
        })
        .collect();
    assert!(share_told_apart(&shared) > 0.95);
    let shown: Vec<_> = (0..2000)
        .map(|at| {
            let second = at % 2 == 1;
            let word = rng.next_u64() & !1 | u64::from(second);
            (vec![rng.next_u64(), word], second)
        })
        .collect();
    assert!(share_told_apart(&shown) > 0.95);
    let uniform: Vec<_> =
        (0..2000).map(|at| (rng.random::<[u64; 8]>().to_vec(), at % 2 == 1)).collect();
    assert_indistinguishable("uniform words", &uniform);
}

/// Trains one step on the features of party `owner` and the labels of the next one, which are
/// shared anew.
fn step(
    session: &mut Session,
    fixed: FixedPoint,
    owner: usize,
    second: bool,
) -> Result<(), MpcError> {
    let (x, y) = match second {
        false => ([0.5, -1.0, 2.0, 0.25, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        true => ([-3.0, 7.0, 0.0, 1.0, 1.0, -5.0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
    };
    let mut input = |owner: usize, values: &[f64]| {
        let encoded = fixed.encode(values)?;
        let owner = PartyIndex::ALL[owner];
        let mine = (session.party() == owner).then_some(&encoded[..]);
        session.share(owner, mine, encoded.len())
    };
    let features = SharedMatrix::new(3, 2, input(owner, &x)?)?;
    let labels = SharedMatrix::new(3, 2, input((owner + 1) % 3, &y)?)?;
    let (epochs, penalty, free, blocks, validation, patience) = (1, 1e-3, 1, 1, 0, 1);
    let of = Regression {
        family: Family::Multinomial,
        epochs,
        penalty,
        free,
        blocks,
        validation,
        patience,
        fixed,
    };
    session.regress(of, &RegressionData { features, labels }, &mut |_| true).map(drop)
}

/// Features and labels of two steps of training, one input again and again and another one in
/// between. Nothing is opened.
#[test]
fn the_views_of_a_step_tell_no_inputs_apart() {
    let (fixed, n) = (FixedPoint::new(20).unwrap(), repetitions());
    for owner in 0..3 {
        let program = |session: &mut Session| {
            (0..n).try_for_each(|at| step(session, fixed, owner, at % 2 == 1))
        };
        let mut silent = 0;
        for (party, view) in views(program).iter().enumerate() {
            let steps = view.messages.len() / n;
            assert_eq!(steps * n, view.messages.len(), "{owner} {party}");
            if steps == 0 {
                silent += 1;
                continue;
            }
            let of = |(at, messages): (usize, &[Vec<u8>])| {
                (messages.iter().flat_map(|message| words_of(message)).collect(), at % 2 == 1)
            };
            let told: Vec<_> = view.messages.chunks(steps).enumerate().map(of).collect();
            assert_indistinguishable(&format!("features of {owner}, party {party}"), &told);
        }
        // The party that deals the masks of truncations receives nothing if it has the features.
        assert!(silent <= 1, "{silent}");
    }
}

/// Releases of one record's label and of its rounded scores to party 0, which has a share of the
/// logits as the last party has. The other share is one or the other: the outputs are the same.
#[test]
fn the_views_of_releases_tell_no_logits_apart() {
    let n = repetitions();
    let own = [0.5, -0.25, 0.0];
    let released = |session: &mut Session, rounded: bool, second: bool| {
        let other = match (second, rounded) {
            (false, _) => [2.5, 0.75, 0.5],
            (true, false) => [900.0, -40.0, 7.0],
            (true, true) => [-97.5, -99.25, -99.5],
        };
        let first = PartyIndex::ALL[0];
        let mut input = |owner: PartyIndex, values: [f64; 3]| {
            let mine = (session.party() == owner).then_some(&values[..]);
            session.share_logits(owner, mine, 1, 3)
        };
        let logits = input(first, own)?.plus(&input(PartyIndex::ALL[2], other)?)?;
        let output: Option<Vec<u64>> = match rounded {
            false => session
                .release_label(first, &logits)?
                .map(|labels| labels.iter().map(|&label| label as u64).collect()),
            true => session
                .release_rounded_scores(first, &logits, 2)?
                .map(|scores| scores.iter().copied().map(u64::from).collect()),
        };
        let expected = if rounded { vec![86, 7, 7] } else { vec![0] };
        assert_eq!(output, (session.party() == first).then_some(expected));
        Ok(())
    };
    for rounded in [false, true] {
        let views =
            views(|session| (0..n).try_for_each(|at| released(session, rounded, at % 2 == 1)));
        for (party, view) in views.iter().enumerate() {
            let steps = view.messages.len() / n;
            assert!(steps > 0 && steps * n == view.messages.len(), "{rounded} {party}");
            let of = |(at, messages): (usize, &[Vec<u8>])| {
                (messages.iter().flat_map(|message| words_of(message)).collect(), at % 2 == 1)
            };
            let told: Vec<_> = view.messages.chunks(steps).enumerate().map(of).collect();
            assert_indistinguishable(&format!("rounded: {rounded}, party {party}"), &told);
        }
    }
}

/// The views of whole trainings with validation beside those of a simulator, which has the outputs
/// alone: uniform words of the same widths, and for the bit that says which epoch was the better
/// one a component of it.
#[test]
fn a_simulator_makes_the_views_of_a_training_from_its_outputs() {
    let (fixed, n) = (FixedPoint::new(20).unwrap(), repetitions() / 2);
    let (epochs, penalty, free, blocks, validation, patience) = (2, 0.0, 0, 1, 1, 2);
    let of = Regression {
        family: Family::Multinomial,
        epochs,
        penalty,
        free,
        blocks,
        validation,
        patience,
        fixed,
    };
    let views = views(|session| {
        for _ in 0..n {
            let mut input = |owner: usize, values: &[f64]| {
                let encoded = fixed.encode(values)?;
                let owner = PartyIndex::ALL[owner];
                let mine = (session.party() == owner).then_some(&encoded[..]);
                session.share(owner, mine, encoded.len())
            };
            let features = SharedMatrix::new(2, 1, input(2, &[1.0, 1.0])?)?;
            let labels = SharedMatrix::new(2, 2, input(0, &[0.0, 0.0, 1.0, 1.0])?)?;
            session.regress(of, &RegressionData { features, labels }, &mut |_| true)?;
        }
        Ok(())
    });
    let mut rng = rand::rng();
    for (party, view) in views.iter().enumerate() {
        let real = view.messages.chunks(view.messages.len() / n);
        let real: Vec<Vec<u8>> = real.map(|messages| messages.concat()).collect();
        // Bits that no message uses: words of 21 bits take three bytes.
        let mut used = vec![0; real[0].len()];
        real.iter().for_each(|bytes| {
            used.iter_mut().zip(bytes).for_each(|(used, byte)| *used |= byte);
        });
        let unused: u32 = used.iter().map(|byte: &u8| byte.count_zeros()).sum();
        assert!(unused < 4 * used.len() as u32, "{party}: {unused}");
        let mut told: Vec<(Vec<u64>, bool)> = Vec::new();
        for bytes in &real {
            told.push((words_of(bytes).collect(), false));
            let mut simulated = vec![0; bytes.len()];
            rng.fill_bytes(&mut simulated);
            simulated.iter_mut().zip(&used).for_each(|(byte, used)| *byte &= used);
            told.push((words_of(&simulated).collect(), true));
        }
        assert_indistinguishable(&format!("party {party}"), &told);
    }
}
