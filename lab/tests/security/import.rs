//! Parameters that were trained elsewhere are published without any training: what is served is the closed form, nobody's consent
//! is passed over, and a failure on the way leaves the model in service.

use std::path::Path;

use nalgebra::{DMatrix, DVector};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use vfl_coordinator::config::Settings as CoordinatorSettings;
use vfl_core::model::{ParameterFile, train_central};
use vfl_core::types::{PartyName, RecordIds, ReleasedScores};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_defense::{DefenseConfig, Policy};
use vfl_protocol::pb;
use vfl_protocol::pb::RowStatus;
use vfl_protocol::pb::publish_command::Command;
use vfl_protocol::pb::publish_reply::Reply;
use vfl_server::service::{Role, channel};
use vfl_state::{ImportError, ImportReport, ImportRequest, Staging, import_parameters};
use vfl_testbed::deployment::{Deployment, DeploymentSpec};
use vfl_transform::TransformConfig;

use super::support::{
    active_client, config, coordinator_client, dataset, deploy, score, spec, split, test_ids,
    training_ids,
};

mod networks;

/// Three parties that may not train, and a model from elsewhere.
struct Here {
    dir: TempDir,
    dataset: Dataset,
    split: VerticalSplit,
    deployment: Deployment,
    whole: ParameterFile,
}

/// W (k × d, in the order of the data set's columns) and b of a model trained with all features in one place.
fn elsewhere(dataset: &Dataset, epochs: u32) -> ParameterFile {
    let positions = &dataset.split().train;
    let x = dataset.x().select_columns(positions);
    let labels: Vec<u32> = positions.iter().map(|&p| dataset.labels()[p]).collect();
    let fit = train_central(&config(epochs), dataset.class_names().len(), &x, &labels);
    let names = dataset.features().iter().map(|f| f.name.clone()).collect();
    ParameterFile::new(dataset.class_names().to_vec(), names, fit.weights, Some(fit.bias)).unwrap()
}

fn no_training(settings: &mut CoordinatorSettings) {
    settings.training.allowed = false;
}

impl Here {
    async fn new() -> Self {
        Self::with(|_| (), no_training).await
    }

    async fn with(
        change: impl FnOnce(&mut DeploymentSpec),
        adjust: impl FnOnce(&mut CoordinatorSettings),
    ) -> Self {
        let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
        let split = split(&dataset, 2, 2);
        let mut spec = spec(dir.path(), &dataset, &split);
        change(&mut spec);
        let deployment = Deployment::start_with(spec, |_, settings| {
            adjust(settings);
            Ok(())
        });
        let deployment = deployment.await.unwrap();
        let whole = elsewhere(&dataset, 6);
        Self { dir, dataset, split, deployment, whole }
    }

    /// The names of a party's features, in the order of its schema.
    fn names(&self, party: &str) -> Vec<String> {
        let columns = match party {
            "active" => self.split.active(),
            _ => &self.split.passive().iter().find(|p| p.name.as_str() == party).unwrap().columns,
        };
        columns.iter().map(|&c| self.dataset.features()[c].name.clone()).collect()
    }

    /// A party's part of a whole model, as its operator gets it.
    fn part(&self, whole: &ParameterFile, party: &str) -> ParameterFile {
        let bias = (party == "active").then(|| whole.bias().unwrap().clone());
        whole.part(&self.names(party)).unwrap().with_bias(bias)
    }

    /// What `import-parameters` does at a party, for an active party.
    fn import(
        &self,
        party: &str,
        file: &ParameterFile,
        active: &str,
    ) -> Result<ImportReport, ImportError> {
        let path = self.dir.path().join(format!("{party}.parameters.json"));
        std::fs::write(&path, file.to_json()).unwrap();
        let classes = (party == "active").then(|| self.dataset.class_names());
        let active = PartyName::new(active).unwrap();
        import_parameters(ImportRequest {
            path: &path,
            state_dir: &(&self.deployment.party_dir(party)).into(),
            feature_names: &self.names(party),
            encodings: None,
            max_classes: None,
            classes,
            active_party: &active,
        })
    }

