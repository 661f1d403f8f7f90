//! Perceptrons: trained over the sockets as in one place, served, restarted, audited.

use nalgebra::{DMatrix, DVector};
use vfl_attack::{AttackConfig, Method};
use vfl_auditor::audit::informed_attacks;
use vfl_auditor::report::{Outcome, ParameterKnowledge, Refused};
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{
    Combiner, ModelConfig, Schedule, SubModelSpec, TrainingConfig, TrainingValues, cross_entropy,
    heads, kinds,
};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_datasets::Dataset;
use vfl_passive_party::config::{Grant, ReleasePolicy, StartFrom, TrainingPolicy};
use vfl_protocol::RefusalKind;
use vfl_state::{ShareStore, StoredShare};
use vfl_transform::TransformConfig;

use super::defenses::defense;
use super::helped::{RECORDS, auxiliary, errors, known, plan, report, run};
use super::support::{Trained, dataset, spec, split, test_ids, training_ids};

pub(super) fn mlp(hidden: &[usize], activation: &str) -> ModelConfig {
    let settings = serde_json::json!({ "hidden": hidden, "activation": activation });
    ModelConfig::new(Combiner::Sum, "mlp", None, settings.as_object().unwrap().clone()).unwrap()
}

/// Perceptrons of so many outputs under a top model, all of tanh.
pub(super) fn embeddings(hidden: &[usize], width: u32, top: &[usize]) -> ModelConfig {
    let settings = |hidden: &[usize]| {
        serde_json::json!({ "hidden": hidden, "activation": "tanh" }).as_object().unwrap().clone()
    };
    let model = ModelConfig::new(Combiner::Concat, "mlp", Some(width), settings(hidden)).unwrap();
    model.with_top(settings(top)).unwrap()
}

pub(super) fn config(model: ModelConfig, epochs: u32) -> TrainingConfig {
    let values = TrainingValues {
        epochs,
        learning_rate: 0.02,
        patience: 4,
        seed: 5,
        model,
        ..Default::default()
    };
    TrainingConfig::try_from(values).unwrap()
}

/// A deployment with a network in service, whose passive parties release nothing.
pub(super) async fn trained(parties: usize, each: usize, config: &TrainingConfig) -> Trained {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset();
    let split = split(&dataset, parties, each);
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.release = ReleasePolicy::default();
    let deployment = vfl_testbed::deployment::Deployment::start(spec).await.unwrap();
    let version =
        deployment.train(config, &training_ids(&dataset), |_| ()).await.unwrap().version.into();
    Trained { dir, dataset, split, deployment, version }
}

/// One party's network, or the top model, in the plainest form: weights and bias of each layer, the last bias at the active party and in
/// the top model alone.
#[derive(Clone)]
struct Plain {
    layers: Vec<(DMatrix<f64>, Option<DVector<f64>>)>,
    activation: &'static str,
}

impl Plain {
    /// As the kind starts it: first parameters are no part of the comparison.
    fn start(
        model: &ModelConfig,
        hidden: &[usize],
        activation: &'static str,
        d: usize,
        k: usize,
        active: bool,
    ) -> Self {
        let spec = SubModelSpec::new("mlp", k as u32, model.settings().clone()).unwrap();
        let started =
            kinds::start(&SubModelOrigin { spec, features: d, active, start: start_of(5) })
                .unwrap();
        let mut values = started.snapshot().into_iter();
        let (mut layers, mut inputs) = (Vec::new(), d);
        for (at, outputs) in hidden.iter().copied().chain([k]).enumerate() {
            let weights = DMatrix::from_vec(outputs, inputs, values.next().unwrap());
            let bias =
                (at < hidden.len() || active).then(|| DVector::from_vec(values.next().unwrap()));
            layers.push((weights, bias));
            inputs = outputs;
        }
        Self { layers, activation }
    }

    fn phi(&self, z: f64) -> f64 {
        match self.activation {
            "sigmoid" => 1.0 / (1.0 + f64::exp(-z)),
            "tanh" => z.tanh(),
            _ => z.max(0.0),
        }
    }

