//! An auditor who names a hundred records and has one of them scored learned what the defense did to that one: KL, total
//! variation, whether its class was kept, and from the active party whether it was predicted well.

use vfl_core::types::RecordIds;
use vfl_defense::Policy;
use vfl_protocol::pb;
use vfl_protocol::pb::reconstruct_event::Event;
use vfl_server::service::{Role, channel};

use super::support::{Trained, coordinator_client, credentials, test_ids, trained, training_ids};

struct Told {
    accuracy: Option<f64>,
    closed: pb::CloseAuditResponse,
}

impl Told {
    fn nothing(&self) -> bool {
        let closed = &self.closed;
        let figures =
            [self.accuracy, closed.kl_divergence, closed.total_variation, closed.arg_max_kept];
        figures == [None; 4] && !closed.withheld.is_empty()
    }
}

/// One session about `set`, in which each of `asked` is scored.
async fn session(here: &Trained, policy: &str, set: &RecordIds, asked: &[RecordIds]) -> Told {
    let mut coordinator = coordinator_client(&here.deployment, Role::Auditor);
    let open = pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&policy.parse::<Policy>().unwrap()).into()),
        ids: Some(set.into()),
        active_party: "active".into(),
    };
    let audit_session = coordinator.open_audit(open).await.unwrap().into_inner().audit_session;
    let credentials = here.deployment.credentials(Role::Auditor, "auditor").unwrap();
    let channel = channel(&credentials, &here.deployment.active_peer()).unwrap();
    let mut active = pb::active_party_client::ActivePartyClient::new(channel);
    let mut accuracy = None;
    for ids in asked {
        let request = pb::ReconstructRequest {
            audit_session: audit_session.clone(),
            model_version: here.version.clone(),
            ids: Some(ids.into()),
            attacks: vec![pb::AttackSpec { name: "half".into(), settings: Vec::new() }],
            seed: 1,
            queries: 1,
            ..Default::default()
        };
        let mut events = active.reconstruct(request).await.unwrap().into_inner();
        while let Some(event) = events.message().await.unwrap() {
            if let Some(Event::Scores(scores)) = event.event {
                accuracy = scores.accuracy.or(accuracy);
            }
        }
    }
    let close = pb::CloseAuditRequest { audit_session, without_summary: false };
    Told { accuracy, closed: coordinator.close_audit(close).await.unwrap().into_inner() }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_figure_is_told_of_fewer_than_a_hundred_records() {
    let here = trained(1, 2, 1).await;
    let all = test_ids(&here.dataset, 0, 101);
    let set = all.slice(0, 100);
    let one = set.slice(0, 1);
    for policy in ["top_k (k = 1)", "rounding (decimals = 1)", "class_label", "none"] {
        for asked in [vec![one.clone()], vec![one.clone(); 100], vec![set.slice(0, 99)], vec![]] {
            let told = session(&here, policy, &set, &asked).await;
            assert!(told.nothing(), "{policy}: {:?} {:?}", told.accuracy, told.closed);
        }
    }
    // A hundred records, all of them, are summarised, by halves too; and again, with the same result.
    let told = session(&here, "top_k (k = 1)", &set, std::slice::from_ref(&set)).await;
    assert!(told.accuracy.is_some() && told.closed.arg_max_kept == Some(1.0), "{:?}", told.closed);
    let halves = [set.slice(0, 50), set.slice(50, 100), set.clone()];
    let again = session(&here, "top_k (k = 1)", &set, &halves).await;
    assert_eq!(again.closed.total_variation, told.closed.total_variation);
    assert_eq!((again.closed.rows, again.closed.records), (200, 100));
    assert_eq!(again.accuracy, told.accuracy);
    // One record more, or one exchanged: the difference would be that record's.
    let exchanged = all.slice(1, 101);
    let here = {
        for ids in [&all, &exchanged] {
            let told = session(&here, "top_k (k = 1)", ids, std::slice::from_ref(ids)).await;
            assert!(told.nothing(), "{:?} {:?}", told.accuracy, told.closed);
        }
        // Nor after a restart of all parties.
        here.again(|_| ()).await
    };
    let told = session(&here, "top_k (k = 1)", &all, std::slice::from_ref(&all)).await;
    assert!(told.nothing(), "{:?} {:?}", told.accuracy, told.closed);
    // Records apart from these are another set.
    let apart = test_ids(&here.dataset, 101, 201);
    let told = session(&here, "top_k (k = 1)", &apart, std::slice::from_ref(&apart)).await;
    assert!(told.accuracy.is_some() && told.closed.total_variation.is_some(), "{:?}", told.closed);
    here.deployment.stop().await.unwrap();
}

/// Where audits are off nobody is told anything: whether a record was trained on, whom the active party holds, whom a passive
/// party holds.
#[tokio::test(flavor = "multi_thread")]
async fn parties_that_allow_no_audit_tell_an_auditor_nothing() {
    let here = trained(1, 2, 1).await.again(|spec| spec.audits = false).await;
    let auditor = credentials(&here.deployment, Role::Auditor);
    let passive = here.deployment.passive_peers().remove(0);
    let nobody = RecordIds::new(["nobody"]).unwrap();
    let lists = [training_ids(&here.dataset).slice(0, 1), test_ids(&here.dataset, 0, 100), nobody];
    for ids in &lists {
        let open = pb::OpenAuditRequest {
            model_version: here.version.clone(),
            policy: Some((&Policy::default()).into()),
            ids: Some(ids.into()),
            active_party: "active".into(),
        };
        let opened =
            coordinator_client(&here.deployment, Role::Auditor).open_audit(open).await.map(drop);
        let reconstruct = pb::ReconstructRequest {
            model_version: here.version.clone(),
            ids: Some(ids.into()),
            attacks: vec![pb::AttackSpec { name: "agnostic".into(), settings: vec![] }],
            ..Default::default()
        };
        let to_active = channel(&auditor, &here.deployment.active_peer()).unwrap();
        let mut active = pb::active_party_client::ActivePartyClient::new(to_active);
        let reconstructed = active.reconstruct(reconstruct).await.map(drop);
        let first = pb::EvaluateReconstructionRequest {
            message: Some(pb::evaluate_reconstruction_request::Message::Ids(ids.into())),
            model_version: here.version.clone(),
        };
        let to_passive = channel(&auditor, &passive).unwrap();
        let mut holder = pb::passive_party_client::PassivePartyClient::new(to_passive);
        let scored = holder.evaluate_reconstruction(tokio_stream::once(first)).await.map(drop);
        for (who, answer) in
            [("coordinator", opened), ("active", reconstructed), ("passive", scored)]
        {
            let refused = answer.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{who}: {refused}");
            assert!(
                refused.message().starts_with("audits are not allowed here"),
                "{who}: {refused}"
            );
        }
    }
    here.deployment.stop().await.unwrap();
}
