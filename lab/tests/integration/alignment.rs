//! Alignments over real sockets, and what a coordinator that does not carry them faithfully gets.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::{PartyName, RecordIds};
use vfl_party::alignment::{Aligner, runs};
use vfl_protocol::alignment::{
    CompletedRun, Frame, FrameSender, Frames, Progress, Rules, Side, Summary,
};
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::align_job_event::Event;
use vfl_protocol::{Refusal, RefusalKind, pb};
use vfl_server::service::{Credentials, Role};
use vfl_testbed::deployment::{AlignmentRuns, Deployment};

use super::support::{active_client, coordinator_client, dataset, spec, split};

/// The records of a table at these positions.
pub(super) fn part(table: &FeatureTable, positions: &[usize]) -> FeatureTable {
    let labels = table.labels().map(|all| positions.iter().map(|&p| all[p]).collect());
    let block = table.fetch_at(positions).unwrap();
    FeatureTable::new(table.schema().clone(), table.ids().select(positions), block, labels).unwrap()
}

/// Parties that hold 1200 records each, of which some are common, with rules for alignments; and the ids in common, sorted.
pub(super) async fn parties(
    dir: &Path,
    alignment: Option<AlignmentRuns>,
) -> (Deployment, RecordIds) {
    let dataset = dataset();
    let split = split(&dataset, 1, 2);
    let mut spec = spec(dir, &dataset, &split);
    spec.alignment = alignment;
    // Each party has its records in an order of its own, so that the first ones are others.
    let some: Vec<usize> = (0..1200).collect();
    let passive = part(&spec.tables.passive[0].1, &some);
    spec.tables.active = part(&spec.tables.active, &some);
    let held: BTreeSet<&str> = passive.ids().iter().collect();
    let common: BTreeSet<String> =
        spec.tables.active.ids().iter().filter(|id| held.contains(id)).map(str::to_owned).collect();
    assert!((100..1100).contains(&common.len()), "{} of 1200 are common", common.len());
    spec.tables.passive[0].1 = passive;
    (Deployment::start(spec).await.unwrap(), RecordIds::new(common).unwrap())
}

/// Asks the active party's service, as its command does.
async fn ask(
    deployment: &Deployment,
    ids: Option<&RecordIds>,
) -> Result<(RecordIds, Summary), Status> {
    ask_of(active_client(deployment), ids).await
}

pub(super) async fn ask_of(
    mut client: ActivePartyClient<tonic::transport::Channel>,
    ids: Option<&RecordIds>,
) -> Result<(RecordIds, Summary), Status> {
    let request =
        pb::AlignJobRequest { passive_party: "passive-1".into(), ids: ids.map(Into::into) };
    let mut events = client.align(tokio_stream::once(request)).await?.into_inner();
    let mut common = Vec::new();
    while let Some(event) = events.message().await? {
        match event.event.unwrap() {
            Event::Progress(p) => assert!(p.done <= p.total),
            Event::Common(ids) => {
                common.extend(RecordIds::try_from(ids).unwrap().iter().map(str::to_owned))
            }
            Event::Done(summary) => return Ok((RecordIds::new(common).unwrap(), summary.into())),
        }
    }
    panic!("the alignment ended without a word");
}

/// The same, once the parties and the coordinator have noticed that the last run has ended.
async fn align(
    deployment: &Deployment,
    ids: Option<&RecordIds>,
) -> Result<(RecordIds, Summary), Status> {
    for _ in 0..100 {
        match ask(deployment, ids).await {
            Err(refused) if refused.code() == Code::Aborted => {
                tokio::time::sleep(Duration::from_millis(100)).await
            }
            ended => return ended,
        }
    }
    panic!("the last run never ended");
}

