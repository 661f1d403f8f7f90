//! Table 9: the time of each defense by number of classes, a random score vector at a time. Top-5
//! under homomorphic encryption takes a library of its own (scripts/homomorphic), whose times are
//! read from the file that it wrote.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nalgebra::DMatrix;
use rand::RngExt;
use serde::Deserialize;
use vfl_core::types::Logits;
use vfl_defense::{DefenseError, Grants, Noise, Pipeline};

use super::super::document::{Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::{Figure, Options, ReproduceError, blank};
use super::defenses::{DEFENSES, policy};
use super::model::failed;

/// The numbers of classes of P.
const CLASSES: [usize; 4] = [10, 100, 1000, 10_000];
/// The defenses of the other tables that table 9 and its text name.
const TIMED: [&str; 5] = ["privee_dp", "privee_dp_pp", "ope", "r2", "dp_0.5"];
/// The least time of a measurement: a release is repeated until it is over.
const LEAST: Duration = Duration::from_millis(50);
/// The number of measurements, of which the median counts, after one that does not.
const MEASUREMENTS: usize = 5;

/// The times of scripts/homomorphic on two cores.
const HOMOMORPHIC: &str = include_str!("../../measured/top5-homomorphic.json");

#[derive(Deserialize)]
struct Homomorphic {
    library: String,
    threads: usize,
    key_seconds: f64,
    times: Vec<Row>,
}

/// The times of one number of classes.
#[derive(Deserialize)]
struct Row {
    classes: usize,
    comparisons: usize,
    selection_seconds: f64,
    extrapolated: bool,
}

/// Computes the table. The data set only names the document: the vectors are random.
pub(in super::super) fn times(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let mut document = blank(Figure::PTable9, subject, options.seed, 1);
    document.axis = Axis {
        label: "number of classes, log₁₀".into(),
        symbol: "K".into(),
        points: CLASSES.to_vec(),
        determined_up_to: None,
    };
    document.measure = Measure { label: "time of a score vector, s".into(), linear: false };
    for (name, text) in DEFENSES.into_iter().filter(|(name, _)| TIMED.contains(name)) {
        let seconds = CLASSES.map(|k| seconds(text, k, options.seed));
        let seconds = seconds.into_iter().collect::<Result<Vec<_>, _>>()?;
        document.curves.push(curve(name, seconds));
    }
    let homomorphic: Homomorphic = serde_json::from_str(HOMOMORPHIC)
        .map_err(|e| failed(0, format!("top5-homomorphic.json: {e}")))?;
    // What was computed; the rest is told in a note.
    let computed = homomorphic.times.iter().filter(|row| !row.extrapolated);
    let computed = computed.zip(CLASSES).filter(|(row, classes)| row.classes == *classes);
    document
        .curves
        .push(curve("top5_he", computed.map(|(row, _)| row.selection_seconds).collect()));
    document.checks.extend(near_linear(&document));
    document.checks.extend(top_5(&document));
    let rows = homomorphic.times.iter().map(|row| {
        let Row { classes, comparisons, selection_seconds, .. } = row;
        let reading = if row.extrapolated { "extrapolated to" } else { "in" };
        format!("{classes} classes: {comparisons} comparisons {reading} {selection_seconds:.1} s")
    });
    document.notes = vec![
        "the vectors are random and of no data set; one thread; a release in a batch of its own, with what a defense sets up for it".into(),
        format!(
            "top5_he was measured by scripts/homomorphic ({}, {} threads, keys in {:.1} s): {}",
            homomorphic.library,
            homomorphic.threads,
            homomorphic.key_seconds,
            rows.collect::<Vec<_>>().join("; ")
        ),
    ];
    Ok(document)
}

/// Returns the median time of a release of one random score vector of k classes from its logits, in
/// seconds.
fn seconds(text: &str, k: usize, seed: u64) -> Result<f64, ReproduceError> {
    let off = |error: DefenseError| ReproduceError::Defense { defense: text.into(), error };
    let pipeline = Pipeline::build(&policy(text)?.defenses, k, &Grants::default()).map_err(off)?;
    let mut rng = generator(seed, Purpose::Attack, k as u64);
    let logits = Logits::new(DMatrix::from_fn(k, 1, |_, _| 6.0 * rng.random::<f64>()))?;
    let measure = || -> Result<f64, ReproduceError> {
        let begun = Instant::now();
        let mut count = 0u32;
        while begun.elapsed() < LEAST {
            black_box(pipeline.release(logits.clone(), Noise::fresh([7; 32])).map_err(off)?);
            count += 1;
        }
        Ok(begun.elapsed().as_secs_f64() / f64::from(count))
    };
    measure()?;
    let mut measured = (0..MEASUREMENTS).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    measured.sort_by(f64::total_cmp);
    Ok(measured[MEASUREMENTS / 2])
}

fn curve(name: &str, seconds: Vec<f64>) -> Curve {
    Curve {
        name: name.into(),
        role: CurveRole::Measured,
        of: None,
        x: CLASSES.iter().take(seconds.len()).map(|k| (*k as f64).log10()).collect(),
        mean: seconds,
        standard_error: None,
        spread: None,
    }
}

/// The most that ten times the classes may multiply the time by, where "near-linearly" holds: a
/// K × K matrix takes a hundred times.
const NEAR_LINEAR: f64 = 15.0;

/// Checks that the time of PRIVEE-DP is near-linear in the number of classes, from 100 on, where
/// what a release takes whatever its size no longer hides it.
fn near_linear(document: &Document) -> Option<Check> {
    let seconds = &document.curve("privee_dp")?.mean;
    let steps: Vec<f64> = seconds.windows(2).skip(1).map(|pair| pair[1] / pair[0]).collect();
    let most = steps.iter().copied().fold(0.0, f64::max);
    Some(Check {
        id: "privee_near_linear".into(),
        kind: CheckKind::Paper,
        claim: format!(
            "PRIVEE-DP scales near-linearly (P section 6.2; here: from 100 classes on, ten times the classes take at most {NEAR_LINEAR} times the time)"
        ),
        holds: most <= NEAR_LINEAR,
        comparisons: steps.len() as u64,
        detail: format!("at most {most:.1} times the time"),
        violations: Vec::new(),
    })
}

/// Checks P's claims on Top-5 HE where it was computed: a thousand times the time of PRIVEE-DP, and
/// a minute or more.
fn top_5(document: &Document) -> Vec<Check> {
    let (Some(privee), Some(top_5)) = (document.curve("privee_dp"), document.curve("top5_he"))
    else {
        return Vec::new();
    };
    let check = |id: &str, claim: &str, of: &dyn Fn(f64, f64) -> bool| {
        let points = CLASSES.iter().zip(privee.mean.iter().zip(&top_5.mean));
        let off = points.filter(|(_, (privee, top_5))| !of(**privee, **top_5));
        let violations: Vec<String> =
            off.map(|(k, (_, top_5))| format!("K = {k}: {top_5:.1} s")).collect();
        Check {
            id: id.into(),
            kind: CheckKind::Paper,
            claim: claim.into(),
            holds: violations.is_empty(),
            comparisons: top_5.mean.len() as u64,
            detail: match violations.is_empty() {
                true => format!("so at {} of {0} numbers of classes", top_5.mean.len()),
                false => format!("not so at {}", violations.join("; ")),
            },
            violations,
        }
    };
    vec![
        check(
            "top5_slower",
            "Top-5 HE is several orders of magnitude slower (P section 6.2; here: a thousand times the time of PRIVEE-DP, where it was computed)",
            &|privee, top_5| top_5 >= 1e3 * privee,
        ),
        check(
            "top5_in_minutes",
            "Top-5 HE takes minutes (P section 6.2; here: at least one, where it was computed)",
            &|_, top_5| top_5 >= 60.0,
        ),
    ]
}
