//! A model trained by three parties over sockets, and its served scores.
//!
//! The parties are those of [`vfl_testbed::deployment`]: mutual TLS between all of them, half of
//! the columns at the active party and half at one passive party. The result does not depend on
//! which party holds which column, so one deployment gives the model and the scores of every split
//! of a figure.

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::model::TrainingConfig;
use vfl_core::types::ReleasedScores;
use vfl_datasets::{Dataset, VerticalSplit, partition};
use vfl_papers::{ReproduceError, ServedModel};
use vfl_present::progress::Progress;
use vfl_state::files::write_atomic;
use vfl_testbed::deployment::{Deployment, DeploymentSpec, active_name, consent, white_box};
use vfl_transform::TransformConfig;

/// The number of records in one call for scores.
const CHUNK: usize = 8192;

/// Starts the parties, trains on the records of the data set's training part, and requests the
/// scores of the records at `test`.
///
/// # Errors
/// [`ReproduceError::Sockets`] with the cause.
pub fn train_and_serve(
    dataset: &Dataset,
    config: &TrainingConfig,
    test: &[usize],
    seed: u64,
) -> Result<ServedModel, ReproduceError> {
    let failed = |e: anyhow::Error| ReproduceError::Sockets(format!("{e:#}"));
    let work = over_sockets(dataset, config, test, seed);
    // Runs on a thread that may block. The program has a runtime; a plain test has none.
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.block_on(work),
        Err(_) => tokio::runtime::Runtime::new().map_err(|e| failed(e.into()))?.block_on(work),
    }
    .map_err(failed)
}

async fn over_sockets(
    dataset: &Dataset,
    config: &TrainingConfig,
    test: &[usize],
    seed: u64,
) -> anyhow::Result<ServedModel> {
    let total = dataset.features().len();
    // The active party has the first half: the columns of the split start in the middle.
    let split = VerticalSplit::window(total / 2, total - total / 2, total)?;
    let state = tempfile::tempdir()?;
    let secret = hex(Sha256::digest(format!("a figure, seed {seed}")));
    write_atomic(&state.path().join("coordinator").join("noise.secret"), secret.as_bytes(), true)?;
    let deployment = Deployment::start(DeploymentSpec {
        tables: partition::divide(dataset, &split, seed)?,
        state_dir: state.path().to_owned(),
        defenses: Vec::new(),
        release: white_box(),
        training_transform: TransformConfig::None {},
        consent: consent(&active_name(), dataset.class_names().len()),
        audits: true,
        help: Default::default(),
        active_privacy: None,
        alignment: None,
        serving: Default::default(),
        outputs: None,
        monitoring: Default::default(),
    })
    .await?;
    let done = session(&deployment, dataset, &split, config, test).await;
    deployment.stop().await?;
    done
}

async fn session(
    deployment: &Deployment,
    dataset: &Dataset,
    split: &VerticalSplit,
    config: &TrainingConfig,
    test: &[usize],
) -> anyhow::Result<ServedModel> {
    let ids = dataset.ids().select(&dataset.split().train);
    let mut bar = Progress::start("training over the sockets", config.values().epochs.into());
    let published = deployment
        .train(config, &ids, |p| {
            bar.at(p.epoch.into(), &p.words());
        })
        .await?;
    bar.done(&format!(
        "trained over the sockets: {} steps, epoch {}",
        published.steps, published.best_epoch
    ));
    let scores = predict(deployment, dataset, test).await?;
    let (weights, bias) = deployment.whole_model(dataset, split, &published.version)?;
    Ok(ServedModel {
        weights,
        bias,
        scores,
        version: published.version.into(),
        best_epoch: published.best_epoch,
        steps: published.steps,
    })
}

/// Requests the scores of the records at `test` through the active party.
async fn predict(
    deployment: &Deployment,
    dataset: &Dataset,
    test: &[usize],
) -> anyhow::Result<DMatrix<f64>> {
    let mut client = deployment.active_client()?;
    let k = dataset.class_names().len();
    let mut scores = DMatrix::zeros(k, test.len());
    for (i, chunk) in test.chunks(CHUNK).enumerate() {
        let ids = dataset.ids().select(chunk);
        match client.predict(&ids, k).await? {
            ReleasedScores::Probabilities(c) => {
                scores.columns_mut(i * CHUNK, chunk.len()).copy_from(&c)
            }
            _ => anyhow::bail!("the coordinator released something else than scores"),
        }
    }
    Ok(scores)
}
