//! The page of the coordinator's ledger, for its operator.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Hash, Name, Number, Text};
use vfl_present::{Table, said};
use vfl_protocol::ledger::{RecordUse, Summary};

use crate::dashboard::format::{budgets, spent, when_unix};
use crate::dashboard::guard::Secret;
use crate::dashboard::shell::secret;
use crate::report::scroll;

/// The result of a search for a record.
pub(in crate::dashboard) struct RecordSearch<'a> {
    pub(in crate::dashboard) record: &'a str,
    pub(in crate::dashboard) uses: &'a [RecordUse],
}

/// Renders the page.
pub(in crate::dashboard) fn ledger(
    summary: &Summary,
    searched: Option<&RecordSearch<'_>>,
    form: &Secret,
) -> Markup {
    html! {
        section aria-labelledby="record" {
            h2 id="record" { "A record" }
            form class="card" method="post" action="/ledger" {
                (secret(form))
                div class="field" {
                    label for="id" { "Record id" }
                    input id="id" name="record" value=(searched.map_or("", |searched| searched.record)) autocomplete="off" spellcheck="false"
                        maxlength="1024" required aria-describedby="id-help";
                    p class="small muted" id="id-help" { "As the active party names it. It is not kept: not in the address, not in a log." }
                }
                button type="submit" { "Show its history" }
            }
            @if let Some(searched) = searched { (found(searched)) }
        }
        section aria-labelledby="totals" {
            h2 id="totals" { "Totals" }
            div class="card" {
                (budgets(&summary.budgets))
                (spent(summary))
            }
        }
        @if !summary.events.is_empty() {
            section aria-labelledby="events" {
                h2 id="events" { "What operators did" }
                div class="card" { dl { @for event in &summary.events { dt { (when_unix(Some(event.at))) } dd { (said(&event.what)) } } } }
            }
        }
    }
}

fn uses(uses: &[RecordUse]) -> Table {
    let uses = || uses.iter();
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    Table::new()
        .column("active party", Name, uses().map(|line| &line.party))
        .column("model", Hash, uses().map(|line| &line.model))
        .column("policy", Text, uses().map(|line| &line.policy))
        .column("rows granted", Number, uses().map(|line| line.queries.to_string()))
        .column("first", Number, uses().map(|line| when_unix(line.first_at)))
        .column("last", Number, uses().map(|line| when_unix(line.last_at)))
        .column("share bound", Text, uses().map(|line| yes(line.bound)))
        .column("erased", Text, uses().map(|line| yes(line.erased)))
}

fn found(searched: &RecordSearch<'_>) -> Markup {
    html! {
        div class="card" role="status" {
            h3 { "Record " (said(searched.record)) }
            @if searched.uses.is_empty() {
                p { "The ledger holds no entry under this id: nobody asked for it in the live service." }
            } @else {
                (scroll("Uses of the record", &uses(searched.uses).html()))
            }
        }
    }
}

/// Renders the page if no ledger was named.
pub(in crate::dashboard) fn no_ledger() -> Markup {
    html! {
        p { "This dashboard was not given a ledger." }
        p {
            "The coordinator's operator starts it with " code { "--ledger sqlite:PATH" } " or " code { "--ledger postgres://…" }
            ", or with CLOISON_LEDGER. What an auditor may know of it is on the page " a href="/" { "Service" } "."
        }
    }
}
