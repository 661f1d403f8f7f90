//! The cost of differential privacy of the parameters: accuracy against noise, for models whose
//! parties train in one process with the services' own learners and order of records. Noise is
//! drawn from fixed seeds here, so that the table can be reproduced.

use anyhow::ensure;
use vfl_core::model::contract::start_of;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{
    Combiner, ModelConfig, PartyLearner, Settings, TrainingConfig, TrainingValues, cross_entropy,
};
use vfl_core::types::FeatureBlock;
use vfl_datasets as data;
use vfl_datasets::local_training::{self, LocalTraining, learners};
use vfl_datasets::{Dataset, DatasetName, DatasetSpec};
use vfl_present::{ColumnKind, Table};

/// The noise σ of each column except the first, which has no privacy.
const NOISE: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];

/// The number of trainings of each figure.
const SEEDS: u64 = 5;

/// The training settings for a data set. Few epochs and large batches: each epoch costs privacy,
/// and the noise of an update is added to the sum over its batch.
struct TrainingChoice {
    name: DatasetName,
    epochs: u32,
    batch_size: u32,
    learning_rate: f64,
    clip: f64,
}

const CHOICES: [TrainingChoice; 2] = [
    TrainingChoice {
        name: DatasetName::Satellite,
        epochs: 10,
        batch_size: 512,
        learning_rate: 0.1,
        clip: 0.5,
    },
    TrainingChoice {
        name: DatasetName::Adult,
        epochs: 10,
        batch_size: 1024,
        learning_rate: 0.1,
        clip: 1.0,
    },
];

/// Returns the table in Markdown.
pub(super) fn table() -> anyhow::Result<String> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for choice in CHOICES {
        let dir = std::env::var_os("CLOISON_DATA_DIR").map(Into::into);
        let dataset = data::load(&DatasetSpec::new(choice.name, dir, 1))?;
        let mut of_epsilon = None;
        let mut rows = Vec::new();
        for (name, model) in models()? {
            let mut cells = vec![figure(&choice, &dataset, &model, None)?.0];
            let mut epsilons = vec!["–".to_owned()];
            for noise in NOISE {
                let (cell, said) = figure(
                    &choice,
                    &dataset,
                    &model,
                    Some(PrivacyConfig::new(choice.clip, noise)?),
                )?;
                cells.push(cell);
                epsilons.push(said.map_or("–".into(), |said| said.shown_epsilon()));
            }
            let row = |what: &str, cells| {
                [vec![dataset.name().to_owned(), what.to_owned()], cells].concat()
            };
            rows.push(row(name, cells));
            of_epsilon.get_or_insert(row("*ε*", epsilons));
        }
        lines.extend(of_epsilon);
        lines.extend(rows);
    }
    let columns = ["data", "model", "no privacy"].map(str::to_owned).into_iter();
    let columns = columns.chain(NOISE.map(|noise| format!("σ = {noise}")));
    Ok(Table::of_rows(columns.map(|name| (name, ColumnKind::Text)), lines).markdown())
}

fn models() -> anyhow::Result<[(&'static str, ModelConfig); 2]> {
    let hidden = [("hidden".to_owned(), serde_json::json!([8, 8]))];
    let mlp = ModelConfig::new(Combiner::Sum, "mlp", None, Settings::from_iter(hidden))?;
    Ok([("softmax regression", ModelConfig::default()), ("perceptron 8, 8", mlp)])
}

/// Returns the mean test accuracy over all seeds, with the standard deviation of one of them, and
/// the parties' privacy statement.
fn figure(
    choice: &TrainingChoice,
    dataset: &Dataset,
    model: &ModelConfig,
    privacy: Option<PrivacyConfig>,
) -> anyhow::Result<(String, Option<PrivacyStatement>)> {
    let mut found = Vec::new();
    let mut said = None;
    for seed in 1..=SEEDS {
        let (accuracy, statement) = train(choice, dataset, model, privacy, seed)?;
        found.push(accuracy);
        said = statement;
    }
    let n = found.len() as f64;
    let mean = found.iter().sum::<f64>() / n;
    let spread = (found.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    Ok((format!("{mean:.3} ± {spread:.3}"), said))
}

/// Trains with two parties that have half of the features each. Returns the accuracy on the test
/// records, and the statement of both parties.
fn train(
    choice: &TrainingChoice,
    dataset: &Dataset,
    model: &ModelConfig,
    privacy: Option<PrivacyConfig>,
    seed: u64,
) -> anyhow::Result<(f64, Option<PrivacyStatement>)> {
    let config = TrainingConfig::try_from(TrainingValues {
        epochs: choice.epochs,
        batch_size: choice.batch_size,
        learning_rate: choice.learning_rate,
        validation_share: 0.0,
        seed,
        model: model.clone(),
        ..TrainingValues::default()
    })?;
    let split = dataset.split();
    let (d, k) = (dataset.features().len(), dataset.class_names().len());
    // Test records come last, as only they are evaluated.
    let order: Vec<usize> = split.train.iter().chain(&split.test).copied().collect();
    let x = dataset.x().select_columns(&order);
    let block = |(from, to)| FeatureBlock::new(x.rows(from, to - from).into_owned());
    let blocks = [(0, d / 2), (d / 2, d)].map(block).into_iter().collect::<Result<Vec<_>, _>>()?;
    let noise = |place: usize| start_of(2 * seed + u64::from(place == 0));
    let privacy = privacy.map(|privacy| (privacy, &noise as &dyn Fn(usize) -> [u8; 32]));
    let parties = learners(&config, k, blocks, privacy)?;
    let of = |positions: &[usize]| -> Vec<u32> {
        positions.iter().map(|p| dataset.labels()[*p]).collect()
    };
    let mut trained = LocalTraining::train(
        &config,
        k,
        parties,
        &of(&split.train),
        local_training::start(&config),
    )?;
    let test: Vec<u32> = (split.train.len() as u32..order.len() as u32).collect();
    let (_, _, right) = cross_entropy(trained.logits(&test, true)?, &of(&split.test));
    let said: Vec<Option<PrivacyStatement>> =
        trained.parties().iter().map(PartyLearner::privacy).collect();
    ensure!(said[0] == said[1], "both parties take part in the same updates");
    Ok((right as f64 / test.len().max(1) as f64, said[0]))
}
