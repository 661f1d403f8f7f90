//! The share of records that are reconstructed exactly, by number of passive features, form of the
//! scores, and knowledge of the adversary.
//!
//! The last d columns are passive. The adversary knows the parameters and the public schema:
//! ranges, and the grids that the values lie on. It may also know means and covariances of the
//! passive features, or those of all features, from records that are not test records.

use std::collections::BTreeMap;
use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, Method, Prior, Replacement, Settings, SideInformation, schema_settings,
};
use vfl_core::data::schema::FeatureSpec;
use vfl_core::types::{ConfidenceScores, FeatureBlock, ReleasedScores};
use vfl_defense::Policy;
use vfl_numerics::SampleMoments;
use vfl_present::progress::Progress;

use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::experiment_model::{DrawnRecords, ExperimentModel};
use super::policy_release::released_behind;
use super::sweep::{Window, select};
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};

/// The largest difference of a value that counts as exact: far below every step.
const EXACT: f64 = 1e-9;
/// The beginning of the attack's remark that it fell back to another attack.
const NOT_DECODED: &str = "no record was decoded";
/// The number of training records whose scores defenses are fitted on.
const CALIBRATION: usize = 2000;
/// The number of points on the axis, evenly spread.
const POINTS: usize = 8;

/// The adversary's knowledge besides parameters and schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LatticeKnowledge {
    Grid,
    Moments,
    All,
}

impl LatticeKnowledge {
    const EACH: [Self; 3] = [Self::Grid, Self::Moments, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Moments => "moments",
            Self::All => "all_moments",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Grid => "ranges and grids",
            Self::Moments => "ranges, grids, means and covariances of the passive features",
            Self::All => "ranges, grids, means and covariances of all features",
        }
    }

    fn method(self) -> Method {
        if self == Self::Grid { Method::Lattice } else { Method::InformedLattice }
    }

    fn prior(
        self,
        subject: &ExperimentModel,
        window: &Window,
    ) -> Result<Option<Prior>, ReproduceError> {
        let of = |rows: &[usize]| select(&subject.others, rows, subject.others.ncols());
        Ok(match self {
            Self::Grid => None,
            Self::Moments => {
                let moments = SampleMoments::shrunk(&of(&window.passive));
                Some(Prior::new(moments.mean, moments.covariance)?)
            }
            Self::All => Some(Prior::of_records(&of(&window.passive), &of(&window.active))?),
        })
    }
}

/// The form of the released scores.
#[derive(Debug, Clone, Copy)]
enum Release {
    /// Doubles, as computed.
    Doubles,
    /// Numbers of 32 bits.
    Floats,
    /// Numbers with so many decimals.
    Decimals(i32),
    /// Numbers with so many significant digits.
    Digits(usize),
    /// Scores under a policy that the adversary knows: the name of the curve, and the policy.
    Behind(&'static str, &'static str),
}

/// The forms of scores that every adversary is tested on.
const FORMS: [Release; 14] = [
    Release::Doubles,
    Release::Floats,
    Release::Decimals(12),
    Release::Decimals(8),
    Release::Decimals(6),
    Release::Decimals(4),
    Release::Decimals(3),
    Release::Decimals(2),
    Release::Decimals(1),
    Release::Digits(6),
    Release::Digits(5),
    Release::Digits(4),
    Release::Digits(3),
    Release::Digits(2),
];

/// Returns the policies for so many classes, which the adversary that knows ranges and grids is
/// tested on.
fn policies(classes: usize) -> [Release; 6] {
    // With two classes one score is withheld.
    let top_k = if classes > 2 { "top_k (k = 2)" } else { "top_k (k = 1)" };
    [
        Release::Behind("temperature", "temperature (temperature = 4.0)"),
        Release::Behind("top_k", top_k),
        Release::Behind("gaussian_noise", "gaussian_noise (sigma = 0.1)"),
        Release::Behind("codebook", "codebook (size = 16)"),
        Release::Behind("ranking", "ranking"),
        Release::Behind("class_label", "class_label"),
    ]
}

impl Release {
    fn name(self) -> String {
        match self {
            Self::Doubles => "doubles".into(),
            Self::Floats => "floats".into(),
            Self::Decimals(decimals) => format!("decimals_{decimals}"),
            Self::Digits(digits) => format!("digits_{digits}"),
            Self::Behind(name, _) => name.into(),
        }
    }

    fn policy(self) -> Result<Option<Policy>, ReproduceError> {
        let Self::Behind(name, text) = self else { return Ok(None) };
        let policy = text.parse::<Policy>();
        policy.map(Some).map_err(|e| ReproduceError::NothingToRun { notes: format!("{name}: {e}") })
    }

