//! J figure 8: attacks on a perceptron by the number of records that they have scores of.

use vfl_present::progress::Progress;

use super::super::curve_spec::{CurveRun, pick};
use super::super::document::{Axis, Check, CheckKind, Document};
use super::super::experiment_model::ExperimentModel;
use super::super::statistics::{Mean, mean};
use super::super::sweep::starts;
use super::super::workers::{cpu_time, in_order};
use super::super::{Figure, Options, ReproduceError, blank};
use super::beyond::{self, InformedPrior, MOST_FEATURES};
use super::checks::below;
use super::split::{Architecture, Split};
use super::{attacks, fill, trained};

/// The numbers of records, each with its number of draws in a split: an error on few records varies
/// much.
const DRAWS: [(usize, u64); 4] = [(1, 30), (10, 10), (100, 3), (1000, 1)];

/// The default number of splits.
const WINDOWS: usize = 3;

/// The result of one split.
struct SplitResult {
    accuracy: f64,
    /// The error of each draw, by attack and number of records.
    found: Vec<Vec<Vec<f64>>>,
    /// The processor time by attack, in seconds.
    cpu: Vec<f64>,
}

/// Computes the figure: half of the features are passive unless one number is requested.
pub(in super::super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let d = match options.dimensions[..] {
        [] => total / 2,
        [d] if (1..=total).contains(&d) => d,
        [got] => return Err(ReproduceError::Dimension { got, total }),
        _ => return Err(ReproduceError::OneDimension { figure: Figure::JFig8.as_str() }),
    };
    let most = subject.test_records().ncols().min(options.records.unwrap_or(usize::MAX));
    let attacks =
        attacks(options).into_iter().filter(|wanted| !wanted.informed || d <= MOST_FEATURES);
    // Half* and tangents also go record by record.
    let wanted = attacks.map(|wanted| match wanted.method {
        "half_star_layerwise" | "gaussian" => wanted.at_most(options.inversion_records),
        _ => wanted,
    });
    let (contenders, notes) = pick(wanted.collect(), &options.attacks, most)?;
    let starts = starts(total, options.windows.or(Some(WINDOWS)));
    let records = subject.own_records(options.own_records, options.seed);
    let draws: Vec<(usize, u64)> = DRAWS.into_iter().filter(|(n, _)| *n <= most).collect();
    let architecture = Architecture::J;
    let work = |piece: usize| -> Result<SplitResult, ReproduceError> {
        let split = Split::train(
            subject,
            &architecture.training(options.seed, subject.classes())?,
            &records,
            starts[piece],
            d,
        )?;
        let mut found = vec![vec![Vec::new(); draws.len()]; contenders.len()];
        let mut cpu = vec![0.0; contenders.len()];
        let informed = match contenders.iter().any(|contender| contender.informed) {
            true => Some(InformedPrior::of(subject, &split)?),
            false => None,
        };
        for (point, &(n, times)) in draws.iter().enumerate() {
            for draw in 0..times {
                let drawn = subject.draw(Some(n), options.seed.wrapping_add(draw));
                for (at, contender) in contenders.iter().enumerate() {
                    let begun = cpu_time();
                    let errors = match informed.as_ref().filter(|_| contender.informed) {
                        Some(informed) => {
                            informed.attack(&split, contender, &drawn.x, options.seed)?
                        }
                        None => {
                            split.attack(&split.known, contender, &drawn.x, options.seed, draw)?
                        }
                    };
                    cpu[at] += cpu_time().saturating_sub(begun).as_secs_f64();
                    found[at][point].push(mean(errors.iter().copied()).mean);
                }
            }
        }
        Ok(SplitResult { accuracy: split.accuracy, found, cpu })
    };
    let mut found = vec![vec![Vec::new(); draws.len()]; contenders.len()];
    let (mut cpu, mut accuracies) = (vec![0.0; contenders.len()], Vec::new());
    let mut progress = Progress::start("j-fig8", starts.len() as u64);
    in_order(options.threads, starts.len(), work, |piece, done: SplitResult| {
        accuracies.push(done.accuracy);
        // Draws of one split share its model, so the standard error of a mean is over splits.
        for (to, from) in found.iter_mut().flatten().zip(done.found.iter().flatten()) {
            to.push(mean(from.iter().copied()).mean);
        }
        cpu.iter_mut().zip(done.cpu).for_each(|(to, s)| *to += s);
        progress.at(piece as u64 + 1, "splits");
        Ok(())
    })?;
    progress.done(&format!("j-fig8: {} models trained and attacked", starts.len()));

    let mut document =
        blank(Figure::JFig8, subject, options.seed, draws.last().map_or(0, |(n, _)| *n));
    document.axis = Axis {
        label: "records with scores (logarithm to base 10)".into(),
        symbol: "n".into(),
        points: draws.iter().map(|(n, _)| *n).collect(),
        determined_up_to: None,
    };
    let x: Vec<f64> = draws.iter().map(|(n, _)| (*n as f64).log10()).collect();
    fill(&mut document, &contenders, &x, &found, &cpu);
    trained(&mut document, architecture, options, &accuracies)?;
    document.checks.extend(more_records(&contenders, &found));
    let guess = "the generative regression network does better than ½, which needs no score";
    for curve in ["grn", "grn_own"] {
        document.checks.extend(below(
            &document,
            curve,
            "half",
            &format!("{curve}: {guess} (ours)"),
        ));
    }
    document.notes.push(format!(
        "{d} of {total} features are passive; {} splits, each a model of its own",
        starts.len()
    ));
    let told: Vec<String> = draws.iter().map(|(n, times)| format!("{n}: {times}")).collect();
    document.notes.push(format!(
        "draws of test records in each split: {}; a point is the mean over them, its interval over splits. Attacks that go \
         record by record attack at most {} of a draw. J's figure is of attack accuracy, on bank and satellite",
        told.join(", "),
        options.inversion_records
    ));
    match contenders.iter().any(|contender| contender.informed) {
        true => document.notes.push(beyond::NOTE.to_owned()),
        false if d > MOST_FEATURES => document.notes.push(format!(
            "informed and control are left out: with more than {MOST_FEATURES} passive features no informed adversary runs through networks"
        )),
        false => {}
    }
    document.notes.extend(notes);
    Ok(document)
}

/// J: the network needs many records, gradient inversion does not. Few and many are compared split
/// by split.
fn more_records(contenders: &[CurveRun], found: &[Vec<Vec<f64>>]) -> Option<Check> {
    let of = |curve: &str| {
        let points = &found[contenders.iter().position(|c| c.curve == curve)?];
        let (few, many) = (points.first()?, points.last()?);
        let falls: Vec<f64> = few.iter().zip(many).map(|(few, many)| few - many).collect();
        let mean_of = |values: &[f64]| mean(values.iter().copied());
        Some((mean_of(few).mean, mean_of(many).mean, mean_of(&falls)))
    };
    let ((few, many, grn), (one, all, gia)) = (of("grn")?, of("gia")?);
    let allowed = |fall: Mean| 2.0 * fall.standard_error;
    Some(Check {
        id: "grn_needs_many_records".into(),
        kind: CheckKind::Paper,
        claim: "the generative regression network needs many records and gradient inversion does not (J section 5.2.2, figure 8; there \
                of attack accuracy)"
            .into(),
        holds: grn.mean > allowed(grn) && gia.mean.abs() <= allowed(gia),
        comparisons: 2,
        detail: format!("from the fewest to the most records: grn {few:.4} to {many:.4}, gia {one:.4} to {all:.4}"),
        violations: Vec::new(),
    })
}
