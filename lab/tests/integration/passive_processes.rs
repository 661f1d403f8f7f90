//! Several processes of one passive party behind one name, with their state in one PostgreSQL (`CLOISON_POSTGRES_URL`): one party,
//! whichever of them answers, and nothing spent twice when one is killed, or the database is.

mod kills;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status};
use vfl_coordinator::config::Budgets;
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::Dataset;
use vfl_party::alignment::{Aligner, runs};
use vfl_party::training::TrainingGate;
use vfl_passive_party::config::{
    AlignmentTable, AuditPolicy, Grant, ReleasePolicy, Settings, TrainingPolicy,
};
use vfl_passive_party::consent::Consent;
use vfl_passive_party::evaluation::{SetFacts, renew, scorings};
use vfl_passive_party::release::releases;
use vfl_protocol::alignment::{Side, Summary};
use vfl_protocol::pb::align_job_event::Event;
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{RefusalKind, pb};
use vfl_server::cli::PartySettings as _;
use vfl_server::service::{Peer, Role, channel};
use vfl_state::StateConfig;
use vfl_state::journal::{Journal, Proposal};
use vfl_state::state_dir::StateDir;
use vfl_state::state_folder::{FolderError, adopt, hold};
use vfl_testbed::deployment::{Deployment, white_box};
use vfl_transform::TransformConfig;
use vfl_transform::scoring::accountant::RHO;

use super::replicas::Schema;
use super::support::{
    Process, Trained, active_client, config, credentials, dataset, spec, split, test_ids, trained,
    training_ids,
};

/// The party of several processes.
const NAME: &str = "passive-2";
/// Its features.
const WIDTH: usize = 2;

fn name() -> PartyName {
    PartyName::new(NAME).unwrap()
}

/// A deployment whose second passive party has the processes that a test starts.
struct Site {
    dir: TempDir,
    dataset: Dataset,
    table: Arc<FeatureTable>,
    deployment: Deployment,
    schema: Schema,
}

/// The deployment, once the party's addresses are known; `None` without a server.
async fn site(addresses: &[SocketAddr]) -> Option<Site> {
    let schema = Schema::new().await?;
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let mut spec = spec(dir.path(), &dataset, &split(&dataset, 2, WIDTH));
    let at = spec.tables.passive.iter().position(|(party, _)| *party == name()).unwrap();
    let (_, table) = spec.tables.passive.remove(at);
    let address = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let deployment = Deployment::start_with(spec, |_, ours| {
        ours.passive_parties.push(Peer { role: Role::PassiveParty, name: name(), address });
        ours.ledger.as_mut().unwrap().budgets = Budgets::UNLIMITED;
        Ok(())
    });
    Some(Site {
        deployment: deployment.await.unwrap(),
        dir,
        dataset,
        table: Arc::new(table),
        schema,
    })
}

/// The same with two processes under these settings.
async fn two(change: impl Fn(&mut Settings)) -> Option<(Site, [Process; 2])> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let site = site(&addresses).await?;
    let processes = listeners.map(|listener| {
        let mut settings = site.settings(&site.schema.url);
        change(&mut settings);
        Site::start(listener, settings)
    });
    for process in &processes {
        site.up(process.address).await;
    }
    Some((site, processes))
}

impl Site {
    /// The state as another process of the party sees it.
    fn state_at(url: &str) -> StateDir {
        StateConfig::new(url).open(&name()).unwrap().into()
    }

    fn state(&self) -> StateDir {
        Self::state_at(&self.schema.url)
    }

    fn training(&self) -> TrainingPolicy {
        spec(self.dir.path(), &self.dataset, &split(&self.dataset, 2, WIDTH)).consent
    }

    /// Those of a process whose state is at this URL.
    fn settings(&self, url: &str) -> Settings {
        Settings {
            credentials: self.deployment.credentials(Role::PassiveParty, NAME).unwrap(),
            limits: Default::default(),
            monitoring: Default::default(),
            state_dir: Self::state_at(url),
            features: self.table.clone().into(),
            release: white_box(),
            serving: Default::default(),
            training: self.training(),
            audit: AuditPolicy { allowed: true, ..Default::default() },
            collusion: Default::default(),
            alignment: Default::default(),
            outputs: None,
        }
    }

