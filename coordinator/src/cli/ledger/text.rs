//! The texts of `coordinator ledger`.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use time::OffsetDateTime;

use crate::ledger::{ChainReport, FixedLink, RecordUse, Summary};

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// Returns the cell for the bits of one answer.
fn bits(bits: Option<f64>) -> Cell {
    let text = bits.map_or_else(|| "no bound".into(), |bits| format!("{bits:.2}"));
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn number(value: u64) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// Formats a time as `2026-01-31 12:00:00Z`; `forgotten` where retention or erasure removed it.
fn when(at: Option<i64>) -> String {
    let Some(at) = at else { return "forgotten".into() };
    let Ok(t) = OffsetDateTime::from_unix_timestamp(at) else { return at.to_string() };
    let (year, month, day) = (t.year(), u8::from(t.month()), t.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", t.hour(), t.minute(), t.second())
}

fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |n| n.to_string())
}

pub(super) fn summary_text(summary: &Summary) -> String {
    let budgets = &summary.budgets;
    let mut text = format!(
        "budgets per active party: records {}, queries per record {}, models per record {}, bits per record {}, rows per minute {}\n",
        limit(budgets.records),
        limit(budgets.queries_per_record),
        limit(budgets.models_per_record),
        budgets.bits_per_record.map_or_else(|| "unlimited".into(), |bits| bits.to_string()),
        limit(budgets.rows_per_minute)
    );
    for event in &summary.events {
        text += &format!("{}: {}\n", when(Some(event.at)), event.what);
    }
    if summary.parties.is_empty() {
        return text + "nothing was asked yet\n";
    }
    for party in &summary.parties {
        text += &format!(
            "\n{}: {} records asked for, {} left; {} queries, {} of them refused\n",
            party.party,
            party.records,
            limit(party.records_left),
            party.queries,
            party.refused
        );
        let mut rows = table(&[
            "model",
            "passive parameters",
            "policy",
            "bits",
            "queries",
            "refused",
            "first",
            "last",
        ]);
        for u in &party.uses {
            let names = [Cell::new(&u.model), Cell::new(&u.passive), Cell::new(&u.policy)];
            let [model, passive, policy] = names;
            let times = [Cell::new(when(Some(u.first_at))), Cell::new(when(Some(u.last_at)))];
            let [first, last] = times;
            rows.add_row([
                model,
                passive,
                policy,
                bits(u.bits),
                number(u.queries),
                number(u.refused),
                first,
                last,
            ]);
        }
        text += &format!("{rows}\n");
    }
    text
}

pub(super) fn verified_text(of: &ChainReport) -> String {
    let mut text = format!(
        "ledger {}\nlinks {} to {} of the chain of releases, {} to {}: {} rows asked, {} of them refused\n",
        of.ledger,
        of.first,
        of.last,
        when(Some(of.from)),
        when(Some(of.to)),
        of.queries,
        of.refused
    );
    text += &match &of.fixed {
        Some(FixedLink { link, hash }) => {
            format!(
                "note down elsewhere: link {link} has hash {hash}; it is the last link that is never written anew\n"
            )
        }
        None => "no link to note down: the last one may still be written anew, and there is none before it\n".into(),
    };
    for signed in &of.signed {
        let word = if signed.trusted { "trusted" } else { "not known here" };
        text += &format!("{} links signed by {} ({word})\n", signed.links, signed.key);
    }
    for link in &of.unsigned {
        text += &format!(
            "link {}, {}, made by a command, not signed: {}\n",
            link.link,
            when(Some(link.at)),
            link.what
        );
    }
    if !of.head_known {
        text += "not checked against a coordinator's state directory (--config): a chain that was cut short would not be noticed\n";
    }
    if of.findings.is_empty() {
        return text + "every link holds, and so do the sums of the ledger\n";
    }
    for finding in &of.findings {
        text += &format!("DOES NOT HOLD: {finding}\n");
    }
    text
}

pub(super) fn uses_text(uses: &[RecordUse]) -> String {
    if uses.is_empty() {
        return "the ledger holds no entry under this id\n".into();
    }
    let mut rows = table(&[
        "party",
        "model",
        "policy",
        "bits",
        "queries",
        "first",
        "last",
        "share bound",
        "erased",
    ]);
    let yes = |yes: bool| Cell::new(if yes { "yes" } else { "no" });
    for u in uses {
        let (first, last) = (Cell::new(when(u.first_at)), Cell::new(when(u.last_at)));
        let (party, model, policy) =
            (Cell::new(&u.party), Cell::new(&u.model), Cell::new(&u.policy));
        rows.add_row([
            party,
            model,
            policy,
            bits(u.bits),
            number(u.queries),
            first,
            last,
            yes(u.bound),
            yes(u.erased),
        ]);
    }
    let mut text = format!("{rows}\n");
    for (party, bits) in told(uses) {
        text += &match bits {
            Some(bits) => format!(
                "by what this ledger holds of the live service, {party} was told at most {bits:.2} bits of it\n"
            ),
            None => format!("no finite bound is known of what {party} was told of it\n"),
        };
    }
    text
}

/// Sums the bits that each party was told of a record. Rows of the same passive parameters and
/// policy tell the same, so they count once.
fn told(uses: &[RecordUse]) -> BTreeMap<&str, Option<f64>> {
    let answers: BTreeMap<_, _> =
        uses.iter().map(|u| ((&*u.party, &*u.passive, &*u.policy), u.bits)).collect();
    let mut told = BTreeMap::new();
    for ((party, ..), bits) in answers {
        let sum: &mut Option<f64> = told.entry(party).or_insert(Some(0.0));
        *sum = sum.zip(bits).map(|(sum, bits)| sum + bits);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_and_forgotten_ones_say_so() {
        assert_eq!(when(Some(951_782_400)), "2000-02-29 00:00:00Z");
        assert_eq!(when(None), "forgotten");
    }
}
