//! Judges a card: compares the published values with ours, tests the paper's sentences, and gives a
//! verdict.

use serde::Serialize;

use super::card::{Card, CardError, MODEL_ACCURACY};
use super::published::{PublishedCurve, published};
use super::test::TestOutcome;
use crate::Document;

/// The share of the points that must agree for a curve to agree.
const MOST: f64 = 0.9;
/// The relative difference from which two published values count as ordered.
const APART: f64 = 0.2;
/// The size below which errors count as 0: a solver's round-off.
const EXACT: f64 = 1e-6;

/// The verdict on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The published values agree and every tested sentence holds.
    Reproduced,
    /// The values are in the published order, or at least half of the tested sentences hold;
    /// something else differs.
    OrderOnly,
    /// Neither of these holds.
    NotReproduced,
    /// It was computed, but nothing in the paper could be tested on it.
    NotTested,
    /// Nothing computes it.
    NotMade,
}

impl Verdict {
    /// All verdicts, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Reproduced, Self::OrderOnly, Self::NotReproduced, Self::NotTested, Self::NotMade];

    /// Returns the verdict in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::OrderOnly => "order only",
            Self::NotReproduced => "not reproduced",
            Self::NotTested => "not tested",
            Self::NotMade => "not made",
        }
    }
}

/// Our value beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointComparison {
    /// The point of the axis.
    pub point: Option<usize>,
    /// The published value.
    pub paper: f64,
    /// The published standard deviation over windows, if any.
    pub spread: Option<f64>,
    /// Our value, from the document.
    pub here: f64,
    /// True if they agree: within the tolerance or the spread, or both 0 up to round-off.
    pub agrees: bool,
}

/// Our curve beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The name of the curve.
    pub curve: String,
    /// The source of the published values.
    pub source: String,
    /// The largest relative difference that counts as agreement.
    pub tolerance: f64,
    /// The points that both curves have.
    pub points: Vec<PointComparison>,
    /// The median of here / paper over points with a nonzero value in the paper; `None` if there
    /// are none.
    pub median_ratio: Option<f64>,
    /// True if nine in ten points agree.
    pub agrees: bool,
}

/// A tested sentence of the paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestedClaim {
    /// The words of the sentence.
    pub quote: String,
    /// The place of the sentence in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// True if it holds here; `None`: it could not be tested.
    pub holds: Option<bool>,
    /// The figures behind the result, or what a test would need.
    pub detail: String,
}

/// The result of judging a card.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The verdict on the card.
    pub verdict: Verdict,
    /// The published curves compared with ours.
    pub comparisons: Vec<Comparison>,
    /// The published curves that we have no curve for.
    pub alone: Vec<String>,
    /// The tested sentences.
    pub claims: Vec<TestedClaim>,
}

/// Judges a card by the document that was computed for it, if any.
///
/// # Errors
/// [`CardError`] if the card names published values that do not exist.
pub fn judge(card: &Card, document: Option<&Document>) -> Result<Judgement, CardError> {
    let (mut comparisons, mut alone) = (Vec::new(), Vec::new());
    for named in &card.published {
        let of_paper = published(&card.id, named)?;
        match document.and_then(|document| {
            beside(document, &named.curve, &of_paper, (named.tolerance, named.within))
        }) {
            Some(comparison) => comparisons.push(comparison),
            None => alone.push(named.curve.clone()),
        }
    }
    let claims: Vec<TestedClaim> = card
        .claim
        .iter()
        .map(|claim| {
            let (holds, detail) = match document.map(|document| claim.test.on(document)) {
                Some(TestOutcome::Holds(detail)) => (Some(true), detail),
                Some(TestOutcome::Fails(detail)) => (Some(false), detail),
                Some(TestOutcome::Untested(why)) => (None, why),
                None => (None, "nothing computes this figure".into()),
            };
            let words = claim.test.words();
            let detail = if words.is_empty() { detail } else { format!("{words}: {detail}") };
            TestedClaim { quote: claim.quote.clone(), place: claim.place.clone(), holds, detail }
        })
        .collect();
    let verdict = match document {
        None => Verdict::NotMade,
        Some(_) => verdict(&comparisons, &claims),
    };
    Ok(Judgement { verdict, comparisons, alone, claims })
}