    fn start(listener: TcpListener, settings: Settings) -> Process {
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            vfl_passive_party::service::run(settings, listener, stopped)
                .await
                .map_err(|e| e.to_string())
        });
        Process { address, stop, task }
    }

    fn client(&self, address: SocketAddr, role: Role) -> PassivePartyClient<Channel> {
        let peer = Peer { role: Role::PassiveParty, name: name(), address: address.to_string() };
        PassivePartyClient::new(channel(&credentials(&self.deployment, role), &peer).unwrap())
    }

    /// Waits until the process there answers.
    async fn up(&self, address: SocketAddr) {
        let mut client = self.client(address, Role::Coordinator);
        let mut tries = 0;
        while let Err(status) = client.describe_features(pb::DescribeFeaturesRequest {}).await {
            tries += 1;
            assert!(tries < 300, "{status}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn train(&self) -> String {
        let trained = self.deployment.train(&config(1), &training_ids(&self.dataset), |_| ()).await;
        trained.unwrap().version.as_str().to_owned()
    }

    async fn shares(
        &self,
        address: SocketAddr,
        version: &str,
    ) -> Result<pb::ComputeLogitsResponse, Status> {
        let ids = test_ids(&self.dataset, 0, 50);
        let request = pb::ComputeLogitsRequest {
            model_version: version.into(),
            ids: Some((&ids).into()),
            ..Default::default()
        };
        Ok(self.client(address, Role::Coordinator).compute_logits(request).await?.into_inner())
    }

    async fn released(
        &self,
        address: SocketAddr,
        version: &str,
    ) -> Result<pb::ReleaseParametersResponse, Status> {
        let request = pb::ReleaseParametersRequest { model_version: version.into() };
        Ok(self.client(address, Role::ActiveParty).release_parameters(request).await?.into_inner())
    }

    /// One noised scoring of these records.
    async fn scored(&self, address: SocketAddr, ids: &RecordIds, rho: f64) -> Result<(), Status> {
        scored(self.client(address, Role::Auditor), ids, rho).await
    }

    /// What is recorded of the one set of records that was scored.
    fn spent(&self) -> SetFacts {
        let mut sets = scorings(self.state(), &AuditPolicy::default()).unwrap().sets;
        assert_eq!(sets.len(), 1);
        sets.remove(0)
    }

    async fn end(self) {
        self.deployment.stop().await.unwrap();
        self.schema.remove().await;
    }
}

async fn scored(
    mut client: PassivePartyClient<Channel>,
    ids: &RecordIds,
    rho: f64,
) -> Result<(), Status> {
    let (asks, outgoing) = mpsc::channel(4);
    let ask = |message| pb::EvaluateReconstructionRequest {
        message: Some(message),
        ..Default::default()
    };
    let gone = |_| Status::cancelled("the party has ended the call");
    asks.send(ask(Ask::Ids(ids.into()))).await.map_err(gone)?;
    let mut answers =
        client.evaluate_reconstruction(ReceiverStream::new(outgoing)).await?.into_inner();
    assert!(matches!(answers.message().await?.unwrap().message, Some(Answer::Opened(_))));
    let values: Vec<u8> = (0..WIDTH * ids.len()).flat_map(|_| 0.5f64.to_le_bytes()).collect();
    let rows = pb::Matrix { rows: ids.len() as u32, columns: WIDTH as u32, values: values.into() };
    let estimates = pb::Estimates { rows: Some(rows), more: false, control: false };
    let score =
        pb::Score { told: pb::score::Told::All.into(), rho: Some(rho), ..Default::default() };
    // A call that has ended says why in its answer.
    let _ = asks.send(ask(Ask::Estimates(estimates))).await;
    let _ = asks.send(ask(Ask::Score(score))).await;
    match answers.message().await?.unwrap().message {
        Some(Answer::Scored(_)) => Ok(()),
        other => panic!("{other:?}"),
    }
}

/// One of them takes part in a training, on features under a map that is drawn in secret; both have map, parameters and journal, and so
/// has one that starts later.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_trains_all_serve() {
    let map = TransformConfig::RandomOrthonormal {};
    let Some((site, processes)) = two(|settings| settings.training.transform = map.clone()).await
    else {
        return;
    };
    let version = site.train().await;
    let [one, two] = &processes;
    let there = site.shares(one.address, &version).await.unwrap();
    assert_eq!(there.row_status.len(), 50);
    assert_eq!(site.shares(two.address, &version).await.unwrap(), there);
    let trainings = Journal::list(site.state().below("trainings")).unwrap();
    assert_eq!(trainings.len(), 1);
    assert_eq!(trainings[0].published.as_ref().unwrap().as_str(), version);
    let mut settings = site.settings(&site.schema.url);
    settings.training.transform = map.clone();
    let third = Site::start(TcpListener::bind("127.0.0.1:0").await.unwrap(), settings);
    site.up(third.address).await;
    assert_eq!(site.shares(third.address, &version).await.unwrap(), there);
    // Another map is another rule.
    let other = || {
        let mut settings = site.settings(&site.schema.url);
        settings.training.transform = TransformConfig::Negate {};
        settings
    };
    let start = async |settings| {
        Site::start(TcpListener::bind("127.0.0.1:0").await.unwrap(), settings).task.await.unwrap()
    };
    let refused = start(other()).await.unwrap_err();
    assert!(refused.starts_with("[training] is not what"), "{refused}");
    third.end().await;
    for process in processes {
        process.end().await;
    }
    // And as a rule of all it does not go with these models, which is said before anything is served.
    other().rules().replace(&site.state()).unwrap();
    let refused = start(other()).await.unwrap_err();
    assert!(refused.contains("random_orthonormal") && refused.contains("[state]"), "{refused}");
    site.end().await;
}

