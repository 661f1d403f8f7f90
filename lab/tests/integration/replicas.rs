//! Several coordinators behind one name on one PostgreSQL (`CLOISON_POSTGRES_URL`): one service, whichever of them answers, and
//! nothing lost and nothing spent twice when one is killed, or the database is.

mod calls;
mod kills;
mod proxy;
mod sessions;
mod silence;
mod turns;

use std::path::Path;
use std::time::Duration;

use nalgebra::DMatrix;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Channel;
use vfl_coordinator::config::{Budgets, Settings};
use vfl_coordinator::ledger::LedgerConfig;
use vfl_core::types::{LogitShare, RecordIds};
use vfl_datasets::Dataset;
use vfl_defense::Policy;
use vfl_protocol::pb;
use vfl_protocol::pb::RowStatus;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::service::{Credentials, Peer, Role, channel, check_health};
use vfl_testbed::deployment::Deployment;

use super::support::{config, dataset, free_address, spec, split, test_ids, training_ids};

/// How many connections of coordinators wait to write.
const WAITING_WRITERS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
    AND CAST(classid AS BIGINT) = CAST(hashtext('cloison ledger write') AS BIGINT) & 4294967295 \
    AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295";

/// Held by every test of this program that uses PostgreSQL, and alone by the one that stops it under all of them.
static SERVER: RwLock<()> = RwLock::const_new(());

/// A schema of its own in the server that is named; `None`, and a line that says so, where none is.
pub(super) struct Schema {
    pub(super) url: String,
    name: String,
    server: Option<RwLockReadGuard<'static, ()>>,
}

impl Schema {
    pub(super) async fn new() -> Option<Self> {
        let Ok(server) = std::env::var("CLOISON_POSTGRES_URL") else {
            eprintln!(
                "not run: CLOISON_POSTGRES_URL is not set (scripts/with-postgres.sh sets it)"
            );
            return None;
        };
        let server_is_there = SERVER.read().await;
        let name = format!("replicas_test_{:016x}", rand::random_range(0..u64::MAX));
        let mut admin = PgConnection::connect(&server).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {name}")))
            .execute(&mut admin)
            .await
            .unwrap();
        let join = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{join}options=-c%20search_path%3D{name}");
        Some(Self { url, name, server: Some(server_is_there) })
    }

    /// The server for this test alone, when the others are done with it.
    pub async fn alone(&mut self) -> RwLockWriteGuard<'static, ()> {
        self.server = None;
        SERVER.write().await
    }

    /// A connection of the test's own.
    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// One number.
    async fn number(&self, sql: &str) -> i64 {
        let mut connection = self.connect().await;
        let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        number
    }

    /// Waits until a query counts anything.
    async fn until(&self, sql: &str) {
        let counted = async {
            while self.number(sql).await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), counted).await.expect(sql);
    }

    /// Keeps every coordinator from writing, until it is closed.
    async fn hold_writes(&self) -> PgConnection {
        let mut connection = self.connect().await;
        let lock =
            "SELECT pg_advisory_lock(hashtext('cloison ledger write'), hashtext(current_schema()))";
        sqlx::query(lock).execute(&mut connection).await.unwrap();
        connection
    }

    /// Ends the connection of a coordinator that waits to write, another one than `before`; gives its process.
    async fn end_waiting_writer(&self, before: i64) -> i64 {
        let others = format!("{WAITING_WRITERS} AND pid <> {before}");
        self.until(&others).await;
        let pid = self.number(&others.replacen("count(*)", "CAST(max(pid) AS BIGINT)", 1)).await;
        self.number(&format!("SELECT CAST(count(pg_terminate_backend({pid})) AS BIGINT)")).await;
        pid
    }

    pub(super) async fn remove(self) {
        let mut admin = PgConnection::connect(&self.url).await.unwrap();
        let drop = format!("DROP SCHEMA {} CASCADE", self.name);
        sqlx::query(AssertSqlSafe(drop)).execute(&mut admin).await.unwrap();
    }
}

/// A noise secret in a state directory.
fn put_secret(state_dir: &Path) {
    std::fs::create_dir_all(state_dir).unwrap();
    let path = state_dir.join("noise.secret");
    std::fs::write(&path, "5a".repeat(32)).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// Parties with one coordinator on a shared ledger, and the settings of further ones.
struct Shared {
    dir: TempDir,
    dataset: Dataset,
    deployment: Deployment,
    settings: Settings,
    schema: Schema,
}

/// A coordinator in this process.
struct Second {
    peer: Peer,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), String>>,
}

async fn shared(defenses: &str, budgets: Budgets) -> Option<Shared> {
    shared_on(dataset(), defenses, budgets).await
}

