//! The adversary that decodes scores to the grid of the passive features, over the sockets: with the parties' schema, with one that
//! names no step, and without any.

use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::Outcome;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::PartyName;
use vfl_datasets::{Dataset, DatasetName, DatasetSpec, VerticalSplit, load};
use vfl_passive_party::config::Grant;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::support::{config, spec, test_ids, training_ids};

const RECORDS: usize = 100;

/// Two passive parties with nine columns each of satellite, whose features are whole numbers.
fn split(dataset: &Dataset) -> VerticalSplit {
    let names = ["passive-1", "passive-2"].map(|name| PartyName::new(name).unwrap());
    VerticalSplit::shared_window(0, 18, dataset.features().len(), &names).unwrap()
}

/// The same parties with schemas in the units of the source: the declared ranges and no step.
fn silent(dataset: &Dataset, mut spec: DeploymentSpec) -> DeploymentSpec {
    for (_, table) in &mut spec.tables.passive {
        let names: Vec<String> = table.schema().features().iter().map(|f| f.name.clone()).collect();
        let of = |name: &String| dataset.features().iter().find(|f| f.name == *name).unwrap();
        let ranges = names
            .iter()
            .map(|name| FeatureSpec::numeric(name, of(name).min, of(name).max))
            .collect();
        let block = table.fetch(table.ids()).unwrap();
        *table = FeatureTable::new(
            FeatureSchema::new(ranges, None).unwrap(),
            table.ids().clone(),
            block,
            None,
        )
        .unwrap();
    }
    spec
}

/// Records that are certainly rebuilt. Where that is all of them, no value is wrong.
async fn certain(deployment: &Deployment, plan: &Plan) -> u64 {
    let findings = audit::run(&deployment.targets(), plan, |_, _, _| ()).await.unwrap();
    let [audit] = &findings.audits[..] else { panic!("one audit") };
    let attack = audit.attacks.iter().find(|attack| attack.name == "lattice").unwrap();
    let certain = attack.certain.unwrap_or(0);
    match &attack.outcome {
        Outcome::Ran { errors, .. } => {
            assert!(certain < RECORDS as u64 || errors.mse < 1e-24, "{errors:?}")
        }
        _ => assert_eq!(certain, 0),
    }
    certain
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_takes_the_grid_from_the_schema_or_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = load(&DatasetSpec::new(DatasetName::Satellite, None, 7)).unwrap();
    let split = split(&dataset);
    let deployment = Deployment::start(spec(dir.path(), &dataset, &split)).await.unwrap();
    deployment.train(&config(3), &training_ids(&dataset), |_| ()).await.unwrap();
    let ids = test_ids(&dataset, 0, RECORDS);
    let plan = Plan::of(ids, vec!["none".parse().unwrap()], vec![Method::Lattice.into()], 3);
    assert_eq!(certain(&deployment, &plan).await, RECORDS as u64, "the schema names the steps");
    assert_eq!(
        certain(&deployment, &Plan { schema: false, ..plan.clone() }).await,
        0,
        "nobody knows a grid"
    );
    deployment.stop().await.unwrap();

    // Other ranges are other features: a model of its own.
    let dir = tempfile::tempdir().unwrap();
    let deployment =
        Deployment::start(silent(&dataset, spec(dir.path(), &dataset, &split))).await.unwrap();
    deployment.train(&config(3), &training_ids(&dataset), |_| ()).await.unwrap();
    assert_eq!(certain(&deployment, &plan).await, RECORDS as u64, "the schema names ranges");
    deployment.stop().await.unwrap();
}

/// No parameter is granted and no record is known. Exact scores tell fewer features than classes all the same.
/// Behind a temperature and rounding nobody is asked to try.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_parameters_do_not_hide_few_features_on_a_grid() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = load(&DatasetSpec::new(DatasetName::Satellite, None, 7)).unwrap();
    let split = VerticalSplit::window(0, 4, dataset.features().len()).unwrap();
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.release.to_active_party = Grant::Nothing;
    let deployment = Deployment::start(spec).await.unwrap();
    deployment.train(&config(3), &training_ids(&dataset), |_| ()).await.unwrap();
    let policies = ["none", "temperature (temperature = 4.0)", "rounding (decimals = 3)"]
        .map(|p| p.parse().unwrap());
    let plan =
        Plan::of(test_ids(&dataset, 0, 600), policies.to_vec(), vec![Method::Lattice.into()], 3);
    let findings = audit::run(&deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let decoded = |policy: &str| {
        let audits = findings.audits.iter().filter(|audit| audit.policy.name == policy);
        let remarks: Vec<&String> = audits.flat_map(|audit| &audit.remarks).collect();
        let whole = "black_box_lattice: the scores of 600 of 600 records decode to whole numbers";
        (
            remarks.iter().any(|said| said.contains("black_box_lattice")),
            remarks.iter().any(|said| said.starts_with(whole)),
        )
    };
    let none = (false, false);
    assert_eq!(
        (decoded("none"), decoded("temperature"), decoded("rounding")),
        ((true, true), none, none)
    );
    deployment.stop().await.unwrap();
}