pub(super) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Files of ids in a party's state directory.
pub(super) fn results(state_dir: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(state_dir.join("alignments")) else { return Vec::new() };
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "runs.json");
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn both_parties_end_with_the_ids_in_common_and_no_further_run_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let rules = AlignmentRuns { max_runs: 2, least_common: 100 };
    let (deployment, expected) = parties(dir.path(), Some(rules)).await;
    let (common, summary) = align(&deployment, None).await.unwrap();
    assert_eq!(common, expected);
    assert_eq!((summary.sizes.own, summary.sizes.theirs), (1200, 1200));
    assert_eq!((summary.common as usize, summary.run, summary.runs_left), (expected.len(), 1, 1));
    let files = [
        dir.path().join("active/alignments/1-passive-1.ids"),
        dir.path().join("passive-1/alignments/1-active.ids"),
    ];
    for file in &files {
        assert!(lines(file).iter().map(String::as_str).eq(expected.iter()), "{}", file.display());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    // A list, with too few in common for the passive party.
    let few = expected.slice(0, 99);
    let refused = align(&deployment, Some(&few)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("fewer than 100 records in common"), "{refused}");
    // Both runs count, the second one too, and a restart changes nothing.
    for again in [false, true] {
        let refused = align(&deployment, None).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{again}: {refused}");
        assert!(refused.message().contains("`max_runs = 2`"), "{refused}");
    }
    deployment.stop().await.unwrap();
    let (deployment, _) = parties(dir.path(), Some(rules)).await;
    // The passive party counts for itself: here the active party has forgotten.
    std::fs::remove_dir_all(dir.path().join("active/alignments")).unwrap();
    let refused = align(&deployment, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("2 alignments with `active` have begun"), "{refused}");
    deployment.stop().await.unwrap();
    let at = |name: &str| runs(&dir.path().join(name)).unwrap();
    assert_eq!(
        at("passive-1").iter().map(|run| run.ended.is_some()).collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(at("passive-1")[0].theirs, 1200);
    assert_eq!(at("passive-1")[1].theirs, 99);
    assert_eq!(results(&dir.path().join("passive-1")), ["1-active.ids"]);
}

/// Runs a party of our own through the deployment's coordinator. As soon as it tells of this stage, nothing that it says arrives any
/// more, and it stops.
async fn stop_at(stage: &str, aligner: &Aligner, ids: &RecordIds, deployment: &Deployment) {
    for _ in 0..100 {
        let cut = Arc::new(AtomicBool::new(false));
        let (frames, out) = through_the_coordinator(deployment, cut.clone()).await;
        let (seen, mut stop) = mpsc::unbounded_channel();
        let mut tell = |progress: Progress| {
            if progress.stage == stage {
                cut.store(true, Ordering::SeqCst);
                let _ = seen.send(());
            }
        };
        let turn = aligner.turn(PartyName::new("passive-1").unwrap()).unwrap();
        let ended = tokio::select! {
            biased;
            _ = stop.recv() => return,
            ended = turn.run(ids, frames, out, &mut tell) => ended.unwrap_err(),
        };
        // A long piece of work may have ended for want of the other party before the stop was heard.
        if cut.load(Ordering::SeqCst) {
            return;
        }
        // The parties may not have noticed yet that the last one was cut off.
        assert_eq!(ended.kind, RefusalKind::Aborted, "{ended}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the last run never ended");
}

fn rules() -> Rules {
    Rules { max_runs: 10, max_records: 100_000, least_common: 0, out: None }
}

/// Frames to and from the deployment's coordinator, as the active party opens them.
async fn through_the_coordinator(
    deployment: &Deployment,
    cut: Arc<AtomicBool>,
) -> (Frames, FrameSender) {
    let (out, frames) = mpsc::channel(4);
    out.send(Ok(Frame::Start(PartyName::new("passive-1").unwrap()))).await.unwrap();
    let frames = ReceiverStream::new(frames)
        .take_while(move |_| !cut.load(Ordering::SeqCst))
        .map(|frame: Result<Frame, Refusal>| pb::AlignmentFrame::from(frame.unwrap()));
    let answers =
        coordinator_client(deployment, Role::ActiveParty).align(frames).await.unwrap().into_inner();
    let answers = answers.map(|frame| {
        Ok(Frame::try_from(
            frame.map_err(|s| Refusal::new(RefusalKind::from_code(s.code()), s.message()))?,
        )?)
    });
    (Box::pin(answers), out)
}

/// What is cut off before anything depends on a party's ids is free, what is cut off later counts, and no file is left of either.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cut_off_counts_from_its_first_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (deployment, _) =
        parties(dir.path(), Some(AlignmentRuns { max_runs: 2, least_common: 0 })).await;
    let own = tempfile::tempdir().unwrap();
    let aligner =
        Aligner::open(Side::Active, &deployment.active_credentials, own.path(), rules()).unwrap();
    let ids = RecordIds::new((0..30_000).map(|i| format!("r{i}"))).unwrap();
    let counts =
        || (runs(own.path()).unwrap().len(), runs(&dir.path().join("passive-1")).unwrap().len());
    for (stage, expected) in [
        ("blinding ids", (0, 0)),
        // Its answers are about to leave.
        ("multiplying the other party's points", (1, 0)),
        ("taking answers", (2, 1)),
    ] {
        stop_at(stage, &aligner, &ids, &deployment).await;
        assert_eq!(counts(), expected, "{stage}");
    }
    let state = dir.path().join("passive-1");
    assert_eq!(runs(&state).unwrap()[0].ended, None);
    assert!(results(&state).is_empty() && results(own.path()).is_empty());
    // One is left, and it works.
    let (_, summary) = align(&deployment, None).await.unwrap();
    assert_eq!(summary.sizes.theirs, 1200);
    assert_eq!(align(&deployment, None).await.unwrap_err().code(), Code::ResourceExhausted);
    deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_alignment_runs_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (deployment, _) =
        parties(dir.path(), Some(AlignmentRuns { max_runs: 5, least_common: 0 })).await;
    // The first one waits for its first piece.
    let first = through_the_coordinator(&deployment, Arc::default()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let refused = ask(&deployment, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused}");
    drop(first);
    align(&deployment, None).await.unwrap();
    deployment.stop().await.unwrap();
}

/// Two parties without a coordinator of ours between them: whoever carries the frames is the test.
struct Between {
    dir: TempDir,
    active: Credentials,
    passive: Credentials,
    coordinator: Credentials,
    other_active: Credentials,
}

/// What is done to the frames in one direction: what goes on in the place of each.
type Hand = Box<dyn FnMut(Bytes) -> Vec<Bytes> + Send>;

fn faithful() -> Hand {
    Box::new(|bytes| vec![bytes])
}

/// Keeps what it carries.
fn recording(to: &Arc<Mutex<Vec<Bytes>>>) -> Hand {
    let to = to.clone();
    Box::new(move |bytes| {
        to.lock().unwrap().push(bytes.clone());
        vec![bytes]
    })
}

impl Between {
    fn new() -> Self {
        let authority = vfl_testbed::certs::Authority::new("cloison.demo", 1).unwrap();
        let issue = |role, name: &str| {
            Credentials::new(&authority.issue(role, &PartyName::new(name).unwrap()).unwrap())
                .unwrap()
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            active: issue(Role::ActiveParty, "active"),
            passive: issue(Role::PassiveParty, "passive-1"),
            coordinator: issue(Role::Coordinator, "coordinator"),
            other_active: issue(Role::ActiveParty, "other"),
        }
    }

    /// One run with these credentials at the two ends.
    async fn run(
        &self,
        (active, a): (&Credentials, &RecordIds),
        (passive, p): (&Credentials, &RecordIds),
        (up, down): (Hand, Hand),
    ) -> (Result<CompletedRun, Refusal>, Result<CompletedRun, Refusal>) {
        let open = |side, credentials, name: &str| {
            Aligner::open(side, credentials, &self.dir.path().join(name), rules()).unwrap()
        };
        let (lead, follow) = (open(Side::Active, active, "a"), open(Side::Passive, passive, "p"));
        let (to_p, frames_p) = carry(up);
        let (to_a, frames_a) = carry(down);
        let (to, from) = (PartyName::new("passive-1").unwrap(), PartyName::new("active").unwrap());
        let (lead, follow) = (lead.turn(to).unwrap(), follow.turn(from).unwrap());
        let (mut told_a, mut told_p) = (|_| (), |_| ());
        tokio::join!(
            lead.run(a, frames_a, to_p, &mut told_a),
            follow.run(p, frames_p, to_a, &mut told_p)
        )
    }

    fn runs(&self) -> (usize, usize) {
        let count = |name: &str| runs(&self.dir.path().join(name)).unwrap().len();
        (count("a"), count("p"))
    }

    fn results(&self) -> usize {
        ["a", "p"].iter().map(|name| results(&self.dir.path().join(name)).len()).sum()
    }
}

fn carry(mut hand: Hand) -> (FrameSender, Frames) {
    let (out, mut frames) = mpsc::channel::<Result<Frame, Refusal>>(4);
    let (on, carried) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Some(Ok(Frame::Sealed(bytes))) = frames.recv().await {
            for bytes in hand(bytes) {
                let _ = on.send(Ok(Frame::Sealed(bytes))).await;
            }
        }
    });
    (out, Box::pin(ReceiverStream::new(carried)))
}

