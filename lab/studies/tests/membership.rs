//! Membership inference: what overfitting gives away, what regularisation and defenses keep, and what is refused.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, ModelConfig, Settings, TrainingConfig, TrainingValues};
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_defense::Policy;
use vfl_studies::membership::{
    Experiment, MembershipPlan, MembershipReport, PolicyRow, Verdict, default_policies,
};
use vfl_studies::{Report, Study, SubjectSpec};

fn plan(
    name: DatasetName,
    records: usize,
    models: usize,
    training: TrainingValues,
) -> MembershipPlan {
    MembershipPlan {
        subject: SubjectSpec {
            data: DatasetSpec::new(name, None, 7).into(),
            first_column: 0,
            passive_features: None,
            passive_parties: 1,
        },
        training: TrainingConfig::try_from(TrainingValues { validation_share: 0.0, ..training })
            .unwrap(),
        privacy: None,
        records,
        models,
        policies: default_policies(),
        seed: 7,
    }
}

fn perceptron(hidden: u32) -> ModelConfig {
    let settings = serde_json::json!({ "hidden": [hidden], "activation": "relu" });
    let settings: Settings = settings.as_object().unwrap().clone();
    ModelConfig::new(Combiner::Sum, "mlp", None, settings).unwrap()
}

fn run(plan: &MembershipPlan) -> MembershipReport {
    Experiment::prepare(plan).unwrap().run(&|_| ()).unwrap()
}

fn row<'a>(report: &'a MembershipReport, policy: &str) -> &'a PolicyRow {
    report.policies.iter().find(|row| row.policy == policy).unwrap()
}

fn refusal(plan: &MembershipPlan) -> String {
    format!("{:#}", Experiment::prepare(plan).err().unwrap())
}

/// 200 training records, 64 hidden units at each party, no penalty, a thousand epochs: the model knows its records by heart.
fn overfitted() -> &'static MembershipReport {
    static REPORT: OnceLock<MembershipReport> = OnceLock::new();
    REPORT.get_or_init(|| {
        let training = TrainingValues {
            epochs: 1000,
            batch_size: 64,
            learning_rate: 0.02,
            l2: 0.0,
            model: perceptron(64),
            ..TrainingValues::default()
        };
        run(&plan(DatasetName::Satellite, 400, 24, training))
    })
}

#[test]
fn an_overfitted_model_is_caught() {
    let report = overfitted();
    let none = &report.policies[0];
    assert_eq!(none.policy, "none");
    assert!(none.accuracy_on_members.mean > 0.97, "{none:?}");
    assert!(report.accuracy_gap.mean > 0.1, "{report:?}");
    let ratio = &none.likelihood_ratio;
    assert!(ratio.tpr_at_1_percent.mean >= 0.05 && ratio.times_guessing > 3.0, "{none:?}");
    assert!(ratio.auc.mean > 0.62, "{none:?}");
    assert_ne!(ratio.verdict, Verdict::LikeGuessing);
    // Distributions of each record's own are what makes the difference (figure 1 of the paper).
    assert!(none.threshold.tpr_at_1_percent.mean < 0.5 * ratio.tpr_at_1_percent.mean, "{none:?}");
    assert!(none.threshold.auc.mean < ratio.auc.mean, "{none:?}");
    // 200 records cannot tell one in a thousand.
    assert_eq!(ratio.tpr_at_0_1_percent, None);
    assert!(report.text().contains("--records 2000"));
}

#[test]
fn defenses_weaken_the_attack_and_labels_do_not_end_it() {
    let report = overfitted();
    let none = row(report, "none");
    for policy in ["class_label", "gaussian_noise (sigma = 0.1)"] {
        let defended = row(report, policy);
        let (of, without) = (&defended.likelihood_ratio, &none.likelihood_ratio);
        assert!(of.auc.mean < without.auc.mean - 0.01, "{policy}: {of:?} {without:?}");
        // Records that are known by heart alone are told by their labels too.
        assert_ne!(of.verdict, Verdict::LikeGuessing, "{policy}: {of:?}");
    }
    // One threshold on labels says: members are those that are classified rightly.
    let labels = row(report, "class_label");
    let gap = labels.accuracy_on_members.mean - labels.accuracy_on_others.mean;
    assert!((labels.threshold.auc.mean - (0.5 + 0.5 * gap)).abs() < 1e-9, "{labels:?}");
    assert!(
        (labels.threshold.balanced_accuracy.mean - (0.5 + 0.5 * gap)).abs() < 1e-9,
        "{labels:?}"
    );
    assert!((gap - report.accuracy_gap.mean).abs() < 1e-12);
}

#[test]
fn a_regularised_model_of_many_records_is_not_caught() {
    let training = TrainingValues { epochs: 30, l2: 1e-2, ..TrainingValues::default() };
    let report = run(&plan(DatasetName::Satellite, 2000, 16, training));
    assert!(report.accuracy_gap.mean.abs() < 0.02, "{report:?}");
    for row in &report.policies {
        for attack in [&row.likelihood_ratio, &row.threshold] {
            assert!(attack.tpr_at_1_percent.mean < 0.02, "{row:?}");
            assert!((attack.auc.mean - 0.5).abs() < 0.05, "{row:?}");
            assert_ne!(attack.verdict, Verdict::Caught, "{row:?}");
            // One of a thousand others is one record here.
            assert!(attack.tpr_at_0_1_percent.is_some_and(|tpr| tpr.mean < 0.006), "{row:?}");
        }
    }
}