    fn import_all(&self, whole: &ParameterFile) {
        for party in ["active", "passive-1", "passive-2"] {
            self.import(party, &self.part(whole, party), "active").unwrap();
        }
    }

    async fn publish(&self, ids: Option<&RecordIds>) -> Result<pb::TrainingPublished, Status> {
        let request = pb::PublishJobRequest { training_ids: ids.map(Into::into) };
        let answer = active_client(&self.deployment).publish(request).await?.into_inner();
        Ok(answer.published.unwrap())
    }

    /// Imports and publishes a whole model; gives its version.
    async fn in_service(&self, whole: &ParameterFile) -> String {
        self.import_all(whole);
        self.publish(None).await.unwrap().model_version
    }

    /// Version in service and scores of 40 records, to the bit.
    async fn served(&self) -> (String, Vec<u64>) {
        let ids = test_ids(&self.dataset, 0, 40);
        let answer = score(&self.deployment, &ids).await.unwrap();
        let scores = probabilities(&answer, 40);
        (answer.model_version, scores.iter().map(|v| v.to_bits()).collect())
    }

    async fn refused(&self, code: Code, says: &[&str]) {
        let status = self.publish(None).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(says.iter().all(|words| status.message().contains(words)), "{says:?}: {status}");
        assert!(
            !status.message().contains(self.dir.path().to_str().unwrap()),
            "no path leaves a party: {status}"
        );
    }
}

fn probabilities(answer: &pb::ScoreResponse, rows: usize) -> DMatrix<f64> {
    let released =
        vfl_protocol::read_release(answer.release.as_ref(), rows, answer.class_names.len())
            .unwrap();
    match released {
        ReleasedScores::Probabilities(scores) => scores,
        other => panic!("no scores: {other:?}"),
    }
}

/// softmax(W x + b) of records at these positions, written without the project's own code.
fn closed_form(dataset: &Dataset, whole: &ParameterFile, positions: &[usize]) -> DMatrix<f64> {
    let x = dataset.x().select_columns(positions);
    let bias: &DVector<f64> = whole.bias().unwrap();
    let mut scores = DMatrix::zeros(bias.len(), positions.len());
    for (j, x) in x.column_iter().enumerate() {
        let z: Vec<f64> = (0..bias.len())
            .map(|i| {
                bias[i]
                    + whole.weights().row(i).iter().zip(x.iter()).map(|(w, x)| w * x).sum::<f64>()
            })
            .collect();
        let max = z.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
        for (i, z) in z.iter().enumerate() {
            scores[(i, j)] = (z - max).exp() / sum;
        }
    }
    scores
}

/// What a version is by another active party's word, or with another part: a whole model that is not `whole`.
fn changed(whole: &ParameterFile) -> ParameterFile {
    let weights = whole.weights().map(|w| 0.5 * w);
    let (classes, features) = (whole.class_names().to_vec(), whole.feature_names().to_vec());
    ParameterFile::new(classes, features, weights, whole.bias().cloned()).unwrap()
}

