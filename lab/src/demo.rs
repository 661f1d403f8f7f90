//! The whole way once: data split by columns, three services over loopback sockets, a model trained, served, attacked and
//! defended, and a report.

mod command;
mod facts;
mod plan;
mod records;

use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};
use vfl_active_party::attack::{AttackConfig, Method};
use vfl_coordinator::registry::TrainingSummary;
use vfl_passive_party::config::{Grant, ReleasePolicy, TrainingPolicy};
use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::{self, Dataset, DatasetName, VerticalSplit, partition};
use vfl_shared::files::write_atomic;
use vfl_shared::hex;
use vfl_shared::model::TrainingConfig;
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::policy::Policy;
use vfl_shared::training::messages::Published;
use vfl_shared::types::{PartyName, RecordIds};

pub use facts::{deployment_facts, surfaces};
pub use plan::{DEFAULT_EPOCHS, DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DemoPlan, default_policies, every_policy};

use command::{command, names as metric_names};
use facts::{draws_from_the_os, privacy_notes};
use records::Records;

use crate::audit::{self, Findings, Plan};
use crate::deployment::{Deployment, DeploymentSpec, Help, WholeModel, active_name, consent, white_box};
use crate::progress::{Progress, say};
use crate::report::{
    DataFacts, DefenseKnowledge, Generated, MetricFacts, Policy as PolicyFacts, PrivateTraining, Report, Sweep,
    SweepError, SweepPoint, ThreatModel,
};
use crate::set_facts::SetFacts;

/// The attacks that the sweep shows.
const SWEPT: [Method; 4] =
    [Method::LeastSquares, Method::ClampedLeastSquares, Method::HalfStar, Method::ClampedHalfStar];

/// Records scored at each point of the sweep.
const SWEEP_RECORDS: usize = 500;

/// Names of the passive parties of a demo.
pub(crate) fn names(parties: usize) -> anyhow::Result<Vec<PartyName>> {
    Ok((1..=parties).map(|i| PartyName::new(format!("passive-{i}"))).collect::<Result<_, _>>()?)
}

/// How the columns of a data set are dealt out.
///
/// # Errors
/// If there are not enough columns for the parties.
pub fn vertical_split(
    dataset: &Dataset,
    first_column: usize,
    passive_features: Option<usize>,
    parties: usize,
) -> anyhow::Result<VerticalSplit> {
    let total = dataset.features().len();
    // An image is cut into images.
    let image = dataset.name().parse().ok().and_then(DatasetName::image);
    if let (Some(shape), None) = (image, passive_features) {
        return Ok(VerticalSplit::image_columns(shape, &names(parties)?)?);
    }
    let d = passive_features.unwrap_or_else(|| (dataset.class_names().len() - 1).max(parties).min(total));
    Ok(VerticalSplit::shared_window(first_column, d, total, &names(parties)?)?)
}

/// A deployment of a demonstration, with a model in service.
pub(crate) struct Served {
    /// The parties.
    pub(crate) deployment: Deployment,
    /// All records.
    pub(crate) dataset: Dataset,
    split: VerticalSplit,
    records: Records,
    published: Published,
    training_ids: RecordIds,
    /// Where the parties keep their state.
    _state: tempfile::TempDir,
}

impl Served {
    /// The records to attack, in the order in which they were drawn.
    pub(crate) fn audited(&self) -> RecordIds {
        self.dataset.ids().select(&self.records.audited)
    }

    /// The records that an adversary knows whole; `None` for none.
    pub(crate) fn known(&self) -> Option<RecordIds> {
        self.records.known_ids(&self.dataset)
    }
}

