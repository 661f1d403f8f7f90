//! P's experiments as its published code runs them (errata P10 to P14): inputs that are not in
//! [0, 1], Adam on the records in their order, attacks on training records, and scores that belong
//! to another record. The attack done right stands beside them in the same tables.

use nalgebra::DMatrix;
use rand::RngExt;
use rand::seq::SliceRandom;
use vfl_core::metrics::accuracy;
use vfl_core::model::{ModelConfig, TrainingConfig, TrainingValues};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_datasets::local_training::{TrainedParties, TrainingLoss};
use vfl_datasets::{DatasetName, VerticalSplit};
use vfl_defense::DefenseConfig;

use super::super::ReproduceError;
use super::super::document::Document;
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::statistics::mean;
use super::super::sweep::select;
use super::attacks::{CodeDescent, Targets};
use super::defenses::{DEFENSES, TABLE_12, policy, ranks, released_at};
use super::model::{Model, failed, predicted};
use super::sheet::PointResults;

/// Adds the note on the curves of this module to a document that has them.
pub(super) fn note(document: &mut Document) {
    const NOTE: &str = "code_…: P's experiment as its published code runs it, as far as the code says (errata P10). Each record is attacked with \
         the scores of another one (but in none_aligned), on inputs that are not in [0, 1], so that the loss behind a defense is the distance \
         of two records' scores and of a score from its own image, and tells nothing of a reconstruction. PRIVEE: the mean of four draws. grn_… and \
         gia_… are with each record's own scores";
    if document.curve("code_grn_none").is_some() {
        document.notes.push(NOTE.to_owned());
    }
}

/// The most training records that are attacked, and by gradient inversion, which is slow.
const MOST: usize = 1000;
const MOST_INVERTED: usize = 200;
/// The number of draws of PRIVEE's noise: one draw serves all records, and decides the loss.
const DRAWS: u8 = 4;

/// The scaling of the features.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scaling {
    /// (x − mean) / deviation of all pixels of MNIST, for x in [0, 1].
    Standardised,
    /// The values of the file.
    Source,
}

/// The settings of P's code for a data set.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeSettings {
    scaling: Scaling,
    epochs: u32,
    rate: f64,
    loss: TrainingLoss,
    /// The descent that the code calls a generative regression network.
    grn: CodeDescent,
    defenses: &'static [(&'static str, &'static str)],
}

impl CodeSettings {
    /// Returns the settings for two parties; `None` where they are not known. Those of drive are
    /// for a part of the set: as many steps as P takes on all of it take more epochs.
    pub(super) fn two_parties(subject: &ExperimentModel) -> Option<Self> {
        let loss = TrainingLoss::SoftmaxTwice;
        match subject.dataset.name.parse() {
            Ok(DatasetName::Mnist) => Some(Self {
                scaling: Scaling::Standardised,
                epochs: 60,
                rate: 5e-5,
                loss,
                grn: CodeDescent::TWO,
                defenses: &DEFENSES,
            }),
            Ok(DatasetName::Drive) => Some(Self {
                scaling: Scaling::Source,
                epochs: 1500,
                rate: 1e-4,
                loss,
                grn: CodeDescent { steps: 100, ..CodeDescent::TWO },
                defenses: &DEFENSES,
            }),
            _ => None,
        }
    }

    /// Returns the settings for several parties; `None` where they are not known.
    pub(super) fn several_parties(subject: &ExperimentModel) -> Option<Self> {
        let mnist = matches!(subject.dataset.name.parse(), Ok(DatasetName::Mnist));
        mnist.then_some(Self {
            scaling: Scaling::Standardised,
            epochs: 6,
            rate: 5e-5,
            loss: TrainingLoss::CrossEntropy,
            grn: CodeDescent::SEVERAL,
            defenses: &TABLE_12,
        })
    }

    /// Returns records (d_t × n, in [0, 1]) in the scaling of the code.
    fn scaled(self, subject: &ExperimentModel, x: &DMatrix<f64>) -> DMatrix<f64> {
        match self.scaling {
            Scaling::Standardised => x.map(|v| (v - 0.1307) / 0.3081),
            Scaling::Source => DMatrix::from_fn(x.nrows(), x.ncols(), |row, at| {
                let (min, max) = subject.ranges[row];
                min + x[(row, at)] * (max - min)
            }),
        }
    }