/// The main road: nobody may train, and the model serves what W and b say, over restarts.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_from_elsewhere_is_served_without_any_training() {
    let here = Here::new().await;
    let ids = training_ids(&here.dataset);
    let refused = here.deployment.train(&config(1), &ids, |_| ()).await.unwrap_err();
    assert!(refused.message.contains("training is not allowed"), "{refused}");
    let mut describe = coordinator_client(&here.deployment, Role::Auditor);
    let nothing = describe.describe_model(pb::DescribeModelRequest {}).await.unwrap_err();
    assert!(nothing.message().contains("no model is in service"), "{nothing}");

    here.import_all(&here.whole);
    // Another order of the columns in the file is another order of the columns in the file.
    let mut names = here.names("passive-2");
    names.reverse();
    let turned = here.part(&here.whole, "passive-2").with_features(&names).unwrap();
    assert!(here.import("passive-2", &turned, "active").unwrap().reordered);
    let nothing = describe.describe_model(pb::DescribeModelRequest {}).await.unwrap_err();
    assert!(
        nothing.message().contains("no model is in service"),
        "staging publishes nothing: {nothing}"
    );

    let published = here.publish(Some(&ids)).await.unwrap();
    assert!(published.imported, "{published:?}");
    assert_eq!((published.epochs, published.best_epoch, published.steps), (0, 0, 0));
    assert_eq!(published.training_records as usize, ids.len());
    let model = describe.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
    assert_eq!(model.training.unwrap(), published, "an auditor is told that nothing was trained");
    assert_eq!(model.class_names, here.dataset.class_names());

    let positions = &here.dataset.split().test;
    let test = test_ids(&here.dataset, 0, positions.len());
    let answer = score(&here.deployment, &test).await.unwrap();
    let found = probabilities(&answer, positions.len());
    let off = (&found - closed_form(&here.dataset, &here.whole, positions)).amax();
    println!("{} records, scores differ from the closed form by at most {off:e}", positions.len());
    assert!(off < 1e-12, "{off:e}");
    // What training over the sockets would have served, which is the same model to 1e-9.
    let other = tempfile::tempdir().unwrap();
    let trained = deploy(other.path(), &here.dataset, &here.split).await;
    trained.train(&config(6), &ids, |_| ()).await.unwrap();
    let by_training = probabilities(&score(&trained, &test).await.unwrap(), positions.len());
    assert!((&by_training - &found).amax() < 1e-8);
    trained.stop().await.unwrap();

    let seen = score(&here.deployment, &ids.slice(0, 3)).await.unwrap();
    assert_eq!(seen.row_status, [RowStatus::TrainingRecord as i32; 3], "as after a training here");
    let before = here.served().await;
    let Here { dir, dataset, split, deployment, whole } = here;
    deployment.stop().await.unwrap();
    let deployment = deploy(dir.path(), &dataset, &split).await;
    let here = Here { dir, dataset, split, deployment, whole };
    assert_eq!(here.served().await, before, "after a restart, to the bit");
    // And training, where it is allowed, goes on from there as ever.
    here.deployment.train(&config(1), &ids, |_| ()).await.unwrap();
    here.deployment.stop().await.unwrap();
}

/// Whatever is missing or does not fit is named, and the model in service stays.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_named_and_changes_nothing() {
    let here = Here::new().await;
    let state = Code::FailedPrecondition;
    here.refused(
        state,
        &["no parameters are staged here for active party `active`", "import-parameters"],
    )
    .await;
    here.import("active", &here.part(&here.whole, "active"), "active").unwrap();
    here.import("passive-1", &here.part(&here.whole, "passive-1"), "active").unwrap();
    here.refused(state, &["passive party `passive-2`", "no parameters are staged here"]).await;
    let first = here.in_service(&here.whole).await;
    let served = here.served().await;
    assert_eq!(served.0, first);

    here.refused(state, &["in service already", &first]).await;
    // Other parameters of the active party alone would be another model under the same passive share.
    let new = changed(&here.whole);
    here.import("active", &here.part(&new, "active"), "active").unwrap();
    here.refused(
        state,
        &["passive party `passive-", "published as", &first, "one staging is good for one model"],
    )
    .await;
    for party in ["passive-1", "passive-2"] {
        here.import(party, &here.part(&new, party), "rival").unwrap();
    }
    here.refused(Code::PermissionDenied, &["not for active party `active`"]).await;
    // Classes in another order would give every class another one's scores.
    here.import_all(&new);
    let mut classes = here.dataset.class_names().to_vec();
    classes.swap(0, 1);
    let swapped = here.part(&new, "passive-2").with_classes(&classes).unwrap();
    here.import("passive-2", &swapped, "active").unwrap();
    here.refused(state, &["passive-2", "other classes: class 1 is", "same order"]).await;
    classes.pop();
    let rows = new.weights().rows(0, classes.len()).into_owned();
    let fewer = ParameterFile::new(classes, new.feature_names().to_vec(), rows, None).unwrap();
    here.import("passive-2", &fewer.part(&here.names("passive-2")).unwrap(), "active").unwrap();
    here.refused(state, &["passive-2", "other classes"]).await;
    // Staged when the party held other features than it holds now.
    let staging = Staging::of(&here.deployment.party_dir("passive-2"));
    let path = here.dir.path().join("other.json");
    let mut names = here.names("passive-2");
    names[0] = "another".into();
    let own = here.part(&new, "passive-2");
    let other =
        ParameterFile::new(own.class_names().to_vec(), names.clone(), own.weights().clone(), None)
            .unwrap();
    std::fs::write(&path, other.to_json()).unwrap();
    let party_dir = here.deployment.party_dir("passive-2");
    let (path, state_dir, active_party) =
        (&*path, &(&party_dir).into(), &PartyName::new("active").unwrap());
    import_parameters(ImportRequest {
        path,
        state_dir,
        feature_names: &names,
        encodings: None,
        max_classes: None,
        classes: None,
        active_party,
    })
    .unwrap();
    here.refused(state, &["passive-2", "other features, ranges or categories"]).await;
    // Taken back.
    staging.withdraw().unwrap();
    here.refused(state, &["passive-2", "no parameters are staged here"]).await;
    // A share that somebody changed on the disk.
    let imported = here.import("passive-2", &own, "active").unwrap();
    let share = party_dir.join("shares").join(format!("{}.json", imported.digest));
    let content = std::fs::read_to_string(&share).unwrap();
    std::fs::write(&share, content.replacen('1', "2", 1)).unwrap();
    here.refused(Code::Internal, &["passive-2", "log says why"]).await;
    assert_eq!(here.served().await, served, "none of it has changed what is served");

    here.import_all(&new);
    let second = here.publish(None).await.unwrap().model_version;
    assert_ne!(second, first);
    let ids = test_ids(&here.dataset, 0, 40);
    let found = probabilities(&score(&here.deployment, &ids).await.unwrap(), 40);
    let expected = closed_form(&here.dataset, &new, &here.dataset.split().test[..40]);
    assert!((found - expected).amax() < 1e-12);
    here.deployment.stop().await.unwrap();
}

