//! V figures 9, 10, 11 and 13: one curve for each case and number of passive features.

use std::collections::BTreeMap;

use vfl_present::progress::Progress;

use super::checks::{almost_linear, as_told, at_distance, more_general, reached, rises, shows};
use super::experiment::{
    Case, Distance, Experiment, Line, RewriteResult, SHARES, average, common_note,
};
use crate::blank_document::blank;
use crate::sweep::starts;
use crate::workers::in_order;
use crate::{
    AttackFacts, Axis, Curve, CurveRole, Document, ExperimentModel, Figure, Options, ReproduceError,
};

/// The default number of windows of each number of passive features, if the transform is searched
/// for.
const WINDOWS: usize = 3;

fn lines(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Vec<Line>, ReproduceError> {
    let (total, k) = (subject.features(), subject.classes());
    let share = |share: f64| ((share * total as f64).round() as usize).clamp(1, total);
    let chosen = |default: Vec<usize>| {
        let all = if options.dimensions.is_empty() { default } else { options.dimensions.clone() };
        match all.iter().find(|&&d| d < 1 || d > total) {
            Some(&got) => Err(ReproduceError::Dimension { got, total }),
            None => Ok(all),
        }
    };
    Ok(match figure {
        Figure::VFig9 => {
            let all = chosen(vec![share(0.2).max(k), share(0.5), share(0.8)])?;
            all.iter()
                .flat_map(|&d| [Line { case: Case::Iv, d }, Line { case: Case::I, d }])
                .filter(|line| line.case == Case::Iv || line.d >= k)
                .collect()
        }
        Figure::VFig10 => vec![Line { case: Case::Iii, d: 1 }],
        Figure::VFig13 => {
            chosen(vec![2])?.into_iter().map(|d| Line { case: Case::of(k, d), d }).collect()
        }
        _ => {
            let all = chosen(vec![2, k - 1, (k + 1).min(total), share(0.8).max(k)])?;
            all.into_iter().map(|d| Line { case: Case::of(k, d), d }).collect()
        }
    })
}

/// Computes figures 9, 10, 11 and 13.
pub(crate) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let lines = lines(figure, subject, options)?;
    // With one feature there is no search, so all windows are used.
    let windows = options.windows.or((figure != Figure::VFig10).then_some(WINDOWS));
    let starts = starts(subject.features(), windows);
    let experiment = Experiment { subject, drawn: &drawn, seed: options.seed };
    let pieces = lines.len() * SHARES.len() * starts.len();
    let of = |piece: usize| {
        let (line, rest) =
            (piece / (SHARES.len() * starts.len()), piece % (SHARES.len() * starts.len()));
        (line, rest / starts.len(), starts[rest % starts.len()])
    };
    let work = |piece: usize| {
        let (line, share, k0) = of(piece);
        experiment.at(lines[line].case, lines[line].d, k0, Distance::Share(SHARES[share]))
    };
    let mut found: Vec<Vec<Vec<RewriteResult>>> = vec![vec![Vec::new(); SHARES.len()]; lines.len()];
    let mut refused = 0u64;
    let mut progress = Progress::start(figure.as_str(), pieces as u64);
    in_order(options.threads, pieces, work, |piece, done: Option<RewriteResult>| {
        let (line, share, _) = of(piece);
        refused += u64::from(done.is_none());
        found[line][share].extend(done);
        progress.at(piece as u64 + 1, &lines[line].name());
        Ok(())
    })?;
    progress.done(&format!("{}: {pieces} releases attacked", figure.as_str()));

    let mut document = blank(figure, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "distance g of the released from the true parameters, in % of the mean square of a weight".into(),
        symbol: "point".into(),
        points: (1..=SHARES.len()).collect(),
        determined_up_to: None,
    };
    for (line, of) in lines.iter().zip(&found) {
        // Only if every window has a release: means over different windows cannot be compared.
        let whole: Vec<&Vec<RewriteResult>> =
            of.iter().filter(|of| of.len() == starts.len()).collect();
        push(&mut document, line, &whole, drawn.records());
        document.checks.push(rises(&line.name(), &whole));
        document.checks.push(reached(&line.name(), &whole));
        if figure == Figure::VFig10 {
            document.checks.extend(almost_linear(&line.name(), &whole));
        }
        document.notes.push(shows(&line.name(), &whole));
    }
    let all: Vec<&RewriteResult> = found.iter().flatten().flatten().collect();
    document.checks.push(as_told(&all));
    document.checks.push(at_distance(&all));
    if figure == Figure::VFig9 {
        document.checks.extend(more_general(&document, &lines, &found));
    }
    document.notes.push(common_note(starts.len()));
    if refused > 0 {
        document.notes.push(format!(
            "{refused} distances in a window were refused: the error would have no bound there"
        ));
    }
    Ok(document)
}

/// Adds the curve of a line, its closed form, and ½.
fn push(document: &mut Document, line: &Line, points: &[&Vec<RewriteResult>], records: usize) {
    let x: Vec<f64> = points.iter().map(|of| 100.0 * average(of, |f| f.relative)).collect();
    let name = line.name();
    let curve = |name: String, role, of: Option<String>, value: fn(&RewriteResult) -> f64| Curve {
        name,
        role,
        of,
        x: x.clone(),
        mean: points.iter().map(|of| average(of, value)).collect(),
        standard_error: None,
        spread: None,
    };
    document.curves.push(curve(name.clone(), CurveRole::Attack, None, |f| f.error.mean));
    document.curves.push(curve(
        format!("{name}_closed_form"),
        CurveRole::ClosedForm,
        Some(name.clone()),
        |f| f.told,
    ));
    document
        .curves
        .push(curve(format!("{name}_suspicious"), CurveRole::Attack, None, |f| f.suspicious));
    document
        .curves
        .push(curve(format!("{name}_informed"), CurveRole::Beyond, None, |f| f.informed));
    let half = format!("half_d{}", line.d);
    if document.curve(&half).is_none() {
        document.curves.push(curve(half, CurveRole::Guess, None, |f| f.half));
        document
            .curves
            .push(curve(format!("control_d{}", line.d), CurveRole::Beyond, None, |f| f.control));
    }
    document.attacks.push(AttackFacts {
        curve: name,
        method: "half_star".into(),
        settings: BTreeMap::from([("transform".into(), line.case.config(1.0).name().into())]),
        records,
        cpu_seconds: points.iter().flat_map(|of| of.iter()).map(|f| f.cpu.as_secs_f64()).sum(),
    });
}