fn small() -> MembershipPlan {
    let training = TrainingValues { epochs: 5, model: perceptron(4), ..TrainingValues::default() };
    plan(DatasetName::Synthetic, 300, 8, training)
}

/// The same seed gives the same bytes on any number of threads; another seed gives others. What else is measured moves nothing.
#[test]
fn the_same_seed_gives_the_same_figures() {
    let on = |threads: usize, plan: &MembershipPlan| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| serde_json::to_value(run(plan)).unwrap())
    };
    let first = on(1, &small());
    assert_eq!(on(3, &small()).to_string(), first.to_string());
    let other = on(2, &MembershipPlan { seed: 8, ..small() });
    assert_ne!(other["policies"], first["policies"]);
    let noise: Policy = "gaussian_noise (sigma = 0.1)".parse().unwrap();
    let alone = on(2, &MembershipPlan { policies: vec![noise], ..small() });
    let names: Vec<&str> = alone["policies"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["policy"].as_str())
        .collect();
    assert_eq!(names, ["none", "gaussian_noise (sigma = 0.1)"]);
    assert_eq!(
        (&alone["policies"][0], &alone["policies"][1]),
        (&first["policies"][0], &first["policies"][3])
    );
}

/// Every kind of release, defenses that are fitted and those that take weights, several passive parties, early stopping, and each model
/// told when it is done.
#[test]
fn every_kind_of_release_is_attacked() {
    let texts = [
        "order_preserving_encryption",
        "codebook (size = 8)",
        "logit_noise (alpha = 1.0, scheme = 1)",
        "temperature (temperature = 2.0) then rounding (decimals = 1)",
    ];
    let training = TrainingValues { epochs: 5, ..TrainingValues::default() };
    let mut plan = plan(DatasetName::Synthetic, 300, 8, training);
    plan.policies = texts.map(|text| text.parse::<Policy>().unwrap()).into();
    (plan.subject.passive_features, plan.subject.passive_parties) = (Some(6), 3);
    let values = plan.training.values().clone();
    plan.training =
        TrainingConfig::try_from(TrainingValues { validation_share: 0.1, ..values }).unwrap();
    let done = AtomicUsize::new(0);
    let experiment = Experiment::prepare(&plan).unwrap();
    let report = experiment.run(&|_| {
        done.fetch_add(1, Ordering::Relaxed);
    });
    let report = report.unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 8);
    assert_eq!(
        (report.subject.active_features, report.subject.passive_features, report.passive_parties),
        (10, 6, 3)
    );
    assert_eq!((report.policies.len(), report.privacy), (5, None));
    for row in &report.policies {
        for attack in [&row.likelihood_ratio, &row.threshold] {
            assert!((0.2..=0.8).contains(&attack.auc.mean), "{row:?}");
        }
    }
    assert!(report.text().contains("early stopping on 10 %"));
}

/// Parties that train with privacy say so.
#[test]
fn privacy_is_stated() {
    let training = TrainingValues { epochs: 3, batch_size: 128, ..TrainingValues::default() };
    let privacy = PrivacyConfig::new(1.0, 4.0).unwrap();
    let plan =
        MembershipPlan { privacy: Some(privacy), ..plan(DatasetName::Synthetic, 300, 8, training) };
    let report = run(&plan);
    let said = report.privacy.unwrap();
    assert_eq!((said.noise, said.clip, said.steps), (4.0, 1.0, 3));
    assert!(report.text().contains("differential privacy"));
}

#[test]
fn what_cannot_be_measured_is_refused_by_its_option() {
    for models in [0, 6, 7, 9, 63, 1026] {
        assert!(refusal(&MembershipPlan { models, ..small() }).contains("--models"), "{models}");
    }
    for records in [0, 199] {
        assert!(refusal(&MembershipPlan { records, ..small() }).contains("--records"), "{records}");
    }
    let of =
        |text: &str| refusal(&MembershipPlan { policies: vec![text.parse().unwrap()], ..small() });
    // Each of these needs what a run of this size or model does not have.
    assert!(of("ranking").contains("--records"), "{}", of("ranking"));
    assert!(of("logit_noise (alpha = 1.0, scheme = 2)").contains("linear"));
    assert!(of("top_k (k = 5)").contains("--policy"));
    assert!(of("class_label, unbound shares").contains("unbound shares"));
    let many =
        TrainingValues { epochs: 100_000, model: perceptron(1000), ..TrainingValues::default() };
    let said = refusal(&plan(DatasetName::Synthetic, 4000, 1024, many));
    assert!(said.contains("--models") && said.contains("--epochs"), "{said}");
    let texts: Vec<Policy> =
        (0..=8).map(|k| format!("temperature (temperature = {k}.5)").parse().unwrap()).collect();
    let said = refusal(&MembershipPlan { policies: texts, models: 1024, records: 4000, ..small() });
    assert!(said.contains("--policy"), "{said}");
}