/// Splits the data, starts the services, and trains over the sockets.
///
/// # Errors
/// Whatever stops it, named.
pub(crate) async fn serve(plan: &DemoPlan) -> anyhow::Result<Served> {
    let dataset = data::load(&plan.data)?;
    let split = vertical_split(&dataset, plan.first_column, plan.passive_features, plan.passive_parties)?;
    let d: usize = split.passive().iter().map(|p| p.columns.len()).sum();
    say(&format!(
        "{} ({} active, {d} passive), {} records, {} classes",
        SetFacts::of(&dataset),
        split.active().len(),
        dataset.records(),
        dataset.class_names().len()
    ));
    let state = tempfile::tempdir()?;
    let release = match plan.transform {
        // What scores give away to one that knows no parameter is the first question of a network.
        _ if !plan.linear() && !plan.show_network => ReleasePolicy::default(),
        TransformConfig::None {} => white_box(),
        ref transform => ReleasePolicy { to_active_party: Grant::Transformed(transform.clone()), ..white_box() },
    };
    let training_transform = plan.training_transform.clone();
    let as_they_are = [&plan.transform, &plan.training_transform].into_iter().all(|t| *t == TransformConfig::None {});
    let known = if as_they_are { plan.known_records } else { 0 };
    let records = Records::draw(&dataset, plan.records, known, plan.seed);
    let help = Help { known: records.table(&dataset, &split)?, moments: true, ..Help::default() };
    let shown = (release, training_transform, plan.privacy);
    let deployment = deploy(&dataset, &split, state.path(), plan.seed, shown, help).await?;
    let parties = plan.passive_parties;
    say(&format!("{} services are up on loopback, mutual TLS between all of them", 2 + parties));

    let training_ids = dataset.ids().select(&dataset.split().train);
    let epochs = plan.training.values().epochs;
    let mut bar = Progress::start("training over the sockets", epochs.into());
    let published = deployment
        .train(&plan.training, &training_ids, |p| {
            bar.at(p.epoch.into(), &format!("loss {:.4}", p.validation_loss.unwrap_or(p.training_loss)));
        })
        .await?;
    bar.done(&format!(
        "model {} is in service: {} steps, epoch {} of {} published",
        published.version, published.steps, published.best_epoch, published.epochs
    ));
    privacy_notes(&published.privacy).iter().for_each(|note| say(note));
    Ok(Served { deployment, dataset, split, records, published, training_ids, _state: state })
}

/// Runs the demo and gives the report.
///
/// # Errors
/// Whatever stops it, named.
pub async fn run(plan: &DemoPlan) -> anyhow::Result<Report> {
    let served = serve(plan).await?;
    let (audited, known) = (served.audited(), served.known());
    let Served { deployment, dataset, split, published, training_ids, _state, .. } = served;
    let test_accuracy = test_accuracy(&deployment, &dataset).await?;
    let audit_plan = Plan {
        training_ids: Some(training_ids.slice(0, TRAINING_RECORDS)).filter(|ids| ids.len() >= 100),
        queries: 100,
        ..audit_plan(plan, &audited, known)
    };
    let mut bar =
        Progress::start("attacking and scoring", (audit_plan.policies.len() * Method::general().count()) as u64);
    let findings = audit::run(&deployment.targets(), &audit_plan, |done, _, stage| bar.at(done as u64, stage)).await?;
    bar.done(&format!(
        "{} attacks against {} defenses on {} records",
        Method::general().count(),
        plan.policies.len(),
        audited.len()
    ));

    // A model of transformed features cannot be dealt out in other columns, nor can a network.
    let whole = match plan.sweep && plan.linear() && plan.training_transform == (TransformConfig::None {}) {
        true => Some(gather(&deployment, &dataset, &split, &published, plan, &training_ids)?),
        false => None,
    };
    deployment.stop().await?;
    let sweep = match &whole {
        Some(whole) => Some(sweep(&dataset, whole, plan, &audited).await?),
        None => None,
    };
    let mut private_trainings = Vec::with_capacity(plan.private_trainings.len());
    for (privacy, training) in &plan.private_trainings {
        private_trainings.push(private_training(plan, *privacy, training).await?);
    }
    let mut report = report(plan, &dataset, &split, &findings, test_accuracy, sweep);
    report.private_trainings = private_trainings;
    report.notes.extend(privacy_notes(&published.privacy));
    Ok(report)
}

/// The plan of an audit: every general attack, and where records are known, those that know them.
fn audit_plan(plan: &DemoPlan, audited: &RecordIds, known: Option<RecordIds>) -> Plan {
    // Named, so that known records serve for nothing else: the parameters are known.
    let informed = if known.is_some() { audit::informed_attacks() } else { Vec::new() };
    let attacks = Method::general().chain([Method::Agnostic]).map(AttackConfig::from).chain(informed).collect();
    Plan {
        aware: true,
        metrics: plan.metrics.clone(),
        help: audit::Help { auxiliary_ids: known, ..Default::default() },
        ..Plan::of(audited.clone(), plan.policies.clone(), attacks, plan.seed)
    }
}

/// Accuracy of the live service on all test records.
async fn test_accuracy(deployment: &Deployment, dataset: &Dataset) -> anyhow::Result<f64> {
    let test_ids = dataset.ids().select(&dataset.split().test);
    let found = accuracy(deployment, dataset, &test_ids).await?;
    say(&format!("accuracy on {} test records: {found:.4}", test_ids.len()));
    Ok(found)
}