/// Asked at the same time for a release that is drawn in secret, both give the same one.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_made_by_one_process() {
    let transform = TransformConfig::RandomOrthonormal {};
    let release = ReleasePolicy { to_active_party: Grant::Transformed(transform), ..white_box() };
    let Some((site, processes)) = two(|settings| settings.release = release.clone()).await else {
        return;
    };
    let (mut shown, mut versions) = (Vec::new(), Vec::new());
    // Each training gives parameters of their own, and so another race.
    for training in 1..=3 {
        let trained =
            site.deployment.train(&config(training), &training_ids(&site.dataset), |_| ()).await;
        let version = trained.unwrap().version.as_str().to_owned();
        let asked = (0..8).map(|number| site.released(processes[number % 2].address, &version));
        let answers = futures_util::future::try_join_all(asked).await.unwrap();
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "one release of training {training}"
        );
        shown.push(answers.into_iter().next().unwrap());
        versions.push(version);
    }
    let facts = releases(site.state()).unwrap();
    assert_eq!(facts.len(), 3, "one for each model: {facts:?}");
    assert!(shown[0].weights != shown[1].weights && shown[1].weights != shown[2].weights);
    for (version, before) in versions.iter().zip(&shown) {
        for process in &processes {
            assert_eq!(site.released(process.address, version).await.unwrap(), *before);
        }
    }
    for process in processes {
        process.end().await;
    }
    site.end().await;
}

