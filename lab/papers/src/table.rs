//! A figure for a terminal: one row per point, one column per curve.

use vfl_present::ColumnKind::{Figure, Name, Number, Text};
use vfl_present::number::align_left;
use vfl_present::{Frame, Table, four, printable, significant, wrapped};

use super::document::{AddedRisk, AttackFacts, Document, ModelOrigin};

/// The longest line of prose that is easy to read.
const PROSE: usize = 110;
/// The least width of a table.
const MIN_WIDTH: usize = 60;

/// The heading of the table of [`added_risk`].
pub(super) const ADDED_RISK: &str = "Added risk, 1 − error with scores / error of the control without, with its interval of 95 % over records";

/// Renders the document for a terminal of `width` columns (at least 60 are used). A table that
/// would be wider is divided into several, each with the points at its left. Ends with a newline.
#[must_use]
pub fn render_table(document: &Document, width: usize) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(&printable(&document.title));
    for (label, value) in facts(document) {
        line(&wrapped(&format!("{label}: {value}"), PROSE, 2));
    }
    line("");
    if !document.curves.is_empty() {
        line(&capital(&document.measure.label));
        for table in tables(document, width.max(MIN_WIDTH)) {
            line(&table);
        }
    }
    if !document.added_risk.is_empty() {
        line(ADDED_RISK);
        line(&added_risk(document).text(Frame::Full, None, false));
    }
    if !document.attacks.is_empty() {
        line("Attacks");
        line(&attacks(document, ["records", "CPU seconds"]).text(Frame::Full, None, false));
    }
    for check in &document.checks {
        let verdict = if check.holds { "holds" } else { "DOES NOT HOLD" };
        line(&wrapped(
            &format!("{verdict} ({}): {}; {}", check.kind.as_str(), check.claim, check.detail),
            PROSE,
            2,
        ));
        for violation in &check.violations {
            line(&format!("    {}", printable(violation)));
        }
    }
    for note in &document.notes {
        line(&wrapped(&format!("Note: {note}"), PROSE, 2));
    }
    out
}

/// Returns the facts that a reader needs, as label and value.
pub(super) fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let data = &document.dataset;
    let origin = match &document.model.origin {
        ModelOrigin::Trained { config, best_epoch } => {
            format!(
                "trained for this run, seed {}, L2 {}, epoch {best_epoch}",
                config.seed, config.l2
            )
        }
        ModelOrigin::OverSockets {
            config,
            best_epoch,
            steps,
            version,
            off_central,
            off_scores,
        } => format!(
            "trained over sockets by three parties, version {}, seed {}, L2 {}, epoch {best_epoch}, {steps} steps; parameters \
             within {off_central:.0e} of central training, served scores within {off_scores:.0e} of the stored parameters'",
            short(version),
            config.seed,
            config.l2
        ),
        ModelOrigin::EachSplit { config } => format!(
            "one for each split, trained for this run, seed {}, L2 {}, {} epochs at most",
            config.seed, config.l2, config.epochs
        ),
        ModelOrigin::Converged { l2, iterations, gradient_norm } => format!(
            "trained to full convergence in one place: L2 {l2:.0e}, {iterations} steps, largest entry of the gradient {gradient_norm:.0e}"
        ),
        ModelOrigin::None {} => "none, the figure is of the data alone".into(),
        ModelOrigin::File { sha256 } => format!("from a file, sha256 {}", short(sha256)),
    };
    vec![
        ("Source", document.source.clone()),
        (
            "Data",
            format!(
                "{}{}{}, {} features, {} classes, {} test records, sha256 {}",
                data.name,
                data.variant
                    .as_ref()
                    .map(|variant| format!(", variant {variant}"))
                    .unwrap_or_default(),
                data.columns.map(|columns| format!(", {columns} columns")).unwrap_or_default(),
                data.features,
                data.classes,
                data.test_records,
                short(&data.sha256)
            ),
        ),
        match document.model.origin {
            ModelOrigin::None {} => ("Model", origin),
            _ => ("Model", format!("{origin}; accuracy {}", four(document.model.accuracy))),
        },
        match document.model.origin {
            ModelOrigin::None {} => ("Records", document.records.to_string()),
            _ => ("Records", format!("{} per split, seed {}", document.records, document.seed)),
        },
    ]
}