    /// What each layer gives for one record, the record itself first.
    fn one(&self, x: DVector<f64>) -> Vec<DVector<f64>> {
        let mut all = vec![x];
        for (at, (weights, bias)) in self.layers.iter().enumerate() {
            let mut z = weights * all.last().unwrap();
            if let Some(bias) = bias {
                z += bias;
            }
            all.push(if at + 1 < self.layers.len() { z.map(|v| self.phi(v)) } else { z });
        }
        all
    }

    /// Adds the slopes of one record, of whose outputs the loss has the slope `delta`; gives the slope of its inputs.
    fn slopes(
        &self,
        through: &[DVector<f64>],
        mut delta: DVector<f64>,
        into: &mut Self,
    ) -> DVector<f64> {
        for at in (0..self.layers.len()).rev() {
            into.layers[at].0 += &delta * through[at].transpose();
            if let Some(bias) = &mut into.layers[at].1 {
                *bias += &delta;
            }
            delta = self.layers[at].0.transpose() * delta;
            if at > 0 {
                let phi = |a: f64| match self.activation {
                    "sigmoid" => a * (1.0 - a),
                    "tanh" => 1.0 - a * a,
                    _ => f64::from(a > 0.0),
                };
                delta = DVector::from_fn(delta.len(), |i, _| delta[i] * phi(through[at][i]));
            }
        }
        delta
    }

    fn zeros(&self) -> Self {
        let layers =
            self.layers.iter().map(|(w, b)| (w * 0.0, b.as_ref().map(|b| b * 0.0))).collect();
        Self { layers, activation: self.activation }
    }

