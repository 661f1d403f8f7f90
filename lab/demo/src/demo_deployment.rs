//! The deployment of a demonstration: data split by columns, services over loopback sockets, and a
//! trained model.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use vfl_attack::{AttackConfig, Method};
use vfl_auditor::audit;
use vfl_auditor::audit::{Findings, Plan};
use vfl_auditor::report::privacy_notes;
use vfl_core::hex;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::types::{PartyName, RecordIds, ReleasedScores};
use vfl_datasets::set_facts::SetFacts;
use vfl_datasets::{Dataset, VerticalSplit, partition};
use vfl_passive_party::config::{Grant, ReleasePolicy, TrainingPolicy};
use vfl_passive_party::record_outputs::RecordOutputs;
use vfl_present::progress::{Progress, say};
use vfl_protocol::training::messages::PublishedVersion;
use vfl_state::files::write_atomic;
use vfl_testbed::deployment::{Deployment, DeploymentSpec, Help, active_name, consent, white_box};
use vfl_transform::TransformConfig;

use super::plan::DemoPlan;
use super::records::Records;

/// The number of training records that are attacked without a score.
const TRAINING_RECORDS: usize = 1000;

/// A deployment of a demonstration, with a model in service.
pub struct DemoDeployment {
    pub deployment: Deployment,
    /// The data set with all records.
    pub dataset: Dataset,
    /// The split of its columns.
    pub(super) split: VerticalSplit,
    records: Records,
    /// The coordinator's description of the model; `None` for one that was trained elsewhere.
    pub(super) published: Option<PublishedVersion>,
    pub(super) training_ids: RecordIds,
    /// The directory of the parties' state.
    _state: tempfile::TempDir,
}

impl DemoDeployment {
    /// Returns the records to attack, in the order in which they were drawn.
    pub fn audited(&self) -> RecordIds {
        self.dataset.ids().select(&self.records.audited)
    }

    /// Returns the records that an adversary knows with all features; `None` if there are none.
    pub fn known(&self) -> Option<RecordIds> {
        self.records.known_ids(&self.dataset)
    }

    /// Measures the accuracy of the live service on all test records; `None` for a model of a
    /// number.
    pub(super) async fn test_accuracy(&self) -> anyhow::Result<Option<f64>> {
        let test_ids = self.dataset.ids().select(&self.dataset.split().test);
        if self.dataset.is_of_numbers() {
            if let Some(share) = explained(&self.deployment, &self.dataset, &test_ids).await? {
                let count = test_ids.len();
                say(&format!(
                    "share of the label's variance explained on {count} test records: {share:.3}"
                ));
            }
            return Ok(None);
        }
        let found = accuracy(&self.deployment, &self.dataset, &test_ids).await?;
        say(&format!("accuracy on {} test records: {found:.4}", test_ids.len()));
        Ok(Some(found))
    }

    /// Returns the plan of an audit: every general attack, and if records are known, the attacks
    /// that use them.
    pub(super) fn plan(&self, plan: &DemoPlan) -> Plan {
        let known = self.known();
        // The attacks are named, so that known records serve only them: the parameters are known
        // already.
        let mut informed = if known.is_some() { audit::informed_attacks() } else { Vec::new() };
        if known.is_some() && plan.outputs.is_some() {
            informed.extend(linear_guesses());
        }
        let attacks = Method::general()
            .chain([Method::Agnostic])
            .map(AttackConfig::from)
            .chain(informed)
            .collect();
        Plan {
            aware: true,
            schema: plan.schema,
            metrics: plan.metrics.clone(),
            help: audit::Help { auxiliary_ids: known, ..Default::default() },
            ..Plan::of(self.audited(), plan.policies.clone(), attacks, plan.seed)
        }
    }

    /// Returns the same plan with an adversary that asks repeatedly, and with training records.
    pub(super) fn full_plan(&self, plan: &DemoPlan) -> Plan {
        let training_ids =
            Some(self.training_ids.slice(0, TRAINING_RECORDS)).filter(|ids| ids.len() >= 100);
        Plan { training_ids, queries: 100, ..self.plan(plan) }
    }

