//! Renders every table of the report for a terminal.

use comfy_table::{ColumnConstraint, Table, Width};
use vfl_present::{figure, four, printable, shortened, significant};

use super::added_risk;
use super::attributes::{self, AttributeLine};
use super::document::{Audit, Report};
use super::facts::{self, Row, RowKind, Rows, SummaryLine};
use super::inference::{self, InferenceLine};
use super::level::Level;
use super::private_training::{self, PrivateLine};
use super::surface::TRAINING_DISCLOSURE;
use super::terminal::{Frame, Page, Paint};
use super::verdict::verdict;

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
        line(page.summary(report).to_string());
        if let Some(heading) = added_risk::heading(report) {
            line(String::new());
            line(page.paint(&heading, Paint::Bold));
            line(page.added(report).to_string());
            line(page.prose(added_risk::READING, 0));
        }
    }
    if !report.private_trainings.is_empty() {
        line(String::new());
        line(page.paint(private_training::HEADING, Paint::Bold));
        line(page.private(report).to_string());
        line(page.prose(private_training::READING, 0));
    }
    if !report.inferences.is_empty() {
        line(String::new());
        line(page.paint(inference::HEADING, Paint::Bold));
        line(page.inferences(report).to_string());
        line(page.prose(inference::READING, 0));
    }
    let metrics = if report.metrics.is_empty() { Vec::new() } else { facts::metrics(report) };
    for said in facts::scoring(report).into_iter().chain(metrics) {
        line(page.prose(&said, 0));
    }
    line(page.prose(facts::SCOPE, 0));
    line(page.prose(&format!("Training: {TRAINING_DISCLOSURE}"), 0));
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
        line(self.attacks(&rows).to_string());
        if !rows.parties.is_empty() {
            line("MSE by passive party:".into());
            line(self.parties(&rows).to_string());
        }
        // The score mismatch is left to the page, the document and users who ask for metrics:
        // nearly every attack has it.
        if !report.metrics.is_empty() && !rows.metrics.is_empty() {
            line("By other metrics:".into());
            line(self.metrics(&rows).to_string());
        }
        let by_attribute = attributes::lines(audit);
        if !by_attribute.is_empty() {
            line(self.prose(attributes::READING, 0));
            line(self.attributes(&by_attribute).to_string());
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

    fn summary(&self, report: &Report) -> Table {
        let lines = facts::summary(report);
        let column = |of: &dyn Fn(&SummaryLine) -> Option<String>| -> Vec<String> {
            lines.iter().map(|line| of(line).unwrap_or_else(|| facts::NONE.into())).collect()
        };
        let mut figures = vec![(
            "unaware",
            column(&|l| l.unaware.as_ref().map(|best| figure(best.mse, best.sigma))),
        )];
        if lines.iter().any(|l| l.aware.is_some()) {
            figures.push((
                "aware",
                column(&|l| l.aware.as_ref().map(|best| figure(best.mse, best.sigma))),
            ));
        }
        figures.extend([
            (
                "to mean",
                column(&|l| {
                    l.strongest()
                        .and_then(|best| facts::ratio_to(best.mse, &l.audit.baselines.column_mean))
                }),
            ),
            ("accuracy", column(&|l| l.audit.utility.accuracy.map(four))),
            ("KL", column(&|l| l.audit.utility.mean_kl_nats.map(significant))),
        ]);
        if lines.iter().any(|l| l.audit.utility.bits.is_some()) {
            figures.push(("bits", column(&|l| l.audit.utility.bits.map(significant))));
        }
        let rows = lines.iter().map(|line| {
            let name = line
                .strongest()
                .map_or_else(|| facts::NONE.into(), |best| shortened(&best.name, MAX_NAME));
            (vec![shortened(&line.audit.policy.label(), MAX_LABEL), name], RowKind::Attack)
        });
        self.table(Frame::Full, &["defense", "strongest attack"], figures, rows.collect())
    }

    /// Returns the table of added risks, for adversaries with a control.
    fn added(&self, report: &Report) -> Table {
        let lines = added_risk::lines(report);
        let column = |of: fn(&added_risk::AddedLine) -> &str| {
            lines.iter().map(|line| of(line).to_owned()).collect()
        };
        let figures = vec![
            ("with scores", column(|l| &l.error)),
            ("without", column(|l| &l.control)),
            ("added risk", column(|l| &l.added)),
            ("95 %", column(|l| &l.interval)),
        ];
        let rows = lines.iter().map(|line| {
            (
                vec![shortened(&line.defense, MAX_LABEL), shortened(&line.attack, MAX_NAME)],
                RowKind::Attack,
            )
        });
        self.table(Frame::Full, &["defense", "strongest attack"], figures, rows.collect())
    }

    /// Returns the table of models trained with noise.
    fn private(&self, report: &Report) -> Table {
        let lines = private_training::lines(report);
        let column =
            |of: fn(&PrivateLine) -> &str| lines.iter().map(|line| of(line).to_owned()).collect();
        let figures = vec![
            ("accuracy", column(|l| &l.accuracy)),
            ("unaware", column(|l| &l.unaware)),
            ("with scores", column(|l| &l.with_scores)),
            ("without", column(|l| &l.control)),
            ("added risk", column(|l| &l.added)),
            ("95 %", column(|l| &l.interval)),
        ];
        let rows = lines
            .iter()
            .map(|line| (vec![line.noise.clone(), line.epsilon.clone()], RowKind::Attack));
        self.table(Frame::Full, &["noise", "ε"], figures, rows.collect())
    }

    /// Returns the table of other inferences.
    fn inferences(&self, report: &Report) -> Table {
        let lines = inference::lines(report);
        let column =
            |of: fn(&InferenceLine) -> &str| lines.iter().map(|line| of(line).to_owned()).collect();
        let figures = vec![
            ("share", column(|l| &l.value)),
            ("95 %", column(|l| &l.interval)),
            ("without", column(|l| &l.without)),
        ];
        let rows = lines.iter().map(|line| {
            let texts = [line.of, &line.against, &line.attack, &line.verdict];
            (texts.map(|text| shortened(text, MAX_LABEL)).to_vec(), RowKind::Attack)
        });
        self.table(Frame::Full, &["inferred", "from", "by", "comes to"], figures, rows.collect())
    }

    fn attacks(&self, rows: &Rows) -> Table {
        let columns = vec![
            ("MSE per feature", rows.column(|r| &r.mse)),
            ("ratio to ½", rows.column(|r| &r.vs_half)),
            ("ratio to mean", rows.column(|r| &r.vs_mean)),
        ];
        let texts =
            |row: &Row| (vec![shortened(&row.name, MAX_NAME), printable(&row.how)], row.kind);
        let mut table = self.table(
            Frame::Full,
            &["attack", "equations"],
            columns,
            rows.rows.iter().map(texts).collect(),
        );
        if let Some(how) = table.column_mut(1) {
            how.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(26)));
        }
        table
    }

    fn parties(&self, rows: &Rows) -> Table {
        let names: Vec<String> =
            rows.parties.iter().map(|party| shortened(party, MAX_NAME)).collect();
        let columns = names.iter().enumerate().map(|(i, name)| {
            (name.as_str(), rows.column(|r| r.by_party.get(i).map_or(facts::NONE, String::as_str)))
        });
        let texts = |row: &Row| (vec![shortened(&row.name, MAX_NAME)], row.kind);
        self.table(
            Frame::Full,
            &["attack"],
            columns.collect(),
            rows.rows.iter().map(texts).collect(),
        )
    }

    /// Returns the table of attributes, each with the attack that finds most of it.
    fn attributes(&self, lines: &[AttributeLine]) -> Table {
        let texts = lines.iter().map(|line| {
            let texts = [&line.attribute, &line.attack].into_iter().chain(&line.cells);
            (texts.map(|text| shortened(text, MAX_LABEL)).collect(), RowKind::Attack)
        });
        let heads: Vec<&str> =
            ["attribute", "attack"].into_iter().chain(attributes::HEADS).collect();
        self.table(Frame::Full, &heads, Vec::new(), texts.collect())
    }

    /// Returns the table of metrics beside the error, for attacks that have figures.
    fn metrics(&self, rows: &Rows) -> Table {
        let titles: Vec<String> =
            rows.metrics.iter().map(|title| shortened(title, MAX_NAME)).collect();
        let shown: Vec<usize> = (0..rows.rows.len())
            .filter(|&at| rows.rows.get(at).is_some_and(|r| r.kind != RowKind::NotRun))
            .collect();
        let columns = titles.iter().enumerate().map(|(i, title)| {
            let column = rows.metric(i);
            (title.as_str(), shown.iter().filter_map(|&at| column.get(at).cloned()).collect())
        });
        let texts = shown.iter().filter_map(|&at| rows.rows.get(at));
        let texts = texts.map(|row| (vec![shortened(&row.name, MAX_NAME)], row.kind));
        self.table(Frame::Full, &["attack"], columns.collect(), texts.collect())
    }
}