    /// All parameters in the order of the layers, and whether each is a weight.
    fn all(&mut self) -> Vec<(&mut f64, bool)> {
        self.layers
            .iter_mut()
            .flat_map(|(w, b)| {
                let bias = b.iter_mut().flat_map(|b| b.iter_mut()).map(|v| (v, false));
                w.iter_mut().map(|v| (v, true)).chain(bias).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// One record's outputs of the parties, added or, under a top model, side by side.
fn combined(outputs: Vec<DVector<f64>>, stacked: bool) -> DVector<f64> {
    match stacked {
        false => outputs.into_iter().reduce(|a, b| a + b).unwrap(),
        true => {
            let all: Vec<f64> = outputs.iter().flat_map(|o| o.iter().copied()).collect();
            DVector::from_vec(all)
        }
    }
}

/// Training in one place, record by record: Adam on the mean cross-entropy and l2 · Σ w², early stopping, the order of the seed. Past the
/// blocks of features stands the top model, if there is one.
fn central(config: &TrainingConfig, parties: &mut Vec<Plain>, x: &[DMatrix<f64>], labels: &[u32]) {
    let v = config.values();
    let mut schedule = Schedule::new(config, labels.len());
    let logits = |parties: &[Plain], positions: &[u32]| {
        let columns = positions.iter().map(|&p| {
            let of = |(party, x): (&Plain, &DMatrix<f64>)| {
                party.one(x.column(p as usize).into_owned()).pop().unwrap()
            };
            let top = parties.get(x.len());
            let logits = combined(parties.iter().zip(x).map(of).collect(), top.is_some());
            top.map_or(logits.clone(), |top| top.one(logits).pop().unwrap())
        });
        Logits::new(DMatrix::from_columns(&columns.collect::<Vec<_>>())).unwrap()
    };
    let of =
        |positions: &[u32]| positions.iter().map(|&p| labels[p as usize]).collect::<Vec<u32>>();
    let validation = schedule.validation().to_vec();
    let zeros: Vec<Plain> = parties.iter().map(Plain::zeros).collect();
    let (mut m, mut s, mut t) = (zeros.clone(), zeros.clone(), 0);
    let (mut best, mut best_loss, mut best_epoch) = (parties.clone(), f64::INFINITY, 0);
    for epoch in 1..=v.epochs {
        for batch in schedule.next_epoch() {
            let (_, gradient, _) = cross_entropy(logits(parties, &batch), &of(&batch));
            t += 1;
            let mut all = zeros.clone();
            for (column, &p) in batch.iter().enumerate() {
                let own = |at: usize| parties[at].one(x[at].column(p as usize).into_owned());
                let through: Vec<_> = (0..x.len()).map(own).collect();
                let delta = gradient.column(column).into_owned();
                let below = parties.get(x.len()).map(|top| {
                    let outputs = through.iter().map(|t| t.last().unwrap().clone()).collect();
                    top.slopes(&top.one(combined(outputs, true)), delta.clone(), &mut all[x.len()])
                });
                let mut from = 0;
                for at in 0..x.len() {
                    let width = through[at].last().unwrap().len();
                    let own = below
                        .as_ref()
                        .map_or(delta.clone(), |below| below.rows(from, width).into_owned());
                    from += width;
                    parties[at].slopes(&through[at], own, &mut all[at]);
                }
            }
            for (at, mut slopes) in all.into_iter().enumerate() {
                let moving = parties[at]
                    .all()
                    .into_iter()
                    .zip(slopes.all())
                    .zip(m[at].all())
                    .zip(s[at].all());
                for ((((value, weight), (slope, _)), (m, _)), (s, _)) in moving {
                    let slope = *slope + if weight { 2.0 * v.l2 * *value } else { 0.0 };
                    *m = 0.9 * *m + 0.1 * slope;
                    *s = 0.999 * *s + 0.001 * slope * slope;
                    let (mean, spread) =
                        (*m / (1.0 - 0.9f64.powi(t)), *s / (1.0 - 0.999f64.powi(t)));
                    *value -= v.learning_rate * mean / (spread.sqrt() + 1e-8);
                }
            }
        }
        let (loss, _, _) = cross_entropy(logits(parties, &validation), &of(&validation));
        if loss < best_loss {
            (best, best_loss, best_epoch) = (parties.clone(), loss, epoch);
        } else if epoch - best_epoch >= v.patience {
            break;
        }
    }
    *parties = best;
}

/// The columns of each party, the active one's first.
fn columns(here: &Trained) -> Vec<Vec<usize>> {
    std::iter::once(here.split.active().to_vec())
        .chain(here.split.passive().iter().map(|p| p.columns.clone()))
        .collect()
}

fn rows(dataset: &Dataset, columns: &[usize], positions: &[usize]) -> DMatrix<f64> {
    dataset.x().select_columns(positions).select_rows(columns)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_trained_over_sockets_is_the_one_trained_in_one_place() {
    for (hidden, activation, passive) in
        [(&[8, 8][..], "sigmoid", 1), (&[6], "tanh", 2), (&[5, 4, 3], "relu", 2)]
    {
        let model = mlp(hidden, activation);
        let config = config(model.clone(), 6);
        let here = trained(passive, 3, &config).await;
        let k = here.dataset.class_names().len();
        let train = &here.dataset.split().train;
        let x: Vec<_> =
            columns(&here).iter().map(|columns| rows(&here.dataset, columns, train)).collect();
        let labels: Vec<u32> = train.iter().map(|&p| here.dataset.labels()[p]).collect();
        let start = |(at, x): (usize, &DMatrix<f64>)| {
            Plain::start(&model, hidden, activation, x.nrows(), k, at == 0)
        };
        let mut plain: Vec<Plain> = x.iter().enumerate().map(start).collect();
        let first = plain.clone();
        central(&config, &mut plain, &x, &labels);

        let version = here.version.parse_version();
        let mut worst = 0.0f64;
        let mut moved = 0.0f64;
        for (at, (party, first)) in plain.iter_mut().zip(&first).enumerate() {
            let name = if at == 0 { "active".to_owned() } else { format!("passive-{at}") };
            let share = ShareStore::open(&here.deployment.party_dir(&name))
                .unwrap()
                .load(&version)
                .unwrap();
            let stored: Vec<f64> =
                share.model().tensors().iter().flat_map(|t| t.values.to_vec()).collect();
            let ours: Vec<f64> = party.all().into_iter().map(|(v, _)| *v).collect();
            assert_eq!(stored.len(), ours.len());
            worst = stored.iter().zip(&ours).fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
            let before: Vec<f64> = first.clone().all().into_iter().map(|(v, _)| *v).collect();
            moved = ours.iter().zip(&before).fold(moved, |moved, (a, b)| moved.max((a - b).abs()));
        }
        assert!(worst < 1e-9, "{activation}: parameters differ by {worst:e}");
        assert!(moved > 0.1, "{activation}: the comparison is of a model that has learned");
        here.deployment.stop().await.unwrap();
    }
}

/// The same with a top model, whose parameters are on the coordinator's disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_model_trained_over_sockets_is_the_one_trained_in_one_place() {
    for (hidden, width, top, passive) in
        [(&[6][..], 5, &[][..], 1), (&[], 3, &[7], 2), (&[4, 3], 2, &[6, 5], 2)]
    {
        let model = embeddings(hidden, width as u32, top);
        let config = config(model.clone(), 6);
        let here = trained(passive, 3, &config).await;
        let k = here.dataset.class_names().len();
        let train = &here.dataset.split().train;
        let x: Vec<_> =
            columns(&here).iter().map(|columns| rows(&here.dataset, columns, train)).collect();
        let labels: Vec<u32> = train.iter().map(|&p| here.dataset.labels()[p]).collect();
        let start = |(at, x): (usize, &DMatrix<f64>)| {
            Plain::start(&model, hidden, "tanh", x.nrows(), width, at == 0)
        };
        let mut plain: Vec<Plain> = x.iter().enumerate().map(start).collect();
        // First parameters are no part of the comparison: the head is asked for its own.
        let party = model.sub_model(k as u32).unwrap();
        let spec = model.model(k as u32, party.clone(), vec![party; passive]).unwrap();
        let mut first = heads::start(&spec, k as u32, start_of(5)).unwrap().snapshot().into_iter();
        let (mut layers, mut inputs) = (Vec::new(), width * (passive + 1));
        for outputs in top.iter().copied().chain([k]) {
            let weights = DMatrix::from_vec(outputs, inputs, first.next().unwrap());
            layers.push((weights, Some(DVector::from_vec(first.next().unwrap()))));
            inputs = outputs;
        }
        plain.push(Plain { layers, activation: "tanh" });
        let before =
            plain.last().unwrap().clone().all().into_iter().map(|(v, _)| *v).collect::<Vec<_>>();
        central(&config, &mut plain, &x, &labels);

        let version = here.version.parse_version();
        let mut worst = 0.0f64;
        for (at, party) in plain.iter_mut().enumerate() {
            let ours: Vec<f64> = party.all().into_iter().map(|(v, _)| *v).collect();
            let stored = match at > passive {
                false => {
                    let name = if at == 0 { "active".to_owned() } else { format!("passive-{at}") };
                    ShareStore::open(&here.deployment.party_dir(&name))
                        .unwrap()
                        .load(&version)
                        .unwrap()
                }
                true => top_model(&here),
            };
            let stored: Vec<f64> =
                stored.model().tensors().iter().flat_map(|t| t.values.to_vec()).collect();
            assert_eq!(stored.len(), ours.len());
            worst = stored.iter().zip(&ours).fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
            if at > passive {
                let moved =
                    ours.iter().zip(&before).fold(0.0f64, |moved, (a, b)| moved.max((a - b).abs()));
                assert!(moved > 0.1, "the comparison is of a top model that has learned");
            }
        }
        assert!(worst < 1e-9, "{hidden:?}, {top:?}: parameters differ by {worst:e}");
        here.deployment.stop().await.unwrap();
    }
}

/// The top model that the coordinator's manifest of the version names.
pub(super) fn top_model(here: &Trained) -> StoredShare {
    let dir = here.deployment.party_dir("coordinator");
    ShareStore::open(&dir.join("top"))
        .unwrap()
        .stored(&top_digest(&here.deployment, &here.version))
        .unwrap()
}

/// The hash of the top model in the coordinator's manifest of a version.
pub(super) fn top_digest(
    deployment: &vfl_testbed::deployment::Deployment,
    version: &str,
) -> String {
    let path = deployment.party_dir("coordinator").join("models").join(format!("{version}.json"));
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    manifest["top"].as_str().unwrap().to_owned()
}

/// Served, restarted to the bit, defended; a record that one party lacks is left out, whatever is beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_a_top_model_is_served_restarted_and_defended() {
    let config = config(embeddings(&[8], 6, &[9]), 6);
    let here = trained(2, 3, &config).await;
    let (ids, k) = (test_ids(&here.dataset, 0, 40), here.dataset.class_names().len());
    let version = here.version.parse_version();
    let positions = &here.dataset.split().test[..40];
    let outputs = columns(&here).into_iter().enumerate().map(|(at, columns)| {
        let name = if at == 0 { "active".to_owned() } else { format!("passive-{at}") };
        let share =
            ShareStore::open(&here.deployment.party_dir(&name)).unwrap().load(&version).unwrap();
        share.model().outputs(&rows(&here.dataset, &columns, positions)).unwrap().into_matrix()
    });
    let outputs: Vec<DMatrix<f64>> = outputs.collect();
    let side_by_side = DMatrix::from_fn(18, 40, |i, j| outputs[i / 6][(i % 6, j)]);
    let logits = top_model(&here).model().outputs(&side_by_side).unwrap().into_matrix();
    let expected = ConfidenceScores::softmax(Logits::new(logits).unwrap()).into_matrix();

    let predict = async |here: &Trained| {
        here.deployment.active_client().unwrap().predict(&ids, k).await.unwrap()
    };
    let ReleasedScores::Probabilities(before) = predict(&here).await else { panic!("scores") };
    assert!((&before - &expected).amax() < 1e-12);
    let one = here.deployment.active_client().unwrap().predict(&ids.slice(7, 8), k).await.unwrap();
    assert_eq!(
        one,
        ReleasedScores::Probabilities(before.columns(7, 1).into_owned()),
        "alone as among others"
    );
    let undefended = ReleasedScores::Probabilities(before);
    let mut here = here.again(|spec| spec.release = ReleasePolicy::default()).await;
    assert_eq!(predict(&here).await, undefended, "a restart changes no bit");
    let classes: Vec<u32> = expected.column_iter().map(|c| c.imax() as u32).collect();
    for policy in ["rounding (decimals = 2)", "top_k (k = 2)", "class_label"] {
        here = here
            .again(|spec| {
                spec.release = ReleasePolicy::default();
                spec.defenses = defense(policy);
            })
            .await;
        let released = predict(&here).await;
        assert_ne!(released, undefended, "{policy}");
        assert_eq!(released.predicted_labels(), classes, "{policy}");
    }
    here.deployment.stop().await.unwrap();
}

trait ParseVersion {
    fn parse_version(&self) -> vfl_core::types::ModelVersion;
}

impl ParseVersion for String {
    fn parse_version(&self) -> vfl_core::types::ModelVersion {
        vfl_core::types::ModelVersion::new(self.as_str()).unwrap()
    }
}

/// What the networks on the parties' disks give, added and through the softmax.
fn scores(here: &Trained, from: usize, to: usize) -> DMatrix<f64> {
    let version = here.version.parse_version();
    let positions = &here.dataset.split().test[from..to];
    let shares = columns(here).into_iter().enumerate().map(|(at, columns)| {
        let name = if at == 0 { "active".to_owned() } else { format!("passive-{at}") };
        let share =
            ShareStore::open(&here.deployment.party_dir(&name)).unwrap().load(&version).unwrap();
        share.model().outputs(&rows(&here.dataset, &columns, positions)).unwrap().matrix().clone()
    });
    let logits =
        Logits::new(shares.collect::<Vec<_>>().into_iter().reduce(|a, b| a + b).unwrap()).unwrap();
    ConfidenceScores::softmax(logits).into_matrix()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_served_restarted_and_defended() {
    let config = config(mlp(&[8, 8], "sigmoid"), 6);
    let here = trained(2, 3, &config).await;
    let (ids, k) = (test_ids(&here.dataset, 0, 40), here.dataset.class_names().len());
    let expected = scores(&here, 0, 40);
    let predict = async |here: &Trained| {
        here.deployment.active_client().unwrap().predict(&ids, k).await.unwrap()
    };
    let ReleasedScores::Probabilities(before) = predict(&here).await else { panic!("scores") };
    assert!((&before - &expected).amax() < 1e-12);
    let undefended = ReleasedScores::Probabilities(before);
    let mut here = here.again(|spec| spec.release = ReleasePolicy::default()).await;
    assert_eq!(predict(&here).await, undefended, "a restart changes no bit");
    // Behind three defenses, each of which keeps the class.
    let classes: Vec<u32> = expected.column_iter().map(|c| c.imax() as u32).collect();
    for policy in ["rounding (decimals = 2)", "top_k (k = 2)", "class_label"] {
        here = here
            .again(|spec| {
                spec.release = ReleasePolicy::default();
                spec.defenses = defense(policy);
            })
            .await;
        let released = predict(&here).await;
        assert_ne!(released, undefended, "{policy}");
        assert_eq!(released.predicted_labels(), classes, "{policy}");
    }
}

/// An audit runs what needs no parameters, beside its control; what needs them says why it did not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_audited_without_its_parameters() {
    let config = config(mlp(&[8, 8], "tanh"), 20);
    let here = trained(1, 4, &config).await;
    let table = known(&here, RECORDS, RECORDS + 80);
    let here = here
        .again(|spec| {
            spec.release = ReleasePolicy::default();
            spec.help.known = Some(table);
            spec.help.moments = true;
        })
        .await;
    let mut attacks = vec![Method::HalfStar.into(), Method::Half.into(), Method::Random.into()];
    attacks.extend(informed_attacks());
    let asked = plan(&here, attacks, auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + 80)));
    let mut asked = asked;
    asked.policies.push("class_label".parse().unwrap());
    let findings = run(&here, &asked).await.unwrap();
    let outcome = |name: &str| {
        let all = findings.audits.iter().flat_map(|audit| &audit.attacks);
        all.clone()
            .find(|attack| attack.name == name)
            .unwrap_or_else(|| panic!("{name}"))
            .outcome
            .clone()
    };
    assert!(
        findings
            .audits
            .iter()
            .all(|audit| audit.threat_model.parameters != ParameterKnowledge::True)
    );
    assert!(matches!(outcome("half_star"), Outcome::NotRun { why: Refused::ParametersHidden, .. }));
    assert!(matches!(outcome("gaussian"), Outcome::NotRun { why: Refused::ParametersHidden, .. }));
    let informed = findings.audits.iter().find(|audit| audit.added_risk().is_some()).unwrap();
    let (name, found, risk) = informed.added_risk().unwrap();
    assert_eq!(name, "kernel_ridge");
    assert!(risk.control_mse <= 1.05 * errors(informed, "kernel_imputation").mse, "{risk:?}");
    // It learns from 80 records whatever the model is: not much worse than its control where scores tell it nothing.
    assert!(
        found.mse < 1.2 * errors(informed, "kernel_imputation").mse && risk.low < risk.high,
        "{risk:?}"
    );
    assert!(
        !findings.audits.iter().any(|audit| audit.threat_model.moments),
        "no owner knows A x of a network"
    );
    report(&findings);
}

/// Nothing of the audit takes embeddings for parts of a sum: what needs that says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_a_top_model_is_audited_without_a_sum() {
    // As many numbers as classes: the coordinator would take a share of logits for an embedding.
    let k = dataset().class_names().len() as u32;
    let config = config(embeddings(&[8], k, &[9]), 20);
    let here = trained(1, 4, &config).await;
    let table = known(&here, RECORDS, RECORDS + 80);
    let here = here
        .again(|spec| {
            spec.release.to_active_party = Grant::Transformed(TransformConfig::Negate {});
            spec.help.known = Some(table);
            spec.help.moments = true;
        })
        .await;
    let mut attacks = vec![Method::HalfStar.into(), Method::Half.into(), Method::Random.into()];
    attacks.extend(informed_attacks());
    let mut asked = plan(&here, attacks, auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + 80)));
    asked.policies.push("class_label".parse().unwrap());
    let findings = run(&here, &asked).await.unwrap();
    let outcome = |name: &str| {
        let all = findings.audits.iter().flat_map(|audit| &audit.attacks);
        all.clone()
            .find(|attack| attack.name == name)
            .unwrap_or_else(|| panic!("{name}"))
            .outcome
            .clone()
    };
    assert!(matches!(outcome("half_star"), Outcome::NotRun { why: Refused::ParametersHidden, .. }));
    let informed = findings.audits.iter().find(|audit| audit.added_risk().is_some()).unwrap();
    let (name, found, risk) = informed.added_risk().unwrap();
    assert_eq!(name, "kernel_ridge");
    assert!(risk.control_mse <= 1.05 * errors(informed, "kernel_imputation").mse, "{risk:?}");
    assert!(found.mse < 1.2 * errors(informed, "kernel_imputation").mse, "{risk:?}");
    report(&findings);
    // Where no informed attack is named, known records serve the attack that fits W_pas: there is none to fit.
    let auxiliary = auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + 80));
    let findings =
        run(&here, &plan(&here, vec![Method::HalfStar.into()], auxiliary.clone())).await.unwrap();
    let shadows: Vec<_> = findings
        .audits
        .iter()
        .flat_map(|audit| &audit.attacks)
        .filter(|a| a.name.starts_with("shadow_model"))
        .collect();
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::NotRun { reason, .. } if reason.contains("fits a linear part of a sum of logits"));
    assert!(!shadows.is_empty() && shadows.iter().all(|a| refused(&a.outcome)), "{shadows:?}");
    // A network in its place has no part of the logits to stand for either.
    let findings =
        run(&here, &plan(&here, vec![Method::ShadowNetwork.into()], auxiliary)).await.unwrap();
    let shadow = findings
        .audits
        .iter()
        .flat_map(|audit| &audit.attacks)
        .find(|a| a.name == "shadow_network")
        .unwrap();
    let Outcome::NotRun { why, reason } = &shadow.outcome else { panic!("{shadow:?}") };
    assert!(
        *why == Refused::Missing && reason.contains("fits a network to a part of a sum of logits"),
        "{reason}"
    );
}