    /// Audits the deployment.
    pub(super) async fn audit(&self, plan: &Plan) -> anyhow::Result<Findings> {
        let (attacks, defenses, records) =
            (Method::general().count(), plan.policies.len(), plan.ids.len());
        let mut bar = Progress::start("attacking and scoring", (attacks * defenses) as u64);
        let found = audit::run(&self.deployment.targets(), plan, |done, _, stage| {
            bar.at(done as u64, stage)
        })
        .await?;
        bar.done(&match defenses {
            0 => format!("attacks without a score on {records} records"),
            _ => format!("{attacks} attacks against {defenses} defenses on {records} records"),
        });
        Ok(found)
    }
}

/// Returns the attacks on scores of a model that is not here, and that may be linear: a fit of the
/// known records shows it.
fn linear_guesses() -> impl Iterator<Item = AttackConfig> {
    ["lattice", "clamped_half_star"].into_iter().filter_map(|base| {
        let settings = [("base", base), ("shadow_bias", "all_unknown")];
        AttackConfig::new(Method::ShadowModel, settings).ok()
    })
}

/// Splits the data, starts the services, and trains over the sockets.
///
/// # Errors
/// An error that names the step that failed.
pub async fn serve(plan: &DemoPlan) -> anyhow::Result<DemoDeployment> {
    let dataset = plan.data.load_any()?;
    let split = vfl_datasets::vertical_split(
        &dataset,
        plan.first_column,
        plan.passive_features,
        plan.passive_parties,
    )?;
    let d: usize = split.passive().iter().map(|p| p.columns.len()).sum();
    say(&format!(
        "{} ({} active, {d} passive), {} records, {}",
        SetFacts::of(&dataset),
        split.active().len(),
        dataset.records(),
        match dataset.is_of_numbers() {
            true => "a number".to_owned(),
            false => format!("{} classes", dataset.class_names().len()),
        }
    ));
    let state = tempfile::tempdir()?;
    let release = match plan.transform {
        // Whatever gave the scores, its parameters are not here.
        _ if plan.outputs.is_some() => ReleasePolicy::default(),
        // For a network, the first question is what scores reveal to an adversary without its
        // parameters.
        _ if !plan.linear() && !plan.show_network => ReleasePolicy::default(),
        TransformConfig::None {} => white_box(),
        ref transform => {
            ReleasePolicy { to_active_party: Grant::Transformed(transform.clone()), ..white_box() }
        }
    };
    let training_transform = plan.training_transform.clone();
    let as_they_are = [&plan.transform, &plan.training_transform]
        .into_iter()
        .all(|t| *t == TransformConfig::None {});
    let known = if as_they_are { plan.known_records } else { 0 };
    let records = Records::draw(&dataset, plan.records, known, plan.seed);
    let help = Help { known: records.table(&dataset, &split)?, moments: true, ..Help::default() };
    let shown = (release, training_transform, plan.privacy);
    if let Some(model) = &plan.imported {
        model.whole()?.publish(state.path(), &dataset, &split)?;
    }
    let given = (help, plan.outputs.clone());
    let deployment = deploy(&dataset, &split, state.path(), plan.seed, shown, given).await?;
    let parties = plan.passive_parties;
    say(&format!("{} services are up on loopback, mutual TLS between all of them", 2 + parties));

    let mut training_ids = dataset.ids().select(&dataset.split().train);
    let published = match plan.imported {
        None => Some(train(&deployment, plan, &training_ids).await?),
        Some(_) => {
            say(match plan.outputs {
                None => "the model of the parameter file is in service",
                Some(_) => "the scores of the file are in service",
            });
            training_ids = RecordIds::default();
            None
        }
    };
    Ok(DemoDeployment {
        deployment,
        dataset,
        split,
        records,
        published,
        training_ids,
        _state: state,
    })
}

/// Trains over the sockets.
async fn train(
    deployment: &Deployment,
    plan: &DemoPlan,
    training_ids: &RecordIds,
) -> anyhow::Result<PublishedVersion> {
    let epochs = plan.training.values().epochs;
    let mut bar = Progress::start("training over the sockets", epochs.into());
    let published = deployment
        .train(&plan.training, training_ids, |p| {
            bar.at(p.epoch.into(), &p.words());
        })
        .await?;
    bar.done(&format!(
        "model {} is in service: {} steps, epoch {} of {} published",
        published.version, published.steps, published.best_epoch, published.epochs
    ));
    privacy_notes(&published.privacy).iter().for_each(|note| say(note));
    Ok(published)
}