    fn of(
        self,
        scores: &DMatrix<f64>,
        training: &ConfidenceScores,
    ) -> Result<ReleasedScores, ReproduceError> {
        Ok(match self {
            Self::Doubles => ReleasedScores::Probabilities(scores.clone()),
            Self::Floats => ReleasedScores::Numbers(scores.map(|c| f64::from(c as f32))),
            Self::Decimals(decimals) => {
                let unit = 10f64.powi(decimals);
                ReleasedScores::Numbers(scores.map(|c| (c * unit).round() / unit))
            }
            // Every number in this format can be parsed.
            Self::Digits(digits) => ReleasedScores::Numbers(
                scores.map(|c| format!("{c:.*e}", digits.saturating_sub(1)).parse().unwrap_or(c)),
            ),
            Self::Behind(..) => match self.policy()? {
                Some(policy) => released_behind(&policy, scores, Some(training))?,
                None => ReleasedScores::Probabilities(scores.clone()),
            },
        })
    }
}

/// Returns the curves: the adversary's knowledge, and the form of the scores.
fn lines(classes: usize) -> Vec<(LatticeKnowledge, Release)> {
    let forms =
        LatticeKnowledge::EACH.into_iter().flat_map(|known| FORMS.map(|form| (known, form)));
    forms.chain(policies(classes).map(|policy| (LatticeKnowledge::Grid, policy))).collect()
}

/// The result of one curve at one number of passive features.
#[derive(Debug, Clone, Default)]
struct Outcome {
    exact: usize,
    certain: usize,
    /// The number of records that the attack is certain of and that are wrong.
    wrong: usize,
    cpu: Duration,
    /// The reason why no record was decoded.
    why: Option<String>,
}

/// Runs one adversary on the records.
fn attacked(
    subject: &ExperimentModel,
    (drawn, training): (&DrawnRecords, &ConfidenceScores),
    d: usize,
    (known, release): (LatticeKnowledge, Release),
    seed: u64,
) -> Result<Outcome, ReproduceError> {
    let window = Window::new(subject, subject.features() - d, d)?;
    let failed =
        |error| ReproduceError::Attack { curve: known.name().into(), d, k0: window.k0, error };
    let n = drawn.records();
    let (y, truth) = (select(&drawn.x, &window.active, n), select(&drawn.x, &window.passive, n));
    let (y, released) = (FeatureBlock::new(y)?, release.of(drawn.scores(), training)?);
    let prior = known.prior(subject, &window)?;
    let schema: Vec<FeatureSpec> =
        window.passive.iter().map(|&column| subject.schema[column].clone()).collect();
    let mut pairs = schema_settings(&schema);
    pairs.extend(release.policy()?.map(|policy| ("policy", policy.to_string())));
    let settings = Settings::read(pairs.iter().map(|(key, value)| (*key, value.as_str())));
    let settings = settings.map_err(|e| ReproduceError::NothingToRun { notes: e.to_string() })?;
    let side = SideInformation { prior: prior.as_ref(), ..SideInformation::default() };
    let view =
        AdversaryView::new(&window.model, &y, &released, Replacement::default()).map_err(failed)?;
    let began = cpu_time();
    let found =
        attack::run(&*known.method().build(&settings), &view.with_side_information(side), seed);
    let found = found.map_err(failed)?;
    let cpu = cpu_time().saturating_sub(began);
    let is_right = |j: usize| (found.estimates.column(j) - truth.column(j)).amax() <= EXACT;
    let right: Vec<bool> = (0..n).map(is_right).collect();
    let count = |of: &dyn Fn(usize) -> bool| (0..n).filter(|&j| of(j)).count();
    let is_certain = |j: usize| found.certain.get(j).copied().unwrap_or(false);
    Ok(Outcome {
        exact: count(&|j| right[j]),
        certain: count(&is_certain),
        wrong: count(&|j| is_certain(j) && !right[j]),
        cpu,
        why: found.remarks.into_iter().find(|remark| remark.starts_with(NOT_DECODED)),
    })
}

/// Computes the figure.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let dimensions = dimensions(subject, options)?;
    let drawn = subject.draw(options.records, options.seed);
    let wanted = |(known, release): &(LatticeKnowledge, Release)| {
        options.attacks.is_empty() || options.attacks.contains(&curve_name(*known, *release))
    };
    let lines: Vec<(LatticeKnowledge, Release)> =
        lines(subject.classes()).into_iter().filter(wanted).collect();
    let jobs: Vec<(usize, usize)> = (0..lines.len())
        .flat_map(|line| (0..dimensions.len()).map(move |point| (line, point)))
        .collect();
    let mut outcomes = vec![vec![Outcome::default(); dimensions.len()]; lines.len()];
    let mut progress = Progress::start("lattice", jobs.len() as u64);
    let training = subject.training_scores(CALIBRATION)?;
    let records = (&drawn, &training);
    let work = |job: usize| {
        attacked(subject, records, dimensions[jobs[job].1], lines[jobs[job].0], options.seed)
    };
    in_order(options.threads, jobs.len(), work, |job, outcome| {
        let (line, point) = jobs[job];
        outcomes[line][point] = outcome;
        progress.at(job as u64 + 1, &format!("d = {}", dimensions[point]));
        Ok(())
    })?;
    progress.done(&format!("lattice: {} attacks on {} records done", jobs.len(), drawn.records()));

    let mut document = blank(Figure::Lattice, subject, options.seed, drawn.records());
    document.measure = Measure::linear("share of records that come back exactly");
    document.axis = Axis {
        label: "number of passive features d, the last columns".into(),
        symbol: "d".into(),
        points: dimensions.clone(),
        determined_up_to: Some(subject.classes() as f64 - 1.0),
    };
    for (line, outcomes) in lines.iter().zip(&outcomes) {
        fill(&mut document, *line, outcomes);
    }
    document.checks.push(never_wrong(&lines, &outcomes, &dimensions));
    document.notes = notes(subject, &dimensions, &lines, &outcomes);
    Ok(document)
}

