//! A party that changes one of its messages: what becomes of it at the others, for every message of
//! a protocol. The counts are those of docs/protection.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    LinkError, Logits, MASK_KEY_BYTES, MaskKey, MaskedInput, MpcError, PartyIndex, Regression,
    Session, TAG_WORDS, combine, deal, encode_logits,
};

use super::regression::{data, prepared, settings, train};
use super::tampering::{
    Change, Deviation, Knowledge, OutsidePart, Part, Protocol, SILENCE, SideLinks, Way, play,
    protocol,
};

/// The place of a data owner that does not compute.
const OUTSIDER: usize = 3;
const NAMES: [&str; 4] = ["first", "second", "third", "data owner"];

const RECORDS: usize = 61;
const CLASSES: usize = 3;

const CHANGES: [Change; 7] = [
    Change::Lowest,
    Change::Middle,
    Change::Highest,
    Change::Random,
    Change::Repeated,
    Change::Shortened,
    Change::Empty,
];

/// The fate of a changed message. Of several errors the first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// An error at its receiver names the sender.
    Named,
    /// No inputs have the result that is opened: an error that names nobody.
    Refused,
    /// The result is wrong, without a word.
    Wrong,
    /// The result is right.
    Unchanged,
    /// A party that waits for a message, a panic, an error that names another party.
    Fault,
}

fn fate(protocol: &Protocol, deviation: Deviation) -> Fate {
    let (learnt, _) = play(protocol, Some(deviation));
    let Deviation { way: (from, to, beside), .. } = deviation;
    let is_sender =
        |party: &PartyIndex| PartyIndex::ALL.iter().position(|p| p == party) == Some(from);
    let silent = |learnt: &Knowledge| match learnt {
        None => true,
        Some(Err(MpcError::Link { error, .. })) => matches!(error, LinkError::Silent(_)),
        Some(_) => false,
    };
    if learnt.iter().any(silent) {
        return Fate::Fault;
    }
    match &learnt[to] {
        Some(Err(MpcError::MessageLength { party, .. } | MpcError::Disagreement { party, .. })) => {
            return if is_sender(party) { Fate::Named } else { Fate::Fault };
        }
        Some(Err(MpcError::DealtLength { .. })) if from == OUTSIDER => return Fate::Named,
        // The numbers of the first party, and the tags, come from one place alone.
        Some(Err(MpcError::Shape { .. })) if beside => return Fate::Named,
        _ => {}
    }
    let refused = |learnt: &Knowledge| matches!(learnt, Some(Err(MpcError::NoResult { .. })));
    if learnt.iter().any(refused) {
        return Fate::Refused;
    }
    let mut right = true;
    for (learnt, expected) in learnt.iter().zip(&protocol.expected) {
        let Some(Ok(learnt)) = learnt else { return Fate::Fault };
        let near = |(one, other): (&f64, &f64)| (one - other).abs() <= protocol.close;
        right &= learnt.len() == expected.len() && learnt.iter().zip(expected).all(near);
    }
    if right { Fate::Unchanged } else { Fate::Wrong }
}

/// The logits of two owners, class after class. No two sums of a record are near each other, and
/// no score is near a tie of its rounding to two decimals.
struct World {
    first: Vec<f64>,
    other: Vec<f64>,
}

impl World {
    fn new() -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(11);
        let (mut first, mut other) = (vec![0.0; RECORDS * CLASSES], vec![0.0; RECORDS * CLASSES]);
        for record in 0..RECORDS {
            loop {
                let mut draw = || [0; CLASSES].map(|_| 6.0 * rng.random::<f64>() - 3.0);
                let (one, more) = (draw(), draw());
                let z: Vec<f64> = one.iter().zip(&more).map(|(a, b)| a + b).collect();
                let apart = |a: usize, b: usize| (z[a] - z[b]).abs() > 0.2;
                let tied = |score: &f64| ((100.0 * score).fract() - 0.5).abs() < 0.02;
                if apart(0, 1) && apart(0, 2) && apart(1, 2) && !softmax(&z).iter().any(tied) {
                    for class in 0..CLASSES {
                        first[class * RECORDS + record] = one[class];
                        other[class * RECORDS + record] = more[class];
                    }
                    break;
                }
            }
        }
        Self { first, other }
    }

    /// Applies a function to the logits of each record.
    fn records(&self, of: impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
        let at = |record: usize| {
            let z =
                |class| self.first[class * RECORDS + record] + self.other[class * RECORDS + record];
            of(&(0..CLASSES).map(z).collect::<Vec<_>>())
        };
        (0..RECORDS).map(at).collect()
    }
}