fn verdict(comparisons: &[Comparison], claims: &[TestedClaim]) -> Verdict {
    let hold = claims.iter().filter(|claim| claim.holds == Some(true)).count();
    let fail = claims.iter().filter(|claim| claim.holds == Some(false)).count();
    if comparisons.is_empty() && hold + fail == 0 {
        return Verdict::NotTested;
    }
    if fail == 0 && comparisons.iter().all(|comparison| comparison.agrees) {
        return Verdict::Reproduced;
    }
    let order = if comparisons.is_empty() { hold >= fail } else { in_order(comparisons) };
    if order { Verdict::OrderOnly } else { Verdict::NotReproduced }
}

/// Compares a document's curve with a published one; `None` without a common point.
fn beside(
    document: &Document,
    curve: &str,
    paper: &PublishedCurve,
    (tolerance, within): (f64, f64),
) -> Option<Comparison> {
    let one = |point: Option<usize>, paper: f64, spread: Option<f64>, here: f64| {
        let off = (here - paper).abs();
        let agrees = off <= within
            || off <= tolerance * paper.abs()
            || spread.is_some_and(|s| off <= s)
            || here.abs().max(paper.abs()) <= EXACT;
        PointComparison { point, paper, spread, here, agrees }
    };
    let points: Vec<PointComparison> = if curve == MODEL_ACCURACY {
        paper
            .values
            .first()
            .map(|value| one(None, *value, None, document.model.accuracy))
            .into_iter()
            .collect()
    } else {
        let ours = document.curve(curve)?;
        let axis = document.axis.points.iter().zip(&ours.mean);
        let pairs = axis.filter_map(|(point, here)| {
            Some((paper.points.iter().position(|p| p == point)?, *point, *here))
        });
        pairs
            .map(|(at, point, here)| {
                one(
                    Some(point),
                    paper.values[at],
                    paper.spread.as_ref().and_then(|s| s.get(at).copied()),
                    here,
                )
            })
            .collect()
    };
    if points.is_empty() {
        return None;
    }
    let mut ratios: Vec<f64> =
        points.iter().filter(|p| p.paper.abs() > EXACT).map(|p| p.here / p.paper).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = |sorted: &[f64]| (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
    let agreeing = points.iter().filter(|point| point.agrees).count();
    Some(Comparison {
        curve: curve.to_owned(),
        source: paper.source.clone(),
        tolerance,
        median_ratio: (!ratios.is_empty()).then(|| middle(&ratios)),
        agrees: agreeing as f64 >= MOST * points.len() as f64,
        points,
    })
}

/// Returns true if published values that differ are in the same order here, in nine of ten pairs of
/// two curves at a point, or if all curves agree.
fn in_order(comparisons: &[Comparison]) -> bool {
    let (mut pairs, mut right) = (0usize, 0usize);
    for (i, a) in comparisons.iter().enumerate() {
        for b in &comparisons[i + 1..] {
            for p in &a.points {
                let Some(q) = b.points.iter().find(|q| q.point == p.point) else { continue };
                let difference = p.paper - q.paper;
                // Two errors that count as 0 have no order.
                let larger = p.paper.abs().max(q.paper.abs());
                if larger > EXACT && difference.abs() > APART * larger {
                    pairs += 1;
                    right += usize::from(difference.signum() == (p.here - q.here).signum());
                }
            }
        }
    }
    let agree = comparisons.iter().all(|comparison| comparison.agrees);
    agree || pairs > 0 && right as f64 >= MOST * pairs as f64
}