    fn training(self, seed: u64, model: ModelConfig) -> Result<TrainingConfig, ReproduceError> {
        let values = TrainingValues {
            epochs: self.epochs,
            batch_size: 128,
            learning_rate: self.rate,
            l2: 0.0,
            validation_share: 0.0,
            seed,
            model,
            ..TrainingValues::default()
        };
        Ok(TrainingConfig::try_from(values)?)
    }
}

/// A model of P's code, with the training records that it is attacked on.
pub(super) struct CodeModel {
    settings: CodeSettings,
    model: Model,
    /// The scaled training records, d_t × n, and the scaled test records.
    attacked: DMatrix<f64>,
    test: DMatrix<f64>,
    labels: Vec<u32>,
    /// The number of training records: the code attacks all of them at once.
    records: usize,
    seed: u64,
}

impl CodeModel {
    /// Trains on `records` (features d_t × n in [0, 1], labels) in their order.
    pub(super) fn train(
        subject: &ExperimentModel,
        settings: CodeSettings,
        model: &ModelConfig,
        (x, labels): &(DMatrix<f64>, Vec<u32>),
        split: &VerticalSplit,
        seed: u64,
    ) -> Result<Self, ReproduceError> {
        let config = settings.training(seed, model.clone())?;
        let (x, k) = (settings.scaled(subject, x), subject.classes());
        let test = settings.scaled(subject, subject.test_records());
        let training = (&config, settings.loss);
        let trained = TrainedParties::train_in_order(training, k, (&x, labels), split)
            .map_err(|e| failed(split.total() - split.active().len(), e.to_string()))?;
        let model = Model::of(trained, k, [(&x, labels), (&test, &subject.labels)])?;
        let attacked = x.columns(0, x.ncols().min(MOST)).into_owned();
        let (labels, records) = (subject.labels.clone(), x.ncols());
        Ok(Self { settings, model, attacked, test, labels, records, seed })
    }

    /// Returns accuracies in percent, as P's table 4 has them, and the change behind each defense,
    /// as table 8 has it.
    pub(super) fn accuracies(&self) -> Result<PointResults, ReproduceError> {
        let [training, inference] = self.model.accuracy;
        let mut found = vec![
            ("code_accuracy_train".to_owned(), 100.0 * training),
            ("code_accuracy_inference".to_owned(), 100.0 * inference),
        ];
        let (_, logits) = self.model.served(&self.test)?;
        let undefended = accuracy(&predicted(&logits)?, &self.labels)?;
        for (name, text) in self.settings.defenses {
            let release = self.release(text, &logits, 0)?;
            let kept = accuracy(&release.predicted_labels(), &self.labels)?;
            found.push((format!("code_accuracy_change_{name}"), 100.0 * (kept - undefended)));
        }
        Ok(found)
    }

    /// Returns a release of logits (k × n) as the code makes it: ranks for ciphertexts, and
    /// PRIVEE-DP of the release of 2025, whose tables P prints.
    fn release(
        &self,
        text: &str,
        logits: &DMatrix<f64>,
        draw: u8,
    ) -> Result<ReleasedScores, ReproduceError> {
        let policy = policy(text)?;
        let [defense @ DefenseConfig::PriveeDp { .. }] = policy.defenses.as_slice() else {
            return Ok(ranks(released_at(&policy, logits, draw)?));
        };
        let sigma = defense.privee_scales().into_iter().fold(0.0, f64::max);
        let scores = ConfidenceScores::softmax(Logits::new(logits.clone())?).into_matrix();
        let mut rng = generator(self.seed, Purpose::Repetition, draw.into());
        let draw: Vec<f64> = (0..logits.nrows()).map(|_| rng.random()).collect();
        Ok(ReleasedScores::Numbers(privee_of_2025(&scores, sigma, &draw)))
    }

    /// Returns the losses of the code's attacks behind each defense. All but `none_aligned` pair a
    /// record with the scores of another.
    pub(super) fn losses(&self) -> Result<PointResults, ReproduceError> {
        let defenses = self.settings.defenses;
        let grn = self.each("grn", self.settings.grn, MOST, defenses)?;
        let gia = self.each("gia", CodeDescent::INVERSION, MOST_INVERTED, defenses)?;
        Ok([grn, gia].concat())
    }

