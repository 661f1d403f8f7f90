//! A training whose coordinator loses the lock of the one that trains.

use vfl_protocol::RefusalKind;

use super::*;

/// Ends the connection that holds the lock; how many there were.
const END_TURN: &str = "SELECT CAST(count(pg_terminate_backend(pid)) AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' \
    AND CAST(classid AS BIGINT) = CAST(hashtext('cloison training') AS BIGINT) & 4294967295 \
    AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295";

#[tokio::test(flavor = "multi_thread")]
async fn a_training_ends_when_its_coordinator_loses_the_turn() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    let second = here.second("second").await;
    let ids = training_ids(&here.dataset);
    let version =
        here.deployment.train(&config(1), &ids, |_| ()).await.unwrap().version.as_str().to_owned();
    let (began, mut begun) = tokio::sync::mpsc::channel(1);
    // Never ends by itself.
    let endless = config(100_000);
    let training = here.deployment.train(&endless, &ids, move |_| {
        let _ = began.try_send(());
    });
    let lost = async {
        begun.recv().await.unwrap();
        assert_eq!(here.schema.number(END_TURN).await, 1);
    };
    let ended =
        tokio::time::timeout(Duration::from_secs(120), async { tokio::join!(training, lost).0 })
            .await;
    let refusal = ended.expect("the training goes on without its turn").unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal}");
    assert!(refusal.to_string().contains("has lost its turn to train"), "{refusal}");
    // The old model is in service at both, and the next training may begin.
    for peer in [&here.deployment.coordinator_peer(), &second.peer] {
        let mut client = here.client(peer, Role::ActiveParty);
        let described =
            client.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
        assert_eq!(described.model_version, version);
    }
    assert_eq!(
        here.schema.number("SELECT count(*) FROM versions").await,
        1,
        "nothing else was published"
    );
    let next = loop {
        match here.deployment.train(&config(2), &ids, |_| ()).await {
            // A party that has not noticed yet that the other one has ended.
            Err(refusal) if refusal.kind == RefusalKind::Aborted => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            done => break done.unwrap(),
        }
    };
    assert_ne!(next.version.as_str(), version);
    second.end().await;
    here.end().await;
}
