//! V figures 3, 4, 5 and 7: attacks on records without a score.
//!
//! `vfl` is the attack on exact scores; `am` the same with scores estimated by a model of the
//! active features and labels (V (8)); `ram_n` with that model refined by n scores of other records
//! (V (9)). All clip to [0, 1], V's first strategy.

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack::{
    AdversaryView, Agnostic, AgnosticResult, AgnosticSettings, AttackError, KnownModel,
    LabelledRecords, Method, ObservedRecords, Replacement, Settings,
};
use vfl_core::metrics::squared_error_by_record;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_present::progress::Progress;

use super::document::{AttackFacts, Check, CheckKind, Curve, CurveRole, Document};
use super::experiment_model::{DrawnRecords, ExperimentModel, Purpose, generator};
use super::statistics::{Mean, mean};
use super::sweep::{EQUAL, Window, beyond, select, starts};
use super::white_box::{BEYOND, axis, eight};
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};

/// The default number of windows for each number of passive features; the second for models that
/// are refined by scores, which take longer to fit.
const WINDOWS: (usize, usize) = (4, 2);

/// A curve of the figure that uses an adversary model.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AgnosticCurve {
    name: &'static str,
    /// n_p, the number of other records whose scores it has.
    seen: usize,
    alpha: f64,
    beta: f64,
}

const AM: AgnosticCurve = AgnosticCurve { name: "am", seen: 0, alpha: 1.0, beta: 0.0 };
const RAM_50: AgnosticCurve = AgnosticCurve { name: "ram_50", seen: 50, ..AM };
const RAM_100: AgnosticCurve = AgnosticCurve { name: "ram_100", seen: 100, ..AM };
/// Refined by labels alone, which any defense that keeps the class leaves.
const RAM_100_LABELS: AgnosticCurve =
    AgnosticCurve { name: "ram_100_labels", seen: 100, alpha: 0.0, beta: 1.0 };

fn lines(figure: Figure) -> &'static [AgnosticCurve] {
    match figure {
        Figure::VFig4 => &[AM, RAM_100, RAM_100_LABELS],
        Figure::VFig5 => &[AM, RAM_50, RAM_100],
        _ => &[AM],
    }
}

/// Returns the adversary's own records in one split.
pub(super) fn own(
    (x, labels): &(DMatrix<f64>, Vec<u32>),
    active: &[usize],
) -> Result<LabelledRecords, ReproduceError> {
    Ok(LabelledRecords {
        y: FeatureBlock::new(select(x, active, x.ncols()))?,
        labels: labels.clone(),
    })
}

/// The result of one split.
struct AgnosticWindowResult {
    /// The squared error per feature of each target: per line, then `vfl`, `half`, `control` and
    /// `informed`.
    errors: Vec<Vec<f64>>,
    /// The number of adversary models whose fit did not reach its minimum.
    short: u64,
    /// V (21) for `am` without clipping: measured, and by the formula.
    told: (f64, f64),
    cpu: Vec<Duration>,
}

struct Experiment<'a> {
    subject: &'a ExperimentModel,
    seen: DrawnRecords,
    targets: DrawnRecords,
    /// The labelled records of the adversary, d_t × m, of which it has the active features.
    labelled: (DMatrix<f64>, Vec<u32>),
    lines: &'static [AgnosticCurve],
    seed: u64,
}