async fn shared_on(dataset: Dataset, defenses: &str, budgets: Budgets) -> Option<Shared> {
    let schema = Schema::new().await?;
    let dir = tempfile::tempdir().unwrap();
    let split = split(&dataset, 2, 2);
    put_secret(&dir.path().join("coordinator"));
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.defenses = defenses.parse::<Policy>().unwrap().defenses;
    let mut settings = None;
    let deployment = Deployment::start_with(spec, |_, ours| {
        let ledger = LedgerConfig { budgets, shared: true, ..LedgerConfig::new(&schema.url) };
        ours.ledger = Some(LedgerConfig { state_dir: Some(ours.state_dir.clone()), ..ledger });
        settings = Some(ours.clone());
        Ok(())
    });
    let deployment = deployment.await.unwrap();
    // The first on the ledger, whose terms the others must have: it listens before it has begun there.
    let first = deployment.coordinator_peer();
    check_health(&deployment.active_credentials, &first, Duration::from_secs(30)).await.unwrap();
    Some(Shared { dir, dataset, deployment, settings: settings.unwrap(), schema })
}

impl Shared {
    /// The settings of another coordinator, with a state directory of its own.
    fn of(&self, name: &str) -> Settings {
        let state_dir = self.dir.path().join(name);
        put_secret(&state_dir);
        let mut settings = Settings { state_dir: state_dir.clone(), ..self.settings.clone() };
        settings.ledger.as_mut().unwrap().state_dir = Some(state_dir);
        settings
    }

    /// Starts another coordinator, which serves once this returns: while it starts, it reads the
    /// database, which a test may be about to falsify.
    async fn second(&self, name: &str) -> Second {
        let second = self.start(self.of(name)).await;
        let credentials = &self.deployment.active_credentials;
        check_health(credentials, &second.peer, Duration::from_secs(30)).await.unwrap();
        second
    }

    async fn start(&self, settings: Settings) -> Second {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            vfl_coordinator::service::run(settings, listener, stopped)
                .await
                .map_err(|e| e.to_string())
        });
        Second { peer: Peer { address, ..self.deployment.coordinator_peer() }, stop, task }
    }

    fn client(&self, peer: &Peer, role: Role) -> CoordinatorClient<Channel> {
        let credentials = match role {
            Role::ActiveParty => self.deployment.active_credentials.clone(),
            _ => self.deployment.credentials(role, "auditor").unwrap(),
        };
        CoordinatorClient::new(channel(&credentials, peer).unwrap())
    }

    async fn end(self) {
        self.deployment.stop().await.unwrap();
        self.schema.remove().await;
    }
}