/// Nothing of a network is shown. Known records train another one, which says more of the features than what knows the same records and no
/// score; it stands in the report beside that control. A base that knows moments has them from the same records.
#[tokio::test(flavor = "multi_thread")]
async fn known_records_take_the_place_of_a_network() {
    let here = trained(1, 3, &config(mlp(&[8], "sigmoid"), 30)).await;
    let table = known(&here, RECORDS, RECORDS + 80);
    let here = here
        .again(|spec| {
            spec.release = ReleasePolicy::default();
            spec.help.known = Some(table);
        })
        .await;
    let shadow = |settings: &[(&str, &str)]| {
        AttackConfig::new(Method::ShadowNetwork, settings.iter().copied()).unwrap()
    };
    let descent = shadow(&[("shadow", "8"), ("start", "half"), ("steps", "3000")]);
    let posterior = shadow(&[("shadow", "8"), ("base", "posterior_mean")]);
    let linear = shadow(&[("shadow", "linear"), ("base", "half_star")]);
    let attacks =
        vec![Method::GradientInversion.into(), descent.clone(), posterior.clone(), linear.clone()];
    let asked = plan(&here, attacks, auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + 80)));
    let findings = run(&here, &asked).await.unwrap();
    let alone = &findings.audits[0].attacks[0].outcome;
    assert!(matches!(alone, Outcome::NotRun { why: Refused::ParametersHidden, .. }), "{alone:?}");
    let helped = findings.audits.iter().find(|audit| audit.added_risk().is_some()).unwrap();
    assert_eq!(
        (helped.threat_model.parameters, helped.threat_model.known_records),
        (ParameterKnowledge::Hidden, 80)
    );
    let half = helped.baselines.half.mse;
    for attack in [&descent, &posterior, &linear] {
        let found = errors(helped, &attack.to_string()).mse;
        println!("{attack}: {found}, guess {half}");
        assert!(found < 0.5 * half, "{attack}: {found}, {half}");
    }
    let (_, best, risk) = helped.added_risk().unwrap();
    assert!(best.mse < risk.control_mse && risk.low.unwrap() > 0.0, "{risk:?}");
    assert!(
        helped.remarks.iter().any(|r| r.contains("a shadow model (8 sigmoid, ")),
        "{:?}",
        helped.remarks
    );
    assert!(report(&findings).contains("shadow_network"));
    here.deployment.stop().await.unwrap();
}

