//! R figure 13: the cost in divergence of noise at the logits, a temperature and softened labels,
//! and the protection they give against half_star.

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack::{AdversaryView, Method, Settings, adaptive_for};
use vfl_core::metrics::{UtilityTotals, squared_error_by_record};
use vfl_core::types::{FeatureBlock, Logits, ReleasedScores};
use vfl_defense::{DefenseConfig, DefenseError, Grants, Noise, Pipeline, PipelineOutput, Policy};
use vfl_present::progress::Progress;

use super::curve_spec::{CurveRun, CurveSpec, pick};
use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, Document};
use super::experiment_model::{DrawnRecords, ExperimentModel, Purpose, generator};
use super::statistics::mean;
use super::sweep::{Window, select, starts};
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};

/// The target mean divergences, in bits.
const TARGETS: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0];

/// The four schemes of the figure, each with one parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scheme {
    /// Noise at the logits: R (92), (93) and (94); scheme 3 is (1 − α) z + α 1.
    Noise(u32),
    /// The softened label.
    Label,
}

impl Scheme {
    const ALL: [(&'static str, Self); 4] = [
        ("scheme_1", Self::Noise(1)),
        ("scheme_2", Self::Noise(2)),
        ("scheme_3", Self::Noise(3)),
        ("class_label", Self::Label),
    ];

    /// Returns the scheme at strength `t` in (0, 1), in which the divergence increases.
    fn at(self, t: f64, classes: usize) -> DefenseConfig {
        match self {
            // α from 1e-6 to 1e6.
            Self::Noise(scheme @ (1 | 2)) => {
                DefenseConfig::LogitNoise { scheme, alpha: 10f64.powf(12.0 * t - 6.0) }
            }
            Self::Noise(scheme) => DefenseConfig::LogitNoise { scheme, alpha: t },
            // δ from just below 1/k, at which all scores are equal, down to 1e-12.
            Self::Label => {
                let top = 0.999 / classes as f64;
                DefenseConfig::ClassLabel { softening: top * (1e-12 / top).powf(t) }
            }
        }
    }
}

/// All splits of the figure's number of passive features, with the logits of the records.
struct Setting<'a> {
    windows: Vec<Window>,
    drawn: &'a DrawnRecords,
    logits: DMatrix<f64>,
}

impl Setting<'_> {
    /// Releases every record in one split.
    fn release(
        &self,
        window: &Window,
        defense: &DefenseConfig,
    ) -> Result<PipelineOutput, ReproduceError> {
        let failed =
            |error: DefenseError| ReproduceError::Defense { defense: defense.to_string(), error };
        let weights = window.model.passive_weights().ok();
        let grants = Grants { passive_weights: weights, ..Grants::default() };
        let pipeline = Pipeline::build(std::slice::from_ref(defense), self.logits.nrows(), &grants)
            .map_err(failed)?;
        pipeline.release(Logits::new(self.logits.clone())?, Noise::fresh([0; 32])).map_err(failed)
    }

    /// Returns the mean D(c‖c̃) in bits, and the share of records whose arg max stays, over records
    /// and splits.
    fn cost(&self, defense: &DefenseConfig) -> Result<(f64, f64), ReproduceError> {
        let mut totals = UtilityTotals::default();
        // Only noise depends on the split.
        let all = matches!(defense, DefenseConfig::LogitNoise { scheme: 1 | 2, .. });
        for window in self.windows.iter().take(if all { usize::MAX } else { 1 }) {
            let PipelineOutput { scores, released } = self.release(window, defense)?;
            totals += UtilityTotals::of(&scores, &released)?;
        }
        let bits = totals.kl_divergence().unwrap_or(f64::INFINITY) / std::f64::consts::LN_2;
        Ok((bits, totals.arg_max_kept().unwrap_or(0.0)))
    }

    /// Returns the strength at which the scheme costs `target` bits; `None` if no strength does.
    fn strength(&self, scheme: Scheme, target: f64) -> Result<Option<f64>, ReproduceError> {
        let classes = self.logits.nrows();
        let bits = |t: f64| Ok::<_, ReproduceError>(self.cost(&scheme.at(t, classes))?.0);
        let (mut low, mut high) = match scheme {
            // From equal scores the divergence first falls, so the increasing branch begins at its
            // minimum.
            Scheme::Label => (self.least(scheme)?, 1.0),
            Scheme::Noise(_) => (0.0, 1.0 - 1e-9),
        };
        if !(bits(low)? < target && bits(high)? > target) {
            return Ok(None);
        }
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if bits(middle)? < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Some(0.5 * (low + high)))
    }

    /// Returns the strength of the least divergence, by golden section: it has one minimum.
    fn least(&self, scheme: Scheme) -> Result<f64, ReproduceError> {
        let classes = self.logits.nrows();
        let bits = |t: f64| Ok::<_, ReproduceError>(self.cost(&scheme.at(t, classes))?.0);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..30 {
            let (a, b) = (high - 0.618 * (high - low), low + 0.618 * (high - low));
            if bits(a)? < bits(b)? { high = b } else { low = a }
        }
        Ok(0.5 * (low + high))
    }
}