impl Second {
    /// Why it does not start.
    async fn refused(self, what: &str) -> String {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.task).await;
        ended.unwrap_or_else(|_| panic!("it serves: {what}")).unwrap().unwrap_err()
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn question(
    version: &str,
    ids: &RecordIds,
    k: usize,
    name: &str,
    session: &str,
) -> pb::PredictRequest {
    let share = DMatrix::from_fn(k, ids.len(), |class, _| 0.25 * class as f64);
    pb::PredictRequest {
        model_version: version.to_owned(),
        ids: Some(ids.into()),
        logit_shares: Some(LogitShare::new(share).unwrap().into()),
        audit_session: session.to_owned(),
        request_id: name.to_owned(),
    }
}

/// Trained through one, asked through the other, at once: the same bits, noise and all. A retry elsewhere is free, a budget is one
/// budget, and what one trains on the other does not score.
#[tokio::test(flavor = "multi_thread")]
async fn two_coordinators_are_one_service() {
    let budgets = Budgets { queries_per_record: Some(3), ..Budgets::UNLIMITED };
    let Some(here) = shared("gaussian_noise (sigma = 0.05)", budgets).await else { return };
    let second = here.second("second").await;
    let k = here.dataset.class_names().len();
    let train = here.deployment.train(&config(2), &training_ids(&here.dataset), |_| ()).await;
    let version = train.unwrap().version.as_str().to_owned();
    let first = here.deployment.coordinator_peer();
    let (mut one, mut two) =
        (here.client(&first, Role::ActiveParty), here.client(&second.peer, Role::ActiveParty));
    let ids = test_ids(&here.dataset, 0, 50);
    let ask = |name: &str| question(&version, &ids, k, name, "");
    // The second one first: it has not heard of the version yet.
    let there = two.predict(ask("a")).await.unwrap().into_inner();
    assert_eq!(
        one.predict(ask("b")).await.unwrap().into_inner(),
        there,
        "the same noise from both"
    );
    for _ in 0..2 {
        assert_eq!(one.predict(ask("a")).await.unwrap().into_inner(), there);
        assert_eq!(two.predict(ask("b")).await.unwrap().into_inner(), there);
    }
    let described = |mut client: CoordinatorClient<Channel>| async move {
        client.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner()
    };
    assert_eq!(described(one.clone()).await, described(two.clone()).await);
    assert_eq!(two.predict(ask("c")).await.unwrap().into_inner(), there);
    for client in [&mut one, &mut two] {
        let refused = client.predict(ask("d")).await.unwrap().into_inner();
        assert!(
            refused.row_status.iter().all(|s| *s == RowStatus::BudgetSpent as i32),
            "{refused:?}"
        );
    }
    let trained = training_ids(&here.dataset).slice(0, 3);
    let refused = two.predict(question(&version, &trained, k, "e", "")).await.unwrap().into_inner();
    assert!(
        refused.row_status.iter().all(|s| *s == RowStatus::TrainingRecord as i32),
        "{refused:?}"
    );

    // Another training through the first: the second neither serves the old version nor scores the new records.
    let more = training_ids(&here.dataset);
    let more = RecordIds::new(more.iter().chain(test_ids(&here.dataset, 60, 70).iter())).unwrap();
    let newer =
        here.deployment.train(&config(1), &more, |_| ()).await.unwrap().version.as_str().to_owned();
    let old = two
        .predict(question(&version, &test_ids(&here.dataset, 80, 81), k, "f", ""))
        .await
        .unwrap_err();
    assert_eq!(old.code(), Code::FailedPrecondition, "{}", old.message());
    let now_trained = question(&newer, &test_ids(&here.dataset, 60, 70), k, "g", "");
    let refused = two.predict(now_trained).await.unwrap().into_inner();
    assert!(
        refused.row_status.iter().all(|s| *s == RowStatus::TrainingRecord as i32),
        "{refused:?}"
    );

    // After a restart with an empty state directory it is there again.
    second.end().await;
    std::fs::remove_dir_all(here.dir.path().join("second")).unwrap();
    let second = here.second("second").await;
    let mut two = here.client(&second.peer, Role::ActiveParty);
    let fresh = question(&newer, &test_ids(&here.dataset, 80, 90), k, "h", "");
    let there = two.predict(fresh.clone()).await.unwrap().into_inner();
    assert_eq!(one.predict(fresh).await.unwrap().into_inner(), there);
    second.end().await;
    here.end().await;
}

/// One trains, the other is asked for a record of the training while it goes on; and asked to train as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_is_one_for_all_and_its_records_are_known_at_once() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    let second = here.second("second").await;
    let k = here.dataset.class_names().len();
    let ids = training_ids(&here.dataset);
    let version =
        here.deployment.train(&config(1), &ids, |_| ()).await.unwrap().version.as_str().to_owned();
    let mut two = here.client(&second.peer, Role::ActiveParty);
    let new = test_ids(&here.dataset, 0, 5);
    let served = two.predict(question(&version, &new, k, "a", "")).await.unwrap().into_inner();
    assert!(served.row_status.iter().all(|s| *s == RowStatus::Ok as i32), "{served:?}");
    let more = RecordIds::new(ids.iter().chain(new.iter())).unwrap();
    let (began, mut begun) = tokio::sync::mpsc::channel(1);
    // Never ends by itself.
    let endless = config(100_000);
    let training = here.deployment.train(&endless, &more, move |_| {
        let _ = began.try_send(());
    });
    let asked = async {
        begun.recv().await.unwrap();
        let refused = two.predict(question(&version, &new, k, "b", "")).await.unwrap().into_inner();
        assert!(
            refused.row_status.iter().all(|s| *s == RowStatus::TrainingRecord as i32),
            "{refused:?}"
        );
        let never = tokio_stream::pending::<pb::TrainingReply>();
        let refused = match two.train(never).await {
            Err(status) => status,
            Ok(commands) => commands.into_inner().message().await.unwrap_err(),
        };
        assert_eq!(refused.code(), Code::Aborted, "{}", refused.message());
    };
    tokio::select! {
        ended = training => panic!("the training ended: {ended:?}"),
        () = asked => {}
    }
    second.end().await;
    here.end().await;
}

