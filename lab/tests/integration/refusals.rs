//! One table of bad inputs: what is sent to which service, one field wrong at a time, and the code it gets.
//!
//! Run with `--nocapture` to read the table.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};
use vfl_core::types::{PartyName, RecordIds};
use vfl_defense::DefenseConfig;
use vfl_passive_party::config::Grant;
use vfl_protocol::pb::publish_reply::Reply as PublishReply;
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::pb::training_reply::Reply;
use vfl_protocol::{pb, stream_refusal};
use vfl_server::service::{Role, allowed_roles, channel};
use vfl_testbed::deployment::Deployment;

use super::inference::question;
use super::support::{
    Trained, active_client, config, credentials, dataset, score, server_of, spec, split, test_ids,
    trained, training_ids,
};
use super::{raw, release_messages};

/// Stands in every matrix: no message may show it.
const SENTINEL: f64 = 0.123_456_789_012_345;

fn matrix(rows: u32, columns: u32, values: &[f64]) -> pb::Matrix {
    pb::Matrix {
        rows,
        columns,
        values: values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>().into(),
    }
}

fn filled(rows: usize, columns: usize) -> pb::Matrix {
    matrix(rows as u32, columns as u32, &vec![SENTINEL; rows * columns])
}

/// The same with its last value replaced.
fn spoiled(rows: usize, columns: usize, last: f64) -> pb::Matrix {
    let mut values = vec![SENTINEL; rows * columns];
    values[rows * columns - 1] = last;
    matrix(rows as u32, columns as u32, &values)
}

/// What a bad input gets.
#[derive(Debug, Clone, Copy)]
enum Gets {
    /// A status whose message has these words.
    Code(Code, &'static str),
    /// A good answer whose first row has this status.
    Row(pb::RowStatus),
}

struct Case {
    path: &'static str,
    bad: &'static str,
    messages: Vec<Bytes>,
    gets: Gets,
}

#[derive(Default)]
struct Table(Vec<Case>);

impl Table {
    fn add<M: Message>(
        &mut self,
        path: &'static str,
        bad: &'static str,
        messages: Vec<M>,
        code: Code,
        says: &'static str,
    ) {
        let messages = messages.iter().map(|m| m.encode_to_vec().into()).collect();
        self.0.push(Case { path, bad, messages, gets: Gets::Code(code, says) });
    }

    fn row<M: Message>(
        &mut self,
        path: &'static str,
        bad: &'static str,
        message: &M,
        status: pb::RowStatus,
    ) {
        let messages = vec![message.encode_to_vec().into()];
        self.0.push(Case { path, bad, messages, gets: Gets::Row(status) });
    }

    /// Tries every case and prints the table.
    async fn check(self, deployment: &Deployment) {
        for Case { path, bad, messages, gets } in self.0 {
            let role = allowed_roles(path).unwrap()[0];
            let channel =
                channel(&credentials(deployment, role), &server_of(deployment, path)).unwrap();
            let (answers, ended) = raw::call(&channel, path, messages, usize::MAX).await;
            let got = match gets {
                Gets::Code(code, says) => {
                    // One question of a stream is refused in the place of its answer.
                    let ended = match path {
                        "/vfl.v1.PassiveParty/ComputeLogitsStream" => {
                            ended.and_then(|()| refused(&answers))
                        }
                        _ => ended,
                    };
                    let Err(status) = ended else {
                        panic!("{path}, {bad}: was taken, {} answers", answers.len())
                    };
                    assert_eq!(status.code(), code, "{path}, {bad}: {status}");
                    assert!(
                        status.message().contains(says),
                        "{path}, {bad}: {:?} lacks {says:?}",
                        status.message()
                    );
                    assert!(
                        !status.message().contains("0.1234"),
                        "{path}, {bad}: shows a value: {status}"
                    );
                    format!("{code:?}")
                }
                Gets::Row(expected) => {
                    ended.unwrap_or_else(|status| panic!("{path}, {bad}: {status}"));
                    let statuses = match path {
                        "/vfl.v1.PassiveParty/ComputeLogits" => {
                            pb::ComputeLogitsResponse::decode(answers[0].clone())
                                .unwrap()
                                .row_status
                        }
                        "/vfl.v1.ActiveParty/Predict" => {
                            pb::ScoreResponse::decode(answers[0].clone()).unwrap().row_status
                        }
                        _ => pb::PredictResponse::decode(answers[0].clone()).unwrap().row_status,
                    };
                    assert_eq!(statuses[0], expected as i32, "{path}, {bad}");
                    format!("row {expected:?}")
                }
            };
            println!("{:45} {bad:50} {got}", path.trim_start_matches("/vfl.v1."));
        }
    }
}

/// The refusal in the answer to the one question of a stream.
fn refused(answers: &[Bytes]) -> Result<(), Status> {
    let answer = pb::ComputeLogitsResponse::decode(answers[0].clone()).unwrap();
    assert_eq!(answer.question, 7);
    stream_refusal(&answer).unwrap().map_or(Ok(()), |refusal| Err(refusal.into()))
}

type Bad<T> = (&'static str, T, &'static str);

/// Every way of sending bad ids, with what the refusal says.
fn bad_ids() -> Vec<Bad<Option<pb::RecordIds>>> {
    let packed = |text: &str, ends: &[u32]| Some(pb::RecordIds::new(text, ends.to_vec()));
    vec![
        ("ids missing", None, "`ids` is missing"),
        ("an empty id", packed("ab", &[1, 1, 2]), "position 1 is empty"),
        ("an id of 129 bytes", packed(&"x".repeat(129), &[129]), "position 0 has 129 bytes"),
        ("a control character in an id", packed("a\nb", &[3]), "control character"),
        ("an id twice", packed("aba", &[1, 2, 3]), "position 2 stands in the batch twice"),
        ("ends that decrease", packed("abc", &[2, 1, 3]), "the ends do not increase"),
        ("an end beyond the text", packed("abc", &[1, 9]), "outside the text"),
        ("an end inside a character", packed("é", &[1, 2]), "inside a character"),
        ("text left over", packed("abc", &[1]), "left over"),
    ]
}

fn many(n: usize) -> pb::RecordIds {
    RecordIds::new((0..n).map(|i| format!("u{i}"))).unwrap().into()
}

const ARGUMENT: Code = Code::InvalidArgument;
const STATE: Code = Code::FailedPrecondition;

/// Ways of getting the model version wrong.
fn bad_versions() -> [(&'static str, String, Code, &'static str); 3] {
    [
        ("no model version", String::new(), ARGUMENT, "`model_version`"),
        ("a malformed model version", "../m-1".into(), ARGUMENT, "`model_version`"),
        ("an unknown model version", "m-0000000000000000".into(), STATE, "m-0000000000000000"),
    ]
}

/// Valid messages for every RPC, in the order in which they are sent; what the fuzzing damages.
pub fn good_messages(here: &Trained) -> HashMap<&'static str, Vec<Bytes>> {
    let good = Good::new(here);
    let (ids, set) = (&good.ids, &good.set);
    let k = good.k;
    let one = |m: &dyn Fn() -> Vec<u8>| vec![Bytes::from(m())];
    let all = |ms: Vec<Vec<u8>>| ms.into_iter().map(Bytes::from).collect::<Vec<_>>();
    let reply = |r| pb::TrainingReply { reply: Some(r) }.encode_to_vec();
    let command = |c: Command| pb::TrainingCommand { command: Some(c) }.encode_to_vec();
    let labelled = pb::LabelledRecords { ids: Some(ids.clone()), labels: vec![0, 1, 0, 1] };
    let store = pb::StoreShare { from_checkpoint: false };
    let publish = pb::PublishShare { model_version: "m-1".into(), digest: "0".repeat(64) };
    let live =
        pb::inference::ModelReadyRequest { name: "cloison".into(), version: here.version.clone() };
    HashMap::from([
        ("/inference.GRPCInferenceService/ServerLive", vec![Bytes::new()]),
        ("/inference.GRPCInferenceService/ServerReady", vec![Bytes::new()]),
        ("/inference.GRPCInferenceService/ModelReady", one(&|| live.encode_to_vec())),
        ("/inference.GRPCInferenceService/ServerMetadata", vec![Bytes::new()]),
        ("/inference.GRPCInferenceService/ModelMetadata", one(&|| live.encode_to_vec())),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            one(&|| question(&test_ids(&here.dataset, 0, 4), "").encode_to_vec()),
        ),
        ("/vfl.v1.Coordinator/DescribeModel", vec![Bytes::new()]),
        (
            "/vfl.v1.Coordinator/Train",
            all(vec![reply(Reply::Start(good.start(4))), reply(Reply::Labelled(labelled))]),
        ),
        (
            "/vfl.v1.Coordinator/Align",
            all(vec![named("passive-1").encode_to_vec(), piece(100).encode_to_vec()]),
        ),
        (
            "/vfl.v1.PassiveParty/Align",
            all(vec![named("active").encode_to_vec(), piece(100).encode_to_vec()]),
        ),
        (
            "/vfl.v1.ActiveParty/Align",
            one(&|| {
                pb::AlignJobRequest { passive_party: "passive-1".into(), ids: Some(ids.clone()) }
                    .encode_to_vec()
            }),
        ),
        (
            "/vfl.v1.Coordinator/Publish",
            all(vec![
                pb::PublishReply { reply: Some(PublishReply::Start(good.publish_start())) }
                    .encode_to_vec(),
                pb::PublishReply { reply: Some(PublishReply::TrainingIds(ids.clone())) }
                    .encode_to_vec(),
                pb::PublishReply { reply: Some(PublishReply::Published(pb::SharePublished {})) }
                    .encode_to_vec(),
            ]),
        ),
        (
            "/vfl.v1.Coordinator/ReleaseTopModel",
            one(&|| {
                pb::ReleaseTopModelRequest { model_version: here.version.clone() }.encode_to_vec()
            }),
        ),
        ("/vfl.v1.Coordinator/Predict", one(&|| good.predict().encode_to_vec())),
        ("/vfl.v1.Coordinator/PredictStream", all(vec![good.predict().encode_to_vec(); 3])),
        (
            "/vfl.v1.Coordinator/ReleasePrivately",
            all(release_messages::replies(&here.version, k, ids)),
        ),
        (
            "/vfl.v1.PassiveParty/ReleasePrivately",
            all(release_messages::commands(&here.version, k, ids)),
        ),
        ("/vfl.v1.Coordinator/OpenAudit", one(&|| good.open().encode_to_vec())),
        (
            "/vfl.v1.Coordinator/DescribeLedger",
            one(&|| pb::DescribeLedgerRequest { active_party: "active".into() }.encode_to_vec()),
        ),
        (
            "/vfl.v1.Coordinator/CloseAudit",
            one(&|| {
                pb::CloseAuditRequest { audit_session: "0".repeat(32), without_summary: false }
                    .encode_to_vec()
            }),
        ),
        ("/vfl.v1.PassiveParty/DescribeFeatures", vec![Bytes::new()]),
        ("/vfl.v1.PassiveParty/ComputeLogits", one(&|| good.logits().encode_to_vec())),
        ("/vfl.v1.PassiveParty/ComputeLogitsStream", all(vec![good.logits().encode_to_vec(); 3])),
        (
            "/vfl.v1.PassiveParty/Train",
            all(vec![
                command(Command::Begin(good.begin(4))),
                command(Command::Records(ids.clone())),
                command(Command::Step(pb::TrainingStep {
                    step: 1,
                    batch: vec![0, 3],
                    ..Default::default()
                })),
                command(Command::Step(pb::TrainingStep {
                    step: 2,
                    gradient: Some(filled(2, k)),
                    batch: vec![1],
                    checkpoint: true,
                    ..Default::default()
                })),
                command(Command::Store(store)),
                command(Command::Publish(publish)),
            ]),
        ),
        ("/vfl.v1.PassiveParty/DescribeStaged", one(&|| good.describe_staged().encode_to_vec())),
        ("/vfl.v1.PassiveParty/PublishStaged", one(&|| good.publish_staged().encode_to_vec())),
        (
            "/vfl.v1.PassiveParty/ReleaseParameters",
            one(&|| {
                pb::ReleaseParametersRequest { model_version: here.version.clone() }.encode_to_vec()
            }),
        ),
        ("/vfl.v1.PassiveParty/LendShares", one(&|| good.lend().encode_to_vec())),
        (
            "/vfl.v1.PassiveParty/EvaluateReconstruction",
            all([ask_ids(set), ask_estimates(filled(100, 2)), ask_score()]
                .iter()
                .map(Message::encode_to_vec)
                .collect()),
        ),
        (
            "/vfl.v1.ActiveParty/Predict",
            one(&|| {
                pb::ScoreRequest { ids: Some(ids.clone()), ..Default::default() }.encode_to_vec()
            }),
        ),
        (
            "/vfl.v1.ActiveParty/Train",
            one(&|| {
                pb::TrainJobRequest { config: Some((&config(1)).into()), ids: Some(ids.clone()) }
                    .encode_to_vec()
            }),
        ),
        (
            "/vfl.v1.ActiveParty/Publish",
            one(&|| pb::PublishJobRequest { training_ids: Some(ids.clone()) }.encode_to_vec()),
        ),
        ("/vfl.v1.ActiveParty/Reconstruct", one(&|| good.reconstruct().encode_to_vec())),
    ])
}

