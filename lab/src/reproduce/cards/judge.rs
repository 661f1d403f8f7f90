//! What a card comes to: the published values beside ours, the paper's sentences tested, and a verdict.

use serde::Serialize;

use super::card::{Card, CardError, MODEL_ACCURACY};
use super::published::{PublishedCurve, published};
use super::test::Found;
use crate::reproduce::Document;

/// Share of the points that must agree for a curve to agree.
const MOST: f64 = 0.9;
/// Two published values stand in an order if they differ by more than this, relatively.
const APART: f64 = 0.2;
/// Errors below this are none: a solver's round-off.
const EXACT: f64 = 1e-6;

/// The verdict on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Published values agree and every tested sentence holds.
    Reproduced,
    /// The published values stand in the paper's order, or at least half of the tested sentences hold; something else differs.
    OrderOnly,
    /// Neither.
    NotReproduced,
    /// Computed, but nothing of the paper could be tested on it.
    NotTested,
    /// Nothing computes it.
    NotMade,
}

impl Verdict {
    /// All, in the order of the tables.
    pub const ALL: [Self; 5] = [Self::Reproduced, Self::OrderOnly, Self::NotReproduced, Self::NotTested, Self::NotMade];

    /// In words.
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

/// One value beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The axis point.
    pub point: Option<usize>,
    /// What the paper has.
    pub paper: f64,
    /// Its standard deviation over windows, where it was published.
    pub spread: Option<f64>,
    /// What we have.
    pub here: f64,
    /// Whether they agree: within the tolerance or the spread, or both 0 but for round-off.
    pub agrees: bool,
}

/// One curve beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name.
    pub curve: String,
    /// Where the published values are from.
    pub source: String,
    /// The largest relative difference that counts as none.
    pub tolerance: f64,
    /// Points that both have.
    pub points: Vec<Beside>,
    /// The median of here / paper over points with an error in the paper; `None` without one.
    pub median_ratio: Option<f64>,
    /// Whether nine in ten points agree.
    pub agrees: bool,
}

/// A sentence of the paper, tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// Its words.
    pub quote: String,
    /// Where they are.
    #[serde(rename = "where")]
    pub place: String,
    /// Whether it holds here; `None`: it could not be tested.
    pub holds: Option<bool>,
    /// The figures behind the answer, or what would be needed.
    pub detail: String,
}

/// What a card comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The published values that have one of ours beside them.
    pub comparisons: Vec<Comparison>,
    /// Published curves that have none, with all their values.
    pub alone: Vec<String>,
    /// The sentences.
    pub claims: Vec<Tested>,
}

/// Judges a card by the document that was computed for it, if any.
///
/// # Errors
/// [`CardError`] if the card names published values that do not exist.
pub fn judge(card: &Card, document: Option<&Document>) -> Result<Judged, CardError> {
    let (mut comparisons, mut alone) = (Vec::new(), Vec::new());
    for named in &card.published {
        let of_paper = published(&card.id, named)?;
        match document.and_then(|document| beside(document, &named.curve, &of_paper, (named.tolerance, named.within))) {
            Some(comparison) => comparisons.push(comparison),
            None => alone.push(named.curve.clone()),
        }
    }
    let claims: Vec<Tested> = card
        .claim
        .iter()
        .map(|claim| {
            let (holds, detail) = match document.map(|document| claim.test.on(document)) {
                Some(Found::Holds(detail)) => (Some(true), detail),
                Some(Found::Fails(detail)) => (Some(false), detail),
                Some(Found::Untested(why)) => (None, why),
                None => (None, "nothing computes this figure".into()),
            };
            let words = claim.test.words();
            let detail = if words.is_empty() { detail } else { format!("{words}: {detail}") };
            Tested { quote: claim.quote.clone(), place: claim.place.clone(), holds, detail }
        })
        .collect();
    let verdict = match document {
        None => Verdict::NotMade,
        Some(_) => verdict(&comparisons, &claims),
    };
    Ok(Judged { verdict, comparisons, alone, claims })
}

fn verdict(comparisons: &[Comparison], claims: &[Tested]) -> Verdict {
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

/// The values of a document's curve beside published ones; `None` without a point in common.
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
        Beside { point, paper, spread, here, agrees }
    };
    let points: Vec<Beside> = if curve == MODEL_ACCURACY {
        paper.values.first().map(|value| one(None, *value, None, document.model.accuracy)).into_iter().collect()
    } else {
        let ours = document.curve(curve)?;
        let axis = document.axis.points.iter().zip(&ours.mean);
        let pairs =
            axis.filter_map(|(point, here)| Some((paper.points.iter().position(|p| p == point)?, *point, *here)));
        pairs
            .map(|(at, point, here)| {
                one(Some(point), paper.values[at], paper.spread.as_ref().and_then(|s| s.get(at).copied()), here)
            })
            .collect()
    };
    if points.is_empty() {
        return None;
    }
    let mut ratios: Vec<f64> = points.iter().filter(|p| p.paper.abs() > EXACT).map(|p| p.here / p.paper).collect();
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

/// Whether published values that are apart stand in the same order here, nine in ten pairs of two curves at a point; where all agree they do.
fn in_order(comparisons: &[Comparison]) -> bool {
    let (mut pairs, mut right) = (0usize, 0usize);
    for (i, a) in comparisons.iter().enumerate() {
        for b in &comparisons[i + 1..] {
            for p in &a.points {
                let Some(q) = b.points.iter().find(|q| q.point == p.point) else { continue };
                let difference = p.paper - q.paper;
                // Of two errors that are none neither is the larger.
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