/// An audit session that one has opened the others serve: its rows, its bound shares and its sums are one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_served_by_all() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    let second = here.second("second").await;
    let k = here.dataset.class_names().len();
    let train = here.deployment.train(&config(1), &training_ids(&here.dataset), |_| ()).await;
    let version = train.unwrap().version.as_str().to_owned();
    let ids = test_ids(&here.dataset, 0, 100);
    let open = |policy: &str| pb::OpenAuditRequest {
        model_version: version.clone(),
        policy: Some((&policy.parse::<Policy>().unwrap()).into()),
        ids: Some((&ids).into()),
        active_party: "active".into(),
    };
    let first = here.deployment.coordinator_peer();
    let mut auditors = [&first, &second.peer].map(|peer| here.client(peer, Role::Auditor));
    let mut actives = [&first, &second.peer].map(|peer| here.client(peer, Role::ActiveParty));
    let opened =
        auditors[0].open_audit(open("gaussian_noise (sigma = 0.05)")).await.unwrap().into_inner();
    assert_eq!(opened.row_budget, 300 * 100);
    let (half, rest) = (ids.slice(0, 50), ids.slice(50, 100));
    let session = opened.audit_session.as_str();
    let one =
        actives[0].predict(question(&version, &half, k, "", session)).await.unwrap().into_inner();
    let two =
        actives[1].predict(question(&version, &half, k, "", session)).await.unwrap().into_inner();
    assert_eq!(one, two);
    // Another share is refused, whoever is asked.
    let mut changed = question(&version, &half, k, "", session);
    changed.logit_shares = Some(LogitShare::new(DMatrix::from_element(k, 50, 7.0)).unwrap().into());
    let refused = actives[1].predict(changed).await.unwrap().into_inner();
    assert!(refused.row_status.iter().all(|s| *s == RowStatus::ShareChanged as i32), "{refused:?}");
    actives[1].predict(question(&version, &rest, k, "", session)).await.unwrap();
    let close = |name: &str| pb::CloseAuditRequest {
        audit_session: name.to_owned(),
        without_summary: false,
    };
    let closed = auditors[1].close_audit(close(session)).await.unwrap().into_inner();
    assert_eq!((closed.rows, closed.records), (150, 100));
    assert!(closed.withheld.is_empty(), "{closed:?}");
    for (active, auditor) in actives.iter_mut().zip(&mut auditors) {
        let gone = active.predict(question(&version, &half, k, "", session)).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound, "{}", gone.message());
        assert_eq!(auditor.close_audit(close(session)).await.unwrap_err().code(), Code::NotFound);
    }
    // A set that shares records with one that was summarised elsewhere has no summary.
    let more = test_ids(&here.dataset, 0, 101);
    let request = pb::OpenAuditRequest { ids: Some((&more).into()), ..open("none") };
    let opened = auditors[0].open_audit(request).await.unwrap().into_inner();
    actives[1].predict(question(&version, &more, k, "", &opened.audit_session)).await.unwrap();
    let closed = auditors[0].close_audit(close(&opened.audit_session)).await.unwrap().into_inner();
    assert!(closed.withheld.contains("as part of another set"), "{closed:?}");
    second.end().await;
    here.end().await;
}

/// What does not go together is refused, with the difference.
#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_does_not_start() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    type Change = fn(&mut Settings);
    let cases: [(&str, &str, Change); 4] = [
        ("defense", "`[defense]` is class_label here and none", |s| {
            s.defenses = "class_label".parse::<Policy>().unwrap().defenses;
        }),
        ("training", "`[serving] training_records` is true here and false", |s| {
            s.serving.training_records = true
        }),
        ("secret", "begun with the noise secret of fingerprint", |s| {
            std::fs::write(s.state_dir.join("noise.secret"), "6b".repeat(32)).unwrap();
        }),
        ("alone", "coordinators with `shared = true`", |s| {
            s.ledger.as_mut().unwrap().shared = false
        }),
    ];
    for (name, says, change) in cases {
        let mut settings = here.of(name);
        change(&mut settings);
        let started = here.start(settings).await;
        let error = started.refused(name).await;
        assert!(error.contains(says), "{name}: {error}");
    }
    let second = here.second("second").await;
    let mut client = here.client(&second.peer, Role::ActiveParty);
    assert_eq!(
        client.describe_model(pb::DescribeModelRequest {}).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    let error = here.start(here.of("second")).await.refused("a state_dir in use").await;
    assert!(error.contains("a state_dir each"), "{error}");
    second.end().await;
    here.end().await;
}

/// Calls that go to a peer of several addresses find the one that is there, and find the next when that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_to_one_that_answers() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset();
    let deployment = super::support::deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let there = deployment.passive_peers().remove(0);
    let credentials: Credentials =
        deployment.credentials(Role::Coordinator, "coordinator").unwrap();
    let nobody = free_address();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (first, second) in
        [(nobody.to_string(), there.address.clone()), (there.address.clone(), nobody.to_string())]
    {
        let peer = Peer { address: format!("{first}, {second}"), ..there.clone() };
        // Wherever it begins.
        for _ in 0..4 {
            check_health(&credentials, &peer, Duration::from_secs(4)).await.unwrap();
        }
    }
    // A machine that takes connections and says nothing is passed over in time.
    let address = format!("{}, {}", silent.local_addr().unwrap(), there.address);
    let peer = Peer { address, ..there.clone() };
    for _ in 0..2 {
        check_health(&credentials, &peer, Duration::from_secs(8)).await.unwrap();
    }
    deployment.stop().await.unwrap();
}
