//! One card on the page: the plot with the published curves, and what was compared and tested.

use maud::{Markup, PreEscaped, html};
use vfl_present::ColumnKind::{Name, Number, Text};
use vfl_present::{Table, said, significant};

use super::card::{Card, CardError, MODEL_ACCURACY};
use super::judge::{Judgement, PointComparison, Verdict};
use super::published::published;
use crate::heat_map::heat;
use crate::plot::plot;
use crate::{Curve, CurveRole, Document};

/// Renders a verdict.
pub(super) fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Reproduced | Verdict::WithSlip => "badge good",
        Verdict::NotReproduced => "badge bad",
        Verdict::OrderOnly | Verdict::Impossible => "badge mid",
        Verdict::NotTested | Verdict::NotMade => "badge flat",
    };
    html! { span class=(class) { (verdict.as_str()) } }
}

/// Renders one card: its picture, published values, sentences and checks.
///
/// # Errors
/// [`CardError`] if published values do not exist or something cannot be drawn.
pub(super) fn render_card(
    card: &Card,
    document: Option<&Document>,
    judged: &Judgement,
    quick: bool,
) -> Result<Markup, CardError> {
    let wrong = |reason: String| CardError::Card { id: card.id.clone(), reason };
    let picture = match document {
        Some(document) => Some(match &document.heat_map {
            Some(map) => heat(map).map_err(|e| wrong(e.to_string()))?,
            None => plot(&with_published(card, document)?).map_err(|e| wrong(e.to_string()))?,
        }),
        None => None,
    };
    let command = card.command(quick);
    let differs = !matches!(judged.verdict, Verdict::Reproduced | Verdict::WithSlip);
    Ok(html! {
        details class="card" id=(card.id) {
            summary { h3 { (said(&card.paper)) ", " (said(&card.item)) ": " (said(&card.title)) } " " (badge(judged.verdict)) }
            p { (said(&card.setup)) }
            @if let Some(why) = &card.not_made { p { "Not made: " (said(why)) } }
            @if let Some(slip) = &card.slip { p { strong { "The authors' code: " } (said(slip)) } }
            @if let Some(difference) = card.difference.as_ref().filter(|_| differs) {
                p { strong { "Why it differs: " } (said(&difference.reason)) }
                p { strong { "Measured: " } (said(&difference.measured)) @if let Some(command) = &difference.command { " " code { (said(command)) } } }
            }
            @if let Some(document) = document {
                p class="small muted" {
                    (said(&document.dataset.name))
                    @if let Some(variant) = &document.dataset.variant { ", variant " (said(variant)) }
                    ": " (document.records) " records, model accuracy " (significant(document.model.accuracy)) ". "
                    @if let Some(command) = &command { code { (said(command)) } }
                }
            }
            @if let Some(svg) = picture {
                figure {
                    div class="scroll" { (PreEscaped(svg)) }
                    @if !judged.comparisons.is_empty() {
                        figcaption { "Filled: here. Hollow: published. Upright lines: the standard deviation over windows." }
                    }
                }
            }
            (comparisons(judged))
            (claims(judged))
            @if let Some(document) = document { (checks(document)) }
        }
    })
}

/// Renders the published values beside ours.
fn comparisons(judged: &Judgement) -> Markup {
    let curves = || judged.comparisons.iter();
    let two = |ratio: f64| format!("{ratio:.2}");
    let median = |ratio: Option<f64>| ratio.map_or_else(String::new, two);
    let by_curve = Table::new()
        .column("curve", Name, curves().map(|of| &of.curve))
        .column("published in", Text, curves().map(|of| &of.source))
        .column("median of here / paper", Number, curves().map(|of| median(of.median_ratio)))
        .column("", Text, curves().map(|of| if of.agrees { "agrees" } else { "differs" }));
    let points = || curves().flat_map(|of| of.points.iter());
    let named = curves().flat_map(|of| of.points.iter().map(|_| &of.curve));
    let place = |point: Option<usize>| point.map_or_else(String::new, |point| point.to_string());
    let spread = |spread: Option<f64>| spread.map_or_else(String::new, significant);
    let ratio = |of: &PointComparison| match of.paper.abs() > 1e-6 {
        true => two(of.here / of.paper),
        false => String::new(),
    };
    let by_point = Table::new()
        .column("curve", Name, named)
        .column("point", Number, points().map(|of| place(of.point)))
        .column("paper", Number, points().map(|of| significant(of.paper)))
        .column("spread", Number, points().map(|of| spread(of.spread)))
        .column("here", Number, points().map(|of| significant(of.here)))
        .column("here / paper", Number, points().map(ratio))
        .column(
            "",
            Text,
            points().map(|of| match of {
                PointComparison { impossible: true, .. } => "impossible",
                PointComparison { agrees: true, .. } => "",
                _ => "differs",
            }),
        );
    html! {
        @if !judged.comparisons.is_empty() {
            div class="scroll" { (by_curve.bare()) }
            details { summary { "Values point by point" }
            div class="scroll" { (by_point.bare()) }
            }
        }
        @if !judged.alone.is_empty() {
            p class="small" { "Published, with nothing of ours beside it: " (said(&judged.alone.join(", "))) "." }
        }
    }
}

