//! Label inference by a passive party: what gradients give away, what parameters do, and what is refused.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, ModelConfig, Settings, TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_studies::labels::{
    Attack, AttackRow, Experiment, LabelsPlan, LabelsReport, ModelRows, Verdict, gradient_sign,
    observe,
};
use vfl_studies::{Event, Report, Study, SubjectSpec};

fn perceptron(combiner: Combiner, hidden: u32, width: Option<u32>) -> ModelConfig {
    let settings = serde_json::json!({ "hidden": [hidden], "activation": "relu" });
    let settings: Settings = settings.as_object().unwrap().clone();
    ModelConfig::new(combiner, "mlp", width, settings).unwrap()
}

/// Softmax regression, perceptrons summed, perceptrons under a top model.
fn models() -> Vec<ModelConfig> {
    vec![
        ModelConfig::default(),
        perceptron(Combiner::Sum, 16, None),
        perceptron(Combiner::Concat, 16, Some(8)),
    ]
}

fn plan(name: DatasetName, passive_features: usize) -> LabelsPlan {
    LabelsPlan {
        subject: SubjectSpec {
            data: DatasetSpec::new(name, None, 7).into(),
            first_column: 0,
            passive_features: Some(passive_features),
            passive_parties: 1,
        },
        models: models(),
        training: TrainingValues { validation_share: 0.0, ..TrainingValues::default() },
        privacy: None,
        records: 1000,
        known: 5,
        epochs: vec![1, 5],
        trainings: 6,
        seed: 7,
    }
}

fn run(plan: &LabelsPlan) -> LabelsReport {
    Experiment::prepare(plan).unwrap().run(&|_| ()).unwrap()
}

fn refusal(plan: &LabelsPlan) -> String {
    format!("{:#}", Experiment::prepare(plan).err().unwrap())
}

fn row(model: &ModelRows, attack: Attack, epochs: u32) -> &AttackRow {
    model.attacks.iter().find(|row| row.attack == attack && row.epochs == epochs).unwrap()
}

fn satellite() -> &'static LabelsReport {
    static REPORT: OnceLock<LabelsReport> = OnceLock::new();
    REPORT.get_or_init(|| run(&plan(DatasetName::Satellite, 18)))
}

/// Whatever the model, the features and the number of classes: the first epoch tells every label, also where labels are drawn at random.
#[test]
fn under_sum_the_first_gradients_are_the_labels() {
    for (classes, model) in [(2usize, 0), (3, 1), (7, 1), (11, 0)] {
        let mut rng = ChaCha20Rng::seed_from_u64(classes as u64);
        let n = 300;
        let mut block =
            |d| FeatureBlock::new(DMatrix::from_fn(d, n, |_, _| rng.random::<f64>())).unwrap();
        let blocks = [block(3), block(1), block(4)];
        let labels: Vec<u32> = (0..n).map(|_| rng.random_range(0..classes as u32)).collect();
        let values = TrainingValues {
            epochs: 1,
            validation_share: 0.0,
            model: models()[model].clone(),
            ..Default::default()
        };
        let config = TrainingConfig::try_from(values).unwrap();
        let observed = observe(&config, classes, &blocks, &labels, None, &[1]).unwrap();
        let expected: Vec<Option<u32>> = labels.iter().copied().map(Some).collect();
        assert_eq!(gradient_sign(&observed.received), expected, "{classes} classes");
        // The very first step alone tells its batch.
        let mut first = observed.received.clone();
        first.steps.truncate(1);
        let named = gradient_sign(&first);
        for &position in &first.steps[0].positions {
            assert_eq!(named[position as usize], Some(labels[position as usize]));
        }
        assert_eq!(named.iter().flatten().count(), first.steps[0].positions.len());
    }
}

