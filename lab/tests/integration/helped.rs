//! Adversaries that somebody helps, over the sockets: records with known passive features, passive parties that collude, and what is
//! known of the features.

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tonic::Code;
use vfl_attack::{
    Attack, AttackConfig, Coalition, HalfStar, Method, Party, Replacement, Role as PartyRole,
    Settings,
};
use vfl_auditor::audit;
use vfl_auditor::audit::{Findings, Help, Plan};
use vfl_auditor::report::{
    Audit, DataFacts, DefenseKnowledge, Errors, Generated, MetricFacts, Outcome,
    ParameterKnowledge, Refused, Report, deployment_facts,
};
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{
    ConfidenceScores, FeatureBlock, Logits, ModelVersion, PartyName, RecordIds, ReleasedScores,
};
use vfl_passive_party::config::Grant;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{Refusal, RefusalKind, decode_columns, pb};
use vfl_server::service::{Credentials, Role, channel};
use vfl_testbed::deployment::{Deployment, DeploymentSpec};
use vfl_transform::TransformConfig;

use super::support::{
    Trained, config, credentials, dataset, spec, split, test_ids, trained, training_ids,
};

pub(super) const RECORDS: usize = 100;

/// The values of some columns of the data set for the test records `from` to `to`.
pub(super) fn values(here: &Trained, columns: &[usize], from: usize, to: usize) -> DMatrix<f64> {
    let positions = &here.dataset.split().test[from..to];
    DMatrix::from_fn(columns.len(), positions.len(), |i, j| {
        here.dataset.x()[(columns[i], positions[j])]
    })
}

/// All passive columns, in the order of the parties.
pub(super) fn passive_columns(here: &Trained) -> Vec<usize> {
    here.split.passive().iter().flat_map(|p| p.columns.clone()).collect()
}

/// What an active party knows that has seen the passive features of the test records `from` to `to`.
pub(super) fn known(here: &Trained, from: usize, to: usize) -> FeatureTable {
    let columns = passive_columns(here);
    let specs =
        (0..columns.len()).map(|i| FeatureSpec::numeric(format!("known {i}"), 0.0, 1.0)).collect();
    let block = FeatureBlock::new(values(here, &columns, from, to)).unwrap();
    FeatureTable::new(
        FeatureSchema::new(specs, None).unwrap(),
        test_ids(&here.dataset, from, to),
        block,
        None,
    )
    .unwrap()
}

pub(super) fn plan(here: &Trained, attacks: Vec<AttackConfig>, help: Help) -> Plan {
    let ids = test_ids(&here.dataset, 0, RECORDS);
    Plan { help, ..Plan::of(ids, vec!["none".parse().unwrap()], attacks, 3) }
}

pub(super) fn auxiliary(ids: RecordIds) -> Help {
    Help { auxiliary_ids: Some(ids), ..Help::default() }
}

fn colluding(names: &[&str]) -> Help {
    Help {
        colluding: names.iter().map(|n| PartyName::new(*n).unwrap()).collect(),
        ..Help::default()
    }
}

fn with_base(method: Method, base: &str) -> AttackConfig {
    AttackConfig::new(method, [("base", base)]).unwrap()
}

pub(super) async fn run(here: &Trained, plan: &Plan) -> Result<Findings, Refusal> {
    audit::run(&here.deployment.targets(), plan, |_, _, _| ()).await
}

fn outcome<'a>(audit: &'a Audit, attack: &str) -> &'a Outcome {
    &audit
        .attacks
        .iter()
        .find(|a| a.name == attack)
        .unwrap_or_else(|| panic!("{attack} is not in {audit:?}"))
        .outcome
}

pub(super) fn errors<'a>(audit: &'a Audit, attack: &str) -> &'a Errors {
    match outcome(audit, attack) {
        Outcome::Ran { errors, .. } => errors,
        other => panic!("{attack} did not run: {other:?}"),
    }
}

fn not_run<'a>(audit: &'a Audit, attack: &str) -> (Refused, &'a str) {
    match outcome(audit, attack) {
        Outcome::NotRun { why, reason } => (*why, reason),
        other => panic!("{attack} ran: {other:?}"),
    }
}

pub(super) fn near(got: f64, expected: f64) {
    // Three significant digits are told.
    assert!((got - expected).abs() <= 0.006 * expected.abs() + 1e-12, "{got} is not {expected}");
}

