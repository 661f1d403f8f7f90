//! Renders every table of the report for a terminal.

use vfl_present::ColumnKind::{Figure, Name, Phrase, Text};
use vfl_present::{Frame, RowKind, Table, figure, four, shortened, significant};

use super::document::{Audit, Report};
use super::facts::{self, BestAttack, NONE, Row, Rows, SummaryLine};
use super::level::Level;
use super::terminal::{Page, Paint};
use super::verdict::verdict;
use super::{added_risk, attributes, inference, private_training};

/// The longest name in a column of names, in terminal columns.
const MAX_NAME: usize = 28;
/// The longest defense with its parameters, in terminal columns.
const MAX_LABEL: usize = 40;

/// Renders every table for a terminal of `width` columns (at least 60 are used): for each defense
/// its cost, the attacks with their errors and both baselines, and a verdict in words. ANSI colours
/// only if `colour`; set it if the output is a terminal that wants them. Ends with a newline.
///
/// It renders the document without checking it; [`Report::check`] does that.
#[must_use]
pub fn render_table(report: &Report, width: usize, colour: bool) -> String {
    let page = Page::new(width, colour);
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };

    line(page.paint(&page.prose(&report.title, 0), Paint::Bold));
    for (label, value) in facts::about(report) {
        line(page.prose(&format!("{label}: {value}"), 2));
    }
    let mut adversary = None;
    for audit in &report.audits {
        line(String::new());
        // Printed once for all consecutive defenses that it attacks.
        if adversary != Some(&audit.threat_model) {
            line(
                page.prose(
                    &format!("The adversary {}.", audit.threat_model.phrases().join(", ")),
                    2,
                ),
            );
            line(String::new());
            adversary = Some(&audit.threat_model);
        }
        page.audit(report, audit, &mut line);
    }
    line(String::new());
    if report.audits.is_empty() {
        line("No defense was audited.".into());
    } else {
        line(page.paint(
            "Summary: the strongest attack on each defense, and its error by what the adversary knows",
            Paint::Bold,
        ));
        line(page.table(Frame::Full, &summary(report)));
        if let Some(heading) = added_risk::heading(report) {
            line(String::new());
            line(page.paint(&heading, Paint::Bold));
            line(page.table(Frame::Full, &added(report)));
            line(page.prose(added_risk::READING, 0));
        }
    }
    if !report.private_trainings.is_empty() {
        line(String::new());
        line(page.paint(private_training::HEADING, Paint::Bold));
        line(page.table(Frame::Full, &private_training::table(report, "with scores")));
        line(page.prose(private_training::READING, 0));
    }
    if !report.inferences.is_empty() {
        line(String::new());
        line(page.paint(inference::HEADING, Paint::Bold));
        line(page.table(Frame::Full, &inference::table(report).shorten(MAX_LABEL)));
        line(page.prose(inference::READING, 0));
    }
    let metrics = if report.metrics.is_empty() { Vec::new() } else { facts::metrics(report) };
    for said in facts::scoring(report).into_iter().chain(metrics) {
        line(page.prose(&said, 0));
    }
    line(page.prose(facts::SCOPE, 0));
    let disclosure = report.deployment.training.disclosure();
    line(page.prose(&format!("Training: {disclosure}"), 0));
    for note in &report.notes {
        line(page.prose(&format!("Note: {note}"), 2));
    }
    line(page.prose(
        &format!(
            "Seed {}, configuration sha256 {}.",
            report.seed,
            shortened(&report.generated.config_sha256, 13)
        ),
        0,
    ));
    out
}

impl Page {
    fn audit(&self, report: &Report, audit: &Audit, line: &mut impl FnMut(String)) {
        let rows = Rows::of(report, audit);
        line(self.paint(
            &self.prose(&format!("Defense: {}{}", audit.policy.label(), facts::against(audit)), 2),
            Paint::Bold,
        ));
        let utility: Vec<String> = facts::utility(&audit.utility)
            .into_iter()
            .map(|(label, value)| format!("{label} {value}"))
            .collect();
        line(self.prose(
            &format!("{}; {} scored", utility.join(", "), facts::counted(audit.records, "record")),
            2,
        ));
        line(self.table(Frame::Full, &attacks(&rows)));
        if !rows.parties.is_empty() {
            line("MSE by passive party:".into());
            line(self.table(Frame::Full, &parties(&rows)));
        }
        // The score mismatch is left to the page, the document and users who ask for metrics:
        // nearly every attack has it.
        if !report.metrics.is_empty() && !rows.metrics.is_empty() {
            line("By other metrics:".into());
            line(self.table(Frame::Full, &metrics(&rows)));
        }
        let by_attribute = attributes::table(audit);
        if !by_attribute.is_empty() {
            line(self.prose(attributes::READING, 0));
            line(self.table(Frame::Full, &by_attribute.shorten(MAX_LABEL)));
        }
        for (names, reason) in &rows.not_scored {
            line(self.prose(&format!("{names}: {reason}"), 2));
        }
        for (name, reason) in &rows.not_run {
            line(self.prose(&format!("{name} did not run: {reason}"), 2));
        }
        for remark in facts::limits(audit).iter().chain(&audit.remarks) {
            line(self.prose(remark, 2));
        }
        let verdict = verdict(audit);
        let text = self.prose(&format!("=> {}.", verdict.text), 3);
        line(match verdict.level {
            Level::Exact | Level::SomeExact => self.paint(&text, Paint::Red),
            Level::Partial => self.paint(&text, Paint::Yellow),
            // Nothing in green: that no listed attack got further does not make a release safe.
            Level::ColumnMean
            | Level::Half
            | Level::NoMore
            | Level::Undecided
            | Level::Unresolved
            | Level::Unmeasured => text,
        });
    }
}

