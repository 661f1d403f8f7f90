//! Metrics of reconstructions over the sockets: every one in the register, against its definition written out from the truth.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::{Errors, MetricFacts, Outcome};
use vfl_core::metrics::{METRICS, metrics_named};
use vfl_core::types::ModelVersion;
use vfl_datasets::VerticalSplit;
use vfl_defense::Policy;
use vfl_numerics::three_significant_digits;
use vfl_protocol::pb;
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_server::service::{Role, channel};
use vfl_state::ShareStore;
use vfl_transform::TransformConfig;

use super::support::{
    Trained, credentials, dataset, score, spec, split, test_ids, trained, training_ids,
};

const RECORDS: usize = 150;

/// Features of the first passive party of the first test records, d × n.
fn truth(here: &Trained) -> DMatrix<f64> {
    let columns = &here.split.passive()[0].columns;
    let positions = &here.dataset.split().test[..RECORDS];
    DMatrix::from_fn(columns.len(), RECORDS, |i, j| here.dataset.x()[(columns[i], positions[j])])
}

/// W_pas of the first passive party, from its own disk.
pub(super) fn weights(here: &Trained) -> DMatrix<f64> {
    let version = ModelVersion::new(here.version.as_str()).unwrap();
    let store = ShareStore::open(&here.deployment.party_dir("passive-1")).unwrap();
    store.load(&version).unwrap().linear().unwrap().weights().clone()
}

/// One scoring of these estimates at the first passive party, which trusts its auditor, of a named model or of none.
async fn scored(
    here: &Trained,
    named: bool,
    estimates: &DMatrix<f64>,
    metrics: &[&str],
) -> Result<pb::Scored, Status> {
    let peer = here.deployment.passive_peers().remove(0);
    let mut client = PassivePartyClient::new(
        channel(&credentials(&here.deployment, Role::Auditor), &peer).unwrap(),
    );
    let (asks, outgoing) = mpsc::channel(4);
    let values: Vec<u8> = estimates.as_slice().iter().flat_map(|v| v.to_le_bytes()).collect();
    let (rows, columns) = (estimates.ncols() as u32, estimates.nrows() as u32);
    let rows = Some(pb::Matrix { rows, columns, values: values.into() });
    let score = pb::Score {
        told: pb::score::Told::All.into(),
        by_feature: true,
        by_attribute: false,
        control: pb::score::Control::Half.into(),
        rho: None,
        moments: false,
        metrics: metrics.iter().map(|&name| name.to_owned()).collect(),
    };
    let ids = Ask::Ids((&test_ids(&here.dataset, 0, RECORDS)).into());
    for (message, version) in [
        (ids, here.version.clone()),
        (Ask::Estimates(pb::Estimates { rows, more: false, control: false }), String::new()),
        (Ask::Score(score), String::new()),
    ] {
        let model_version = if named { version } else { String::new() };
        asks.send(pb::EvaluateReconstructionRequest { message: Some(message), model_version })
            .await
            .unwrap();
    }
    let mut answers =
        client.evaluate_reconstruction(ReceiverStream::new(outgoing)).await?.into_inner();
    assert!(matches!(answers.message().await?.unwrap().message, Some(Answer::Opened(_))));
    match answers.message().await?.unwrap().message {
        Some(Answer::Scored(scored)) => Ok(scored),
        other => panic!("{other:?}"),
    }
}

fn figures(error: &pb::ReconstructionError) -> BTreeMap<String, Option<f64>> {
    assert!(error.metrics.iter().all(|m| m.sigma.is_none()), "without noise");
    error.metrics.iter().map(|m| (m.metric.clone(), m.value)).collect()
}

