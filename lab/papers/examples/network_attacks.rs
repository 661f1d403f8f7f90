//! Attacks on J's perceptrons (two hidden layers of 8, sigmoid) side by side: error, records whose
//! scores are met, and time. Three trainings, four data sets, four shares of passive features.
//!
//! `cargo run --release -p vfl-papers --example network_attacks [-- CASES.json]`, with
//! `RAYON_NUM_THREADS=1` for times of one thread.
//!
//! Reads the public sets of `CLOISON_DATA_DIR`. With a file, writes models and records there, for
//! `scripts/pytorch/inversion.py`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};
use vfl_attack::{AdversaryView, KnownModel, KnownNetwork, Method, Replacement, Settings};
use vfl_core::metrics::squared_error_by_record;
use vfl_core::model::{Combiner, ModelConfig, TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_datasets::local_training::{TrainedParties, summed_scores};
use vfl_datasets::{DatasetName, DatasetSpec, VerticalSplit, load};
use vfl_present::ColumnKind::{Name, Number};
use vfl_present::{Table, significant};

/// The records of each split, and the splits of each share.
const RECORDS: usize = 50;
const SPLITS: usize = 4;
/// The training records of each model.
const TRAINED_ON: usize = 4000;
const SHARES: [f64; 4] = [0.1, 0.3, 0.5, 0.9];
const SETS: [DatasetName; 4] =
    [DatasetName::Satellite, DatasetName::Robot, DatasetName::Drive, DatasetName::Bank];

/// The sum of squared differences of centred log-ratios below which a record's scores are met.
const MET: f64 = 1e-10;

/// The settings of gradient inversion; `None`: no descent.
type Descent<'a> = Option<&'a [(&'a str, &'a str)]>;

/// The attacks, by their names in the table.
const ATTACKS: [(&str, Descent<'_>); 6] = [
    ("½", None),
    ("first order, J's settings", Some(&[("preset", "j")])),
    ("first order, squared logarithms from 0", Some(&[("order", "first")])),
    ("first order, squared logarithms from ½", Some(&[("start", "half")])),
    (
        "first order, KL from ½, 0.001",
        Some(&[("loss", "kl"), ("start", "half"), ("learning_rate", "0.001"), ("stop_loss", "0")]),
    ),
    ("second order", Some(&[])),
];

/// Returns the trainings: J's recipe, the same for more epochs, and the program's default.
fn trainings(set: DatasetName, model: ModelConfig) -> [(&'static str, TrainingValues); 3] {
    let own = TrainingValues { l2: 0.0, seed: 7, model, ..TrainingValues::default() };
    let slow = TrainingValues { learning_rate: 1e-3, validation_share: 0.0, ..own.clone() };
    let until = match set {
        DatasetName::Robot => 400,
        DatasetName::Drive => 900,
        DatasetName::Satellite => 300,
        _ => 100,
    };
    [
        ("early: Adam 0.001, 50 epochs", TrainingValues { epochs: 50, ..slow.clone() }),
        ("late: Adam 0.001, 100 to 900 epochs", TrainingValues { epochs: until, ..slow }),
        ("sharp: Adam 0.01, early stopping", own),
    ]
}

/// A model in one split, with the records under attack.
struct Case {
    training: usize,
    set: DatasetName,
    d: usize,
    known: KnownModel,
    trained: TrainedParties,
    y: FeatureBlock,
    own: DMatrix<f64>,
    truth: DMatrix<f64>,
    released: ReleasedScores,
}

fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let data_dir = std::env::var_os("CLOISON_DATA_DIR").map(Into::into);
    let settings = json!({ "hidden": [8, 8], "activation": "sigmoid" });
    let settings = settings.as_object().cloned().unwrap_or_default();
    let model = ModelConfig::new(Combiner::Sum, "mlp", None, settings)?;
    let mut cases = Vec::new();
    for set in SETS {
        let data = load(&DatasetSpec::new(set, data_dir.clone(), 7))?;
        let (k, total) = (data.class_names().len(), data.features().len());
        let train: Vec<usize> = data.split().train.iter().take(TRAINED_ON).copied().collect();
        let test: Vec<usize> = data.split().test.iter().take(RECORDS).copied().collect();
        let labels: Vec<u32> = train.iter().map(|&r| data.labels()[r]).collect();
        let (x, test) = (data.x().select_columns(&train), data.x().select_columns(&test));
        for (training, (_, values)) in trainings(set, model.clone()).into_iter().enumerate() {
            let config = TrainingConfig::try_from(values)?;
            for share in SHARES {
                let d = ((total as f64 * share).round() as usize).max(1);
                for at in 0..SPLITS {
                    let split = VerticalSplit::window(at * total / SPLITS, d, total)?;
                    let trained = TrainedParties::train(&config, k, (&x, &labels), &split)?;
                    let outputs = trained.outputs(&test)?;
                    let own = outputs[0].matrix().clone();
                    let active = split.active().len();
                    let w_act = DMatrix::from_fn(k, active + k, |i, j| f64::from(j == active + i));
                    let network = KnownNetwork::summed(trained.models[1..].to_vec());
                    let known = KnownModel::of_network(w_act, DVector::zeros(k), network)?;
                    let mut y = test.select_rows(&trained.columns[0]);
                    y = y.resize_vertically(active + k, 0.0);
                    y.rows_mut(active, k).copy_from(&own);
                    let truth = test.select_rows(&trained.columns[1]);
                    let scores = summed_scores(&outputs).ok_or("no party")?;
                    let released = ReleasedScores::Probabilities(scores);
                    let y = FeatureBlock::new(y)?;
                    cases.push(Case { training, set, d, known, trained, y, own, truth, released });
                }
            }
        }
    }
    Ok(cases)
}

impl Case {
    /// Returns errors and whether the scores are met, record by record.
    fn attack(&self, settings: Descent<'_>) -> Result<Vec<(f64, bool)>, Box<dyn Error>> {
        let (d, n) = self.truth.shape();
        let view =
            AdversaryView::new(&self.known, &self.y, &self.released, Replacement::default())?;
        let estimates = match settings {
            None => DMatrix::from_element(d, n, 0.5),
            Some(settings) => {
                let settings = Settings::read(settings.iter().copied())?;
                let mut rng = ChaCha20Rng::seed_from_u64(7);
                Method::GradientInversion.build(&settings).reconstruct(&view, &mut rng)?.estimates
            }
        };
        let errors = squared_error_by_record(&estimates, &self.truth)?;
        let of = |x: &DMatrix<f64>| -> Result<DMatrix<f64>, Box<dyn Error>> {
            Ok(&self.own + self.trained.models[1].outputs(x)?.matrix())
        };
        let difference = of(&estimates)? - of(&self.truth)?;
        let met = difference.column_iter().map(|z| {
            let mean = z.mean();
            z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() < MET
        });
        Ok(errors.into_iter().zip(met).collect())
    }

    /// Returns model and records as JSON: layers (outputs × inputs, row by row), the adversary's
    /// own logits and the features (both record by record).
    fn document(&self) -> Value {
        let layers: Vec<Value> = self.trained.models[1]
            .layers()
            .into_iter()
            .flatten()
            .map(|layer| {
                let weights: Vec<f64> = layer.weights.transpose().iter().copied().collect();
                let bias = layer.bias.map(|b| b.iter().copied().collect::<Vec<f64>>());
                json!({ "outputs": layer.weights.nrows(), "weights": weights, "bias": bias })
            })
            .collect();
        json!({
            "training": self.training,
            "set": self.set.to_string(),
            "d": self.d,
            "layers": layers,
            "own": self.own.as_slice(),
            "truth": self.truth.as_slice(),
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cases = cases()?;
    if let Some(path) = std::env::args_os().nth(1) {
        let documents: Vec<Value> = cases.iter().map(Case::document).collect();
        std::fs::write(path, serde_json::to_vec(&documents)?)?;
    }
    let names = trainings(DatasetName::Bank, ModelConfig::default()).map(|(name, _)| name);
    for (training, name) in names.iter().enumerate() {
        let mut rows = Vec::new();
        for (attack, settings) in ATTACKS {
            let (mut of_sets, mut all) = (Vec::new(), Vec::new());
            let begun = Instant::now();
            for set in SETS {
                let of_set = cases.iter().filter(|c| c.training == training && c.set == set);
                let found: Vec<Vec<(f64, bool)>> =
                    of_set.map(|case| case.attack(settings)).collect::<Result<_, _>>()?;
                let found = found.concat();
                of_sets
                    .push(found.iter().map(|(error, _)| error).sum::<f64>() / found.len() as f64);
                all.extend(found);
            }
            let ms = begun.elapsed().as_secs_f64() * 1e3 / all.len() as f64;
            let met = all.iter().filter(|(_, met)| *met).count() as f64 / all.len() as f64;
            let mean = of_sets.iter().sum::<f64>() / of_sets.len() as f64;
            let mut row = vec![attack.to_owned(), format!("{mean:.4}")];
            row.extend(of_sets.iter().map(|error| format!("{error:.4}")));
            row.extend([format!("{:.0} %", 100.0 * met), significant(ms)]);
            rows.push(row);
        }
        let columns = [("attack", Name), ("error", Number)]
            .into_iter()
            .chain(["satellite", "robot", "drive", "bank"].map(|set| (set, Number)))
            .chain([("scores met", Number), ("ms a record", Number)]);
        println!("{name}\n\n{}", Table::of_rows(columns, rows).markdown());
    }
    Ok(())
}
