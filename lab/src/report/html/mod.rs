//! The report as one page that needs nothing but a browser: no script, no font, no image, no network.

mod sections;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::Report;
use super::plot::{self, Series};
use super::text::printable;
use super::{ReportError, facts};

pub(crate) const STYLE: &str = include_str!("style.css");

/// Forbids everything but the page's own style: a name that broke out of its place could still do nothing.
pub(crate) const CONTENT_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report as a self-contained HTML page. The same report gives the same bytes.
///
/// # Errors
/// [`ReportError::Invalid`] if [`Report::check`] finds something, [`ReportError::Plot`] if a plot cannot be drawn.
pub fn render_html(report: &Report) -> Result<String, ReportError> {
    report.check()?;
    let series = Series::of(report);
    let plots = Plots {
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
    Ok(page(report, &plots).into_string())
}

/// SVG texts; absent where there is nothing to draw.
struct Plots {
    sweep: Option<String>,
    defenses: Option<String>,
    /// One per audit.
    features: Vec<Option<String>>,
}

/// Names of the attacked features in order; none unless all attacked parties publish theirs.
fn feature_names(report: &Report, audit: &super::Audit) -> Vec<String> {
    let targets = report.targets(&audit.threat_model);
    if targets.iter().any(|party| party.feature_names.len() != party.features) {
        return Vec::new();
    }
    let several = targets.len() > 1;
    let name = |party: &str, feature: &str| if several { format!("{party}: {feature}") } else { feature.to_owned() };
    targets.iter().flat_map(|party| party.feature_names.iter().map(|feature| name(&party.name, feature))).collect()
}

/// Text of the document, ready for the page: control characters out; maud escapes the rest.
fn said(text: &str) -> Markup {
    html! { (printable(text)) }
}

fn page(report: &Report, plots: &Plots) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="generator" content=(printable(&facts::tool(report)));
                title { (said(&report.title)) }
                style { (PreEscaped(STYLE)) (PreEscaped(plot::ink::style_sheet())) }
            }
            body {
                main {
                    (sections::header(report))
                    (sections::summary(report))
                    (sections::plots(report, plots))
                    (sections::audits(report, &plots.features))
                    (sections::surfaces(report))
                    (sections::threat_models(report))
                    (sections::reproduce(report))
                    footer class="small muted" { "Written by " (said(&facts::tool(report))) " from report.json, schema version " (report.schema_version) "." }
                }
            }
        }
    }
}