/// Wrong files never come as far as the service: what the command says of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_is_refused_before_it_is_staged() {
    let here = Here::new().await;
    let good = here.part(&here.whole, "passive-1");
    let names = here.names("passive-1");
    let import = |content: &[u8]| {
        let path = here.dir.path().join("wrong.json");
        std::fs::write(&path, content).unwrap();
        let active = PartyName::new("active").unwrap();
        let state_dir = (&here.deployment.party_dir("passive-1")).into();
        let (path, state_dir, active_party) = (&*path, &state_dir, &active);
        let import = ImportRequest {
            path,
            state_dir,
            feature_names: &names,
            encodings: None,
            max_classes: None,
            classes: None,
            active_party,
        };
        import_parameters(import).unwrap_err().to_string()
    };
    let text = String::from_utf8(good.to_json()).unwrap();
    let first = format!("{}", good.weights()[(1, 1)]);
    assert!(text.contains(&first));
    let class = &here.dataset.class_names()[1];
    for (from, to, says) in [
        (
            first.as_str(),
            "NaN",
            format!("`weights`, row 2 (class `{class}`), feature `{}`", names[1]),
        ),
        (first.as_str(), "1e7", "normalised to [0, 1]".to_owned()),
        (
            names[0].as_str(),
            "elsewhere",
            format!("`{}` missing, `elsewhere` unknown here", names[0]),
        ),
        ("\"schema\":1", "\"schema\":7", "`schema` is 7".to_owned()),
    ] {
        let said = import(text.replacen(from, to, 1).as_bytes());
        assert!(said.contains("wrong.json") && said.contains(&says), "{said}");
        assert!(!said.contains(&first), "no parameter is shown: {said}");
    }
    let said = import(&here.part(&here.whole, "active").to_json());
    assert!(said.contains("unknown here"), "another party's file: {said}");
    let said = import(&good.clone().with_bias(here.whole.bias().cloned()).to_json());
    assert!(said.contains("`bias` is not for a passive party"), "{said}");
    assert_eq!(Staging::of(&here.deployment.party_dir("passive-1")).staged().unwrap(), None);
    here.deployment.stop().await.unwrap();
}

