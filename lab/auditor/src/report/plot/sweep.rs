//! The plot of the error by number of passive features, one line per attack.

use vfl_present::plot::{Anchor, At, ErrorAxis, FLOOR_LABEL, PlotError, ink, svg};
use vfl_present::shortened;

use super::{MAX_NAME, Series};
use crate::report::document::Sweep;

const WIDTH: i32 = 900;
const LEFT: i32 = 112;
const RIGHT: i32 = 656;
const TOP: i32 = 38;
const BOTTOM: i32 = 384;
const LEGEND: i32 = RIGHT + 26;
const LEGEND_STEP: i32 = 23;

/// Draws the plot; `None` if the sweep has no points. `classes` is k: with fewer than k passive
/// features the scores determine them.
pub(in crate::report) fn sweep(
    sweep: &Sweep,
    classes: usize,
    series: &Series,
) -> Result<Option<String>, PlotError> {
    let (Some(first), Some(last)) = (sweep.points.first(), sweep.points.last()) else {
        return Ok(None);
    };
    let mut names: Vec<&str> = Vec::new();
    for attack in sweep.points.iter().flat_map(|point| &point.attacks) {
        // The attack `half` repeats the baseline.
        if attack.name != "half" && !names.contains(&attack.name.as_str()) {
            names.push(&attack.name);
        }
    }
    let errors = sweep.points.iter().flat_map(|point| {
        let attacks =
            point.attacks.iter().filter(|a| a.name != "half").filter_map(|attack| attack.mse);
        attacks.chain([point.half, point.column_mean])
    });
    let axis = ErrorAxis::covering(errors);

    // Attacks often agree to within a pixel: side by side at each d, none hides another.
    let room = (RIGHT - LEFT) / i32::try_from(sweep.points.len()).unwrap_or(i32::MAX);
    let beside = |i: usize| {
        let (i, n) =
            (i32::try_from(i).unwrap_or_default(), i32::try_from(names.len()).unwrap_or(i32::MAX));
        (2 * i - (n - 1)) * (room * 3 / 4 / n.max(1)).min(9) / 2
    };

    let span = (last.d - first.d).max(1) as f64;
    let x = |d: f64| {
        // Half a step of room on both sides keeps markers off the frame.
        let share = if last.d == first.d { 0.5 } else { (d - first.d as f64 + 0.4) / (span + 0.8) };
        LEFT + (f64::from(RIGHT - LEFT) * share).round() as i32
    };
    let y = |error: f64, spread: f64| {
        BOTTOM - (f64::from(BOTTOM - TOP) * axis.position(error, spread)).round() as i32
    };

    let height =
        (BOTTOM + 56).max(TOP + 30 + LEGEND_STEP * (i32::try_from(names.len()).unwrap_or(64) + 2));
    let label = "Line chart: mean squared error per feature by number of passive features, one line per attack";
    let svg = svg("error by number of passive features", label, (WIDTH, height), |canvas| {
        canvas.fill((LEFT, TOP), (RIGHT, BOTTOM), ink::PAPER)?;
        let band = BOTTOM - (f64::from(BOTTOM - TOP) * axis.band_end()).round() as i32;
        if band < BOTTOM {
            canvas.fill((LEFT, band), (RIGHT, BOTTOM), ink::BAND)?;
            canvas.small(FLOOR_LABEL, (LEFT - 8, (band + BOTTOM) / 2), ink::MUTED, Anchor::End)?;
        }
        for (position, text) in axis.ticks() {
            let at = BOTTOM - (f64::from(BOTTOM - TOP) * position).round() as i32;
            canvas.line(vec![(LEFT, at), (RIGHT, at)], ink::GRID, 1)?;
            canvas.small(&text, (LEFT - 8, at), ink::MUTED, Anchor::End)?;
        }
        canvas.small("mean squared error per feature", (8, 16), ink::TEXT, Anchor::Start)?;

        // At most 16 labels under the axis.
        let every = sweep.points.len().div_ceil(16);
        for (i, point) in sweep.points.iter().enumerate() {
            let at = x(point.d as f64);
            canvas.line(vec![(at, BOTTOM), (at, BOTTOM + 4)], ink::AXIS, 1)?;
            if i % every == 0 {
                canvas.small(
                    &point.d.to_string(),
                    (at, BOTTOM + 16),
                    ink::MUTED,
                    Anchor::Middle,
                )?;
            }
        }
        canvas.line(vec![(LEFT, BOTTOM), (RIGHT, BOTTOM)], ink::AXIS, 1)?;
        let middle = (LEFT + RIGHT) / 2;
        canvas.small(
            "number of passive features d",
            (middle, BOTTOM + 38),
            ink::TEXT,
            Anchor::Middle,
        )?;

        // The limit where the k − 1 independent log-ratios stop determining d features.
        let limit = classes.saturating_sub(1);
        if first.d <= limit && limit < last.d {
            let at = x(limit as f64 + 0.5);
            canvas.line(vec![(at, TOP), (at, BOTTOM)], ink::LIMIT, 1)?;
            // The label reads over the line, towards the side with room; the axis' title ends
            // before it.
            let text = format!("← d ≤ k − 1 = {limit}: as many equations as features, or more");
            let anchor = if at > middle { Anchor::End } else { Anchor::Start };
            canvas.small(&text, (at.max(LEFT + 110), TOP - 12), ink::MUTED, anchor)?;
        }

        let half = sweep.points.iter().map(|p| (x(p.d as f64), y(p.half, 0.5))).collect();
        let mean = sweep.points.iter().map(|p| (x(p.d as f64), y(p.column_mean, 0.5))).collect();
        canvas.line(half, ink::HALF, 2)?;
        canvas.line(mean, ink::MEAN, 2)?;
        let mut entry = TOP + 8;
        for (i, name) in names.iter().enumerate() {
            let (ink, marker) = series.look(name);
            let spread = if names.len() > 1 { i as f64 / (names.len() - 1) as f64 } else { 0.5 };
            let points = sweep.points.iter().map(|point| {
                let mse = point.attacks.iter().find(|a| a.name == *name).and_then(|a| a.mse);
                mse.map(|mse| (x(point.d as f64) + beside(i), y(mse, spread)))
            });
            let points: Vec<Option<At>> = points.collect();
            // A missing figure is a gap, not a straight line across it.
            for run in points.split(Option::is_none) {
                if !run.is_empty() {
                    canvas.line(run.iter().copied().flatten().collect(), ink, 2)?;
                }
            }
            for at in points.iter().copied().flatten() {
                canvas.marker(at, marker, ink)?;
            }
            canvas.fill((LEGEND, entry - 1), (LEGEND + 28, entry + 1), ink)?;
            canvas.marker((LEGEND + 14, entry), marker, ink)?;
            canvas.text(
                &shortened(name, MAX_NAME),
                (LEGEND + 38, entry),
                ink::TEXT,
                Anchor::Start,
            )?;
            entry += LEGEND_STEP;
        }
        for (ink, name) in [(ink::HALF, "guessing ½"), (ink::MEAN, "guessing the mean")] {
            canvas.line(vec![(LEGEND, entry), (LEGEND + 28, entry)], ink, 2)?;
            canvas.text(name, (LEGEND + 38, entry), ink::TEXT, Anchor::Start)?;
            entry += LEGEND_STEP;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}
