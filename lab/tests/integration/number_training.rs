//! Models of a number that the parties train on secret shares, over sockets: their weights are those that solvers of another kind
//! find with all data in one place.

use nalgebra::{DMatrix, DVector};
use tonic::Code;
use vfl_attack::{AttackConfig, Method};
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::Outcome;
use vfl_core::model::{
    Combiner, Link, ModelConfig, TrainingConfig, TrainingConfigError, TrainingMode, TrainingValues,
};
use vfl_defense::{DefenseConfig, NumberPipeline};
use vfl_party::computation::release::ServingMode;
use vfl_protocol::RefusalKind;
use vfl_state::ShareStore;

use super::numbers::{Here, OWN, PASSIVE, RECORDS};
use super::support::config;

/// The records to train on; the others are served.
const TRAINED: usize = 130;

fn values(link: &str) -> TrainingValues {
    let settings = serde_json::json!({ "link": link }).as_object().unwrap().clone();
    let model = ModelConfig::new(Combiner::Sum, "generalized_linear", None, settings).unwrap();
    TrainingValues {
        mode: TrainingMode::Private,
        epochs: 200,
        l2: 0.0,
        validation_share: 0.0,
        model,
        ..Default::default()
    }
}

fn training(link: &str) -> TrainingConfig {
    TrainingConfig::try_from(values(link)).unwrap()
}

