//! P's tables: the loss that P prints as the error of an attack (errata P1), the error of the
//! features, and the accuracy. This module has tables 1 to 8, for each defense by attack strength:
//! the active party's share of the columns, in percent.

mod as_code;
mod attacks;
mod defenses;
mod model;
mod parties;
mod sheet;
mod times;

use nalgebra::DMatrix;
use vfl_attack::Settings;
use vfl_core::metrics::{accuracy, squared_error_by_record};
use vfl_core::model::TrainingConfig;
use vfl_core::types::ReleasedScores;
use vfl_defense::policy::gaussian_scale;
use vfl_present::progress::Progress;

use self::as_code::{CodeModel, CodeSettings};
use self::attacks::Targets;
use self::defenses::{AWARE, DEFENSES, SCALE, policy, ranks, released, undone};
use self::model::{Model, divided, predicted, training};
use self::sheet::{NamedSettings, PointResults, TableAxis, sheet};
use super::document::Document;
use super::experiment_model::{DrawnRecords, ExperimentModel};
use super::statistics::mean;
use super::sweep::select;
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError};

pub(super) use self::parties::{by_epsilon, by_parties};
pub(super) use self::times::times;

/// The attack strengths of P.
const STRENGTHS: TableAxis = TableAxis {
    label: "attack strength: the active party's share of the columns, %",
    symbol: "strength",
    unit: " %",
    what: "an attack strength",
    of_paper: &[25, 50, 75],
    range: (1, 99),
};

/// P's attacks on two parties: "GRN" as in its code, which optimises inputs from normal numbers,
/// and gradient inversion.
const ATTACKS: [NamedSettings; 2] =
    [("grn", &[("preset", "p_grn")]), ("gia", &[("preset", "p"), ("learning_rate", "0.1")])];

/// Computes the tables on one data set.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let strengths = STRENGTHS.wanted(options)?;
    let config = training(subject, options)?;
    let records = subject.own_records(options.own_records, options.seed);
    let work = |piece: usize| {
        let begun = cpu_time();
        let found = one(subject, &drawn, &config, &records, strengths[piece], options.seed)?;
        Ok((found, cpu_time().saturating_sub(begun)))
    };
    let mut found: Vec<PointResults> = Vec::new();
    let mut cpu = std::time::Duration::ZERO;
    let mut progress = Progress::start("p-tables", strengths.len() as u64);
    in_order(options.threads, strengths.len(), work, |piece, (of, time): (PointResults, _)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64 + 1, &format!("strength {} %", strengths[piece]));
        Ok(())
    })?;
    progress.done(&format!("p-tables: {} models trained and attacked", strengths.len()));

    let what = (Figure::PTables, subject, options);
    let mut document =
        sheet(what, (&STRENGTHS, &strengths), (&found, cpu), (&ATTACKS, &config), drawn.records());
    document.notes = vec![
        format!(
            "P's networks: d → 128 → 64 (relu) at each of two parties, residual networks on images of CIFAR, a linear top model; trained on \
             {} records with early stopping, a rate and batches of ours; columns in their order, the active party's first",
            records.1.len()
        ),
        "privee_dp and privee_dp_pp are as the authors' code draws them: one draw for all records, u from parts of [0, 3] and of [0, 1]; \
         aware divides by the mean scale of each rank before it attacks"
            .into(),
        "order-preserving ciphertexts stand for scores by their rank in their record, from 1/K to 1: an attack needs numbers".into(),
    ];
    as_code::note(&mut document);
    Ok(document)
}

/// Trains a model at one strength, and runs every attack under every defense.
fn one(
    subject: &ExperimentModel,
    drawn: &DrawnRecords,
    config: &TrainingConfig,
    records: &(DMatrix<f64>, Vec<u32>),
    strength: usize,
    seed: u64,
) -> Result<PointResults, ReproduceError> {
    let model = Model::train(subject, config, records, &divided(subject.features(), strength, 1)?)?;
    let d = model.passive.len();
    let n = drawn.records();
    let (y, logits) = model.served(&drawn.x)?;
    let (_, test_logits) = model.served(subject.test_records())?;
    let truth = select(&drawn.x, &model.passive, n);
    let undefended = accuracy(&predicted(&test_logits)?, &subject.labels)?;
    let mut out: PointResults = vec![
        ("accuracy_train".into(), 100.0 * model.accuracy[0]),
        ("accuracy_inference".into(), 100.0 * model.accuracy[1]),
    ];
    let half = squared_error_by_record(&DMatrix::from_element(d, n, 0.5), &truth)?;
    out.push(("half_error".into(), mean(half.iter().copied()).mean));
    let mut releases = Vec::new();
    for (name, text) in DEFENSES {
        let policy = policy(text)?;
        let all = released(&policy, &test_logits)?;
        let kept = accuracy(&all.predicted_labels(), &subject.labels)?;
        out.push((format!("accuracy_change_{name}"), 100.0 * (kept - undefended)));
        releases.push((name, ranks(released(&policy, &logits)?)));
    }
    if let Some((_, ReleasedScores::Numbers(p))) =
        releases.iter().find(|(name, _)| *name == "privee_dp")
    {
        releases.push((
            AWARE,
            ReleasedScores::Probabilities(undone(p, gaussian_scale(SCALE.0, SCALE.1, SCALE.2))),
        ));
    }
    let targets = Targets { model: &model, y, truth, seed };
    for (place, (attack, settings)) in ATTACKS.into_iter().enumerate() {
        let settings = Settings::read(settings.iter().copied())?;
        for (name, release) in &releases {
            out.extend(targets.invert(
                &format!("{attack}_{name}"),
                &settings,
                release,
                (place as u64) << 40 | strength as u64,
            )?);
        }
    }
    if let Some(settings) = CodeSettings::two_parties(subject) {
        let split = divided(subject.features(), strength, 1)?;
        let model = &config.values().model;
        let code = CodeModel::train(subject, settings, model, records, &split, seed)?;
        out.extend(code.accuracies()?);
        out.extend(code.losses()?);
    }
    Ok(out)
}