/// 64 scorings at once over two processes: as many are answered as the budget has room for, and these are recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_one_budget() {
    let Some((site, processes)) = two(|_| ()).await else { return };
    let (ids, rho) = (test_ids(&site.dataset, 0, 100), 0.01);
    let asked = (0..64).map(|number| site.scored(processes[number % 2].address, &ids, rho));
    let answers = futures_util::future::join_all(asked).await;
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(answered, (RHO / rho) as usize);
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    let spent = site.spent();
    assert_eq!(spent.noised_answers as usize, answered);
    assert!(
        (spent.rho_spent - rho * answered as f64).abs() < 1e-9 && spent.rho_spent <= RHO,
        "{spent:?}"
    );
    // The owner renews it beside the service, and both know.
    renew(site.state(), None, "as a test").unwrap();
    for process in &processes {
        site.scored(process.address, &ids, rho).await.unwrap();
    }
    assert_eq!(site.spent().noised_answers as usize, answered + 2);
    // Of two sets that share records one is opened, whoever is asked.
    let overlap = test_ids(&site.dataset, 50, 150);
    for process in &processes {
        let refused = site.scored(process.address, &overlap, rho).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    }
    let facts = scorings(site.state(), &AuditPolicy::default()).unwrap();
    assert_eq!(facts.refused_openings, 2);
    for process in processes {
        process.end().await;
    }
    site.end().await;
}

/// Two processes let in no more trainings together than one may.
#[tokio::test(flavor = "multi_thread")]
async fn trainings_are_counted_over_all_processes() {
    let Some(schema) = Schema::new().await else { return };
    let policy = TrainingPolicy {
        allowed: true,
        active_party: Some(PartyName::new("active").unwrap()),
        min_records: 1,
        min_batch: 1,
        max_per_day: 1000,
        max_total: 5,
        ..vfl_testbed::deployment::consent(&PartyName::new("active").unwrap(), 2)
    };
    let gates =
        [0, 1].map(|_| Consent::open(&Site::state_at(&schema.url), policy.clone(), WIDTH).unwrap());
    let proposal = Proposal {
        active_party: PartyName::new("active").unwrap(),
        config: config(1),
        class_names: vec!["no".into(), "yes".into()],
        ids: RecordIds::new(["a", "b", "c", "d"]).unwrap(),
    };
    let asked = (0..16).map(|number: usize| {
        let (gate, proposal) = (gates[number % 2].clone(), proposal.clone());
        tokio::task::spawn_blocking(move || gate.begin(&proposal))
    });
    let begun = futures_util::future::try_join_all(asked.collect::<Vec<_>>()).await.unwrap();
    let mut numbers: Vec<u64> = begun.iter().flatten().copied().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let refused = begun.into_iter().filter_map(Result::err);
    assert!(refused.into_iter().all(|refused| refused.kind == RefusalKind::ResourceExhausted));
    // What one writes down of a training the other knows.
    gates[0].reach(3, 1).unwrap();
    gates[1].end(3, 1, None);
    let listed = Journal::list(Site::state_at(&schema.url).below("trainings")).unwrap();
    assert!(
        listed.len() == 5 && listed[2].steps == 1 && listed[2].ended_at.is_some(),
        "{listed:?}"
    );
    drop(gates);
    schema.remove().await;
}

/// Alignments count for every process, and their results are where each finds them.
#[tokio::test(flavor = "multi_thread")]
async fn alignments_are_counted_over_all_processes() {
    let table = AlignmentTable {
        allowed: true,
        active_party: Some(PartyName::new("active").unwrap()),
        max_runs: 2,
        least_common: 0,
        ..Default::default()
    };
    let Some((site, processes)) = two(|settings| settings.alignment = table.clone()).await else {
        return;
    };
    let align = async || {
        let request = pb::AlignJobRequest { passive_party: NAME.into(), ids: None };
        let mut events =
            active_client(&site.deployment).align(tokio_stream::once(request)).await?.into_inner();
        while let Some(event) = events.message().await? {
            if let Some(Event::Done(summary)) = event.event {
                return Ok::<_, Status>(Summary::from(summary).run);
            }
        }
        panic!("the alignment ended without a word");
    };
    let mut ended = Vec::new();
    while ended.len() < 3 {
        match align().await {
            // The last run has ended, and not everybody has noticed.
            Err(refused) if refused.code() == Code::Aborted => {
                tokio::time::sleep(Duration::from_millis(100)).await
            }
            run => ended.push(run),
        }
    }
    let codes: Vec<_> = ended.iter().map(|run| run.as_ref().map_err(Status::code)).collect();
    assert!(matches!(codes[..], [Ok(_), Ok(_), Err(Code::ResourceExhausted)]), "{ended:?}");
    // A process that took part in none knows of them.
    let own = site.settings(&site.schema.url);
    let elsewhere =
        Aligner::open(Side::Passive, &own.credentials, &own.state_dir, table.rules()).unwrap();
    let refused = elsewhere.turn(PartyName::new("active").unwrap()).err().unwrap();
    assert_eq!(refused.kind, RefusalKind::ResourceExhausted, "{refused}");
    let listed = runs(site.state()).unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|run| run.ended.is_some()), "{listed:?}");
    let common = site.state().below("alignments").file("2-active.ids", "").read().unwrap().unwrap();
    assert_eq!(
        common.iter().filter(|&&b| b == b'\n').count() as u64,
        listed[1].ended.as_ref().unwrap().common
    );
    for process in processes {
        process.end().await;
    }
    site.end().await;
}

