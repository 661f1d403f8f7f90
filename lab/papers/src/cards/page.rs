//! The summary of all judged cards: a page with every plot, a table to read without a browser, and
//! a document for programs.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use vfl_present::{Shell, said, significant};

use super::card::{Card, CardError, MODEL_ACCURACY};
use super::judge::{Judgement, Verdict, judge};
use super::published::published;
use super::shelf::{Paper, Shelf};
use crate::heat_map::heat;
use crate::plot::plot;
use crate::{Curve, CurveRole, Document, Figure, SCHEMA_VERSION, compare};

/// The summary of all cards.
pub struct Summary {
    /// The verdict on each card, in their order.
    pub verdicts: Vec<Verdict>,
    /// One page with every plot.
    pub html: String,
    /// The tables in Markdown.
    pub markdown: String,
    /// The same data for programs.
    pub json: String,
    /// Defects of cards: curves that their documents do not have, and missing reasons.
    pub wrong: Vec<String>,
}

/// A card in the document for programs.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    paper: &'a str,
    item: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    figure: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<&'a str>,
    #[serde(flatten)]
    judged: &'a Judgement,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Judges cards by their documents (in the same order, `None` if there is none) and makes the page,
/// which mentions `quick`. The same documents give the same bytes.
///
/// # Errors
/// [`CardError`] if a card names published values that do not exist, or if something cannot be
/// drawn.
pub fn summary(
    shelf: &Shelf,
    documents: &[Option<Document>],
    quick: bool,
) -> Result<Summary, CardError> {
    let cards = &shelf.cards;
    let has_cards = |paper: &&Paper| cards.iter().any(|card| card.paper == paper.letter);
    let papers: &[Paper] = &shelf.papers.iter().filter(has_cards).cloned().collect::<Vec<_>>();
    let documents = compared(documents);
    let judged: Vec<Judgement> = cards
        .iter()
        .zip(&documents)
        .map(|(card, document)| judge(card, document.as_ref()))
        .collect::<Result<_, _>>()?;
    let all: Vec<(&Card, Option<&Document>, &Judgement)> = cards
        .iter()
        .zip(&documents)
        .zip(&judged)
        .map(|((card, document), judged)| (card, document.as_ref(), judged))
        .collect();
    let rows: Vec<Row<'_>> = all
        .iter()
        .map(|(card, _, judged)| Row {
            id: &card.id,
            paper: &card.paper,
            item: &card.item,
            title: &card.title,
            figure: card.figure.as_deref(),
            dataset: card.dataset.as_deref(),
            judged,
            reason: card
                .difference
                .as_ref()
                .map(|d| d.reason.as_str())
                .or(card.not_made.as_deref()),
        })
        .collect();
    let wrong = |reason: String| CardError::File { file: "the page".into(), reason };
    let mut json = serde_json::to_string_pretty(&serde_json::json!({
        "schema_version": SCHEMA_VERSION,
        "quick": quick,
        "cards": rows,
    }))
    .map_err(|e| wrong(e.to_string()))?;
    json.push('\n');
    let mut out_of_order: Vec<String> = Vec::new();
    for (card, document, judged) in &all {
        out_of_order.extend(document.iter().flat_map(|document| card.unknown(document)));
        if matches!(judged.verdict, Verdict::OrderOnly | Verdict::NotReproduced)
            && card.difference.is_none()
        {
            out_of_order.push(format!(
                "card {}: {}, and no [difference] says why",
                card.id,
                judged.verdict.as_str()
            ));
        }
    }
    Ok(Summary {
        wrong: out_of_order,
        verdicts: judged.iter().map(|judged| judged.verdict).collect(),
        html: page(papers, &all, quick)?,
        markdown: markdown(papers, &all, quick),
        json,
    })
}

/// Adds the papers' comparisons of several data sets to the documents.
fn compared(documents: &[Option<Document>]) -> Vec<Option<Document>> {
    let mut out = documents.to_vec();
    for figure in Figure::ALL {
        let of_figure = |document: &Option<Document>| {
            document.as_ref().is_some_and(|d| d.figure == figure.as_str())
        };
        let places: Vec<usize> = (0..out.len()).filter(|&i| of_figure(&out[i])).collect();
        let mut together: Vec<Document> = places.iter().filter_map(|&i| out[i].clone()).collect();
        if together.len() > 1 {
            compare(*figure, &mut together);
            for (place, document) in places.into_iter().zip(together) {
                out[place] = Some(document);
            }
        }
    }
    out
}