/// The report of the findings passes its own checks, lists by feature among them.
pub(super) fn report(findings: &Findings) -> String {
    let deployment = deployment_facts(findings, Some(0.5));
    let data = DataFacts {
        name: "test".into(),
        variant: None,
        columns: None,
        source: "test".into(),
        records: 1,
        training: 1,
        validation: 0,
        test: 1,
        features: 1,
        classes: 5,
        sha256: "0".repeat(64),
    };
    let mut report =
        Report::new("t", "c", 1, Generated::new(serde_json::json!({})), data, deployment);
    report.audits = findings.audits.clone();
    report.metrics = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
    let json = report.to_json().unwrap();
    assert_eq!(Report::from_json(&json).unwrap(), report);
    json
}

/// As many known records as there are features take the place of the parameters: exactly with up to k − 1 features, and with more as
/// far as the white box itself comes.
#[tokio::test(flavor = "multi_thread")]
async fn known_records_take_the_place_of_the_parameters() {
    for each in [4, 7] {
        let white = trained(1, each, 6).await;
        let base = if each == 4 { "least_squares" } else { "clamped_half_star" };
        let attacks = vec![base.parse::<Method>().unwrap().into()];
        let findings = run(&white, &plan(&white, attacks, Help::default())).await.unwrap();
        let in_white_box = errors(&findings.audits[0], base).mse;

        let table = known(&white, RECORDS, RECORDS + each);
        let black = white
            .again(|spec| {
                spec.release.to_active_party = Grant::Nothing;
                spec.help.known = Some(table);
            })
            .await;
        let shadow = with_base(Method::ShadowModel, base);
        let attacks = vec![Method::LeastSquares.into(), shadow.clone()];
        let ids = test_ids(&black.dataset, RECORDS, RECORDS + each);
        let findings = run(&black, &plan(&black, attacks.clone(), auxiliary(ids))).await.unwrap();
        let [alone, helped] = &findings.audits[..] else { panic!("two audits") };
        assert_eq!(not_run(alone, "least_squares").0, Refused::ParametersHidden);
        assert_eq!(alone.threat_model.parameters, ParameterKnowledge::Hidden);
        assert!(alone.utility.accuracy.is_some() && alone.utility == helped.utility);
        assert_eq!(helped.threat_model.parameters, ParameterKnowledge::Auxiliary { records: each });
        assert!(
            helped.remarks.iter().any(|r| r.contains(&format!("given {each} records"))),
            "{:?}",
            helped.remarks
        );
        let found = errors(helped, "shadow_model");
        if each == 4 {
            assert!(in_white_box < 1e-12 && found.mse < 1e-12, "{in_white_box:e}, {:e}", found.mse);
        } else {
            assert!(in_white_box > 1e-4);
            near(found.mse, in_white_box);
        }
        assert!(report(&findings).contains("\"auxiliary\""));

        // One record fewer leaves a direction of the weights open.
        let few = test_ids(&black.dataset, RECORDS, RECORDS + each - 1);
        let findings = run(&black, &plan(&black, vec![shadow], auxiliary(few))).await.unwrap();
        let [helped] = &findings.audits[..] else { panic!("one audit") };
        assert!(errors(helped, "shadow_model").mse > in_white_box + 1e-4);

        // Records that the adversary does not know are refused by the name of the file.
        let unknown = test_ids(&black.dataset, RECORDS, RECORDS + each + 1);
        let refused =
            run(&black, &plan(&black, attacks.clone(), auxiliary(unknown))).await.unwrap_err();
        assert!(
            refused.message.contains("some of the") && refused.message.contains("`known_csv`"),
            "{refused}"
        );
        let overlap = test_ids(&black.dataset, RECORDS - 1, RECORDS + each - 1);
        let refused =
            run(&black, &plan(&black, attacks.clone(), auxiliary(overlap))).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::InvalidArgument, "{refused}");

        // Without a file there is nothing to learn from; the rest of the audit goes on.
        let black = black.again(|spec| spec.release.to_active_party = Grant::Nothing).await;
        let ids = test_ids(&black.dataset, RECORDS, RECORDS + each);
        let findings = run(&black, &plan(&black, attacks, auxiliary(ids))).await.unwrap();
        let (why, reason) = not_run(&findings.audits[1], "shadow_model");
        assert!(why == Refused::Missing && reason.contains("`known_csv`"), "{reason}");
        assert_eq!(findings.audits[1].threat_model.parameters, ParameterKnowledge::Hidden);
        black.deployment.stop().await.unwrap();
    }
}

