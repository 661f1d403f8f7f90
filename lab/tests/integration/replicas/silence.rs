//! A PostgreSQL that falls silent: its connections stay open, and no answer comes.

use super::proxy::{Line, Proxy};
use super::*;

/// Longer than any time limit of the coordinator.
const BOUND: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_a_named_error_in_time_until_it_talks_again() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    let k = here.dataset.class_names().len();
    let train = here.deployment.train(&config(1), &training_ids(&here.dataset), |_| ()).await;
    let version = train.unwrap().version.as_str().to_owned();
    let (server, proxy) = here.schema.proxy().await;
    let mut settings = here.of("behind");
    let ledger = settings.ledger.as_mut().unwrap();
    ledger.url = ledger.url.replacen(&server, &proxy.address.to_string(), 1);
    let behind = here.start(settings).await;
    let mut one = here.client(&here.deployment.coordinator_peer(), Role::ActiveParty);
    let mut two = here.client(&behind.peer, Role::ActiveParty);
    let mut auditor = here.client(&behind.peer, Role::Auditor);
    let ids = test_ids(&here.dataset, 0, 5);
    let all_ok =
        |answer: &pb::PredictResponse| answer.row_status.iter().all(|s| *s == RowStatus::Ok as i32);
    let answer = two.predict(question(&version, &ids, k, "a", "")).await.unwrap().into_inner();
    assert!(all_ok(&answer));

    proxy.set(Line::Silent);
    let audited = test_ids(&here.dataset, 10, 110);
    let audit = pb::OpenAuditRequest {
        model_version: version.clone(),
        policy: Some((&"none".parse::<Policy>().unwrap()).into()),
        ids: Some((&audited).into()),
        active_party: "active".into(),
    };
    let mut other = two.clone();
    let asked = async {
        tokio::join!(
            two.predict(question(&version, &ids, k, "b", "")),
            other.predict(question("m-0123456789abcdef", &ids, k, "c", "")),
            auditor.open_audit(audit),
            // The other coordinator is not held up.
            one.predict(question(&version, &ids, k, "d", "")),
        )
    };
    let asked = tokio::time::timeout(BOUND, asked)
        .await
        .expect("a silent database is waited for without end");
    let (ledger, named, session, elsewhere) = asked;
    for (refused, says) in [
        (ledger.unwrap_err(), "the coordinator's ledger is not available"),
        (named.unwrap_err(), "the coordinators' database does not say which model is in service"),
        (session.unwrap_err(), "the database of the coordinators does not answer"),
    ] {
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains(says), "{refused}");
    }
    assert!(all_ok(&elsewhere.unwrap().into_inner()));

    proxy.set(Line::Open);
    let recovered = async {
        loop {
            match two.predict(question(&version, &ids, k, "b", "")).await {
                Ok(answer) => break answer.into_inner(),
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let answer = tokio::time::timeout(BOUND, recovered)
        .await
        .expect("the database talks again, and is not heard");
    assert!(all_ok(&answer));
    // Whichever is asked: what was refused in the silence has been recorded once by now.
    assert_eq!(
        one.predict(question(&version, &ids, k, "b", "")).await.unwrap().into_inner(),
        answer
    );
    assert_eq!(here.schema.number("SELECT CAST(sum(queries) AS BIGINT) FROM totals").await, 15);
    behind.end().await;
    here.end().await;
}

impl Schema {
    /// A proxy before the server, and what stands for the server in a URL.
    async fn proxy(&self) -> (String, Proxy) {
        let options: sqlx::postgres::PgConnectOptions = self.url.parse().unwrap();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        assert!(self.url.contains(&server), "CLOISON_POSTGRES_URL names no port");
        let address = tokio::net::lookup_host(&server).await.unwrap().next().unwrap();
        (server, Proxy::start(address, Line::Open).await)
    }
}
