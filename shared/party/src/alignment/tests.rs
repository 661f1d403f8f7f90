//! The protocol between two honest parties, and of one party against another that is not. Sessions and the coordinator come in
//! `lab/tests/integration/alignment.rs`.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use vfl_core::types::RecordIds;
use vfl_protocol::alignment::{CommonIds, IdCounts, Rules, Side};
use vfl_protocol::{Refusal, RefusalKind};

use super::group::{Encoded, GroupHash, Secret};
use super::messages::{Conversation, LONGEST, Message};
use super::protocol::{Run, RunRecorder};

const PATIENCE: Duration = Duration::from_secs(20);

fn rules() -> Rules {
    Rules { max_runs: 1, max_records: 100_000, least_common: 0, out: None }
}

/// Remembers what it was told.
#[derive(Default)]
struct Notes {
    begun: Mutex<Option<IdCounts>>,
    kept: Mutex<Option<CommonIds>>,
    refuses: bool,
}

impl RunRecorder for Notes {
    fn begin(&self, sizes: IdCounts) -> Result<(), Refusal> {
        if self.refuses {
            return Err(Refusal::new(RefusalKind::ResourceExhausted, "no run is left"));
        }
        *self.begun.lock().unwrap() = Some(sizes);
        Ok(())
    }

    fn keep(&self, common: &CommonIds) -> Result<(), Refusal> {
        *self.kept.lock().unwrap() = Some(common.clone());
        Ok(())
    }
}

async fn run(
    side: Side,
    ids: &RecordIds,
    stream: DuplexStream,
    notes: &Notes,
    rules: &Rules,
    session: [u8; 32],
) -> Result<CommonIds, Refusal> {
    let peer = if side == Side::Active { "passive party `p`" } else { "active party `a`" };
    let conversation = Conversation::new(stream, peer.into(), PATIENCE);
    Run { side, ids, session, rules, conversation, keeper: notes, tell: &mut |_| () }
        .complete()
        .await
}

/// Both parties to the end.
async fn both(
    a: &RecordIds,
    p: &RecordIds,
    rules: &Rules,
) -> [(Result<CommonIds, Refusal>, Notes); 2] {
    let (left, right) = tokio::io::duplex(1 << 16);
    let (notes_a, notes_p) = (Notes::default(), Notes::default());
    let (active, passive) = tokio::join!(
        run(Side::Active, a, left, &notes_a, rules, [1; 32]),
        run(Side::Passive, p, right, &notes_p, rules, [1; 32]),
    );
    [(active, notes_a), (passive, notes_p)]
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn ids<S: AsRef<str>>(all: impl IntoIterator<Item = S>) -> RecordIds {
    RecordIds::new(all).unwrap()
}

/// Texts that are ids: 1 to 128 bytes of visible characters.
fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,12}", "\\PC{1,32}", "[é中😀a]{20,32}"]
        .prop_filter("an id", |text| RecordIds::new([text]).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Against the intersection of two sets in memory: empty, disjoint, overlapping and equal ones.
    #[test]
    fn both_parties_find_exactly_what_they_have_in_common(
        only_a in proptest::collection::hash_set(id(), 0..40),
        only_p in proptest::collection::hash_set(id(), 0..40),
        shared in proptest::collection::hash_set(id(), 0..40),
    ) {
        let a: HashSet<&String> = only_a.union(&shared).collect();
        let p: HashSet<&String> = only_p.union(&shared).collect();
        let expected: BTreeSet<&str> = a.intersection(&p).map(|id| id.as_str()).collect();
        let (a, p, rules) = (ids(a), ids(p), rules());
        let [active, passive] = block_on(both(&a, &p, &rules));
        for ((common, notes), (own, theirs)) in [(active, (a.len(), p.len())), (passive, (p.len(), a.len()))] {
            let common = common.unwrap();
            prop_assert!(common.ids.iter().eq(expected.iter().copied()), "sorted by their bytes");
            prop_assert_eq!(common.sizes, IdCounts { own: own as u64, theirs: theirs as u64 });
            let kept = notes.kept.into_inner().unwrap();
            prop_assert_eq!(kept.as_ref(), Some(&common));
            prop_assert_eq!(notes.begun.into_inner().unwrap(), Some(common.sizes));
        }
    }
}