/// Messages with nothing wrong in them.
struct Good {
    version: String,
    k: usize,
    /// Four records that no training saw.
    ids: pb::RecordIds,
    /// A hundred others.
    set: pb::RecordIds,
}

impl Good {
    fn new(here: &Trained) -> Self {
        let ids = |from, to| (&test_ids(&here.dataset, from, to)).into();
        let k = here.dataset.class_names().len();
        Self { version: here.version.clone(), k, ids: ids(0, 4), set: ids(10, 110) }
    }

    fn class_names(&self) -> Vec<String> {
        (0..self.k).map(|i| format!("class {i}")).collect()
    }

    fn publish_start(&self) -> pb::PublishStart {
        let digest = "0".repeat(64);
        pb::PublishStart {
            class_names: self.class_names(),
            features: 3,
            digest,
            training_id_count: 4,
            sub_model: None,
        }
    }

    fn describe_staged(&self) -> pb::DescribeStagedRequest {
        pb::DescribeStagedRequest { active_party: "active".into(), class_names: self.class_names() }
    }

    fn publish_staged(&self) -> pb::PublishStagedRequest {
        pb::PublishStagedRequest {
            active_party: "active".into(),
            class_names: self.class_names(),
            model_version: "m-1".into(),
            digest: "0".repeat(64),
        }
    }

    fn predict(&self) -> pb::PredictRequest {
        pb::PredictRequest {
            model_version: self.version.clone(),
            ids: Some(self.ids.clone()),
            logit_shares: Some(filled(4, self.k)),
            audit_session: String::new(),
            request_id: String::new(),
        }
    }

    fn open(&self) -> pb::OpenAuditRequest {
        pb::OpenAuditRequest {
            model_version: self.version.clone(),
            policy: Some(policy(Some(2))),
            ids: Some(self.set.clone()),
            active_party: "active".into(),
        }
    }

    fn logits(&self) -> pb::ComputeLogitsRequest {
        pb::ComputeLogitsRequest {
            model_version: self.version.clone(),
            ids: Some(self.ids.clone()),
            question: 7,
            ..Default::default()
        }
    }

    fn lend(&self) -> pb::LendSharesRequest {
        pb::LendSharesRequest { model_version: self.version.clone(), ids: Some(self.ids.clone()) }
    }

    fn start(&self, record_count: u32) -> pb::TrainingStart {
        let class_names = (0..self.k).map(|i| format!("class {i}")).collect();
        pb::TrainingStart { config: Some((&config(1)).into()), class_names, record_count }
    }

    fn begin(&self, record_count: u32) -> pb::TrainingBegin {
        pb::TrainingBegin {
            config: Some((&config(1)).into()),
            classes: self.k as u32,
            record_count,
            active_party: "active".into(),
            class_names: (0..self.k).map(|i| format!("class {i}")).collect(),
            layout: None,
        }
    }

    fn reconstruct(&self) -> pb::ReconstructRequest {
        pb::ReconstructRequest {
            audit_session: "0".repeat(32),
            model_version: self.version.clone(),
            ids: Some(self.set.clone()),
            attacks: vec![attack("half_star", "zero_floor", "0.01")],
            seed: 1,
            ..Default::default()
        }
    }
}