/// Two known records tell which column of permuted weights belongs to which feature.
#[tokio::test(flavor = "multi_thread")]
async fn known_records_tell_which_transform_it_was() {
    // The order is drawn from the operating system. One time in 24 nothing was permuted, and then a guess is right.
    let mut guesses = Vec::new();
    while guesses.iter().all(|guess| *guess <= 1e-3) {
        assert!(guesses.len() < 4, "without a known record: {guesses:?}");
        guesses.push(guessed_with_and_without_known_records().await);
    }
}

/// Has permuted weights undone with two known records, which must succeed, and gives the error without one.
async fn guessed_with_and_without_known_records() -> f64 {
    let here = trained(1, 4, 6).await;
    let table = known(&here, RECORDS, RECORDS + 2);
    let here = here
        .again(|spec| {
            spec.release.to_active_party = Grant::Transformed(TransformConfig::Permute {});
            spec.release.disclosed = false;
            spec.help.known = Some(table);
        })
        .await;
    let attacks = vec![Method::LeastSquares.into()];
    let alone = Plan { aware: true, ..plan(&here, attacks, Help::default()) };
    let ids = test_ids(&here.dataset, RECORDS, RECORDS + 2);
    let helped = Plan { help: auxiliary(ids), ..alone.clone() };
    let undone = async |plan: &Plan| {
        let findings = run(&here, plan).await.unwrap();
        let knowing = findings
            .audits
            .into_iter()
            .find(|a| a.threat_model.defense == DefenseKnowledge::Known)
            .unwrap();
        (errors(&knowing, "undo_transform").mse, knowing.remarks)
    };
    let (guessed, _) = undone(&alone).await;
    let (told, remarks) = undone(&helped).await;
    assert!(told < 1e-9, "with two: {told:e}, {remarks:?}");
    assert!(remarks.iter().any(|r| r.contains("undo_transform: given 2 records")), "{remarks:?}");
    here.deployment.stop().await.unwrap();
    guessed
}

/// The model from the parties' own files, and the features of some records: (W, b) and all columns.
fn truth(here: &Trained, from: usize, to: usize) -> (DMatrix<f64>, DVector<f64>, DMatrix<f64>) {
    let version = ModelVersion::new(here.version.as_str()).unwrap();
    let (w, b) = here.deployment.whole_model(&here.dataset, &here.split, &version).unwrap();
    let all: Vec<usize> = (0..here.dataset.features().len()).collect();
    (w, b, values(here, &all, from, to))
}

/// softmax(W x + b).
fn scores(w: &DMatrix<f64>, b: &DVector<f64>, x: &DMatrix<f64>) -> ReleasedScores {
    let mut logits = w * x;
    for mut column in logits.column_iter_mut() {
        column += b;
    }
    ReleasedScores::Probabilities(
        ConfidenceScores::softmax(Logits::new(logits).unwrap()).into_matrix(),
    )
}

fn rows(x: &DMatrix<f64>, columns: &[usize]) -> DMatrix<f64> {
    x.select_rows(columns)
}

