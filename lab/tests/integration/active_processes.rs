//! Several processes of the active party behind one name, with their state in one PostgreSQL (`CLOISON_POSTGRES_URL`): one party,
//! whichever of them is called.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Channel;
use vfl_active_party::config::{AlignmentTable, Settings};
use vfl_auditor::client::ActiveParty;
use vfl_coordinator::config::Budgets;
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::Dataset;
use vfl_defense::Policy;
use vfl_party::alignment::Aligner;
use vfl_protocol::alignment::Side;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::reconstruct_event;
use vfl_protocol::{MAX_MESSAGE_BYTES, RefusalKind, pb};
use vfl_server::service::{Peer, Role, channel};
use vfl_state::StateConfig;
use vfl_state::disjoint_sets::DisjointSets;
use vfl_state::state_dir::StateDir;
use vfl_state::state_folder::{FolderError, adopt, hold};
use vfl_testbed::deployment::Deployment;

use super::alignment::ask_of;
use super::replicas::Schema;
use super::support::{
    Process, config, coordinator_client, credentials, dataset, spec, split, test_ids, training_ids,
};

/// A deployment whose active party has the processes that a test starts.
struct Site {
    dir: TempDir,
    dataset: Dataset,
    table: Arc<FeatureTable>,
    deployment: Deployment,
    schema: Schema,
}

/// `None` without a server.
async fn site() -> Option<Site> {
    let schema = Schema::new().await?;
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let spec = spec(dir.path(), &dataset, &split(&dataset, 1, 2));
    let table = Arc::new(spec.tables.active.clone());
    let deployment = Deployment::start_with(spec, |_, ours| {
        ours.ledger.as_mut().unwrap().budgets = Budgets::UNLIMITED;
        Ok(())
    });
    Some(Site { deployment: deployment.await.unwrap(), dir, dataset, table, schema })
}

impl Site {
    fn name(&self) -> PartyName {
        self.deployment.active_peer().name
    }

    /// The state as one process of the party sees it.
    fn state(&self) -> StateDir {
        StateConfig::new(&self.schema.url).open(&self.name()).unwrap().into()
    }

    fn settings(&self, state_dir: StateDir) -> Settings {
        Settings {
            credentials: self.deployment.active_credentials.clone(),
            limits: Default::default(),
            monitoring: Default::default(),
            state_dir,
            features: self.table.clone().into(),
            numbers: None,
            coordinator: self.deployment.coordinator_peer(),
            passive_parties: self.deployment.passive_peers(),
            peer_timeout: Duration::from_secs(30),
            audits_allowed: true,
            fallback: None,
            audit_time: Duration::from_secs(3600),
            known: None,
            privacy: None,
            alignment: AlignmentTable { allowed: true, ..Default::default() },
        }
    }

    async fn start(&self, listener: TcpListener) -> Process {
        let process = start(listener, self.settings(self.state()));
        self.up(process.address).await;
        process
    }

    async fn two(&self) -> [Process; 2] {
        let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        [self.start(listener().await).await, self.start(listener().await).await]
    }

    fn peer(&self, addresses: &[SocketAddr]) -> Peer {
        let address = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
        Peer { role: Role::ActiveParty, name: self.name(), address }
    }