#[test]
fn the_longest_ids_and_several_messages_are_aligned() {
    let long = |i: usize| format!("{i:0>128}");
    let (a, p) = (ids((0..9000).map(long)), ids((4500..18_000).map(long)));
    for (common, _) in block_on(both(&a, &p, &rules())) {
        assert!(
            common.unwrap().ids.iter().eq((4500..9000)
                .map(long)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str))
        );
    }
}

/// The two are nowhere near agreeing on a session: nothing is common, and both say so.
#[test]
fn points_of_another_session_match_nothing() {
    let (left, right) = tokio::io::duplex(1 << 16);
    let (all, notes, rules) = (ids(["a", "b", "c"]), Notes::default(), rules());
    let (active, passive) = block_on(async {
        tokio::join!(
            run(Side::Active, &all, left, &notes, &rules, [1; 32]),
            run(Side::Passive, &all, right, &notes, &rules, [2; 32]),
        )
    });
    assert!(active.unwrap().ids.is_empty() && passive.unwrap().ids.is_empty());
}

#[test]
fn too_few_in_common_is_told_without_the_number_and_counts() {
    let (a, p) = (ids(["a", "b", "c"]), ids(["b", "c", "d"]));
    let [(active, notes_a), (passive, notes_p)] =
        block_on(both(&a, &p, &Rules { least_common: 3, ..rules() }));
    let refused = active.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(
        refused.message.contains("fewer than 3 records in common")
            && !refused.message.contains('2'),
        "{refused}"
    );
    assert!(passive.is_err());
    for notes in [notes_a, notes_p] {
        assert!(
            notes.begun.into_inner().unwrap().is_some()
                && notes.kept.into_inner().unwrap().is_none()
        );
    }
}

#[test]
fn sets_above_the_limit_are_refused_before_any_point() {
    let (small, large) = (ids(["a"]), ids((0..20).map(|i| format!("r{i}"))));
    let limited = Rules { max_records: 10, ..rules() };
    let [(active, notes), _] = block_on(both(&small, &large, &limited));
    assert!(
        active.unwrap_err().message.contains("`max_records`")
            && notes.begun.into_inner().unwrap().is_none()
    );
}

/// A party of our own writing at the other end, which may say what it likes.
type Far = Conversation<DuplexStream>;

/// What `side` makes of a peer: its error, whether a run was begun, and what the peer gave.
fn against<T>(
    side: Side,
    own: &RecordIds,
    refuses: bool,
    peer: impl AsyncFnOnce(&mut Far) -> T,
) -> (Result<CommonIds, Refusal>, bool, T) {
    let (near, far) = tokio::io::duplex(1 << 22);
    let notes = Notes { refuses, ..Notes::default() };
    let (rules, mut far) =
        (rules(), Conversation::new(far, "the party under test".into(), PATIENCE));
    let (ended, gave) = block_on(async {
        tokio::join!(run(side, own, near, &notes, &rules, [1; 32]), async {
            let gave = peer(&mut far).await;
            drop(far);
            gave
        })
    });
    let begun = notes.begun.into_inner().unwrap().is_some();
    assert!(
        ended.is_ok() == notes.kept.into_inner().unwrap().is_some(),
        "a result is kept of a whole run alone"
    );
    (ended, begun, gave)
}