/// What would change features that meet weights is refused before any training of a network.
#[tokio::test(flavor = "multi_thread")]
async fn a_transform_of_features_refuses_a_network() {
    let dataset = dataset();
    let split = split(&dataset, 1, 3);
    let training = config(mlp(&[8], "relu"), 1);
    let dir = tempfile::tempdir().unwrap();
    let mut mapped = spec(dir.path(), &dataset, &split);
    mapped.release = ReleasePolicy::default();
    mapped.training_transform = TransformConfig::Negate {};
    let deployment = vfl_testbed::deployment::Deployment::start(mapped).await.unwrap();
    let refused = deployment.train(&training, &training_ids(&dataset), |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(
        refused.message.contains("takes linear models alone") && refused.message.contains("`mlp`"),
        "{refused}"
    );
    deployment.stop().await.unwrap();
}

/// A model that the live defense cannot be applied to does not take the place of one that is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_does_not_come_under_a_defense_that_takes_weights() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let mut noised = spec(dir.path(), &dataset, &split(&dataset, 1, 3));
    noised.defenses = defense("logit_noise (scheme = 1, alpha = 0.5)");
    let deployment = vfl_testbed::deployment::Deployment::start(noised).await.unwrap();
    let refused = deployment
        .train(&config(mlp(&[8], "relu"), 1), &training_ids(&dataset), |_| ())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(
        refused.message.contains("`logit_noise") && refused.message.contains("linear model"),
        "{refused}"
    );
    deployment.stop().await.unwrap();
}