fn people(range: std::ops::Range<usize>) -> RecordIds {
    RecordIds::new(range.map(|i| format!("person-{i:05}"))).unwrap()
}

/// What the coordinator sees: no id, no two frames alike between runs of the same sets, and as many bytes whether the parties have
/// everything in common or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_carries_an_alignment_learns_its_sizes_alone() {
    let between = Between::new();
    let mut transcripts = Vec::new();
    for passive in [people(0..400), people(0..400), people(400..800)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hands = (recording(&seen), recording(&seen));
        let ends = between
            .run((&between.active, &people(0..400)), (&between.passive, &passive), hands)
            .await;
        let common = ends.0.unwrap().common.ids.len();
        assert_eq!(common, ends.1.unwrap().common.ids.len());
        assert_eq!(common, if passive == people(0..400) { 400 } else { 0 });
        transcripts.push(std::mem::take(&mut *seen.lock().unwrap()).concat());
    }
    for transcript in &transcripts {
        assert!(transcript.len() > 4 * 400 * 32);
        for word in ["person", "-00001", "00399", "alignment-id"] {
            assert!(
                !transcript.windows(word.len()).any(|bytes| bytes == word.as_bytes()),
                "{word}"
            );
        }
        // A signature is a few bytes longer or shorter.
        assert!(transcript.len().abs_diff(transcripts[0].len()) < 40, "{}", transcript.len());
    }
    let pieces = |transcript: &[u8]| -> BTreeSet<[u8; 16]> {
        transcript.windows(16).map(|bytes| bytes.try_into().unwrap()).collect()
    };
    // Certificates travel encrypted too; the greeting of TLS is what two runs may share.
    let shared = pieces(&transcripts[0]).intersection(&pieces(&transcripts[1])).count();
    assert!(shared < 200, "{shared} of {} pieces", transcripts[0].len());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_take_the_place_of_a_party() {
    let between = Between::new();
    let all = people(0..50);
    let good = [(&between.active, &all), (&between.passive, &all)];
    for (active, passive, who) in [
        (good[0], (&between.coordinator, &all), "the coordinator as the passive party"),
        ((&between.coordinator, &all), good[1], "the coordinator as the active party"),
        ((&between.other_active, &all), good[1], "another active party"),
        (good[0], (&between.other_active, &all), "an active party as the passive party"),
    ] {
        let (at_active, at_passive) = between.run(active, passive, (faithful(), faithful())).await;
        let (honest, cheat) = if active.0.identity() == good[0].0.identity() {
            (at_active, at_passive)
        } else {
            (at_passive, at_active)
        };
        let refused = honest.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Unauthenticated, "{who}: {refused}");
        assert!(refused.message.contains("certificate says"), "{who}: {refused}");
        assert!(cheat.is_err(), "{who}");
    }
    assert_eq!((between.runs(), between.results()), ((0, 0), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_changed_dropped_or_replayed_end_a_run() {
    let between = Between::new();
    let all = people(0..3000);
    let ends = |hands| between.run((&between.active, &all), (&between.passive, &all), hands);
    // One bit of the 100 000th byte, and a frame in the middle twice, either way.
    let flip = || -> Hand {
        let mut passed = 0;
        Box::new(move |bytes| {
            let before = passed;
            passed += bytes.len();
            let mut bytes = bytes.to_vec();
            if (before..passed).contains(&100_000) {
                bytes[100_000 - before] ^= 1;
            }
            vec![bytes.into()]
        })
    };
    let nth = |copies: usize| -> Hand {
        let mut count = 0;
        Box::new(move |bytes| {
            count += 1;
            vec![bytes; if count == 4 { copies } else { 1 }]
        })
    };
    let hands: Vec<(&str, (Hand, Hand))> = vec![
        ("a bit on the way up", (flip(), faithful())),
        ("a bit on the way down", (faithful(), flip())),
        ("a frame twice", (nth(2), faithful())),
        ("a frame twice on the way down", (faithful(), nth(2))),
    ];
    for (what, hands) in hands {
        let (active, passive) =
            tokio::time::timeout(Duration::from_secs(100), ends(hands)).await.expect(what);
        assert!(active.is_err() && passive.is_err(), "{what}");
    }
    assert_eq!(between.results(), 0);

    // What the active party said in one run, said again to the passive party.
    let said = Arc::new(Mutex::new(Vec::new()));
    let (active, passive) = ends((recording(&said), faithful())).await;
    assert!(active.is_ok() && passive.is_ok());
    let counted = between.runs();
    let follow =
        Aligner::open(Side::Passive, &between.passive, &between.dir.path().join("p"), rules())
            .unwrap();
    let said: Vec<_> =
        said.lock().unwrap().iter().map(|bytes| Ok(Frame::Sealed(bytes.clone()))).collect();
    let (out, mut answers) = mpsc::channel(64);
    let turn = follow.turn(PartyName::new("active").unwrap()).unwrap();
    let drain = async { while answers.recv().await.is_some() {} };
    let mut told = |_| ();
    let (replayed, ()) =
        tokio::join!(turn.run(&all, Box::pin(tokio_stream::iter(said)), out, &mut told), drain);
    let refused = replayed.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unauthenticated, "{refused}");
    assert_eq!(between.runs(), counted);
}

/// A coordinator that leads the active party's session to the port where the passive party serves gRPC.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_cannot_be_led_to_a_listener_of_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let (deployment, _) =
        parties(dir.path(), Some(AlignmentRuns { max_runs: 5, least_common: 0 })).await;
    let socket = tokio::net::TcpStream::connect(deployment.passive_peers()[0].address.as_str())
        .await
        .unwrap();
    let (mut read, mut write) = socket.into_split();
    let (out, mut frames) = mpsc::channel::<Result<Frame, Refusal>>(4);
    let (on, answers) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Some(Ok(Frame::Sealed(bytes))) = frames.recv().await {
            let _ = write.write_all(&bytes).await;
        }
    });
    tokio::spawn(async move {
        let mut bytes = vec![0; 4096];
        while let Ok(length @ 1..) = read.read(&mut bytes).await {
            let _ = on.send(Ok(Frame::Sealed(Bytes::copy_from_slice(&bytes[..length])))).await;
        }
    });
    let own = tempfile::tempdir().unwrap();
    let aligner =
        Aligner::open(Side::Active, &deployment.active_credentials, own.path(), rules()).unwrap();
    let turn = aligner.turn(PartyName::new("passive-1").unwrap()).unwrap();
    let ended =
        turn.run(&people(0..10), Box::pin(ReceiverStream::new(answers)), out, &mut |_| ()).await;
    let refused = ended.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unauthenticated, "{refused}");
    deployment.stop().await.unwrap();
}

