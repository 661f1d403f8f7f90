//! A one-vs-rest model, imported: its scores are σ(z) divided by their sum, plainly; on shares its order alone is released; and
//! what takes it for a softmax is refused or found not to apply.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::Outcome;
use vfl_core::model::{Combiner, Link, ModelConfig, Settings, TrainingConfig, TrainingValues};
use vfl_core::types::{PartyName, RecordIds, ReleasedScores};
use vfl_party::computation::release::ServingMode;
use vfl_passive_party::config::ServingPolicy;
use vfl_protocol::read_scores;
use vfl_testbed::deployment::{Deployment, WholeModel, WholeParameters};

use super::audits::errors;
use super::support::{Trained, dataset, score, spec, split, test_ids};

/// Two passive parties of two features each, behind a policy, and the weights and bias of the model in service.
async fn served(policy: &str, mode: ServingMode) -> (Trained, DMatrix<f64>, DVector<f64>) {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 2, 2);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut weight = || 4.0 * rng.random::<f64>() - 2.0;
    let (k, d) = (dataset.class_names().len(), dataset.features().len());
    let weights = DMatrix::from_fn(k, d, |_, _| weight());
    let bias = DVector::from_fn(k, |_, _| weight());
    let whole = WholeModel {
        parameters: WholeParameters::Linear {
            link: Link::OneVsRest,
            weights: weights.clone(),
            bias: bias.clone(),
        },
        class_names: dataset.class_names().to_vec(),
        summary: None,
        training_ids: RecordIds::default(),
    };
    whole.publish(dir.path(), &dataset, &split).unwrap();
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.defenses = policy.parse::<vfl_defense::Policy>().unwrap().defenses;
    spec.serving = ServingPolicy {
        mode,
        computing_party: Some(PartyName::new("passive-1").unwrap()),
        policies: None,
    };
    let deployment = Deployment::start(spec).await.unwrap();
    let version = String::new();
    (Trained { dir, dataset, split, deployment, version }, weights, bias)
}

/// The scores of the first test records by their definition, without the project's own code.
fn closed_form(
    here: &Trained,
    weights: &DMatrix<f64>,
    bias: &DVector<f64>,
    n: usize,
) -> DMatrix<f64> {
    let mut z = weights * here.dataset.x().select_columns(&here.dataset.split().test[..n]);
    z.column_iter_mut().for_each(|mut z| z += bias);
    let mut scores = z.map(|z| 1.0 / (1.0 + (-z).exp()));
    scores.column_iter_mut().for_each(|mut c| c /= c.sum());
    scores
}

async fn released(here: &Trained, n: usize) -> Result<ReleasedScores, tonic::Status> {
    let answer = score(&here.deployment, &test_ids(&here.dataset, 0, n)).await?;
    let classes = answer.class_names.len();
    let read = read_scores(&answer.row_status, answer.release.as_ref(), n, classes);
    Ok(read.unwrap().1)
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_sigmoids_divided_by_their_sum() {
    let (here, weights, bias) = served("none", ServingMode::Plain).await;
    let want = closed_form(&here, &weights, &bias, 200);
    let ReleasedScores::Probabilities(found) = released(&here, 200).await.unwrap() else {
        panic!("no scores")
    };
    assert!((found - &want).amax() < 1e-14);
    here.deployment.stop().await.unwrap();
}

/// The order of the outputs is that of the scores, so that it is computed on shares; scores are not, since the sum of the outputs
/// tells more than they do.
#[tokio::test(flavor = "multi_thread")]
async fn on_shares_the_order_alone_is_released() {
    let (here, weights, bias) = served("class_label", ServingMode::Private).await;
    let want = closed_form(&here, &weights, &bias, 100);
    let ReleasedScores::Labels { labels, .. } = released(&here, 100).await.unwrap() else {
        panic!("no labels")
    };
    for (label, scores) in labels.iter().zip(want.column_iter()) {
        assert_eq!(*label as usize, scores.argmax().0);
    }
    here.deployment.stop().await.unwrap();
    for policy in ["none", "rounding (decimals = 2)"] {
        let (here, ..) = served(policy, ServingMode::Private).await;
        let refused = released(&here, 5).await.unwrap_err();
        assert!(refused.message().contains("one-vs-rest"), "{policy}: {refused}");
        here.deployment.stop().await.unwrap();
    }
}

/// The audit of exact scores takes the model for what it is: a descent reaches the scores, those that know moments go along tangents,
/// and equations of softmax do not apply.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_knows_the_link() {
    let (here, ..) = served("none", ServingMode::Plain).await;
    let policies = ["none", "class_label"].map(|p| p.parse().unwrap()).into();
    let attacks = [Method::GradientInversion, Method::Lattice, Method::HalfStar];
    let attacks = attacks.into_iter().map(Into::into).collect();
    let plan = Plan {
        aware: true,
        schema: true,
        ..Plan::of(test_ids(&here.dataset, 0, 120), policies, attacks, 11)
    };
    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let exact = &findings.audits[0];
    let outcome =
        |method: Method| &exact.attacks.iter().find(|a| a.name == method.as_str()).unwrap().outcome;
    assert!(
        matches!(outcome(Method::HalfStar), Outcome::NotRun { .. }),
        "{:?}",
        outcome(Method::HalfStar)
    );
    let (descent, half) = (errors(exact, Method::GradientInversion), &exact.baselines.half);
    assert!(descent.mse < 0.5 * half.mse, "{:e} {:e}", descent.mse, half.mse);
    here.deployment.stop().await.unwrap();
}

#[test]
fn it_is_imported_and_not_trained() {
    let model = ModelConfig::new(Combiner::Sum, "one_vs_rest", None, Settings::new()).unwrap();
    let values = TrainingValues { model, ..Default::default() };
    let refused = TrainingConfig::try_from(values).unwrap_err().to_string();
    assert!(refused.contains("are imported"), "{refused}");
}
