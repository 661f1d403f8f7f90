//! The page of one audit: its results and its files.

use maud::{Markup, html};
use vfl_present::said;

use super::audits::{legend, lines};
use crate::dashboard::format::{segment, when};
use crate::dashboard::store::{Entry, Piece, ReportState};
use crate::report::{compliance, digest};

/// Renders the page. `config` is true if its configuration exists.
pub(in crate::dashboard) fn audit(entry: &Entry, config: bool) -> Markup {
    let path = format!("/audit/{}", segment(&entry.name));
    html! {
        p class="lead" { (when(entry.at)) }
        @match &entry.kept {
            ReportState::Report(report) => {
                @let digest = digest(report);
                p class="ways" {
                    a class="button" href=(format!("{path}/{}", Piece::Html.file())) { "Open the report" }
                    " " a href=(format!("{path}/{}", Piece::Json.file())) download { "JSON" }
                    " " a href=(format!("{path}/{}", Piece::Csv.file())) download { "CSV" }
                    @if config { " " a href=(format!("{path}/{}", Piece::Config.file())) download { "Configuration used" } }
                }
                section aria-labelledby="verdict" {
                    h2 id="verdict" { "Verdict" }
                    @if let Some(headline) = &digest.headline { p { strong { (headline) } } }
                    ul class="verdict" {
                        @for (surface, text) in &digest.surfaces { li { strong { (surface) ": " } (text) "." } }
                    }
                    div class="card callout" {
                        @for (result, words) in &digest.demands { p { (compliance(*result)) " " (words) "." } }
                        p { strong { "What to do next. " } (digest.next) }
                    }
                    div class="card" { (lines(&digest)) (legend()) }
                }
            }
            ReportState::Unreadable(why) => p class="trouble" { "Its report cannot be read: " (said(why)) },
            ReportState::Ended(why) if why == "stopped" => p { "It was stopped and has no report. What it spent until then is spent." },
            ReportState::Ended(why) => p class="trouble" { "It failed: " (said(why)) ". What it spent until then is spent." },
            ReportState::Begun => p { "It has no report: it runs, or the dashboard ended before it did." },
        }
        @if config && !matches!(entry.kept, ReportState::Report(_)) {
            p { a href=(format!("{path}/{}", Piece::Config.file())) download { "Configuration used" } }
        }
        p { a href="/audits" { "All audits" } }
    }
}