impl Experiment<'_> {
    fn in_window(&self, k0: usize, d: usize) -> Result<AgnosticWindowResult, ReproduceError> {
        let window = Window::new(self.subject, k0, d)?;
        let failed =
            |curve: &str, error| ReproduceError::Attack { curve: curve.into(), d, k0, error };
        let n = self.targets.records();
        let y = FeatureBlock::new(select(&self.targets.x, &window.active, n))?;
        let truth = select(&self.targets.x, &window.passive, n);
        let own = own(&self.labelled, &window.active)?;
        let mut done = AgnosticWindowResult {
            errors: Vec::new(),
            short: 0,
            told: (0.0, 0.0),
            cpu: Vec::new(),
        };
        for (place, line) in (0..).zip(self.lines) {
            let mut rng = generator(self.seed, Purpose::Attack, window.item(place));
            let start = cpu_time();
            let seen_y = FeatureBlock::new(select(&self.seen.x, &window.active, line.seen))?;
            let released = self.seen.released(line.seen);
            let seen =
                (line.seen > 0).then_some(ObservedRecords { y: &seen_y, released: &released });
            let settings = AgnosticSettings {
                alpha: line.alpha,
                beta: line.beta,
                observed: line.seen,
                ..Default::default()
            };
            let attack = Agnostic {
                settings,
                recipe: Some(self.subject.training.clone()),
                ..Agnostic::default()
            };
            let found =
                attack.attack(&window.model, &own, seen, Replacement::default(), &y, &mut rng);
            let found = found.map_err(|error| failed(line.name, error))?;
            done.cpu.push(cpu_time().saturating_sub(start));
            done.short += u64::from(!found.fit.converged);
            done.errors.push(squared_error_by_record(&found.reconstruction.estimates, &truth)?);
            if place == 0 {
                done.told = self.told(&window, &found, &y, &truth)?;
            }
        }
        let start = cpu_time();
        let exact = self.targets.released(n);
        let vfl = half_star(&window.model, &y, &exact, Method::ClampedHalfStar)
            .map_err(|e| failed("vfl", e))?;
        done.errors.push(squared_error_by_record(&vfl, &truth)?);
        done.cpu.push(cpu_time().saturating_sub(start));
        done.errors.push(squared_error_by_record(&DMatrix::from_element(d, n, 0.5), &truth)?);
        done.cpu.push(Duration::ZERO);
        let start = cpu_time();
        for estimates in beyond(self.subject, &window, &window.model, &y, &exact)? {
            done.errors.push(squared_error_by_record(&estimates, &truth)?);
        }
        // Two curves come from one computation.
        done.cpu.extend([cpu_time().saturating_sub(start) / 2; 2]);
        Ok(done)
    }

    /// Returns the error of `half_star` on estimated scores, and V (21) over the same records:
    /// (1/d) Tr((I − A⁺A) K_½) + (1/d) E ‖A⁺ (ĉ' − c')‖². With d < k and A of full rank the first
    /// term is 0, which is V (13).
    fn told(
        &self,
        window: &Window,
        found: &AgnosticResult,
        y: &FeatureBlock,
        truth: &DMatrix<f64>,
    ) -> Result<(f64, f64), ReproduceError> {
        let failed = |error| ReproduceError::Attack {
            curve: "am".into(),
            d: window.d,
            k0: window.k0,
            error,
        };
        let estimated = ReleasedScores::Probabilities(found.scores.clone());
        let estimates =
            half_star(&window.model, y, &estimated, Method::HalfStar).map_err(failed)?;
        let errors = squared_error_by_record(&estimates, truth)?;
        let system = window.model.linear().map_err(failed)?;
        let ratios = |c: &DMatrix<f64>| {
            DMatrix::from_fn(c.nrows() - 1, c.ncols(), |m, j| c[(m + 1, j)].ln() - c[(m, j)].ln())
        };
        let off = system.pseudo_inverse() * (ratios(&found.scores) - ratios(self.targets.scores()));
        let centred = truth.map(|v| v - 0.5);
        let rest = &centred - system.pseudo_inverse() * (system.matrix() * &centred);
        let scale = 1.0 / truth.len() as f64;
        let measured = errors.iter().sum::<f64>() / errors.len() as f64;
        Ok((measured, scale * (rest.norm_squared() + off.norm_squared())))
    }
}

fn half_star(
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    method: Method,
) -> Result<DMatrix<f64>, AttackError> {
    let view = AdversaryView::new(model, y, released, Replacement::default())?;
    // The method draws nothing at random.
    let mut rng = generator(0, Purpose::Attack, 0);
    Ok(method.build(&Settings::default()).reconstruct(&view, &mut rng)?.estimates)
}