fn curve_name(known: LatticeKnowledge, release: Release) -> String {
    format!("{}_{}", known.name(), release.name())
}

/// Returns the numbers of passive features: the requested ones, or eighths of all.
fn dimensions(subject: &ExperimentModel, options: &Options) -> Result<Vec<usize>, ReproduceError> {
    let total = subject.features();
    let mut wanted = options.clone();
    if wanted.dimensions.is_empty() {
        wanted.dimensions = (1..=POINTS).map(|eighth| (total * eighth).div_ceil(POINTS)).collect();
    }
    super::white_box::dimensions(subject, &wanted)
}

fn fill(
    document: &mut Document,
    (known, release): (LatticeKnowledge, Release),
    outcomes: &[Outcome],
) {
    let n = document.records.max(1) as f64;
    let name = curve_name(known, release);
    let x: Vec<f64> = document.axis.points.iter().map(|&d| d as f64).collect();
    let shares =
        |of: fn(&Outcome) -> usize| outcomes.iter().map(|o| of(o) as f64 / n).collect::<Vec<_>>();
    let mut curve = |name: String, role, mean: Vec<f64>| {
        let standard_error = Some(mean.iter().map(|p| (p * (1.0 - p) / n).sqrt()).collect());
        document.curves.push(Curve {
            name,
            role,
            of: None,
            x: x.clone(),
            mean,
            standard_error,
            spread: None,
        });
    };
    curve(name.clone(), CurveRole::Measured, shares(|o| o.exact));
    if matches!(release, Release::Doubles) {
        curve(format!("{name}_certain"), CurveRole::Measured, shares(|o| o.certain));
    }
    document.attacks.push(AttackFacts {
        curve: name,
        method: known.method().to_string(),
        settings: BTreeMap::from([
            ("known".into(), known.words().into()),
            ("release".into(), release.name().replace('_', " ")),
        ]),
        records: document.records,
        cpu_seconds: outcomes.iter().map(|o| o.cpu.as_secs_f64()).sum(),
    });
}

/// Checks that no record that the attack is certain of is wrong: that would be a defect of the
/// attack.
fn never_wrong(
    lines: &[(LatticeKnowledge, Release)],
    outcomes: &[Vec<Outcome>],
    dimensions: &[usize],
) -> Check {
    let (mut certain, mut violations) = (0, Vec::new());
    for (&(known, release), outcomes) in lines.iter().zip(outcomes) {
        for (outcome, d) in outcomes.iter().zip(dimensions) {
            certain += outcome.certain as u64;
            if outcome.wrong > 0 {
                violations.push(format!(
                    "{}, d = {d}: {} records",
                    curve_name(known, release),
                    outcome.wrong
                ));
            }
        }
    }
    Check {
        id: "never_wrong".into(),
        kind: CheckKind::Ours,
        claim: "no record that the attack is certain of is wrong".into(),
        holds: violations.is_empty(),
        comparisons: certain,
        detail: format!("{certain} records are certain, over all curves and points"),
        violations,
    }
}

fn notes(
    subject: &ExperimentModel,
    dimensions: &[usize],
    lines: &[(LatticeKnowledge, Release)],
    outcomes: &[Vec<Outcome>],
) -> Vec<String> {
    let total = subject.features();
    let bits = |d: usize| {
        let passive = &subject.schema[total - d..];
        let (known, open): (Vec<_>, Vec<_>) =
            passive.iter().partition(|f| f.min == f.max || f.grid().is_some());
        let bits: f64 =
            known.iter().filter_map(|f| f.grid()).map(|share| (1.0 / share + 1.0).log2()).sum();
        match open.len() {
            0 => format!("{bits:.0} at d = {d}"),
            n => format!("{bits:.0} and those of {n} on no known grid at d = {d}"),
        }
    };
    let all: Vec<String> = dimensions.iter().map(|&d| bits(d)).collect();
    let equations = subject.classes() - 1;
    let mut notes = vec![format!(
        "bits of a record: {}; {equations} {} of doubles tell some 45 to 50 bits each",
        all.join(", "),
        if equations == 1 { "equation" } else { "equations" }
    )];
    for (&(known, release), outcomes) in lines.iter().zip(outcomes) {
        if let Some((why, d)) =
            outcomes.iter().zip(dimensions).find_map(|(o, d)| Some((o.why.as_ref()?, d)))
        {
            notes.push(format!("{}, from d = {d}: {why}", curve_name(known, release)));
        }
    }
    notes
}
