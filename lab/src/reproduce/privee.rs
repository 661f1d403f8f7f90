//! P tables 1 to 8: behind each defense the loss that P prints as the error of an attack (errata P1), the error of the features, and the
//! accuracy, by attack strength: the active party's share of the columns, in percent.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_active_party::attack::{AdversaryView, KnownModel, KnownNetwork, Method, Replacement, Settings};
use vfl_coordinator::defense::{DefenseError, Grants, Noise, Pipeline};
use vfl_shared::data::{DatasetName, VerticalSplit};
use vfl_shared::metrics::{accuracy, squared_error_by_record};
use vfl_shared::model::{Combiner, ModelConfig, PartyLearner, SubModel, TrainingConfig, TrainingValues};
use vfl_shared::policy::{Policy, gaussian_scale};
use vfl_shared::types::{ConfidenceScores, FeatureBlock, LogitShare, Logits, ReleasedScores};

use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document, Measure, ModelOrigin};
use super::statistics::mean;
use super::subject::{Drawn, Purpose, Subject, generator};
use super::sweep::select;
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};
use crate::progress::Progress;
use crate::together::{Together, start};

/// P's attack strengths: the active party's share of the columns, in percent.
const STRENGTHS: [usize; 3] = [25, 50, 75];

/// P's defenses, by the names of their columns. PRIVEE as its authors' code draws it: one draw for all records, from parts of [0, 3].
const DEFENSES: [(&str, &str); 8] = [
    ("none", "none"),
    ("r1", "rounding (decimals = 1)"),
    ("r2", "rounding (decimals = 2)"),
    ("ope", "order_preserving_encryption"),
    ("dp_0.5", "dp_gaussian (epsilon = 0.5, as_published = true)"),
    ("dp_0.7", "dp_gaussian (epsilon = 0.7, as_published = true)"),
    ("privee_dp", "privee_dp (as_published = true)"),
    ("privee_dp_pp", "privee_dp_plus_plus (as_published = true)"),
];

/// The adversary who knows that PRIVEE is on: it divides by the mean scale of each rank.
const AWARE: &str = "privee_dp_aware";
/// ε, δ and Δf of P (9) as the policy has them, and the end of the interval that the authors' code draws from.
const SCALE: (f64, f64, f64) = (0.1, 1e-5, 0.1);
const UP_TO: f64 = 3.0;

/// P's attacks: "GRN" as its code has it, which optimises inputs from normal numbers, and gradient inversion.
const ATTACKS: [(&str, &str); 2] = [("grn", "p_grn"), ("gia", "p")];

/// A model of P's: a sub-model at each of two parties, a linear top model.
struct Model {
    active: Vec<usize>,
    passive: Vec<usize>,
    own: Arc<dyn SubModel>,
    part: Arc<dyn SubModel>,
    top: Arc<dyn SubModel>,
    known: KnownModel,
    /// On records of the training, and on test records.
    accuracy: [f64; 2],
}

/// What one strength gives, by name of a curve.
type Found = Vec<(String, f64)>;