/// Through the greeting, with so many ids announced.
async fn greet(far: &mut Far, count: u64) -> u64 {
    // It takes a while to list its ids.
    far.send(&Message::Working).await.unwrap();
    far.send(&Message::Working).await.unwrap();
    far.send(&Message::Hello(count)).await.unwrap();
    let Message::Hello(theirs) = far.receive().await.unwrap() else { panic!("no greeting") };
    far.send(&Message::Working).await.unwrap();
    far.send(&Message::Ready).await.unwrap();
    assert_eq!(far.receive().await.unwrap(), Message::Ready);
    theirs
}

async fn take_points(far: &mut Far, count: u64) -> Vec<Encoded> {
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        match far.receive().await.unwrap() {
            Message::Points(points) | Message::Answers(points) => all.extend(points),
            other => panic!("{}", other.words()),
        }
    }
    all
}

/// Three honest points, ascending, above [`NO_ELEMENT`].
fn three() -> Vec<Encoded> {
    let hash = GroupHash::of_session(&[1; 32]);
    loop {
        let mut points = Secret::draw().unwrap().blind(&hash, &ids(["x", "y", "z"]), 0, 3);
        points.sort_unstable();
        // About one draw in a hundred has a point below it.
        if points[0] > NO_ELEMENT {
            return points;
        }
    }
}

/// The smallest encoding that is no element: 1 is negative in the field.
const NO_ELEMENT: Encoded = {
    let mut bytes = [0; 32];
    bytes[0] = 1;
    bytes
};

#[test]
fn points_that_are_not_what_they_should_be_are_refused() {
    let good = three();
    let [p, q, r] = [good[0], good[1], good[2]];
    let points = |all: &[Encoded]| Message::Points(all.to_vec());
    let cases: Vec<(Vec<Message>, &str)> = vec![
        (vec![points(&[p, p, q])], "point 1 is not above the one before it"),
        (vec![points(&[q, p, r])], "point 1 is not above the one before it"),
        (vec![points(&[p, q]), points(&[q])], "point 2 is not above the one before it"),
        (vec![points(&[[0; 32], p, q])], "point 0 is the identity"),
        (vec![points(&[NO_ELEMENT, p, q])], "point 0 is not the canonical encoding"),
        (vec![points(&[p, q, [0xff; 32]])], "point 2 is not the canonical encoding"),
        (vec![points(&[p, q, r, [0xff; 32]])], "announced 3 points and sent more"),
        (vec![points(&[p, q, r]), points(&[p])], "expected"),
        (vec![points(&[p, q]), Message::Answers(vec![p])], "2 of 3 points came, then answers"),
        (vec![Message::Answers(vec![p])], "0 of 3 points came, then answers"),
        (vec![Message::Done(0)], "0 of 3 points came, then done"),
        (vec![Message::Hello(3)], "0 of 3 points came, then a greeting"),
    ];
    for (messages, says) in cases {
        let own = ids(["a", "b"]);
        // The passive party takes points first, the active party after it has sent its own.
        for side in [Side::Passive, Side::Active] {
            let (ended, begun, told) = against(side, &own, false, async |far| {
                let theirs = greet(far, 3).await;
                if side == Side::Active {
                    take_points(far, theirs).await;
                }
                for message in &messages {
                    far.send(message).await.unwrap();
                }
                loop {
                    match far.receive().await {
                        Ok(_) => {}
                        Err(refusal) => return refusal,
                    }
                }
            });
            let refused = ended.unwrap_err();
            let more_at_active = says == "expected" && side == Side::Active;
            let says = match (says, side) {
                // One point too many stands where answers are due.
                ("expected", Side::Active) => "0 of 2 answers came, then points",
                ("expected", Side::Passive) => "0 of 2 answers came, then points",
                (says, _) => says,
            };
            assert!(refused.message.contains(says), "{side:?}, {says}: {refused}");
            assert_eq!(refused.kind, RefusalKind::InvalidArgument);
            assert_eq!(begun, more_at_active, "{says}: nothing of this party's has left");
            assert!(told.message.contains(says), "the other party is told: {told}");
        }
    }
}

