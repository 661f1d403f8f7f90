//! One model trained and served by more and more parties: the cost and the accuracy.

use std::time::Instant;

use serde::Serialize;
use vfl_core::model::TrainingConfig;
use vfl_core::types::RecordIds;
use vfl_datasets::set_facts::SetFacts;
use vfl_datasets::{Dataset, ImageShape, VerticalSplit, partition, passive_names};
use vfl_passive_party::config::ReleasePolicy;
use vfl_protocol::training::messages::Progress;
use vfl_testbed::deployment::{Deployment, DeploymentSpec, Help, active_name, consent};
use vfl_transform::TransformConfig;

/// The number of untimed predictions before the timed ones.
const WARM: usize = 50;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct ScalePlan {
    /// The numbers of parties, including the active one, at least 2 each.
    pub parties: Vec<usize>,
    /// The model and its training settings.
    pub training: TrainingConfig,
    /// The image shape by which images are divided by columns of pixels, so that each part is an
    /// image; `None`: features are divided in their order.
    pub image_parts: Option<ImageShape>,
    /// The number of training records; `None`: all.
    pub records: Option<usize>,
    /// The number of timed predictions of one record.
    pub predictions: usize,
    /// The seed of the order of the parties' rows.
    pub seed: u64,
}

/// The state after one epoch.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct EpochAt {
    /// The number of the epoch, from 1.
    pub epoch: u32,
    /// Seconds since the training began.
    pub seconds: f64,
    /// The accuracy on the validation records.
    pub validation_accuracy: Option<f64>,
}

/// The results for one number of parties.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The facts about the data set.
    #[serde(flatten)]
    pub set: SetFacts,
    /// The number of parties, including the active one.
    pub parties: usize,
    /// The number of features of the party with the most.
    pub most_features: usize,
    /// The number of outputs of all parties for one record.
    pub outputs: usize,
    /// The accuracy on all test records, through the active party's service.
    pub test_accuracy: f64,
    /// The number of gradient steps.
    pub steps: u64,
    /// Seconds from the request to the model in service.
    pub seconds: f64,
    /// The same time per step, in milliseconds; it includes validation and publishing.
    pub step_ms: f64,
    /// Bytes of the outputs and gradients of one training record in one step.
    pub training_bytes: usize,
    /// Bytes of the outputs of one record in one prediction.
    pub prediction_bytes: usize,
    /// The median time of a prediction of one record, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of that time, in milliseconds.
    pub p99_ms: f64,
    /// The state after each epoch.
    pub curve: Vec<EpochAt>,
}

/// Splits the columns between `parties` parties.
///
/// # Errors
/// If there are fewer columns than parties.
pub fn split(
    dataset: &Dataset,
    image: Option<ImageShape>,
    parties: usize,
) -> anyhow::Result<VerticalSplit> {
    let in_order = ImageShape { channels: 1, height: 1, width: dataset.features().len() };
    Ok(VerticalSplit::image_columns(
        image.unwrap_or(in_order),
        &passive_names(parties.saturating_sub(1))?,
    )?)
}

/// Trains and serves with each number of parties, over sockets of this machine, one after the
/// other.
///
/// # Errors
/// An error that names the step that failed.
pub async fn run(
    dataset: &Dataset,
    plan: &ScalePlan,
    mut at_epoch: impl FnMut(usize, &Progress) + Send,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &parties in &plan.parties {
        rows.push(one(dataset, plan, parties, |p| at_epoch(parties, p)).await?);
    }
    Ok(rows)
}

async fn one(
    dataset: &Dataset,
    plan: &ScalePlan,
    parties: usize,
    mut at_epoch: impl FnMut(&Progress) + Send,
) -> anyhow::Result<Row> {
    let split = split(dataset, plan.image_parts, parties)?;
    let columns = split.passive().iter().map(|p| p.columns.len()).chain([split.active().len()]);
    let most_features = columns.max().unwrap_or_default();
    let state = tempfile::tempdir()?;
    let deployment = Deployment::start(DeploymentSpec {
        tables: partition::divide(dataset, &split, plan.seed)?,
        state_dir: state.path().to_owned(),
        defenses: Vec::new(),
        release: ReleasePolicy::default(),
        training_transform: TransformConfig::None {},
        consent: consent(&active_name(), dataset.class_names().len()),
        audits: false,
        help: Help::default(),
        active_privacy: None,
        alignment: None,
        serving: Default::default(),
        outputs: None,
        monitoring: Default::default(),
    })
    .await?;
    let k = dataset.class_names().len();
    let train = &dataset.split().train;
    let ids = dataset.ids().select(&train[..plan.records.unwrap_or(train.len()).min(train.len())]);
    let (begun, mut curve) = (Instant::now(), Vec::new());
    let published = deployment
        .train(&plan.training, &ids, |p| {
            let seconds = begun.elapsed().as_secs_f64();
            curve.push(EpochAt {
                epoch: p.epoch,
                seconds,
                validation_accuracy: p.validation_accuracy,
            });
            at_epoch(p);
        })
        .await?;
    let seconds = begun.elapsed().as_secs_f64();
    let test = dataset.ids().select(&dataset.split().test);
    let test_accuracy = crate::accuracy(&deployment, dataset, &test).await?;
    let (p50_ms, p99_ms) = latency(&deployment, &test, k, plan.predictions).await?;
    deployment.stop().await?;
    let width = plan.training.values().model.sub_model(u32::try_from(k)?)?.width() as usize;
    let outputs = width * parties;
    Ok(Row {
        set: SetFacts::of(dataset),
        parties,
        most_features,
        outputs,
        test_accuracy,
        steps: published.steps,
        seconds,
        step_ms: 1e3 * seconds / published.steps.max(1) as f64,
        training_bytes: 2 * 8 * outputs,
        prediction_bytes: 8 * outputs,
        p50_ms,
        p99_ms,
        curve,
    })
}

/// Measures the times of predictions of one record, one after the other.
async fn latency(
    deployment: &Deployment,
    test: &RecordIds,
    k: usize,
    predictions: usize,
) -> anyhow::Result<(f64, f64)> {
    let mut client = deployment.active_client()?;
    let mut times = Vec::with_capacity(predictions);
    for n in 0..WARM + predictions {
        let at = n % test.len().max(1);
        let one = test.slice(at, at + 1);
        let begun = Instant::now();
        client.predict(&one, k).await?;
        if n >= WARM {
            times.push(1e3 * begun.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        times.get((q * times.len() as f64) as usize).or(times.last()).copied().unwrap_or(f64::NAN)
    };
    Ok((quantile(0.5), quantile(0.99)))
}
