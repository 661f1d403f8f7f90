//! J figure 8: attacks on a perceptron by how many records they have the scores of.

use super::super::contender::pick;
use super::super::document::{Axis, Check, Document};
use super::super::statistics::mean;
use super::super::subject::Subject;
use super::super::sweep::starts;
use super::super::workers::{cpu_time, in_order};
use super::super::{Figure, Options, ReproduceError, blank};
use super::split::{Architecture, Split};
use super::{attacks, below, fill, trained};
use crate::progress::Progress;

/// Numbers of records, each with how often it is drawn anew in a split: an error on few records says little.
const DRAWS: [(usize, u64); 4] = [(1, 30), (10, 10), (100, 3), (1000, 1)];

/// Splits unless told otherwise.
const WINDOWS: usize = 3;

/// What happened in one split.
struct InSplit {
    accuracy: f64,
    /// By attack and number of records: the error of each draw.
    found: Vec<Vec<Vec<f64>>>,
    /// By attack, in seconds.
    cpu: Vec<f64>,
}

/// Computes the figure: half of the features passive unless one number is asked for.
pub(in super::super) fn run(subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let d = match options.dimensions[..] {
        [] => total / 2,
        [d] if (1..=total).contains(&d) => d,
        [got] => return Err(ReproduceError::Dimension { got, total }),
        _ => return Err(ReproduceError::OneDimension { figure: Figure::JFig8.as_str() }),
    };
    let most = subject.test_records().ncols().min(DRAWS[DRAWS.len() - 1].0);
    let (contenders, notes) = pick(attacks(&options.inversion), &options.attacks, most)?;
    let starts = starts(total, options.windows.or(Some(WINDOWS)));
    let records = subject.own_records(options.own_records, options.seed);
    let draws: Vec<(usize, u64)> = DRAWS.into_iter().filter(|(n, _)| *n <= most).collect();
    let architecture = Architecture::J;
    let alone = |curve: &str| curve.starts_with("gia") || curve == "half_star_layerwise";
    // Descents go record by record: how many others there are changes nothing, so that a hundred tell enough.
    let limit = |curve: &str, n: usize| if alone(curve) { n.min(options.inversion_records) } else { n };
    let work = |piece: usize| -> Result<InSplit, ReproduceError> {
        let split = Split::train(subject, &architecture.training(options.seed)?, &records, starts[piece], d)?;
        let mut found = vec![vec![Vec::new(); draws.len()]; contenders.len()];
        let mut cpu = vec![0.0; contenders.len()];
        for (point, &(n, times)) in draws.iter().enumerate() {
            for draw in 0..times {
                let drawn = subject.draw(Some(n), options.seed.wrapping_add(draw));
                for (at, contender) in contenders.iter().enumerate() {
                    let begun = cpu_time();
                    let x = drawn.x.columns(0, limit(contender.curve, n)).into_owned();
                    let errors = split.attack(contender, &x, options.seed, draw)?;
                    cpu[at] += cpu_time().saturating_sub(begun).as_secs_f64();
                    found[at][point].push(mean(errors.iter().copied()).mean);
                }
            }
        }
        Ok(InSplit { accuracy: split.accuracy, found, cpu })
    };
    let mut found = vec![vec![Vec::new(); draws.len()]; contenders.len()];
    let (mut cpu, mut accuracies) = (vec![0.0; contenders.len()], Vec::new());
    let mut progress = Progress::start("j-fig8", starts.len() as u64);
    in_order(options.threads, starts.len(), work, |piece, done: InSplit| {
        accuracies.push(done.accuracy);
        for (to, from) in found.iter_mut().flatten().zip(done.found.into_iter().flatten()) {
            to.extend(from);
        }
        cpu.iter_mut().zip(done.cpu).for_each(|(to, s)| *to += s);
        progress.at(piece as u64 + 1, "splits");
        Ok(())
    })?;
    progress.done(&format!("j-fig8: {} models trained and attacked", starts.len()));

    let mut document = blank(Figure::JFig8, subject, options.seed, draws.last().map_or(0, |(n, _)| *n));
    document.axis = Axis {
        label: "records with scores (logarithm to base 10)".into(),
        symbol: "n".into(),
        points: draws.iter().map(|(n, _)| *n).collect(),
        determined_up_to: None,
    };
    let x: Vec<f64> = draws.iter().map(|(n, _)| (*n as f64).log10()).collect();
    fill(&mut document, &contenders, &x, &found, &cpu);
    trained(&mut document, architecture, options, &accuracies)?;
    document.checks.extend(more_records(&document));
    let guess = "the generative regression network does better than ½, which needs no score";
    for curve in ["grn", "grn_own"] {
        document.checks.extend(below(&document, curve, "half", &format!("{curve}: {guess} (ours)")));
    }
    document
        .notes
        .push(format!("{d} of {total} features are passive; {} splits, each a model of its own", starts.len()));
    let told: Vec<String> = draws.iter().map(|(n, times)| format!("{n}: {times}")).collect();
    document.notes.push(format!(
        "draws of test records in each split: {}; the interval is over splits and draws. Gradient inversion goes record by record and \
         attacks at most {} of a draw",
        told.join(", "),
        options.inversion_records
    ));
    document.notes.extend(notes);
    Ok(document)
}

/// J: the network needs many records, gradient inversion does not.
fn more_records(document: &Document) -> Option<Check> {
    let (grn, gia) = (document.curve("grn")?, document.curve("gia")?);
    let fall = |curve: &super::Curve| Some((*curve.mean.first()?, *curve.mean.last()?));
    let ((few, many), (one, all)) = (fall(grn)?, fall(gia)?);
    let error = |curve: &super::Curve| {
        let errors = curve.standard_error.as_ref()?;
        Some(errors.first()?.hypot(*errors.last()?))
    };
    let falls = few - many > 2.0 * error(grn)?;
    let stays = (one - all).abs() <= 2.0 * error(gia)?;
    Some(Check {
        claim: "the generative regression network needs many records and gradient inversion does not (J section 5.2.2, figure 8)".into(),
        holds: falls && stays,
        comparisons: 2,
        detail: format!("from the fewest to the most records: grn {few:.4} to {many:.4}, gia {one:.4} to {all:.4}"),
        violations: Vec::new(),
    })
}