#[test]
fn answers_that_are_not_what_they_should_be_are_refused() {
    let good = three();
    let own = ids(["a", "b", "c"]);
    let answers = |all: &[Encoded]| Message::Answers(all.to_vec());
    let [p, q, r] = [good[0], good[1], good[2]];
    let cases: Vec<(Vec<Message>, &str)> = vec![
        (vec![answers(&[p, q, p])], "two different points the same answer"),
        (vec![answers(&[p, [0; 32], q])], "answer 1 is the identity"),
        (vec![answers(&[p]), answers(&[q, NO_ELEMENT])], "answer 2 is not the canonical encoding"),
        (vec![answers(&[p, q, r, p])], "asked 3 points and sent more answers"),
        (vec![answers(&[p, q]), Message::Done(0)], "2 of 3 answers came, then done"),
        (vec![answers(&[r, p, q]), Message::Done(1)], "do not find the same number"),
        (vec![answers(&[r, p, q]), Message::Ready], "expected done, ready came"),
    ];
    for (messages, says) in cases {
        for side in [Side::Active, Side::Passive] {
            let (ended, _, ()) = against(side, &own, false, async |far| {
                let theirs = greet(far, 0).await;
                take_points(far, theirs).await;
                for message in &messages {
                    far.send(message).await.unwrap();
                }
                while far.receive().await.is_ok() {}
            });
            let refused = ended.unwrap_err();
            assert!(refused.message.contains(says), "{side:?}, {says}: {refused}");
        }
    }
}

/// What depends on a party's ids and can be stripped of the other's secret leaves only after the run is written down.
#[test]
fn no_answer_leaves_before_the_run_is_written_down() {
    let own = ids(["a", "b"]);
    for side in [Side::Active, Side::Passive] {
        let (ended, begun, after) = against(side, &own, true, async |far| {
            let theirs = greet(far, 3).await;
            let mine = three();
            if side == Side::Active {
                take_points(far, theirs).await;
                far.send(&Message::Points(mine)).await.unwrap();
            } else {
                far.send(&Message::Points(mine)).await.unwrap();
                let points = take_points(far, theirs).await;
                far.send(&Message::Answers(points)).await.unwrap();
            }
            far.receive().await
        });
        assert_eq!(ended.unwrap_err().message, "no run is left");
        assert!(
            !begun && after.unwrap_err().message.ends_with("refused: no run is left"),
            "{side:?}"
        );
    }
}