/// Every metric by its definition, one record, feature and order after the other. `w` classifies, `map` is what features go through
/// before that.
fn naive(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    w: &DMatrix<f64>,
    map: impl Fn(f64) -> f64,
) -> BTreeMap<&'static str, Option<f64>> {
    let (d, n) = truth.shape();
    let near = |i: usize, j: usize| (estimates[(i, j)] - truth[(i, j)]).abs() <= 0.1;
    let class = |x: &DMatrix<f64>, j: usize| {
        let logit = |k: usize| (0..d).map(|i| w[(k, i)] * map(x[(i, j)])).sum::<f64>();
        (0..w.nrows()).fold(0, |best, k| if logit(k) > logit(best) { k } else { best })
    };
    let mean =
        |of: &dyn Fn(usize) -> f64, count: usize| (0..count).map(of).sum::<f64>() / count as f64;
    let pearson = |i: usize| {
        let (e, x) = (mean(&|j| estimates[(i, j)], n), mean(&|j| truth[(i, j)], n));
        let products =
            |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| mean(&|j| a(j) * b(j), n);
        let (de, dx) = (|j: usize| estimates[(i, j)] - e, |j: usize| truth[(i, j)] - x);
        let spread = (products(&de, &de) * products(&dx, &dx)).sqrt();
        if spread > 0.0 { (products(&de, &dx) / spread).abs() } else { 0.0 }
    };
    let pair = |i: usize, k: usize| mean(&|j| (estimates[(k, j)] - truth[(i, j)]).powi(2), n);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let matched =
        orders.iter().map(|order| mean(&|i| pair(i, order[i]), d)).fold(f64::INFINITY, f64::min);
    BTreeMap::from([
        (
            "attack_accuracy",
            Some(mean(&|j| f64::from(u8::from(class(estimates, j) == class(truth, j))), n)),
        ),
        ("correlation", Some(mean(&pearson, d))),
        ("values_within", Some(mean(&|i| mean(&|j| f64::from(u8::from(near(i, j))), n), d))),
        ("records_within", Some(mean(&|j| f64::from(u8::from((0..d).all(|i| near(i, j)))), n))),
        ("permutation_matched_mse", Some(matched)),
        // The synthetic features take as many values as there are records.
        ("conditional_entropy", None),
        ("levels_right", None),
    ])
}

fn agree(told: &BTreeMap<String, Option<f64>>, naive: &BTreeMap<&'static str, Option<f64>>) {
    assert_eq!(told.len(), METRICS.len());
    for (name, told) in told {
        let naive = naive[name.as_str()];
        assert_eq!(told.is_some(), naive.is_some(), "{name}");
        if let (Some(told), Some(naive)) = (told, naive) {
            assert_eq!(*told, three_significant_digits(*told), "{name}: more than three digits");
            assert!(
                (told - naive).abs() <= 5.001e-3 * naive.abs() + 1e-15,
                "{name}: {told}, by definition {naive}"
            );
        }
    }
}

/// Estimates that are near for some records, far for others, and in another order for two features.
fn estimates(truth: &DMatrix<f64>) -> DMatrix<f64> {
    DMatrix::from_fn(truth.nrows(), truth.ncols(), |i, j| {
        let from = if i < 2 { 1 - i } else { i };
        (truth[(from, j)] + 0.17 * ((j * 7 + i * 3) % 11) as f64 / 10.0 - 0.05).clamp(0.0, 1.0)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_over_the_sockets_is_its_definition() {
    let here = trained(1, 3, 6).await;
    let (truth, w) = (truth(&here), weights(&here));
    let all: Vec<&str> = METRICS.iter().map(|m| m.name()).collect();
    for estimates in [estimates(&truth), truth.map(|x| 1.0 - x), truth.clone()] {
        let answer = scored(&here, true, &estimates, &all).await.unwrap();
        let error = answer.errors[0].error.as_ref().unwrap();
        agree(&figures(error), &naive(&estimates, &truth, &w, |x| x));
        let half = DMatrix::from_element(3, RECORDS, 0.5);
        agree(&figures(answer.control.as_ref().unwrap()), &naive(&half, &truth, &w, |x| x));
    }

    // What cannot be answered says why, and what to do.
    let refused = scored(&here, false, &truth, &["attack_accuracy"]).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("name the model audited"), "{refused}");
    assert!(scored(&here, false, &truth, &["correlation"]).await.is_ok(), "no class enters");
    for (names, says) in
        [(vec!["mse2"], "there is no metric `mse2`"), (vec!["correlation"; 2], "named twice")]
    {
        let refused = scored(&here, true, &truth, &names).await.unwrap_err();
        assert!(
            refused.code() == Code::InvalidArgument && refused.message().contains(says),
            "{refused}"
        );
    }
    here.deployment.stop().await.unwrap();
}

/// A model of transformed features classifies features that went through the same map.
#[tokio::test(flavor = "multi_thread")]
async fn attack_accuracy_is_by_the_model_in_service_whatever_it_was_trained_on() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split: VerticalSplit = split(&dataset, 1, 3);
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.training_transform = TransformConfig::Complement {};
    let deployment = vfl_testbed::deployment::Deployment::start(spec).await.unwrap();
    let config = super::support::config(4);
    let version =
        deployment.train(&config, &training_ids(&dataset), |_| ()).await.unwrap().version.into();
    let here = Trained { dir, dataset, split, deployment, version };
    let (truth, w) = (truth(&here), weights(&here));
    let estimates = estimates(&truth);
    let answer = scored(&here, true, &estimates, &["attack_accuracy"]).await.unwrap();
    let told = answer.errors[0].error.as_ref().unwrap().metrics[0].value.unwrap();
    let expected = naive(&estimates, &truth, &w, |x| 1.0 - x)["attack_accuracy"].unwrap();
    assert!((told - expected).abs() <= 5.001e-3 * expected, "{told}, by definition {expected}");
    score(&here.deployment, &test_ids(&here.dataset, 0, 10)).await.unwrap();
    here.deployment.stop().await.unwrap();
}

fn plan(here: &Trained, names: Option<&[&str]>) -> Plan {
    Plan {
        help: Default::default(),
        ids: test_ids(&here.dataset, 0, RECORDS),
        training_ids: None,
        aware: false,
        queries: 1,
        rho: None,
        metrics: names.map(|names| metrics_named(names.iter().copied()).unwrap()),
        policies: ["none", "class_label"].map(|p| p.parse::<Policy>().unwrap()).into(),
        attacks: vec![Method::Half.into(), Method::LeastSquares.into()],
        features: Default::default(),
        schema: true,
        seed: 11,
    }
}

fn ran<'a>(audit: &'a vfl_auditor::report::Audit, attack: &str) -> &'a Errors {
    let result = audit.attacks.iter().find(|a| a.name == attack).unwrap();
    let Outcome::Ran { errors, .. } = &result.outcome else { panic!("{attack} did not run") };
    errors
}

