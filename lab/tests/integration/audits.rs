//! Audits over the sockets, and a passive party that dies between the two phases of publishing.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::{Findings, Plan};
use vfl_auditor::report::{Audit, Errors, Outcome, ParameterKnowledge};
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::PartyName;
use vfl_numerics::three_significant_digits;
use vfl_party::training::Participant;
use vfl_passive_party::config::{Grant, ReleasePolicy};
use vfl_passive_party::logits::LogitServer;
use vfl_protocol::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::{RefusalKind, ShareRequest, pb, stream_answer};
use vfl_server::service::{Credentials, Limits, Peer, Role, serve};
use vfl_state::ShareStore;
use vfl_testbed::deployment::Deployment;

use super::networks::embeddings;
use super::support::{
    Trained, config, coordinator_client, dataset, score, spec, split, test_ids, trained,
    training_ids,
};

pub async fn audit(here: &Trained, records: usize, attacks: &[Method]) -> Findings {
    let policies =
        ["none", "rounding (decimals = 1)", "class_label"].map(|p| p.parse().unwrap()).into();
    let attacks = attacks.iter().copied().map(Into::into).collect();
    let plan = Plan::of(test_ids(&here.dataset, 0, records), policies, attacks, 11);
    audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap()
}

pub fn errors(audit: &Audit, attack: Method) -> &Errors {
    let result = audit.attacks.iter().find(|a| a.name == attack.as_str()).unwrap();
    match &result.outcome {
        Outcome::Ran { errors, .. } => errors,
        other => panic!("{attack} did not run: {other:?}"),
    }
}

fn all_errors(findings: &Findings) -> Vec<&Errors> {
    let mut all = Vec::new();
    for audit in &findings.audits {
        all.extend([&audit.baselines.half, &audit.baselines.column_mean]);
        all.extend(audit.attacks.iter().filter_map(|a| match &a.outcome {
            Outcome::Ran { errors, .. } => Some(errors),
            _ => None,
        }));
    }
    all
}

/// With at most k − 1 passive features a white box recovers them, a label does not; the same seed finds the same.
#[tokio::test(flavor = "multi_thread")]
async fn least_squares_is_exact_up_to_k_minus_1_features_and_a_label_stops_it() {
    let here = trained(2, 2, 6).await;
    let findings = audit(&here, 150, &Method::on_one_release().collect::<Vec<_>>()).await;
    assert_eq!(findings.audits.len(), 3);
    let [none, _, label] = &findings.audits[..] else { panic!("three audits") };
    let exact = errors(none, Method::LeastSquares).mse;
    assert!(exact < 1e-12, "undefended: {exact:e}");
    let hidden = errors(label, Method::LeastSquares).mse;
    assert!(hidden > 1e-4, "behind a label: {hidden:e}");
    // What the adversary sees of it: exact estimates give the released scores, clipped ones do not give rounded scores, a guess looks at
    // none, and behind a label there is none. It is told to three digits.
    let loss = |audit: &Audit, attack: Method| {
        audit.attacks.iter().find(|a| a.name == attack.as_str()).unwrap().score_mismatch
    };
    let rounded = loss(&findings.audits[1], Method::ClampedLeastSquares).unwrap();
    let solved = loss(none, Method::LeastSquares).unwrap();
    assert!(solved < 1e-20 && rounded > 1e-6, "{solved:e} {rounded:e}");
    assert_eq!(rounded, three_significant_digits(rounded));
    assert_eq!((loss(none, Method::Half), loss(label, Method::LeastSquares)), (None, None));
    let half = errors(none, Method::Half);
    assert_eq!(half, &none.baselines.half, "the attack `half` is the scorer's baseline");
    assert!(none.baselines.column_mean.mse <= none.baselines.half.mse);

    // The scorer's own oracle: the mean of (x − ½)² over the features of both parties, from the data set itself.
    let positions = &here.dataset.split().test[..150];
    let columns: Vec<usize> = here.split.passive().iter().flat_map(|p| p.columns.clone()).collect();
    let squares = columns.iter().flat_map(|&c| positions.iter().map(move |&p| (c, p)));
    let mean = squares.map(|at| (here.dataset.x()[at] - 0.5).powi(2)).sum::<f64>()
        / (150 * columns.len()) as f64;
    assert!((half.mse - mean).abs() < 0.01 * mean, "{} against {mean}", half.mse);

    for errors in all_errors(&findings) {
        assert_eq!(errors.per_feature.len(), 4);
        assert_eq!(
            errors.per_party.iter().map(|p| p.party.as_str()).collect::<Vec<_>>(),
            ["passive-1", "passive-2"]
        );
        for value in errors
            .per_feature
            .iter()
            .chain(errors.per_party.iter().map(|p| &p.mse))
            .chain([&errors.mse])
        {
            assert_eq!(*value, three_significant_digits(*value), "more than three digits");
        }
    }
    let again = audit(&here, 150, &Method::on_one_release().collect::<Vec<_>>()).await;
    let bytes = |f: &Findings| serde_json::to_vec(&f.audits).unwrap();
    assert_eq!(bytes(&findings), bytes(&again), "the same seed finds the same");
    here.deployment.stop().await.unwrap();
}