/// A small request for a training that would take the coordinator's memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_model_whose_batches_do_not_fit_is_refused() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = super::support::deploy(dir.path(), &dataset, &split(&dataset, 1, 3)).await;
    let wide =
        embeddings(&[], 1, &[4096, 1, 4096, 1, 4096, 1, 4096, 1, 4096, 1, 4096, 1, 4096, 1, 4096]);
    let values = TrainingValues { batch_size: 60_000, ..config(wide, 1).values().clone() };
    let training = TrainingConfig::try_from(values).unwrap();
    let refused = deployment.train(&training, &training_ids(&dataset), |_| ()).await.unwrap_err();
    assert!(refused.message.contains("values at the coordinator, 67108864 at most"), "{refused}");
    deployment.stop().await.unwrap();
}

/// By default a passive party trains no network, and draws first parameters itself. The active party chooses the seed: from a start that
/// follows from it, the scores of one step would be known functions of the features, others in each training.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_takes_consent_and_starts_where_the_active_party_does_not_know() {
    let dataset = dataset();
    let split = split(&dataset, 1, 3);
    let training = config(mlp(&[4], "tanh"), 1);
    let ids = training_ids(&dataset);
    let deploy = async |dir: &std::path::Path, kinds: &[&str], start: StartFrom| {
        let mut spec = spec(dir, &dataset, &split);
        spec.release = ReleasePolicy::default();
        spec.consent.kinds = kinds.iter().map(ToString::to_string).collect();
        spec.consent.start = start;
        vfl_testbed::deployment::Deployment::start(spec).await.unwrap()
    };
    let default = TrainingPolicy::default();
    assert_eq!(default.combiners, [Combiner::Sum]);
    assert_eq!(
        (default.kinds.as_slice(), default.start),
        (&["softmax_regression".to_owned()][..], StartFrom::Private)
    );
    let dir = tempfile::tempdir().unwrap();
    let deployment = deploy(dir.path(), &["softmax_regression"], StartFrom::Private).await;
    let refused = deployment.train(&training, &ids, |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(refused.message.contains("`kinds` in [training] does not name `mlp`"), "{refused}");
    deployment.stop().await.unwrap();
    // Nor does it hand out embeddings.
    let dir = tempfile::tempdir().unwrap();
    let mut sums = spec(dir.path(), &dataset, &split);
    sums.release = ReleasePolicy::default();
    sums.consent.combiners = default.combiners;
    let deployment = vfl_testbed::deployment::Deployment::start(sums).await.unwrap();
    let refused =
        deployment.train(&config(embeddings(&[4], 3, &[]), 1), &ids, |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(
        refused.message.contains("`combiners` in [training] does not name `concat`"),
        "{refused}"
    );
    deployment.stop().await.unwrap();

    for (start, repeats) in [(StartFrom::Private, false), (StartFrom::Seed, true)] {
        let dir = tempfile::tempdir().unwrap();
        let deployment = deploy(dir.path(), &["mlp"], start).await;
        let mut models = Vec::new();
        for _ in 0..2 {
            let version = deployment.train(&training, &ids, |_| ()).await.unwrap().version;
            let share = ShareStore::open(&deployment.party_dir("passive-1"))
                .unwrap()
                .load(&version)
                .unwrap();
            models.push(share.model().snapshot());
        }
        assert_eq!(models[0] == models[1], repeats, "{start:?}");
        // One epoch at this step size moves no weight by as much as two starts differ.
        if !repeats {
            let far = models[0][0]
                .iter()
                .zip(&models[1][0])
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            assert!(far > 0.5, "{far}");
        }
        deployment.stop().await.unwrap();
    }
}