fn softmax(z: &[f64]) -> Vec<f64> {
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    z.iter().map(|z| z.exp() / sum).collect()
}

/// Returns the classes of a record, the largest logit first.
fn order(z: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..CLASSES).collect();
    order.sort_by(|a, b| z[*b].total_cmp(&z[*a]));
    order.into_iter().map(|class| class as f64).collect()
}

/// Orders the numbers of records class after class.
fn by_class(records: &[Vec<f64>]) -> Vec<f64> {
    (0..CLASSES).flat_map(|class| records.iter().map(move |of| of[class])).collect()
}

/// A release to the first party, as numbers.
type Release = fn(&mut Session, &Logits) -> Result<Option<Vec<f64>>, MpcError>;

fn label(session: &mut Session, logits: &Logits) -> Result<Option<Vec<f64>>, MpcError> {
    let labels = session.release_label(PartyIndex::FIRST, logits)?;
    Ok(labels.map(|labels| labels.iter().map(|label| *label as f64).collect()))
}

fn ranking(session: &mut Session, logits: &Logits) -> Result<Option<Vec<f64>>, MpcError> {
    let orders = session.release_ranking(PartyIndex::FIRST, logits)?;
    Ok(orders.map(|orders| orders.concat().iter().map(|class| *class as f64).collect()))
}

fn scores(session: &mut Session, logits: &Logits) -> Result<Option<Vec<f64>>, MpcError> {
    session.release_scores(PartyIndex::FIRST, logits)
}

fn rounded(session: &mut Session, logits: &Logits) -> Result<Option<Vec<f64>>, MpcError> {
    let rounded = session.release_rounded_scores(PartyIndex::FIRST, logits, 2)?;
    Ok(rounded.map(|words| words.iter().map(|word| f64::from(*word)).collect()))
}

/// The release of sums of the logits of the first and the third party.
fn release(name: &'static str, world: &Arc<World>, of: Release, expected: Vec<f64>) -> Protocol {
    let world = world.clone();
    let part: Part = Arc::new(move |session: &mut Session, _: &mut SideLinks| {
        let mut input = |owner: PartyIndex, values: &[f64]| {
            let mine = (session.party() == owner).then_some(values);
            session.share_logits(owner, mine, RECORDS, CLASSES)
        };
        let first = input(PartyIndex::FIRST, &world.first)?;
        let sum = first.plus(&input(PartyIndex::THIRD, &world.other)?)?;
        Ok(of(session, &sum)?.unwrap_or_default())
    });
    protocol(name, part, [expected, vec![], vec![], vec![]], 1e-9)
}

/// The agreement before a computation.
fn greeting() -> Protocol {
    let part = Arc::new(|session: &mut Session, _: &mut SideLinks| {
        let opened = session.open(&session.public(&[5]))?;
        Ok(opened.iter().map(|word| *word as f64).collect())
    });
    let five = || vec![5.0];
    protocol("greeting", part, [five(), five(), five(), vec![]], 0.0)
}

