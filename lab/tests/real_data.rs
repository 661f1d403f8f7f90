//! The demo on real data, over the sockets: what the model is worth, and what exact scores give away.
#![allow(missing_docs, clippy::unwrap_used)]

use tokio::runtime::Handle;
use vfl_auditor::report::{Audit, Outcome, Report, Thresholds, render_table};
use vfl_coordinator::training::check_residuals;
use vfl_core::data::CsvDialect;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{
    Combiner, ModelConfig, TrainingConfig, TrainingMode, TrainingValues, cross_entropy,
    train_converged,
};
use vfl_core::types::Logits;
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, Variant, load};
use vfl_defense::Policy;
use vfl_demo::scale::ScalePlan;
use vfl_demo::{DemoPlan, Sharing, default_policies, every_policy, run, scale, share};
use vfl_numerics::Lbfgs;
use vfl_present::result_cache::{Shard, StoreUrl};
use vfl_studies::{DataSpec, TableSpec};
use vfl_testing as testing;
use vfl_testing::data_set;
use vfl_transform::TransformConfig;

async fn demo(name: DatasetName, variant: Variant) -> Report {
    let mut data = DatasetSpec::new(name, None, 7);
    data.variant = variant;
    run(&DemoPlan { data: data.into(), ..plan(name, 500) }).await.unwrap()
}

fn plan(name: DatasetName, records: usize) -> DemoPlan {
    let data = DatasetSpec::new(name, None, 7);
    let training = TrainingConfig::try_from(TrainingValues {
        epochs: 60,
        learning_rate: 0.05,
        patience: 10,
        seed: 7,
        ..Default::default()
    });
    DemoPlan {
        transform: TransformConfig::None {},
        training_transform: TransformConfig::None {},
        show_network: false,
        data: data.into(),
        first_column: 0,
        passive_features: None,
        passive_parties: 1,
        training: training.unwrap(),
        imported: None,
        outputs: None,
        privacy: None,
        private_trainings: Vec::new(),
        known_records: 0,
        schema: true,
        records,
        metrics: None,
        thresholds: Thresholds::default(),
        policies: default_policies(),
        sweep: false,
        seed: 7,
    }
}

/// A passive party of a demonstration scores as often as an audit of every defense needs.
#[tokio::test(flavor = "multi_thread")]
async fn every_defense_at_once() {
    let policies = every_policy(5);
    let plan = DemoPlan {
        policies: policies.clone(),
        known_records: 100,
        ..plan(DatasetName::Synthetic, 100)
    };
    let report = run(&plan).await.unwrap();
    let informed = report.audits.iter().filter(|a| a.threat_model.known_records > 0).count();
    assert_eq!(informed, policies.len());
}

