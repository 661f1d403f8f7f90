//! The plot of each attack's error under each defense, with both baselines: one row per attack,
//! grouped by defense.

use vfl_present::plot::{Anchor, Canvas, ErrorAxis, FLOOR_LABEL, PlotError, ink, svg, text_width};
use vfl_present::shortened;

use super::{MAX_NAME, Series};
use crate::report::document::{Audit, Report};
use crate::report::facts::{against, repeats_half};

const WIDTH: i32 = 900;
const LEFT: i32 = 232;
const RIGHT: i32 = 868;
const TOP: i32 = 58;
const HEAD: i32 = 28;
const ROW: i32 = 21;
const GAP: i32 = 10;

/// Draws the plot; `None` if no attack has a figure.
pub(in crate::report) fn defenses(
    report: &Report,
    series: &Series,
) -> Result<Option<String>, PlotError> {
    let attacks = |audit: &Audit| -> Vec<(String, f64)> {
        let shown = audit.attacks.iter().filter(|attack| !repeats_half(audit, attack));
        shown.filter_map(|attack| Some((attack.name.clone(), attack.mse()?))).collect()
    };
    let groups: Vec<(&Audit, Vec<(String, f64)>)> =
        report.audits.iter().map(|audit| (audit, attacks(audit))).collect();
    if groups.iter().all(|(_, attacks)| attacks.is_empty()) {
        return Ok(None);
    }
    let errors = groups.iter().flat_map(|(audit, attacks)| {
        let baselines = [audit.baselines.half.mse, audit.baselines.column_mean.mse];
        attacks.iter().map(|(_, mse)| *mse).chain(baselines)
    });
    let axis = ErrorAxis::covering(errors);
    let rows = |n: usize| i32::try_from(n).unwrap_or(1000).min(1000) * ROW;
    let bottom = groups.iter().fold(TOP, |y, (_, attacks)| y + HEAD + rows(attacks.len()) + GAP);

    let label = "Dot plot: mean squared error per feature of every attack under every defense";
    let svg = svg("error by defense", label, (WIDTH, bottom + 48), |canvas| {
        let x = |position: f64| LEFT + (f64::from(RIGHT - LEFT) * position).round() as i32;
        frame(canvas, &axis, TOP, bottom)?;
        legend(canvas, None, false)?;
        let mut y = TOP;
        for (audit, attacks) in &groups {
            let title = shortened(&format!("{}{}", audit.policy.label(), against(audit)), 100);
            canvas.fill((8, y + 4), (RIGHT, y + HEAD - 3), ink::BAND)?;
            canvas.bold(&title, (14, y + HEAD / 2), ink::TEXT)?;
            y += HEAD;
            let end = y + rows(attacks.len());
            let (half, mean) = (audit.baselines.half.mse, audit.baselines.column_mean.mse);
            for (ink, mse) in [(ink::HALF, half), (ink::MEAN, mean)] {
                let at = x(axis.position(mse, 0.5));
                canvas.line(vec![(at, y), (at, end)], ink, 2)?;
            }
            for (name, mse) in attacks {
                let (ink, marker) = series.look(name);
                let middle = y + ROW / 2;
                canvas.text(
                    &shortened(name, MAX_NAME),
                    (LEFT - 12, middle),
                    ink::TEXT,
                    Anchor::End,
                )?;
                canvas.line(
                    vec![(LEFT, middle), (x(axis.position(*mse, 0.5)), middle)],
                    ink::GRID,
                    1,
                )?;
                canvas.marker((x(axis.position(*mse, 0.5)), middle), marker, ink)?;
                y += ROW;
            }
            y = end + GAP;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Draws the grid, ticks and band of a horizontal error axis; shared with the plot by feature.
pub(super) fn frame(
    canvas: &Canvas<'_>,
    axis: &ErrorAxis,
    top: i32,
    bottom: i32,
) -> Result<(), PlotError> {
    let x = |position: f64| LEFT + (f64::from(RIGHT - LEFT) * position).round() as i32;
    let band = x(axis.band_end());
    if band > LEFT {
        canvas.fill((LEFT, top), (band, bottom), ink::BAND)?;
        canvas.small(FLOOR_LABEL, ((LEFT + band) / 2, bottom + 15), ink::MUTED, Anchor::Middle)?;
    }
    for (position, text) in axis.ticks() {
        let at = x(position);
        canvas.line(vec![(at, top), (at, bottom)], ink::GRID, 1)?;
        // The first tick would run into the label of the band.
        if band == LEFT || at - band > 24 {
            canvas.small(&text, (at, bottom + 15), ink::MUTED, Anchor::Middle)?;
        }
    }
    canvas.line(vec![(LEFT, bottom), (RIGHT, bottom)], ink::AXIS, 1)?;
    canvas.small("mean squared error per feature", (RIGHT, bottom + 36), ink::TEXT, Anchor::End)
}

/// Draws the keys of the two baselines, of one attack and of its control, above the plot.
pub(super) fn legend(
    canvas: &Canvas<'_>,
    attack: Option<(&str, ink::Ink, vfl_present::plot::Marker)>,
    control: bool,
) -> Result<(), PlotError> {
    let (mut x, y) = (LEFT, 24);
    if let Some((name, ink, marker)) = attack {
        let name = shortened(name, MAX_NAME);
        canvas.marker((x + 6, y), marker, ink)?;
        canvas.text(&name, (x + 20, y), ink::TEXT, Anchor::Start)?;
        x += 48 + text_width(&name);
    }
    if control {
        canvas.ring((x + 6, y), ink::GUESS)?;
        canvas.text("without scores", (x + 20, y), ink::TEXT, Anchor::Start)?;
        x += 48 + text_width("without scores");
    }
    for (ink, name) in [(ink::HALF, "guessing ½"), (ink::MEAN, "guessing the mean")] {
        canvas.line(vec![(x, y), (x + 28, y)], ink, 2)?;
        canvas.text(name, (x + 36, y), ink::TEXT, Anchor::Start)?;
        x += 64 + text_width(name);
    }
    Ok(())
}

pub(super) const PLOT_WIDTH: i32 = WIDTH;
pub(super) const PLOT_LEFT: i32 = LEFT;
pub(super) const PLOT_RIGHT: i32 = RIGHT;
