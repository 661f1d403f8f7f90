//! Attacks in every split of a model: R's moving window of d passive columns at each k0 (R section
//! VIII-A, "average over space").

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack::{
    AdversaryView, KnownModel, Method, Prior, Replacement, Settings, SideInformation,
    schema_settings,
};
use vfl_core::data::schema::FeatureSpec;
use vfl_core::metrics::squared_error_by_record;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_datasets::VerticalSplit;
use vfl_present::progress::Progress;

use super::curve_spec::CurveRun;
use super::experiment_model::{DrawnRecords, ExperimentModel, Purpose, generator};
use super::statistics::deviation;
use super::workers::{cpu_time, in_order};
use super::{Options, ReproduceError};

/// One split: the passive party holds the columns (k0 … k0 + d − 1) mod d_t.
pub(super) struct Window {
    pub(super) k0: usize,
    pub(super) d: usize,
    pub(super) passive: Vec<usize>,
    pub(super) active: Vec<usize>,
    pub(super) model: KnownModel,
}

impl Window {
    pub(super) fn new(
        subject: &ExperimentModel,
        k0: usize,
        d: usize,
    ) -> Result<Self, ReproduceError> {
        let split = VerticalSplit::window(k0, d, subject.features())?;
        let passive: Vec<usize> =
            split.passive().iter().flat_map(|p| p.columns.iter().copied()).collect();
        let active = split.active().to_vec();
        let of = |columns: &[usize]| subject.weights.select_columns(columns);
        let model = KnownModel::white_box(of(&active), subject.bias.clone(), of(&passive))
            .map_err(|error| ReproduceError::Attack { curve: "the model".into(), d, k0, error })?;
        Ok(Self { k0, d, passive, active, model })
    }

    /// Returns the random number stream of an attack in this split.
    pub(super) fn item(&self, place: u64) -> u64 {
        place << 40 | (self.d as u64) << 20 | self.k0 as u64
    }
}

/// The result of one split.
struct WindowResult {
    /// The squared error per feature of each record, per attack.
    errors: Vec<Vec<f64>>,
    cpu: Vec<Duration>,
    more: Vec<f64>,
    disorder: Vec<u64>,
}

/// The results of all splits of one d.
pub(super) struct Point {
    pub(super) d: usize,
    /// The squared error per feature, per attack and record, averaged over the splits.
    pub(super) errors: Vec<Vec<f64>>,
    /// The standard deviation of the error over the splits, per attack.
    pub(super) spread: Vec<f64>,
    /// The mean of the results of `more` over the splits.
    pub(super) more: Vec<f64>,
    /// The number of records out of order over all splits, per pair of `order`.
    pub(super) disorder: Vec<u64>,
}

/// The result of a sweep.
pub(super) struct SweepResult {
    pub(super) points: Vec<Point>,
    /// The processor time of each attack.
    pub(super) cpu: Vec<Duration>,
}

/// A function that returns the model that an attack assumes in a split, if it is not the true one.
pub(super) type AssumedModel<'a> =
    dyn Fn(&Window, usize) -> Result<Option<KnownModel>, ReproduceError> + Sync + 'a;

/// The plan of a sweep.
pub(super) struct Plan<'a> {
    pub(super) subject: &'a ExperimentModel,
    pub(super) drawn: &'a DrawnRecords,
    pub(super) contenders: &'a [CurveRun],
    /// The numbers of passive features, ascending.
    pub(super) dimensions: &'a [usize],
    /// The number of splits of each, evenly spread; `None`: one from every column.
    pub(super) windows: Option<usize>,
    /// The pairs (better, worse) of attacks that a theorem puts in order on every record.
    pub(super) order: &'a [(usize, usize)],
    /// The model that an attack (by its index in `contenders`) assumes; `None`: the true one.
    pub(super) knowledge: Option<&'a AssumedModel<'a>>,
    pub(super) threads: usize,
    pub(super) seed: u64,
    /// The label of the progress bar.
    pub(super) what: &'a str,
}

impl<'a> Plan<'a> {
    /// Creates a plan of all attacks on the true model, without an order between them.
    pub(super) fn new(
        subject: &'a ExperimentModel,
        drawn: &'a DrawnRecords,
        contenders: &'a [CurveRun],
        dimensions: &'a [usize],
        options: &Options,
        what: &'a str,
    ) -> Self {
        let (windows, threads, seed) = (options.windows, options.threads, options.seed);
        Self {
            subject,
            drawn,
            contenders,
            dimensions,
            windows,
            order: &[],
            knowledge: None,
            threads,
            seed,
            what,
        }
    }
}

/// The difference below which squared errors count as equal: solvers stop at about 1e-8.
pub(super) const EQUAL: f64 = 1e-9;

