//! R figure 14: gradient inversion from zero, from ½ and from a random point.

use super::curve_spec::{CurveSpec, pick};
use super::document::{Check, CheckKind, Document};
use super::experiment_model::ExperimentModel;
use super::sweep::{Plan, sweep};
use super::white_box::{BEYOND, axis, dimensions, fill, inversion};
use super::{Figure, Options, ReproduceError, blank};

/// Computes the figure, with ½ as a guess for comparison.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(Some(options.inversion_records), options.seed);
    let dimensions = dimensions(subject, options)?;
    let from = |curve, start| {
        inversion(&options.inversion, drawn.records()).with([("start", start)]).called(curve)
    };
    let mut wanted = vec![
        from("from_zero", "zero"),
        from("from_half", "half"),
        from("from_random", "random"),
        CurveSpec::new("half"),
    ];
    wanted.extend(CurveSpec::beyond());
    let (contenders, notes) = pick(wanted, &options.attacks, drawn.records())?;
    let plan = Plan::new(subject, &drawn, &contenders, &dimensions, options, "r-fig14");
    let swept = sweep(&plan, |_, _| Ok(Vec::new()))?;

    let mut document = blank(Figure::RFig14, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    document.notes.extend(notes);
    document.notes.push(BEYOND.to_owned());
    document.checks.extend(half_is_best(&document, &dimensions, subject.classes()));
    Ok(document)
}

/// R: starting from ½ is best, on robot "for the most part". Checked only for d ≥ k: below that,
/// every start leads to the truth.
fn half_is_best(document: &Document, dimensions: &[usize], classes: usize) -> Option<Check> {
    let values = |name: &str| document.curve(name).map(|c| c.mean.as_slice());
    let (zero, half, random) = (values("from_zero")?, values("from_half")?, values("from_random")?);
    let open: Vec<usize> = (0..dimensions.len()).filter(|&i| dimensions[i] >= classes).collect();
    if open.is_empty() {
        return None;
    }
    let violations: Vec<String> = open
        .iter()
        .filter(|&&i| half[i] > zero[i].min(random[i]))
        .map(|&i| {
            format!(
                "d = {}: {:.4} from ½, {:.4} from 0, {:.4} from random",
                dimensions[i], half[i], zero[i], random[i]
            )
        })
        .collect();
    let won = open.len() - violations.len();
    Some(Check {
        id: "best_from_half".into(),
        kind: CheckKind::Paper,
        claim: "gradient inversion does best from ½, on robot for the most part (R section VIII-E)"
            .into(),
        holds: 2 * won > open.len(),
        comparisons: open.len() as u64,
        detail: format!("best at {won} of {} points with d ≥ k", open.len()),
        violations,
    })
}