fn value(errors: &Errors, name: &str) -> Option<f64> {
    errors.metrics.iter().find(|m| m.name == name).unwrap().value
}

/// An audit of trusting parties has attack accuracy and correlation unless told otherwise, of every attack and both guesses, and says
/// what they are; two parties are put together by features.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_reports_the_metrics_it_asked_for() {
    let here = trained(2, 2, 6).await;
    let findings =
        audit::run(&here.deployment.targets(), &plan(&here, None), |_, _, _| ()).await.unwrap();
    let names: Vec<&str> = findings.metrics.iter().map(|m| m.name()).collect();
    assert_eq!(names, ["attack_accuracy", "correlation"]);
    let none = &findings.audits[0];
    let exact = ran(none, "least_squares");
    assert!(exact.mse < 1e-12);
    assert_eq!(
        (value(exact, "attack_accuracy"), value(exact, "correlation")),
        (Some(1.0), Some(1.0))
    );
    let half = &none.baselines.half;
    assert_eq!(value(half, "correlation"), Some(0.0), "a constant tells nothing");
    assert!(value(half, "attack_accuracy").unwrap() < 1.0);
    assert_eq!(half, ran(none, "half"));
    assert_eq!(value(&none.baselines.column_mean, "correlation"), Some(0.0));
    let label = ran(&findings.audits[1], "least_squares");
    for name in names {
        assert!(value(label, name).unwrap() < 1.0, "{name} behind a label");
        let figure = label.metrics.iter().find(|m| m.name == name).unwrap();
        let parties: Vec<&str> = figure.per_party.iter().map(|p| p.party.as_str()).collect();
        assert_eq!(parties, ["passive-1", "passive-2"]);
        let mean = figure.per_party.iter().map(|p| p.value).sum::<f64>() / 2.0;
        assert!((figure.value.unwrap() - mean).abs() <= 5.001e-3 * mean, "of two features each");
    }

    let all: Vec<&str> = METRICS.iter().map(|m| m.name()).collect();
    let findings = audit::run(&here.deployment.targets(), &plan(&here, Some(&all)), |_, _, _| ())
        .await
        .unwrap();
    let facts: Vec<MetricFacts> = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
    assert_eq!(facts.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), all);
    let exact = ran(&findings.audits[0], "least_squares");
    assert_eq!(
        (value(exact, "values_within"), value(exact, "records_within")),
        (Some(1.0), Some(1.0))
    );
    assert!(value(exact, "permutation_matched_mse").unwrap() <= exact.mse);
    assert_eq!(value(exact, "conditional_entropy"), None, "no feature is discrete");

    let findings = audit::run(&here.deployment.targets(), &plan(&here, Some(&[])), |_, _, _| ())
        .await
        .unwrap();
    assert!(findings.metrics.is_empty() && ran(&findings.audits[0], "half").metrics.is_empty());
    here.deployment.stop().await.unwrap();
}