/// Computes the figure.
pub(super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let lines = lines(figure);
    let most = lines.iter().map(|line| line.seen).max().unwrap_or(0);
    let (seen, targets) = subject.draw_agnostic(most, options.records, options.seed);
    let all = eight(subject, options)?;
    // The adversary's model needs an active feature.
    let dimensions: Vec<usize> = all.into_iter().filter(|d| *d < subject.features()).collect();
    let starts = starts(
        subject.features(),
        options.windows.or(Some(if most == 0 { WINDOWS.0 } else { WINDOWS.1 })),
    );
    let labelled = subject.own_records(options.own_records, options.seed);
    let experiment = Experiment { subject, seen, targets, labelled, lines, seed: options.seed };

    let pieces = dimensions.len() * starts.len();
    let names: Vec<&str> =
        lines.iter().map(|line| line.name).chain(["vfl", "half", "control", "informed"]).collect();
    let n = experiment.targets.records();
    let mut errors = vec![vec![vec![0.0; n]; names.len()]; dimensions.len()];
    let (mut cpu, mut short) = (vec![Duration::ZERO; names.len()], 0u64);
    let mut told: Vec<(usize, usize, f64, f64)> = Vec::new();
    let mut progress = Progress::start(figure.as_str(), pieces as u64);
    let work = |piece: usize| {
        experiment.in_window(starts[piece % starts.len()], dimensions[piece / starts.len()])
    };
    in_order(options.threads, pieces, work, |piece, done: AgnosticWindowResult| {
        let (place, k0) = (piece / starts.len(), starts[piece % starts.len()]);
        for (sums, found) in errors[place].iter_mut().zip(&done.errors) {
            sums.iter_mut().zip(found).for_each(|(sum, e)| *sum += e / starts.len() as f64);
        }
        cpu.iter_mut().zip(&done.cpu).for_each(|(sum, t)| *sum += *t);
        short += done.short;
        told.push((dimensions[place], k0, done.told.0, done.told.1));
        progress.at(piece as u64 + 1, &format!("d = {}", dimensions[place]));
        Ok(())
    })?;
    progress.done(&format!("{}: {pieces} splits done", figure.as_str()));

    let mut document = blank(figure, subject, options.seed, n);
    document.axis = axis(subject, &dimensions);
    for (i, name) in names.iter().enumerate() {
        let means: Vec<Mean> = errors.iter().map(|of| mean(of[i].iter().copied())).collect();
        document.curves.push(Curve {
            name: (*name).into(),
            role: match *name {
                "half" => CurveRole::Guess,
                "control" | "informed" => CurveRole::Beyond,
                _ => CurveRole::Attack,
            },
            of: None,
            x: dimensions.iter().map(|&d| d as f64 / subject.features() as f64).collect(),
            mean: means.iter().map(|m| m.mean).collect(),
            standard_error: Some(means.iter().map(|m| m.standard_error).collect()),
            spread: None,
        });
        let line = lines.get(i);
        document.attacks.push(AttackFacts {
            curve: (*name).into(),
            method: match *name {
                _ if line.is_some() => "agnostic",
                "vfl" => "clamped_half_star",
                "control" => "imputation",
                "informed" => "gaussian",
                other => other,
            }
            .into(),
            settings: line
                .iter()
                .flat_map(|line| {
                    [("observed", line.seen as f64), ("alpha", line.alpha), ("beta", line.beta)]
                        .map(|(key, value)| (key.to_owned(), value.to_string()))
                })
                .collect(),
            records: n,
            cpu_seconds: cpu[i].as_secs_f64(),
        });
    }
    let checks = checks(figure, &document, &dimensions, subject.classes());
    document.checks.extend(checks);
    document.checks.push(closed_form(&told));
    let (own, others) = (experiment.labelled.1.len(), subject.others.ncols());
    document.notes.push(format!(
        "{} windows of each number of passive features; targets drawn from all records but those seen, {:.0} % of them training \
         records, whose scores are computed from the stored parameters, since the service refuses them; the adversary's model is \
         trained as the joint one on {own} of the {others} training records",
        starts.len(),
        100.0 * others as f64 / (others + subject.test_records().ncols()) as f64,
    ));
    document.notes.push(format!(
        "{BEYOND}. am has no score of a target either: what it errs more than control is not the scores' doing"
    ));
    if short > 0 {
        document
            .notes
            .push(format!("{short} fits of an adversary model used up their epochs before the loss stopped falling"));
    }
    Ok(document)
}

/// Checks V (21), and with d < k (13).
fn closed_form(told: &[(usize, usize, f64, f64)]) -> Check {
    let off = |measured: f64, told: f64| (measured - told).abs() / told.max(1.0);
    let worst = told.iter().fold(0.0f64, |worst, (.., m, t)| worst.max(off(*m, *t)));
    Check {
        id: "am_equals_closed_form".into(),
        kind: CheckKind::Theorem,
        claim: "without clipping the error of am is (1/d) Tr((I − A⁺A) K_½) + (1/d) E‖A⁺(ĉ' − c')‖² (V (13), (21))"
            .into(),
        holds: worst <= 1e-9,
        comparisons: told.len() as u64,
        detail: format!("largest difference, relative above 1: {worst:.1e}"),
        violations: told
            .iter()
            .filter(|(.., m, t)| off(*m, *t) > 1e-9)
            .map(|(d, k0, m, t)| format!("d = {d}, column {k0}: {m:.6e} measured, {t:.6e} told"))
            .collect(),
    }
}

