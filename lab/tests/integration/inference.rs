//! The Open Inference Protocol beside `Predict`: the same scores, rules and budgets; what is ready; and reflection.

use std::time::{Duration, Instant};

use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use vfl_coordinator::config::Budgets;
use vfl_core::types::RecordIds;
use vfl_defense::DefenseConfig;
use vfl_protocol::pb::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use vfl_protocol::pb::inference::infer_parameter::ParameterChoice;
use vfl_protocol::pb::inference::model_infer_request::{
    InferInputTensor, InferRequestedOutputTensor,
};
use vfl_protocol::pb::inference::{
    InferTensorContents, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelReadyRequest, ServerLiveRequest, ServerMetadataRequest, ServerReadyRequest,
};
use vfl_protocol::{MAX_MESSAGE_BYTES, decode_columns, pb};
use vfl_server::service::{Credentials, Role, channel};
use vfl_testbed::deployment::Deployment;

use super::support::{
    Trained, active_client, config, coordinator_client, credentials, dataset, deploy, split,
    test_ids, trained, training_ids,
};

fn client_of(
    deployment: &Deployment,
    credentials: &Credentials,
) -> GrpcInferenceServiceClient<Channel> {
    GrpcInferenceServiceClient::new(channel(credentials, &deployment.active_peer()).unwrap())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

fn client(deployment: &Deployment) -> GrpcInferenceServiceClient<Channel> {
    client_of(deployment, &deployment.active_credentials)
}

/// A question in the form that Triton's client sends.
pub fn question(ids: &RecordIds, id: &str) -> ModelInferRequest {
    let mut raw = Vec::new();
    for id in ids.iter() {
        raw.extend((id.len() as u32).to_le_bytes());
        raw.extend(id.as_bytes());
    }
    ModelInferRequest {
        model_name: "cloison".into(),
        id: id.into(),
        inputs: vec![InferInputTensor {
            name: "ids".into(),
            datatype: "BYTES".into(),
            shape: vec![ids.len() as i64],
            ..Default::default()
        }],
        raw_input_contents: vec![raw.into()],
        ..Default::default()
    }
}

pub async fn infer(
    deployment: &Deployment,
    question: ModelInferRequest,
) -> Result<ModelInferResponse, Status> {
    client(deployment).model_infer(question).await.map(tonic::Response::into_inner)
}

/// Shape, datatype and bytes of an output.
fn output<'a>(answer: &'a ModelInferResponse, name: &str) -> (&'a [i64], &'a str, &'a [u8]) {
    assert_eq!(answer.outputs.len(), answer.raw_output_contents.len());
    let at = answer.outputs.iter().position(|output| output.name == name).unwrap();
    (&answer.outputs[at].shape, &answer.outputs[at].datatype, &answer.raw_output_contents[at])
}

fn scores(answer: &ModelInferResponse) -> Vec<f64> {
    let (shape, datatype, bytes) = output(answer, "scores");
    let scores: Vec<f64> =
        bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect();
    assert_eq!((datatype, shape[0] * shape[1]), ("FP64", scores.len() as i64));
    scores
}

fn texts(answer: &ModelInferResponse, name: &str) -> Vec<String> {
    let (shape, datatype, mut bytes) = output(answer, name);
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (text, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        texts.push(String::from_utf8(text.to_vec()).unwrap());
        bytes = rest;
    }
    assert_eq!((datatype, shape), ("BYTES", &[texts.len() as i64][..]));
    texts
}

fn release(answer: &ModelInferResponse) -> &str {
    match &answer.parameters["release"].parameter_choice {
        Some(ParameterChoice::StringParam(kind)) => kind,
        other => panic!("{other:?}"),
    }
}