/// Renders the sentences of the paper.
fn claims(judged: &Judgement) -> Markup {
    html! {
        @if !judged.claims.is_empty() {
            ul class="small" {
                @for claim in &judged.claims {
                    li {
                        @match claim.holds {
                            Some(true) => span class="badge good" { "holds" },
                            Some(false) => span class="badge bad" { "does not hold" },
                            None => span class="badge flat" { "not tested" },
                        }
                        @if claim.aside { " " span class="badge flat" { "second reading" } }
                        " “" (said(&claim.quote)) "” (" (said(&claim.place)) "): " (said(&claim.detail)) "."
                    }
                }
            }
        }
    }
}

/// Renders the other checks, with the kind of each.
fn checks(document: &Document) -> Markup {
    html! {
        @if !document.checks.is_empty() {
            details {
                summary { "Checks of the figure" }
                ul class="small" {
                    @for check in &document.checks {
                        li {
                            span class=(if check.holds { "badge good" } else { "badge bad" }) { (if check.holds { "holds" } else { "does not hold" }) }
                            " " span class="badge flat" { (check.kind.as_str()) } " " (said(&check.claim)) ": " (said(&check.detail)) "."
                        }
                    }
                }
            }
        }
    }
}

/// Returns the document with the published curves of a card beside its own.
fn with_published(card: &Card, document: &Document) -> Result<Document, CardError> {
    let mut out = document.clone();
    if !card.shown.is_empty() {
        out.curves
            .retain(|curve| card.shown.iter().any(|start| curve.name.starts_with(start.as_str())));
    }
    // A logarithmic axis cannot show values below 0.
    out.measure.linear |=
        out.curves.iter().any(|curve| curve.mean.iter().any(|value| *value < 0.0));
    for named in card.published.iter().filter(|named| named.curve != MODEL_ACCURACY) {
        let of_paper = published(&card.id, named)?;
        // A curve that is left out of ours is left out of the paper's too, for instance because it
        // has another unit.
        let Some(ours) =
            document.curve(&named.curve).filter(|ours| out.curve(&ours.name).is_some())
        else {
            continue;
        };
        // The position of an axis point: as in our curve, or on the line through our first point.
        let here = |point: usize| {
            document
                .axis
                .points
                .iter()
                .position(|p| *p == point)
                .and_then(|i| ours.x.get(i).copied())
        };
        let scale =
            document.axis.points.first().zip(ours.x.first()).map(|(point, x)| x / *point as f64);
        let line = |scale: f64| {
            document
                .axis
                .points
                .iter()
                .zip(&ours.x)
                .all(|(point, x)| (scale * *point as f64 - x).abs() <= 1e-9 * x.abs())
        };
        let place = |point: usize| {
            here(point)
                .or_else(|| scale.filter(|scale| line(*scale)).map(|scale| scale * point as f64))
        };
        let places: Vec<(usize, f64)> = of_paper
            .points
            .iter()
            .enumerate()
            .filter_map(|(i, point)| Some((i, place(*point)?)))
            .collect();
        out.curves.push(Curve {
            name: format!("paper: {}", named.curve),
            role: CurveRole::Published,
            of: Some(named.curve.clone()),
            x: places.iter().map(|(_, x)| *x).collect(),
            mean: places.iter().map(|(i, _)| of_paper.values[*i]).collect(),
            standard_error: None,
            spread: of_paper
                .spread
                .as_ref()
                .map(|spread| places.iter().map(|(i, _)| spread[*i]).collect()),
        });
    }
    Ok(out)
}