    /// Returns the losses of what the code calls a generative regression network behind these
    /// defenses.
    pub(super) fn losses_behind(
        &self,
        defenses: &[(&str, &str)],
    ) -> Result<PointResults, ReproduceError> {
        self.each("grn", self.settings.grn, MOST, defenses)
    }

    /// Runs an attack on the first `most` records behind each defense, and returns its losses.
    fn each(
        &self,
        attack: &str,
        descent: CodeDescent,
        most: usize,
        defenses: &[(&str, &str)],
    ) -> Result<PointResults, ReproduceError> {
        let n = self.attacked.ncols().min(most);
        let descent = CodeDescent { among: self.records, ..descent };
        let x = self.attacked.columns(0, n).into_owned();
        let (y, logits) = self.model.served(&x)?;
        let truth = select(&x, &self.model.passive, n);
        let targets = Targets { model: &self.model, y, truth, seed: self.seed };
        let mut others: Vec<usize> = (0..n).collect();
        others.shuffle(&mut generator(self.seed, Purpose::Records, 1));
        let loss = |name: &str, release: &ReleasedScores| {
            let curve = format!("code_{attack}_{name}");
            let found = targets.descend(descent, &curve, release, 3 << 40)?;
            let of = found.into_iter().find(|(name, _)| *name == curve);
            of.ok_or_else(|| failed(targets.truth.nrows(), format!("{curve} has no loss")))
        };
        let mut found = PointResults::new();
        for &(name, text) in defenses {
            if name == "none" {
                found.push(loss("none_aligned", &self.release(text, &logits, 0)?)?);
            }
            let draws = if text.starts_with("privee") { DRAWS } else { 1 };
            let losses = (0..draws).map(|draw| {
                Ok(loss(name, &permuted(self.release(text, &logits, draw)?, &others))?.1)
            });
            let losses: Vec<f64> = losses.collect::<Result<_, ReproduceError>>()?;
            found.push((format!("code_{attack}_{name}"), mean(losses.into_iter()).mean));
        }
        Ok(found)
    }
}

/// Returns the numbers of a release with its records in another order.
fn permuted(release: ReleasedScores, order: &[usize]) -> ReleasedScores {
    match release {
        ReleasedScores::Probabilities(c) => ReleasedScores::Probabilities(c.select_columns(order)),
        ReleasedScores::Numbers(c) => ReleasedScores::Numbers(c.select_columns(order)),
        other => other,
    }
}

/// Computes PRIVEE-DP as in the authors' code of 2025: p = c (1 + σu) − 2/K, where the entry of
/// rank r from below has u from the r-th of K parts of [−3, 3], at `draw[r]` in [0, 1] of its
/// width, the same for all records. A negative factor turns the order of small scores round.
fn privee_of_2025(scores: &DMatrix<f64>, sigma: f64, draw: &[f64]) -> DMatrix<f64> {
    let k = scores.nrows() as f64;
    let mut out = scores.clone();
    for mut column in out.column_iter_mut() {
        let mut order: Vec<usize> = (0..column.len()).collect();
        order.sort_by(|a, b| column[*a].total_cmp(&column[*b]));
        for (rank, at) in order.into_iter().enumerate() {
            let u = -3.0 + 6.0 * (rank as f64 + draw[rank]) / k;
            column[at] = column[at] * (1.0 + sigma * u) - 2.0 / k;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_interval_of_2025_reaches_below_0() {
        let scores = DMatrix::from_row_slice(2, 2, &[0.75, 0.1, 0.25, 0.9]);
        let found = privee_of_2025(&scores, 2.0, &[0.5, 0.5]);
        // The smaller score has u = −1.5 and a factor of −2, the larger u = 1.5 and 4.
        let expected = [0.75 * 4.0 - 1.0, 0.25 * -2.0 - 1.0, 0.1 * -2.0 - 1.0, 0.9 * 4.0 - 1.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }

    #[test]
    fn scores_go_to_other_records() {
        let scores = DMatrix::from_row_slice(2, 3, &[0.1, 0.2, 0.3, 0.9, 0.8, 0.7]);
        let of_others = permuted(ReleasedScores::Probabilities(scores), &[2, 0, 1]);
        let ReleasedScores::Probabilities(found) = of_others else { panic!("no scores") };
        assert_eq!(found.row(0).iter().copied().collect::<Vec<_>>(), [0.3, 0.1, 0.2]);
    }
}