/// A store may take its time to list ids: by then the parties have their session, and hear of each other.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_listed_once_the_session_is_open() {
    let (between, all) = (Between::new(), people(0..50));
    let open = |side, credentials, name: &str| {
        Aligner::open(side, credentials, &between.dir.path().join(name), rules()).unwrap()
    };
    let lead = open(Side::Active, &between.active, "a");
    let follow = open(Side::Passive, &between.passive, "p");
    let ((to_p, frames_p), (to_a, frames_a)) = (carry(faithful()), carry(faithful()));
    let lead = lead.turn(PartyName::new("passive-1").unwrap()).unwrap();
    let follow = follow.turn(PartyName::new("active").unwrap()).unwrap();
    // Each lists its ids only once the other one has its session.
    let ((a_is_open, a_opened), (p_is_open, p_opened)) =
        (tokio::sync::oneshot::channel::<()>(), tokio::sync::oneshot::channel::<()>());
    let at_active = async {
        a_is_open.send(()).unwrap();
        p_opened.await.unwrap();
        Ok(all.clone())
    };
    let at_passive = async {
        p_is_open.send(()).unwrap();
        a_opened.await.unwrap();
        Ok(all.clone())
    };
    let (mut told_a, mut told_p) = (|_| (), |_| ());
    let both = async {
        tokio::join!(
            lead.run_listing(at_active, frames_a, to_p, &mut told_a),
            follow.run_listing(at_passive, frames_p, to_a, &mut told_p)
        )
    };
    let (active, passive) = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("the two wait for each other");
    assert_eq!((active.unwrap().common.ids.len(), passive.unwrap().common.ids.len()), (50, 50));
}

