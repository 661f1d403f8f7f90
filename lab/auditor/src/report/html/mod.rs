//! Renders the report as one page.

mod chairs;
mod figures;
mod method;
mod opening;
mod plots;
mod tables;
mod widgets;

use maud::html;
use vfl_present::Shell;

use super::document::Report;
use super::plot::{self, Series, Size};
use super::{ReportError, defense, facts};
use plots::Plots;
pub(crate) use widgets::{badge, compliance, scroll};

/// Renders the report as a self-contained HTML page. The same report gives the same bytes.
///
/// # Errors
/// [`ReportError::Invalid`] if [`Report::check`] finds something, [`ReportError::Plot`] if a plot
/// cannot be drawn.
pub fn render_html(report: &Report) -> Result<String, ReportError> {
    report.check()?;
    let series = Series::of(report);
    let limit = report.thresholds.and_then(|thresholds| thresholds.max_added_risk);
    let lines = defense::lines(report);
    let frontier = |size| plot::frontier(&lines, limit, size);
    let plots = Plots {
        frontier: frontier(Size::Wide)?.zip(frontier(Size::Narrow)?),
        sweep: match &report.sweep {
            Some(sweep) => plot::sweep(sweep, report.deployment.classes, &series)?,
            None => None,
        },
        defenses: plot::defenses(report, &series)?,
        features: report
            .audits
            .iter()
            .map(|audit| plot::features(audit, &feature_names(report, audit), &series))
            .collect::<Result<_, _>>()?,
    };
    Ok(page(report, &plots))
}

/// Returns the names of the attacked features in order; none unless all attacked parties publish
/// theirs.
fn feature_names(report: &Report, audit: &super::Audit) -> Vec<String> {
    let targets = report.targets(&audit.threat_model);
    if targets.iter().any(|party| party.feature_names.len() != party.features) {
        return Vec::new();
    }
    let several = targets.len() > 1;
    let name = |party: &str, feature: &str| {
        if several { format!("{party}: {feature}") } else { feature.to_owned() }
    };
    targets
        .iter()
        .flat_map(|party| party.feature_names.iter().map(|feature| name(&party.name, feature)))
        .collect()
}

fn page(report: &Report, plots: &Plots) -> String {
    let tool = facts::tool(report);
    let shell = Shell {
        title: &report.title,
        generator: &tool,
        lead: "What the active party can rebuild of the passive parties' features from the answers it is given.",
        facts: Vec::new(),
        source: "report.json".into(),
        schema_version: report.schema_version,
    };
    // In the order of a reader's questions: the result, its cost, its certainty, how to repeat it,
    // and every figure.
    shell.page(&html! {
        (opening::verdict(report))
        (figures::plots(report, plots))
        (method::threat_models(report))
        (method::surfaces(report))
        (chairs::chairs(report))
        (method::measured(report))
        (method::reproduce(report))
        (tables::all(report, plots))
    })
}
