//! Renders the verdict for a terminal: a sentence for each release surface, a line for each policy,
//! and the next step.

use vfl_present::ColumnKind::{Figure, Text};
use vfl_present::{Frame, Table, shortened};

use super::brief::brief;
use super::defense::{self, DefenseLine};
use super::document::Report;
use super::facts::NONE;
use super::level::Level;
use super::terminal::{Page, Paint};
use super::thresholds::{Compliance, Thresholds};
use super::{added_risk, inference, private_training};

/// The most lines of the verdict. With the names of the files and an unmet threshold it stays
/// within 40.
pub(super) const MOST_LINES: usize = 37;
/// The fewest policies shown, however long the sentences are.
const FEWEST_POLICIES: usize = 3;

/// Renders the verdict for a terminal of `width` columns (at least 60 are used), in at most 37
/// lines if it has 80 columns or more. ANSI colours only if `colour`. Ends with a newline.
///
/// It renders the document without checking it; [`Report::check`] does that.
#[must_use]
pub fn render_summary(report: &Report, width: usize, colour: bool) -> String {
    let page = Page::new(width, colour);
    let brief = brief(report);
    let lines = defense::lines(report);

    let mut before = vec![page.paint(&page.prose(&report.title, 0), Paint::Bold)];
    if let Some(headline) = &brief.headline {
        let text = page.prose(&headline.text, 2);
        before.push(match headline.level {
            Level::Exact | Level::SomeExact | Level::Partial => page.paint(&text, Paint::Red),
            _ => page.paint(&text, Paint::Bold),
        });
    }
    before.extend(brief.mean.iter().map(|text| page.prose(text, 2)));
    for sentence in &brief.surfaces {
        let text = page.prose(&format!("- {}: {}.", sentence.surface, sentence.text), 2);
        before.push(match sentence.level {
            Some(Level::Exact | Level::SomeExact) => page.paint(&text, Paint::Red),
            Some(Level::Partial) => page.paint(&text, Paint::Yellow),
            _ => text,
        });
    }
    before.push(String::new());
    let mut after = Vec::new();
    if !lines.is_empty() {
        before.push(page.paint(&page.prose(&heading(report, &lines), 0), Paint::Bold));
        after.push(page.prose(reading(&lines), 0));
    }
    for line in private_training::lines(report) {
        let text = format!(
            "Trained with noise {}, ε {}: accuracy {}, exact scores add {} ({}).",
            line.noise, line.epsilon, line.accuracy, line.added, line.interval
        );
        after.push(page.prose(&text, 0));
    }
    after.extend(inference::sentences(report).iter().map(|text| page.prose(text, 2)));
    for (compliance, said) in &brief.demands {
        let text = page.prose(&format!("Threshold {}: {said}.", compliance.label()), 2);
        let bad = *compliance != Compliance::Met;
        after.push(if bad { page.paint(&text, Paint::Red) } else { text });
    }
    after.push(page.paint(&page.prose(&format!("Next: {}", brief.next), 0), Paint::Bold));

    let prose: usize = before.iter().chain(&after).map(|text| text.lines().count().max(1)).sum();
    let shown = shown(lines.len(), MOST_LINES.saturating_sub(prose));
    if !lines.is_empty() {
        before.extend(table(&page, &lines, shown, report.thresholds.as_ref()));
    }
    if shown < lines.len() {
        before.push(format!("  … and {} more: --details", lines.len() - shown));
    }
    let mut out = before.into_iter().chain(after).collect::<Vec<_>>().join("\n");
    out.push('\n');
    out
}

/// Returns the number of policies out of `all` that fit on `room` lines, which must also hold the
/// table's head and the number of those left out.
fn shown(all: usize, room: usize) -> usize {
    let rows = room.saturating_sub(1);
    if all <= rows { all } else { rows.saturating_sub(1).max(FEWEST_POLICIES).min(all) }
}