/// A party that cannot list its ids says so inside the session, and the run is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_cannot_list_its_ids_says_so() {
    let (between, all) = (Between::new(), people(0..50));
    let open = |side, credentials, name: &str| {
        Aligner::open(side, credentials, &between.dir.path().join(name), rules()).unwrap()
    };
    let lead = open(Side::Active, &between.active, "a");
    let follow = open(Side::Passive, &between.passive, "p");
    let ((to_p, frames_p), (to_a, frames_a)) = (carry(faithful()), carry(faithful()));
    let lead = lead.turn(PartyName::new("passive-1").unwrap()).unwrap();
    let follow = follow.turn(PartyName::new("active").unwrap()).unwrap();
    let broken = std::future::ready(Err::<RecordIds, _>(Refusal::unavailable(
        "the store of this party is down",
    )));
    let (mut told_a, mut told_p) = (|_| (), |_| ());
    let (active, passive) = tokio::join!(
        lead.run(&all, frames_a, to_p, &mut told_a),
        follow.run_listing(broken, frames_p, to_a, &mut told_p)
    );
    assert_eq!(passive.unwrap_err().kind, RefusalKind::Unavailable);
    let told = active.unwrap_err();
    assert!(told.message.ends_with("refused: the store of this party is down"), "{told}");
    assert_eq!((between.runs(), between.results()), ((0, 0), 0));
}