/// Computes the tables on one data set.
pub(super) fn run(subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let strengths = match options.dimensions.as_slice() {
        [] => STRENGTHS.to_vec(),
        some => some.to_vec(),
    };
    if let Some(&got) = strengths.iter().find(|s| !(1..100).contains(*s)) {
        return Err(ReproduceError::Dimension { got, total: 99 });
    }
    let config = training(subject, options)?;
    let records = subject.own_records(options.own_records, options.seed);
    let work = |piece: usize| {
        let begun = cpu_time();
        let found = one(subject, &drawn, &config, &records, strengths[piece], options.seed)?;
        Ok((found, cpu_time().saturating_sub(begun)))
    };
    let mut found: Vec<Found> = Vec::new();
    let mut cpu = std::time::Duration::ZERO;
    let mut progress = Progress::start("p-tables", strengths.len() as u64);
    in_order(options.threads, strengths.len(), work, |piece, (of, time): (Found, _)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64 + 1, &format!("strength {} %", strengths[piece]));
        Ok(())
    })?;
    progress.done(&format!("p-tables: {} models trained and attacked", strengths.len()));

    let mut document = blank(Figure::PTables, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "attack strength: the active party's share of the columns, %".into(),
        symbol: "strength".into(),
        points: strengths.clone(),
        determined_up_to: None,
    };
    document.measure = Measure {
        label: "loss as P prints it; error of features where a curve's name ends in _error; points of accuracy where it begins so".into(),
        linear: false,
    };
    let names: Vec<String> =
        found.first().map(|of| of.iter().map(|(name, _)| name.clone()).collect()).unwrap_or_default();
    for (at, name) in names.iter().enumerate() {
        document.curves.push(Curve {
            name: name.clone(),
            role: if name.ends_with("_error") { CurveRole::Attack } else { CurveRole::Measured },
            of: None,
            x: strengths.iter().map(|s| *s as f64).collect(),
            mean: found.iter().map(|of| of[at].1).collect(),
            standard_error: None,
            spread: None,
        });
    }
    for (attack, preset) in ATTACKS {
        document.attacks.push(AttackFacts {
            curve: attack.into(),
            method: Method::GradientInversion.to_string(),
            settings: [("preset".to_owned(), preset.to_owned())].into(),
            records: drawn.records(),
            // With the training of the models, which both share.
            cpu_seconds: cpu.as_secs_f64() / ATTACKS.len() as f64,
        });
        document.checks.extend(checks(&document, attack));
    }
    document.model.origin = ModelOrigin::EachSplit { config: config.values().clone() };
    let of_test = document.curve("accuracy_inference").map_or(&[][..], |curve| curve.mean.as_slice());
    document.model.accuracy = mean(of_test.iter().copied()).mean / 100.0;
    document.notes = vec![
        format!(
            "P's networks: d → 128 → 64 (relu) at each of two parties, residual networks on images of CIFAR, a linear top model; trained on \
             {} records with early stopping, a rate and batches of ours; columns in their order, the active party's first",
            records.1.len()
        ),
        "privee_dp and privee_dp_pp are as the authors' code draws them: one draw for all records, u from parts of [0, 3]; aware divides by \
         the mean scale of each rank before it attacks"
            .into(),
        "order-preserving ciphertexts stand for scores by their rank among all values, scaled to [0, 1]: an attack needs numbers".into(),
    ];
    Ok(document)
}

/// How P's networks are trained here.
fn training(subject: &Subject, options: &Options) -> Result<TrainingConfig, ReproduceError> {
    let wrong = |e: &dyn std::fmt::Display| failed(0, e.to_string());
    let name: DatasetName = subject.dataset.name.parse().map_err(|e| wrong(&e))?;
    let residual = matches!(name, DatasetName::Cifar10 | DatasetName::Cifar100);
    let (kind, settings) = match name.image().filter(|_| residual) {
        Some(shape) => ("residual", serde_json::json!({ "channels": shape.channels, "height": shape.height })),
        None => ("mlp", serde_json::json!({ "hidden": [128], "activation": "relu" })),
    };
    let settings = settings.as_object().cloned().unwrap_or_default();
    let model = ModelConfig::new(Combiner::Concat, kind, Some(64), settings).map_err(|e| wrong(&e))?;
    let epochs = if residual { 12 } else { 40 };
    let values = TrainingValues {
        epochs,
        batch_size: 128,
        learning_rate: 1e-3,
        l2: 1e-4,
        patience: 5,
        seed: options.seed,
        model,
        ..TrainingValues::default()
    };
    Ok(TrainingConfig::try_from(values)?)
}

fn failed(d: usize, reason: String) -> ReproduceError {
    ReproduceError::Failed { what: "training P's networks", d, k0: 0, reason }
}

