//! The report of a demonstration.

use serde_json::json;
use vfl_attack::Method;
use vfl_auditor::audit::Findings;
use vfl_auditor::report::{
    DataFacts, Generated, MetricFacts, Report, SurfaceKind, deployment_facts, draws_from_the_os,
    privacy_notes, surfaces_of,
};
use vfl_datasets::DatasetName;
use vfl_studies::DataSpec;
use vfl_transform::TransformConfig;

use super::command::{command, names as metric_names};
use super::demo_deployment::DemoDeployment;
use super::plan::DemoPlan;

/// Returns the report of an audit's findings, without the sweep and the private trainings. If parts
/// of an audit are reported together, `findings` may lack the audits of policies: the plan names
/// those that follow.
pub(super) fn report(
    plan: &DemoPlan,
    served: &DemoDeployment,
    findings: &Findings,
    test_accuracy: Option<f64>,
) -> Report {
    let DemoDeployment { dataset, split, published, .. } = served;
    let k = dataset.class_names().len();
    let training = findings.model.training;
    let d: usize = split.passive().iter().map(|p| p.columns.len()).sum();
    let command = command(plan, dataset, d);
    let config = json!({
        "dataset": dataset.name(),
        "variant": dataset.variant().as_str(),
        "seed": plan.seed,
        "first_column": plan.first_column,
        "passive_features": d,
        "passive_parties": plan.passive_parties,
        "records": plan.records,
        "known_records": plan.known_records,
        "training": plan.training,
        "policies": plan.policies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "attacks": Method::general().map(Method::as_str).collect::<Vec<_>>(),
        "metrics": metric_names(&findings.metrics),
        "thresholds": plan.thresholds,
        "transform": plan.transform.to_string(),
        "training_transform": plan.training_transform.to_string(),
    });
    let source = match &plan.data {
        DataSpec::Tables(_) => "the caller's own table",
        DataSpec::Set(set) if set.name == DatasetName::Synthetic => {
            "seeded generator, nothing real"
        }
        DataSpec::Set(_) => "public data set",
    };
    let facts = DataFacts {
        name: dataset.name().to_owned(),
        variant: Some(dataset.variant().to_string()),
        columns: Some(dataset.columns()),
        source: source.to_owned(),
        records: dataset.records(),
        training: training.training_records as usize,
        validation: training.validation_records as usize,
        test: dataset.split().test.len(),
        features: dataset.features().len(),
        classes: k,
        sha256: dataset.data_hash(),
    };
    let title = format!("Cloison audit: {} with {d} passive features", dataset.name());
    let deployment = deployment_facts(findings, test_accuracy);
    let mut report =
        Report::new(title, command, plan.seed, Generated::new(config), facts, deployment);
    report.surfaces = surfaces_of(findings, plan.policies.iter().map(SurfaceKind::of_policy));
    report.in_service = plan.policies.first().map(Into::into);
    report.audits = findings.audits.clone();
    report.demand(plan.thresholds);
    report.scoring = findings.scoring.clone();
    report.metrics = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
    report.notes = vec![
        "Each defense meets two adversaries: one that takes the release for the true scores, and one that knows the defense. \
         An attack that is not listed may do better than both."
            .into(),
    ];
    let model = &plan.training.values().model;
    if !plan.linear() {
        let shown = match plan.show_network {
            true => {
                "The active party is shown all of it. Attacks on equations take a linear model and did not run."
            }
            false => {
                "Its passive parameters are not released, so that attacks which need them did not run: what it gives away to \
                 one that learns them is not measured."
            }
        };
        let of = match plan.imported {
            Some(_) => {
                let top = serde_json::Value::Object(model.top().cloned().unwrap_or_default());
                format!(
                    "The model is a perceptron of all features with the settings {top}, trained elsewhere: each party computes its addend \
                     of the first hidden layer, and the coordinator the rest. The coordinator receives these addends, linear combinations of a \
                     party's features: it can learn the features of every record from them."
                )
            }
            None => {
                let settings = serde_json::Value::Object(model.settings().clone());
                format!("The model is of kind `{}` with the settings {settings}.", model.kind())
            }
        };
        report.notes.push(format!("{of} {shown}"));
    }
    if plan.outputs.is_some() {
        report.notes.push(
            "The scores are those of a table, of a model that is not here: no adversary has its parameters. What the scores give away \
             to one that has them, or the model to ask, is not measured and is more."
                .into(),
        );
    }
    if plan.sweeps() && plan.transform != (TransformConfig::None {}) {
        report
            .notes
            .push("The error by number of passive features is that of true parameters.".into());
    }
    if [&plan.transform, &plan.training_transform].into_iter().any(draws_from_the_os) {
        report.notes.push(
            "The transform is drawn from the operating system, not from the seed: another run has another.".into(),
        );
    }
    report.notes.extend(published.iter().flat_map(|of| privacy_notes(&of.privacy)));
    report
}