/// Checks the order of two curves by number of passive features.
fn ordered(
    document: &Document,
    dimensions: &[usize],
    (low, high): (&str, &str),
    (kind, factor): (CheckKind, f64),
    claim: String,
    only: impl Fn(usize) -> bool,
) -> Option<Check> {
    let (a, b) = (document.curve(low)?, document.curve(high)?);
    let places: Vec<usize> = (0..dimensions.len()).filter(|&i| only(dimensions[i])).collect();
    if places.is_empty() {
        return None;
    }
    let describe = |i: &usize| {
        format!("d = {}: {low} {:.4e}, {high} {:.4e}", dimensions[*i], a.mean[*i], b.mean[*i])
    };
    let wrong: Vec<&usize> =
        places.iter().filter(|&&i| a.mean[i] > factor * b.mean[i] + EQUAL).collect();
    let ratios = || places.iter().filter(|&&i| b.mean[i] > EQUAL).map(|&i| a.mean[i] / b.mean[i]);
    Some(Check {
        id: format!("{low}_below_{high}{}", if factor == 1.0 { "" } else { "_by_factor" }),
        kind,
        claim,
        holds: wrong.is_empty(),
        comparisons: places.len() as u64,
        detail: format!(
            "{low} is {:.3} to {:.3} times {high}",
            ratios().fold(f64::INFINITY, f64::min),
            ratios().fold(0.0, f64::max)
        ),
        violations: wrong.into_iter().map(describe).collect(),
    })
}

fn checks(figure: Figure, document: &Document, dimensions: &[usize], classes: usize) -> Vec<Check> {
    // A factor is our own threshold.
    let say = |pair, factor: f64, claim: &str, only: &dyn Fn(usize) -> bool| {
        let kind = if factor == 1.0 { CheckKind::Paper } else { CheckKind::Ours };
        ordered(document, dimensions, pair, (kind, factor), claim.to_owned(), only)
    };
    let any = |_: usize| true;
    let few = |d: usize| d < classes.max(3);
    let last = dimensions.last().copied().unwrap_or_default();
    let dataset = document.dataset.name.as_str();
    let mut checks = vec![say(
        ("vfl", "am"),
        1.0,
        "with exact scores the error is at most that of am (V (21))",
        &any,
    )];
    match figure {
        Figure::VFig3 => {
            checks.push(ordered(
                document,
                dimensions,
                ("am", "half"),
                (CheckKind::Ours, 1.0),
                "am is better than ½ at every point (V does not say so of every point)".into(),
                any,
            ));
            let claim = "for many passive features am is within 10 % of the attack on exact scores (V section IV-B)";
            checks.push(say(("am", "vfl"), 1.1, claim, &|d| d == last));
        }
        Figure::VFig4 => {
            checks.push(say(
                ("vfl", "ram_100"),
                1.0,
                "with exact scores the error is at most that of ram_100",
                &any,
            ));
            checks.push(say(
                ("ram_100", "am"),
                1.0,
                "100 scores of other records make the attack better (V section VI-A)",
                &any,
            ));
            let claim = "100 scores help most where few features are passive: ram_100 is at most half of am there (V section VI-A)";
            checks.push(say(("ram_100", "am"), 0.5, claim, &few));
            let claim = "100 labels of other records make the attack no worse, slightly better (V section VI-A)";
            checks.push(say(("ram_100_labels", "am"), 1.0, claim, &any));
            if dataset == "pendigits" {
                let claim = "am is not effective on pendigits: at least 0.9 of ½ where d ≥ k (V section VI-A)";
                checks.push(say(("half", "am"), 1.0 / 0.9, claim, &|d| d >= classes));
            } else {
                let claim = "am is close to the attack on exact scores, within a quarter, where d ≥ k (V section VI-A)";
                checks.push(say(("am", "vfl"), 1.25, claim, &|d| d >= classes));
            }
        }
        Figure::VFig5 => {
            checks.push(say(
                ("ram_50", "am"),
                1.0,
                "50 scores of other records make the attack better (V figure 5)",
                &any,
            ));
            checks.push(say(
                ("ram_100", "ram_50"),
                1.0,
                "more scores make it better (V figure 5)",
                &any,
            ));
            let claim = "50 scores make it significantly better where few features are passive: at most half of am (V figure 5)";
            checks.push(say(("ram_50", "am"), 0.5, claim, &few));
        }
        _ => {
            let claim = "am is almost as bad as ½ on grid, within 10 % (V section VI-A)";
            checks.push(say(("half", "am"), 1.0 / 0.9, claim, &any));
        }
    }
    checks.into_iter().flatten().collect()
}