fn policy(decimals: Option<u32>) -> pb::Policy {
    let rounding = |decimals| pb::Defense::from(&DefenseConfig::Rounding { decimals });
    pb::Policy { defenses: vec![decimals.map(rounding).unwrap_or_default()], ..Default::default() }
}

/// `rounding` with another parameter.
fn rounding_with(name: &str, value: Option<pb::defense::parameter::Value>) -> pb::Policy {
    let mut policy = policy(Some(2));
    policy.defenses[0].parameters.push(pb::defense::Parameter { name: name.into(), value });
    policy
}

fn attack(name: &str, key: &str, value: &str) -> pb::AttackSpec {
    let setting = pb::attack_spec::Setting { key: key.into(), value: value.into() };
    pb::AttackSpec { name: name.into(), settings: vec![setting] }
}

fn ask_ids(ids: &pb::RecordIds) -> pb::EvaluateReconstructionRequest {
    use pb::evaluate_reconstruction_request::Message as Ask;
    pb::EvaluateReconstructionRequest { message: Some(Ask::Ids(ids.clone())), ..Default::default() }
}

fn ask_estimates(estimates: pb::Matrix) -> pb::EvaluateReconstructionRequest {
    use pb::evaluate_reconstruction_request::Message as Ask;
    let estimates = pb::Estimates { rows: Some(estimates), more: false, control: false };
    pb::EvaluateReconstructionRequest {
        message: Some(Ask::Estimates(estimates)),
        ..Default::default()
    }
}

/// Estimates of which more are to come, or of a control.
fn ask_piece(rows: usize, more: bool, control: bool) -> pb::EvaluateReconstructionRequest {
    use pb::evaluate_reconstruction_request::Message as Ask;
    let estimates = pb::Estimates { rows: Some(filled(rows, 2)), more, control };
    pb::EvaluateReconstructionRequest {
        message: Some(Ask::Estimates(estimates)),
        ..Default::default()
    }
}

fn scoring() -> pb::Score {
    pb::Score { told: pb::score::Told::All.into(), by_feature: true, ..Default::default() }
}

fn ask(score: pb::Score) -> pb::EvaluateReconstructionRequest {
    use pb::evaluate_reconstruction_request::Message as Ask;
    pb::EvaluateReconstructionRequest { message: Some(Ask::Score(score)), ..Default::default() }
}

fn ask_score() -> pb::EvaluateReconstructionRequest {
    ask(scoring())
}

/// The first frame of an alignment.
fn named(party: &str) -> pb::AlignmentFrame {
    pb::AlignmentFrame { party: party.into(), ..Default::default() }
}

/// A frame with so many bytes of no session.
fn piece(bytes: usize) -> pb::AlignmentFrame {
    pb::AlignmentFrame { sealed: vec![7; bytes].into(), ..Default::default() }
}

fn alignments(table: &mut Table, good: &Good) {
    let range = "a piece has 1 to 65536 bytes";
    for (path, first, other) in [
        ("/vfl.v1.Coordinator/Align", "passive-1", "begins with the passive party's name"),
        ("/vfl.v1.PassiveParty/Align", "active", "begins with the active party's name"),
    ] {
        let both = pb::AlignmentFrame { sealed: vec![1].into(), ..named(first) };
        table.add(path, "no name first", vec![piece(100)], ARGUMENT, other);
        table.add(path, "an empty frame", vec![pb::AlignmentFrame::default()], ARGUMENT, range);
        table.add(path, "a piece of 65 537 bytes", vec![piece(65_537)], ARGUMENT, range);
        table.add(path, "a name that is a path", vec![named("../a")], ARGUMENT, "`party`");
        table.add(path, "a name and a piece", vec![both], ARGUMENT, "`sealed`");
    }
    let path = "/vfl.v1.Coordinator/Align";
    table.add(
        path,
        "an unknown passive party",
        vec![named("nobody")],
        Code::NotFound,
        "`nobody` is not known here",
    );
    table.add(
        path,
        "begun twice",
        vec![named("passive-1"), named("passive-1")],
        ARGUMENT,
        "not begun twice",
    );
    let path = "/vfl.v1.PassiveParty/Align";
    let denied = Code::PermissionDenied;
    table.add(
        path,
        "another active party",
        vec![named("other")],
        denied,
        "aligns with another active party",
    );
    let nobody = Code::Unauthenticated;
    table.add(
        path,
        "bytes of no session",
        vec![named("active"), piece(100)],
        nobody,
        "no session of our own",
    );
    table.add(
        path,
        "an end before the session",
        vec![named("active")],
        nobody,
        "no session of our own",
    );
    let path = "/vfl.v1.ActiveParty/Align";
    let job = |passive: &str, ids| pb::AlignJobRequest { passive_party: passive.into(), ids };
    table.add(path, "no passive party", vec![job("", None)], ARGUMENT, "`passive_party`");
    table.add(
        path,
        "an unknown one",
        vec![job("nobody", None)],
        Code::NotFound,
        "`nobody` is not known here",
    );
    for (bad, ids, says) in bad_ids().into_iter().skip(1) {
        table.add(path, bad, vec![job("passive-1", ids)], ARGUMENT, says);
    }
    let ids = || Some(good.ids.clone());
    table.add(path, "ids twice", vec![job("passive-1", ids()), job("", ids())], ARGUMENT, "twice");
    table.add(
        path,
        "ids not held",
        vec![job("passive-1", Some(many(3)))],
        Code::NotFound,
        "3 of 3 ids to align",
    );
    let again = vec![job("passive-1", ids()), job("passive-1", None)];
    table.add(path, "a name twice", again, ARGUMENT, "first message alone");
}

fn predictions(table: &mut Table, here: &Trained, good: &Good) {
    let path = "/vfl.v1.Coordinator/ReleaseTopModel";
    for (bad, model_version, code, says) in bad_versions() {
        table.add(path, bad, vec![pb::ReleaseTopModelRequest { model_version }], code, says);
    }
    let request = pb::ReleaseTopModelRequest { model_version: good.version.clone() };
    table.add(path, "a model without a top model", vec![request], STATE, "it has no top model");
    for path in ["/vfl.v1.Coordinator/Predict", "/vfl.v1.Coordinator/PredictStream"] {
        for (bad, model_version, code, says) in bad_versions() {
            table.add(
                path,
                bad,
                vec![pb::PredictRequest { model_version, ..good.predict() }],
                code,
                says,
            );
        }
        for (bad, ids, says) in bad_ids() {
            table.add(
                path,
                bad,
                vec![pb::PredictRequest { ids, ..good.predict() }],
                ARGUMENT,
                says,
            );
        }
        let k = good.k;
        let shares: Vec<Bad<Option<pb::Matrix>>> = vec![
            ("shares missing", None, "`logit_shares` is missing"),
            ("shares of too few rows", Some(filled(3, k)), "3 rows, expected 4"),
            ("shares of too many classes", Some(filled(4, k + 1)), "columns, expected"),
            ("shares of no class", Some(matrix(4, 0, &[])), "columns, expected"),
            (
                "shares a byte short",
                {
                    let mut m = filled(4, k);
                    m.values.truncate(m.values.len() - 1);
                    Some(m)
                },
                "bytes, expected 8",
            ),
            (
                "shares that claim 2^64 values",
                Some(matrix(u32::MAX, u32::MAX, &[])),
                "bytes, expected 8",
            ),
            ("a share that is NaN", Some(spoiled(4, k, f64::NAN)), "not finite, in row 3"),
            (
                "a share that is infinite",
                Some(spoiled(4, k, f64::INFINITY)),
                "not finite, in row 3",
            ),
        ];
        for (bad, logit_shares, says) in shares {
            table.add(
                path,
                bad,
                vec![pb::PredictRequest { logit_shares, ..good.predict() }],
                ARGUMENT,
                says,
            );
        }
        let none = pb::PredictRequest {
            ids: Some(many(0)),
            logit_shares: Some(filled(0, k)),
            ..good.predict()
        };
        table.add(path, "no record", vec![none], ARGUMENT, "1 to 16384 records, 0 came");
        let crowd = pb::PredictRequest {
            ids: Some(many(16_385)),
            logit_shares: Some(filled(16_385, k)),
            ..good.predict()
        };
        table.add(path, "16385 records", vec![crowd], ARGUMENT, "1 to 16384 records, 16385 came");
        let session = pb::PredictRequest { audit_session: "f".repeat(32), ..good.predict() };
        table.add(path, "an unknown audit session", vec![session], Code::NotFound, "audit session");
        let large =
            pb::PredictRequest { audit_session: "f".repeat((16 << 20) + 1), ..good.predict() };
        table.add(path, "a message over 16 MiB", vec![large], Code::OutOfRange, "too large");
        let one = |id: &str| {
            let ids = RecordIds::new([id]).unwrap();
            pb::PredictRequest {
                ids: Some(ids.into()),
                logit_shares: Some(filled(1, k)),
                ..good.predict()
            }
        };
        let trained_on = training_ids(&here.dataset);
        table.row(path, "a record nobody holds", &one("nobody"), pb::RowStatus::NotFound);
        table.row(
            path,
            "a training record",
            &one(trained_on.get(0).unwrap()),
            pb::RowStatus::TrainingRecord,
        );
    }
    let path = "/vfl.v1.Coordinator/PredictStream";
    let second = pb::PredictRequest { ids: None, ..good.predict() };
    let messages = vec![good.predict(), second, good.predict()];
    table.add(path, "a bad request between good ones", messages, ARGUMENT, "`ids` is missing");
}