/// One strength: a model, and every attack behind every defense.
fn one(
    subject: &Subject,
    drawn: &Drawn,
    config: &TrainingConfig,
    records: &(DMatrix<f64>, Vec<u32>),
    strength: usize,
    seed: u64,
) -> Result<Found, ReproduceError> {
    let model = Model::train(subject, config, records, strength)?;
    let d = model.passive.len();
    let n = drawn.records();
    let (y, logits) = model.served(&drawn.x)?;
    let (_, test_logits) = model.served(subject.test_records())?;
    let truth = select(&drawn.x, &model.passive, n);
    let undefended = accuracy(&predicted(&test_logits)?, &subject.labels)?;
    let mut out: Found = vec![
        ("accuracy_train".into(), 100.0 * model.accuracy[0]),
        ("accuracy_inference".into(), 100.0 * model.accuracy[1]),
    ];
    let half = squared_error_by_record(&DMatrix::from_element(d, n, 0.5), &truth)?;
    out.push(("half_error".into(), mean(half.iter().copied()).mean));
    let mut releases = Vec::new();
    for (name, policy) in DEFENSES {
        let policy: Policy = policy.parse().map_err(|e| failed(d, format!("{e}")))?;
        let all = released(&policy, &test_logits)?;
        let kept = accuracy(&all.predicted_labels(), &subject.labels)?;
        out.push((format!("accuracy_change_{name}"), 100.0 * (kept - undefended)));
        releases.push((name, numbers(released(&policy, &logits)?)));
    }
    if let Some((_, ReleasedScores::Numbers(p))) = releases.iter().find(|(name, _)| *name == "privee_dp") {
        releases.push((AWARE, ReleasedScores::Probabilities(undone(p))));
    }
    for (place, (attack, preset)) in ATTACKS.into_iter().enumerate() {
        let settings = Settings::read([("preset", preset)])?;
        for (name, release) in &releases {
            let off = |error| ReproduceError::Attack { curve: format!("{attack}_{name}"), d, k0: 0, error };
            let view = AdversaryView::new(&model.known, &y, release, Replacement::default()).map_err(off)?;
            let mut rng = generator(seed, Purpose::Attack, (place as u64) << 40 | strength as u64);
            let built = Method::GradientInversion.build(&settings);
            let found = built.reconstruct(&view, &mut rng).map_err(off)?.estimates;
            let loss = view.score_mismatch(&found).map_err(off)?.squared_error.unwrap_or(f64::NAN);
            let errors = squared_error_by_record(&found, &truth)?;
            let error = mean(errors.iter().copied()).mean;
            if !loss.is_finite() || !error.is_finite() {
                return Err(ReproduceError::NotFinite { curve: format!("{attack}_{name}"), d, k0: 0 });
            }
            out.push((format!("{attack}_{name}"), loss));
            out.push((format!("{attack}_{name}_error"), error));
        }
    }
    Ok(out)
}

impl Model {
    fn train(
        subject: &Subject,
        config: &TrainingConfig,
        (x, labels): &(DMatrix<f64>, Vec<u32>),
        strength: usize,
    ) -> Result<Self, ReproduceError> {
        let total = subject.features();
        let d = (total - (total * strength + 50) / 100).clamp(1, total - 1);
        let split = VerticalSplit::window(total - d, d, total)?;
        let passive: Vec<usize> = split.passive().iter().flat_map(|p| p.columns.iter().copied()).collect();
        let active = split.active().to_vec();
        let off = |e: &dyn std::fmt::Display| failed(d, e.to_string());
        let k = subject.classes();
        let learner = |columns: &[usize], is_active| {
            let block = FeatureBlock::new(select(x, columns, x.ncols()))?;
            PartyLearner::new(config, k, block, is_active).map_err(|e| off(&e))
        };
        let parties = vec![learner(&active, true)?, learner(&passive, false)?];
        let trained = Together::train(config, k, parties, labels, start(config)).map_err(|e| off(&e))?;
        let mut models = trained.sub_models().map_err(|e| off(&e))?.into_iter();
        let top = trained.top().map_err(|e| off(&e))?;
        let (Some(own), Some(part), Some(top)) = (models.next(), models.next(), top) else {
            return Err(off(&"there are no sub-models under a top model"));
        };
        let (own, part, top): (Arc<dyn SubModel>, Arc<dyn SubModel>, Arc<dyn SubModel>) =
            (own.into(), part.into(), top.into());
        let network = KnownNetwork::under_top(vec![part.clone()], top.clone());
        let width = active.len() + own.spec().width() as usize;
        let known =
            network.and_then(|network| KnownModel::of_network(DMatrix::zeros(k, width), DVector::zeros(k), network));
        let known = known.map_err(|error| ReproduceError::Attack { curve: "the model".into(), d, k0: 0, error })?;
        let mut model = Self { active, passive, own, part, top, known, accuracy: [0.0; 2] };
        for (at, (x, labels)) in [(x, labels), (subject.test_records(), &subject.labels)].into_iter().enumerate() {
            model.accuracy[at] = accuracy(&predicted(&model.served(x)?.1)?, labels)?;
        }
        Ok(model)
    }