/// A number between 0 and 1 that looks drawn.
fn draw(record: usize) -> f64 {
    let mixed = (record as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / u64::MAX as f64
}

/// The weights of all features, and the bias last, by Newton's method on all data: of link identity one step of least squares.
fn fitted(link: Link, x: &DMatrix<f64>, labels: &[f64]) -> DVector<f64> {
    let x = x.columns(0, TRAINED).into_owned().insert_row(OWN + PASSIVE, 1.0);
    let labels = DVector::from_column_slice(&labels[..TRAINED]);
    let mut weights = DVector::zeros(OWN + PASSIVE + 1);
    if link == Link::Log {
        weights[OWN + PASSIVE] = labels.mean().ln();
    }
    for _ in 0..30 {
        let means = (x.transpose() * &weights).map(|eta| link.number(eta));
        let slopes = if link == Link::Log { means.clone() } else { means.map(|_| 1.0) };
        let hessian = &x * DMatrix::from_diagonal(&slopes) * x.transpose();
        weights += hessian.cholesky().unwrap().solve(&(&x * (&labels - means)));
    }
    weights
}

#[tokio::test(flavor = "multi_thread")]
async fn the_weights_are_those_of_least_squares_and_of_maximum_likelihood() {
    for (link, unit) in [(Link::Identity, 250.0), (Link::Log, 1.0)] {
        let label = move |x: &DMatrix<f64>, record: usize| {
            let predictor = 0.3 + 0.9 * x[(0, record)] - 0.4 * x[(1, record)]
                + 1.1 * x[(2, record)]
                - 0.6 * x[(3, record)];
            match link {
                // Far from 0, and in hundreds.
                Link::Identity => 500.0 + unit * (predictor + 0.3 * (draw(record) - 0.5)),
                _ => (2.0 * predictor.exp() + 3.0 * (draw(record) - 0.5)).round().max(0.0),
            }
        };
        let numbers = |x: &DMatrix<f64>| (0..RECORDS).map(|at| label(x, at)).collect::<Vec<_>>();
        let here = Here::labelled((Vec::new(), ServingMode::Plain), |x| Some(numbers(x))).await;
        let labels = numbers(&here.x);
        let expected = fitted(link, &here.x, &labels);
        let ids = here.ids.slice(0, TRAINED);
        let published =
            here.deployment.train(&training(link.as_str()), &ids, |_| ()).await.unwrap();
        let scale = published.config.as_ref().unwrap().values().label_scale;
        assert_eq!(scale.is_some(), link == Link::Identity);
        let share = |party: &str| {
            let store = ShareStore::open(&here.deployment.party_dir(party)).unwrap();
            let share = store.load(&published.version).unwrap();
            assert_eq!(share.model().spec().link().unwrap(), link);
            share.linear().unwrap().clone()
        };
        let (own, passive) = (share("active"), share("passive-1"));
        let bias = own.bias().unwrap()[0];
        let found = own.weights().iter().chain(passive.weights()).copied().chain([bias]);
        let found = DVector::from_iterator(OWN + PASSIVE + 1, found);
        let away = (&found - &expected).amax() / unit;
        assert!(away < 6e-3, "{link}: {away:e}\n{found}{expected}");
        assert!(passive.weights().amax() > 0.4 * unit, "the model has learned: {passive:?}");
        // What is served is of these weights.
        let rest = here.ids.slice(TRAINED, RECORDS);
        let served = here.served(&rest).await;
        for (at, served) in served.iter().enumerate() {
            let x = here.x.column(TRAINED + at);
            let predictor: f64 = x.iter().zip(&found).map(|(x, w)| x * w).sum::<f64>() + bias;
            let number = link.number(predictor);
            assert!((served - number).abs() < 1e-9 * number.abs().max(1.0), "{served} {number}");
        }
        here.deployment.stop().await.unwrap();
    }
}

/// The numbers of all features, and the label that depends on them.
fn price(x: &DMatrix<f64>) -> Vec<f64> {
    let of = |at: usize| 500.0 + 250.0 * (x[(0, at)] + x[(2, at)] - x[(3, at)] + 0.1 * draw(at));
    (0..RECORDS).map(of).collect()
}

/// What is served on secret shares is what the parameters give, to the stated error: exact numbers, and bins of them. Audits run
/// on them.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_released_on_shares() {
    let bins = DefenseConfig::Bins { lower: 300.0, upper: 1000.0, count: 20 };
    for (link, defense) in [
        (Link::Identity, None),
        (Link::Identity, Some(bins.clone())),
        (Link::Log, None),
        (Link::Log, Some(bins)),
    ] {
        let defenses: Vec<DefenseConfig> = defense.iter().cloned().collect();
        let private = (defenses.clone(), ServingMode::Private);
        let here = Here::labelled(private, |x| Some(price(x))).await;
        let ids = here.ids.slice(0, TRAINED);
        let published =
            here.deployment.train(&training(link.as_str()), &ids, |_| ()).await.unwrap();
        let share = |party: &str| {
            let store = ShareStore::open(&here.deployment.party_dir(party)).unwrap();
            store.load(&published.version).unwrap().linear().unwrap().clone()
        };
        let (own, passive) = (share("active"), share("passive-1"));
        let weights: Vec<f64> = own.weights().iter().chain(passive.weights()).copied().collect();
        let rest = here.ids.slice(TRAINED, RECORDS);
        let served = here.served(&rest).await;
        let plain = NumberPipeline::build(&defenses, link).unwrap();
        let unit = published.config.as_ref().unwrap().values().label_scale.unwrap_or(1.0);
        for (at, served) in served.iter().enumerate() {
            let x = here.x.column(TRAINED + at);
            let eta: f64 = x.iter().zip(&weights).map(|(x, w)| x * w).sum();
            let number = link.number(eta + own.bias().unwrap()[0]);
            let Some(DefenseConfig::Bins { lower, upper, count }) = &defense else {
                // At most 2⁻⁴¹ of a unit for each of two holders, and round-off.
                let bound = unit * 2f64.powi(-40) * number.abs().max(1.0);
                assert!((served - number).abs() < bound, "{link}: {served} {number}");
                continue;
            };
            let width = (upper - lower) / f64::from(*count);
            let place = ((number - lower) / width).floor().clamp(0.0, f64::from(count - 1));
            assert!(
                (served - (lower + (place + 0.5) * width)).abs() < 1e-9,
                "{link}: {served} {number}"
            );
        }
        assert!(served.iter().any(|v| (v - served[0]).abs() > 50.0));
        assert_eq!(plain.contract().bits.is_some(), defense.is_some());
        if link == Link::Identity && defense.is_none() {
            let attacks = vec![AttackConfig::from(Method::Lattice)];
            let plan = |policy: &str| Plan {
                schema: true,
                ..Plan::of(rest.clone(), vec![policy.parse().unwrap()], attacks.clone(), 3)
            };
            let targets = here.deployment.targets();
            let found = audit::run(&targets, &plan("none"), |_, _, _| ()).await.unwrap();
            let lattice = found.audits[0].attacks.iter().find(|a| a.name == "lattice").unwrap();
            assert!(matches!(lattice.outcome, Outcome::Ran { .. }), "{lattice:?}");
            let refused = plan("rounding (decimals = 1)");
            let refused = audit::run(&targets, &refused, |_, _, _| ()).await.unwrap_err();
            assert!(refused.message.contains("for a model of a number"), "{refused}");
        }
        here.deployment.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_trained_is_refused_by_name() {
    let mixed = |_: &DMatrix<f64>| Some((0..RECORDS).map(|at| 3.0 * draw(at) - 1.0).collect());
    let here = Here::labelled((Vec::new(), ServingMode::Plain), mixed).await;
    let refused = async |config: &TrainingConfig, says: &str| {
        let refused = here.deployment.train(config, &here.ids, |_| ()).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::FailedPrecondition, "{refused}");
        assert!(refused.message.contains(says), "{refused}");
    };
    // A model of classes, and counts below 0.
    refused(&config(1), "`kind = \"generalized_linear\"`").await;
    refused(&training("log"), "labels of at least 0").await;
    let served = super::support::score(&here.deployment, &here.ids).await.unwrap_err();
    assert_eq!(served.code(), Code::FailedPrecondition, "nothing is in service: {served}");
    here.deployment.stop().await.unwrap();
    let equal =
        Here::labelled((Vec::new(), ServingMode::Plain), |_| Some(vec![7.0; RECORDS])).await;
    let refused = equal.deployment.train(&training("identity"), &equal.ids, |_| ()).await;
    assert!(refused.unwrap_err().message.contains("all equal"));
    equal.deployment.stop().await.unwrap();
    // Without numbers, and in the clear.
    let unknown = Here::labelled((Vec::new(), ServingMode::Plain), |_| None).await;
    let refused = unknown.deployment.train(&training("identity"), &unknown.ids, |_| ()).await;
    assert!(refused.unwrap_err().message.contains("`min` and `max` in [label]"));
    unknown.deployment.stop().await.unwrap();
    let says = |values: TrainingValues| {
        let refused: TrainingConfigError = TrainingConfig::try_from(values).unwrap_err();
        refused.to_string()
    };
    assert!(
        says(TrainingValues { mode: TrainingMode::Plain, ..values("identity") })
            .contains("secret shares alone")
    );
    assert!(says(values("logit")).contains("link `identity` or `log`"));
    assert!(
        says(TrainingValues { label_scale: Some(3.0), ..values("identity") })
            .contains("a power of two")
    );
    let classes = TrainingValues { label_scale: Some(2.0), ..Default::default() };
    assert!(says(classes).contains("label_scale"));
}