/// One point of the figure.
struct Point {
    scheme: usize,
    bits: f64,
    kept: f64,
    /// Per attack: the mean error over records, its standard error, and the processor time.
    errors: Vec<(f64, f64, Duration)>,
}

/// The curve of the adversary that takes the release for the true scores, as in the paper.
const UNAWARE: &str = "unaware";
/// The curve of the adversary that knows the scheme and its parameter.
const AWARE: &str = "aware";

/// Returns the attack of each adversary. The aware one's method is that for schemes 1 to 3; labels
/// have their own.
fn wanted() -> Vec<CurveSpec> {
    vec![
        CurveSpec::new("clamped_half_star").called(UNAWARE),
        CurveSpec::new("noise_direction").called(AWARE),
    ]
}

/// Computes the figure.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let total = subject.features();
    let d = match options.dimensions.as_slice() {
        [] => total / 2,
        &[d] if (1..=total).contains(&d) => d,
        &[got] => return Err(ReproduceError::Dimension { got, total }),
        _ => return Err(ReproduceError::OneDimension { figure: Figure::RFig13.as_str() }),
    };
    let (contenders, notes) = pick(wanted(), &options.attacks, drawn.records())?;
    let mut logits = &subject.weights * &drawn.x;
    logits.column_iter_mut().for_each(|mut z| z += &subject.bias);
    let windows: Vec<Window> = starts(total, options.windows)
        .into_iter()
        .map(|k0| Window::new(subject, k0, d))
        .collect::<Result<_, _>>()?;
    let splits = windows.len();
    let setting = Setting { windows, drawn: &drawn, logits };

    let pieces = Scheme::ALL.len() * TARGETS.len();
    let mut progress = Progress::start("r-fig13", pieces as u64);
    let mut points: Vec<Point> = Vec::new();
    let work = |piece: usize| point(&setting, &contenders, options.seed, piece);
    in_order(options.threads, pieces, work, |piece, found: Option<Point>| {
        points.extend(found);
        progress.at(piece as u64 + 1, Scheme::ALL[piece / TARGETS.len()].0);
        Ok(())
    })?;
    progress.done(&format!("r-fig13: {} of {pieces} points", points.len()));

    let mut document = blank(Figure::RFig13, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "mean divergence D(c‖c̃) of the released scores, bits".into(),
        symbol: "point".into(),
        points: (1..=TARGETS.len()).collect(),
        determined_up_to: None,
    };
    fill(&mut document, &contenders, &points);
    document.checks.push(accuracy_kept(&points));
    document.notes.extend(notes);
    document.notes.push(format!(
        "{d} of {total} features are passive, in each of {splits} windows; half_star is clipped to [0, 1], as in the curves that \
         the paper's authors stored"
    ));
    document.notes.push(
        "v₁ is defined up to its sign, and the schemes are not alike in it: its entry of largest magnitude is positive here"
            .into(),
    );
    Ok(document)
}