    /// The adversary's features of records (d_t × n), its embeddings below them, and the logits.
    fn served(&self, x: &DMatrix<f64>) -> Result<(FeatureBlock, DMatrix<f64>), ReproduceError> {
        let y = select(x, &self.active, x.ncols());
        let own = self.own.outputs(&y)?;
        let part = self.part.outputs(&select(x, &self.passive, x.ncols()))?;
        let logits = self.top.outputs(&stacked(own.matrix(), part.matrix()))?;
        Ok((FeatureBlock::new(stacked(&y, own.matrix()))?, LogitShare::into_matrix(logits)))
    }
}

/// One matrix on top of another.
fn stacked(above: &DMatrix<f64>, below: &DMatrix<f64>) -> DMatrix<f64> {
    let rows = above.nrows();
    let mut out = above.clone().resize_vertically(rows + below.nrows(), 0.0);
    out.rows_mut(rows, below.nrows()).copy_from(below);
    out
}

fn predicted(logits: &DMatrix<f64>) -> Result<Vec<u32>, ReproduceError> {
    let scores = ConfidenceScores::softmax(Logits::new(logits.clone())?);
    Ok(ReleasedScores::Probabilities(scores.into_matrix()).predicted_labels())
}

/// What a policy releases.
fn released(policy: &Policy, logits: &DMatrix<f64>) -> Result<ReleasedScores, ReproduceError> {
    let failed = |error: DefenseError| ReproduceError::Defense { defense: policy.to_string(), error };
    let pipeline = Pipeline::build(&policy.defenses, logits.nrows(), &Grants::default()).map_err(failed)?;
    Ok(pipeline.release(Logits::new(logits.clone())?, Noise::fresh([7; 32])).map_err(failed)?.released)
}

/// Ciphertexts keep their order: their ranks among all, from 0 to 1, stand for scores.
fn numbers(released: ReleasedScores) -> ReleasedScores {
    let ReleasedScores::Ciphertexts(cipher) = released else { return released };
    let mut values: Vec<_> = cipher.iter().copied().collect();
    values.sort_unstable();
    values.dedup();
    let last = (values.len().max(2) - 1) as f64;
    let rank = |value| values.binary_search(&value).unwrap_or_default() as f64 / last;
    ReleasedScores::Numbers(cipher.map(rank))
}

/// PRIVEE divided out in the mean: p + 2/K = c (1 + σ u), u from the part of [0, 3] that belongs to the rank of c.
fn undone(p: &DMatrix<f64>) -> DMatrix<f64> {
    let (k, sigma) = (p.nrows() as f64, gaussian_scale(SCALE.0, SCALE.1, SCALE.2));
    let mut out = p.clone();
    for mut column in out.column_iter_mut() {
        let mut order: Vec<usize> = (0..column.len()).collect();
        order.sort_by(|a, b| column[*a].total_cmp(&column[*b]));
        for (rank, at) in order.into_iter().enumerate() {
            let scale = 1.0 + sigma * UP_TO * (rank as f64 + 0.5) / k;
            column[at] = ((column[at] + 2.0 / k) / scale).max(0.0);
        }
        let sum = column.sum();
        if sum > 0.0 {
            column /= sum;
        }
    }
    out
}

/// What the loss hides (ours): behind PRIVEE it grows many times over, and the error of the features does not.
fn checks(document: &Document, attack: &str) -> Option<Check> {
    let of = |name: &str| document.curve(&format!("{attack}_{name}")).map(|curve| curve.mean.as_slice());
    let (loss, loss_none) = (of("privee_dp")?, of("none")?);
    let (error, error_none, aware) = (of("privee_dp_error")?, of("none_error")?, of("privee_dp_aware_error")?);
    let told: Vec<String> = document
        .axis
        .points
        .iter()
        .enumerate()
        .map(|(i, strength)| {
            format!(
                "{strength} %: loss {:.3} from {:.3}, error {:.4} from {:.4}, {:.4} for who knows it",
                loss[i], loss_none[i], error[i], error_none[i], aware[i]
            )
        })
        .collect();
    Some(Check {
        kind: CheckKind::Ours,
        claim: format!("{attack}: behind PRIVEE the loss grows more than the error of the features (errata P1)"),
        holds: (0..loss.len()).all(|i| loss[i] / loss_none[i].max(1e-12) > error[i] / error_none[i].max(1e-12)),
        comparisons: loss.len() as u64,
        detail: told.join("; "),
        violations: Vec::new(),
    })
}
