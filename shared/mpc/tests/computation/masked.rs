//! Inputs under masks: what they are, what the second party is given, and what is seen of releases
//! of many records.

use vfl_mpc::{Logits, MASK_KEY_BYTES, MaskKey, MaskedInput, PartyIndex, encode_logits};

use super::compute;
use super::view::{uniform, views};

const RECORDS: usize = 20_000;
const CLASSES: usize = 3;
/// The same logits for every record: only masks can make them differ.
const LOGITS: [f64; CLASSES] = [0.5, -1.25, 0.0];

/// Records under masks, record after record.
struct Masked {
    tags: Vec<u64>,
    masks: Vec<u64>,
    numbers: Vec<u64>,
}

fn masked(key: &MaskKey, logits: &[u64], records: usize) -> Masked {
    let (mut tags, mut masks) = (Vec::new(), Vec::new());
    for record in 0..records {
        let name = format!("record {record}");
        let tag = key.tag(name.as_bytes(), logits);
        tags.extend(tag);
        key.extend(&mut masks, name.as_bytes(), tag, logits.len());
    }
    let less = |(logit, mask): (&u64, &u64)| logit.wrapping_sub(*mask);
    let numbers = logits.iter().cycle().zip(&masks).map(less).collect();
    Masked { tags, masks, numbers }
}

fn key() -> MaskKey {
    MaskKey::new([3; MASK_KEY_BYTES])
}

/// Asserts that every byte of words is uniform.
fn assert_uniform(what: &str, words: &[u64]) {
    for shift in (0..64).step_by(8) {
        let bytes: Vec<u64> = words.iter().map(|word| word >> shift & 0xff).collect();
        assert!(uniform(&bytes, 0, 8), "{what}: byte {shift}");
    }
}

/// What the second party is given of records is uniform: of one record, of the same record with
/// other numbers, and of both together. The same numbers give the same again.
#[test]
fn the_second_party_learns_that_numbers_changed_and_not_how() {
    let logits = encode_logits(&LOGITS).unwrap();
    let first = masked(&key(), &logits, RECORDS);
    let again = masked(&key(), &logits, RECORDS);
    assert!(first.numbers == again.numbers && first.tags == again.tags);
    // One unit of 2^-40 in one class.
    let mut other = logits.clone();
    other[1] += 1;
    let changed = masked(&key(), &other, RECORDS);
    let minus = |a: &[u64], b: &[u64]| -> Vec<u64> {
        a.iter().zip(b).map(|(a, b)| a.wrapping_sub(*b)).collect()
    };
    for (what, words) in [
        ("masked numbers", first.numbers.clone()),
        ("tags", first.tags.clone()),
        ("differences of masked numbers", minus(&changed.numbers, &first.numbers)),
        ("differences of tags", minus(&changed.tags, &first.tags)),
        ("numbers less tags", minus(&first.numbers, &first.tags)),
        ("classes of a record", minus(&first.numbers[1..], &first.numbers)),
        ("records", minus(&first.numbers[CLASSES..], &first.numbers)),
    ] {
        assert_uniform(what, &words);
    }
    let equal = |a: &[u64], b: &[u64]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    assert_eq!(equal(&changed.tags, &first.tags), 0);
    // Another key, and another use of one secret, have nothing in common with it.
    let secret = [3; MASK_KEY_BYTES];
    let keys = [
        MaskKey::new([4; MASK_KEY_BYTES]),
        MaskKey::derive(&secret, &[b"a", b"bc"]),
        MaskKey::derive(&secret, &[b"ab", b"c"]),
    ];
    for (at, key) in keys.iter().enumerate() {
        let there = masked(key, &logits, 1000);
        for other in keys[..at].iter().chain([&super::masked::key()]) {
            assert_eq!(equal(&there.masks, &masked(other, &logits, 1000).masks), 0);
        }
    }
    assert_eq!(format!("{:?}", key()), "MaskKey(withheld)");
}

/// Labels of 20 000 records with equal logits, of which the active party's are under masks: every
/// message that a party receives is uniform.
#[test]
fn releases_of_many_records_show_nothing_but_labels() {
    let logits = encode_logits(&LOGITS).unwrap();
    let by_class = |numbers: &[u64]| -> Vec<u64> {
        let class = |class| numbers.iter().skip(class).step_by(CLASSES).copied();
        (0..CLASSES).flat_map(class).collect()
    };
    let Masked { masks, numbers, .. } = masked(&key(), &logits, RECORDS);
    let (masks, masked) = (by_class(&masks), by_class(&numbers));
    let count = RECORDS * CLASSES;
    let views = views(|session| {
        let input = match session.party() {
            PartyIndex::FIRST => MaskedInput::Owner { masks: &masks, masked: &masked },
            PartyIndex::SECOND => MaskedInput::Masked(&masked),
            _ => MaskedInput::Masks(&masks),
        };
        let first = session.shares_masked(input, count)?;
        let mine = (session.party() == PartyIndex::THIRD).then(|| vec![1_u64 << 40; count]);
        let sum = first.plus(&session.share(PartyIndex::THIRD, mine.as_deref(), count)?)?;
        let logits = Logits::new(RECORDS, CLASSES, sum)?;
        let labels = session.release_label(PartyIndex::FIRST, &logits)?;
        assert!(labels.is_none_or(|labels| labels == vec![0; RECORDS]));
        Ok(())
    });
    for (party, view) in views.iter().enumerate() {
        assert!(view.messages.len() >= 3, "party {party}");
        for (at, message) in view.messages.iter().enumerate() {
            let bytes: Vec<u64> = message.iter().map(|byte| u64::from(*byte)).collect();
            assert!(uniform(&bytes, 0, 8), "party {party}, message {at}");
        }
    }
}

#[test]
fn a_part_that_is_another_partys_is_refused() {
    compute(|session| {
        let (short, right) = ([1_u64; 2], [1_u64; 3]);
        let parts = [
            MaskedInput::Owner { masks: &right, masked: &right },
            MaskedInput::Masked(&right),
            MaskedInput::Masks(&right),
        ];
        for (place, part) in PartyIndex::ALL.into_iter().zip(parts) {
            assert_eq!(session.shares_masked(part, 3).is_ok(), place == session.party());
        }
        let uneven = MaskedInput::Owner { masks: &right, masked: &short };
        for part in [uneven, MaskedInput::Masked(&short), MaskedInput::Masks(&short)] {
            assert!(session.shares_masked(part, 3).is_err());
        }
    });
}
