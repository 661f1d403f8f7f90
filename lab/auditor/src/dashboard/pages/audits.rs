//! The page that lists the audits of the folder.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{Table, said};

use crate::dashboard::format::{counted, segment, when};
use crate::dashboard::runner::AuditProgress;
use crate::dashboard::store::{Entry, ITSELF, ReportState};
use crate::report::{Digest, Line, Report, badge, compliance, digest};

/// The content of the list.
pub(in crate::dashboard) struct AuditList<'a> {
    /// The audits, newest first.
    pub(in crate::dashboard) entries: &'a [Entry],
    /// The number of older audits that are left out.
    pub(in crate::dashboard) more: usize,
    pub(in crate::dashboard) running: Option<&'a AuditProgress>,
}

/// Renders the page.
pub(in crate::dashboard) fn audits(listed: &AuditList<'_>) -> Markup {
    let reports: Vec<&Entry> = listed
        .entries
        .iter()
        .filter(|entry| matches!(entry.kept, ReportState::Report(_)))
        .collect();
    html! {
        @if let Some(running) = listed.running {
            div class="card callout" {
                p { "An audit runs since " (when(running.began)) ". One runs at a time." }
                p class="ways" { a class="button" href="/audits/running" { "Watch it" } }
            }
        } @else {
            p class="ways" { a class="button" href="/audits/new" { "Start an audit" } }
        }
        @if listed.entries.is_empty() {
            p { "No audit yet. Start one here, or write one into this folder with " code { "cloison audit --out" } "." }
        }
        @if !reports.is_empty() { (legend()) }
        @for entry in listed.entries { (one(entry, listed.running)) }
        @if listed.more > 0 { p class="small muted" { (listed.more) " older ones are not listed." } }
        @if reports.len() > 1 { (choose(&reports)) }
    }
}

/// Returns the title of an audit.
pub(super) fn title(name: &str) -> String {
    if name == ITSELF { "the folder itself".into() } else { name.to_owned() }
}

fn one(entry: &Entry, running: Option<&AuditProgress>) -> Markup {
    let path = format!("/audit/{}", segment(&entry.name));
    let title = title(&entry.name);
    html! {
        section class="card" aria-label=(format!("Audit {}", vfl_present::printable(&title))) {
            @match &entry.kept {
                ReportState::Report(report) => {
                    h2 class="entry" { a href=(path) { (said(&title)) } }
                    p class="small muted" { (when(entry.at)) ", model " code { (said(&report.deployment.model_version)) } ", " (records(report)) ", seed " (report.seed) }
                    (lines(&digest(report)))
                }
                ReportState::Unreadable(why) => {
                    h2 class="entry" { (said(&title)) }
                    p { span class="badge mid" { "not readable" } " " (said(why)) }
                }
                ReportState::Ended(why) => {
                    h2 class="entry" { a href=(path) { (said(&title)) } }
                    p class="small muted" { (when(entry.at)) }
                    @if why == "stopped" { p { span class="badge flat" { "stopped" } " It has no report." } }
                    @else { p { span class="badge bad" { "failed" } " " (said(why)) } }
                }
                ReportState::Begun if running.is_some_and(|running| running.name == entry.name) => {
                    h2 class="entry" { a href="/audits/running" { (said(&title)) } }
                    p { span class="badge mid" { "runs" } " since " (when(entry.at)) }
                }
                ReportState::Begun => {
                    h2 class="entry" { a href=(path) { (said(&title)) } }
                    p { span class="badge flat" { "not finished" } " The dashboard ended before it did." }
                }
            }
        }
    }
}

fn records(report: &Report) -> String {
    counted(report.audits.first().map_or(report.data.test, |audit| audit.records), "record")
}

/// Explains the columns of [`lines`].
pub(super) fn legend() -> Markup {
    html! {
        p class="small muted" {
            "What the strongest attack on each policy rebuilds. Error: its mean squared error per feature; features lie in [0, 1]. Column mean: "
            "the error of guessing each feature's mean. Accuracy lost: percentage points. A dash: not known."
        }
    }
}

/// Renders a table with one row for each policy.
pub(super) fn lines(digest: &Digest) -> Markup {
    let lines = || digest.lines.iter();
    let policy = |line: &Line| {
        html! { (line.policy) @if line.in_service { " " span class="tag" { "in service" } } }
    };
    let result = |line: &Line| {
        html! { (badge(line.level)) @if let Some(result) = line.compliance { " " (compliance(result)) } }
    };
    Table::new()
        .column("policy", Name, lines().map(policy))
        .column("what comes back", Text, lines().map(result))
        .column_if(digest.informed, "worst attribute", Text, lines().map(|line| &line.attribute))
        .column_if(digest.informed, "added risk (95 %)", Text, lines().map(|line| &line.added))
        .column("error", Text, lines().map(|line| &line.error))
        .column("column mean", Text, lines().map(|line| &line.guess))
        .column("accuracy lost", Text, lines().map(|line| &line.cost))
        .column("strongest attack", Text, lines().map(|line| &line.attack))
        .cards()
}

fn choose(reports: &[&Entry]) -> Markup {
    let options = |chosen: usize| {
        html! {
            @for (at, entry) in reports.iter().enumerate() {
                option value=(entry.name) selected[at == chosen] { (said(&title(&entry.name))) ", " (when(entry.at)) }
            }
        }
    };
    html! {
        section aria-labelledby="comparison" {
            h2 id="comparison" { "Compare two audits" }
            form class="card" method="get" action="/compare" {
                div class="field" { label for="first" { "First" } select id="first" name="first" { (options(1)) } }
                div class="field" { label for="second" { "Second" } select id="second" name="second" { (options(0)) } }
                button type="submit" { "Compare" }
            }
        }
    }
}
