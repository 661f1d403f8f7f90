//! P tables 10 to 12: several parties on MNIST, by ε and by their number. The active party has the
//! first half of the columns and is the adversary; the passive parties share the rest, and the
//! features of all of them are its targets, as in P's code.

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack::Settings;
use vfl_core::metrics::{accuracy, squared_error_by_record};
use vfl_core::model::TrainingConfig;
use vfl_core::types::ReleasedScores;
use vfl_datasets::VerticalSplit;
use vfl_defense::policy::gaussian_scale;
use vfl_present::progress::Progress;

use super::super::document::Document;
use super::super::experiment_model::{DrawnRecords, ExperimentModel};
use super::super::statistics::mean;
use super::super::sweep::select;
use super::super::workers::{cpu_time, in_order};
use super::super::{Figure, Options, ReproduceError};
use super::as_code::{self, CodeModel, CodeSettings};
use super::attacks::{CodeDescent, Targets};
use super::defenses::{AWARE, SCALE, TABLE_12, policy, ranks, released, undone};
use super::model::{Model, divided, failed, predicted, training};
use super::sheet::{NamedSettings, PointResults, TableAxis, sheet};

/// The active party's share of the columns in percent (P table 12; tables 10 and 11 do not say).
const STRENGTH: usize = 50;
/// The number of parties of table 10.
const PARTIES: usize = 25;

const BY_EPSILON: TableAxis = TableAxis {
    label: "100 ε of PRIVEE-DP",
    symbol: "100 ε",
    unit: " = 100 ε",
    what: "100 ε",
    of_paper: &[5, 7, 10, 30, 50, 90],
    range: (1, 1000),
};

const BY_PARTIES: TableAxis = TableAxis {
    label: "parties, the active one among them",
    symbol: "parties",
    unit: " parties",
    what: "the number of parties",
    of_paper: &[5, 10, 15, 20, 25],
    range: (2, 100),
};

/// The attack of P's code for several parties (tables 10 and 11), implemented by
/// [`CodeDescent`].
const GRN: NamedSettings = (
    "grn",
    &[("start", "normal"), ("steps", "5"), ("learning_rate", "0.1"), ("towards", "logits")],
);
/// P's gradient inversion (table 12).
const GIA: NamedSettings = ("gia", &[("preset", "p")]);
/// The same with steps that minimise the loss. Defenses are compared by the feature error of this
/// adversary.
const GIA_FULL: NamedSettings = ("gia_full", &[("preset", "p"), ("learning_rate", "0.1")]);

/// A model, and what attacks on it need.
struct AttackContext<'a> {
    targets: Targets<'a>,
    /// The logits of the attacked records, and of all test records.
    logits: [DMatrix<f64>; 2],
    labels: &'a [u32],
    undefended: f64,
}

impl<'a> AttackContext<'a> {
    fn new(
        model: &'a Model,
        subject: &'a ExperimentModel,
        drawn: &DrawnRecords,
        seed: u64,
    ) -> Result<Self, ReproduceError> {
        let (y, logits) = model.served(&drawn.x)?;
        let (_, test) = model.served(subject.test_records())?;
        let truth = select(&drawn.x, &model.passive, drawn.records());
        let labels = subject.labels.as_slice();
        let undefended = accuracy(&predicted(&test)?, labels)?;
        let targets = Targets { model, y, truth, seed };
        Ok(Self { targets, logits: [logits, test], labels, undefended })
    }

    /// Returns the facts that depend on the model alone.
    fn facts(&self) -> Result<PointResults, ReproduceError> {
        let truth = &self.targets.truth;
        let guess = |value: f64| -> Result<f64, ReproduceError> {
            let errors = squared_error_by_record(&truth.map(|_| value), truth)?;
            Ok(mean(errors.iter().copied()).mean)
        };
        let [training, inference] = self.targets.model.accuracy;
        Ok(vec![
            ("accuracy_train".into(), 100.0 * training),
            ("accuracy_inference".into(), 100.0 * inference),
            ("half_error".into(), guess(0.5)?),
            // The start of P's gradient inversion: most pixels are black.
            ("zero_error".into(), guess(0.0)?),
        ])
    }

    /// Returns the points of accuracy that a policy costs, and its release of the attacked records.
    fn behind(&self, text: &str) -> Result<(f64, ReleasedScores), ReproduceError> {
        let policy = policy(text)?;
        let [attacked, test] = &self.logits;
        let kept = accuracy(&released(&policy, test)?.predicted_labels(), self.labels)?;
        Ok((100.0 * (kept - self.undefended), ranks(released(&policy, attacked)?)))
    }

