//! The coordinator's stream to a passive party that does not keep to the contract, or ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nalgebra::DMatrix;
use tokio::sync::Semaphore;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use vfl_coordinator::client::PassiveParty as Client;
use vfl_core::types::{LogitShare, ModelVersion, PartyName, RecordIds, RowStatus};
use vfl_protocol::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_protocol::{
    MAX_REASON_BYTES, Refusal, RefusalKind, ShareAnswer, ShareRequest, pb, stream_answer,
};
use vfl_server::monitoring::Monitor;
use vfl_server::service::{Credentials, Limits, Peer, Role, serve};
use vfl_testbed::certs::Authority;

/// What it answers depends on the record that it is asked for.
#[derive(Clone)]
struct Scripted {
    /// Streams that were opened.
    streams: Arc<AtomicUsize>,
    /// Questions that were asked.
    asked: Arc<AtomicUsize>,
    /// Has a permit for each question that is kept open.
    open: Arc<Semaphore>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Scripted {
    fn new() -> Self {
        Self { streams: Arc::default(), asked: Arc::default(), open: Arc::new(Semaphore::new(0)) }
    }

    fn answers(
        &self,
        stream: usize,
        request: &pb::ComputeLogitsRequest,
    ) -> Vec<Result<pb::ComputeLogitsResponse, Status>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let share = LogitShare::new(DMatrix::from_column_slice(2, 1, &[0.5, -0.5])).unwrap();
        let good =
            stream_answer(request.question, Ok(ShareAnswer { status: vec![RowStatus::Ok], share }));
        let refused = |code: u32, message: &str| pb::ComputeLogitsResponse {
            question: request.question,
            refused: Some(pb::ShareRefusal { code, message: message.into() }),
            ..Default::default()
        };
        let first = stream == 1;
        match request.ids.as_ref().unwrap().text() {
            "unknown code" => vec![Ok(refused(99, "x"))],
            "no code" => vec![Ok(refused(0, "x"))],
            "long text" => vec![Ok(refused(9, &"a\n".repeat(5000)))],
            "both" => {
                vec![Ok(pb::ComputeLogitsResponse { row_status: vec![1], ..refused(9, "x") })]
            }
            "another number" => {
                vec![Ok(pb::ComputeLogitsResponse { question: request.question + 1000, ..good })]
            }
            "twice" => vec![Ok(good.clone()), Ok(good)],
            "kept open" if first => {
                self.open.add_permits(1);
                vec![]
            }
            "ends the stream" if first => {
                vec![Err(Status::resource_exhausted("this stream is too long"))]
            }
            "always ends the stream" => {
                vec![Err(Status::resource_exhausted("this stream is too long"))]
            }
            _ => vec![Ok(good)],
        }
    }
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl PassiveParty for Scripted {
    async fn describe_features(
        &self,
        _: Request<pb::DescribeFeaturesRequest>,
    ) -> Result<Response<pb::DescribeFeaturesResponse>, Status> {
        not_here()
    }

    async fn compute_logits(
        &self,
        _: Request<pb::ComputeLogitsRequest>,
    ) -> Result<Response<pb::ComputeLogitsResponse>, Status> {
        not_here()
    }

    type ComputeLogitsStreamStream = Responses<pb::ComputeLogitsResponse>;

    async fn compute_logits_stream(
        &self,
        request: Request<Streaming<pb::ComputeLogitsRequest>>,
    ) -> Result<Response<Self::ComputeLogitsStreamStream>, Status> {
        let (script, stream) = (self.clone(), self.streams.fetch_add(1, Ordering::SeqCst) + 1);
        let answers = request.into_inner().map(move |message| {
            let answers = message.map_or_else(
                |status| vec![Err(status)],
                |message| script.answers(stream, &message),
            );
            futures_util::stream::iter(answers)
        });
        Ok(Response::new(Box::pin(futures_util::StreamExt::flatten(answers))))
    }

    type ReleasePrivatelyStream = Responses<pb::PrivateReleaseReply>;

    async fn release_privately(
        &self,
        _: Request<Streaming<pb::PrivateReleaseCommand>>,
    ) -> Result<Response<Self::ReleasePrivatelyStream>, Status> {
        not_here()
    }

    type TrainStream = Responses<pb::TrainingReply>;

    async fn train(
        &self,
        _: Request<Streaming<pb::TrainingCommand>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        not_here()
    }

    type AlignStream = Responses<pb::AlignmentFrame>;

    async fn align(
        &self,
        _: Request<Streaming<pb::AlignmentFrame>>,
    ) -> Result<Response<Self::AlignStream>, Status> {
        not_here()
    }

    async fn describe_staged(
        &self,
        _: Request<pb::DescribeStagedRequest>,
    ) -> Result<Response<pb::DescribeStagedResponse>, Status> {
        not_here()
    }

    async fn publish_staged(
        &self,
        _: Request<pb::PublishStagedRequest>,
    ) -> Result<Response<pb::PublishStagedResponse>, Status> {
        not_here()
    }

    async fn lend_shares(
        &self,
        _: Request<pb::LendSharesRequest>,
    ) -> Result<Response<pb::LendSharesResponse>, Status> {
        not_here()
    }

    async fn release_parameters(
        &self,
        _: Request<pb::ReleaseParametersRequest>,
    ) -> Result<Response<pb::ReleaseParametersResponse>, Status> {
        not_here()
    }

    type EvaluateReconstructionStream = Responses<pb::EvaluateReconstructionResponse>;

    async fn evaluate_reconstruction(
        &self,
        _: Request<Streaming<pb::EvaluateReconstructionRequest>>,
    ) -> Result<Response<Self::EvaluateReconstructionStream>, Status> {
        not_here()
    }
}

/// The coordinator's client of such a party.
async fn client(script: &Scripted) -> Arc<Client> {
    let authority = Authority::new("cloison.demo", 1).unwrap();
    let issue = |role, name: &str| {
        Credentials::new(&authority.issue(role, &PartyName::new(name).unwrap()).unwrap()).unwrap()
    };
    let (passive, coordinator) =
        (issue(Role::PassiveParty, "passive-1"), issue(Role::Coordinator, "coordinator"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let routes = tonic::service::Routes::new(PassivePartyServer::new(script.clone()));
    tokio::spawn(async move {
        serve(
            listener,
            &passive,
            &Limits::default(),
            &Monitor::default(),
            |_| routes,
            std::future::pending(),
        )
        .await
    });
    let peer =
        Peer { role: Role::PassiveParty, name: PartyName::new("passive-1").unwrap(), address };
    Arc::new(Client::new(&coordinator, peer, Duration::from_secs(60)).unwrap())
}

async fn ask(client: &Client, record: &str) -> Result<ShareAnswer, Refusal> {
    let version = ModelVersion::new("m-1").unwrap();
    client.compute_logits(ShareRequest { version, ids: RecordIds::new([record]).unwrap() }, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_none_are_the_partys_fault_and_cost_one_question() {
    let script = Scripted::new();
    let client = client(&script).await;
    ask(&client, "good").await.unwrap();
    for (record, kind, says) in [
        ("unknown code", RefusalKind::Internal, "an unknown code"),
        ("no code", RefusalKind::Internal, "an unknown code"),
        ("both", RefusalKind::Internal, "a refusal comes without shares"),
        ("long text", RefusalKind::FailedPrecondition, "passive party `passive-1` refused: a?a?"),
    ] {
        let refused = ask(&client, record).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{record}: {refused}");
        assert!(refused.message.contains(says), "{record}: {refused}");
        assert!(
            refused.message.len() < MAX_REASON_BYTES + 100 && !refused.message.contains('\n'),
            "{refused}"
        );
        ask(&client, "good").await.unwrap();
    }
    assert_eq!(script.streams.load(Ordering::SeqCst), 1, "none of these ends the stream");
    assert_eq!(script.asked.load(Ordering::SeqCst), 9, "none is asked again");
    // A stream on which nobody knows what is answered is given up.
    let refused = ask(&client, "another number").await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Internal, "{refused}");
    assert!(refused.message.contains("answered a question that was not asked"), "{refused}");
    ask(&client, "good").await.unwrap();
    assert_eq!(script.streams.load(Ordering::SeqCst), 2);
    ask(&client, "twice").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_under_way_are_asked_again_once_when_the_stream_ends() {
    let script = Scripted::new();
    let client = client(&script).await;
    let (of, script_of) = (client.clone(), script.clone());
    let kept = tokio::spawn(async move { ask(&of, "kept open").await });
    drop(
        tokio::time::timeout(Duration::from_secs(60), script_of.open.acquire())
            .await
            .unwrap()
            .unwrap(),
    );
    ask(&client, "ends the stream").await.unwrap();
    kept.await.unwrap().unwrap();
    assert_eq!(script.streams.load(Ordering::SeqCst), 2);
    assert_eq!(script.asked.load(Ordering::SeqCst), 4);
    let refused = ask(&client, "always ends the stream").await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable, "{refused}");
    assert!(
        refused
            .message
            .contains("passive party `passive-1` ended the stream: this stream is too long"),
        "{refused}"
    );
    assert_eq!(script.asked.load(Ordering::SeqCst), 6, "once more, and no more");
    ask(&client, "good").await.unwrap();
}
