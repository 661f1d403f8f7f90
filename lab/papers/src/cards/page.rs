//! The summary of all judged cards: a page with every plot, a table to read without a browser, and
//! a document for programs.

use maud::html;
use serde::Serialize;
use vfl_present::ColumnKind::{Name, Number, Text};
use vfl_present::{Shell, Table, said};

use super::card::{Card, CardError};
use super::judge::{Judgement, Verdict, judge};
use super::section::{badge, render_card};
use super::shelf::{Paper, Shelf};
use crate::{Document, Figure, SCHEMA_VERSION, compare};

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
            reason: reason(card, judged),
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
        // A quick run may leave out the points of a check.
        if !quick {
            out_of_order.extend(document.iter().flat_map(|document| card.unknown_checks(document)));
        }
        let unlike = matches!(
            judged.verdict,
            Verdict::Impossible | Verdict::OrderOnly | Verdict::NotReproduced
        );
        if unlike && card.difference.is_none() {
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
const VERDICTS: [(Verdict, &str); 7] = [
    (
        Verdict::Reproduced,
        "every published curve agrees at nine in ten points (within its tolerance, or within the spread over windows that was published), \
         and every tested sentence holds; second readings of a sentence stand beside and do not count",
    ),
    (
        Verdict::WithSlip,
        "the same, for curves that repeat a slip of the authors' code; the same attack done right stands beside them",
    ),
    (
        Verdict::Impossible,
        "the same, but for published values above a bound that the quantity cannot exceed",
    ),
    (
        Verdict::OrderOnly,
        "where curves were published, nine in ten pairs stand in the published order; elsewhere at least half of the tested sentences hold",
    ),
    (Verdict::NotReproduced, "neither"),
    (Verdict::NotTested, "computed, but nothing that the paper says could be tested on it"),
    (Verdict::NotMade, "nothing computes it, its data are not there, or --quick leaves it out"),
];

/// Returns the table of the verdicts on the cards of papers, or of all papers.
fn verdicts<'a>(
    all: &[(&Card, Option<&Document>, &Judgement)],
    rows: impl Iterator<Item = (String, Option<&'a Paper>)>,
) -> Table {
    let count = |verdict: Verdict, paper: Option<&Paper>| {
        let counted = |(card, _, judged): &&(&Card, Option<&Document>, &Judgement)| {
            judged.verdict == verdict && paper.is_none_or(|paper| card.paper == paper.letter)
        };
        all.iter().filter(counted).count().to_string()
    };
    let columns = Verdict::ALL.map(|verdict| (verdict.as_str(), Number));
    let row = |(name, paper)| [name].into_iter().chain(Verdict::ALL.map(|v| count(v, paper)));
    Table::of_rows([("paper", Name)].into_iter().chain(columns), rows.map(row))
}

/// Counts the tested sentences that hold.
fn held(judged: &Judgement) -> String {
    let counted = || judged.claims.iter().filter(|claim| !claim.aside);
    let tested = counted().filter_map(|claim| claim.holds);
    let (hold, all) =
        tested.fold((0, 0), |(hold, all), holds| (hold + usize::from(holds), all + 1));
    match (all, counted().count() - all) {
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
    let possible = || judged.comparisons.iter().filter(|c| c.points.iter().any(|p| !p.impossible));
    let (agree, all) = (possible().filter(|c| c.agrees).count(), possible().count());
    let points = judged.comparisons.iter().flat_map(|comparison| &comparison.points);
    match points.filter(|point| point.impossible).count() {
        0 => format!("{agree} of {all} agree"),
        n => format!("{agree} of {all} agree, {n} impossible"),
    }
}

/// Returns the reason why a card is not reproduced as it stands.
pub(super) fn reason<'a>(card: &'a Card, judged: &Judgement) -> Option<&'a str> {
    match judged.verdict {
        Verdict::Reproduced => None,
        Verdict::WithSlip => card.slip.as_deref(),
        _ => card.difference.as_ref().map(|d| d.reason.as_str()).or(card.not_made.as_deref()),
    }
}

/// Returns the reason for the table.
fn reason_or_quick(card: &Card, judged: &Judgement, quick: bool) -> String {
    match (quick, judged.verdict, &card.quick.skip) {
        (true, Verdict::NotMade, Some(why)) => format!("left out by --quick: {why}"),
        _ => reason(card, judged).unwrap_or_default().to_owned(),
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
    let mut out = format!("# {TITLE}\n\n{}\n\n", lead(quick));
    out.push_str("`cloison reproduce --all` writes this table, `index.html` with every plot, and `results.json`.\n\n");
    for (verdict, meaning) in VERDICTS {
        out.push_str(&format!("- **{}**: {meaning}.\n", verdict.as_str()));
    }
    let rows =
        papers.iter().map(|paper| (format!("{} ({})", paper.letter, paper.name), Some(paper)));
    out.push_str(&format!("\n{}\n", verdicts(all, rows).markdown()));
    let columns = ["item", "data", "shows", "verdict", "values", "sentences", "why"];
    for paper in papers {
        out.push_str(&format!("\n## {}\n\n{}\n\n", paper.letter, paper.name));
        let rows =
            all.iter().filter(|(card, ..)| card.paper == paper.letter).map(|(card, _, judged)| {
                [
                    card.item.clone(),
                    data(card).to_owned(),
                    card.title.clone(),
                    judged.verdict.as_str().to_owned(),
                    values(judged),
                    held(judged),
                    reason_or_quick(card, judged, quick),
                ]
            });
        out.push_str(&Table::of_rows(columns.map(|name| (name, Text)), rows).markdown());
        out.push('\n');
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
            .map(|(card, document, judged)| render_card(card, *document, judged, quick))
            .collect::<Result<Vec<_>, _>>()?;
        sections.push((paper, cards));
    }
    let rows = papers.iter().map(|paper| (paper.letter.clone(), Some(paper)));
    let rows = rows.chain([("all".to_owned(), None)]);
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
        div class="scroll" { (verdicts(all, rows).class("counts").bare()) }
        dl { @for (verdict, meaning) in VERDICTS { dt { (badge(verdict)) } dd { (meaning) "." } } }
        @for (paper, cards) in &sections {
            h2 { (said(&paper.letter)) ": " (said(&paper.name)) }
            div class="scroll" { (listing(all, paper).bare()) }
            @for card in cards { (card) }
        }
    }))
}

/// Returns the table of the cards of a paper.
fn listing(all: &[(&Card, Option<&Document>, &Judgement)], paper: &Paper) -> Table {
    let cards = || all.iter().filter(|(card, ..)| card.paper == paper.letter);
    let item = |card: &Card| html! { a href=(format!("#{}", card.id)) { (said(&card.item)) } };
    Table::new()
        .class("listing")
        .column("item", Name, cards().map(|(card, ..)| item(card)))
        .column("shows", Text, cards().map(|(card, ..)| &card.title))
        .column("verdict", Text, cards().map(|(_, _, judged)| badge(judged.verdict)))
        .column("values", Text, cards().map(|(_, _, judged)| values(judged)))
        .column("sentences", Text, cards().map(|(_, _, judged)| held(judged)))
}