/// Records with a score, one that nobody holds, and one of the training.
fn mixed(here: &Trained) -> RecordIds {
    let (test, trained) = (test_ids(&here.dataset, 0, 3), training_ids(&here.dataset));
    let get = |ids: &RecordIds, at| ids.get(at).unwrap().to_owned();
    RecordIds::new([get(&test, 0), "nobody".into(), get(&test, 1), get(&trained, 0), get(&test, 2)])
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_those_of_predict_to_the_last_bit() {
    let here = trained(2, 2, 1).await;
    let ids = mixed(&here);
    let request = pb::ScoreRequest { ids: Some((&ids).into()), request_id: String::new() };
    let expected = active_client(&here.deployment).predict(request).await.unwrap().into_inner();
    let Some(pb::release::Kind::Probabilities(matrix)) = expected.release.unwrap().kind else {
        panic!("no scores")
    };
    let expected_scores = decode_columns("release", &matrix, 3, None).unwrap();

    let answer = infer(&here.deployment, question(&ids, "")).await.unwrap();
    assert_eq!((&answer.model_name[..], &answer.model_version), ("cloison", &here.version));
    assert_eq!(release(&answer), "probabilities");
    assert_eq!(texts(&answer, "row_status"), ["ok", "not_found", "ok", "training_record", "ok"]);
    assert_eq!(&texts(&answer, "class_names"), here.dataset.class_names());
    let k = here.dataset.class_names().len();
    let (found, labels) = (scores(&answer), texts(&answer, "label"));
    let mut released = expected_scores.column_iter();
    for (row, (scores, label)) in found.chunks(k).zip(labels).enumerate() {
        if [1, 3].contains(&row) {
            assert!(scores.iter().all(|score| score.is_nan()) && label.is_empty());
            continue;
        }
        let column = released.next().unwrap();
        assert!(
            scores
                .iter()
                .zip(&column)
                .all(|(found, expected)| found.to_bits() == expected.to_bits())
        );
        assert_eq!(label, here.dataset.class_names()[column.argmax().0]);
    }

    // The same, with ids as contents, under the version by name, and one output alone.
    let mut typed = question(&ids, "");
    typed.raw_input_contents.clear();
    let bytes_contents = ids.iter().map(|id| id.to_owned().into()).collect();
    typed.inputs[0].contents = Some(InferTensorContents { bytes_contents, ..Default::default() });
    typed.model_version = here.version.clone();
    typed.outputs =
        vec![InferRequestedOutputTensor { name: "scores".into(), ..Default::default() }];
    let again = infer(&here.deployment, typed).await.unwrap();
    assert_eq!(again.outputs.len(), 1);
    assert_eq!(output(&again, "scores"), output(&answer, "scores"));

    let mut client = client(&here.deployment);
    let asked = ModelMetadataRequest { name: "cloison".into(), version: String::new() };
    let model = client.model_metadata(asked).await.unwrap().into_inner();
    assert_eq!(model.versions, std::slice::from_ref(&here.version));
    let told: Vec<_> =
        model.outputs.iter().map(|o| (&o.name, &o.datatype, o.shape.len())).collect();
    let came: Vec<_> =
        answer.outputs.iter().map(|o| (&o.name, &o.datatype, o.shape.len())).collect();
    assert_eq!(told, came, "an answer is what the metadata say");
    let server = client.server_metadata(ServerMetadataRequest {}).await.unwrap().into_inner();
    assert_eq!((&server.name[..], server.extensions.len()), ("cloison", 0));
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_is_released_as_a_label_and_never_as_a_score() {
    let here = trained(1, 2, 1).await;
    let ids = mixed(&here);
    let exact = infer(&here.deployment, question(&ids, "")).await.unwrap();
    let here =
        here.again(|spec| spec.defenses = vec![DefenseConfig::ClassLabel { softening: 0.0 }]).await;
    let answer = infer(&here.deployment, question(&ids, "")).await.unwrap();
    assert_eq!(release(&answer), "labels");
    assert!(scores(&answer).iter().all(|score| score.is_nan()));
    assert_eq!(texts(&answer, "label"), texts(&exact, "label"));
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_spend_one_budget_and_share_their_request_ids() {
    let budgets = Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED };
    let here = trained(1, 2, 1).await.with_budgets(budgets, |_| ()).await;
    let ids = test_ids(&here.dataset, 0, 3);
    let queries = async || {
        let request = pb::DescribeLedgerRequest { active_party: String::new() };
        let ledger = coordinator_client(&here.deployment, Role::Auditor)
            .describe_ledger(request)
            .await
            .unwrap();
        ledger.into_inner().parties.first().map_or(0, |party| party.queries)
    };
    let first = infer(&here.deployment, question(&ids, "job")).await.unwrap();
    assert_eq!(first.id, "job");
    for _ in 0..3 {
        assert_eq!(
            infer(&here.deployment, question(&ids, "job")).await.unwrap(),
            first,
            "a retry costs nothing"
        );
    }
    let request = pb::ScoreRequest { ids: Some((&ids).into()), request_id: "job".into() };
    active_client(&here.deployment).predict(request).await.unwrap();
    assert_eq!(queries().await, 3, "nor does the same request of the other protocol");
    let other = test_ids(&here.dataset, 3, 6);
    let refused = infer(&here.deployment, question(&other, "job")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");

    // What is refused before it is asked costs nothing.
    for (code, question) in [
        (Code::NotFound, ModelInferRequest { model_name: "other".into(), ..question(&ids, "") }),
        (Code::NotFound, ModelInferRequest { model_name: String::new(), ..question(&ids, "") }),
        (
            Code::FailedPrecondition,
            ModelInferRequest { model_version: "m-1".into(), ..question(&ids, "") },
        ),
        (
            Code::InvalidArgument,
            ModelInferRequest { raw_input_contents: vec![], ..question(&ids, "") },
        ),
        (Code::InvalidArgument, question(&ids, &"x".repeat(101))),
        (
            Code::InvalidArgument,
            ModelInferRequest {
                raw_input_contents: vec![Default::default(); 100],
                ..question(&ids, "")
            },
        ),
    ] {
        let refused = infer(&here.deployment, question).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    assert_eq!(queries().await, 3);

    assert_eq!(
        texts(&infer(&here.deployment, question(&ids, "")).await.unwrap(), "row_status"),
        ["ok"; 3]
    );
    let spent = infer(&here.deployment, question(&ids, "")).await.unwrap();
    assert_eq!(texts(&spent, "row_status"), ["budget_spent"; 3]);
    assert!(scores(&spent).iter().all(|score| score.is_nan()));
    here.deployment.stop().await.unwrap();
}

/// The role is not enough, for none of the calls.
#[tokio::test(flavor = "multi_thread")]
async fn another_active_party_learns_nothing() {
    let here = trained(1, 2, 1).await;
    let other = here.deployment.credentials(Role::ActiveParty, "other").unwrap();
    let mut client = client_of(&here.deployment, &other);
    let name = || "cloison".to_owned();
    let refusals = [
        client.server_live(ServerLiveRequest {}).await.err(),
        client.server_ready(ServerReadyRequest {}).await.err(),
        client.server_metadata(ServerMetadataRequest {}).await.err(),
        client.model_ready(ModelReadyRequest { name: name(), version: String::new() }).await.err(),
        client
            .model_metadata(ModelMetadataRequest { name: name(), version: String::new() })
            .await
            .err(),
        client.model_infer(question(&test_ids(&here.dataset, 0, 3), "")).await.err(),
    ];
    for refusal in refusals {
        let status = refusal.expect("it was answered");
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        assert!(status.message().contains("`active`"), "{status}");
    }
    here.deployment.stop().await.unwrap();
}

async fn health(deployment: &Deployment, service: &str) -> Result<ServingStatus, Status> {
    let auditor =
        channel(&credentials(deployment, Role::Auditor), &deployment.active_peer()).unwrap();
    let request = HealthCheckRequest { service: service.into() };
    HealthClient::new(auditor).check(request).await.map(|answer| answer.into_inner().status())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_once_a_model_is_in_service() {
    const SERVICE: &str = "inference.GRPCInferenceService";
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let client = client(&deployment);
    let ready = async |name: &str, version: &str| {
        let request = ModelReadyRequest { name: name.into(), version: version.into() };
        client.clone().model_ready(request).await.map(|answer| answer.into_inner().ready)
    };
    assert!(client.clone().server_live(ServerLiveRequest {}).await.unwrap().into_inner().live);
    assert!(!client.clone().server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    assert!(!ready("cloison", "").await.unwrap());
    let asked = ModelMetadataRequest { name: "cloison".into(), version: String::new() };
    assert_eq!(
        client.clone().model_metadata(asked).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    assert_eq!(health(&deployment, "").await.unwrap(), ServingStatus::Serving, "the process is up");
    assert_eq!(health(&deployment, SERVICE).await.unwrap(), ServingStatus::NotServing);

    let published = deployment.train(&config(1), &training_ids(&dataset), |_| ()).await.unwrap();
    assert!(client.clone().server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    let version: String = published.version.into();
    for (version, expected) in [("", true), (&version[..], true), ("m-1", false)] {
        assert_eq!(ready("cloison", version).await.unwrap(), expected, "{version}");
    }
    assert_eq!(ready("other", "").await.unwrap_err().code(), Code::NotFound);
    let until = Instant::now() + Duration::from_secs(20);
    while health(&deployment, SERVICE).await.unwrap() != ServingStatus::Serving {
        assert!(Instant::now() < until, "health does not follow");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    deployment.stop().await.unwrap();
}

macro_rules! listed {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
        let ask = |what| tonic_reflection::pb::$version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(what),
        };
        let questions = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("vfl.v1.RecordIds".into())),
        ];
        let mut client = ServerReflectionClient::new($channel);
        let mut answers = client
            .server_reflection_info(tokio_stream::iter(questions))
            .await
            .unwrap()
            .into_inner();
        let Some(MessageResponse::ListServicesResponse(services)) =
            answers.message().await.unwrap().unwrap().message_response
        else {
            panic!("no list of services");
        };
        let Some(MessageResponse::FileDescriptorResponse(file)) =
            answers.message().await.unwrap().unwrap().message_response
        else {
            panic!("no file");
        };
        assert_eq!(file.file_descriptor_proto.len(), 1);
        services.service.into_iter().map(|service| service.name).collect::<Vec<String>>()
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_tells_every_role_what_a_party_serves() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let common = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    for (peer, own) in [
        (deployment.coordinator_peer(), &["vfl.v1.Coordinator"][..]),
        (deployment.passive_peers().remove(0), &["vfl.v1.PassiveParty"]),
        (deployment.active_peer(), &["vfl.v1.ActiveParty", "inference.GRPCInferenceService"]),
    ] {
        let mut expected = [own, &common].concat();
        expected.sort_unstable();
        for role in Role::ALL {
            let channel = channel(&credentials(&deployment, role), &peer).unwrap();
            for mut found in [listed!(v1, channel.clone()), listed!(v1alpha, channel.clone())] {
                found.sort_unstable();
                assert_eq!(found, expected, "{peer} told {role}");
            }
        }
    }
    deployment.stop().await.unwrap();
}