/// Returns the first passive columns of the splits: `windows` of the `total` columns, evenly
/// spread, or all.
pub(super) fn starts(total: usize, windows: Option<usize>) -> Vec<usize> {
    let count = windows.map_or(total, |w| w.clamp(1, total.max(1)));
    (0..count).map(|i| i * total / count).collect()
}

/// Runs every attack in every split. `more` returns further figures of a split, the same number for
/// each.
pub(super) fn sweep(
    plan: &Plan<'_>,
    more: impl Fn(&Window, &DrawnRecords) -> Result<Vec<f64>, ReproduceError> + Sync,
) -> Result<SweepResult, ReproduceError> {
    let starts = starts(plan.subject.features(), plan.windows);
    let total = starts.len();
    let mut counts: Vec<usize> = plan.contenders.iter().map(|c| c.records).collect();
    counts.sort_unstable();
    counts.dedup();
    let released: Vec<ReleasedScores> = counts.iter().map(|&n| plan.drawn.released(n)).collect();
    let release = |n: usize| counts.binary_search(&n).ok().and_then(|i| released.get(i));

    let work = |piece: usize| -> Result<WindowResult, ReproduceError> {
        let window =
            Window::new(plan.subject, starts[piece % total], plan.dimensions[piece / total])?;
        let mut done = WindowResult {
            errors: Vec::new(),
            cpu: Vec::new(),
            more: Vec::new(),
            disorder: Vec::new(),
        };
        for (i, contender) in plan.contenders.iter().enumerate() {
            let Some(released) = release(contender.records) else { continue };
            let (errors, cpu) = attack(plan, &window, i, contender, released)?;
            done.errors.push(errors);
            done.cpu.push(cpu);
        }
        done.more = more(&window, plan.drawn)?;
        done.disorder =
            plan.order.iter().map(|&(a, b)| disorder(&done.errors[a], &done.errors[b])).collect();
        Ok(done)
    };

    let pieces = total * plan.dimensions.len();
    let mut progress = Progress::start(plan.what, pieces as u64);
    let mut cpu = vec![Duration::ZERO; plan.contenders.len()];
    let mut points: Vec<Point> = Vec::new();
    // Per attack: the mean error of each split of the current point.
    let mut of_splits: Vec<Vec<f64>> = vec![Vec::new(); plan.contenders.len()];
    let scale = 1.0 / total as f64;
    in_order(plan.threads, pieces, work, |piece, done: WindowResult| {
        let d = plan.dimensions[piece / total];
        cpu.iter_mut().zip(&done.cpu).for_each(|(sum, t)| *sum += *t);
        of_splits.iter_mut().zip(&done.errors).for_each(|(all, errors)| {
            all.push(errors.iter().sum::<f64>() / errors.len().max(1) as f64);
        });
        match points.last_mut().filter(|_| piece % total != 0) {
            None => points.push(Point {
                d,
                errors: done.errors,
                spread: Vec::new(),
                more: done.more,
                disorder: done.disorder,
            }),
            Some(point) => {
                let add = |to: &mut [f64], from: &[f64]| {
                    to.iter_mut().zip(from).for_each(|(a, b)| *a += b)
                };
                point.errors.iter_mut().zip(&done.errors).for_each(|(to, from)| add(to, from));
                add(&mut point.more, &done.more);
                point.disorder.iter_mut().zip(&done.disorder).for_each(|(a, b)| *a += b);
            }
        }
        if piece % total == total - 1
            && let Some(point) = points.last_mut()
        {
            point.errors.iter_mut().flatten().chain(&mut point.more).for_each(|v| *v *= scale);
            point.spread =
                of_splits.iter_mut().map(|all| deviation(&std::mem::take(all))).collect();
        }
        progress.at(piece as u64 + 1, &format!("d = {d}"));
        Ok(())
    })?;
    progress.done(&format!("{}: {pieces} splits done", plan.what));
    Ok(SweepResult { points, cpu })
}

/// Runs one attack in one split, and returns the squared error per feature of each record, and the
/// processor time.
fn attack(
    plan: &Plan<'_>,
    window: &Window,
    place: usize,
    contender: &CurveRun,
    released: &ReleasedScores,
) -> Result<(Vec<f64>, Duration), ReproduceError> {
    let (estimates, cpu) = estimate(plan, window, place, contender, released)?;
    let truth = select(&plan.drawn.x, &window.passive, contender.records);
    let errors = squared_error_by_record(&estimates, &truth)?;
    if errors.iter().all(|e| e.is_finite()) {
        Ok((errors, cpu))
    } else {
        Err(ReproduceError::NotFinite {
            curve: contender.curve.to_owned(),
            d: window.d,
            k0: window.k0,
        })
    }
}

