//! Formats times, counts and names for the pages.

use std::time::SystemTime;

use maud::{Markup, html};
use time::OffsetDateTime;
use vfl_present::said;
use vfl_protocol::ledger::{Budgets, Summary};
use vfl_protocol::{Refusal, RefusalKind};

use crate::report::scroll;

/// Formats a time as `2026-01-31 12:00:00 UTC`.
pub(super) fn when(at: SystemTime) -> String {
    written(OffsetDateTime::from(at))
}

/// Formats Unix seconds likewise; `None`, since retention or erasure removed the time, as
/// "forgotten".
pub(super) fn when_unix(at: Option<i64>) -> String {
    let Some(at) = at else { return "forgotten".into() };
    OffsetDateTime::from_unix_timestamp(at).map_or_else(|_| at.to_string(), written)
}

fn written(t: OffsetDateTime) -> String {
    let (year, month, day) = (t.year(), u8::from(t.month()), t.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", t.hour(), t.minute(), t.second())
}

/// Formats a count: `1 record`, `2 records`.
pub(super) fn counted(n: usize, what: &str) -> String {
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        _ if what.ends_with('s') => format!("{n} {what}es"),
        _ => format!("{n} {what}s"),
    }
}

/// Escapes all but plain characters in a segment of a path.
pub(super) fn segment(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// Explains why a party does not answer, and what to do.
pub(super) fn why(refusal: &Refusal) -> String {
    let advice = match refusal.kind {
        RefusalKind::Unavailable | RefusalKind::DeadlineExceeded => {
            "Is it started, is the address right, and does the network let this machine through?"
        }
        RefusalKind::Unauthenticated | RefusalKind::PermissionDenied => {
            "Its operator must accept this auditor's certificate, and allow what was asked."
        }
        RefusalKind::FailedPrecondition | RefusalKind::NotFound => "",
        _ => "The log of the party says more.",
    };
    format!("{}. {advice}", refusal.message).trim_end().to_owned()
}

fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "no limit".into(), |n| n.to_string())
}

/// Renders the budgets of each active party as a list.
pub(super) fn budgets(budgets: &Budgets) -> Markup {
    html! {
        dl {
            dt { "Records in all" } dd { (limit(budgets.records)) }
            dt { "Queries of a record" } dd { (limit(budgets.queries_per_record)) }
            dt { "Models of a record" } dd { (limit(budgets.models_per_record)) }
            dt { "Bits of a record" } dd { (budgets.bits_per_record.map_or("no limit".into(), |bits| bits.to_string())) }
            dt { "Rows a minute" } dd { (limit(budgets.rows_per_minute)) }
        }
    }
}

/// Renders the spending of each active party.
pub(super) fn spent(summary: &Summary) -> Markup {
    html! {
        @if summary.parties.is_empty() { p { "No active party has asked for a score yet." } }
        @for party in &summary.parties {
            h3 { "Spent by " (said(&party.party)) }
            dl {
                dt { "Records asked for" } dd { (party.records) ", " (limit(party.records_left)) " left" }
                dt { "Rows asked for" } dd { (party.queries) ", " (party.refused) " of them refused" }
                dt { "First and last" } dd { (when_unix(party.first_at)) " to " (when_unix(party.last_at)) }
            }
            @if !party.uses.is_empty() {
                (scroll(&format!("Rows of {} by model and policy", party.party), &html! {
                    table {
                        caption { "Rows by model and policy" }
                        thead { tr {
                            @for title in ["model", "policy", "bits", "rows", "refused", "last"] { th scope="col" { (title) } }
                        } }
                        tbody { @for line in &party.uses { tr {
                            th scope="row" class="hash" { (said(&line.model)) }
                            td { (said(&line.policy)) }
                            td class="n" { (line.bits.map_or("no bound".into(), |bits| format!("{bits:.2}"))) }
                            td class="n" { (line.queries) }
                            td class="n" { (line.refused) }
                            td class="n" { (when_unix(Some(line.last_at))) }
                        } } }
                    }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_counts_and_paths() {
        assert_eq!(when_unix(Some(951_782_400)), "2000-02-29 00:00:00 UTC");
        assert_eq!(when_unix(None), "forgotten");
        let said =
            [counted(1, "record"), counted(2, "record"), counted(0, "class"), counted(2, "party")];
        assert_eq!(said, ["1 record", "2 records", "0 classes", "2 parties"]);
        assert_eq!(segment("audit-1.b_~"), "audit-1.b_~");
        assert_eq!(segment("<b>/ü"), "%3Cb%3E%2F%C3%BC");
    }
}
