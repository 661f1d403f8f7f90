//! J figures 11a and 12: the black box with auxiliary records. A shadow model is fitted to n
//! records that the adversary knows with all features, and attacked as if it were the true model.

use nalgebra::DMatrix;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_attack::{
    AuxiliaryRecords, KnownModel, Replacement, ShadowBias, ShadowEstimate, ShadowFit,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::curve_spec::{CurveSpec, pick};
use super::document::{Check, CheckKind, Document};
use super::experiment_model::{ExperimentModel, Purpose, generator};
use super::model_training::scores;
use super::sweep::{Plan, Window, select, sweep};
use super::white_box::{BEYOND, axis, fill, tenths};
use super::{Figure, Options, ReproduceError, blank};

/// The source of auxiliary records.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    /// Test records that are not attacked.
    Original,
    /// Features drawn one by one: uniform on [0, 1), standard normal, standard Laplace.
    Uniform,
    Normal,
    Laplace,
}

/// A curve with a shadow model.
struct Shadow {
    curve: &'static str,
    /// The number of records n, as a share of τ.
    share: f64,
    source: Source,
}

const fn original(curve: &'static str, share: f64) -> Shadow {
    Shadow { curve, share, source: Source::Original }
}

/// The curves of figure 11a.
const SHARES: [Shadow; 4] = [
    original("shadow_0.1_tau", 0.1),
    original("shadow_0.25_tau", 0.25),
    original("shadow_0.5_tau", 0.5),
    original("shadow_tau", 1.0),
];

/// The curves of figure 12. J does not give the number of records; with τ of them least squares
/// finds the weights from any source.
const SOURCES: [Shadow; 4] = [
    original("original", 0.5),
    Shadow { curve: "uniform", share: 0.5, source: Source::Uniform },
    Shadow { curve: "normal", share: 0.5, source: Source::Normal },
    Shadow { curve: "laplace", share: 0.5, source: Source::Laplace },
];

impl Source {
    /// Returns `n` records (d_t × n). The original ones are the first of `most` records drawn from
    /// `left` (d_t × m), so that a larger draw contains a smaller one.
    fn records(
        self,
        left: &DMatrix<f64>,
        most: usize,
        n: usize,
        rng: &mut ChaCha20Rng,
    ) -> DMatrix<f64> {
        let total = left.nrows();
        match self {
            Self::Original => {
                let mut records = rand::seq::index::sample(rng, left.ncols(), most).into_vec();
                records.truncate(n);
                left.select_columns(&records)
            }
            Self::Uniform => DMatrix::from_fn(total, n, |_, _| rng.random::<f64>()),
            Self::Normal => DMatrix::from_fn(total, n, |_, _| StandardNormal.sample(rng)),
            // Samples by the inverse distribution function; 1 − u is never 0.
            Self::Laplace => DMatrix::from_fn(total, n, |_, _| {
                let size = -(1.0 - rng.random::<f64>()).ln();
                if rng.random::<bool>() { size } else { -size }
            }),
        }
    }
}

/// The difference in mean squared error for what J calls "almost the same".
const ALMOST: f64 = 1e-3;