const TITLE: &str = "Figures and tables of papers, computed again";

fn lead(quick: bool) -> &'static str {
    if quick {
        "Made with --quick: fewer records, windows and points than in the papers. Each card says what its paper has, what comes out here, \
         and why the two differ."
    } else {
        "Each card says what its paper has, what comes out here, and why the two differ."
    }
}

/// The explanation of each verdict.
const VERDICTS: [(Verdict, &str); 5] = [
    (
        Verdict::Reproduced,
        "every published curve agrees at nine in ten points (within its tolerance, or within the spread over windows that was published), \
         and every tested sentence holds",
    ),
    (
        Verdict::OrderOnly,
        "where curves were published, nine in ten pairs stand in the published order; elsewhere at least half of the tested sentences hold",
    ),
    (Verdict::NotReproduced, "neither"),
    (Verdict::NotTested, "computed, but nothing that the paper says could be tested on it"),
    (Verdict::NotMade, "nothing computes it, its data are not there, or --quick leaves it out"),
];

fn counts(all: &[(&Card, Option<&Document>, &Judgement)], paper: Option<&str>) -> Vec<usize> {
    let of = |verdict: Verdict| {
        let counted = |(card, _, judged): &&(&Card, Option<&Document>, &Judgement)| {
            judged.verdict == verdict && paper.is_none_or(|paper| card.paper == paper)
        };
        all.iter().filter(counted).count()
    };
    Verdict::ALL.into_iter().map(of).collect()
}

/// Counts the tested sentences that hold.
fn held(judged: &Judgement) -> String {
    let tested = judged.claims.iter().filter_map(|claim| claim.holds);
    let (hold, all) =
        tested.fold((0, 0), |(hold, all), holds| (hold + usize::from(holds), all + 1));
    match (all, judged.claims.len() - all) {
        (0, _) => "none tested".into(),
        (_, 0) => format!("{hold} of {all}"),
        (_, untested) => format!("{hold} of {all}, {untested} untested"),
    }
}

/// Summarises how the published curves compare.
fn values(judged: &Judgement) -> String {
    if judged.comparisons.is_empty() {
        return if judged.alone.is_empty() {
            "no published value".into()
        } else {
            "published, none here".into()
        };
    }
    let agree = judged.comparisons.iter().filter(|c| c.agrees).count();
    format!("{agree} of {} agree", judged.comparisons.len())
}

/// Returns the reason why a card is not reproduced.
fn reason(card: &Card, judged: &Judgement, quick: bool) -> String {
    if let (true, Verdict::NotMade, Some(why)) = (quick, judged.verdict, &card.quick.skip) {
        return format!("left out by --quick: {why}");
    }
    match (&card.difference, &card.not_made) {
        (Some(difference), _) if judged.verdict != Verdict::Reproduced => difference.reason.clone(),
        (_, Some(why)) => why.clone(),
        _ => String::new(),
    }
}

fn data(card: &Card) -> &str {
    card.dataset.as_deref().unwrap_or("")
}