fn audits(table: &mut Table, here: &Trained, good: &Good) {
    let path = "/vfl.v1.Coordinator/OpenAudit";
    for (bad, model_version, code, says) in bad_versions() {
        table.add(
            path,
            bad,
            vec![pb::OpenAuditRequest { model_version, ..good.open() }],
            code,
            says,
        );
    }
    for (bad, ids, says) in bad_ids() {
        table.add(path, bad, vec![pb::OpenAuditRequest { ids, ..good.open() }], ARGUMENT, says);
    }
    let few = Some((&test_ids(&here.dataset, 0, 99)).into());
    table.add(
        path,
        "99 records",
        vec![pb::OpenAuditRequest { ids: few, ..good.open() }],
        ARGUMENT,
        "99 came",
    );
    let crowd = Some(many(100_001));
    table.add(
        path,
        "100001 records",
        vec![pb::OpenAuditRequest { ids: crowd, ..good.open() }],
        ARGUMENT,
        "100001 came",
    );
    let known = Some((&training_ids(&here.dataset).slice(0, 100)).into());
    table.add(
        path,
        "training records",
        vec![pb::OpenAuditRequest { ids: known, ..good.open() }],
        STATE,
        "used in training",
    );
    use pb::defense::parameter::Value::Whole;
    let crowd = pb::Policy { defenses: vec![pb::Defense::default(); 9], ..Default::default() };
    for (bad, policy, says) in [
        ("no policy", None, "`policy` is missing"),
        ("a defense of no kind", Some(policy(None)), "`defense` is missing"),
        ("nine defenses", Some(crowd), "`policy` has 9 defenses"),
        ("16 decimals", Some(policy(Some(16))), "`decimals`"),
        (
            "an unknown parameter",
            Some(rounding_with("digits", Some(Whole(2)))),
            "no parameter `digits`",
        ),
        (
            "a parameter given twice",
            Some(rounding_with("decimals", Some(Whole(2)))),
            "`decimals` is given twice",
        ),
        (
            "a parameter without a value",
            Some(rounding_with("digits", None)),
            "`digits` has no value",
        ),
    ] {
        table.add(path, bad, vec![pb::OpenAuditRequest { policy, ..good.open() }], ARGUMENT, says);
    }
    for (bad, name) in [("no active party", ""), ("a malformed name", "a/b")] {
        let request = pb::OpenAuditRequest { active_party: name.into(), ..good.open() };
        table.add(path, bad, vec![request], ARGUMENT, "`active_party`");
    }
    let path = "/vfl.v1.Coordinator/CloseAudit";
    for (bad, name) in [("no session", String::new()), ("an unknown session", "f".repeat(32))] {
        table.add(
            path,
            bad,
            vec![pb::CloseAuditRequest { audit_session: name, without_summary: false }],
            Code::NotFound,
            "audit session",
        );
    }
}

/// Bad training configurations, by field.
fn bad_configs() -> Vec<Bad<Option<pb::TrainingConfig>>> {
    let good: pb::TrainingConfig = (&config(1)).into();
    let bad = |change: fn(&mut pb::TrainingConfig)| {
        let mut config = good.clone();
        change(&mut config);
        Some(config)
    };
    vec![
        ("config missing", None, "`config` is missing"),
        ("0 epochs", bad(|c| c.epochs = 0), "epochs"),
        ("100001 epochs", bad(|c| c.epochs = 100_001), "epochs"),
        ("a batch of 0", bad(|c| c.batch_size = 0), "batch_size"),
        ("a batch of 65537", bad(|c| c.batch_size = 65_537), "batch_size"),
        ("a learning rate of 0", bad(|c| c.learning_rate = 0.0), "learning_rate"),
        ("a learning rate that is NaN", bad(|c| c.learning_rate = f64::NAN), "learning_rate"),
        ("a learning rate of 11", bad(|c| c.learning_rate = 11.0), "learning_rate"),
        ("a negative penalty", bad(|c| c.l2 = -1.0), "l2"),
        ("an infinite penalty", bad(|c| c.l2 = f64::INFINITY), "l2"),
        ("a validation share of 0.95", bad(|c| c.validation_share = 0.95), "validation_share"),
        (
            "a validation share that is NaN",
            bad(|c| c.validation_share = f64::NAN),
            "validation_share",
        ),
        ("patience of 0", bad(|c| c.patience = 0), "patience"),
    ]
}

fn training_at_the_coordinator(table: &mut Table, good: &Good) {
    let path = "/vfl.v1.Coordinator/Train";
    let reply = |reply| pb::TrainingReply { reply: Some(reply) };
    let start = |start| vec![reply(Reply::Start(start))];
    table.add(
        path,
        "no reply in the message",
        vec![pb::TrainingReply { reply: None }],
        ARGUMENT,
        "`reply` is missing",
    );
    let early = vec![reply(Reply::Labelled(Default::default()))];
    table.add(path, "records before the start", early, ARGUMENT, "expected start");
    table.add::<pb::TrainingReply>(
        path,
        "a stream without a message",
        vec![],
        Code::Unavailable,
        "went away",
    );
    for (bad, config, says) in bad_configs() {
        table.add(path, bad, start(pb::TrainingStart { config, ..good.start(4) }), ARGUMENT, says);
    }
    let long = "x".repeat(129);
    for (bad, names) in [
        ("no class", vec![]),
        ("one class", vec!["a"]),
        ("a class twice", vec!["a", "a"]),
        ("a class without a name", vec!["a", ""]),
        ("a class name of 129 bytes", vec!["a", &long]),
        ("a control character in a class name", vec!["a", "b\n"]),
    ] {
        let class_names = names.into_iter().map(str::to_owned).collect();
        table.add(
            path,
            bad,
            start(pb::TrainingStart { class_names, ..good.start(4) }),
            ARGUMENT,
            "`class_names`",
        );
    }
    let class_names: Vec<String> = (0..2000).map(|i| i.to_string()).collect();
    let wide = pb::TrainingConfig { batch_size: 65_536, ..(&config(1)).into() };
    let wide = pb::TrainingStart { class_names, config: Some(wide), record_count: 4 };
    table.add(path, "batches whose shares fit no message", start(wide), ARGUMENT, "`batch_size`");
    let blocks = pb::TrainingConfig { shuffle_block: 100, ..(&config(1)).into() };
    let blocks = pb::TrainingStart { config: Some(blocks), ..good.start(4) };
    table.add(path, "blocks of few batches", start(blocks), ARGUMENT, "`shuffle_block`");
    let scaled = pb::TrainingConfig { label_scale: Some(2.0), ..(&config(1)).into() };
    let scaled = pb::TrainingStart { config: Some(scaled), ..good.start(4) };
    table.add(path, "a unit of labels that are classes", start(scaled), ARGUMENT, "`label_scale`");
    for (bad, count) in [("one record", 1), ("4294967295 records", u32::MAX)] {
        table.add(path, bad, start(good.start(count)), ARGUMENT, "`record_count`");
    }
    let listed = |ids, labels: Vec<u32>| {
        vec![
            reply(Reply::Start(good.start(4))),
            reply(Reply::Labelled(pb::LabelledRecords { ids, labels })),
        ]
    };
    for (bad, ids, says) in bad_ids() {
        let labels = vec![0; ids.as_ref().map_or(0, |i| i.len())];
        table.add(path, bad, listed(ids, labels), ARGUMENT, says);
    }
    let ids = || Some(good.ids.clone());
    table.add(
        path,
        "an empty chunk of records",
        listed(Some(many(0)), vec![]),
        ARGUMENT,
        "`ids` has 0 records",
    );
    table.add(
        path,
        "more records than announced",
        listed(Some(many(5)), vec![0; 5]),
        ARGUMENT,
        "5 records, expected 4",
    );
    table.add(
        path,
        "fewer labels than records",
        listed(ids(), vec![0; 3]),
        ARGUMENT,
        "`labels` has 3 entries",
    );
    let beyond = vec![0, 1, 0, good.k as u32];
    table.add(
        path,
        "a label that is no class",
        listed(ids(), beyond),
        ARGUMENT,
        "`labels` is out of range",
    );
    let twice = |text: &str| {
        let ids = Some(pb::RecordIds::new(text, vec![1, 2]));
        reply(Reply::Labelled(pb::LabelledRecords { ids, labels: vec![0, 1] }))
    };
    let messages = vec![reply(Reply::Start(good.start(4))), twice("ab"), twice("ca")];
    table.add(path, "an id in two chunks", messages, ARGUMENT, "stands in the batch twice");
    let mut messages = listed(Some(many(4)), vec![0, 1, 0, 1]);
    messages.push(reply(Reply::Ready(pb::TrainingReady { features: 1, sub_model: None })));
    table.add(
        path,
        "records no passive party holds",
        messages.clone(),
        Code::NotFound,
        "passive-1",
    );
    messages.truncate(1);
    table.add(
        path,
        "a stream that ends before the records",
        messages,
        Code::Unavailable,
        "went away",
    );
    let mut messages = listed(ids(), vec![0, 1, 0, 1]);
    messages.push(reply(Reply::Shares(Default::default())));
    table.add(path, "shares before ready", messages.clone(), ARGUMENT, "expected ready");
    messages.pop();
    messages.push(reply(Reply::Ready(pb::TrainingReady { features: 1, sub_model: None })));
    // A tenth of four records rounds to none set aside: the first batch has all four.
    for (bad, step, shares, says) in [
        ("shares of another step", 9, Some(filled(4, good.k)), "expected step 1"),
        ("no shares", 1, None, "`shares` is missing"),
        ("shares of the wrong size", 1, Some(filled(1, good.k)), "`shares` has 1 rows"),
        (
            "shares that are NaN",
            1,
            Some(spoiled(4, good.k, f64::NAN)),
            "`shares` holds a value that is not finite",
        ),
    ] {
        let mut messages = messages.clone();
        messages.push(reply(Reply::Shares(pb::BatchShares { step, shares })));
        table.add(path, bad, messages, ARGUMENT, says);
    }
}

