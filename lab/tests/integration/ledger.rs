//! The query ledger behind the live service: budgets, bound shares, retries, secrets, and who may read it.

use nalgebra::DMatrix;
use tonic::{Code, Status};
use vfl_coordinator::config::{Budgets, LedgerValues};
use vfl_core::types::{LogitShare, RecordIds};
use vfl_defense::Policy;
use vfl_protocol::pb::RowStatus;
use vfl_protocol::{decode_statuses, pb};
use vfl_server::service::Role;
use vfl_testbed::deployment::Deployment;

use super::defenses::defense;
use super::support::{
    Trained, active_client, coordinator_client, spec, test_ids, trained, training_ids,
};

struct Asked<'a> {
    ids: &'a RecordIds,
    share: f64,
    name: &'a str,
}

async fn ask(here: &Trained, asked: Asked<'_>) -> Result<Vec<RowStatus>, Status> {
    let (statuses, release) = answer(here, asked, "").await?;
    let ok = statuses.iter().filter(|status| **status == RowStatus::Ok).count();
    let Some(pb::release::Kind::Probabilities(released)) = release.kind else {
        panic!("no scores")
    };
    assert_eq!(
        released.rows as usize, ok,
        "a row is released for each row that is granted, and for no other"
    );
    Ok(statuses)
}

/// The status of every row, and what is released, in the live service or a session of an audit.
async fn answer(
    here: &Trained,
    asked: Asked<'_>,
    session: &str,
) -> Result<(Vec<RowStatus>, pb::Release), Status> {
    let k = here.dataset.class_names().len();
    let request = pb::PredictRequest {
        model_version: here.version.clone(),
        ids: Some(asked.ids.into()),
        logit_shares: Some(
            LogitShare::new(DMatrix::from_element(k, asked.ids.len(), asked.share)).unwrap().into(),
        ),
        audit_session: session.into(),
        request_id: asked.name.into(),
    };
    let answer = coordinator_client(&here.deployment, Role::ActiveParty)
        .predict(request)
        .await?
        .into_inner();
    decode_statuses(&answer.row_status, asked.ids.len()).unwrap();
    let statuses = answer.row_status.iter().map(|s| RowStatus::try_from(*s).unwrap()).collect();
    Ok((statuses, answer.release.unwrap()))
}

/// The live service and the sessions of audits bind a record's share apart. One noise under two shares would tell the noise: behind a
/// share that decides the label the score is known.
#[tokio::test(flavor = "multi_thread")]
async fn audits_draw_noise_of_their_own_alike_in_every_session() {
    let mut here = trained(1, 2, 1).await;
    let ids = test_ids(&here.dataset, 0, 100);
    for (policy, is_drawn) in
        [("gaussian_noise (sigma = 0.1)", true), ("codebook (size = 16)", false)]
    {
        here = here.again(|spec| spec.defenses = defense(policy)).await;
        let asked = || Asked { ids: &ids, share: 0.5, name: "" };
        let (statuses, live) = answer(&here, asked(), "").await.unwrap();
        assert!(statuses.iter().all(|status| *status == RowStatus::Ok), "{policy}");
        let mut audited = Vec::new();
        for _ in 0..2 {
            let request = pb::OpenAuditRequest {
                model_version: here.version.clone(),
                policy: Some((&policy.parse::<Policy>().unwrap()).into()),
                ids: Some((&ids).into()),
                active_party: "active".into(),
            };
            let mut auditor = coordinator_client(&here.deployment, Role::Auditor);
            let opened = auditor.open_audit(request).await.unwrap().into_inner();
            audited.push(answer(&here, asked(), &opened.audit_session).await.unwrap().1);
        }
        assert_eq!(audited[0], audited[1], "{policy}");
        assert_eq!(live != audited[0], is_drawn, "{policy}");
    }
    here.deployment.stop().await.unwrap();
}

async fn ledger(
    here: &Trained,
    role: Role,
    party: &str,
) -> Result<pb::DescribeLedgerResponse, Status> {
    let request = pb::DescribeLedgerRequest { active_party: party.into() };
    Ok(coordinator_client(&here.deployment, role).describe_ledger(request).await?.into_inner())
}

async fn queries(here: &Trained) -> (u64, u64) {
    let described = ledger(here, Role::Auditor, "").await.unwrap();
    assert!(described.kept);
    described.parties.first().map_or((0, 0), |p| (p.queries, p.refused))
}

