//! Property inference: a planted property is found in the weights, none is found where there is none, and what is refused.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::{Combiner, ModelConfig, Settings, TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_studies::properties::{
    AdversaryRow, Experiment, Group, PropertiesPlan, PropertiesReport, Verdict, default_transforms,
};
use vfl_studies::{Event, Report, Study, Subject, SubjectSpec};
use vfl_transform::TransformConfig;

fn training(values: TrainingValues) -> TrainingConfig {
    TrainingConfig::try_from(TrainingValues { validation_share: 0.0, ..values }).unwrap()
}

fn plan() -> PropertiesPlan {
    PropertiesPlan {
        training: training(TrainingValues {
            epochs: 30,
            learning_rate: 0.05,
            ..TrainingValues::default()
        }),
        feature: 1,
        group: Group::All,
        records: 300,
        shadows: 160,
        targets: 60,
        tilt: 1.5,
        transforms: default_transforms(),
        seed: 7,
    }
}

fn block(features: DMatrix<f64>) -> FeatureBlock {
    FeatureBlock::new(features).unwrap()
}

/// 3000 records of two active and three passive features, all independent and uniform. Class 1 has the chance that `odds` gives the
/// second passive feature and the first active one.
fn population(odds: fn(f64, f64) -> f64) -> Subject {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let n = 3000;
    let mut uniform = |d| DMatrix::from_fn(d, n, |_, _| rng.random::<f64>());
    let (active, first, second) = (uniform(2), uniform(1), uniform(2));
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let labels = (0..n)
        .map(|at| u32::from(rng.random::<f64>() < odds(second[(0, at)], active[(0, at)])))
        .collect();
    Subject {
        set: None,
        class_names: vec!["0".into(), "1".into()],
        blocks: [active, first, second].map(block).into(),
        labels,
    }
}

/// The chance is large at both ends of the feature: whether there is more mass at one end or the other moves the slope of a linear model,
/// and neither the shares of the classes nor the active features.
fn planted() -> &'static PropertiesReport {
    static REPORT: OnceLock<PropertiesReport> = OnceLock::new();
    REPORT.get_or_init(|| {
        let population = population(|x, _| 0.05 + 3.6 * (x - 0.5) * (x - 0.5));
        Experiment::on(population, &plan()).unwrap().run(&|_| ()).unwrap()
    })
}

fn row<'a>(report: &'a PropertiesReport, sees: &str) -> &'a AdversaryRow {
    report.adversaries.iter().find(|row| row.sees == sees).unwrap()
}

fn refusal(population: Subject, plan: &PropertiesPlan) -> String {
    format!("{:#}", Experiment::on(population, plan).err().unwrap())
}

