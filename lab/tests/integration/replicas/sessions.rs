//! Audit sessions of several coordinators: answers under way when a session ends, and a coordinator that is behind.

use tonic::{Response, Status};

use super::*;

/// Two coordinators with a model in service, and clients of both.
struct Audited {
    here: Shared,
    second: Second,
    version: String,
    ids: RecordIds,
    k: usize,
    auditors: [CoordinatorClient<Channel>; 2],
    actives: [CoordinatorClient<Channel>; 2],
}

impl Audited {
    async fn new() -> Option<Self> {
        let here = shared("none", Budgets::UNLIMITED).await?;
        let second = here.second("second").await;
        let train = here.deployment.train(&config(1), &training_ids(&here.dataset), |_| ()).await;
        let version = train.unwrap().version.as_str().to_owned();
        let peers = [here.deployment.coordinator_peer(), second.peer.clone()];
        let auditors = peers.clone().map(|peer| here.client(&peer, Role::Auditor));
        let actives = peers.map(|peer| here.client(&peer, Role::ActiveParty));
        let (ids, k) = (test_ids(&here.dataset, 0, 100), here.dataset.class_names().len());
        Some(Self { here, second, version, ids, k, auditors, actives })
    }

    async fn open(&mut self, at: usize) -> Result<String, Status> {
        let request = pb::OpenAuditRequest {
            model_version: self.version.clone(),
            policy: Some((&"none".parse::<Policy>().unwrap()).into()),
            ids: Some((&self.ids).into()),
            active_party: "active".into(),
        };
        Ok(self.auditors[at].open_audit(request).await?.into_inner().audit_session)
    }

    async fn close(&self, at: usize, session: &str) -> Result<pb::CloseAuditResponse, Status> {
        let request =
            pb::CloseAuditRequest { audit_session: session.to_owned(), without_summary: false };
        self.auditors[at].clone().close_audit(request).await.map(Response::into_inner)
    }

    async fn ask(&self, at: usize, session: &str) -> Result<pb::PredictResponse, Status> {
        let request = question(&self.version, &self.ids, self.k, "", session);
        self.actives[at].clone().predict(request).await.map(Response::into_inner)
    }

    async fn end(self) {
        self.second.end().await;
        self.here.end().await;
    }
}

/// A connection that keeps others from writing into a table, until it is closed.
async fn keep_off(schema: &Schema, table: &str) -> PgConnection {
    let mut connection = schema.connect().await;
    sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
    let lock = format!("LOCK TABLE {table} IN EXCLUSIVE MODE");
    sqlx::query(AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
    connection
}

fn waiting_for(table: &str) -> String {
    format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = CAST('{table}' AS regclass)"
    )
}

/// One coordinator is writing down what it releases while the other one ends the session: what is released is in the sums, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_under_way_when_its_session_ends_is_in_the_sums() {
    let Some(mut here) = Audited::new().await else { return };
    let session = here.open(0).await.unwrap();
    let held = keep_off(&here.here.schema, "audit_costs").await;
    let ended = async {
        here.here.schema.until(&waiting_for("audit_costs")).await;
        let let_go = async {
            // The end of the session waits for the release, which waits for the test.
            let blocked = "SELECT count(*) FROM pg_stat_activity a WHERE EXISTS (SELECT 1 FROM pg_locks l WHERE NOT l.granted \
                AND l.relation = CAST('audit_costs' AS regclass) AND l.pid = ANY (pg_blocking_pids(a.pid)))";
            here.here.schema.until(blocked).await;
            held.close().await.unwrap();
        };
        tokio::join!(here.close(1, &session), let_go).0
    };
    let (answer, closed) = tokio::join!(here.ask(0, &session), ended);
    let (answer, closed) = (answer.unwrap(), closed.unwrap());
    assert!(answer.row_status.iter().all(|s| *s == RowStatus::Ok as i32), "{answer:?}");
    assert_eq!((closed.rows, closed.records), (100, 100), "{closed:?}");
    assert!(closed.withheld.is_empty() && closed.arg_max_kept.is_some(), "{closed:?}");
    here.end().await;
}

/// A session ends before a release of it is written down: nothing is released, and the sums know nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_comes_after_the_end_of_its_session_is_none() {
    let Some(mut here) = Audited::new().await else { return };
    let session = here.open(0).await.unwrap();
    let held = keep_off(&here.here.schema, "audit_bound").await;
    let ended = async {
        // Its rows are taken off the budget by now.
        here.here.schema.until(&waiting_for("audit_bound")).await;
        let closed = here.close(1, &session).await;
        held.close().await.unwrap();
        closed
    };
    let (answer, closed) = tokio::join!(here.ask(0, &session), ended);
    let refused = answer.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "{refused}");
    let closed = closed.unwrap();
    assert_eq!((closed.rows, closed.records), (0, 0), "{closed:?}");
    for table in ["audit_sessions", "audit_released", "audit_costs"] {
        assert_eq!(
            here.here.schema.number(&format!("SELECT count(*) FROM {table}")).await,
            0,
            "{table}"
        );
    }
    here.end().await;
}

/// A coordinator that has not heard yet of another model neither opens a session for the old one, nor ends those of the new one.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_by_the_model_that_the_database_has_in_service() {
    let Some(mut here) = Audited::new().await else { return };
    here.open(0).await.unwrap();
    // As if another coordinator had published a model and opened a session for it, and this one had not looked since.
    for change in [
        "UPDATE meta SET value = 'm-other' WHERE name = 'current'",
        "UPDATE audit_sessions SET model = 'm-other'",
    ] {
        let mut connection = here.here.schema.connect().await;
        assert_eq!(sqlx::query(change).execute(&mut connection).await.unwrap().rows_affected(), 1);
    }
    let refused = here.open(0).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("another model has been published"), "{refused}");
    let kept = "SELECT count(*) FROM audit_sessions WHERE model = 'm-other'";
    assert_eq!(here.here.schema.number(kept).await, 1, "the session of the new model is open");
    // And the other way round: what the database has in service goes by it alone.
    let mut connection = here.here.schema.connect().await;
    let back = format!("UPDATE meta SET value = '{}' WHERE name = 'current'", here.version);
    sqlx::query(AssertSqlSafe(back)).execute(&mut connection).await.unwrap();
    here.open(0).await.unwrap();
    assert_eq!(
        here.here.schema.number(kept).await,
        0,
        "the session of a model that is not in service has ended"
    );
    here.end().await;
}

/// A coordinator keeps as many sessions in memory as may be open. One that it dropped it reads from the database again.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_coordinator_no_longer_keeps_is_served() {
    let Some(mut here) = Audited::new().await else { return };
    let first = here.open(0).await.unwrap();
    // Ended elsewhere, they stay in the first coordinator's memory, and push the oldest out.
    for _ in 0..here.here.settings.audit.max_sessions + 2 {
        let next = here.open(0).await.unwrap();
        here.close(1, &next).await.unwrap();
    }
    let answer = here.ask(0, &first).await.unwrap();
    assert!(answer.row_status.iter().all(|s| *s == RowStatus::Ok as i32), "{answer:?}");
    let closed = here.close(0, &first).await.unwrap();
    assert_eq!((closed.rows, closed.records), (100, 100), "{closed:?}");
    here.end().await;
}