/// Deploys the same data and split once more, trains with privacy, and audits the exact scores by the same adversaries.
async fn private_training(
    plan: &DemoPlan,
    privacy: PrivacyConfig,
    training: &TrainingConfig,
) -> anyhow::Result<PrivateTraining> {
    let noise = privacy.values().noise;
    say(&format!("once more, trained with noise {noise}"));
    let plan = DemoPlan {
        privacy: Some(privacy),
        training: training.clone(),
        policies: vec![Policy::default()],
        private_trainings: Vec::new(),
        ..plan.clone()
    };
    let served = serve(&plan).await?;
    let (audited, known) = (served.audited(), served.known());
    let Served { deployment, dataset, published, _state, .. } = served;
    let test_accuracy = test_accuracy(&deployment, &dataset).await?;
    let findings = audit::run(&deployment.targets(), &audit_plan(&plan, &audited, known), |_, _, _| ()).await?;
    deployment.stop().await?;
    // Every party states the same: the updates, clip and noise are theirs in common.
    let stated = published.privacy.iter().map(|(_, stated)| *stated).max_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
    let privacy =
        stated.ok_or_else(|| anyhow::anyhow!("no party states the privacy it trained with (noise {noise})"))?;
    Ok(PrivateTraining { privacy, test_accuracy, audits: findings.audits })
}

async fn deploy(
    dataset: &Dataset,
    split: &VerticalSplit,
    state: &Path,
    seed: u64,
    (release, training_transform, privacy): (ReleasePolicy, TransformConfig, Option<PrivacyConfig>),
    help: Help,
) -> anyhow::Result<Deployment> {
    // A report is the same for the same seed, noise and all.
    let secret = Sha256::digest(format!("the noise of a demonstration, seed {seed}"));
    let secret = hex(secret);
    write_atomic(&state.join("coordinator").join("noise.secret"), secret.as_bytes(), true)?;
    Deployment::start(DeploymentSpec {
        tables: partition::divide(dataset, split, seed)?,
        state_dir: state.to_owned(),
        defenses: Vec::new(),
        release,
        training_transform,
        consent: TrainingPolicy { privacy, ..consent(&active_name(), dataset.class_names().len()) },
        audits: true,
        help,
        active_privacy: privacy,
        alignment: None,
        monitoring: Default::default(),
    })
    .await
}

/// Accuracy of the live service, asked through the active party as any client would.
pub(crate) async fn accuracy(deployment: &Deployment, dataset: &Dataset, ids: &RecordIds) -> anyhow::Result<f64> {
    let mut client = deployment.active_client()?;
    let k = dataset.class_names().len();
    let mut right = 0usize;
    for from in (0..ids.len()).step_by(8192) {
        let chunk = ids.slice(from, from + 8192);
        let released = client.predict(&chunk, k).await?;
        let positions = &dataset.split().test[from..];
        right +=
            released.predicted_labels().iter().zip(positions).filter(|(l, p)| **l == dataset.labels()[**p]).count();
    }
    Ok(right as f64 / ids.len().max(1) as f64)
}

/// Puts the trained model together from the parties' own files. Only the lab can: it made them all.
fn gather(
    deployment: &Deployment,
    dataset: &Dataset,
    split: &VerticalSplit,
    published: &Published,
    plan: &DemoPlan,
    training_ids: &RecordIds,
) -> anyhow::Result<WholeModel> {
    let (weights, bias) = deployment.whole_model(dataset, split, &published.version)?;
    Ok(WholeModel {
        weights,
        bias,
        class_names: dataset.class_names().to_vec(),
        summary: TrainingSummary {
            config: plan.training.clone(),
            epochs: published.epochs,
            best_epoch: published.best_epoch,
            steps: published.steps,
            training_records: published.training_records,
            validation_records: published.validation_records,
        },
        training_ids: training_ids.clone(),
    })
}

/// The numbers of passive features that the sweep visits: all of them when few, spread out when many.
fn sweep_points(total: usize) -> Vec<usize> {
    let most = (total * 9 / 10).max(1);
    if most <= 14 {
        return (1..=most).collect();
    }
    let mut points: Vec<usize> = (0..14).map(|i| 1 + i * (most - 1) / 13).collect();
    points.dedup();
    points
}

