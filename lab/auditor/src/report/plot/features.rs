//! The plot of the strongest attack's error by feature, with both guesses, and with the same
//! adversary without scores if there is one.

use vfl_present::plot::{Anchor, ErrorAxis, PlotError, ink, svg};
use vfl_present::shortened;

use super::defenses::{PLOT_LEFT, PLOT_RIGHT, PLOT_WIDTH, frame, legend};
use super::{MAX_NAME, Series};
use crate::report::attack_result::Outcome;
use crate::report::document::Audit;

const TOP: i32 = 46;
const ROW: i32 = 22;

/// Draws the plot; `None` if no attack ran or no error by feature is known. `names` are the
/// attacked features' names; if there are too few, features are numbered.
pub(in crate::report) fn features(
    audit: &Audit,
    names: &[String],
    series: &Series,
) -> Result<Option<String>, PlotError> {
    let Some((attack, errors)) = audit.strongest() else { return Ok(None) };
    let (half, mean) =
        (&audit.baselines.half.per_feature, &audit.baselines.column_mean.per_feature);
    let rows: Vec<[f64; 3]> = errors
        .per_feature
        .iter()
        .zip(half)
        .zip(mean)
        .map(|((attack, half), mean)| [*attack, *half, *mean])
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let control = control(audit).filter(|control| control.len() == rows.len()).unwrap_or_default();
    let axis = ErrorAxis::covering(rows.iter().flatten().chain(control).copied());
    let bottom = TOP + ROW * i32::try_from(rows.len()).unwrap_or(1000).min(1000);
    let (ink, marker) = series.look(attack);

    let label = "Dot plot: mean squared error of the strongest attack for every feature";
    let svg = svg("error by feature", label, (PLOT_WIDTH, bottom + 48), |canvas| {
        let x = |error: f64| {
            PLOT_LEFT
                + (f64::from(PLOT_RIGHT - PLOT_LEFT) * axis.position(error, 0.5)).round() as i32
        };
        frame(canvas, &axis, TOP, bottom)?;
        legend(canvas, Some((attack, ink, marker)), !control.is_empty())?;
        for (i, [error, half, mean]) in rows.iter().enumerate() {
            let top = TOP + ROW * i32::try_from(i).unwrap_or(1000);
            let middle = top + ROW / 2;
            let name = names
                .get(i)
                .map_or_else(|| format!("feature {}", i + 1), |name| shortened(name, MAX_NAME));
            canvas.text(&name, (PLOT_LEFT - 12, middle), ink::TEXT, Anchor::End)?;
            canvas.line(vec![(PLOT_LEFT, middle), (PLOT_RIGHT, middle)], ink::GRID, 1)?;
            for (ink, guess) in [(ink::HALF, half), (ink::MEAN, mean)] {
                canvas.line(vec![(x(*guess), top + 3), (x(*guess), top + ROW - 3)], ink, 2)?;
            }
            if let Some(control) = control.get(i) {
                // The line between the two shows the information in the scores.
                canvas.line(vec![(x(*error), middle), (x(*control), middle)], ink, 2)?;
                canvas.ring((x(*control), middle), ink::GUESS)?;
            }
            canvas.marker((x(*error), middle), marker, ink)?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Returns the errors by feature of the strongest attack's control, if it has one.
fn control(audit: &Audit) -> Option<&[f64]> {
    let (_, _, risk) = audit.added_risk()?;
    let control = audit.attacks.iter().find(|attack| attack.name == risk.control)?;
    match &control.outcome {
        Outcome::Ran { errors, .. } => Some(&errors.per_feature),
        Outcome::NotScored { .. } | Outcome::NotRun { .. } => None,
    }
}