    /// Runs gradient inversion under a name.
    fn invert(
        &self,
        of: NamedSettings,
        name: &str,
        release: &ReleasedScores,
    ) -> Result<PointResults, ReproduceError> {
        self.targets.invert(
            &format!("{}_{name}", of.0),
            &Settings::read(of.1.iter().copied())?,
            release,
            1 << 40,
        )
    }

    /// Runs "GRN" under a name.
    fn grn(&self, name: &str, release: &ReleasedScores) -> Result<PointResults, ReproduceError> {
        let curve = format!("{}_{name}", GRN.0);
        self.targets.descend(CodeDescent::SEVERAL, &curve, release, 2 << 40)
    }

    /// Attacks PRIVEE-DP, without and with knowledge of it: the change of accuracy, "GRN", and
    /// gradient inversion until it converges. Also returns the numbers that the aware adversary
    /// uses as scores.
    fn privee(&self, epsilon: f64) -> Result<(PointResults, ReleasedScores), ReproduceError> {
        let (change, release) =
            self.behind(&format!("privee_dp (as_published = true, epsilon = {epsilon:?})"))?;
        let sigma = gaussian_scale(epsilon, SCALE.1, SCALE.2);
        let aware = match &release {
            ReleasedScores::Numbers(p) => ReleasedScores::Probabilities(undone(p, sigma)),
            other => other.clone(),
        };
        let mut found = vec![("accuracy_change_privee_dp".to_owned(), change)];
        for (name, release) in [("privee_dp", &release), (AWARE, &aware)] {
            found.extend(self.grn(name, release)?);
            found.extend(self.invert(GIA_FULL, name, release)?);
        }
        Ok((found, aware))
    }
}

/// Runs work, and returns the processor time it took.
fn timed<T>(
    work: impl FnOnce() -> Result<T, ReproduceError>,
) -> Result<(T, Duration), ReproduceError> {
    let begun = cpu_time();
    let done = work()?;
    Ok((done, cpu_time().saturating_sub(begun)))
}

/// Computes table 10: one model of 25 parties, by ε.
pub(in super::super) fn by_epsilon(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let values = BY_EPSILON.wanted(options)?;
    let drawn = subject.draw(options.records, options.seed);
    let config = training(subject, options)?;
    let records = subject.own_records(options.own_records, options.seed);
    let split = divided(subject.features(), STRENGTH, PARTIES - 1)?;
    let mut cpu = Duration::ZERO;
    let mut models = Vec::new();
    // Run in a pool like those of the attacks, so that the clock counts all of it.
    let train = |_| timed(|| Model::train(subject, &config, &records, &split));
    in_order(1, 1, train, |_, (model, time)| {
        models.push(model);
        cpu += time;
        Ok(())
    })?;
    let (code, time) = timed(|| as_code(subject, &config, &split, options.seed))?;
    cpu += time;
    let mut progress = Progress::start("p-table10", values.len() as u64);
    let attacked =
        models.first().map(|model| AttackContext::new(model, subject, &drawn, options.seed));
    let attacked = attacked.ok_or_else(|| failed(split.total(), "there is no model".into()))??;
    let (_, exact) = attacked.behind("none")?;
    // The results that do not depend on ε come first.
    let work = |piece: usize| {
        timed(|| match piece.checked_sub(1) {
            None => {
                let of_exact =
                    [attacked.grn("none", &exact)?, attacked.invert(GIA_FULL, "none", &exact)?];
                let mut found = [attacked.facts()?, of_exact.concat()].concat();
                if let Some(code) = &code {
                    found.extend(code.accuracies()?);
                    found.extend(code.losses_behind(&[("none", "none")])?);
                }
                Ok(found)
            }
            Some(at) => {
                let epsilon = values[at] as f64 / 100.0;
                let text = format!("privee_dp (as_published = true, epsilon = {epsilon:?})");
                let mut found = attacked.privee(epsilon)?.0;
                if let Some(code) = &code {
                    found.extend(code.losses_behind(&[("privee_dp", &text)])?);
                }
                Ok(found)
            }
        })
    };
    let mut found: Vec<PointResults> = Vec::new();
    in_order(options.threads, values.len() + 1, work, |piece, (of, time)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64, "attacked");
        Ok(())
    })?;
    progress.done(&format!("p-table10: {} releases attacked", values.len() + 1));
    let fixed = found.remove(0);
    let found: Vec<PointResults> =
        found.into_iter().map(|of| [fixed.clone(), of].concat()).collect();
    let what = (Figure::PTable10, subject, options);
    let mut document = sheet(
        what,
        (&BY_EPSILON, &values),
        (&found, cpu),
        (&[GRN, GIA_FULL], &config),
        drawn.records(),
    );
    document.notes =
        notes(records.1.len(), "one model of 25 parties for all ε, where P trains one for each");
    as_code::note(&mut document);
    Ok(document)
}

