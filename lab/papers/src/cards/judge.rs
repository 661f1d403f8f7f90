//! Judges a card: compares the published values with ours, tests the paper's sentences, and gives a
//! verdict.

use serde::Serialize;

use super::card::{Card, CardError, MODEL_ACCURACY, Published};
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
    /// The same, for curves that repeat a slip of the authors' code.
    WithSlip,
    /// The same, but for published values above a bound that the quantity cannot exceed.
    Impossible,
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
    pub const ALL: [Self; 7] = [
        Self::Reproduced,
        Self::WithSlip,
        Self::Impossible,
        Self::OrderOnly,
        Self::NotReproduced,
        Self::NotTested,
        Self::NotMade,
    ];

    /// Returns the verdict in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::WithSlip => "reproduced with the code's slip",
            Self::Impossible => "impossible as printed",
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
    /// True if the published value is above the bound of its quantity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub impossible: bool,
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
    /// True if nine in ten points agree, of those whose published value is possible.
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
    /// True if it is a second reading, which the verdict leaves out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
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
        match document.and_then(|document| beside(document, named, &of_paper)) {
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
            let (quote, place) = (claim.quote.clone(), claim.place.clone());
            TestedClaim { quote, place, holds, detail, aside: claim.aside }
        })
        .collect();
    let verdict = match document {
        None => Verdict::NotMade,
        Some(_) => verdict(&comparisons, &claims, card.slip.is_some()),
    };
    Ok(Judgement { verdict, comparisons, alone, claims })
}

fn verdict(comparisons: &[Comparison], claims: &[TestedClaim], slip: bool) -> Verdict {
    let counted = |holds| claims.iter().filter(|c| !c.aside && c.holds == Some(holds)).count();
    let (hold, fail) = (counted(true), counted(false));
    if comparisons.is_empty() && hold + fail == 0 {
        return Verdict::NotTested;
    }
    if fail == 0 && comparisons.iter().all(|comparison| comparison.agrees) {
        let mut points = comparisons.iter().flat_map(|comparison| &comparison.points);
        return match (points.any(|point| point.impossible), slip) {
            (true, _) => Verdict::Impossible,
            (false, true) => Verdict::WithSlip,
            (false, false) => Verdict::Reproduced,
        };
    }
    let order = if comparisons.is_empty() { hold >= fail } else { in_order(comparisons) };
    if order { Verdict::OrderOnly } else { Verdict::NotReproduced }
}

/// Compares a document's curve with a published one; `None` without a common point.
fn beside(document: &Document, named: &Published, paper: &PublishedCurve) -> Option<Comparison> {
    let (curve, tolerance, within) = (named.curve.as_str(), named.tolerance, named.within);
    let one = |point: Option<usize>, paper: f64, spread: Option<f64>, here: f64| {
        let off = (here - paper).abs();
        let impossible = named.limit.is_some_and(|limit| paper > limit);
        let agrees = off <= within
            || off <= tolerance * paper.abs()
            || spread.is_some_and(|s| off <= s)
            || here.abs().max(paper.abs()) <= EXACT;
        PointComparison { point, paper, spread, here, agrees, impossible }
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
    let compared = points.iter().filter(|p| p.paper.abs() > EXACT && !p.impossible);
    let mut ratios: Vec<f64> = compared.map(|p| p.here / p.paper).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = |sorted: &[f64]| (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
    let possible = points.iter().filter(|point| !point.impossible).count();
    let agreeing = points.iter().filter(|point| point.agrees && !point.impossible).count();
    Some(Comparison {
        curve: curve.to_owned(),
        source: paper.source.clone(),
        tolerance,
        median_ratio: (!ratios.is_empty()).then(|| middle(&ratios)),
        agrees: agreeing as f64 >= MOST * possible as f64,
        points,
    })
}

/// Returns true if published values that differ are in the same order here, in nine of ten pairs of
/// two curves at a point, or if all curves agree.
fn in_order(comparisons: &[Comparison]) -> bool {
    let (mut pairs, mut right) = (0usize, 0usize);
    for (i, a) in comparisons.iter().enumerate() {
        for b in &comparisons[i + 1..] {
            for p in a.points.iter().filter(|p| !p.impossible) {
                let Some(q) = b.points.iter().find(|q| q.point == p.point && !q.impossible) else {
                    continue;
                };
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