#[test]
fn gradients_tell_more_than_features_and_known_records() {
    let report = satellite();
    assert_eq!((report.adversary_features, report.models.len()), (18, 3));
    let control = report.control.accuracy.mean;
    assert!(control > 0.6 && control < 0.9, "{report:?}");
    for summed in &report.models[..2] {
        for epochs in [1, 5] {
            let sign = row(summed, Attack::GradientSign, epochs);
            assert_eq!(
                (sign.right.accuracy.mean, sign.verdict, sign.known_labels),
                (1.0, Verdict::AllLabels, 0)
            );
        }
    }
    let top = &report.models[2];
    let (first, later) =
        (row(top, Attack::GradientDirection, 1), row(top, Attack::GradientDirection, 5));
    assert_eq!(first.known_labels, 5);
    assert!(first.right.accuracy.mean > control + 0.05, "{first:?} {control}");
    assert_ne!(first.verdict, Verdict::NothingAdded);
    assert!(later.right.accuracy.mean > 0.9, "{later:?}");
    assert!(top.attacks.iter().all(|row| row.attack != Attack::GradientSign), "no sum, no signs");
    // Six classes: the attacks on two are left out.
    assert!(
        top.attacks
            .iter()
            .all(|row| row.attack != Attack::GradientNorm && row.attack != Attack::GradientSides)
    );
    let text = report.text();
    for part in [
        "gradient_sign",
        "model_completion",
        "100.0 ± 0.0 %",
        "all labels",
        "softmax_regression, summed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Without gradients: a trained sub-model separates the classes, which a party without labels could not have it do.
#[test]
fn a_trained_sub_model_tells_of_labels_without_gradients() {
    let report = satellite();
    let own = row(&report.models[0], Attack::OwnOutputs, 5);
    assert!(own.right.accuracy.mean > report.guessing.accuracy + 0.2, "{own:?}");
    assert_eq!(own.verdict, Verdict::Leaks);
    let signs = row(&report.models[0], Attack::ParameterSigns, 1);
    assert!(signs.right.accuracy.mean > report.guessing.accuracy + 0.1, "{signs:?}");
    for model in &report.models {
        let completed = row(model, Attack::ModelCompletion, 5);
        assert!(completed.right.accuracy.mean > report.guessing.accuracy + 0.2, "{completed:?}");
    }
}

/// Labels that have nothing to do with any feature: neither the control nor the parameters tell them, and the gradients tell all.
#[test]
fn labels_at_random_are_told_by_gradients_alone() {
    let plan = LabelsPlan { epochs: vec![1], ..plan(DatasetName::Satellite, 18) };
    let report = Experiment::prepare(&plan).unwrap().with_shuffled_labels(3).run(&|_| ()).unwrap();
    let guessing = report.guessing.balanced_accuracy;
    let near = |found: f64| (found - guessing).abs() < 0.06;
    assert!(near(report.control.balanced_accuracy.mean), "{report:?}");
    for model in &report.models {
        for row in &model.attacks {
            let found = row.right.balanced_accuracy.mean;
            match row.attack {
                Attack::GradientSign => assert_eq!(row.verdict, Verdict::AllLabels),
                Attack::GradientDirection => assert!(found > 0.7, "{row:?}"),
                _ => assert!(near(found), "{row:?}"),
            }
        }
    }
}

/// Two classes under a top model: no label needs to be known.
#[test]
fn two_classes_are_told_apart_without_any_label() {
    let plan =
        LabelsPlan { models: models()[2..].into(), epochs: vec![1], ..plan(DatasetName::Bank, 8) };
    let report = run(&plan);
    let sides = row(&report.models[0], Attack::GradientSides, 1);
    assert!(sides.right.balanced_accuracy.mean > 0.95, "{sides:?}");
    assert_eq!(sides.known_labels, 0);
    let norm = row(&report.models[0], Attack::GradientNorm, 1);
    assert!(norm.right.balanced_accuracy.mean > 0.6, "{norm:?}");
}

/// Privacy of all parties' parameters blurs what is made of the gradients, and not the gradients.
#[test]
fn privacy_of_parameters_does_not_protect_labels() {
    let training = TrainingValues { batch_size: 200, ..plan(DatasetName::Satellite, 18).training };
    let plan = LabelsPlan {
        privacy: Some(PrivacyConfig::new(1.0, 8.0).unwrap()),
        epochs: vec![1],
        training,
        ..plan(DatasetName::Satellite, 18)
    };
    let report = run(&plan);
    for summed in &report.models[..2] {
        assert_eq!(row(summed, Attack::GradientSign, 1).verdict, Verdict::AllLabels);
        assert_eq!(summed.privacy.unwrap().noise, 8.0);
    }
    let direction = row(&report.models[2], Attack::GradientDirection, 1);
    assert!(
        direction.right.accuracy.mean > report.control.accuracy.mean + 0.05,
        "{direction:?} {:?}",
        report.control
    );
    assert!(report.text().contains("differential privacy"));
}

/// The same seed gives the same bytes on any number of threads; what else is measured moves nothing.
#[test]
fn the_same_seed_gives_the_same_figures() {
    let small = LabelsPlan {
        records: 300,
        trainings: 4,
        epochs: vec![2],
        ..plan(DatasetName::Synthetic, 6)
    };
    let done = AtomicUsize::new(0);
    let on = |threads: usize, plan: &LabelsPlan| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let experiment = Experiment::prepare(plan).unwrap();
        let count = |_: Event<'_>| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        pool.install(|| serde_json::to_value(experiment.run(&count).unwrap()).unwrap())
    };
    let first = on(1, &small);
    assert_eq!(done.load(Ordering::Relaxed), 12);
    assert_eq!(on(3, &small).to_string(), first.to_string());
    assert_ne!(on(2, &LabelsPlan { seed: 8, ..small.clone() })["control"], first["control"]);
    let alone = on(2, &LabelsPlan { models: models()[2..].into(), ..small.clone() });
    assert_eq!(alone["models"][0], first["models"][2]);
    // An epoch is the same whether or not the training goes on after it.
    let longer = on(2, &LabelsPlan { epochs: vec![2, 4], models: models()[..1].into(), ..small });
    assert_eq!(longer["models"][0]["attacks"][0], first["models"][0]["attacks"][0]);
}

#[test]
fn what_cannot_be_measured_is_refused_by_its_option() {
    let small = || plan(DatasetName::Synthetic, 6);
    for trainings in [0, 3, 1001] {
        assert!(refusal(&LabelsPlan { trainings, ..small() }).contains("--trainings"));
    }
    assert!(refusal(&LabelsPlan { records: 199, ..small() }).contains("--records"));
    for known in [0, 101] {
        assert!(refusal(&LabelsPlan { known, ..small() }).contains("--known"));
    }
    for epochs in [vec![], vec![0, 5]] {
        assert!(refusal(&LabelsPlan { epochs, ..small() }).contains("--epochs"));
    }
    assert!(refusal(&LabelsPlan { models: Vec::new(), ..small() }).contains("--model"));
    // More labels than the smallest class has records.
    let said = refusal(&LabelsPlan { records: 200, known: 100, ..small() });
    assert!(said.contains("--known") && said.contains("--records"), "{said}");
    let many = LabelsPlan { epochs: vec![100_000], ..small() };
    assert!(refusal(&many).contains("--epochs"), "{}", refusal(&many));
    let wide = LabelsPlan {
        models: vec![perceptron(Combiner::Sum, 4096, None)],
        epochs: vec![2000],
        trainings: 1000,
        ..small()
    };
    assert!(refusal(&wide).contains("--trainings"), "{}", refusal(&wide));
    let max = PrivacyConfig::try_from(vfl_core::model::privacy::PrivacyValues {
        clip: 1.0,
        noise: 1.0,
        delta: 1e-5,
        max_epsilon: Some(0.1),
    });
    assert!(
        refusal(&LabelsPlan { privacy: Some(max.unwrap()), ..small() }).contains("--privacy-noise")
    );
}