fn passive_party(table: &mut Table, good: &Good) {
    for path in ["/vfl.v1.PassiveParty/ComputeLogits", "/vfl.v1.PassiveParty/ComputeLogitsStream"] {
        for (bad, model_version, code, says) in bad_versions() {
            table.add(
                path,
                bad,
                vec![pb::ComputeLogitsRequest { model_version, ..good.logits() }],
                code,
                says,
            );
        }
        for (bad, ids, says) in bad_ids() {
            table.add(
                path,
                bad,
                vec![pb::ComputeLogitsRequest { ids, ..good.logits() }],
                ARGUMENT,
                says,
            );
        }
        let none = pb::ComputeLogitsRequest { ids: Some(many(0)), ..good.logits() };
        table.add(path, "no record", vec![none], ARGUMENT, "0 came");
        let crowd = pb::ComputeLogitsRequest { ids: Some(many(16_385)), ..good.logits() };
        table.add(path, "16385 records", vec![crowd], ARGUMENT, "16385 came");
        let large =
            pb::ComputeLogitsRequest { model_version: "f".repeat((16 << 20) + 1), ..good.logits() };
        table.add(path, "a message over 16 MiB", vec![large], Code::OutOfRange, "too large");
    }
    let unknown = pb::ComputeLogitsRequest { ids: Some(many(1)), ..good.logits() };
    table.row(
        "/vfl.v1.PassiveParty/ComputeLogits",
        "a record not held",
        &unknown,
        pb::RowStatus::NotFound,
    );
    let path = "/vfl.v1.PassiveParty/ReleaseParameters";
    for (bad, model_version, code, says) in bad_versions() {
        table.add(path, bad, vec![pb::ReleaseParametersRequest { model_version }], code, says);
    }
    let path = "/vfl.v1.PassiveParty/LendShares";
    for (bad, model_version, code, says) in bad_versions() {
        table.add(
            path,
            bad,
            vec![pb::LendSharesRequest { model_version, ..good.lend() }],
            code,
            says,
        );
    }
    for (bad, ids, says) in bad_ids() {
        table.add(path, bad, vec![pb::LendSharesRequest { ids, ..good.lend() }], ARGUMENT, says);
    }
    for (bad, n, code, says) in [
        ("no record", 0, ARGUMENT, "0 came"),
        ("16385 records", 16_385, ARGUMENT, "16385 came"),
        ("records not held", 3, Code::NotFound, "some of the 3 records are not held"),
    ] {
        table.add(
            path,
            bad,
            vec![pb::LendSharesRequest { ids: Some(many(n)), ..good.lend() }],
            code,
            says,
        );
    }
}