/// A passive party that lends its shares takes its term out of the sum: the others' features are found as an adversary finds them that
/// holds the colluder's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_colluder_exposes_the_other_party() {
    let here = trained(2, 6, 6).await;
    let here =
        here.again(|spec| spec.help.colluding = vec![PartyName::new("passive-2").unwrap()]).await;
    let attacks = vec![Method::ClampedHalfStar.into()];
    let findings =
        run(&here, &plan(&here, attacks.clone(), colluding(&["passive-2"]))).await.unwrap();
    let [alone, helped] = &findings.audits[..] else { panic!("two audits") };
    assert_eq!(helped.threat_model.target, ["passive-1"]);
    assert_eq!(helped.threat_model.colluding, ["passive-2"]);
    assert!(alone.threat_model.target.is_empty() && alone.threat_model.colluding.is_empty());
    assert!(report(&findings).contains("\"colluding\""));

    // The same from the truth, offline.
    let (w, b, x) = truth(&here, 0, RECORDS);
    let released = scores(&w, &b, &x);
    let [first, second] = here.split.passive() else { panic!("two parties") };
    let own = FeatureBlock::new(rows(&x, here.split.active())).unwrap();
    let lender = FeatureBlock::new(rows(&x, &second.columns)).unwrap();
    let parties = [
        Party { weights: w.select_columns(&first.columns), role: PartyRole::Target },
        Party { weights: w.select_columns(&second.columns), role: PartyRole::Colluder(lender) },
    ];
    let coalition =
        Coalition::new(w.select_columns(here.split.active()), b, own, &parties).unwrap();
    let view = coalition.view(&released, Replacement::default()).unwrap();
    let attack = HalfStar { clamped: true };
    let estimates =
        attack.reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(1)).unwrap().estimates;
    let truth = rows(&x, &first.columns);
    let off = (estimates - &truth).map(|e| e * e);
    let found = errors(helped, "coalition");
    assert!(found.mse > 1e-4, "with six features the figure is not 0: {}", found.mse);
    near(found.mse, off.mean());
    assert_eq!(found.per_feature.len(), 6);
    for (got, row) in found.per_feature.iter().zip(off.row_iter()) {
        near(*got, row.mean());
    }
    // Baselines are of the target alone, and the colluder makes it worse for the other.
    near(helped.baselines.half.mse, truth.map(|x| (x - 0.5).powi(2)).mean());
    let unhelped = errors(alone, "clamped_half_star");
    let of_first = unhelped.per_party.iter().find(|p| p.party == "passive-1").unwrap().mse;
    assert!(found.mse < of_first, "{} with help, {of_first} without", found.mse);

    // Without consent the audit goes on, and says whose consent is missing and how it is given.
    let here = here.again(|_| ()).await;
    let findings = run(&here, &plan(&here, attacks, colluding(&["passive-2"]))).await.unwrap();
    let (why, reason) = not_run(&findings.audits[1], "coalition");
    assert_eq!(why, Refused::Missing);
    for says in ["`passive-2`", "`with = [\"active\"]`", "[collusion]"] {
        assert!(reason.contains(says), "{reason}");
    }
    assert!(errors(&findings.audits[0], "clamped_half_star").mse > 0.0);
    let refused = run(&here, &plan(&here, Vec::new(), colluding(&["nobody"]))).await.unwrap_err();
    assert!(
        refused.message.contains("`nobody`") && refused.message.contains("passive-1, passive-2"),
        "{refused}"
    );
    here.deployment.stop().await.unwrap();
}

