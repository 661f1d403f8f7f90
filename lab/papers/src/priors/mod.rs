//! Adversaries that know more about the passive features than their range, each compared with a
//! control that has the same knowledge and no score. The difference of the two is what the scores
//! add (Jayaraman and Evans, CCS 2022).
//!
//! The last d columns are passive. The adversary knows the parameters and has exact scores. It
//! knows of the passive features their range; or their mean and covariance; or it has records with
//! the features of both parties, 200 or all that are not test records, and estimates the joint
//! moments from these.

mod checks;
mod experiment;
mod reference_values;

use std::collections::BTreeMap;
use std::time::Duration;

pub(super) use checks::together;
use vfl_present::progress::Progress;

use super::document::{AttackFacts, Axis, Curve, CurveRole, Document};
use super::experiment_model::ExperimentModel;
use super::statistics::{mean, ratio};
use super::workers::in_order;
use super::{Figure, Options, ReproduceError, blank};
use experiment::{DRAWS, Experiment, FEW, FinishedDraw, LINES, POINTS, Point, PriorKnowledge};

/// Computes the figure.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let (total, pool) = (subject.features(), subject.others.ncols());
    if pool < FEW {
        return Err(ReproduceError::TooFewRecords { got: pool, expected: FEW });
    }
    let dimensions = dimensions(subject, options)?;
    let drawn = subject.draw(options.records, options.seed);
    let experiment = Experiment { subject, drawn: &drawn, seed: options.seed };
    let each = || {
        PriorKnowledge::EACH
            .iter()
            .flat_map(|&known| (0..known.draws()).map(move |draw| (known, draw)))
    };
    let jobs: Vec<(usize, PriorKnowledge, usize)> = (0..dimensions.len())
        .flat_map(|i| each().map(move |(known, draw)| (i, known, draw)))
        .collect();

    let mut points: Vec<Point> = dimensions
        .iter()
        .map(|&d| Point {
            d,
            errors: vec![vec![0.0; drawn.records()]; LINES.len()],
            draws: Vec::new(),
        })
        .collect();
    let mut cpu = [Duration::ZERO; LINES.len()];
    let mut progress = Progress::start("priors", jobs.len() as u64);
    let work = |job: usize| {
        let (i, known, draw) = jobs[job];
        experiment.lines(dimensions[i], known, draw)
    };
    in_order(options.threads, jobs.len(), work, |job, done: FinishedDraw| {
        let (i, known, _) = jobs[job];
        let point = &mut points[i];
        if known == PriorKnowledge::Few
            && let [(control, _), _, _, (scores, _), ..] = done.as_slice()
            && let Some(r) = ratio(scores, control)
        {
            point.draws.push(1.0 - r.mean);
        }
        let places = LINES
            .iter()
            .enumerate()
            .filter(|(_, line)| line.known == known)
            .map(|(place, _)| place);
        for (place, (errors, time)) in places.zip(done) {
            cpu[place] += time;
            point.errors[place]
                .iter_mut()
                .zip(errors)
                .for_each(|(sum, e)| *sum += e / known.draws() as f64);
        }
        progress.at(job as u64 + 1, &format!("d = {}", dimensions[i]));
        Ok(())
    })?;
    progress.done(&format!("priors: {} attacks on {} records done", jobs.len(), drawn.records()));

    let mut document = blank(Figure::Priors, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "number of passive features d, the last columns".into(),
        symbol: "d".into(),
        points: dimensions.clone(),
        determined_up_to: Some(subject.classes() as f64 - 1.0),
    };
    fill(&mut document, &points, &cpu, drawn.records());
    for point in &points {
        for known in PriorKnowledge::EACH {
            document
                .added_risk
                .extend(known.attacks().filter_map(|attack| point.added(known, attack)));
        }
    }
    document.checks.extend(POINTS.map(|of| checks::never_worse(&points, of)));
    let rows = reference_values::rows(&document.dataset.name, total);
    let beside: Vec<_> = rows
        .filter_map(|row| Some(row.beside(&document, dimensions.iter().position(|&d| d == row.d)?)))
        .collect();
    document.checks.extend(beside);
    document.notes = notes(&points, pool);
    Ok(document)
}

/// Returns the numbers of passive features: the requested ones, or those of the independent
/// computation, or half of all.
fn dimensions(subject: &ExperimentModel, options: &Options) -> Result<Vec<usize>, ReproduceError> {
    let total = subject.features();
    let mut wanted = options.clone();
    if wanted.dimensions.is_empty() {
        wanted.dimensions =
            reference_values::rows(&subject.dataset.name, total).map(|row| row.d).collect();
    }
    if wanted.dimensions.is_empty() {
        wanted.dimensions.push((total / 2).max(1));
    }
    super::white_box::dimensions(subject, &wanted)
}

fn fill(document: &mut Document, points: &[Point], cpu: &[Duration], records: usize) {
    for (place, line) in LINES.iter().enumerate() {
        let means: Vec<_> = points.iter().map(|p| mean(p.errors[place].iter().copied())).collect();
        document.curves.push(Curve {
            name: line.curve.into(),
            role: if line.scores { CurveRole::Attack } else { CurveRole::Guess },
            of: None,
            x: points.iter().map(|p| p.d as f64).collect(),
            mean: means.iter().map(|m| m.mean).collect(),
            standard_error: Some(means.iter().map(|m| m.standard_error).collect()),
            spread: None,
        });
        document.attacks.push(AttackFacts {
            curve: line.curve.into(),
            method: line.method.to_string(),
            settings: BTreeMap::from([
                ("known".into(), line.known.words().into()),
                ("defense".into(), (line.defense)().to_string()),
            ]),
            records,
            cpu_seconds: cpu[place].as_secs_f64(),
        });
    }
}

fn notes(points: &[Point], pool: usize) -> Vec<String> {
    let spread: Vec<String> = points
        .iter()
        .filter(|p| !p.draws.is_empty())
        .map(|p| {
            let (low, high) = p
                .draws
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
            format!("{low:.3} to {high:.3} at d = {}", p.d)
        })
        .collect();
    vec![
        format!(
            "moments are those of the {pool} records outside the test part, most of which the model was trained on; correlations are \
             shrunk; intervals are over the attacked records, the model and the known records being fixed"
        ),
        format!(
            "with {FEW} records, errors are means over {DRAWS} draws of these; the added risk of posterior_mean in single draws is {}",
            spread.join(", ")
        ),
        "half_star is not clipped to [0, 1], as in R's text; the added risk of who knows the range is that of clamped_half_star over ½"
            .into(),
        "conditional_mean is clipped to [0, 1]; gaussian is the likeliest point of the Gaussian in the box, posterior_mean its mean there"
            .into(),
        "kernel_ridge is a regression on the 200 records with their scores, kernel_control the same without scores; the control of all \
         who have 200 records is the better of it and of the imputation by moments"
            .into(),
        "column_mean is the control of who knows mean and covariance: without active features a covariance tells nothing of a record"
            .into(),
    ]
}