fn training_at_a_passive_party(table: &mut Table, good: &Good) {
    let path = "/vfl.v1.PassiveParty/Train";
    let command = |c| pb::TrainingCommand { command: Some(c) };
    let step = |step| command(Command::Step(step));
    table.add(
        path,
        "no command in the message",
        vec![pb::TrainingCommand { command: None }],
        ARGUMENT,
        "`command` is missing",
    );
    table.add::<pb::TrainingCommand>(
        path,
        "a stream without a message",
        vec![],
        Code::Unavailable,
        "ended the training",
    );
    table.add(
        path,
        "a step before begin",
        vec![step(Default::default())],
        ARGUMENT,
        "expected begin, got a step",
    );
    for (bad, config, says) in bad_configs() {
        let begin = pb::TrainingBegin { config, ..good.begin(4) };
        table.add(path, bad, vec![command(Command::Begin(begin))], ARGUMENT, says);
    }
    for (bad, active_party) in [("no active party", ""), ("a malformed active party", "a/b")] {
        let begin = pb::TrainingBegin { active_party: active_party.into(), ..good.begin(4) };
        let messages =
            vec![command(Command::Begin(begin)), command(Command::Records(good.ids.clone()))];
        table.add(path, bad, messages, ARGUMENT, "`active_party`");
    }
    let begin = pb::TrainingBegin { class_names: vec![], ..good.begin(4) };
    table.add(
        path,
        "no class names",
        vec![command(Command::Begin(begin))],
        ARGUMENT,
        "`class_names`",
    );
    for (bad, classes) in [("one class", 1), ("65537 classes", 65_537)] {
        let begin = pb::TrainingBegin { classes, ..good.begin(4) };
        table.add(path, bad, vec![command(Command::Begin(begin))], ARGUMENT, "`classes`");
    }
    for (bad, count) in [("no record", 0), ("4294967295 records", u32::MAX)] {
        table.add(
            path,
            bad,
            vec![command(Command::Begin(good.begin(count)))],
            ARGUMENT,
            "`record_count`",
        );
    }
    let begun = || vec![command(Command::Begin(good.begin(4)))];
    let with = |mut messages: Vec<pb::TrainingCommand>, more: Vec<pb::TrainingCommand>| {
        messages.extend(more);
        messages
    };
    for (bad, ids, says) in bad_ids().into_iter().skip(1) {
        table.add(
            path,
            bad,
            with(begun(), vec![command(Command::Records(ids.unwrap()))]),
            ARGUMENT,
            says,
        );
    }
    let records = |ids: pb::RecordIds| command(Command::Records(ids));
    table.add(
        path,
        "an empty chunk",
        with(begun(), vec![records(many(0))]),
        ARGUMENT,
        "`records` has 0 records",
    );
    table.add(
        path,
        "more records than announced",
        with(begun(), vec![records(many(5))]),
        ARGUMENT,
        "5 records, expected 4",
    );
    table.add(
        path,
        "records not held",
        with(begun(), vec![records(many(4))]),
        Code::NotFound,
        "some of the 4 training records",
    );
    table.add(path, "begin twice", with(begun(), begun()), ARGUMENT, "expected records, got begin");
    table.add(
        path,
        "a step before the records",
        with(begun(), vec![step(Default::default())]),
        ARGUMENT,
        "expected records",
    );
    let ready = |more| with(begun(), with(vec![records(good.ids.clone())], more));
    let ask = |batch: Vec<u32>| step(pb::TrainingStep { step: 1, batch, ..Default::default() });
    let gradient = |m| step(pb::TrainingStep { step: 2, gradient: Some(m), ..Default::default() });
    table.add(
        path,
        "a position out of range",
        ready(vec![ask(vec![0, 4])]),
        ARGUMENT,
        "position 4",
    );
    let most = (0..500_000).collect();
    table.add(
        path,
        "a batch whose shares fit no message",
        ready(vec![ask(most)]),
        ARGUMENT,
        "`batch` has 500000 records",
    );
    table.add(
        path,
        "a gradient without a batch",
        ready(vec![gradient(filled(2, good.k))]),
        ARGUMENT,
        "without a batch",
    );
    for (bad, m, says) in [
        ("a gradient of too few rows", filled(1, good.k), "1 records, expected 2"),
        ("a gradient of too many classes", filled(2, good.k + 1), "`gradient` has"),
        ("a gradient a byte count off", matrix(2, good.k as u32, &[0.0]), "`gradient` says"),
        ("a gradient that is NaN", spoiled(2, good.k, f64::NAN), "not finite, in row 1"),
    ] {
        table.add(path, bad, ready(vec![ask(vec![0, 1]), gradient(m)]), ARGUMENT, says);
    }
    let overflow = matrix(2, good.k as u32, &vec![f64::MAX; 2 * good.k]);
    let after = vec![ask(vec![0, 1]), gradient(overflow), ask(vec![0])];
    table.add(path, "a gradient that overflows", ready(after), STATE, "lower the learning rate");
    let store = |from_checkpoint| command(Command::Store(pb::StoreShare { from_checkpoint }));
    table.add(
        path,
        "a checkpoint that was not taken",
        ready(vec![store(true)]),
        STATE,
        "no checkpoint",
    );
    let publish = |model_version: &str, digest: &str| {
        command(Command::Publish(pb::PublishShare {
            model_version: model_version.into(),
            digest: digest.into(),
        }))
    };
    let zeros = "0".repeat(64);
    table.add(path, "publish before store", ready(vec![publish("m-1", &zeros)]), STATE, "`digest`");
    table.add(
        path,
        "publish with no digest",
        ready(vec![store(false), publish("m-1", "")]),
        STATE,
        "`digest`",
    );
    table.add(
        path,
        "publish with another digest",
        ready(vec![store(false), publish("m-1", &zeros)]),
        STATE,
        "`digest`",
    );
    let named = ready(vec![store(false), publish("../m", &zeros)]);
    table.add(path, "publish under a malformed version", named, ARGUMENT, "`model_version`");
    table.add(
        path,
        "an end before publishing",
        ready(vec![store(false)]),
        Code::Unavailable,
        "ended the training",
    );
}

fn evaluation(table: &mut Table, here: &Trained, good: &Good) {
    let path = "/vfl.v1.PassiveParty/EvaluateReconstruction";
    let empty = pb::EvaluateReconstructionRequest::default();
    table.add(
        path,
        "a first message without records",
        vec![empty.clone()],
        ARGUMENT,
        "names the records",
    );
    table.add(
        path,
        "estimates before the records",
        vec![ask_estimates(filled(1, 2))],
        ARGUMENT,
        "names the records",
    );
    for (bad, ids, says) in bad_ids().into_iter().skip(1) {
        table.add(path, bad, vec![ask_ids(&ids.unwrap())], ARGUMENT, says);
    }
    table.add(path, "no record", vec![ask_ids(&many(0))], ARGUMENT, "0 came");
    let few = (&test_ids(&here.dataset, 0, 99)).into();
    table.add(path, "99 records", vec![ask_ids(&few)], ARGUMENT, "99 came");
    table.add(
        path,
        "records not held",
        vec![ask_ids(&many(100))],
        Code::NotFound,
        "100 or more of the 100 records",
    );
    let open = |more: Vec<pb::EvaluateReconstructionRequest>| {
        let mut messages = vec![ask_ids(&good.set)];
        messages.extend(more);
        messages
    };
    table.add(
        path,
        "a second list of records",
        open(vec![ask_ids(&good.set)]),
        ARGUMENT,
        "fixed by its first message",
    );
    table.add(
        path,
        "a later message without content",
        open(vec![empty]),
        ARGUMENT,
        "`message` is missing",
    );
    let overlap = (&test_ids(&here.dataset, 109, 209)).into();
    table.add(path, "a set that overlaps a scored one", vec![ask_ids(&overlap)], STATE, "overlaps");
    for (bad, m, says) in [
        ("estimates of too few rows", filled(99, 2), "99 rows, expected 100"),
        ("estimates of too many features", filled(100, 3), "3 columns, expected 2"),
        ("estimates a byte count off", matrix(100, 2, &[0.0]), "`estimates` says"),
        ("an estimate that is NaN", spoiled(100, 2, f64::NAN), "not finite, in row 99"),
        ("an estimate that is infinite", spoiled(100, 2, f64::INFINITY), "not finite, in row 99"),
    ] {
        table.add(path, bad, open(vec![ask_estimates(m)]), ARGUMENT, says);
    }
    let one = || ask_estimates(filled(100, 2));
    let given = pb::score::Control::Given.into();
    for (bad, more, says) in [
        ("a scoring of nothing", vec![ask_score()], "asks for nothing"),
        (
            "rho where answers are exact",
            vec![one(), ask(pb::Score { rho: Some(0.01), ..scoring() })],
            "`rho` is for noised",
        ),
        ("an unknown wish", vec![one(), ask(pb::Score { told: 9, ..scoring() })], "`told` is 9"),
        (
            "an unknown control",
            vec![one(), ask(pb::Score { control: 9, ..scoring() })],
            "`control` is 9",
        ),
        (
            "a control that did not come",
            vec![one(), ask(pb::Score { control: given, ..scoring() })],
            "no control came",
        ),
        (
            "a control nobody asked for",
            vec![one(), ask_piece(100, false, true), ask_score()],
            "does not ask for",
        ),
        ("two controls", vec![ask_piece(100, false, true); 2], "one control at most"),
        ("65 candidates", vec![one(); 65], "at most 64 candidates"),
        ("a candidate whose rows stop", vec![ask_piece(40, true, false), ask_score()], "not whole"),
        (
            "a candidate of one row too many",
            vec![ask_piece(40, true, false), ask_piece(61, false, false)],
            "expected 60",
        ),
        ("more rows to come than there are", vec![ask_piece(100, true, false)], "100 are left"),
        ("no rows, and more to come", vec![ask_piece(0, true, false)], "100 are left"),
        (
            "a control in the middle of a candidate",
            vec![ask_piece(40, true, false), ask_piece(60, false, true)],
            "mixed",
        ),
    ] {
        table.add(path, bad, open(more), ARGUMENT, says);
    }
    let all = std::iter::repeat_n([one(), ask_score()], 1025).flatten().collect();
    table.add(
        path,
        "one scoring more than a set allows",
        open(all),
        Code::ResourceExhausted,
        "0 scorings of these records are left",
    );
}