/// Without parameters the attacks that need them say so; what needs none runs, and the baselines are scored.
#[tokio::test(flavor = "multi_thread")]
async fn a_black_box_stops_the_attacks_that_need_parameters() {
    let here =
        trained(1, 2, 1).await.again(|spec| spec.release.to_active_party = Grant::Nothing).await;
    let findings = audit(&here, 100, &Method::on_one_release().collect::<Vec<_>>()).await;
    for audit in &findings.audits {
        assert_eq!(audit.threat_model.parameters, ParameterKnowledge::Hidden);
        assert!(audit.baselines.half.mse > 0.0 && audit.baselines.column_mean.mse > 0.0);
        for result in &audit.attacks {
            let guess = ["random", "zero", "half"].contains(&result.name.as_str());
            match &result.outcome {
                Outcome::NotScored { reason, .. } => {
                    panic!("{} was not scored: {reason}", result.name)
                }
                Outcome::Ran { .. } => {
                    let needs_none = guess || result.name == "black_box_lattice";
                    assert!(needs_none, "{} ran without parameters", result.name);
                }
                Outcome::NotRun { reason, .. } => {
                    // The one attack that needs no parameters but takes a single feature; here there are more.
                    let wanted = if result.name == "one_feature" {
                        "single passive feature"
                    } else {
                        "hidden"
                    };
                    assert!(!guess && reason.contains(wanted), "{}: {reason}", result.name);
                }
            }
        }
    }
    here.deployment.stop().await.unwrap();
}

/// Where a party dies: when it is asked for the thirtieth step, to store its share, or, having stored it, to publish it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Step,
    Store,
    Publish,
}

impl Stage {
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Step(step) if step.step == 30 => Some(Self::Step),
            Command::Store(_) => Some(Self::Store),
            Command::Publish(_) => Some(Self::Publish),
            _ => None,
        }
    }

    /// What the refusal says of it.
    fn words(self) -> &'static str {
        match self {
            Self::Step => "step 30",
            Self::Store => "storing the shares",
            Self::Publish => "publishing",
        }
    }
}