/// A line to the database that can be cut: connections through it break, and new ones end at once.
struct Line {
    url: String,
    whole: watch::Sender<bool>,
}

impl Line {
    async fn to(url: &str) -> Self {
        let (user, rest) = url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let server = tokio::net::lookup_host(server).await.unwrap().next().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{user}@{}/{database}", listener.local_addr().unwrap());
        let (whole, watched) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let mut watched = watched.clone();
                tokio::spawn(async move {
                    if !*watched.borrow_and_update() {
                        return;
                    }
                    let Ok(mut there) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
                        _ = watched.changed() => {}
                    }
                });
            }
        });
        Self { url, whole }
    }
}

/// A process that is cut off decides nothing, serves what it holds, and knows what the other did when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_cut_off_decides_nothing() {
    let release = ReleasePolicy {
        to_active_party: Grant::Transformed(TransformConfig::Permute {}),
        ..white_box()
    };
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let Some(site) = site(&addresses).await else { return };
    let line = Line::to(&site.schema.url).await;
    let mut urls = [line.url.clone(), site.schema.url.clone()].into_iter();
    let processes = listeners.map(|listener| {
        let settings =
            Settings { release: release.clone(), ..site.settings(&urls.next().unwrap()) };
        Site::start(listener, settings)
    });
    let [cut, whole] = addresses;
    site.up(cut).await;
    site.up(whole).await;
    let (version, ids) = (site.train().await, test_ids(&site.dataset, 0, 100));
    let held = site.shares(cut, &version).await.unwrap();
    site.scored(cut, &ids, 0.01).await.unwrap();

    line.whole.send(false).unwrap();
    assert_eq!(site.shares(cut, &version).await.unwrap(), held, "parameters that it holds");
    for refused in [
        site.scored(cut, &ids, 0.01).await.unwrap_err(),
        site.released(cut, &version).await.unwrap_err(),
        site.shares(cut, "m-0123456789abcdef").await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(
            !refused.message().contains("state") && !refused.message().contains("connect"),
            "{refused}"
        );
    }
    let elsewhere = site.released(whole, &version).await.unwrap();
    for _ in 0..7 {
        site.scored(whole, &ids, 0.01).await.unwrap();
    }

    line.whole.send(true).unwrap();
    assert_eq!(site.released(cut, &version).await.unwrap(), elsewhere);
    let spent = site.scored(cut, &ids, 0.01).await.unwrap_err();
    assert_eq!(spent.code(), Code::ResourceExhausted, "{spent}");
    assert_eq!(site.spent().noised_answers, 8);
    for process in processes {
        process.end().await;
    }
    site.end().await;
}