/// The release of labels of which the first party's logits are under masks: it gives the second
/// party tags and masked numbers, which passes the tags on to the third.
fn masked(world: &Arc<World>, labels: Vec<f64>) -> Protocol {
    let world = world.clone();
    let name = |record: usize| format!("record {record}").into_bytes();
    let masks_of = move |key: &MaskKey, tags: &[u64]| {
        let mut by_record = Vec::new();
        for (record, tag) in tags.as_chunks::<TAG_WORDS>().0.iter().enumerate() {
            key.extend(&mut by_record, &name(record), *tag, CLASSES);
        }
        let of_class = |class| by_record.iter().skip(class).step_by(CLASSES).copied();
        (0..CLASSES).flat_map(of_class).collect::<Vec<u64>>()
    };
    let part = Arc::new(move |session: &mut Session, beside: &mut SideLinks| {
        let (key, count) = (MaskKey::new([3; MASK_KEY_BYTES]), RECORDS * CLASSES);
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shares = match session.party() {
            PartyIndex::FIRST => {
                let logits = encode_logits(&world.first)?;
                let of = |record| (0..CLASSES).map(move |class| class * RECORDS + record);
                let tag = |record| {
                    key.tag(&name(record), &of(record).map(|at| logits[at]).collect::<Vec<_>>())
                };
                let tags: Vec<u64> = (0..RECORDS).flat_map(tag).collect();
                let masks = masks_of(&key, &tags);
                let less = |(logit, mask): (&u64, &u64)| logit.wrapping_sub(*mask);
                let masked: Vec<u64> = logits.iter().zip(&masks).map(less).collect();
                beside.send(1, bytes(&tags))?;
                beside.send(1, bytes(&masked))?;
                session.shares_masked(MaskedInput::Owner { masks: &masks, masked: &masked }, count)
            }
            PartyIndex::SECOND => {
                let (tags, masked) = (beside.receive_words(0)?, beside.receive_words(0)?);
                let (expected, got) = (RECORDS * TAG_WORDS, tags.len());
                if got != expected {
                    return Err(MpcError::Shape { what: "the tags", expected, got });
                }
                beside.send(2, bytes(&tags))?;
                session.shares_masked(MaskedInput::Masked(&masked), count)
            }
            _ => {
                let masks = masks_of(&key, &beside.receive_words(1)?);
                session.shares_masked(MaskedInput::Masks(&masks), count)
            }
        }?;
        let first = Logits::new(RECORDS, CLASSES, shares)?;
        let mine = (session.party() == PartyIndex::THIRD).then_some(&world.other[..]);
        let sum =
            first.plus(&session.share_logits(PartyIndex::THIRD, mine, RECORDS, CLASSES)?)?;
        Ok(label(session, &sum)?.unwrap_or_default())
    });
    protocol("masked inputs", part, [labels, vec![], vec![], vec![]], 0.0)
}

/// Squares of numbers that a data owner deals and has revealed to it.
fn dealt() -> Protocol {
    let numbers: Vec<u64> = (1..=RECORDS as u64).collect();
    let squares = numbers.iter().map(|number| (number * number) as f64).collect();
    let part = Arc::new(|session: &mut Session, beside: &mut SideLinks| {
        let x = session.shares_dealt(&beside.receive(OUTSIDER)?, RECORDS)?;
        let square = session.multiply(&x, &x)?;
        beside.send(OUTSIDER, session.reveal(&square)?)?;
        Ok(Vec::new())
    });
    let outside: OutsidePart = Arc::new(move |beside: &mut SideLinks| {
        for (to, message) in deal(&numbers).into_iter().enumerate() {
            beside.send(to, message)?;
        }
        let [one, two, three] = [beside.receive(0)?, beside.receive(1)?, beside.receive(2)?];
        let squares = combine([&one, &two, &three], RECORDS)?;
        Ok(squares.iter().map(|square| *square as f64).collect())
    });
    let expected = [vec![], vec![], vec![], squares];
    Protocol { outside: Some(outside), ..protocol("dealt inputs", part, expected, 0.0) }
}

/// A training of two epochs, of which the second is better. Each owner learns its own weights, and
/// all learn the epochs.
fn training() -> Protocol {
    let (records, validation) = (48, 24);
    let of = Regression { penalty: 0.0, validation, patience: 2, ..settings(2) };
    let prepare = |seed| {
        let (blocks, labels) = data(records, seed);
        let whitened = prepared(&blocks, records - validation);
        let features = of.prepare(whitened.as_slice(), records);
        let trained = of.train_in_the_clear(&features, labels.as_slice(), records);
        (trained.best_epoch == 2).then_some((features, labels, trained.weights))
    };
    let (features, labels, weights) = (1..100).find_map(prepare).unwrap();
    let d = features.len() / records;
    let k = labels.ncols();
    let owned = move |columns: std::ops::Range<usize>, weights: &[f64]| -> Vec<f64> {
        let of_class = |class| columns.clone().map(move |column| class * d + column);
        (0..k).flat_map(of_class).map(|at| weights[at]).collect()
    };
    let epochs = vec![2.0, 2.0];
    let [first, third] = [0..3, 3..d - 1].map(|at| [&epochs[..], &owned(at, &weights)].concat());
    let features = nalgebra::DMatrix::from_vec(records, d, features);
    let part = Arc::new(move |session: &mut Session, _: &mut SideLinks| {
        let result = train(session, of, &features, &labels, &mut |_| true)?;
        let weights = result.weights.transpose().into_shares();
        let (own, rest) = weights.split_at(3 * k);
        let (others, _) = rest.split_at((d - 4) * k);
        let opened = session.open_to(PartyIndex::FIRST, &own)?;
        let opened = opened.or(session.open_to(PartyIndex::THIRD, &others)?);
        let weights = of.fixed.decode(&opened.unwrap_or_default());
        let width = weights.len() / k;
        let by_class = (0..k).flat_map(|class| (0..width).map(move |at| at * k + class));
        let counts = [result.epochs as f64, result.best_epoch as f64];
        Ok(counts.into_iter().chain(by_class.map(|at| weights[at])).collect())
    });
    protocol("training", part, [first, epochs, third, vec![]], 400.0 * of.fixed.unit())
}