/// Capitalises the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// Renders the columns of text: the points, then each curve.
fn tables(document: &Document, width: usize) -> Vec<String> {
    let points: Vec<String> = document.axis.points.iter().map(ToString::to_string).collect();
    let left =
        points.iter().map(String::len).max().unwrap_or(1).max(document.axis.symbol.len()) + 4;
    let columns: Vec<(String, Vec<String>)> = document
        .curves
        .iter()
        .map(|curve| {
            let mut cells: Vec<String> = curve.mean.iter().map(|v| significant(*v)).collect();
            // Curves of a parameter have their own positions, which are then shown with the values.
            if document.curves.iter().any(|other| other.x != curve.x) {
                cells = cells
                    .iter()
                    .zip(&curve.x)
                    .map(|(cell, x)| format!("{cell} at {}", significant(*x)))
                    .collect();
            }
            (printable(&curve.name), align_left(&cells, ' '))
        })
        .collect();
    // Names break at underscores, which are not repeated in every column.
    let heading = |name: &str| name.replace('_', " ");
    let wide = |(name, cells): &(String, Vec<String>)| {
        let word = heading(name).split(' ').map(str::len).max().unwrap_or_default();
        cells.iter().map(|c| c.chars().count()).max().unwrap_or_default().max(word) + 3
    };
    let mut tables = Vec::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut used = left;
        let fits = rest.iter().take_while(|column| {
            used += wide(column);
            used <= width
        });
        let (here, later) = rest.split_at(fits.count().max(1));
        let left = Table::new().column(&document.axis.symbol, Text, &points);
        let table = here.iter().fold(left, |table, (name, cells)| {
            let widest = cells.iter().map(|c| c.chars().count()).max().unwrap_or_default();
            let cells = cells.iter().take(points.len());
            table.column(broken(&heading(name), widest), Text, cells)
        });
        tables.push(table.text(Frame::Full, None, false));
        rest = later;
    }
    tables
}

/// Breaks words into lines of at most `width`, or as narrow as the longest word allows.
fn broken(words: &str, width: usize) -> String {
    let longest = words.split(' ').map(str::len).max().unwrap_or_default();
    wrapped(words, width.max(longest), 0)
}

/// Returns the table of added risks.
pub(super) fn added_risk(document: &Document) -> Table {
    let symbol = document.axis.symbol.as_str();
    let columns = [symbol, "known", "attack", "control", "added risk"].map(|name| (name, Text));
    let row = |risk: &AddedRisk| {
        let [low, high] = risk.interval;
        [
            risk.point.to_string(),
            risk.known.clone(),
            risk.attack.clone(),
            risk.control.clone(),
            format!("{:.3} ({low:.3} to {high:.3})", risk.share),
        ]
    };
    Table::of_rows(columns, document.added_risk.iter().map(row))
}

/// Returns the table of attacks. The headings are those of the number of records and of the time.
pub(super) fn attacks(document: &Document, [records, seconds]: [&str; 2]) -> Table {
    let columns = [("curve", Name), ("attack", Text), (records, Number), (seconds, Figure)];
    let row = |attack: &AttackFacts| {
        [
            attack.curve.clone(),
            with_settings(attack),
            attack.records.to_string(),
            format!("{:.3}", attack.cpu_seconds),
        ]
    };
    Table::of_rows(columns, document.attacks.iter().map(row))
}

/// Returns the attack's name and its settings.
fn with_settings(attack: &AttackFacts) -> String {
    let settings: Vec<String> =
        attack.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if settings.is_empty() {
        attack.method.clone()
    } else {
        format!("{} ({})", attack.method, settings.join(", "))
    }
}