/// The active party's side of a publication, played by hand.
struct ByHand {
    replies: mpsc::Sender<pb::PublishReply>,
    commands: tonic::Streaming<pb::PublishCommand>,
}

impl ByHand {
    async fn open(here: &Here, name: &str, digest: &str) -> Self {
        let credentials = here.deployment.credentials(Role::ActiveParty, name).unwrap();
        let channel = channel(&credentials, &here.deployment.coordinator_peer()).unwrap();
        let mut client = pb::coordinator_client::CoordinatorClient::new(channel);
        let (replies, outgoing) = mpsc::channel(4);
        let start = pb::PublishStart {
            class_names: here.dataset.class_names().to_vec(),
            features: here.names("active").len() as u32,
            digest: digest.to_owned(),
            training_id_count: 0,
            sub_model: None,
        };
        replies.send(pb::PublishReply { reply: Some(Reply::Start(start)) }).await.unwrap();
        let commands = client.publish(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
        Self { replies, commands }
    }

    /// The version that the coordinator asks to be bound: the end of phase one.
    async fn version(&mut self) -> Result<String, Status> {
        match self.commands.message().await?.unwrap().command.unwrap() {
            Command::Publish(publish) => Ok(publish.model_version),
            other => panic!("{other:?}"),
        }
    }

    /// Confirms, and what comes of it.
    async fn confirm(mut self) -> Result<pb::PublishCommand, Status> {
        let confirmed = Reply::Published(pb::SharePublished {});
        self.replies.send(pb::PublishReply { reply: Some(confirmed) }).await.unwrap();
        self.commands.message().await.map(Option::unwrap)
    }
}

fn staged_digest(dir: &Path) -> String {
    Staging::of(dir).staged().unwrap().unwrap().digest
}

/// A party that is lost between the phases leaves the old model in service, whole at every party; the same publication then comes to
/// its end when the party is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_lost_between_the_phases_leaves_the_old_model() {
    let mut here = Here::new().await;
    let first = here.in_service(&here.whole).await;
    let served = here.served().await;
    let new = changed(&here.whole);
    here.import_all(&new);
    let digest = staged_digest(&here.deployment.party_dir("active"));
    let used = |here: &Here, party: &str| {
        let staging = Staging::of(&here.deployment.party_dir(party));
        staging.used_for(&staging.staged().unwrap().unwrap()).unwrap().map(|v| v.to_string())
    };

    // The active party goes away when it is told the version: nobody's consent is used up.
    let mut by_hand = ByHand::open(&here, "active", &digest).await;
    let told = by_hand.version().await.unwrap();
    assert_ne!(told, first);
    drop(by_hand);
    assert_eq!(here.served().await, served);
    assert_eq!((used(&here, "passive-1"), used(&here, "passive-2")), (None, None));

    // A passive party dies between the phases.
    let by_hand = loop {
        // The coordinator may not have noticed yet that the one before is gone.
        let mut by_hand = ByHand::open(&here, "active", &digest).await;
        match by_hand.version().await {
            Ok(version) => {
                assert_eq!(version, told, "the same parameters, the same version");
                break by_hand;
            }
            Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    here.deployment.stop_passive(1).await;
    let status = by_hand.confirm().await.unwrap_err();
    // A connection that broke under the call is reported as one or the other.
    assert!(matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded), "{status}");
    assert!(status.message().contains("passive-2"), "{status}");
    here.deployment.restart_passive(1).await.unwrap();
    assert_eq!(here.served().await, served, "to the bit, at every party");
    assert_eq!(used(&here, "passive-2"), None);
    // What was confirmed may be confirmed again, and only as that version.
    assert!(used(&here, "passive-1").is_none_or(|version| version == told));
    // A coordinator that starts again serves the old one too.
    let Here { dir, dataset, split, deployment, whole } = here;
    deployment.stop().await.unwrap();
    let deployment = deploy(dir.path(), &dataset, &split).await;
    let here = Here { dir, dataset, split, deployment, whole };
    assert_eq!(here.served().await, served);

    let published = here.publish(None).await.unwrap();
    assert_eq!(published.model_version, told);
    assert_ne!(here.served().await.1, served.1);
    here.deployment.stop().await.unwrap();
}

/// A passive party that is down in phase one is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_is_down_is_named() {
    let mut here = Here::new().await;
    here.import_all(&here.whole);
    here.deployment.stop_passive(0).await;
    here.refused(Code::Unavailable, &["publishing stopped", "passive-1"]).await;
    here.deployment.restart_passive(0).await.unwrap();
    here.publish(None).await.unwrap();
    here.deployment.stop().await.unwrap();
}