pub(super) async fn deploy(
    dataset: &Dataset,
    split: &VerticalSplit,
    state: &Path,
    seed: u64,
    (release, training_transform, privacy): (ReleasePolicy, TransformConfig, Option<PrivacyConfig>),
    (help, outputs): (Help, Option<Arc<RecordOutputs>>),
) -> anyhow::Result<Deployment> {
    // A report must be the same for the same seed, noise included.
    let secret = Sha256::digest(format!("the noise of a demonstration, seed {seed}"));
    let secret = hex(secret);
    write_atomic(&state.join("coordinator").join("noise.secret"), secret.as_bytes(), true)?;
    Deployment::start(DeploymentSpec {
        tables: partition::divide(dataset, split, seed)?,
        state_dir: state.to_owned(),
        defenses: Vec::new(),
        release,
        training_transform,
        consent: TrainingPolicy {
            privacy,
            min_records: fewest_records(dataset),
            min_batch: fewest_batch(dataset),
            computing_party: computing_party(split.passive().iter().map(|party| &party.name)),
            ..consent(&active_name(), dataset.class_names().len())
        },
        audits: true,
        help,
        active_privacy: privacy,
        alignment: None,
        serving: Default::default(),
        outputs,
        monitoring: Default::default(),
    })
    .await
}

/// Returns the fewest records of a training that a passive party must accept for this data set: the
/// default of 1000, or all of a smaller one.
pub(super) fn fewest_records(dataset: &Dataset) -> u32 {
    dataset.split().train.len().min(1000) as u32
}

/// Returns the fewest records of a batch, or of those set aside, likewise.
pub(super) fn fewest_batch(dataset: &Dataset) -> u32 {
    (dataset.split().train.len() / 11).clamp(1, 64) as u32
}

/// Returns the passive party that computes on shares: the first by name, as the coordinator takes
/// it.
pub(super) fn computing_party<'a>(names: impl Iterator<Item = &'a PartyName>) -> Option<PartyName> {
    names.min().cloned()
}

/// Measures the share of the label's variance that the live service explains, R²; `None` if the
/// numbers are not known.
async fn explained(
    deployment: &Deployment,
    dataset: &Dataset,
    ids: &RecordIds,
) -> anyhow::Result<Option<f64>> {
    let Some((_, numbers)) = dataset.numbers() else { return Ok(None) };
    let truth: Vec<f64> = dataset.split().test.iter().map(|&record| numbers[record]).collect();
    let mean = truth.iter().sum::<f64>() / truth.len().max(1) as f64;
    let mut client = deployment.active_client()?;
    let (mut left, mut all, mut at) = (0.0, 0.0, 0);
    for from in (0..ids.len()).step_by(8192) {
        let released = client.predict(&ids.slice(from, from + 8192), 1).await?;
        let ReleasedScores::Numbers(predicted) = released else { return Ok(None) };
        for predicted in &predicted {
            left += (truth[at] - predicted).powi(2);
            all += (truth[at] - mean).powi(2);
            at += 1;
        }
    }
    Ok((all > 0.0).then(|| 1.0 - left / all))
}

/// Measures the accuracy of the live service through the active party, as any client would.
pub(crate) async fn accuracy(
    deployment: &Deployment,
    dataset: &Dataset,
    ids: &RecordIds,
) -> anyhow::Result<f64> {
    let mut client = deployment.active_client()?;
    let k = dataset.class_names().len();
    let mut right = 0usize;
    for from in (0..ids.len()).step_by(8192) {
        let chunk = ids.slice(from, from + 8192);
        let released = client.predict(&chunk, k).await?;
        let positions = &dataset.split().test[from..];
        right += released
            .predicted_labels()
            .iter()
            .zip(positions)
            .filter(|(l, p)| **l == dataset.labels()[**p])
            .count();
    }
    Ok(right as f64 / ids.len().max(1) as f64)
}