/// Returns true for a message of the training on which its last comparison alone depends, by its
/// place from the first and from the last one of its way, `count` in all. A single bit decides
/// there, so that chance has a part in what a change does.
fn is_of_comparison((from, to, _): Way, at: usize, count: usize) -> bool {
    // The score of the first epoch, with which that of the second is compared; then the messages
    // of 17 truncations that follow the last weights, of the comparison, and of the opening. Of the
    // last weights the second party opens nothing that the third has sent it.
    let (before, last, opening) = match (from, to) {
        (0, 1) => (&[][..], 34 + 2, 0),
        (0, _) => (&[1][..], 6, 0),
        (1, 2) => (&[][..], 1, 1),
        (1, _) => (&[39][..], 34 + 7, 0),
        (2, 0) => (&[][..], 2, 1),
        _ => (&[39, 40, 42][..], 34 + 6, 0),
    };
    before.contains(&at) || (at < count - opening && at + last + opening >= count)
}

/// A line of the table, before its counts: the protocol and the sender.
type Line = (&'static str, usize);

/// Returns the fates of all changes of all messages, by the lines of the table.
fn fates(protocols: Vec<Protocol>) -> BTreeMap<(Line, Change), BTreeMap<Fate, usize>> {
    let mut cases = Vec::new();
    for (number, protocol) in protocols.iter().enumerate() {
        let (learnt, counts) = play(protocol, None);
        for (learnt, expected) in learnt.iter().zip(&protocol.expected) {
            let learnt = learnt.as_ref().unwrap().as_ref().unwrap();
            let off = learnt.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(
                learnt.len() == expected.len() && off <= protocol.close,
                "{}: {off}",
                protocol.name
            );
        }
        for way in (0..32).map(|at| (at / 4 % 4, at % 4, at >= 16)) {
            let count = counts.of(way);
            // All protocols begin with the same message.
            let of = match (protocol.name, way.2) {
                ("greeting", _) => 0..1.min(count),
                (_, false) => 1.min(count)..count,
                (_, true) => 0..count,
            };
            for at in of {
                let in_comparison = protocol.name == "training" && is_of_comparison(way, at, count);
                let name = if in_comparison { COMPARISON } else { protocol.name };
                let deviations = CHANGES.map(|change| Deviation { way, at, change });
                cases.extend(deviations.map(|deviation| (number, name, deviation)));
            }
        }
    }
    let (protocols, left) = (Arc::new(protocols), Arc::new(Mutex::new(cases.clone())));
    let (tell, told) = channel();
    for _ in 0..4 {
        let (protocols, left, tell) = (protocols.clone(), left.clone(), tell.clone());
        std::thread::spawn(move || {
            loop {
                let Some((number, name, deviation)) = left.lock().unwrap().pop() else { break };
                // Few of the random masks hide a change: what is spoiled once counts as spoiled.
                let tries = if name == COMPARISON { 1 } else { TRIES };
                let mut fates = (0..tries).map(|_| fate(&protocols[number], deviation));
                let spoiled = fates.find(|fate| *fate != Fate::Unchanged);
                let fate = spoiled.unwrap_or(Fate::Unchanged);
                tell.send((name, deviation, fate)).unwrap();
            }
        });
    }
    let (mut fates, mut faults) = (BTreeMap::<_, BTreeMap<Fate, usize>>::new(), Vec::new());
    for _ in cases {
        let told = told.recv_timeout(3 * SILENCE);
        let (name, deviation, fate) = told.expect("a computation does not end");
        let Deviation { way, change, .. } = deviation;
        let misshapen = matches!(change, Change::Shortened | Change::Empty);
        if fate == Fate::Fault || (misshapen && fate != Fate::Named) {
            faults.push(format!("{name} {deviation:?}: {fate:?}"));
        }
        *fates.entry(((name, way.0), change)).or_default().entry(fate).or_default() += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    fates
}

/// The runs after which a result counts as unchanged. One message of the training carries a bit of
/// which the result depends in every second run.
const TRIES: usize = 30;
const COMPARISON: &str = "its last comparison";

#[test]
fn every_changed_message_has_the_fate_that_is_stated() {
    let world = Arc::new(World::new());
    let labels: Vec<f64> = world.records(order).iter().map(|order| order[0]).collect();
    let rounded_scores = |z: &[f64]| softmax(z).iter().map(|s| (100.0 * s).round()).collect();
    let protocols = vec![
        greeting(),
        masked(&world, labels.clone()),
        dealt(),
        release("label", &world, label, labels),
        release("ranking", &world, ranking, world.records(order).concat()),
        release("exact scores", &world, scores, by_class(&world.records(softmax))),
        release("rounded scores", &world, rounded, by_class(&world.records(rounded_scores))),
        training(),
    ];
    let names: Vec<_> = protocols.iter().map(|of| of.name).chain([COMPARISON]).collect();
    let fates = fates(protocols);
    let (mut table, mut refusing) = (String::new(), BTreeSet::new());
    for line in names.into_iter().flat_map(|name| (0..4).map(move |from| (name, from))) {
        let of = |change| fates.get(&(line, change));
        let Some(all) = of(Change::Random) else { continue };
        let messages: usize = all.values().sum();
        write!(table, "| {} | {} | {messages} |", line.0, NAMES[line.1]).unwrap();
        for change in &CHANGES[..5] {
            let counts = of(*change).unwrap();
            let count = |fate| counts.get(&fate).copied().unwrap_or(0);
            if count(Fate::Refused) > 0 {
                refusing.insert(line.0);
            }
            // If a result that is spoiled is a possible one may be by chance.
            let spoiled = count(Fate::Wrong) + count(Fate::Refused);
            let cell = [(spoiled, 's'), (count(Fate::Unchanged), 'u'), (count(Fate::Named), 'n')];
            let cell = cell.into_iter().filter(|(count, _)| *count > 0);
            let cell: Vec<_> = cell.map(|(count, letter)| format!("{count} {letter}")).collect();
            let cell = if line.0 == COMPARISON { "by chance".into() } else { cell.join(", ") };
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    let ranges =
        ["exact scores", COMPARISON, "label", "masked inputs", "ranking", "rounded scores"];
    assert_eq!(refusing, BTreeSet::from(ranges));
    let page = include_str!("../../../../docs/protection.md");
    let is_stated = |line: &str| page.lines().any(|stated| is_row(stated, line));
    assert!(table.lines().all(is_stated), "docs/protection.md must say\n{table}");
}

/// Returns true if a row of the page says what was found. A change of one message of the rounded scores spoils a result in fewer than one of
/// a thousand runs, and so in one of some dozens of tables: one more than stated may be spoiled.
fn is_row(stated: &str, found: &str) -> bool {
    let cells =
        |row: &str| -> Vec<String> { row.split('|').map(|c| c.trim().to_owned()).collect() };
    let (stated, found) = (cells(stated), cells(found));
    let count = |cell: &str, letter: char| -> usize {
        let of = cell.split(", ").find_map(|part| part.strip_suffix(letter));
        of.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    let is_cell = |(stated, found): (&String, &String)| {
        let more = count(found, 's').checked_sub(count(stated, 's'));
        let spoiled_by_chance = more == Some(1)
            && count(found, 'u') + 1 == count(stated, 'u')
            && count(found, 'n') == count(stated, 'n');
        stated == found || spoiled_by_chance
    };
    stated.len() == found.len()
        && stated.iter().zip(&found).take(4).all(|(stated, found)| stated == found)
        && stated.iter().zip(&found).skip(4).all(is_cell)
}

#[test]
fn a_row_says_what_was_found_or_one_spoiled_by_chance() {
    let page = "| rounded scores | third | 38 | 37 s, 1 u | 38 s | 4 s, 34 n |";
    assert!(is_row(page, page));
    assert!(is_row(page, "| rounded scores | third | 38 | 38 s | 38 s | 4 s, 34 n |"));
    for other in [
        "| rounded scores | third | 38 | 36 s, 2 u | 38 s | 4 s, 34 n |",
        "| rounded scores | third | 38 | 37 s, 1 u | 38 s | 5 s, 33 n |",
        "| rounded scores | first | 38 | 37 s, 1 u | 38 s | 4 s, 34 n |",
        "| rounded scores | third | 39 | 37 s, 1 u | 38 s | 4 s, 34 n |",
    ] {
        assert!(!is_row(page, other), "{other}");
    }
}