#[test]
fn a_planted_property_is_found_in_the_released_weights() {
    let report = planted();
    assert!(report.deviation > 0.05, "{report:?}");
    let control = row(report, "nothing");
    assert!(control.explained.value < 0.3 && control.added.is_none(), "{control:?}");
    let released = row(report, "release: none");
    assert!(released.explained.low > 0.7, "{released:?}");
    assert!(released.added_to_own.unwrap().low > 0.3, "{released:?}");
    assert_eq!(released.verdict, Some(Verdict::Leaks));
    assert!(released.takes.contains("weights"), "{released:?}");
    let text = report.text();
    for part in ["release: random_orthonormal", "own parameters", "leaks", "group `all`"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// A sign that is known is no secret, the one long column is found in any order, and a rotation leaves the products of the rows, which
/// tell the size of the slope, as the active party's own bias tells its sign.
#[test]
fn transforms_do_not_hide_a_planted_property() {
    let report = planted();
    let explained = |sees: &str| row(report, sees).explained.value;
    assert!((explained("release: negate") - explained("release: none")).abs() < 0.02, "{report:?}");
    for transform in ["release: permute", "release: random_orthonormal"] {
        assert!(explained(transform) > 0.5, "{report:?}");
        assert!(row(report, transform).added.unwrap().low > 0.3, "{report:?}");
    }
}

/// A feature that has nothing to do with the labels, of classes that are equally frequent.
#[test]
fn nothing_is_found_where_nothing_is() {
    let population = population(|_, y| y);
    let report = Experiment::on(population, &plan()).unwrap().run(&|_| ()).unwrap();
    for row in report.adversaries.iter().filter(|row| row.verdict.is_some()) {
        let added = row.added.unwrap();
        assert!(added.low <= 0.0 && added.value > -0.5, "{row:?}");
        assert_eq!(row.verdict, Some(Verdict::NothingAdded), "{row:?}");
    }
    assert!(row(&report, "nothing").explained.value < 0.2, "{report:?}");
}

/// The same seed gives the same bytes on any number of threads; another transform moves nothing.
#[test]
fn the_same_seed_gives_the_same_figures() {
    let data = SubjectSpec {
        data: DatasetSpec::new(DatasetName::Synthetic, None, 7).into(),
        first_column: 0,
        passive_features: Some(6),
        passive_parties: 2,
    };
    let plan = PropertiesPlan {
        training: training(TrainingValues { epochs: 3, ..TrainingValues::default() }),
        records: 120,
        shadows: 50,
        targets: 30,
        group: Group::Above(0),
        ..plan()
    };
    let done = AtomicUsize::new(0);
    let on = |threads: usize, plan: &PropertiesPlan| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let experiment = Experiment::prepare(&data, plan).unwrap();
        let count = |_: Event<'_>| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        pool.install(|| serde_json::to_value(experiment.run(&count).unwrap()).unwrap())
    };
    let first = on(1, &plan);
    assert_eq!(done.load(Ordering::Relaxed), 80);
    assert_eq!((&first["dataset"], &first["passive_features"]), (&"synthetic".into(), &6.into()));
    assert_eq!(on(3, &plan).to_string(), first.to_string());
    assert_ne!(
        on(2, &PropertiesPlan { seed: 8, ..plan.clone() })["adversaries"],
        first["adversaries"]
    );
    let alone = on(2, &PropertiesPlan { transforms: vec![TransformConfig::Permute {}], ..plan });
    assert_eq!(alone["adversaries"][3], first["adversaries"][5]);
}

#[test]
fn what_cannot_be_measured_is_refused_by_its_option() {
    let some = || population(|x, _| x);
    let told = |plan: &PropertiesPlan| refusal(some(), plan);
    for shadows in [49, 1001] {
        assert!(told(&PropertiesPlan { shadows, ..plan() }).contains("--shadows"));
    }
    assert!(told(&PropertiesPlan { targets: 29, ..plan() }).contains("--targets"));
    for records in [99, 376] {
        assert!(told(&PropertiesPlan { records, ..plan() }).contains("--records"));
    }
    for tilt in [-0.1, 3.1, f64::NAN] {
        assert!(told(&PropertiesPlan { tilt, ..plan() }).contains("--tilt"));
    }
    assert!(told(&PropertiesPlan { feature: 3, ..plan() }).contains("--feature"));
    for group in [Group::Class(2), Group::Above(2)] {
        assert!(told(&PropertiesPlan { group, ..plan() }).contains("--group"));
    }
    let rare = population(|x, _| f64::from(u8::from(x > 0.99)));
    assert!(
        refusal(rare, &PropertiesPlan { group: Group::Class(1), ..plan() }).contains("--group")
    );
    let stiefel: TransformConfig = "stiefel (epsilon = 0.1)".parse().unwrap();
    assert!(told(&PropertiesPlan { transforms: vec![stiefel], ..plan() }).contains("--transform"));
    assert!(told(&PropertiesPlan { transforms: Vec::new(), ..plan() }).contains("--transform"));
    let long = training(TrainingValues { epochs: 100_000, ..TrainingValues::default() });
    let mut wide = some();
    wide.blocks.push(block(DMatrix::from_element(800, 3000, 0.5)));
    let long =
        PropertiesPlan { training: long, records: 375, shadows: 1000, targets: 1000, ..plan() };
    assert!(refusal(wide, &long).contains("--epochs"));
    let settings: Settings = serde_json::json!({ "hidden": [4] }).as_object().unwrap().clone();
    let model = ModelConfig::new(Combiner::Sum, "mlp", None, settings).unwrap();
    let network = training(TrainingValues { model, ..TrainingValues::default() });
    assert!(told(&PropertiesPlan { training: network, ..plan() }).contains("softmax"));
    let mut constant = some();
    let mut features = constant.blocks[2].matrix().clone();
    features.row_mut(0).fill(0.5);
    constant.blocks[2] = block(features);
    assert!(refusal(constant, &plan()).contains("--feature"));
}
