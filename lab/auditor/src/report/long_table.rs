//! Renders all figures of a report as one table in long format for other programs, one figure a
//! row.

use vfl_core::metrics::{ControlledFigure, ErrorReduction};
use vfl_present::printable;

use super::ReportError;
use super::attack_result::{AddedRisk, AttributeResult, Outcome};
use super::document::{Audit, Party, Report};
use super::errors::Errors;
use super::facts::adversary;
use super::surface::SurfaceKind;
use super::worst_attribute::worst;

const COLUMNS: [&str; 13] = [
    "surface",
    "defense",
    "knowledge",
    "attack",
    "metric",
    "party",
    "feature",
    "value",
    "sigma",
    "control",
    "added_risk",
    "low",
    "high",
];

/// Renders the report's figures as CSV (RFC 4180, UTF-8), one a row. An unknown value is empty.
/// Attacks without figures have no row. The columns are:
///
/// - `surface`: the release surface.
/// - `defense`: the defense with its parameters.
/// - `knowledge`: the adversary's knowledge (`unaware`, `aware`, `informed`, `informed by
///   moments`).
/// - `attack`: the attack, or `guessing ½` and `guessing the column mean`; empty for the cost of
///   the defense.
/// - `metric`: `mse`, the metrics of the report, `accuracy`, `accuracy_change`, `mean_kl_nats`,
///   `total_variation`, `bits`, `arg_max_kept` or `mean_change`, or one of those below.
/// - `party`, `feature`: the passive party and feature; empty for all of them together.
/// - `value`: the figure.
/// - `sigma`: the standard deviation of its noise.
/// - `control`, `added_risk`, `low`, `high`: the control's error, the added risk, and its 95 %
///   interval, for the error over all features of an attack with a control.
///
/// The metric `added_risk` is the verdict's: one row for the worst attribute, which `feature`
/// names, and one for all features together, of the strongest attack. Both are chosen and evaluated
/// on different halves of the records.
///
/// Figures by attribute have the attribute in `feature` and the control's figure in `control`:
/// `removed` and `removed_ranks` with their intervals, `event_named`, `event_having`,
/// `event_right`, `auc`, `top_category`, `within_tolerance`, `rebuilt_exactly`,
/// `error_in_variances`, `error_percentile_1` and `_5`; `certain` counts records.
///
/// Inferences of membership, labels and properties have their attack, a metric of their own, the
/// figure without the release as the control, and the interval.
///
/// A text that a spreadsheet would take for a formula is prefixed with an apostrophe.
///
/// # Errors
/// [`ReportError::Csv`] if it cannot be written, which does not happen in memory.
pub fn render_csv(report: &Report) -> Result<String, ReportError> {
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let failed = |e: &dyn std::fmt::Display| ReportError::Csv { reason: e.to_string() };
    table.write_record(COLUMNS).map_err(|e| failed(&e))?;
    for audit in &report.audits {
        for row in rows(report, audit) {
            table.write_record(row.cells()).map_err(|e| failed(&e))?;
        }
    }
    for training in &report.private_trainings {
        for row in training.audits.iter().flat_map(|audit| rows(report, audit)) {
            let defense = format!("{}, trained with noise {}", row.defense, training.privacy.noise);
            table.write_record(Row { defense, ..row }.cells()).map_err(|e| failed(&e))?;
        }
    }
    for row in &report.inferences {
        let mut cells = Row {
            defense: row.against.clone(),
            attack: &row.attack,
            metric: row.of.name(),
            value: Some(row.value),
            ..Row::default()
        }
        .cells();
        // The control's figure and the interval have their columns; no error belongs to them.
        for (cell, figure) in [(9, row.without), (11, row.low), (12, row.high)] {
            cells[cell] = figure.to_string();
        }
        table.write_record(cells).map_err(|e| failed(&e))?;
    }
    let bytes = table.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

/// The row of one figure.
#[derive(Clone, Default)]
struct Row<'a> {
    surface: &'static str,
    defense: String,
    knowledge: &'static str,
    attack: &'a str,
    metric: &'a str,
    party: &'a str,
    feature: String,
    value: Option<f64>,
    sigma: Option<f64>,
    risk: Option<AddedRisk>,
    /// The control and the interval if there is no `risk`.
    ends: [Option<f64>; 3],
}

impl Row<'_> {
    fn cells(&self) -> [String; 13] {
        let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
        let risk = |of: fn(&AddedRisk) -> Option<f64>| number(self.risk.as_ref().and_then(of));
        [
            self.surface.to_owned(),
            text(&self.defense),
            self.knowledge.to_owned(),
            text(self.attack),
            text(self.metric),
            text(self.party),
            text(&self.feature),
            number(self.value),
            number(self.sigma),
            risk(|r| Some(r.control_mse)) + &number(self.ends[0]),
            risk(|r| r.value),
            risk(|r| r.low) + &number(self.ends[1]),
            risk(|r| r.high) + &number(self.ends[2]),
        ]
    }
}