/// A file that was forgotten when the others were tightened allows nothing: its process does not serve, and one that serves ends.
#[tokio::test(flavor = "multi_thread")]
async fn processes_serve_under_the_same_rules() {
    let loose = AuditPolicy { allowed: true, max_scorings: 50, ..Default::default() };
    let tight = AuditPolicy { max_scorings: 3, ..loose };
    let Some((site, [a, b])) = two(|settings| settings.audit = loose).await else { return };
    let tightened = || Settings { audit: tight, ..site.settings(&site.schema.url) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = Site::start(listener, tightened()).task.await.unwrap().unwrap_err();
    assert!(
        refused.starts_with("[audit] is not") && refused.contains("replace-rules"),
        "{refused}"
    );

    assert_eq!(tightened().rules().replace(&site.state()).unwrap(), ["[audit]"]);
    let within = |process: Process| tokio::time::timeout(Duration::from_secs(30), process.task);
    for process in [a, b] {
        let ended = within(process).await.expect("it ends by itself").unwrap().unwrap_err();
        assert!(ended.contains("were replaced"), "{ended}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let process = Site::start(listener, tightened());
    site.up(process.address).await;
    process.end().await;
    site.end().await;
}

/// A party of one process becomes one of two: what the folder holds is in the database, and the folder is not served from again.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_moves_into_a_database() {
    let Some(schema) = Schema::new().await else { return };
    let Trained { dir, dataset, split, deployment, version } = trained(2, WIDTH, 1).await;
    let table = spec(dir.path(), &dataset, &split).tables.passive.remove(1).1;
    let address = deployment.passive_peers()[1].address.parse().unwrap();
    let mut site = Site { dir, dataset, table: Arc::new(table), deployment, schema };
    let before = (
        site.shares(address, &version).await.unwrap(),
        site.released(address, &version).await.unwrap(),
    );
    let folder = site.deployment.party_dir(NAME);
    assert!(
        matches!(adopt(&folder, &site.state()), Err(FolderError::InUse(_))),
        "its service runs"
    );
    site.deployment.stop_passive(1).await;
    let files = adopt(&folder, &site.state()).unwrap();
    assert!(files >= 5, "share, version, release, journal and its ids: {files}");
    assert_eq!(adopt(&folder, &site.state()).unwrap(), files, "again, as after an interruption");
    assert!(matches!(hold(&folder), Err(FolderError::Moved(_))));
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let process = Site::start(listener, site.settings(&site.schema.url));
        site.up(process.address).await;
        let (shares, shown) = (
            site.shares(process.address, &version).await,
            site.released(process.address, &version).await,
        );
        assert_eq!((shares.unwrap(), shown.unwrap()), before);
        process.end().await;
    }
    site.state().file("versions/m-other.json", "").write(b"{}").unwrap();
    assert!(matches!(adopt(&folder, &site.state()), Err(FolderError::NotEmpty(_))));
    site.schema.remove().await;
}

/// Neither a folder and a database at once, nor none of them.
#[test]
fn state_is_in_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let authority = vfl_testbed::certs::Authority::new("cloison.test", 1).unwrap();
    let pem = authority.issue(Role::PassiveParty, &name()).unwrap();
    kills::put_tls(dir.path(), &pem);
    kills::put_data(dir.path(), &dataset());
    let state = "[state]\nurl = \"postgres://u:hunter2@127.0.0.1:1/x\"\n";
    let folder = format!("state_dir = {:?}\n", dir.path().join("state"));
    let read = |folder: &str, state: &str| {
        let path = dir.path().join("passive.toml");
        let rest = kills::tables(dir.path(), "127.0.0.1:1".parse().unwrap(), 2);
        std::fs::write(&path, format!("{folder}{rest}{state}")).unwrap();
        Settings::read(&path).map(|(_, settings)| settings).map_err(|e| e.to_string())
    };
    assert!(read(&folder, "").unwrap().state_dir.folder().is_some());
    assert!(read("", state).unwrap().state_dir.folder().is_none(), "read without the server");
    for (folder, state) in [("", ""), (&*folder, state)] {
        let refused = read(folder, state).unwrap_err();
        assert!(
            refused.contains("`state_dir`, or a database in [state], and not both"),
            "{refused}"
        );
    }
    let refused =
        read("", "[state]\nurl = \"postgres://u:hunter2@db.example/x?sslmode=disable\"\n")
            .unwrap_err();
    assert!(refused.contains("[state]") && !refused.contains("hunter2"), "{refused}");
}