/// A passive party that can be told where to die.
struct Fragile {
    logits: Arc<LogitServer>,
    die: Arc<Mutex<Option<Stage>>>,
    /// Set when it came there and did not answer.
    died: Arc<AtomicBool>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl PassiveParty for Fragile {
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
        let logits = self.logits.clone();
        Ok(Response::new(Box::pin(request.into_inner().then(move |m| {
            let logits = logits.clone();
            async move {
                let message = m?;
                let question = message.question;
                let answer = logits.compute(&ShareRequest::try_from(message)?).await;
                Ok::<pb::ComputeLogitsResponse, Status>(stream_answer(question, answer))
            }
        }))))
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
        request: Request<Streaming<pb::TrainingCommand>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        let (die, died) = (self.die.clone(), self.died.clone());
        let commands = request.into_inner().map(move |message| match message {
            Ok(pb::TrainingCommand { command: Some(command) })
                if Stage::of(&command).is_some_and(|stage| *die.lock().unwrap() == Some(stage)) =>
            {
                died.store(true, Ordering::SeqCst);
                Err(Status::aborted("the process is gone"))
            }
            other => other,
        });
        let (replies, outgoing) = mpsc::channel(16);
        let logits = self.logits.clone();
        tokio::spawn(async move {
            let names = logits.feature_names();
            let participant = Participant {
                coordinator: "the coordinator".into(),
                store: &logits.store,
                feature_names: &names,
                known_records: None,
                source: &*logits,
                gate: None,
                privacy: None,
                private: None,
            };
            // Like a process that is gone: no last word, the stream just ends.
            let _ = participant.run(commands, &replies, |_| ()).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
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

/// Stored everywhere, confirmed by one party, not by the other: the old model stays in service, whole, and the training can
/// be run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_lost_at_any_stage_of_a_training_leaves_the_old_model() {
    lost_at_each_stage(config).await;
}

/// The same with a top model at the coordinator, which is on its disk before the second phase.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_lost_at_any_stage_leaves_the_old_top_model() {
    let top = |seed| {
        let values =
            TrainingValues { model: embeddings(&[6], 5, &[7]), ..config(seed).values().clone() };
        TrainingConfig::try_from(values).unwrap()
    };
    lost_at_each_stage(top).await;
}

async fn lost_at_each_stage(config: impl Fn(u32) -> TrainingConfig) {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 2, 2);
    let (die, died) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.release = ReleasePolicy::default();
    // The second party is the fragile one; the deployment itself starts only the first.
    let (_, table) = spec.tables.passive.pop().unwrap();
    let store = ShareStore::open(&dir.path().join("fragile")).unwrap();
    let logits = Arc::new(LogitServer::new(Arc::new(table), store));
    let fragile = Fragile { logits, die: die.clone(), died: died.clone() };
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let deployment = Deployment::start_with(spec, |authority, settings| {
        let name = PartyName::new("passive-2")?;
        let credentials = Credentials::new(&authority.issue(Role::PassiveParty, &name)?)?;
        let routes = tonic::service::Routes::new(PassivePartyServer::new(fragile));
        tokio::spawn(async move {
            let monitor = vfl_server::monitoring::Monitor::default();
            serve(listener, &credentials, &Limits::default(), &monitor, |_| routes, stopped).await
        });
        settings.passive_parties.push(Peer { role: Role::PassiveParty, name, address });
        Ok(())
    })
    .await
    .unwrap();
    let ids = training_ids(&dataset);
    let first = deployment.train(&config(1), &ids, |_| ()).await.unwrap();
    let test = test_ids(&dataset, 0, 30);
    let before = score(&deployment, &test).await.unwrap();
    assert_eq!(before.row_status, vec![1; 30]);

    for stage in [Stage::Step, Stage::Store, Stage::Publish] {
        *die.lock().unwrap() = Some(stage);
        let refusal = deployment.train(&config(2), &ids, |_| ()).await.unwrap_err();
        assert!(died.swap(false, Ordering::SeqCst), "it came to {stage:?}");
        assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal}");
        assert!(
            refusal.message.contains("passive-2") && refusal.message.contains(stage.words()),
            "{refusal}"
        );
        let mut coordinator = coordinator_client(&deployment, Role::ActiveParty);
        let described =
            coordinator.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
        assert_eq!(described.model_version, first.version.as_str());
        assert_eq!(
            score(&deployment, &test).await.unwrap(),
            before,
            "the old model, to the last bit"
        );
    }

    *die.lock().unwrap() = None;
    let second = deployment.train(&config(2), &ids, |_| ()).await.unwrap();
    assert_ne!(second.version, first.version);
    let after = score(&deployment, &test).await.unwrap();
    assert_eq!(after.model_version, second.version.as_str());
    deployment.stop().await.unwrap();
    stop.cancel();
}