fn active_party(table: &mut Table, good: &Good) {
    let path = "/vfl.v1.ActiveParty/Predict";
    for (bad, ids, says) in bad_ids() {
        table.add(path, bad, vec![pb::ScoreRequest { ids, ..Default::default() }], ARGUMENT, says);
    }
    table.add(
        path,
        "no record",
        vec![pb::ScoreRequest { ids: Some(many(0)), ..Default::default() }],
        ARGUMENT,
        "0 came",
    );
    table.add(
        path,
        "65537 records",
        vec![pb::ScoreRequest { ids: Some(many(65_537)), ..Default::default() }],
        ARGUMENT,
        "65537 came",
    );
    table.row(
        path,
        "a record nobody holds",
        &pb::ScoreRequest { ids: Some(many(1)), ..Default::default() },
        pb::RowStatus::NotFound,
    );
    let path = "/vfl.v1.ActiveParty/Train";
    let job = |config, ids| vec![pb::TrainJobRequest { config, ids }];
    for (bad, config, says) in bad_configs() {
        table.add(path, bad, job(config, Some(good.ids.clone())), ARGUMENT, says);
    }
    let fine = || Some((&config(1)).into());
    for (bad, ids, says) in bad_ids().into_iter().skip(1) {
        table.add(path, bad, job(fine(), ids), ARGUMENT, says);
    }
    table.add(
        path,
        "records not held",
        job(fine(), Some(many(3))),
        Code::NotFound,
        "3 of the 3 training records",
    );
    let path = "/vfl.v1.ActiveParty/Reconstruct";
    for (bad, ids, says) in bad_ids() {
        table.add(
            path,
            bad,
            vec![pb::ReconstructRequest { ids, ..good.reconstruct() }],
            ARGUMENT,
            says,
        );
    }
    let empty = pb::ReconstructRequest { ids: Some(many(0)), ..good.reconstruct() };
    table.add(path, "no record", vec![empty], ARGUMENT, "no records");
    for (bad, model_version, code, says) in bad_versions() {
        table.add(
            path,
            bad,
            vec![pb::ReconstructRequest { model_version, ..good.reconstruct() }],
            code,
            says,
        );
    }
    let attacks: Vec<Bad<Vec<pb::AttackSpec>>> = vec![
        ("no attack", vec![], "1 to 64 attacks"),
        ("65 attacks", vec![attack("half", "zero_floor", "0.01"); 65], "1 to 64 attacks"),
        (
            "25 trainings of a network",
            vec![attack("generative_regression", "epochs", "100000"); 25],
            "at most 24",
        ),
        (
            "65 settings",
            vec![pb::AttackSpec {
                settings: vec![attack("half", "zero_floor", "0.01").settings[0].clone(); 65],
                ..attack("half", "zero_floor", "0.01")
            }],
            "65 settings, at most 64",
        ),
        ("an unknown attack", vec![attack("guess", "zero_floor", "0.01")], "there is no attack"),
        ("an unknown setting", vec![attack("half", "floor", "0.01")], "there is no setting"),
        ("a setting that is no number", vec![attack("half", "zero_floor", "x")], "`zero_floor`"),
        ("a setting out of range", vec![attack("half", "zero_floor", "0")], "`zero_floor`"),
        ("a setting that is NaN", vec![attack("half", "zero_floor", "NaN")], "`zero_floor`"),
    ];
    for (bad, attacks, says) in attacks {
        table.add(
            path,
            bad,
            vec![pb::ReconstructRequest { attacks, ..good.reconstruct() }],
            ARGUMENT,
            says,
        );
    }
    let help: Vec<Bad<pb::ReconstructRequest>> = vec![
        (
            "auxiliary records without a session",
            pb::ReconstructRequest { auxiliary_ids: Some(many(3)), ..good.reconstruct() },
            "`auxiliary_session`",
        ),
        (
            "an auxiliary session without records",
            pb::ReconstructRequest { auxiliary_session: "0".repeat(32), ..good.reconstruct() },
            "`auxiliary_ids`",
        ),
        (
            "auxiliary records that are attacked",
            pb::ReconstructRequest {
                auxiliary_ids: Some(good.set.clone()),
                auxiliary_session: "0".repeat(32),
                ..good.reconstruct()
            },
            "100 or more of the `auxiliary_ids`",
        ),
        (
            "a colluder that is a path",
            pb::ReconstructRequest { colluders: vec!["../x".into()], ..good.reconstruct() },
            "`colluders`",
        ),
        (
            "a colluder named twice",
            pb::ReconstructRequest { colluders: vec!["passive-1".into(); 2], ..good.reconstruct() },
            "twice",
        ),
    ];
    for (bad, request, says) in help {
        table.add(path, bad, vec![request], ARGUMENT, says);
    }
    let live = pb::ReconstructRequest { audit_session: String::new(), ..good.reconstruct() };
    table.add(path, "no audit session", vec![live], ARGUMENT, "`audit_session` is missing");
    table.add(
        path,
        "an unknown audit session",
        vec![good.reconstruct()],
        Code::NotFound,
        "audit session",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_input_gets_its_code() {
    // Small trainings, so that what is wrong with a message is found and not how few records it is about.
    let here = trained(1, 2, 1).await;
    let here = here
        .again(|spec| {
            (spec.consent.min_records, spec.consent.min_batch) = (1, 1);
            spec.help.colluding = vec![PartyName::new("passive-1").unwrap()];
        })
        .await;
    let good = Good::new(&here);
    // Without anything wrong, each is taken: what is refused below is refused for the one thing that is wrong.
    assert!(score(&here.deployment, &test_ids(&here.dataset, 0, 4)).await.is_ok());
    let mut table = Table::default();
    predictions(&mut table, &here, &good);
    alignments(&mut table, &good);
    audits(&mut table, &here, &good);
    training_at_the_coordinator(&mut table, &good);
    passive_party(&mut table, &good);
    training_at_a_passive_party(&mut table, &good);
    publishing(&mut table, &good);
    evaluation(&mut table, &here, &good);
    active_party(&mut table, &good);
    let cases = table.0.len();
    table.check(&here.deployment).await;
    println!("{cases} bad inputs");
    let after = score(&here.deployment, &test_ids(&here.dataset, 0, 4)).await.unwrap();
    assert_eq!(after.model_version, here.version, "none of it has changed the model in service");
    here.deployment.stop().await.unwrap();
}

fn publishing(table: &mut Table, good: &Good) {
    let path = "/vfl.v1.Coordinator/Publish";
    let message = |reply| pb::PublishReply { reply: Some(reply) };
    let start = |change: &dyn Fn(&mut pb::PublishStart)| {
        let mut start = good.publish_start();
        change(&mut start);
        message(PublishReply::Start(start))
    };
    table.add(
        path,
        "no reply",
        vec![pb::PublishReply { reply: None }],
        ARGUMENT,
        "`reply` is missing",
    );
    table.add(
        path,
        "no start",
        vec![message(PublishReply::TrainingIds(many(1)))],
        ARGUMENT,
        "expected start",
    );
    for (bad, change, says) in [
        (
            "one class",
            (&|s: &mut pb::PublishStart| s.class_names.truncate(1))
                as &dyn Fn(&mut pb::PublishStart),
            "class_names",
        ),
        ("a class twice", &|s| s.class_names[1] = s.class_names[0].clone(), "distinct"),
        ("a digest that is a path", &|s| s.digest = "../../etc/passwd".into(), "`digest`"),
        ("10 001 features", &|s| s.features = 10_001, "`features`"),
        ("too many training ids", &|s| s.training_id_count = 10_000_001, "`training_id_count`"),
    ] {
        table.add(path, bad, vec![start(change)], ARGUMENT, says);
    }
    let four = start(&|_| ());
    let chunk = |ids| message(PublishReply::TrainingIds(ids));
    table.add(
        path,
        "more ids than said",
        vec![four.clone(), chunk(many(5))],
        ARGUMENT,
        "has 5 records, expected 4",
    );
    table.add(path, "no ids", vec![four.clone(), chunk(many(0))], ARGUMENT, "has 0 records");
    table.add(
        path,
        "ids twice",
        vec![four.clone(), chunk(many(2)), chunk(many(2))],
        ARGUMENT,
        "twice",
    );
    table.add(
        path,
        "nothing is staged",
        vec![four, chunk(many(4))],
        STATE,
        "no parameters are staged here",
    );
    let path = "/vfl.v1.PassiveParty/DescribeStaged";
    let nobody = pb::DescribeStagedRequest { active_party: "a/b".into(), ..good.describe_staged() };
    table.add(path, "a party that is a path", vec![nobody], ARGUMENT, "`active_party`");
    table.add(
        path,
        "nothing is staged",
        vec![good.describe_staged()],
        STATE,
        "no parameters are staged here",
    );
    let path = "/vfl.v1.PassiveParty/PublishStaged";
    let version =
        pb::PublishStagedRequest { model_version: "../m-1".into(), ..good.publish_staged() };
    table.add(path, "a version that is a path", vec![version], ARGUMENT, "`model_version`");
    table.add(
        path,
        "nothing is staged",
        vec![good.publish_staged()],
        STATE,
        "no parameters are staged here",
    );
    let path = "/vfl.v1.ActiveParty/Publish";
    for (bad, ids, says) in bad_ids().into_iter().filter(|(_, ids, _)| ids.is_some()) {
        table.add(path, bad, vec![pb::PublishJobRequest { training_ids: ids }], ARGUMENT, says);
    }
    table.add(
        path,
        "nothing is staged",
        vec![pb::PublishJobRequest::default()],
        STATE,
        "no parameters are staged here",
    );
}

/// What an operator has not allowed, and what needs a model before there is one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_or_not_there_yet() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let mut spec = spec(dir.path(), &dataset, &split(&dataset, 1, 2));
    spec.release.to_active_party = Grant::Nothing;
    spec.alignment = None;
    let deployment = Deployment::start_with(spec, |_, settings| {
        settings.training.allowed = false;
        settings.publishing.allowed = false;
        settings.audit.allowed = false;
        Ok(())
    })
    .await
    .unwrap();
    let here = Trained {
        split: split(&dataset, 1, 2),
        deployment,
        version: "m-0000000000000000".into(),
        dir,
        dataset,
    };
    let good = Good::new(&here);
    let mut table = Table::default();
    let start = pb::TrainingReply { reply: Some(Reply::Start(good.start(4))) };
    let denied = Code::PermissionDenied;
    table.add(
        "/vfl.v1.Coordinator/Train",
        "training is not allowed",
        vec![start],
        denied,
        "[training]",
    );
    let job = pb::TrainJobRequest { config: Some((&config(1)).into()), ids: None };
    table.add(
        "/vfl.v1.ActiveParty/Train",
        "training is not allowed",
        vec![job],
        denied,
        "[training]",
    );
    let start = pb::PublishReply { reply: Some(PublishReply::Start(good.publish_start())) };
    table.add(
        "/vfl.v1.Coordinator/Publish",
        "publishing is not allowed",
        vec![start],
        denied,
        "[publishing]",
    );
    let frame = named("active");
    table.add(
        "/vfl.v1.PassiveParty/Align",
        "alignment is not allowed",
        vec![frame],
        denied,
        "[alignment]",
    );
    let job = pb::AlignJobRequest { passive_party: "passive-1".into(), ids: None };
    table.add(
        "/vfl.v1.ActiveParty/Align",
        "alignment is not allowed",
        vec![job],
        denied,
        "[alignment]",
    );
    let model = "no model is in service";
    table.add(
        "/vfl.v1.Coordinator/DescribeModel",
        "no model yet",
        vec![pb::DescribeModelRequest {}],
        STATE,
        model,
    );
    table.add("/vfl.v1.Coordinator/Predict", "no model yet", vec![good.predict()], STATE, model);
    table.add(
        "/vfl.v1.Coordinator/PredictStream",
        "no model yet",
        vec![good.predict()],
        STATE,
        model,
    );
    table.add(
        "/vfl.v1.Coordinator/OpenAudit",
        "audits are not allowed",
        vec![good.open()],
        denied,
        "audits are not allowed",
    );
    table.add(
        "/vfl.v1.PassiveParty/ComputeLogits",
        "no model yet",
        vec![good.logits()],
        STATE,
        "not stored here",
    );
    let release = pb::ReleaseParametersRequest { model_version: good.version.clone() };
    table.add(
        "/vfl.v1.PassiveParty/ReleaseParameters",
        "nothing is granted",
        vec![release],
        denied,
        "release policy",
    );
    let top = pb::ReleaseTopModelRequest { model_version: good.version.clone() };
    table.add(
        "/vfl.v1.Coordinator/ReleaseTopModel",
        "nothing is granted",
        vec![top],
        denied,
        "[release]",
    );
    table.add(
        "/vfl.v1.PassiveParty/LendShares",
        "nobody is colluded with",
        vec![good.lend()],
        denied,
        "[collusion]",
    );
    let ids = Some(good.ids.clone());
    table.add(
        "/vfl.v1.ActiveParty/Predict",
        "no model yet",
        vec![pb::ScoreRequest { ids, ..Default::default() }],
        STATE,
        model,
    );
    table.add(
        "/vfl.v1.ActiveParty/Reconstruct",
        "no model yet",
        vec![good.reconstruct()],
        STATE,
        model,
    );
    table.check(&here.deployment).await;
    here.deployment.stop().await.unwrap();

    // The same with a model, and audits still not allowed.
    let here = trained(1, 2, 1).await;
    here.deployment.stop().await.unwrap();
    let spec = super::support::spec(here.dir.path(), &here.dataset, &here.split);
    let deployment = Deployment::start_with(spec, |_, settings| {
        settings.audit.allowed = false;
        Ok(())
    })
    .await
    .unwrap();
    let here = Trained { deployment, ..here };
    let mut table = Table::default();
    table.add(
        "/vfl.v1.Coordinator/OpenAudit",
        "audits are not allowed",
        vec![Good::new(&here).open()],
        denied,
        "[audit]",
    );
    table.check(&here.deployment).await;
    here.deployment.stop().await.unwrap();
}

/// What depends on an open session: whose it is, which records it is about, how many rows are left.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_for_one_party_and_their_records() {
    let here = trained(1, 2, 1).await;
    let good = Good::new(&here);
    let mut auditor = super::support::coordinator_client(&here.deployment, Role::Auditor);
    let opened = auditor.open_audit(good.open()).await.unwrap().into_inner();
    let foreign = pb::OpenAuditRequest { active_party: "another".into(), ..good.open() };
    let foreign = auditor.open_audit(foreign).await.unwrap().into_inner();
    let ask = |session: &str, ids: &pb::RecordIds| pb::PredictRequest {
        audit_session: session.into(),
        ids: Some(ids.clone()),
        logit_shares: Some(filled(ids.len(), good.k)),
        ..good.predict()
    };
    let path = "/vfl.v1.Coordinator/Predict";
    let mut table = Table::default();
    let theirs = ask(&foreign.audit_session, &good.set);
    table.add(path, "another party's session", vec![theirs], Code::PermissionDenied, "`active`");
    table.row(
        path,
        "a record outside the session",
        &ask(&opened.audit_session, &good.ids),
        pb::RowStatus::NotInSession,
    );
    table.check(&here.deployment).await;
    // Four rows of the budget are gone: rows that failed cost too.
    let mut active = super::support::coordinator_client(&here.deployment, Role::ActiveParty);
    let rounds = opened.row_budget / 100 - 1;
    for _ in 0..rounds {
        active.predict(ask(&opened.audit_session, &good.set)).await.unwrap();
    }
    let mut table = Table::default();
    let more = ask(&opened.audit_session, &good.set);
    table.add(
        path,
        "a session with 96 rows left",
        vec![more],
        Code::ResourceExhausted,
        "96 rows left",
    );
    table.check(&here.deployment).await;
    let close = |s: &str| pb::CloseAuditRequest { audit_session: s.into(), without_summary: false };
    let closed = auditor.close_audit(close(&opened.audit_session)).await.unwrap().into_inner();
    assert_eq!(closed.rows, 100 * rounds);
    let mut table = Table::default();
    table.add(
        path,
        "a closed session",
        vec![ask(&opened.audit_session, &good.set)],
        Code::NotFound,
        "audit session",
    );
    table.check(&here.deployment).await;
    here.deployment.stop().await.unwrap();
}

/// One training at a time, wherever the second one is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_training_is_aborted() {
    let here = trained(1, 2, 1).await;
    let good = Good::new(&here);
    let endless = pb::TrainingConfig { epochs: 100_000, patience: 100_000, ..(&config(1)).into() };
    let ids = Some((&training_ids(&here.dataset)).into());
    let first = pb::TrainJobRequest { config: Some(endless), ids };
    let mut running = active_client(&here.deployment).train(first).await.unwrap().into_inner();
    running.message().await.unwrap().unwrap();
    let mut table = Table::default();
    let job = pb::TrainJobRequest { config: Some((&config(1)).into()), ids: None };
    table.add(
        "/vfl.v1.ActiveParty/Train",
        "while another one runs",
        vec![job],
        Code::Aborted,
        "another training",
    );
    let start = pb::TrainingReply { reply: Some(Reply::Start(good.start(4))) };
    table.add(
        "/vfl.v1.Coordinator/Train",
        "while another one runs",
        vec![start],
        Code::Aborted,
        "another training",
    );
    table.check(&here.deployment).await;
    drop(running);
    here.deployment.stop().await.unwrap();
}
