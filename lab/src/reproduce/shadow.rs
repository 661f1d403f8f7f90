//! J figure 11a: the black box with auxiliary records. A shadow model is fitted to n records that the adversary knows whole, and
//! attacked as if it were the true one.

use vfl_active_party::attack::{AuxiliaryRecords, KnownModel, Replacement, ShadowBias, ShadowEstimate, ShadowFit};
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::contender::{Wanted, pick};
use super::document::{Check, Document};
use super::subject::{Purpose, Subject, generator, scores};
use super::sweep::{Plan, Window, select, sweep};
use super::white_box::{axis, fill};
use super::{Figure, Options, ReproduceError, blank};

/// The curves with a shadow model: n as a share of τ.
const SHARES: [(&str, f64); 4] =
    [("shadow_0.1_tau", 0.1), ("shadow_0.25_tau", 0.25), ("shadow_0.5_tau", 0.5), ("shadow_tau", 1.0)];

/// What J calls "almost the same": this far apart in mean squared error.
const ALMOST: f64 = 1e-3;

/// Computes the figure. τ = d_t, enough for any split (J section 4.3.2, (21), and section 5.3); the auxiliary records are no test records.
pub(super) fn run(subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let (total, pool) = (subject.features(), subject.others.ncols());
    if pool < total {
        return Err(ReproduceError::TooFewRecords { got: pool, expected: total });
    }
    let mut notes: Vec<String> = Vec::new();
    let drawn = subject.draw(Some(options.inversion_records), options.seed);
    let dimensions = if options.dimensions.is_empty() {
        let mut tenths: Vec<usize> = (1..=9).map(|tenth| (total * tenth + 5) / 10).filter(|d| *d > 0).collect();
        tenths.dedup();
        tenths
    } else {
        super::white_box::dimensions(subject, options)?
    };
    let attack = |curve| {
        let wanted = Wanted::new("gradient_inversion").called(curve);
        let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        wanted.with([("loss", "mse"), ("start", "zero"), ("steps", "1000"), ("stop_loss", "0")]).with(given)
    };
    let mut wanted: Vec<Wanted> = SHARES.iter().map(|(curve, _)| attack(curve)).collect();
    wanted.extend([attack("white_box"), Wanted::new("half"), Wanted::new("random")]);
    let (contenders, left_out) = pick(wanted, &options.attacks, drawn.records())?;
    notes.extend(left_out);

    let counts: Vec<Option<usize>> = contenders
        .iter()
        .map(|c| {
            let share = SHARES.iter().find(|(curve, _)| *curve == c.curve)?.1;
            Some(((share * total as f64).ceil() as usize).max(1))
        })
        .collect();
    let knowledge = |window: &Window, contender: usize| -> Result<Option<KnownModel>, ReproduceError> {
        let Some(n) = counts[contender] else { return Ok(None) };
        // One draw of τ records per split, of which each share takes the first: more records are these and others.
        let mut rng = generator(options.seed, Purpose::Auxiliary, window.item(0));
        let mut records = rand::seq::index::sample(&mut rng, pool, total).into_vec();
        records.truncate(n);
        let x = subject.others.select_columns(&records);
        let failed = |error| ReproduceError::Attack { curve: "shadow_model".into(), d: window.d, k0: window.k0, error };
        let w_act = subject.weights.select_columns(&window.active);
        let known = KnownModel::black_box(w_act, subject.bias.clone(), window.d).map_err(failed)?;
        let auxiliary = AuxiliaryRecords::new(
            FeatureBlock::new(select(&x, &window.active, n))?,
            FeatureBlock::new(select(&x, &window.passive, n))?,
            ReleasedScores::Numbers(scores(&subject.weights, &subject.bias, &x)?),
            Replacement::default(),
        )
        .map_err(failed)?;
        let shadow = ShadowEstimate::fit(&known, &auxiliary, ShadowFit::LeastSquares, ShadowBias::Known);
        shadow.and_then(|shadow| shadow.shadow_of(&known)).map(Some).map_err(failed)
    };
    let plan = Plan {
        knowledge: Some(&knowledge),
        ..Plan::new(subject, &drawn, &contenders, &dimensions, options, "j-fig11a")
    };
    let swept = sweep(&plan, |_, _| Ok(Vec::new()))?;

    let mut document = blank(Figure::JFig11a, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    for (attack, n) in document.attacks.iter_mut().zip(&counts) {
        if let Some(n) = n {
            attack.settings.insert("auxiliary_records".into(), n.to_string());
        }
    }
    document.checks.extend(as_good_as_known(&document, &dimensions));
    document.checks.extend(more_is_better(&document, &dimensions));
    document.notes.extend(notes);
    document
        .notes
        .push(format!("τ = d_t = {total} auxiliary records; the smaller shares are the first of the same draw"));
    Ok(document)
}

/// With τ records the error is almost that of the white box.
fn as_good_as_known(document: &Document, dimensions: &[usize]) -> Option<Check> {
    let (shadow, known) = (document.curve("shadow_tau")?, document.curve("white_box")?);
    let differences: Vec<f64> = shadow.mean.iter().zip(&known.mean).map(|(a, b)| (a - b).abs()).collect();
    let violations: Vec<String> = dimensions
        .iter()
        .zip(&differences)
        .filter(|(_, difference)| **difference > ALMOST)
        .map(|(d, difference)| format!("d = {d}: {difference:.4} apart"))
        .collect();
    Some(Check {
        claim: format!(
            "with τ auxiliary records the error is that of the white box, to {ALMOST} (J section 5.3, figure 11a)"
        ),
        holds: violations.is_empty(),
        comparisons: differences.len() as u64,
        detail: format!("largest difference {:.1e}", differences.iter().copied().fold(0.0, f64::max)),
        violations,
    })
}

/// The error falls with the number of auxiliary records, two standard errors allowed.
fn more_is_better(document: &Document, dimensions: &[usize]) -> Option<Check> {
    let curves: Vec<_> = SHARES.iter().filter_map(|(curve, _)| document.curve(curve)).collect();
    if curves.len() < 2 {
        return None;
    }
    let mut violations = Vec::new();
    for pair in curves.windows(2) {
        let (few, many) = (pair[0], pair[1]);
        let error = |c: &super::Curve, i: usize| c.standard_error.as_ref().map_or(0.0, |e| e[i]);
        for (i, d) in dimensions.iter().enumerate() {
            let allowed = 2.0 * error(few, i).hypot(error(many, i)) + 1e-12;
            if many.mean[i] > few.mean[i] + allowed {
                violations
                    .push(format!("d = {d}: {} {:.4} above {} {:.4}", many.name, many.mean[i], few.name, few.mean[i]));
            }
        }
    }
    Some(Check {
        claim: "the error falls with the number of auxiliary records (J section 5.3, figure 11a)".into(),
        holds: violations.is_empty(),
        comparisons: ((curves.len() - 1) * dimensions.len()) as u64,
        detail: format!("{} of {} steps do not", violations.len(), (curves.len() - 1) * dimensions.len()),
        violations,
    })
}
