//! The page of the running audit.

use maud::{Markup, html};
use vfl_present::said;

use crate::dashboard::format::{segment, when};
use crate::dashboard::guard::Secret;
use crate::dashboard::runner::{AuditProgress, Stage};
use crate::dashboard::shell::secret;

/// Renders the page. `still` is true if it does not reload.
pub(in crate::dashboard) fn watch(watched: &AuditProgress, still: bool) -> Markup {
    let path = format!("/audit/{}", segment(&watched.name));
    html! {
        p class="lead" { (said(&watched.name)) ", begun " (when(watched.began)) }
        div class="card" role="status" {
            @match &watched.stage {
                Stage::Running { done, total, words } => {
                    p { strong { "Step " (done) " of " (total) } }
                    progress max=(total.max(&1)) value=(done) aria-label="Steps that are done" { (done) " of " (total) }
                    p { (said(words)) }
                }
                Stage::Stopping => p { strong { "Stopping." } " The step under way ends and the sessions are closed." },
                Stage::Done => {
                    p { span class="badge good" { "done" } " The report is written." }
                    p class="ways" { a class="button" href=(path) autofocus { "See what came out" } }
                }
                Stage::Stopped => p { span class="badge flat" { "stopped" } " It has no report. What it spent until then is spent." },
                Stage::Failed(why) => {
                    p { span class="badge bad" { "failed" } " " (said(why)) }
                    p { "What it spent until then is spent. Mend the cause and start another one." }
                }
            }
        }
        @if let Stage::Running { .. } = watched.stage {
            // The focus returns here whenever the page reloads.
            p class="ways" {
                a class="button" href="/audits/stop" autofocus { "Stop this audit" }
                @if still { " " a href="/audits/running" { "Go on watching" } }
                @else { " " a href="/audits/running?still" { "Hold this page still" } }
            }
            p class="small muted" { @if still { "This page stands still." } @else { "This page loads itself again every few seconds." } }
        }
        p { a href="/audits" { "All audits" } @if watched.stage.ended() { " " a href="/audits/new" { "Start another one" } } }
    }
}

/// Renders the page that asks for confirmation to stop.
pub(in crate::dashboard) fn stop(watched: &AuditProgress, form: &Secret) -> Markup {
    html! {
        p class="lead" { (said(&watched.name)) }
        form class="card" method="post" action="/audits/stop" {
            (secret(form))
            p { "Its sessions are closed and it gets no report. What it has spent of the records' budget stays spent." }
            p class="ways" { button class="button" type="submit" { "Stop it" } " " a href="/audits/running" { "Let it run" } }
        }
    }
}

/// Renders the page if no audit ran.
pub(in crate::dashboard) fn nothing() -> Markup {
    html! {
        p { "No audit has run since the dashboard was started." }
        p class="ways" { a class="button" href="/audits/new" { "Start an audit" } " " a href="/audits" { "All audits" } }
    }
}
