//! Inputs and outputs of data owners outside of the three parties.

use proptest::prelude::*;
use vfl_mpc::{MpcError, PartyIndex, Session, combine, deal};

use super::view::{N, block, check, words};
use super::{compute, input, opened};

/// The place of a party as a number.
fn place(session: &Session) -> usize {
    PartyIndex::ALL.iter().position(|party| *party == session.party()).unwrap()
}

/// The messages of all parties to an outsider, for the same program.
fn revealed(program: impl Fn(&mut Session) -> Result<Vec<u8>, MpcError> + Sync) -> [Vec<u8>; 3] {
    compute(|session| program(session).unwrap()).map(|outcome| outcome.result)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numbers_of_outsiders_are_computed_with_and_come_back(
        pairs in prop::collection::vec(any::<(u64, u64)>(), 0..20),
    ) {
        let (one, other): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        let n = pairs.len();
        let dealt = deal(&one);
        prop_assert_eq!(dealt.each_ref().map(Vec::len), [64, 32 + 8 * n, 32 + 8 * n]);
        let product = |session: &mut Session| {
            let x = session.shares_dealt(&dealt[place(session)], n).unwrap();
            let y = input(session, 1, &other);
            let product = session.multiply(&x, &y).unwrap();
            x.concat(&product)
        };
        let products = pairs.iter().map(|(x, y)| x.wrapping_mul(*y));
        let expected: Vec<u64> = one.iter().copied().chain(products).collect();
        prop_assert_eq!(&opened(product), &expected);
        let messages = revealed(|session| {
            let product = product(session);
            session.reveal(&product)
        });
        prop_assert!(messages.iter().all(|message| message.len() == 16 * n));
        let [first, second, third] = &messages;
        prop_assert_eq!(combine([first, second, third], 2 * n).unwrap(), expected);
    }
}

#[test]
fn an_input_takes_no_round_and_an_output_neither() {
    let dealt = deal(&[5; 10]);
    let outcomes = compute(|session| {
        let shares = session.shares_dealt(&dealt[place(session)], 10).unwrap();
        session.reveal(&shares).unwrap()
    });
    assert!(outcomes.iter().all(|outcome| outcome.round == 0 && outcome.traffic.bytes == 0));
}

#[test]
fn messages_of_another_length_are_named() {
    let dealt = deal(&[5; 10]);
    let outcomes = compute(|session| {
        let own = &dealt[place(session)];
        let cases = [(&own[1..], 10), (&[], 0), (&own[..], 11)];
        cases.map(|(message, count)| session.shares_dealt(message, count).err())
    });
    let error = |expected, got| Some(MpcError::DealtLength { expected, got });
    // Two keys, however many numbers there are.
    assert_eq!(outcomes[0].result, [error(64, 63), error(64, 0), None]);
    for outcome in &outcomes[1..] {
        assert_eq!(outcome.result, [error(112, 111), error(32, 0), error(120, 112)]);
    }
    assert!(error(112, 111).unwrap().to_string().contains("sent 111 bytes, its numbers take 112"));

    let (good, bad) = ([0; 16], [0; 15]);
    for (at, party) in PartyIndex::ALL.into_iter().enumerate() {
        let mut messages = [&good[..]; 3];
        messages[at] = &bad;
        let error = MpcError::MessageLength { party, expected: 16, got: 15 };
        assert_eq!(combine(messages, 2), Err(error));
    }
    assert_eq!(combine([&good; 3], 2), Ok(vec![0, 0]));
    assert!(combine([&good; 3], usize::MAX).is_err());
}

/// Both components that a party gets of a dealt number, alone and together.
#[test]
fn one_party_learns_nothing_of_what_is_dealt() {
    for value in [0, 7, 5 << 40, u64::MAX] {
        let messages = deal(&vec![value; N]);
        for (party, message) in messages.iter().enumerate() {
            let (key, more) = message.split_at(32);
            let drawn = block(key, N, 1);
            let more = if party == 0 { block(more, N, 1) } else { vec![words(more, N)] };
            check(&format!("value {value} party {party}"), &[drawn, more].concat(), 2);
        }
    }
    let keys = |messages: [Vec<u8>; 3]| [messages[0][..32].to_vec(), messages[0][32..].to_vec()];
    let [one, other] = [deal(&[7]), deal(&[7])].map(keys);
    assert!(one.iter().all(|key| !other.contains(key)) && one[0] != one[1]);
}

/// Messages to an outsider are uniform up to their sum, even of shares that were public, and even
/// if a number is revealed twice.
#[test]
fn an_outsider_learns_the_numbers_alone() {
    let value = 9;
    let twice = revealed(|session| {
        let shares = session.public(&vec![value; N]);
        let (one, other) = (session.reveal(&shares)?, session.reveal(&shares)?);
        Ok([one, other].concat())
    });
    let once = |at: usize| twice.each_ref().map(|message| &message[8 * N * at..8 * N * (at + 1)]);
    for at in 0..2 {
        assert_eq!(combine(once(at), N).unwrap(), vec![value; N]);
    }
    // Any two of one revelation, of both.
    for left_out in 0..3 {
        let others = (0..3).filter(|party| *party != left_out);
        let atoms: Vec<_> =
            others.flat_map(|party| [0, 1].map(|at| words(once(at)[party], N))).collect();
        check(&format!("without {left_out}"), &atoms, 4);
    }
}

#[test]
fn a_session_that_failed_reveals_nothing() {
    compute(|session| {
        let count = if session.party() == PartyIndex::THIRD { 5 } else { 4 };
        let zeros = session.public(&vec![0; count]);
        let failed = session.multiply(&zeros, &zeros).is_err();
        assert_eq!(session.reveal(&zeros).is_err(), failed);
    });
}