    fn client(&self, role: Role, addresses: &[SocketAddr]) -> ActivePartyClient<Channel> {
        ActivePartyClient::new(
            channel(&credentials(&self.deployment, role), &self.peer(addresses)).unwrap(),
        )
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Waits until the process there answers, whatever it says.
    async fn up(&self, address: SocketAddr) {
        for _ in 0..300 {
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nothing listens on {address}");
    }

    async fn train(&self, address: SocketAddr, epochs: u32) -> String {
        let mut party =
            ActiveParty::new(&self.deployment.active_credentials, self.peer(&[address])).unwrap();
        let published =
            party.train(&config(epochs), &training_ids(&self.dataset), |_| ()).await.unwrap();
        published.version.as_str().to_owned()
    }

    async fn predicted(
        &self,
        addresses: &[SocketAddr],
        ids: &RecordIds,
    ) -> Result<pb::ScoreResponse, Status> {
        predicted(&mut self.client(Role::ActiveParty, addresses), ids).await
    }

    /// What an auditor is told of the accuracy of the scores of these records.
    async fn accuracy(&self, address: SocketAddr, version: &str, ids: &RecordIds) -> Option<f64> {
        let open = pb::OpenAuditRequest {
            model_version: version.into(),
            policy: Some((&"none".parse::<Policy>().unwrap()).into()),
            ids: Some(ids.into()),
            active_party: self.name().to_string(),
        };
        let session = coordinator_client(&self.deployment, Role::Auditor)
            .open_audit(open)
            .await
            .unwrap()
            .into_inner();
        let request = pb::ReconstructRequest {
            audit_session: session.audit_session,
            model_version: version.into(),
            ids: Some(ids.into()),
            attacks: vec![pb::AttackSpec { name: "half_star".into(), ..Default::default() }],
            seed: 1,
            queries: 1,
            ..Default::default()
        };
        let mut events =
            self.client(Role::Auditor, &[address]).reconstruct(request).await.unwrap().into_inner();
        let mut accuracy = None;
        while let Some(event) = events.message().await.unwrap() {
            if let Some(reconstruct_event::Event::Scores(scores)) = event.event {
                accuracy = scores.accuracy;
            }
        }
        accuracy
    }

    async fn end(self) {
        self.deployment.stop().await.unwrap();
        self.schema.remove().await;
    }
}

fn start(listener: TcpListener, settings: Settings) -> Process {
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let stopped = stop.clone().cancelled_owned();
    let task = tokio::spawn(async move {
        vfl_active_party::service::run(settings, listener, stopped).await.map_err(|e| e.to_string())
    });
    Process { address, stop, task }
}

/// The port, once the connections of its last process are gone.
async fn bind_again(address: SocketAddr) -> TcpListener {
    for _ in 0..100 {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{address} is taken");
}

async fn predicted(
    client: &mut ActivePartyClient<Channel>,
    ids: &RecordIds,
) -> Result<pb::ScoreResponse, Status> {
    let request = pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() };
    Ok(client.predict(request).await?.into_inner())
}

/// What one process trained, the other serves; and callers that know both addresses go on when one of them stops, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn any_process_serves_what_one_of_them_trained() {
    let Some(site) = site().await else { return };
    let [mut a, b] = site.two().await;
    let ids = test_ids(&site.dataset, 0, 60);
    let mut last = None;
    for (trains, epochs) in [(a.address, 1), (b.address, 2)] {
        let version = site.train(trains, epochs).await;
        let answers =
            [site.predicted(&[a.address], &ids).await, site.predicted(&[b.address], &ids).await];
        let [here, there] = answers.map(Result::unwrap);
        assert_eq!(here.model_version, version);
        assert_eq!(here, there, "the same scores to the last bit");
        assert_ne!(last.as_ref(), Some(&here), "another model");
        last = Some(here);
    }

    let (expected, both) = (last.unwrap(), [a.address, b.address]);
    let mut callers = Vec::new();
    let done = CancellationToken::new();
    for _ in 0..4 {
        let (mut client, ids, expected) =
            (site.client(Role::ActiveParty, &both), ids.clone(), expected.clone());
        let done = done.clone();
        callers.push(tokio::spawn(async move {
            let (mut answers, mut again) = (0, 0);
            while !done.is_cancelled() {
                match predicted(&mut client, &ids).await {
                    Ok(answer) => {
                        assert_eq!(answer, expected);
                        answers += 1;
                    }
                    // Of a call that was under way when its process stopped.
                    Err(status) => {
                        assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
                        again += 1;
                    }
                }
            }
            (answers, again)
        }));
    }
    let stops = 5;
    for _ in 0..stops {
        let address = a.address;
        a.end().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        a = site.start(bind_again(address).await).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    done.cancel();
    for caller in callers {
        let (answers, again) = caller.await.unwrap();
        assert!(answers > 20 && again <= stops, "{answers} answers, {again} calls made again");
    }
    a.end().await;
    b.end().await;
    site.end().await;
}

/// Accuracies of two sets that differ in one record would tell that record's label, whichever process is asked.
#[tokio::test(flavor = "multi_thread")]
async fn accuracies_are_told_of_sets_that_are_equal_or_apart_whichever_process_is_asked() {
    let Some(site) = site().await else { return };
    let [a, b] = site.two().await;
    let version = site.train(a.address, 1).await;
    let (set, overlapping) = (test_ids(&site.dataset, 0, 150), test_ids(&site.dataset, 1, 151));
    let apart = test_ids(&site.dataset, 151, 301);
    let told = site.accuracy(a.address, &version, &set).await;
    assert!(told.is_some());
    assert_eq!(
        site.accuracy(b.address, &version, &overlapping).await,
        None,
        "the other process was told of the set"
    );
    assert_eq!(
        site.accuracy(b.address, &version, &set).await,
        told,
        "the same set says nothing new"
    );
    assert!(site.accuracy(b.address, &version, &apart).await.is_some());
    assert_eq!(site.accuracy(a.address, &version, &test_ids(&site.dataset, 250, 400)).await, None);
    a.end().await;
    b.end().await;
    site.end().await;
}

/// Sixteen that admit at once are as one after another: what is admitted is equal or apart.
#[tokio::test(flavor = "multi_thread")]
async fn sets_admitted_at_once_are_equal_or_apart() {
    let Some(site) = site().await else { return };
    let mut turns = Vec::new();
    for turn in 0..16 {
        let state = site.state();
        turns.push(tokio::task::spawn_blocking(move || {
            let mut sets = DisjointSets::open(state).unwrap();
            let ids = RecordIds::new([format!("r{turn}"), format!("r{}", turn + 1)]).unwrap();
            sets.admit(&ids).unwrap().is_ok().then_some(turn)
        }));
    }
    let mut admitted = Vec::new();
    for turn in turns {
        admitted.extend(turn.await.unwrap());
    }
    admitted.sort_unstable();
    assert!(admitted.len() >= 6, "none of the others was in the way of it: {admitted:?}");
    assert!(
        admitted.windows(2).all(|pair| pair[1] - pair[0] >= 2),
        "overlapping sets were admitted: {admitted:?}"
    );
    site.end().await;
}

/// An alignment counts for all processes.
#[tokio::test(flavor = "multi_thread")]
async fn an_alignment_counts_for_all_processes() {
    let Some(site) = site().await else { return };
    let [a, b] = site.two().await;
    let passive = site.deployment.passive_peers().remove(0).name;
    let align = async |address| ask_of(site.client(Role::ActiveParty, &[address]), None).await;
    assert!(align(a.address).await.unwrap().0.len() > 100);
    let refused = align(b.address).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    let own = site.settings(site.state());
    let elsewhere =
        Aligner::open(Side::Active, &own.credentials, &own.state_dir, own.alignment.rules())
            .unwrap();
    assert_eq!(elsewhere.turn(passive).err().unwrap().kind, RefusalKind::ResourceExhausted);
    a.end().await;
    b.end().await;
    site.end().await;
}

/// A folder has one process; what it holds goes into a database, and is served from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_process_and_moves_into_a_database() {
    let Some(site) = site().await else { return };
    let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = site.dir.path().join("own");
    let first = start(listener().await, site.settings((&folder).into()));
    site.up(first.address).await;
    site.train(first.address, 1).await;
    let ids = test_ids(&site.dataset, 0, 60);
    let before = site.predicted(&[first.address], &ids).await.unwrap();

    let second = start(listener().await, site.settings((&folder).into()));
    let refused = second.task.await.unwrap().unwrap_err();
    assert!(
        refused.contains("in use by another process") && refused.contains("[state]"),
        "{refused}"
    );
    assert!(matches!(adopt(&folder, &site.state()), Err(FolderError::InUse(_))));
    first.end().await;
    assert!(adopt(&folder, &site.state()).unwrap() >= 2, "share and version");
    assert!(matches!(hold(&folder), Err(FolderError::Moved(_))));
    let [a, b] = site.two().await;
    for process in [&a, &b] {
        assert_eq!(site.predicted(&[process.address], &ids).await.unwrap(), before);
    }
    a.end().await;
    b.end().await;
    site.end().await;
}