/// Returns the estimates (d × records) of one attack in one split, and the processor time.
pub(super) fn estimate(
    plan: &Plan<'_>,
    window: &Window,
    place: usize,
    contender: &CurveRun,
    released: &ReleasedScores,
) -> Result<(DMatrix<f64>, Duration), ReproduceError> {
    let failed = |error| ReproduceError::Attack {
        curve: contender.curve.to_owned(),
        d: window.d,
        k0: window.k0,
        error,
    };
    let y = FeatureBlock::new(select(&plan.drawn.x, &window.active, contender.records))?;
    let settings = &known(plan.subject, window, contender)?;
    let mut rng = generator(plan.seed, Purpose::Attack, window.item(contender.place));
    let start = cpu_time();
    let other = plan.knowledge.map_or(Ok(None), |model| model(window, place))?;
    let model = other.as_ref().unwrap_or(&window.model);
    let prior = match contender.informed {
        true => Some(prior(plan.subject, window)?),
        false => None,
    };
    let side = SideInformation { prior: prior.as_ref(), ..SideInformation::default() };
    let view = AdversaryView::new(model, &y, released, settings.replacement()).map_err(failed)?;
    let view = view.with_side_information(side);
    let mut found =
        contender.method.build(settings).reconstruct(&view, &mut rng).map_err(failed)?;
    if contender.informed {
        // An adversary that knows the moments knows the range.
        found.estimates.apply(|x| *x = x.clamp(0.0, 1.0));
    }
    Ok((found.estimates, cpu_time().saturating_sub(start)))
}

/// Returns the settings of an attack in one split, with the schema of the passive features if the
/// attack knows it.
fn known(
    subject: &ExperimentModel,
    window: &Window,
    contender: &CurveRun,
) -> Result<Settings, ReproduceError> {
    if !contender.schema {
        return Ok(contender.settings.clone());
    }
    let schema: Vec<FeatureSpec> =
        window.passive.iter().map(|&column| subject.schema[column].clone()).collect();
    let told = schema_settings(&schema);
    let given = contender.given.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let all = told.iter().map(|(key, value)| (*key, value.as_str())).chain(given);
    Settings::read(all).map_err(ReproduceError::from)
}

/// Returns the estimates (d × n) of the adversary that knows the moments, without scores of the
/// records and with these: control and informed. If the released parameters may not be the true
/// ones, the likeliest point of the box is the safer estimate.
pub(super) fn beyond(
    subject: &ExperimentModel,
    window: &Window,
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
) -> Result<[DMatrix<f64>; 2], ReproduceError> {
    let prior = prior(subject, window)?;
    let of = |method: Method| {
        let view = AdversaryView::new(model, y, released, Replacement::default())?;
        let view = view.with_side_information(SideInformation {
            prior: Some(&prior),
            ..SideInformation::default()
        });
        // The method draws nothing at random.
        let mut rng = generator(0, Purpose::Attack, 0);
        Ok(method
            .build(&Settings::default())
            .reconstruct(&view, &mut rng)?
            .estimates
            .map(|x| x.clamp(0.0, 1.0)))
    };
    let failed = |curve: &str| {
        let (curve, d, k0) = (curve.to_owned(), window.d, window.k0);
        move |error| ReproduceError::Attack { curve, d, k0, error }
    };
    Ok([
        of(Method::Imputation).map_err(failed("control"))?,
        of(Method::Gaussian).map_err(failed("informed"))?,
    ])
}

/// Estimates means and covariances of the features in a split, from the records that are not in the
/// test set.
fn prior(subject: &ExperimentModel, window: &Window) -> Result<Prior, ReproduceError> {
    let others = prior_records(subject);
    let of = |rows: &[usize]| select(&others, rows, others.ncols());
    Ok(Prior::of_records(&of(&window.passive), &of(&window.active))?)
}

/// The most records for moments: more do not improve them, and cost time in every split.
const PRIOR_RECORDS: usize = 5000;

/// Returns the records that moments are estimated from, d_t × n: evenly spread over those that are
/// not in the test set, since a set may be in the order of time, as bank is.
pub(super) fn prior_records(subject: &ExperimentModel) -> DMatrix<f64> {
    let (all, n) = (subject.others.ncols(), subject.others.ncols().min(PRIOR_RECORDS));
    let columns: Vec<usize> = (0..n).map(|i| i * all / n.max(1)).collect();
    subject.others.select_columns(&columns)
}

/// Returns some rows of the first `n` columns.
pub(super) fn select(x: &DMatrix<f64>, rows: &[usize], n: usize) -> DMatrix<f64> {
    DMatrix::from_fn(rows.len(), n, |i, j| x[(rows[i], j)])
}

/// Counts the records on which `better` is worse.
fn disorder(better: &[f64], worse: &[f64]) -> u64 {
    better.iter().zip(worse).filter(|(a, b)| **a > **b + EQUAL).count() as u64
}