fn heading(report: &Report, lines: &[DefenseLine<'_>]) -> String {
    let judged = lines.iter().any(|line| line.judged) && report.thresholds.is_some();
    let star = if judged { " (* the policy judged)" } else { "" };
    match added_risk::known(report) {
        None => format!("The strongest attack on each policy{star}"),
        Some(known) => format!("What the scores add for an adversary that knows {known}{star}"),
    }
}

/// Explains the table.
fn reading(lines: &[DefenseLine<'_>]) -> &'static str {
    if lines.iter().any(|line| line.risk.is_some()) {
        "Error: mean squared, over all features. Without: of the same adversary without any score. Added risk: 1 − error / without, of the \
         attribute told most. Lost: points of accuracy."
    } else {
        "Error: mean squared, per feature. No attack has a control without scores, so what the scores add is not known. Lost: \
         percentage points of accuracy."
    }
}

fn table(
    page: &Page,
    lines: &[DefenseLine<'_>],
    shown: usize,
    thresholds: Option<&Thresholds>,
) -> Vec<String> {
    let lines = lines.get(..shown).unwrap_or(lines);
    let column =
        |of: fn(&DefenseLine<'_>) -> String| -> Vec<String> { lines.iter().map(of).collect() };
    let informed = lines.iter().any(|line| line.risk.is_some());
    let mut figures = vec![("error", column(|line| line.error()))];
    if informed {
        figures.push(("without", column(|line| line.control())));
    } else {
        figures.push(("column mean", column(|line| line.guess())));
    }
    figures.push(("lost", column(|line| line.cost())));
    if thresholds.is_some() {
        let met = |line: &DefenseLine<'_>| match line.compliance() {
            Some(Compliance::Met) => "yes".into(),
            Some(Compliance::NotMet) => "no".into(),
            Some(Compliance::NotMeasured) | None => NONE.into(),
        };
        figures.push(("met", column(met)));
    }
    let (added, intervals) =
        (aligned(&column(|line| line.added())), aligned(&column(|line| line.interval())));
    // The width that the other columns leave, padding included.
    let widest = |title: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| cell.chars().count());
        cells.chain([title.len()]).max().unwrap_or_default() + 3
    };
    let percentages =
        if informed { widest("added risk", &added) + widest("95 %", &intervals) } else { 0 };
    let taken =
        percentages + figures.iter().map(|(title, cells)| widest(title, cells)).sum::<usize>();
    let room = page.width.saturating_sub(taken + 2).max(12);
    let room = if informed { room } else { room / 2 };
    let name = |line: &DefenseLine<'_>| {
        let star = if line.judged && thresholds.is_some() { "* " } else { "" };
        shortened(&format!("{star}{}", line.short), room)
    };
    let attack = |line: &DefenseLine<'_>| shortened(line.attack.unwrap_or(NONE), room);
    let table = Table::new()
        .column("defense", Text, lines.iter().map(name))
        .column_if(informed, "added risk", Text, added)
        .column_if(informed, "95 %", Text, intervals)
        .column_if(!informed, "strongest attack", Text, lines.iter().map(attack));
    let table = figures
        .into_iter()
        .fold(table, |table, (heading, cells)| table.column(heading, Figure, cells));
    page.table(Frame::None, &table).lines().map(str::to_owned).collect()
}

/// Aligns percentages by their decimal points, or by their ends if they have none.
fn aligned(cells: &[String]) -> Vec<String> {
    let whole = |cell: &str| {
        if cell.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            cell.find(['.', ' ']).unwrap_or(0)
        } else {
            0
        }
    };
    let widest = cells.iter().map(|cell| whole(cell)).max().unwrap_or_default();
    let pad = |cell: &String| match whole(cell) {
        0 => cell.clone(),
        digits => format!("{}{cell}", " ".repeat(widest - digits)),
    };
    cells.iter().map(pad).collect()
}