/// Computes tables 11 and 12: a model for each number of parties.
pub(in super::super) fn by_parties(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let values = BY_PARTIES.wanted(options)?;
    let drawn = subject.draw(options.records, options.seed);
    let config = training(subject, options)?;
    let records = subject.own_records(options.own_records, options.seed);
    let one = |piece: usize| {
        let split = divided(subject.features(), STRENGTH, values[piece] - 1)?;
        let model = Model::train(subject, &config, &records, &split)?;
        let attacked = AttackContext::new(&model, subject, &drawn, options.seed)?;
        let mut found = attacked.facts()?;
        let (of_privee, aware) = attacked.privee(SCALE.0)?;
        for (name, text) in TABLE_12 {
            let (change, release) = attacked.behind(text)?;
            found.extend(attacked.invert(GIA, name, &release)?);
            match name {
                "none" => {
                    found.extend(attacked.grn(name, &release)?);
                    found.extend(attacked.invert(GIA_FULL, name, &release)?);
                }
                // `privee` adds the change of PRIVEE-DP itself.
                "privee_dp" => {}
                _ => found.push((format!("accuracy_change_{name}"), change)),
            }
        }
        found.extend(attacked.invert(GIA, AWARE, &aware)?);
        found.extend(of_privee);
        if let Some(code) = as_code(subject, &config, &split, options.seed)? {
            found.extend(code.accuracies()?);
            found.extend(code.losses()?);
        }
        Ok(found)
    };
    let work = |piece: usize| timed(|| one(piece));
    let mut found: Vec<PointResults> = Vec::new();
    let mut cpu = Duration::ZERO;
    let mut progress = Progress::start("p-table11-12", values.len() as u64);
    in_order(options.threads, values.len(), work, |piece, (of, time)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64 + 1, &format!("{} parties", values[piece]));
        Ok(())
    })?;
    progress.done(&format!("p-table11-12: {} models trained and attacked", values.len()));
    let what = (Figure::PTable11And12, subject, options);
    let mut document = sheet(
        what,
        (&BY_PARTIES, &values),
        (&found, cpu),
        (&[GRN, GIA, GIA_FULL], &config),
        drawn.records(),
    );
    document.notes = notes(records.1.len(), "a model for each number of parties");
    as_code::note(&mut document);
    Ok(document)
}

/// Trains a model for several parties as P's code does, if its settings for the data set are known.
fn as_code(
    subject: &ExperimentModel,
    config: &TrainingConfig,
    split: &VerticalSplit,
    seed: u64,
) -> Result<Option<CodeModel>, ReproduceError> {
    let model = &config.values().model;
    // Its epochs are few, so that all training records take part.
    let records = subject.own_records(None, seed);
    CodeSettings::several_parties(subject)
        .map(|settings| CodeModel::train(subject, settings, model, &records, split, seed))
        .transpose()
}

/// Returns the notes for the reader.
fn notes(trained_on: usize, models: &str) -> Vec<String> {
    vec![
        format!(
            "P's networks for several parties: d → 128 → 64 (relu) at each, embeddings → 256 → k (relu) at the coordinator; {models}; \
             trained on {trained_on} records with early stopping, a rate and batches of ours"
        ),
        "the active party has the first half of the columns and is the adversary, who knows all sub-models; the features of all passive \
         parties, which share the other half in equal parts, are the target"
            .into(),
        "grn is the attack of P's code for several parties: five steps towards logits that equal what was released; gia is its gradient \
         inversion, 500 steps of 0.001 from 0; gia_full is gradient inversion in 500 steps of 0.1"
            .into(),
        "PRIVEE is as the authors' code draws it: one draw for all records, u from parts of [0, 3] and of [0, 1] (DP++); aware divides by the mean scale of \
         each rank before it attacks. The rank of a ciphertext in its record, from 1/K to 1, stands for a score"
            .into(),
    ]
}