/// Shares go to the active party that is named, and are W x; nobody else gets any, another active party among them.
#[tokio::test(flavor = "multi_thread")]
async fn shares_are_lent_to_nobody_else() {
    let here = trained(1, 3, 2).await;
    let here =
        here.again(|spec| spec.help.colluding = vec![PartyName::new("passive-1").unwrap()]).await;
    let peer = here.deployment.passive_peers().remove(0);
    let request = || pb::LendSharesRequest {
        model_version: here.version.clone(),
        ids: Some((&test_ids(&here.dataset, 0, 5)).into()),
    };
    let ask = async |who: &Credentials| {
        let mut client = PassivePartyClient::new(channel(who, &peer).unwrap());
        client.lend_shares(request()).await.map(|answer| answer.into_inner().logit_shares.unwrap())
    };
    let lent = ask(&credentials(&here.deployment, Role::ActiveParty)).await.unwrap();
    let (w, _, x) = truth(&here, 0, 5);
    let columns = &here.split.passive()[0].columns;
    let expected = w.select_columns(columns) * rows(&x, columns);
    let got = decode_columns("shares", &lent, 5, Some(expected.nrows())).unwrap();
    assert!((got - expected).amax() < 1e-12);

    for role in [Role::Coordinator, Role::PassiveParty, Role::Auditor] {
        let status = ask(&credentials(&here.deployment, role)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{role}: {status}");
        assert!(status.message().contains("is for the active party"), "{role}: {status}");
    }
    let other = here.deployment.credentials(Role::ActiveParty, "other").unwrap();
    let status = ask(&other).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(
        status.message().contains("`other`") && status.message().contains("[collusion]"),
        "{status}"
    );
    here.deployment.stop().await.unwrap();
}

/// A deployment whose passive features are 0 or 1: those of the data set, rounded.
async fn binary(parties: usize, each: usize) -> Trained {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset();
    let split = split(&dataset, parties, each);
    let spec = binary_spec(spec(dir.path(), &dataset, &split));
    let deployment = Deployment::start(spec).await.unwrap();
    let version =
        deployment.train(&config(6), &training_ids(&dataset), |_| ()).await.unwrap().version.into();
    Trained { dir, dataset, split, deployment, version }
}

fn binary_spec(mut spec: DeploymentSpec) -> DeploymentSpec {
    for (_, table) in &mut spec.tables.passive {
        let block = FeatureBlock::new(table.block().matrix().map(f64::round)).unwrap();
        *table =
            FeatureTable::new(table.normalised_schema(), table.ids().clone(), block, None).unwrap();
    }
    spec
}

/// What is known of the features goes to every attack of an audit and into its report.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_the_features_reaches_the_attacks() {
    let here = binary(1, 7).await;
    let features = Settings::read([("binary", "all")]).unwrap();
    let attacks = vec![Method::HalfStar.into()];
    let plain = run(&here, &plan(&here, attacks.clone(), Help::default())).await.unwrap();
    let informed = Plan { features, ..plan(&here, attacks, Help::default()) };
    let informed = run(&here, &informed).await.unwrap();
    let (plain, informed) = (&plain.audits[0], &informed.audits[0]);
    // The same as settings of one attack, beside the attack without: each goes by a name of its own.
    let knowing = AttackConfig::new(Method::HalfStar, [("binary", "all")]).unwrap();
    let both = plan(&here, vec![Method::HalfStar.into(), knowing], Help::default());
    let both = run(&here, &both).await.unwrap().audits.swap_remove(0);
    assert_eq!(errors(&both, "half_star").mse, errors(plain, "half_star").mse);
    assert_eq!(errors(&both, "half_star (binary = all)").mse, errors(informed, "half_star").mse);

    // By hand: the point nearest to ½ that solves J W x = b', and then the nearer of 0 and 1.
    let (w, b, mut x) = truth(&here, 0, RECORDS);
    let columns = &here.split.passive()[0].columns;
    for &column in columns {
        x.row_mut(column).apply(|v| *v = v.round());
    }
    let ReleasedScores::Probabilities(c) = scores(&w, &b, &x) else { unreachable!() };
    let j =
        DMatrix::from_fn(b.len() - 1, b.len(), |i, m| f64::from(m == i + 1) - f64::from(m == i));
    let a = &j * w.select_columns(columns);
    let mut right = &j
        * (c.map(f64::ln) - w.select_columns(here.split.active()) * rows(&x, here.split.active()));
    for mut column in right.column_iter_mut() {
        column -= &j * &b;
    }
    let half = DMatrix::from_element(columns.len(), RECORDS, 0.5);
    // Four independent equations of seven unknowns: A⁺ = Aᵀ (A Aᵀ)⁻¹.
    let inverse = a.transpose() * (&a * a.transpose()).try_inverse().unwrap();
    let estimates = &half + inverse * (right - &a * &half);
    let truth = rows(&x, columns);
    near(
        errors(plain, "half_star").mse,
        (estimates.map(|v| v.clamp(0.0, 1.0)) - &truth).map(|e| e * e).mean(),
    );
    let wrong = estimates.map(|v| f64::from(v >= 0.5)) - &truth;
    let found = errors(informed, "half_star");
    near(found.mse, wrong.map(|e| e * e).mean());
    for error in &found.per_feature {
        // Each record is right or wrong.
        let count = error * RECORDS as f64;
        assert!((count - count.round()).abs() < 1e-9, "{error}");
    }
    assert_eq!(plain.threat_model.features, ["the public schema"]);
    assert_eq!(informed.threat_model.features, ["the public schema", "binary = all"]);
    let phrases = informed.threat_model.phrases();
    assert!(
        phrases
            .iter()
            .any(|p| p == "knows of the passive features: the public schema, binary = all"),
        "{phrases:?}"
    );
    here.deployment.stop().await.unwrap();
}

/// An attack on the parties that do not collude is told of their features alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_the_features_reaches_a_coalition_too() {
    let here = binary(2, 5).await;
    here.deployment.stop().await.unwrap();
    let mut again = binary_spec(spec(here.dir.path(), &here.dataset, &here.split));
    again.help.colluding = vec![PartyName::new("passive-2").unwrap()];
    let here = Trained { deployment: Deployment::start(again).await.unwrap(), ..here };
    // Of five features four are known to be 0 or 1, by their places among those of both parties.
    let features = Settings::read([("binary", "0,1,2,4,7")]).unwrap();
    let attacks = vec![with_base(Method::Coalition, "half_star")];
    let plan = Plan { features, ..plan(&here, attacks, colluding(&["passive-2"])) };
    let findings = run(&here, &plan).await.unwrap();
    let [helped] = &findings.audits[..] else { panic!("one audit") };
    let found = errors(helped, "coalition");
    let whole =
        |error: &f64| (error * RECORDS as f64 - (error * RECORDS as f64).round()).abs() < 1e-9;
    let [a, b, c, between, e] = found.per_feature[..] else { panic!("five features") };
    assert!([a, b, c, e].iter().all(whole), "{found:?}");
    assert!(!whole(&between), "{found:?}");
    here.deployment.stop().await.unwrap();
}