/// Error by number of passive features: the same model deployed under each split, audited over the sockets each time.
async fn sweep(dataset: &Dataset, whole: &WholeModel, plan: &DemoPlan, audited: &RecordIds) -> anyhow::Result<Sweep> {
    let total = dataset.features().len();
    let points = sweep_points(total);
    let ids = audited.slice(0, SWEEP_RECORDS);
    let mut bar = Progress::start("sweeping the number of passive features", points.len() as u64);
    let mut found = Vec::with_capacity(points.len());
    for (done, &d) in points.iter().enumerate() {
        bar.at(done as u64, &format!("d = {d}"));
        let split = vertical_split(dataset, plan.first_column, Some(d), 1)?;
        let state = tempfile::tempdir()?;
        let name = |columns: &[usize]| columns.iter().map(|&c| dataset.features()[c].name.clone()).collect::<Vec<_>>();
        let passive: Vec<_> =
            split.passive().iter().map(|p| (p.name.clone(), p.columns.clone(), name(&p.columns))).collect();
        whole.publish(state.path(), (split.active(), &name(split.active())), &passive)?;
        let none = TransformConfig::None {};
        let shown = (white_box(), none, None);
        let help = Help { moments: true, ..Help::default() };
        let deployment = deploy(dataset, &split, state.path(), plan.seed, shown, help).await?;
        let attacks = SWEPT.map(AttackConfig::from).to_vec();
        let audit_plan =
            Plan { metrics: Some(Vec::new()), ..Plan::of(ids.clone(), vec![Policy::default()], attacks, plan.seed) };
        let findings = audit::run(&deployment.targets(), &audit_plan, |_, _, _| ()).await?;
        deployment.stop().await?;
        let Some(audit) = findings.audits.first() else { continue };
        // What the owner plays comes last, without its control: that is the column mean of other records.
        let played = findings.audits.iter().filter(|audit| audit.threat_model.moments).flat_map(|a| &a.attacks);
        let attacks = audit.attacks.iter().chain(played.filter(|a| a.added_risk.is_some()).take(1));
        found.push(SweepPoint {
            d,
            half: audit.baselines.half.mse,
            column_mean: audit.baselines.column_mean.mse,
            attacks: attacks.map(|a| SweepError { name: a.name.clone(), mse: a.mse() }).collect(),
        });
    }
    bar.done(&format!("{} splits deployed and audited", found.len()));
    Ok(Sweep {
        policy: PolicyFacts::new("none"),
        threat_model: ThreatModel::white_box(DefenseKnowledge::Unknown),
        records: ids.len(),
        points: found,
    })
}

fn report(
    plan: &DemoPlan,
    dataset: &Dataset,
    split: &VerticalSplit,
    findings: &Findings,
    test_accuracy: f64,
    sweep: Option<Sweep>,
) -> Report {
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
    let source = match dataset.name() {
        "synthetic" => "seeded generator, nothing real",
        _ => "public data set",
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
    let mut report = Report::new(title, command, plan.seed, Generated::new(config), facts, deployment);
    report.surfaces = surfaces(findings);
    report.in_service = plan.policies.first().map(audit::facts);
    report.audits = findings.audits.clone();
    report.demand(plan.thresholds);
    report.scoring = findings.scoring.clone();
    report.metrics = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
    report.sweep = sweep;
    report.notes = vec![
        "Each defense meets two adversaries: one that takes the release for the true scores, and one that knows the defense. \
         An attack that is not listed may do better than both."
            .into(),
    ];
    let model = &plan.training.values().model;
    if !model.is_default() {
        let shown = match plan.show_network {
            true => "The active party is shown all of it. Attacks on equations take a linear model and did not run.",
            false => {
                "Its passive parameters are not released, so that attacks which need them did not run: what it gives away to \
                 one that learns them is not measured."
            }
        };
        let (kind, settings) = (model.kind(), serde_json::Value::Object(model.settings().clone()));
        report.notes.push(format!("The model is of kind `{kind}` with the settings {settings}. {shown}"));
    }
    if report.sweep.is_some() && plan.transform != (TransformConfig::None {}) {
        report.notes.push("The error by number of passive features is that of true parameters.".into());
    }
    if [&plan.transform, &plan.training_transform].into_iter().any(draws_from_the_os) {
        report.notes.push(
            "The transform is drawn from the operating system, not from the seed: another run has another.".into(),
        );
    }
    report
}

/// Records of the training that are attacked without a score.
const TRAINING_RECORDS: usize = 1000;
