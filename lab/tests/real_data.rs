//! The demo on real data, over the sockets: what the model is worth, and what exact scores give away.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;

use vfl_lab::demo::{DemoPlan, default_policies, run};
use vfl_lab::report::{Audit, Outcome, Report};
use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::{BankColumns, DatasetName, DatasetSpec};
use vfl_shared::model::{TrainingConfig, TrainingValues};

fn data_dir() -> PathBuf {
    let dir = std::env::var_os("CLOISON_DATA_DIR")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data").into(), PathBuf::from);
    assert!(dir.is_dir(), "the data sets are missing in {}; set CLOISON_DATA_DIR", dir.display());
    dir
}

async fn demo(name: DatasetName, columns: BankColumns) -> Report {
    let mut data = DatasetSpec::new(name, Some(data_dir()), 7);
    data.bank_columns = columns;
    let training = TrainingConfig::try_from(TrainingValues {
        epochs: 60,
        learning_rate: 0.05,
        patience: 10,
        seed: 7,
        ..Default::default()
    });
    let plan = DemoPlan {
        transform: TransformConfig::None {},
        training_transform: TransformConfig::None {},
        data,
        first_column: 0,
        passive_features: None,
        passive_parties: 1,
        training: training.unwrap(),
        records: 500,
        policies: default_policies(),
        sweep: false,
        seed: 7,
    };
    run(&plan).await.unwrap()
}

fn error(audit: &Audit, attack: &str) -> f64 {
    let found = audit.attacks.iter().find(|a| a.name == attack).unwrap();
    match &found.outcome {
        Outcome::Ran { errors, .. } => errors.mse,
        Outcome::NotRun { reason } => panic!("{attack} did not run: {reason}"),
    }
}

/// With d = k − 1 passive features `least_squares` rebuilds them from undefended scores and not from labels.
fn exact_without_a_defense_alone(report: &Report) {
    let audit = |name: &str| report.audits.iter().find(|a| a.policy.name == name).unwrap();
    assert_eq!(report.deployment.d_passive, report.deployment.classes - 1);
    let exact = error(audit("none"), "least_squares");
    assert!(exact < 1e-12, "{}: {exact:e}", report.data.name);
    let labels = error(audit("class_label"), "least_squares");
    assert!(labels > 1e-3, "{}: {labels:e}", report.data.name);
    assert_eq!(audit("class_label").utility.arg_max_kept, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn satellite() {
    let report = demo(DatasetName::Satellite, BankColumns::default()).await;
    assert!(report.deployment.test_accuracy >= 0.81, "{}", report.deployment.test_accuracy);
    exact_without_a_defense_alone(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn robot() {
    let report = demo(DatasetName::Robot, BankColumns::default()).await;
    assert!(report.deployment.test_accuracy >= 0.66, "{}", report.deployment.test_accuracy);
    exact_without_a_defense_alone(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn bank() {
    let report = demo(DatasetName::Bank, BankColumns::WithoutDuration).await;
    assert!(report.deployment.test_accuracy >= 0.895, "{}", report.deployment.test_accuracy);
    exact_without_a_defense_alone(&report);
    let report = demo(DatasetName::Bank, BankColumns::Authors).await;
    assert!(report.deployment.test_accuracy >= 0.905, "{}", report.deployment.test_accuracy);
}

/// Same seed, same bytes: model, attacks, report.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_gives_the_same_report() {
    let one = demo(DatasetName::Synthetic, BankColumns::default()).await;
    let two = demo(DatasetName::Synthetic, BankColumns::default()).await;
    assert_eq!(one.to_json().unwrap(), two.to_json().unwrap());
}