/// Every policy a piece, and the sweep, and a training with privacy: three processes without a common folder share them out, and the report
/// that is put together has the bytes of that of one process, but for the training with privacy, whose noise is not of the seed.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_several_processes_make_the_report_of_one() {
    let base = plan(DatasetName::Synthetic, 250);
    let training = TrainingValues {
        epochs: 2,
        batch_size: 512,
        learning_rate: 0.05,
        seed: 7,
        ..Default::default()
    };
    let private =
        (PrivacyConfig::new(1.0, 2.0).unwrap(), TrainingConfig::try_from(training).unwrap());
    let thresholds = Thresholds { max_added_risk: Some(0.1), ..Default::default() };
    let policies = every_policy(5);
    let plan = DemoPlan {
        policies: policies.clone(),
        known_records: 100,
        private_trainings: vec![private],
        sweep: true,
        thresholds,
        ..base
    };
    let mut whole = run(&plan).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let store = || Some(StoreUrl::Folder(folder.path().join("store")));
    let share = |plan: &DemoPlan, out: &str, shard| {
        let sharing = Sharing { out: folder.path().join(out), store: store(), shard };
        tokio::task::block_in_place(|| share(plan, &sharing, &Handle::current()))
    };
    let pieces = policies.len() + 3;
    let mut computed = 0;
    for part in 1..=3 {
        let came = share(&plan, &part.to_string(), Some(Shard { part, of: 3 })).unwrap();
        assert!(
            came.report.is_none() && came.kept == 0 && came.computed + came.elsewhere == pieces,
            "{came:?}"
        );
        computed += came.computed;
    }
    assert_eq!(computed, pieces);
    // What is cut, or another piece, is computed again, and nothing else.
    let files =
        std::fs::read_dir(folder.path().join("1/pieces")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files
        .filter(|file| std::fs::read_to_string(file).unwrap().contains("\"audits\":[{"))
        .collect();
    let [cut, other, ..] = files.as_slice() else { panic!("{files:?}") };
    let [of_cut, of_other] = [cut, other].map(|file| std::fs::read(file).unwrap());
    std::fs::write(cut, &of_cut[..of_cut.len() / 2]).unwrap();
    std::fs::write(other, &of_cut).unwrap();
    for file in [cut, other] {
        std::fs::remove_file(folder.path().join("store/pieces").join(file.file_name().unwrap()))
            .unwrap();
    }
    let again = share(&plan, "1", Some(Shard { part: 1, of: 3 })).unwrap();
    assert_eq!(again.computed, 2, "{again:?}");
    assert!(
        [cut, other].map(|file| std::fs::read(file).unwrap()) == [of_cut, of_other],
        "a piece is another"
    );

    let merged = share(&plan, "merged", None).unwrap();
    assert_eq!((merged.computed, merged.fetched), (0, pieces));
    let mut merged = merged.report.unwrap();
    let [of_whole, of_merged] =
        [&mut whole, &mut merged].map(|report| std::mem::take(&mut report.private_trainings));
    assert_eq!(of_whole[0].privacy, of_merged[0].privacy);
    assert_eq!((of_whole.len(), of_merged.len()), (1, 1));
    assert!(merged.to_json().unwrap() == whole.to_json().unwrap(), "the report is another");

    // Pieces of two models are no report.
    let file = folder.path().join("merged/pieces").join(cut.file_name().unwrap());
    let mut piece: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    piece["model"] = "another".into();
    std::fs::write(&file, piece.to_string()).unwrap();
    let refused = share(&plan, "merged", None).unwrap_err().to_string();
    assert!(refused.contains("different models") && refused.contains("pieces/"), "{refused}");

    // What is found behind a policy serves every plan that has it.
    let fewer = DemoPlan {
        policies: policies[..2].to_vec(),
        thresholds: Thresholds::default(),
        ..plan.clone()
    };
    let came = share(&fewer, "fewer", None).unwrap();
    assert_eq!((came.computed, came.fetched), (1, 4), "{came:?}");
    let policy = |text: &str| text.parse::<Policy>().unwrap();
    let transform = |text: &str| text.parse::<TransformConfig>().unwrap();
    for (refused, says) in [
        (
            DemoPlan { policies: [&policies[..2], &policies[1..2]].concat(), ..plan.clone() },
            "named twice",
        ),
        (
            DemoPlan {
                policies: vec![policy("none"), policy("none, fresh noise")],
                ..plan.clone()
            },
            "have no defense",
        ),
        (
            DemoPlan { privacy: Some(PrivacyConfig::new(1.0, 2.0).unwrap()), ..plan.clone() },
            "--privacy-noise",
        ),
        (DemoPlan { transform: transform("permute"), ..plan.clone() }, "--transform"),
        (
            DemoPlan {
                private_trainings: [&plan.private_trainings[..], &plan.private_trainings].concat(),
                ..plan
            },
            "twice",
        ),
    ] {
        let error = share(&refused, "refused", None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(!folder.path().join("refused").exists());
}

/// Models trained with noise are deployed, trained and audited beside the first: what their parties state, and the error of what is exact
/// without a defense, which noise in the training does not change.
#[tokio::test(flavor = "multi_thread")]
async fn trainings_with_noise_are_rows_of_the_audit() {
    let base = plan(DatasetName::Satellite, 200);
    let values = TrainingValues {
        epochs: 5,
        batch_size: 512,
        learning_rate: 0.05,
        seed: 7,
        ..Default::default()
    };
    let training = TrainingConfig::try_from(values).unwrap();
    let noises =
        [1.0, 8.0].map(|noise| (PrivacyConfig::new(1.0, noise).unwrap(), training.clone()));
    let report = run(&DemoPlan { private_trainings: noises.into(), known_records: 200, ..base })
        .await
        .unwrap();
    let [loud, louder] = report.private_trainings.as_slice() else {
        panic!("{:?}", report.private_trainings.len())
    };
    assert_eq!((loud.privacy.noise, louder.privacy.noise), (1.0, 8.0));
    assert!(
        loud.privacy.epsilon > 3.0 * louder.privacy.epsilon,
        "{:?} {:?}",
        loud.privacy,
        louder.privacy
    );
    for training in [loud, louder] {
        assert!(training.test_accuracy > 0.6, "{}", training.test_accuracy);
        // Five features and six classes: exact, since the noise is in the parameters, and the adversary has these.
        assert!(error(&training.audits[0], "least_squares") < 1e-9);
        assert!(training.audits.iter().any(|audit| audit.threat_model.known_records == 200));
    }
    assert!(
        report.command.contains("--private-trainings 1,8 --privacy-clip 1"),
        "{}",
        report.command
    );
}

fn error(audit: &Audit, attack: &str) -> f64 {
    let found = audit.attacks.iter().find(|a| a.name == attack).unwrap();
    match &found.outcome {
        Outcome::Ran { errors, .. } => errors.mse,
        Outcome::NotScored { reason, .. } | Outcome::NotRun { reason, .. } => {
            panic!("{attack} has no error: {reason}")
        }
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
    let report = demo(DatasetName::Satellite, Variant::All).await;
    assert!(
        report.deployment.test_accuracy.unwrap() >= 0.81,
        "{:?}",
        report.deployment.test_accuracy
    );
    exact_without_a_defense_alone(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn robot() {
    let report = demo(DatasetName::Robot, Variant::All).await;
    assert!(
        report.deployment.test_accuracy.unwrap() >= 0.66,
        "{:?}",
        report.deployment.test_accuracy
    );
    exact_without_a_defense_alone(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn bank() {
    let report = demo(DatasetName::Bank, Variant::WithoutDuration).await;
    assert!(
        report.deployment.test_accuracy.unwrap() >= 0.895,
        "{:?}",
        report.deployment.test_accuracy
    );
    exact_without_a_defense_alone(&report);
    let report = demo(DatasetName::Bank, Variant::Authors).await;
    assert!(
        report.deployment.test_accuracy.unwrap() >= 0.905,
        "{:?}",
        report.deployment.test_accuracy
    );
    // The document says which columns these were, and the command takes them again.
    assert_eq!((report.data.variant.as_deref(), report.data.columns), (Some("authors"), Some(19)));
    assert_eq!(report.generated.config["variant"], "authors");
    assert!(
        report.command.contains("--dataset bank") && report.command.contains("--variant authors"),
        "{}",
        report.command
    );
    assert!(
        render_table(&report, 120, false)
            .contains("bank, variant authors: 41188 records, 19 columns, 19 features")
    );
}

/// Same seed, same bytes: model, attacks, report.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_gives_the_same_report() {
    let one = demo(DatasetName::Synthetic, Variant::All).await;
    let two = demo(DatasetName::Synthetic, Variant::All).await;
    assert_eq!(one.to_json().unwrap(), two.to_json().unwrap());
}

/// The coordinator stops a training whose residuals are gone for most records of a batch. An honest training of softmax regression
/// on the data sets here never is, even at full convergence with next to no penalty.
#[test]
fn converged_models_keep_their_residuals() {
    // Softmax regression: on images it has as many weights as records here.
    let sets = DatasetName::ALL
        .iter()
        .filter(|name| **name != DatasetName::Synthetic && name.image().is_none());
    for &name in sets {
        let Some(spec) = data_set(name, 7, "converged_models_keep_their_residuals") else {
            continue;
        };
        let dataset = data::load(&spec).unwrap();
        let train: Vec<usize> = dataset.split().train.iter().copied().take(2000).collect();
        let x = dataset.x().select_columns(&train);
        let labels: Vec<u32> = train.iter().map(|&p| dataset.labels()[p]).collect();
        let method = Lbfgs { max_iterations: 300, ..Lbfgs::default() };
        let fit = train_converged(dataset.class_names().len(), &x, &labels, 1e-6, method).unwrap();
        let mut logits = &fit.weights * &x;
        logits.column_iter_mut().for_each(|mut z| z += &fit.bias);
        let (_, gradient, _) = cross_entropy(Logits::new(logits).unwrap(), &labels);
        let (mut fewest, mut median) = (f64::INFINITY, f64::INFINITY);
        for from in (0..train.len() - 64).step_by(64) {
            let batch = gradient.columns(from, 64) * (train.len() as f64 / 64.0);
            check_residuals(&batch).unwrap_or_else(|e| panic!("{name:?}: {e}"));
            let mut residuals: Vec<f64> = batch.column_iter().map(|g| g.amax() * 64.0).collect();
            residuals.sort_by(f64::total_cmp);
            let (sum, squares) =
                (residuals.iter().sum::<f64>(), residuals.iter().map(|r| r * r).sum::<f64>());
            (fewest, median) = (fewest.min(sum * sum / squares), median.min(residuals[31]));
        }
        println!(
            "{name:?}: of 64 records effectively at least {fewest:.2}, median residual at least {median:.1e}"
        );
        // What the limits of the check were set by, with room.
        assert!(fewest > 4.0 && median > 1e-4, "{name:?}: {fewest} {median}");
    }
}

/// P's perceptrons over sockets, each with half of the image, under a top model (P table 4: 97.64 %). `cloison scale` has them in full.
#[tokio::test(flavor = "multi_thread")]
async fn halves_of_digits_are_told_apart() {
    let Some(dir) = testing::data_dir().filter(|dir| dir.join("mnist").is_dir()) else {
        testing::not_run("halves_of_digits_are_told_apart", "mnist is not here");
        return;
    };
    let dataset = load(&DatasetSpec::new(DatasetName::Mnist, Some(dir), 7)).unwrap();
    let hidden = serde_json::json!({ "hidden": [128], "activation": "relu" });
    let model =
        ModelConfig::new(Combiner::Concat, "mlp", Some(64), hidden.as_object().unwrap().clone())
            .unwrap();
    let values = TrainingValues {
        epochs: 7,
        batch_size: 256,
        learning_rate: 1e-3,
        l2: 1e-4,
        model,
        ..TrainingValues::default()
    };
    let training = TrainingConfig::try_from(values).unwrap();
    let plan = ScalePlan {
        parties: vec![2],
        training,
        image_parts: None,
        records: None,
        predictions: 20,
        seed: 7,
    };
    let rows = scale::run(&dataset, &plan, |_, _| ()).await.unwrap();
    println!("mnist, two parties: {rows:?}");
    assert!(rows[0].test_accuracy >= 0.97, "{}", rows[0].test_accuracy);
    assert_eq!((rows[0].most_features, rows[0].prediction_bytes), (392, 1024));
}

/// Perceptrons with two hidden layers of 8 (J table 1: satellite 0.8275, robot 0.8946), and what is audited of them: attacks that need
/// parameters say that they have none.
#[tokio::test(flavor = "multi_thread")]
async fn perceptrons_are_as_accurate_as_the_papers() {
    for (name, paper) in [(DatasetName::Satellite, 0.8275), (DatasetName::Robot, 0.8946)] {
        let mut plan = DemoPlan { known_records: 200, ..plan(name, 500) };
        let hidden = serde_json::json!({ "hidden": [8, 8] });
        let model =
            ModelConfig::new(Combiner::Sum, "mlp", None, hidden.as_object().unwrap().clone())
                .unwrap();
        let values = TrainingValues {
            epochs: 150,
            learning_rate: 0.01,
            model,
            ..plan.training.values().clone()
        };
        plan.training = TrainingConfig::try_from(values).unwrap();
        let report = run(&plan).await.unwrap();
        let accuracy = report.deployment.test_accuracy.unwrap();
        println!("{}: {accuracy} (J {paper})", report.data.name);
        assert!(accuracy >= paper - 0.03, "{}: {accuracy}", report.data.name);
        let none = report.audits.iter().find(|a| a.policy.is_none()).unwrap();
        let half_star = none.attacks.iter().find(|a| a.name == "half_star").unwrap();
        assert!(matches!(half_star.outcome, Outcome::NotRun { .. }));
        let informed = report
            .audits
            .iter()
            .find(|a| a.policy.is_none() && a.threat_model.known_records > 0)
            .unwrap();
        let (attack, errors, risk) = informed.added_risk().unwrap();
        println!("{attack}: {}, control {}, added {risk:?}", errors.mse, risk.control_mse);
        // What 200 records teach of the scores, without a parameter.
        assert!(risk.low.unwrap() > 0.2, "{attack}: {risk:?}");
        assert!(report.notes.iter().any(|note| note.contains("`mlp`")), "{:?}", report.notes);
    }
}

/// The tables that a set is divided into, read back, give the audit of the set to the last digit.
#[tokio::test(flavor = "multi_thread")]
async fn tables_read_back_give_the_same_audit() {
    let dir = tempfile::tempdir().unwrap();
    let named = DatasetSpec::new(DatasetName::Satellite, None, 7);
    let set = load(&named).unwrap();
    let split = vfl_datasets::vertical_split(&set, 0, Some(12), 2).unwrap();
    let files = vfl_datasets::partition::partition(&set, &split, dir.path(), 7).unwrap();
    let tables = TableSpec {
        files: std::iter::once(&files.active)
            .chain(files.passive.iter().map(|(_, of)| of))
            .map(|of| of.csv.clone())
            .collect(),
        dialect: CsvDialect::default(),
        id: None,
        number_label: false,
        numbers: true,
        label: None,
        passive: Vec::new(),
        left_out: Vec::new(),
        test_ids: Some(files.test),
        seed: 7,
    };
    let mut base = DemoPlan { known_records: 200, ..plan(DatasetName::Satellite, 300) };
    let mut values = base.training.values().clone();
    (values.mode, values.epochs) = (TrainingMode::Plain, 10);
    base.training = values.try_into().unwrap();
    let of_set = DemoPlan { passive_features: Some(12), passive_parties: 2, ..base.clone() };
    let of_tables = DemoPlan { data: DataSpec::Tables(tables), passive_parties: 2, ..base };
    let (one, other) = (run(&of_set).await.unwrap(), run(&of_tables).await.unwrap());
    assert_eq!(one.audits, other.audits);
    assert_eq!(one.surfaces, other.surfaces);
    assert!(other.command.contains("--table") && other.command.contains("--test-ids"));
}