/// Computes one scheme at one divergence; `None` if it has no such divergence.
fn point(
    setting: &Setting<'_>,
    contenders: &[CurveRun],
    seed: u64,
    piece: usize,
) -> Result<Option<Point>, ReproduceError> {
    let (scheme, target) = (piece / TARGETS.len(), TARGETS[piece % TARGETS.len()]);
    let Some(strength) = setting.strength(Scheme::ALL[scheme].1, target)? else { return Ok(None) };
    let defense = Scheme::ALL[scheme].1.at(strength, setting.logits.nrows());
    let (bits, kept) = setting.cost(&defense)?;
    let n = setting.drawn.records();
    let mut sums = vec![(vec![0.0; n], Duration::ZERO); contenders.len()];
    for window in &setting.windows {
        let released = setting.release(window, &defense)?.released;
        for (contender, (sum, cpu)) in contenders.iter().zip(&mut sums) {
            let start = cpu_time();
            let errors = attack(setting.drawn, window, contender, &defense, &released, seed)?;
            *cpu += cpu_time().saturating_sub(start);
            sum.iter_mut()
                .zip(errors)
                .for_each(|(sum, error)| *sum += error / setting.windows.len() as f64);
        }
    }
    let errors = sums.into_iter().map(|(errors, cpu)| {
        let m = mean(errors.into_iter());
        (m.mean, m.standard_error, cpu)
    });
    Ok(Some(Point { scheme, bits, kept, errors: errors.collect() }))
}

/// Returns the squared error per feature of each record.
fn attack(
    drawn: &DrawnRecords,
    window: &Window,
    contender: &CurveRun,
    defense: &DefenseConfig,
    released: &ReleasedScores,
    seed: u64,
) -> Result<Vec<f64>, ReproduceError> {
    let failed = |error| ReproduceError::Attack {
        curve: contender.curve.to_owned(),
        d: window.d,
        k0: window.k0,
        error,
    };
    let n = drawn.records();
    let y = FeatureBlock::new(select(&drawn.x, &window.active, n))?;
    let (method, settings) = match contender.curve {
        AWARE => {
            let policy = Policy::of(defense.clone());
            let method = adaptive_for(&policy).unwrap_or(contender.method);
            (method, Settings::read([("policy", policy.to_string().as_str())])?)
        }
        _ => (contender.method, contender.settings.clone()),
    };
    let view =
        AdversaryView::new(&window.model, &y, released, settings.replacement()).map_err(failed)?;
    let mut rng = generator(seed, Purpose::Attack, window.item(contender.place));
    let found = method.build(&settings).reconstruct(&view, &mut rng).map_err(failed)?;
    Ok(squared_error_by_record(&found.estimates, &select(&drawn.x, &window.passive, n))?)
}

fn fill(document: &mut Document, contenders: &[CurveRun], points: &[Point]) {
    for (i, contender) in contenders.iter().enumerate() {
        for (scheme, (name, _)) in Scheme::ALL.into_iter().enumerate() {
            let here = || points.iter().filter(|p| p.scheme == scheme);
            if here().next().is_none() {
                continue;
            }
            let curve = if contender.curve == UNAWARE {
                name.to_owned()
            } else {
                format!("{name}_{}", contender.curve)
            };
            document.curves.push(Curve {
                name: curve.clone(),
                role: contender.role,
                of: None,
                x: here().map(|p| p.bits).collect(),
                mean: here().map(|p| p.errors[i].0).collect(),
                standard_error: Some(here().map(|p| p.errors[i].1).collect()),
                spread: None,
            });
            document.attacks.push(AttackFacts {
                curve,
                method: match (contender.curve, Scheme::ALL[scheme].1) {
                    (AWARE, Scheme::Label) => Method::LabelCone.to_string(),
                    _ => contender.method.to_string(),
                },
                settings: contender.given.clone(),
                records: contender.records,
                cpu_seconds: here().map(|p| p.errors[i].2.as_secs_f64()).sum(),
            });
        }
    }
}

/// R section VII-B: the schemes do not change the class.
fn accuracy_kept(points: &[Point]) -> Check {
    let changed = points.iter().filter(|p| p.kept < 1.0);
    Check {
        id: "class_kept".into(),
        kind: CheckKind::Paper,
        claim: "no scheme changes the predicted class of any record (R section VII-B)".into(),
        holds: points.iter().all(|p| p.kept >= 1.0),
        comparisons: points.len() as u64,
        detail: format!(
            "{} of {} points keep all",
            points.iter().filter(|p| p.kept >= 1.0).count(),
            points.len()
        ),
        violations: changed
            .map(|p| {
                format!("{} at {:.2} bits: {:.4} kept", Scheme::ALL[p.scheme].0, p.bits, p.kept)
            })
            .collect(),
    }
}
