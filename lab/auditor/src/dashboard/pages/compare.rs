//! The page that compares two audits row by row. It compares figures as text and computes nothing.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{RowKind, Table, said};

use super::audits::title;
use crate::report::{Report, Sheet, scroll, sheets};

/// A row: its name, and the figure of either audit.
struct Pair {
    name: String,
    sides: [Option<String>; 2],
}

impl Pair {
    fn difference(&self) -> &'static str {
        match &self.sides {
            [Some(a), Some(b)] if a == b => "same",
            [Some(_), Some(_)] => "differs",
            [Some(_), None] => "first only",
            _ => "second only",
        }
    }
}

/// Pairs rows of the same name; of several with one name the first with the first, the second with
/// the second.
fn paired(first: &[(String, String)], second: &[(String, String)]) -> Vec<Pair> {
    let mut left: Vec<Option<&(String, String)>> = second.iter().map(Some).collect();
    let mut pairs: Vec<Pair> = first
        .iter()
        .map(|(name, figure)| {
            let other = left
                .iter_mut()
                .find(|row| row.is_some_and(|(other, _)| other == name))
                .and_then(Option::take);
            Pair {
                name: name.clone(),
                sides: [Some(figure.clone()), other.map(|(_, figure)| figure.clone())],
            }
        })
        .collect();
    pairs.extend(
        left.into_iter()
            .flatten()
            .map(|(name, figure)| Pair { name: name.clone(), sides: [None, Some(figure.clone())] }),
    );
    pairs
}

/// Returns the request of an audit and the deployment that it was of.
fn facts(report: &Report) -> Vec<(String, String)> {
    let config = |key: &str| match report.generated.config.get(key) {
        Some(serde_json::Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join("; "),
        Some(serde_json::Value::Null) | None => "not given".into(),
        Some(value) => value.to_string(),
    };
    let service =
        report.in_service.as_ref().map_or_else(|| "not known".into(), crate::report::Policy::label);
    let shown = report
        .passive_parties()
        .filter_map(|p| Some(format!("{}: {}", p.name, p.parameters_shown.as_ref()?)));
    let mut facts = vec![
        ("model".to_owned(), report.deployment.model_version.clone()),
        ("policy in service".to_owned(), service),
        ("parameters shown".to_owned(), shown.collect::<Vec<_>>().join("; ")),
        ("hash of the ids".to_owned(), report.data.sha256.clone()),
        ("program".to_owned(), report.tool.version.clone()),
    ];
    facts.extend(
        ["records", "seed", "policies", "attacks", "rho", "metrics", "features"]
            .map(|key| (key.to_owned(), config(key))),
    );
    facts
}

/// Renders the page of two audits with their names.
pub(in crate::dashboard) fn compare(first: (&str, &Report), second: (&str, &Report)) -> Markup {
    let names = [title(first.0), title(second.0)];
    let facts = paired(&facts(first.1), &facts(second.1));
    let (one, other) = (sheets(first.1), sheets(second.1));
    let key = |sheets: &[Sheet]| -> Vec<(String, String)> {
        sheets.iter().enumerate().map(|(at, sheet)| (sheet.title.clone(), at.to_string())).collect()
    };
    let rows = |sheets: &[Sheet], at: &Option<String>| {
        let sheet = at.as_ref().and_then(|at| sheets.get(at.parse::<usize>().ok()?));
        sheet.map(|sheet| sheet.rows.clone()).unwrap_or_default()
    };
    let audits: Vec<(String, Vec<Pair>)> = paired(&key(&one), &key(&other))
        .into_iter()
        .map(|Pair { name, sides: [a, b] }| (name, paired(&rows(&one, &a), &rows(&other, &b))))
        .collect();
    let all = facts.iter().chain(audits.iter().flat_map(|(_, pairs)| pairs));
    let different = all.clone().filter(|pair| pair.difference() != "same").count();
    html! {
        p class="lead" { (different) " of " (all.count()) " rows differ." }
        p class="small muted" {
            "Figures as the reports have them. Whether two figures differ by more than chance is not computed: audits with noise differ each time."
        }
        @for (name, report) in names.iter().zip([first.1, second.1]).filter(|(_, report)| !report.has_attributes()) {
            p class="small muted" {
                (said(name)) " (schema version " (report.schema_version) ") has no figures by attribute: what its scores add is of all features \
                 together and cannot be compared with that of a worst attribute."
            }
        }
        section aria-labelledby="asked" {
            h2 id="asked" { "What was asked" }
            div class="card" { (table("What was asked", &names, &facts)) }
        }
        section aria-labelledby="found" {
            h2 id="found" { "What was found" }
            @for (title, pairs) in &audits {
                details class="card" open[pairs.iter().any(|pair| pair.difference() != "same")] {
                    summary { h3 { (said(title)) } }
                    (table(title, &names, pairs))
                }
            }
        }
        p { a href="/audits" { "All audits" } }
    }
}

fn table(label: &str, names: &[String; 2], pairs: &[Pair]) -> Markup {
    let side = |at: usize| pairs.iter().map(move |pair| pair.sides[at].as_deref().unwrap_or("–"));
    let kind = |pair: &Pair| match pair.difference() {
        "same" => RowKind::Plain,
        _ => RowKind::Differs,
    };
    let difference = |pair: &Pair| match pair.difference() {
        "same" => html! { span class="muted" { "same" } },
        difference => html! { span class="badge mid" { (difference) } },
    };
    let table = Table::new()
        .class("sides")
        .kinds(pairs.iter().map(kind))
        .column("row", Name, pairs.iter().map(|pair| &pair.name))
        .column("difference", Text, pairs.iter().map(difference))
        .column(&names[0], Text, side(0))
        .column(&names[1], Text, side(1));
    scroll(label, &table.html())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_meet_by_name_and_nothing_is_lost() {
        let row = |name: &str, figure: &str| (name.to_owned(), figure.to_owned());
        let first = [row("a", "1"), row("b", "2"), row("a", "3"), row("c", "4")];
        let second = [row("a", "1"), row("d", "9"), row("a", "5")];
        let pairs = paired(&first, &second);
        let said: Vec<(&str, &str)> =
            pairs.iter().map(|pair| (pair.name.as_str(), pair.difference())).collect();
        assert_eq!(
            said,
            [
                ("a", "same"),
                ("b", "first only"),
                ("a", "differs"),
                ("c", "first only"),
                ("d", "second only")
            ]
        );
    }
}