/// Two runs of the same ids, even in the same session: not a point of one stands in the other, nor an id in either. Points come
/// sorted, whatever the order of the ids.
#[test]
fn runs_of_the_same_ids_cannot_be_linked() {
    let own = ids((0..500).map(|i| format!("customer-{:03}", (i * 7) % 500)));
    let sent = || {
        let (_, _, points) = against(Side::Active, &own, false, async |far| {
            let theirs = greet(far, 3).await;
            take_points(far, theirs).await
        });
        points
    };
    let (first, second) = (sent(), sent());
    assert!(first.is_sorted() && second.is_sorted() && first.len() == 500);
    let all: HashSet<&Encoded> = first.iter().chain(&second).collect();
    assert_eq!(all.len(), 1000);
    // Who guesses an id and knows the session still lacks the secret.
    let hash = GroupHash::of_session(&[1; 32]);
    for id in own.iter() {
        let guessed = hash.point(id.as_bytes()).compress().to_bytes();
        assert!(!all.contains(&guessed));
        assert!(!first.concat().windows(id.len()).any(|bytes| bytes == id.as_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_party_is_given_up() {
    let (near, _far) = tokio::io::duplex(1 << 16);
    let notes = Notes::default();
    let refused =
        run(Side::Active, &ids(["a"]), near, &notes, &rules(), [1; 32]).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::DeadlineExceeded);
    assert!(refused.message.contains("passive party `p` was silent for 20 s"), "{refused}");
}

/// It says every few seconds that it is there, or all the time, and nothing else: before it has listed its ids, or before it has blinded them.
#[tokio::test(start_paused = true)]
async fn a_party_that_only_says_that_it_is_there_is_given_up_too() {
    for (greets, pause) in [(false, 5), (true, 5), (true, 0)] {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (notes, began) = (Notes::default(), tokio::time::Instant::now());
        let (own, rules) = (ids(["a"]), rules());
        let (ended, ()) =
            tokio::join!(run(Side::Passive, &own, near, &notes, &rules, [1; 32]), async move {
                if greets {
                    far.write_all(&Message::Hello(1).encode()).await.unwrap();
                }
                // Without a pause: as much as the other takes, and now and then the time moves on. It goes on for an hour longer.
                let mut sent = 0u64;
                while began.elapsed() < LONGEST + Duration::from_secs(3600) {
                    if far.write_all(&Message::Working.encode()).await.is_err() {
                        break;
                    }
                    sent += 1;
                    match pause {
                        0 if !sent.is_multiple_of(50) => {}
                        0 => tokio::time::advance(Duration::from_secs(10)).await,
                        seconds => tokio::time::sleep(Duration::from_secs(seconds)).await,
                    }
                }
            });
        let refused = ended.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::DeadlineExceeded);
        assert!(refused.message.contains("has not ended in 4 h"), "{refused}");
        assert!(began.elapsed() < LONGEST + Duration::from_secs(60), "{:?}", began.elapsed());
    }
}

#[test]
fn a_party_that_goes_away_is_named() {
    let (ended, begun, ()) = against(Side::Active, &ids(["a"]), false, async |far| {
        greet(far, 1).await;
    });
    let refused = ended.unwrap_err();
    assert_eq!((refused.kind, begun), (RefusalKind::Unavailable, false));
    assert!(refused.message.contains("passive party `p` went away"), "{refused}");
}

/// An active party that has one of the passive party's 6 ids makes it find 6 in common: all its answers are multiples of one of the
/// passive party's points, and its own points the same multiples of its id. It has to guess the point, so that it gets through once in
/// 6 runs. docs/alignment.md says so.
#[test]
fn a_cheat_passes_least_common_in_a_share_of_runs() {
    const LEAST: usize = 6;
    let own = ids((0..LEAST).map(|i| format!("r{i}")));
    let (rules, known) = (Rules { least_common: LEAST as u64, ..rules() }, ids(["r3"]));
    let mut passed = 0;
    for _ in 0..150 {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (notes, far) = (Notes::default(), Conversation::new(far, "p".into(), PATIENCE));
        let (_, told) = block_on(async {
            tokio::join!(run(Side::Passive, &own, near, &notes, &rules, [1; 32]), async {
                // It goes away when it has its answer.
                let mut far = far;
                let theirs = greet(&mut far, LEAST as u64).await;
                let hash = GroupHash::of_session(&[1; 32]);
                let secrets: Vec<Secret> = (0..LEAST).map(|_| Secret::draw().unwrap()).collect();
                let mut points: Vec<Encoded> =
                    secrets.iter().flat_map(|s| s.blind(&hash, &known, 0, 1)).collect();
                points.sort_unstable();
                far.send(&Message::Points(points)).await.unwrap();
                let theirs = take_points(&mut far, theirs).await;
                // Sorted, and blinded: the first is any of them.
                let answers =
                    secrets.iter().flat_map(|s| s.evaluate(&theirs[..1]).unwrap()).collect();
                far.send(&Message::Answers(answers)).await.unwrap();
                far.receive().await
            })
        });
        passed += usize::from(matches!(told, Ok(Message::Answers(_))));
    }
    // 25 expected; either bound is further off than four standard deviations.
    assert!((6..=44).contains(&passed), "{passed} of 150");
}