/// Whoever holds another active party's certificate publishes nothing: not before there is a model, not after.
#[tokio::test(flavor = "multi_thread")]
async fn another_active_party_publishes_nothing() {
    // A coordinator whose configuration names no active party: the first to publish a model owns the service.
    let unnamed = |settings: &mut CoordinatorSettings| {
        no_training(settings);
        settings.active_party = None;
    };
    let here = Here::with(|_| (), unnamed).await;
    here.import_all(&here.whole);
    let digest = "0".repeat(64);
    let denied = |status: Status, says: &str| {
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        assert!(status.message().contains(says), "{status}");
    };
    let mut rival = ByHand::open(&here, "rival", &digest).await;
    denied(rival.version().await.unwrap_err(), "not for active party `rival`");
    let first = here.publish(None).await.unwrap().model_version;
    here.import_all(&changed(&here.whole));
    let mut rival = ByHand::open(&here, "rival", &digest).await;
    denied(
        rival.version().await.unwrap_err(),
        "is active party `active`'s; only it may publish another",
    );
    assert_eq!(here.served().await.0, first);
    // Its own service is for its own clients.
    let credentials = here.deployment.credentials(Role::ActiveParty, "rival").unwrap();
    let channel = channel(&credentials, &here.deployment.active_peer()).unwrap();
    let mut client = pb::active_party_client::ActivePartyClient::new(channel);
    denied(client.publish(pb::PublishJobRequest::default()).await.unwrap_err(), "`active` alone");
    here.deployment.stop().await.unwrap();
}

/// What the coordinator's operator forbids, and what its defense cannot serve.
#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_refuses_what_it_does_not_allow_or_cannot_serve() {
    let here = Here::with(|_| (), |settings| settings.publishing.allowed = false).await;
    here.import_all(&here.whole);
    here.refused(Code::PermissionDenied, &["`allowed = true` in [publishing]"]).await;
    here.deployment.stop().await.unwrap();

    let here =
        Here::with(|spec| spec.defenses = vec![DefenseConfig::Ranking {}], no_training).await;
    here.import_all(&here.whole);
    here.refused(
        Code::FailedPrecondition,
        &["[defense] is `ranking`", "imported parameters have none"],
    )
    .await;
    here.deployment.stop().await.unwrap();

    // An audit of such a defense says what is missing.
    let here = Here::new().await;
    let version = here.in_service(&here.whole).await;
    let policy = Policy { defenses: vec![DefenseConfig::Ranking {}], ..Policy::default() };
    let open = pb::OpenAuditRequest {
        model_version: version,
        policy: Some((&policy).into()),
        ids: Some((&test_ids(&here.dataset, 0, 100)).into()),
        active_party: "active".into(),
    };
    let status =
        coordinator_client(&here.deployment, Role::Auditor).open_audit(open).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("imported, not trained here"), "{status}");
    here.deployment.stop().await.unwrap();
}

/// Imported parameters are of the features as they are: where features go through a map, they are refused, and the map stays
/// unknown.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_not_published_under_a_feature_map() {
    let here =
        Here::with(|spec| spec.training_transform = TransformConfig::Complement {}, no_training)
            .await;
    here.import_all(&here.whole);
    here.refused(
        Code::FailedPrecondition,
        &["passive-", "settings do not go with imported parameters"],
    )
    .await;
    let status = here.publish(None).await.unwrap_err();
    assert!(
        !status.message().contains("complement") && !status.message().contains("map"),
        "{status}"
    );
    here.deployment.stop().await.unwrap();
}