fn markdown(
    papers: &[Paper],
    all: &[(&Card, Option<&Document>, &Judgement)],
    quick: bool,
) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let mut out = format!("# {TITLE}\n\n{}\n\n", lead(quick));
    out.push_str("`cloison reproduce --all` writes this table, `index.html` with every plot, and `results.json`.\n\n");
    for (verdict, meaning) in VERDICTS {
        out.push_str(&format!("- **{}**: {meaning}.\n", verdict.as_str()));
    }
    let heads: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect();
    out.push_str(&format!(
        "\n| paper | {} |\n|---|{}\n",
        heads.join(" | "),
        "---:|".repeat(heads.len())
    ));
    for paper in papers {
        let counts: Vec<String> =
            counts(all, Some(&paper.letter)).iter().map(ToString::to_string).collect();
        out.push_str(&format!(
            "| {} ({}) | {} |\n",
            paper.letter,
            cell(&paper.name),
            counts.join(" | ")
        ));
    }
    for paper in papers {
        out.push_str(&format!("\n## {}\n\n{}\n\n", paper.letter, paper.name));
        out.push_str("| item | data | shows | verdict | values | sentences | why |\n|---|---|---|---|---|---|---|\n");
        for (card, _, judged) in all.iter().filter(|(card, ..)| card.paper == paper.letter) {
            let cells = [
                card.item.as_str(),
                data(card),
                &card.title,
                judged.verdict.as_str(),
                &values(judged),
                &held(judged),
                &reason(card, judged, quick),
            ];
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    out
}

fn page(
    papers: &[Paper],
    all: &[(&Card, Option<&Document>, &Judgement)],
    quick: bool,
) -> Result<String, CardError> {
    let mut sections = Vec::new();
    for paper in papers {
        let cards = all.iter().filter(|(card, ..)| card.paper == paper.letter);
        let cards = cards
            .map(|(card, document, judged)| one(card, *document, judged, quick))
            .collect::<Result<Vec<_>, _>>()?;
        sections.push((paper, cards));
    }
    let shell = Shell {
        title: TITLE,
        generator: concat!("cloison ", env!("CARGO_PKG_VERSION")),
        lead: lead(quick),
        facts: Vec::new(),
        source: "results.json".into(),
        schema_version: SCHEMA_VERSION,
    };
    Ok(shell.page(&html! {
        h2 { "Verdicts" }
        div class="scroll" { table class="counts" {
            thead { tr { th { "paper" } @for verdict in Verdict::ALL { th { (verdict.as_str()) } } } }
            tbody {
                @for paper in papers {
                    tr { td class="name" { (said(&paper.letter)) } @for count in counts(all, Some(&paper.letter)) { td class="n" { (count) } } }
                }
                tr { td class="name" { "all" } @for count in counts(all, None) { td class="n" { (count) } } }
            }
        } }
        dl { @for (verdict, meaning) in VERDICTS { dt { (badge(verdict)) } dd { (meaning) "." } } }
        @for (paper, cards) in &sections {
            h2 { (said(&paper.letter)) ": " (said(&paper.name)) }
            div class="scroll" { table class="listing" {
                thead { tr { @for head in ["item", "shows", "verdict", "values", "sentences"] { th { (head) } } } }
                tbody {
                    @for (card, _, judged) in all.iter().filter(|(card, ..)| card.paper == paper.letter) {
                        tr {
                            td class="name" { a href=(format!("#{}", card.id)) { (said(&card.item)) } }
                            td { (said(&card.title)) }
                            td { (badge(judged.verdict)) }
                            td { (values(judged)) }
                            td { (held(judged)) }
                        }
                    }
                }
            } }
            @for card in cards { (card) }
        }
    }))
}

fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Reproduced => "badge good",
        Verdict::NotReproduced => "badge bad",
        Verdict::OrderOnly => "badge mid",
        Verdict::NotTested | Verdict::NotMade => "badge flat",
    };
    html! { span class=(class) { (verdict.as_str()) } }
}

/// Renders one card.
fn one(
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
    Ok(html! {
        details class="card" id=(card.id) {
            summary { h3 { (said(&card.paper)) ", " (said(&card.item)) ": " (said(&card.title)) } " " (badge(judged.verdict)) }
            p { (said(&card.setup)) }
            @if let Some(why) = &card.not_made { p { "Not made: " (said(why)) } }
            @if let Some(difference) = card.difference.as_ref().filter(|_| judged.verdict != Verdict::Reproduced) {
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
    html! {
        @if !judged.comparisons.is_empty() {
            div class="scroll" { table {
                thead { tr { @for head in ["curve", "published in", "median of here / paper", ""] { th { (head) } } } }
                tbody {
                    @for comparison in &judged.comparisons {
                        tr {
                            td class="name" { (said(&comparison.curve)) }
                            td { (said(&comparison.source)) }
                            td class="n" { @if let Some(ratio) = comparison.median_ratio { (format!("{ratio:.2}")) } }
                            td { (if comparison.agrees { "agrees" } else { "differs" }) }
                        }
                    }
                }
            } }
            details { summary { "Values point by point" }
            div class="scroll" { table {
                thead { tr { @for head in ["curve", "point", "paper", "spread", "here", "here / paper", ""] { th { (head) } } } }
                tbody {
                    @for comparison in &judged.comparisons {
                        @for beside in &comparison.points {
                            tr {
                                td class="name" { (said(&comparison.curve)) }
                                td class="n" { @if let Some(point) = beside.point { (point) } }
                                td class="n" { (significant(beside.paper)) }
                                td class="n" { @if let Some(spread) = beside.spread { (significant(spread)) } }
                                td class="n" { (significant(beside.here)) }
                                td class="n" { @if beside.paper.abs() > 1e-6 { (format!("{:.2}", beside.here / beside.paper)) } }
                                td { @if !beside.agrees { "differs" } }
                            }
                        }
                    }
                }
            } }
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
