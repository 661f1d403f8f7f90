//! R figure 7: one passive feature in the black box. The adversary knows only if the signs of ω and
//! b agree, and its error falls to 0 with the number of predictions.

use std::collections::BTreeMap;
use std::time::Duration;

use nalgebra::DVector;
use vfl_attack::{AdversaryView, KnownModel, OneFeatureCase, Replacement, one_feature};
use vfl_core::types::FeatureBlock;
use vfl_present::progress::Progress;

use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document};
use super::experiment_model::{ExperimentModel, Purpose, generator};
use super::statistics::mean;
use super::sweep::{Window, select};
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};

/// The most predictions.
const PREDICTIONS: usize = 100;
/// The number of repetitions that the paper averages over.
const REPETITIONS: usize = 100;
/// The passive feature: R's "feature 14", counted from 0.
const FEATURE: &str = "emp.var.rate";

/// Computes the figure.
///
/// In every repetition 100 test records are drawn in order, and N predictions are for the first N:
/// the adversary sees v = c' − J W_act y = ω x + b of each, and never ω, b or x.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let missing =
        ReproduceError::NoFeature { dataset: subject.dataset.name.clone(), feature: FEATURE };
    let column = subject.feature_names.iter().position(|name| name == FEATURE).ok_or(missing)?;
    if subject.classes() != 2 {
        return Err(ReproduceError::Classes { got: subject.classes() });
    }
    let window = Window::new(subject, column, 1)?;
    let drawn = subject.draw(None, options.seed);
    if drawn.records() < PREDICTIONS {
        return Err(ReproduceError::TooFewRecords { got: drawn.records(), expected: PREDICTIONS });
    }
    // v is b' of a model whose bias is set to 0.
    let w_act = subject.weights.select_columns(&window.active);
    let failed =
        |error| ReproduceError::Attack { curve: "one_feature".into(), d: 1, k0: column, error };
    let blind = KnownModel::black_box(w_act, DVector::zeros(2), 1).map_err(failed)?;
    let y = FeatureBlock::new(select(&drawn.x, &window.active, drawn.records()))?;
    let released = drawn.released(drawn.records());
    let view = AdversaryView::new(&blind, &y, &released, Replacement::default()).map_err(failed)?;
    let v = view.b_prime().map_err(failed)?.row(0).transpose();
    let omega = subject.weights[(1, column)] - subject.weights[(0, column)];
    let b = subject.bias[1] - subject.bias[0];
    let same_sign = omega * b > 0.0;
    let case = if same_sign { OneFeatureCase::SameSign } else { OneFeatureCase::OppositeSigns };
    // There is no estimate if all v are equal (errata R9).
    let attack = |v: &[f64]| one_feature(case, v).ok();

    let mut progress = Progress::start("r-fig7", REPETITIONS as u64);
    let mut errors: Vec<Vec<f64>> = Vec::with_capacity(REPETITIONS);
    let (mut cpu, mut undefined) = (Duration::ZERO, 0u64);
    let repetition = |i: usize| {
        let mut rng = generator(options.seed, Purpose::Repetition, i as u64);
        let records = rand::seq::index::sample(&mut rng, drawn.records(), PREDICTIONS).into_vec();
        let v: Vec<f64> = records.iter().map(|&r| v[r]).collect();
        let x: Vec<f64> = records.iter().map(|&r| drawn.x[(column, r)]).collect();
        let (mut of_n, mut cpu, mut undefined) =
            (Vec::with_capacity(PREDICTIONS), Duration::ZERO, 0);
        for n in 1..=PREDICTIONS {
            let start = cpu_time();
            let found = attack(&v[..n]);
            cpu += cpu_time().saturating_sub(start);
            let found = found.filter(|found| found.len() == n).unwrap_or_else(|| {
                undefined += 1;
                vec![0.5; n]
            });
            of_n.push(
                x.iter().zip(&found).map(|(x, found)| (x - found) * (x - found)).sum::<f64>()
                    / n as f64,
            );
        }
        Ok((of_n, cpu, undefined))
    };
    in_order(
        options.threads,
        REPETITIONS,
        repetition,
        |i, (of_n, time, guessed): (Vec<f64>, Duration, u64)| {
            errors.push(of_n);
            cpu += time;
            undefined += guessed;
            progress.at(i as u64 + 1, "");
            Ok(())
        },
    )?;
    progress.done(&format!("r-fig7: {REPETITIONS} repetitions done"));

    let points: Vec<usize> = (1..=PREDICTIONS).collect();
    let means: Vec<_> =
        points.iter().map(|n| mean(errors.iter().map(|of_n| of_n[n - 1]))).collect();
    let mut document = blank(Figure::RFig7, subject, options.seed, PREDICTIONS);
    document.axis = Axis {
        label: "number of predictions N".into(),
        symbol: "N".into(),
        points: points.clone(),
        determined_up_to: None,
    };
    let (first, last) = (means[0], means[PREDICTIONS - 1]);
    document.curves.push(Curve {
        name: "one_feature".into(),
        role: CurveRole::Attack,
        of: None,
        x: points.iter().map(|&n| n as f64).collect(),
        mean: means.iter().map(|m| m.mean).collect(),
        standard_error: Some(means.iter().map(|m| m.standard_error).collect()),
        spread: None,
    });
    document.attacks.push(AttackFacts {
        curve: "one_feature".into(),
        method: "one_feature".into(),
        settings: BTreeMap::from([("same_sign".into(), same_sign.to_string())]),
        records: PREDICTIONS,
        cpu_seconds: cpu.as_secs_f64(),
    });
    document.checks.push(Check {
        id: "falls_to_0".into(),
        kind: CheckKind::Paper,
        claim: "the error falls to 0 as predictions grow (R section VI and figure 7)".into(),
        holds: last.mean <= 0.05 * first.mean,
        comparisons: 1,
        detail: format!(
            "{:.2e} ± {:.1e} with one prediction, {:.2e} ± {:.1e} with {PREDICTIONS}",
            first.mean, first.standard_error, last.mean, last.standard_error
        ),
        violations: Vec::new(),
    });
    document.notes.push(format!(
        "the passive party holds {FEATURE} (R's feature 14, from 0); ω = {omega:.6}, b = {b:.6} in this model, unknown to the \
         adversary but for whether their signs agree; mean of {REPETITIONS} repetitions"
    ));
    if undefined > 0 {
        document.notes.push(format!("in {undefined} of {} cases the attack is not defined (all predictions equal, as always with N = 1): ½ was guessed", PREDICTIONS * REPETITIONS));
    }
    Ok(document)
}