/// Sanitises text of a document, which other parties may have written.
fn text(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// Returns the rows of one audit: the cost of the defense, the baselines, and the attacks.
fn rows<'a>(report: &'a Report, audit: &'a Audit) -> Vec<Row<'a>> {
    let surface = match audit.threat_model.sees_scores() {
        true => audit.policy.surface(),
        false => SurfaceKind::Nothing,
    };
    let of_audit = Row {
        surface: surface.label(),
        defense: audit.policy.label(),
        knowledge: adversary(audit),
        ..Row::default()
    };
    let utility = &audit.utility;
    let costs = [
        ("accuracy", utility.accuracy),
        ("accuracy_change", utility.accuracy_change),
        ("mean_kl_nats", utility.mean_kl_nats),
        ("total_variation", utility.total_variation),
        ("bits", utility.bits),
        ("arg_max_kept", utility.arg_max_kept),
        ("mean_change", utility.mean_change),
    ];
    let known = costs.into_iter().filter(|(_, value)| value.is_some());
    let mut rows: Vec<Row<'a>> =
        known.map(|(metric, value)| Row { metric, value, ..of_audit.clone() }).collect();
    let targets = report.targets(&audit.threat_model);
    let guesses = [
        ("guessing ½", &audit.baselines.half),
        ("guessing the column mean", &audit.baselines.column_mean),
    ];
    for (attack, errors) in guesses {
        rows.extend(figures(Row { attack, ..of_audit.clone() }, errors, &targets));
    }
    for attack in &audit.attacks {
        let Outcome::Ran { errors, .. } = &attack.outcome else { continue };
        let of = Row { attack: &attack.name, risk: attack.added_risk.clone(), ..of_audit.clone() };
        rows.extend(figures(of.clone(), errors, &targets));
        let scores = |value| Row { metric: "score_mismatch", value: Some(value), risk: None, ..of };
        rows.extend(attack.score_mismatch.map(scores));
        let plain = Row { attack: &attack.name, ..of_audit.clone() };
        rows.extend(attack.certain.map(|n| Row {
            metric: "certain",
            value: Some(n as f64),
            ..plain.clone()
        }));
        rows.extend(attack.attributes.iter().flat_map(|of| by_attribute(&plain, of)));
    }
    if let Some(worst) = worst(&[audit], None) {
        let (attack, party, feature) = (worst.attack, worst.party, worst.figures.attribute.clone());
        let risk = Some(worst.risk);
        let value = risk.as_ref().and_then(|risk| risk.value);
        rows.push(Row {
            attack,
            party,
            feature,
            metric: "added_risk",
            value,
            risk,
            ..of_audit.clone()
        });
    }
    if let Some((attack, _, risk)) = audit.added_risk() {
        rows.push(Row {
            attack,
            metric: "added_risk",
            value: risk.value,
            risk: Some(risk),
            ..of_audit
        });
    }
    rows
}

/// Returns the rows of one attribute: the attack's figure as the value, the control's in its
/// column, and the interval of the removed share.
fn by_attribute<'a>(plain: &Row<'a>, of: &'a AttributeResult) -> Vec<Row<'a>> {
    let AttributeResult { party, figures } = of;
    let row = |metric, value| Row {
        metric,
        party,
        feature: figures.attribute.clone(),
        value,
        ..plain.clone()
    };
    let removed = [("removed", figures.removed), ("removed_ranks", figures.removed_ranks)];
    let removed = removed.into_iter().filter_map(|(metric, removed)| {
        let ErrorReduction { value, low, high, .. } = removed?;
        Some(Row { ends: [None, low, high], ..row(metric, value) })
    });
    let event = figures.event.as_ref();
    let counts =
        [("event_named", event.map(|e| e.named)), ("event_having", event.map(|e| e.having))];
    let counts =
        counts.into_iter().filter_map(|(metric, count)| Some(row(metric, Some(count? as f64))));
    let both = [
        ("error_in_variances", figures.error),
        ("event_right", event.map(|e| ControlledFigure { attack: e.attack, control: e.control })),
        ("auc", figures.auc),
        ("top_category", figures.top_category),
        ("within_tolerance", figures.within.map(|within| within.share)),
        ("rebuilt_exactly", figures.exact),
        ("error_percentile_1", figures.percentile_1),
        ("error_percentile_5", figures.percentile_5),
    ];
    let both = both.into_iter().filter_map(|(metric, figure)| {
        let ControlledFigure { attack, control } = figure?;
        Some(Row { ends: [Some(control), None, None], ..row(metric, Some(attack)) })
    });
    removed.chain(counts).chain(both).collect()
}

/// Returns the rows of one reconstruction: errors of all features, of each party and of each
/// feature, then the metrics.
fn figures<'a>(of: Row<'a>, errors: &'a Errors, targets: &[&'a Party]) -> Vec<Row<'a>> {
    let plain = Row { risk: None, ..of.clone() };
    let mut rows = vec![Row { metric: "mse", value: Some(errors.mse), sigma: errors.sigma, ..of }];
    rows.extend(errors.per_party.iter().map(|part| Row {
        metric: "mse",
        party: &part.party,
        value: Some(part.mse),
        sigma: part.sigma,
        ..plain.clone()
    }));
    let features = targets.iter().flat_map(|party| (0..party.features).map(|at| (*party, at)));
    for (i, ((party, at), mse)) in features.zip(&errors.per_feature).enumerate() {
        rows.push(Row {
            metric: "mse",
            party: &party.name,
            // Features without a name are numbered, as on the page.
            feature: party
                .feature_names
                .get(at)
                .cloned()
                .unwrap_or_else(|| format!("feature {}", i + 1)),
            value: Some(*mse),
            sigma: errors.per_feature_sigma.get(i).copied(),
            ..plain.clone()
        });
    }
    for figure in &errors.metrics {
        let metric = Row { metric: &figure.name, ..plain.clone() };
        rows.push(Row { value: figure.value, sigma: figure.sigma, ..metric.clone() });
        rows.extend(figure.per_party.iter().map(|part| Row {
            party: &part.party,
            value: Some(part.value),
            sigma: part.sigma,
            ..metric.clone()
        }));
    }
    rows
}