/// Computes figure 11a or 12. τ = d_t, enough for any split (J section 4.3.2, (21), and section
/// 5.3). The auxiliary records are test records that are not attacked, as J's are from the
/// prediction set too.
pub(super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let shadows: &[Shadow] = if figure == Figure::JFig12 { &SOURCES } else { &SHARES };
    let total = subject.features();
    let left = subject.left_out(Some(options.inversion_records), options.seed, total)?;
    let mut notes: Vec<String> = Vec::new();
    let drawn = subject.draw(Some(options.inversion_records), options.seed);
    let dimensions = tenths(subject, options)?;
    let attack = |curve| {
        let wanted = CurveSpec::new("gradient_inversion").called(curve);
        let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        wanted
            .with([("loss", "mse"), ("start", "zero"), ("steps", "1000"), ("stop_loss", "0")])
            .with(given)
    };
    let mut wanted: Vec<CurveSpec> = shadows.iter().map(|shadow| attack(shadow.curve)).collect();
    wanted.extend([attack("white_box"), CurveSpec::new("half"), CurveSpec::new("random")]);
    wanted.extend(CurveSpec::beyond());
    let (contenders, left_out) = pick(wanted, &options.attacks, drawn.records())?;
    notes.extend(left_out);

    let counts: Vec<Option<(usize, Source)>> = contenders
        .iter()
        .map(|c| {
            let shadow = shadows.iter().find(|shadow| shadow.curve == c.curve)?;
            Some((((shadow.share * total as f64).ceil() as usize).max(1), shadow.source))
        })
        .collect();
    let knowledge = |window: &Window,
                     contender: usize|
     -> Result<Option<KnownModel>, ReproduceError> {
        let Some((n, source)) = counts[contender] else { return Ok(None) };
        // One draw of τ records per split.
        let mut rng = generator(options.seed, Purpose::Auxiliary, window.item(0));
        let x = source.records(&left, total, n, &mut rng);
        let failed = |error| ReproduceError::Attack {
            curve: "shadow_model".into(),
            d: window.d,
            k0: window.k0,
            error,
        };
        let w_act = subject.weights.select_columns(&window.active);
        let known = KnownModel::black_box(w_act, subject.bias.clone(), window.d).map_err(failed)?;
        let auxiliary = AuxiliaryRecords::new(
            FeatureBlock::new(select(&x, &window.active, n))?,
            FeatureBlock::new(select(&x, &window.passive, n))?,
            ReleasedScores::Numbers(scores(&subject.weights, &subject.bias, &x)?),
            Replacement::default(),
        )
        .map_err(failed)?;
        let shadow =
            ShadowEstimate::fit(&known, &auxiliary, ShadowFit::LeastSquares, ShadowBias::Known);
        shadow.and_then(|shadow| shadow.shadow_of(&known)).map(Some).map_err(failed)
    };
    let plan = Plan {
        knowledge: Some(&knowledge),
        ..Plan::new(subject, &drawn, &contenders, &dimensions, options, figure.as_str())
    };
    let swept = sweep(&plan, |_, _| Ok(Vec::new()))?;

    let mut document = blank(figure, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    for (attack, n) in document.attacks.iter_mut().zip(&counts) {
        if let Some((n, _)) = n {
            attack.settings.insert("auxiliary_records".into(), n.to_string());
        }
    }
    document.notes.extend(notes);
    if contenders.iter().any(|contender| contender.informed) {
        document.notes.push(format!("{BEYOND}; informed has the true parameters"));
    }
    if figure == Figure::JFig12 {
        let checks = ["uniform", "normal", "laplace"]
            .into_iter()
            .flat_map(|curve| drawn_ones(&document, curve));
        let checks: Vec<Check> = checks.collect();
        document.checks.extend(checks);
        document.notes.push(format!(
            "half of τ = d_t = {total} auxiliary records; with τ of them least squares finds the same weights whatever they are. Those of the \
             data are test records that are not attacked. J's figure is of attack accuracy"
        ));
        return Ok(document);
    }
    document.checks.extend(as_good_as_known(&document, &dimensions));
    document.checks.extend(more_is_better(&document, &dimensions));
    document
        .notes
        .push(format!(
            "τ = d_t = {total} auxiliary records, test records that are not attacked, as J has it; the smaller shares are the first of the \
             same draw"
        ));
    Ok(document)
}

/// Checks that with records drawn at random the attack does worse than with original ones, and
/// better than a random guess.
fn drawn_ones(document: &Document, name: &str) -> Vec<Check> {
    let of = |low: &str, high: &str, claim: String| {
        let (a, b) = (document.curve(low)?, document.curve(high)?);
        let error = |c: &super::Curve, i: usize| c.standard_error.as_ref().map_or(0.0, |e| e[i]);
        let allowed = |i: usize| 2.0 * error(a, i).hypot(error(b, i));
        let violations: Vec<String> = (0..a.mean.len())
            .filter(|&i| a.mean[i] > b.mean[i] + allowed(i))
            .map(|i| {
                format!(
                    "d = {}: {low} {:.4}, {high} {:.4}",
                    document.axis.points[i], a.mean[i], b.mean[i]
                )
            })
            .collect();
        Some(Check {
            id: format!("{low}_below_{high}"),
            kind: CheckKind::Paper,
            claim,
            holds: violations.is_empty(),
            comparisons: a.mean.len() as u64,
            detail: format!(
                "not so by more than two standard errors at {} of {} points",
                violations.len(),
                a.mean.len()
            ),
            violations,
        })
    };
    let worse = format!(
        "{name}: an error no smaller than with original records (J section 5.3.1, figure 12)"
    );
    let better = format!(
        "{name}: an error no larger than that of a random guess (J section 5.3.1, figure 12)"
    );
    [of("original", name, worse), of(name, "random", better)].into_iter().flatten().collect()
}

/// Checks that with τ records the error is almost that of the white box.
fn as_good_as_known(document: &Document, dimensions: &[usize]) -> Option<Check> {
    let (shadow, known) = (document.curve("shadow_tau")?, document.curve("white_box")?);
    let differences: Vec<f64> =
        shadow.mean.iter().zip(&known.mean).map(|(a, b)| (a - b).abs()).collect();
    let violations: Vec<String> = dimensions
        .iter()
        .zip(&differences)
        .filter(|(_, difference)| **difference > ALMOST)
        .map(|(d, difference)| format!("d = {d}: {difference:.4} apart"))
        .collect();
    Some(Check {
        id: "as_white_box".into(),
        kind: CheckKind::Paper,
        claim: format!(
            "with τ auxiliary records the error is that of the white box, to {ALMOST} (J section 5.3, figure 11a)"
        ),
        holds: violations.is_empty(),
        comparisons: differences.len() as u64,
        detail: format!(
            "largest difference {:.1e}",
            differences.iter().copied().fold(0.0, f64::max)
        ),
        violations,
    })
}

/// Checks that the error falls with the number of auxiliary records; two standard errors are
/// allowed.
fn more_is_better(document: &Document, dimensions: &[usize]) -> Option<Check> {
    let curves: Vec<_> = SHARES.iter().filter_map(|shadow| document.curve(shadow.curve)).collect();
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
                violations.push(format!(
                    "d = {d}: {} {:.4} above {} {:.4}",
                    many.name, many.mean[i], few.name, few.mean[i]
                ));
            }
        }
    }
    Some(Check {
        id: "falls_with_records".into(),
        kind: CheckKind::Paper,
        claim: "the error falls with the number of auxiliary records (J section 5.3, figure 11a)"
            .into(),
        holds: violations.is_empty(),
        comparisons: ((curves.len() - 1) * dimensions.len()) as u64,
        detail: format!(
            "{} of {} steps do not",
            violations.len(),
            (curves.len() - 1) * dimensions.len()
        ),
        violations,
    })
}