/// Returns the summary of the defenses.
fn summary(report: &Report) -> Table {
    let lines = facts::summary(report);
    let aware = lines.iter().any(|line| line.aware.is_some());
    let bits = lines.iter().any(|line| line.audit.utility.bits.is_some());
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    let error =
        |best: &Option<BestAttack>| or_none(best.as_ref().map(|best| figure(best.mse, best.sigma)));
    let name = |line: &SummaryLine<'_>| {
        line.strongest().map_or_else(|| NONE.into(), |best| shortened(&best.name, MAX_NAME))
    };
    let defense = |line: &SummaryLine<'_>| shortened(&line.audit.policy.label(), MAX_LABEL);
    let to_mean = |line: &SummaryLine<'_>| {
        let best = line.strongest()?;
        facts::ratio_to(best.mse, &line.audit.baselines.column_mean)
    };
    let costs = || lines.iter().map(|line| &line.audit.utility);
    Table::new()
        .column("defense", Name, lines.iter().map(defense))
        .column("strongest attack", Text, lines.iter().map(name))
        .column("unaware", Figure, lines.iter().map(|line| error(&line.unaware)))
        .column_if(aware, "aware", Figure, lines.iter().map(|line| error(&line.aware)))
        .column("to mean", Figure, lines.iter().map(|line| or_none(to_mean(line))))
        .column("accuracy", Figure, costs().map(|cost| or_none(cost.accuracy.map(four))))
        .column("KL", Figure, costs().map(|cost| or_none(cost.mean_kl_nats.map(significant))))
        .column_if(bits, "bits", Figure, costs().map(|cost| or_none(cost.bits.map(significant))))
}

/// Returns the table of added risks, for adversaries with a control.
fn added(report: &Report) -> Table {
    let lines = added_risk::lines(report);
    Table::new()
        .column("defense", Name, lines.iter().map(|line| shortened(&line.defense, MAX_LABEL)))
        .column(
            "strongest attack",
            Text,
            lines.iter().map(|line| shortened(&line.attack, MAX_NAME)),
        )
        .column("with scores", Figure, lines.iter().map(|line| &line.error))
        .column("without", Figure, lines.iter().map(|line| &line.control))
        .column("added risk", Figure, lines.iter().map(|line| &line.added))
        .column("95 %", Figure, lines.iter().map(|line| &line.interval))
}

/// Returns a table of attacks, with their names alone.
fn attack_names<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Table {
    Table::new()
        .column("attack", Name, rows.clone().map(|row| shortened(&row.name, MAX_NAME)))
        .kinds(rows.map(|row| row.kind))
}

fn attacks(rows: &Rows) -> Table {
    attack_names(rows.rows.iter())
        .column("equations", Phrase, rows.rows.iter().map(|row| &row.how))
        .column("MSE per feature", Figure, rows.rows.iter().map(|row| &row.mse))
        .column("ratio to ½", Figure, rows.rows.iter().map(|row| &row.vs_half))
        .column("ratio to mean", Figure, rows.rows.iter().map(|row| &row.vs_mean))
}

fn parties(rows: &Rows) -> Table {
    rows.parties.iter().enumerate().fold(attack_names(rows.rows.iter()), |table, (at, party)| {
        let errors = rows.rows.iter().map(|row| row.party(at));
        table.column(shortened(party, MAX_NAME), Figure, errors)
    })
}

/// Returns the table of metrics beside the error, for attacks that have figures.
fn metrics(rows: &Rows) -> Table {
    let shown = || rows.rows.iter().filter(|row| row.kind != RowKind::NotRun);
    rows.metrics.iter().enumerate().fold(attack_names(shown()), |table, (at, title)| {
        table.column(shortened(title, MAX_NAME), Figure, shown().map(|row| row.metric(at)))
    })
}