/// Bits of a record add up over the policies that were in service. A policy beyond the budget does not come into service.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_bits_holds_over_policies() {
    let here = trained(1, 2, 1).await;
    let label = (here.dataset.class_names().len() as f64).log2();
    let budgets = Budgets { bits_per_record: Some(label + 1.0), ..Budgets::default() };
    let statuses = async |here: &Trained, from, to| {
        let ids = test_ids(&here.dataset, from, to);
        answer(here, Asked { ids: &ids, share: 0.5, name: "" }, "").await.unwrap().0
    };
    let here = here.with_budgets(budgets, |spec| spec.defenses = defense("class_label")).await;
    for _ in 0..2 {
        assert_eq!(
            statuses(&here, 0, 10).await,
            [RowStatus::Ok; 10],
            "an answer that comes again tells nothing new"
        );
    }
    // Three bits more would be too many for the records that have a label.
    let here =
        here.with_budgets(budgets, |spec| spec.defenses = defense("codebook (size = 8)")).await;
    let (spent, fresh) = ([RowStatus::BudgetSpent; 10], [RowStatus::Ok; 10]);
    assert_eq!(statuses(&here, 0, 10).await, spent);
    assert_eq!(statuses(&here, 10, 20).await, fresh);
    let described = ledger(&here, Role::Auditor, "").await.unwrap();
    assert_eq!(described.budgets.unwrap().bits_per_record, Some(label + 1.0));
    let told: Vec<_> =
        described.parties[0].uses.iter().map(|u| (u.policy.as_str(), u.bits)).collect();
    assert_eq!(told, [("class_label", Some(label)), ("codebook (size = 8)", Some(3.0))]);
    here.deployment.stop().await.unwrap();
    let exact = spec(here.dir.path(), &here.dataset, &here.split);
    let refused = Deployment::start_with(exact, |_, settings| {
        settings.ledger.as_mut().unwrap().budgets = budgets;
        Ok(())
    });
    // The service ends before it serves.
    let ended = match refused.await {
        Ok(deployment) => deployment.stop().await,
        Err(error) => Err(error),
    };
    let said = format!("{:#}", ended.unwrap_err());
    assert!(said.contains("bits_per_record") && said.contains("no finite bound"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_share_is_refused_and_the_first_stays_bound_over_a_restart() {
    let here = trained(1, 2, 1).await;
    let ids = test_ids(&here.dataset, 0, 3);
    let ok = vec![RowStatus::Ok; 3];
    assert_eq!(ask(&here, Asked { ids: &ids, share: 0.5, name: "" }).await.unwrap(), ok);
    assert_eq!(
        ask(&here, Asked { ids: &ids, share: 0.5, name: "" }).await.unwrap(),
        ok,
        "the same share is the same"
    );
    let two = ids.slice(0, 2);
    let changed = vec![RowStatus::ShareChanged; 2];
    assert_eq!(ask(&here, Asked { ids: &two, share: 0.25, name: "" }).await.unwrap(), changed);
    assert_eq!(queries(&here).await, (8, 2));
    let here = here.again(|_| ()).await;
    assert_eq!(ask(&here, Asked { ids: &two, share: 0.25, name: "" }).await.unwrap(), changed);
    assert_eq!(ask(&here, Asked { ids: &ids, share: 0.5, name: "" }).await.unwrap(), ok);
    assert_eq!(queries(&here).await, (13, 4));
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_count_rows_that_fail_and_no_membership_shows_beyond_them() {
    let budgets = Budgets { records: Some(6), queries_per_record: Some(2), ..Budgets::UNLIMITED };
    let here = trained(1, 2, 1).await.with_budgets(budgets, |_| ()).await;
    let known = test_ids(&here.dataset, 0, 2);
    let mixed = RecordIds::new([
        known.get(0).unwrap(),
        "nobody",
        training_ids(&here.dataset).get(0).unwrap(),
    ])
    .unwrap();
    let first = [RowStatus::Ok, RowStatus::NotFound, RowStatus::TrainingRecord];
    for _ in 0..2 {
        assert_eq!(ask(&here, Asked { ids: &mixed, share: 0.0, name: "" }).await.unwrap(), first);
    }
    // The third time costs too, and tells the unknown record from the known one no more.
    let spent = vec![RowStatus::BudgetSpent; 3];
    assert_eq!(ask(&here, Asked { ids: &mixed, share: 0.0, name: "" }).await.unwrap(), spent);
    assert_eq!(queries(&here).await, (9, 3));

    let others = test_ids(&here.dataset, 2, 6);
    let error = ask(&here, Asked { ids: &others, share: 0.0, name: "" }).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("3 left"), "{}", error.message());
    assert_eq!(queries(&here).await, (9, 3), "a request that is refused as a whole costs nothing");
    let fits = others.slice(0, 3);
    assert_eq!(
        ask(&here, Asked { ids: &fits, share: 0.0, name: "" }).await.unwrap(),
        vec![RowStatus::Ok; 3]
    );
    let described = ledger(&here, Role::ActiveParty, "").await.unwrap();
    assert_eq!(described.parties[0].records_left, Some(0));
    assert_eq!(described.budgets.unwrap().queries_per_record, Some(2));

    let here =
        here.with_budgets(Budgets { rows_per_minute: Some(5), ..Budgets::UNLIMITED }, |_| ()).await;
    assert!(ask(&here, Asked { ids: &fits, share: 0.0, name: "" }).await.is_ok());
    let error = ask(&here, Asked { ids: &fits, share: 0.0, name: "" }).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("try again in"), "{}", error.message());
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_costs_nothing_and_another_request_of_its_name_is_refused() {
    let here = trained(1, 2, 1).await;
    let ids = test_ids(&here.dataset, 0, 3);
    let other = test_ids(&here.dataset, 3, 6);
    for _ in 0..3 {
        let answer = ask(&here, Asked { ids: &ids, share: 0.5, name: "job-1" }).await.unwrap();
        assert_eq!(answer, vec![RowStatus::Ok; 3]);
    }
    assert_eq!(queries(&here).await, (3, 0));
    for (ids, share) in [(&other, 0.5), (&ids, 0.25)] {
        let error = ask(&here, Asked { ids, share, name: "job-1" }).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{}", error.message());
    }
    assert_eq!(queries(&here).await, (3, 0));
    for bad in ["x".repeat(129), "a\nb".to_owned()] {
        let error = ask(&here, Asked { ids: &ids, share: 0.5, name: &bad }).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{}", error.message());
    }

    // The active party passes its clients' names on, one for each message.
    let mut client = active_client(&here.deployment);
    let request = || pb::ScoreRequest { ids: Some((&other).into()), request_id: "batch".into() };
    let first = client.predict(request()).await.unwrap().into_inner();
    assert_eq!(client.predict(request()).await.unwrap().into_inner(), first);
    assert_eq!(queries(&here).await, (6, 0));
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_belongs_to_one_secret_and_to_one_coordinator_at_a_time() {
    let here = trained(1, 2, 1).await;
    let state = here.dir.path().join("coordinator");
    ask(&here, Asked { ids: &test_ids(&here.dataset, 0, 3), share: 0.5, name: "" }).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let second =
        Deployment::start_with(spec(elsewhere.path(), &here.dataset, &here.split), |_, ours| {
            ours.ledger = LedgerValues::default().config(&state, Budgets::default());
            ours.state_dir.clone_from(&state);
            Ok(())
        });
    let error = format!("{:#}", second.await.unwrap().stop().await.unwrap_err());
    assert!(error.contains("another coordinator uses this ledger"), "{error}");
    here.deployment.stop().await.unwrap();

    let secret = state.join("noise.secret");
    let kept = std::fs::read(&secret).unwrap();
    let text = String::from_utf8(kept.clone()).unwrap();
    std::fs::write(&secret, text.chars().rev().collect::<String>().trim()).unwrap();
    let other = Deployment::start(spec(here.dir.path(), &here.dataset, &here.split)).await.unwrap();
    let error = format!("{:#}", other.stop().await.unwrap_err());
    assert!(error.contains("noise secret") && error.contains("fingerprint"), "{error}");
    assert!(!error.contains(text.trim()), "the secret is shown");
    std::fs::write(&secret, kept).unwrap();
    let again = Deployment::start(spec(here.dir.path(), &here.dataset, &here.split)).await.unwrap();
    again.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_party_sees_its_own_entries_alone() {
    let here = trained(1, 2, 1).await;
    ask(&here, Asked { ids: &test_ids(&here.dataset, 0, 3), share: 0.5, name: "" }).await.unwrap();
    for (role, party) in
        [(Role::ActiveParty, ""), (Role::PassiveParty, ""), (Role::Auditor, "active")]
    {
        let described = ledger(&here, role, party).await.unwrap();
        let [only] = &described.parties[..] else {
            panic!("{role:?} sees {} parties", described.parties.len())
        };
        assert_eq!((only.name.as_str(), only.records, only.queries), ("active", 3, 3));
        assert_eq!(only.uses[0].model_version, here.version);
        assert_eq!(only.uses[0].policy, "none");
    }
    assert_eq!(ledger(&here, Role::Auditor, "another").await.unwrap().parties, vec![]);
    let error = ledger(&here, Role::ActiveParty, "another").await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    assert_eq!(
        ledger(&here, Role::Auditor, "a b").await.unwrap_err().code(),
        Code::InvalidArgument
    );
    here.deployment.stop().await.unwrap();
}
