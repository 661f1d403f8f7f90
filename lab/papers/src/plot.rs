//! A figure as inline SVG, in the style of the reports' plots.

use vfl_present::plot::ink::Ink;
use vfl_present::plot::{Anchor, At, Canvas, ErrorAxis, FLOOR_LABEL, Marker, PlotError, ink, svg};
use vfl_present::shortened;

use super::document::{Axis, Curve, CurveRole, Document};

const WIDTH: i32 = 980;
const LEFT: i32 = 112;
const RIGHT: i32 = 660;
const TOP: i32 = 38;
const BOTTOM: i32 = 444;
const LEGEND: i32 = RIGHT + 22;
const LEGEND_STEP: i32 = 23;
/// The distance below which markers on one line run into each other.
const APART: i32 = 40;
/// The longest name in the legend, in columns.
const MAX_NAME: usize = 32;
/// The number of curves above which closed forms that coincide with their curve are only in the
/// table.
const CROWDED: usize = 12;

/// The style of a curve.
#[derive(Clone, Copy)]
struct CurveStyle {
    ink: Ink,
    marker: Option<Marker>,
    width: u32,
}

/// Returns the style of a curve. An attack has a hue and a marker, and its related curves share the
/// hue. Bounds point up and down; closed forms are plain lines.
fn look(curves: &[Curve], curve: &Curve) -> CurveStyle {
    let hued = |c: &&Curve| matches!(c.role, CurveRole::Attack | CurveRole::Measured);
    let role = |c: &&Curve| hued(c) == hued(&curve);
    let hue_of = |name: &str| {
        let place = curves.iter().filter(hued).position(|c| c.name == name);
        place.map_or(ink::MEAN, |place| ink::SERIES[place % ink::SERIES.len()])
    };
    let place = curves.iter().filter(role).position(|c| c.name == curve.name).unwrap_or_default();
    let marker = Marker::ALL[place % Marker::ALL.len()];
    let owner = curve.of.as_deref().unwrap_or_default();
    match curve.role {
        CurveRole::Attack | CurveRole::Measured => {
            CurveStyle { ink: hue_of(&curve.name), marker: Some(marker), width: 2 }
        }
        CurveRole::Guess if curve.name == "half" => {
            CurveStyle { ink: ink::HALF, marker: None, width: 2 }
        }
        CurveRole::Guess => CurveStyle { ink: ink::GUESS, marker: Some(marker), width: 2 },
        CurveRole::ClosedForm => CurveStyle { ink: hue_of(owner), marker: None, width: 1 },
        CurveRole::Beyond if curve.name.starts_with("control") => {
            CurveStyle { ink: ink::MEAN, marker: None, width: 1 }
        }
        CurveRole::Beyond => CurveStyle { ink: ink::TEXT, marker: None, width: 1 },
        CurveRole::Published => CurveStyle { ink: hue_of(owner), marker: None, width: 1 },
        CurveRole::UpperBound => {
            CurveStyle { ink: hue_of(owner), marker: Some(Marker::Up), width: 1 }
        }
        CurveRole::LowerBound if curve.of.is_none() => {
            CurveStyle { ink: ink::MEAN, marker: None, width: 2 }
        }
        CurveRole::LowerBound => {
            CurveStyle { ink: hue_of(owner), marker: Some(Marker::Down), width: 1 }
        }
    }
}

/// Returns the curves to draw: all of them, or if there are too many, all except closed forms that
/// coincide with their curve.
fn drawn(curves: &[Curve]) -> Vec<Curve> {
    let coincides = |curve: &Curve| {
        let owner = curves.iter().find(|c| Some(&c.name) == curve.of.as_ref());
        owner.is_some_and(|owner| {
            owner.x == curve.x
                && owner
                    .mean
                    .iter()
                    .zip(&curve.mean)
                    .all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(1e-9))
        })
    };
    let crowded = curves.len() > CROWDED;
    let left = |c: &&Curve| !(crowded && c.role == CurveRole::ClosedForm && coincides(c));
    curves.iter().filter(left).cloned().collect()
}

/// The vertical axis: logarithmic in decades, or linear.
enum VerticalAxis {
    Decades(ErrorAxis),
    Steps { low: f64, high: f64 },
}

impl VerticalAxis {
    fn of(document: &Document) -> Self {
        let values = || document.curves.iter().flat_map(|c| c.mean.iter().copied());
        if !document.measure.linear {
            return Self::Decades(ErrorAxis::covering(values()));
        }
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let step = round_step(((high - low) / 8.0).max(1e-9));
        Self::Steps {
            low: ((low / step).floor() * step).min(low),
            high: (high / step).ceil() * step + 1e-12,
        }
    }

    fn position(&self, value: f64, spread: f64) -> f64 {
        match self {
            Self::Decades(axis) => axis.position(value.max(0.0), spread),
            Self::Steps { low, high } => ((value - low) / (high - low).max(1e-12)).clamp(0.0, 1.0),
        }
    }

    fn band_end(&self) -> f64 {
        match self {
            Self::Decades(axis) => axis.band_end(),
            Self::Steps { .. } => 0.0,
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            Self::Decades(axis) => axis.ticks(),
            Self::Steps { low, high } => {
                let step = round_step(((high - low) / 8.0).max(1e-9));
                let decimals = decimals(step);
                let (first, last) =
                    ((low / step - 1e-6).ceil() as i64, (high / step + 1e-6).floor() as i64);
                (first..=last)
                    .map(|i| {
                        (
                            self.position(i as f64 * step, 0.0),
                            format!("{:.decimals$}", i as f64 * step),
                        )
                    })
                    .collect()
            }
        }
    }
}

/// Returns the number of decimals that distinguish multiples of a round step.
fn decimals(step: f64) -> usize {
    usize::try_from(-(step.log10() + 1e-9).floor() as i64).unwrap_or(0)
}

/// Returns the ends of the horizontal axis, with a small margin.
fn ends(curves: &[Curve]) -> (f64, f64) {
    let all = || curves.iter().flat_map(|c| c.x.iter().copied());
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let room = if high > low { 0.03 * (high - low) } else { 0.5 };
    (low - room, high + room)
}

/// Draws the figure.
pub(super) fn plot(document: &Document) -> Result<String, PlotError> {
    let curves = &drawn(&document.curves);
    let (low, high) = ends(curves);
    let vertical = VerticalAxis::of(document);
    let x = |v: f64| LEFT + (f64::from(RIGHT - LEFT) * (v - low) / (high - low)).round() as i32;
    let y = |error: f64, spread: f64| {
        BOTTOM - (f64::from(BOTTOM - TOP) * vertical.position(error, spread)).round() as i32
    };
    let rows = i32::try_from(curves.len()).unwrap_or(64).min(64);
    let height = (BOTTOM + 56).max(TOP + 30 + LEGEND_STEP * rows);
    let label = format!("Line chart: {} by {}", document.measure.label, document.axis.label);
    svg("a figure", &label, (WIDTH, height), |canvas| {
        frame(canvas, &vertical, &document.measure.label)?;
        horizontal(canvas, &document.axis, curves, x)?;
        for (i, curve) in curves.iter().enumerate() {
            let look = look(curves, curve);
            let spread = i as f64 / (curves.len().max(2) - 1) as f64;
            let points: Vec<At> =
                curve.x.iter().zip(&curve.mean).map(|(v, e)| (x(*v), y(*e, spread))).collect();
            if curve.role == CurveRole::Published {
                whiskers(canvas, curve, look.ink, &points, |error| y(error, spread), 0)?;
                points.iter().try_for_each(|at| canvas.ring(*at, look.ink))?;
            } else {
                canvas.line(points.clone(), look.ink, look.width)?;
                // Draw the spread next to a published curve, for comparison.
                if curves
                    .iter()
                    .any(|c| c.role == CurveRole::Published && c.of.as_ref() == Some(&curve.name))
                {
                    whiskers(canvas, curve, look.ink, &points, |error| y(error, spread), 3)?;
                }
            }
            if let Some(marker) = look.marker {
                for at in spaced(&points, i, curves.len()) {
                    canvas.marker(at, marker, look.ink)?;
                }
            }
            let entry = TOP + 8 + LEGEND_STEP * i32::try_from(i).unwrap_or(64);
            if curve.role == CurveRole::Published {
                canvas.ring((LEGEND + 14, entry), look.ink)?;
            } else {
                canvas.line(vec![(LEGEND, entry), (LEGEND + 28, entry)], look.ink, look.width)?;
            }
            if let Some(marker) = look.marker {
                canvas.marker((LEGEND + 14, entry), marker, look.ink)?;
            }
            canvas.text(
                &shortened(&curve.name, MAX_NAME),
                (LEGEND + 38, entry),
                ink::TEXT,
                Anchor::Start,
            )?;
        }
        Ok(())
    })
}

/// Draws the standard deviation over splits at each point, shifted by `aside`.
fn whiskers(
    canvas: &Canvas<'_>,
    curve: &Curve,
    ink: Ink,
    points: &[At],
    y: impl Fn(f64) -> i32,
    aside: i32,
) -> Result<(), PlotError> {
    let Some(spread) = &curve.spread else { return Ok(()) };
    for ((mean, spread), (x, _)) in curve.mean.iter().zip(spread).zip(points) {
        // A mean less its deviation may be negative, which a logarithmic axis cannot show.
        let (low, high) = ((mean - spread).max(0.05 * mean), mean + spread);
        canvas.line(vec![(x + aside, y(low)), (x + aside, y(high))], ink, 1)?;
    }
    Ok(())
}

/// Returns the points that get a marker: [`APART`] from one another, with a different offset for
/// each curve so that coinciding curves show all their markers.
fn spaced(points: &[At], curve: usize, curves: usize) -> Vec<At> {
    let Some(&(first, _)) = points.first() else { return Vec::new() };
    let offset = APART * i32::try_from(curve).unwrap_or_default()
        / i32::try_from(curves.max(1)).unwrap_or(1);
    let every_point = points.windows(2).all(|p| p[1].0 - p[0].0 >= APART);
    let mut due = if every_point { first } else { first + offset };
    let mut marked = Vec::new();
    for &(x, y) in points {
        if x >= due {
            marked.push((x, y));
            due = if every_point { x } else { due + APART * ((x - due) / APART + 1) };
        }
    }
    marked
}

fn frame(canvas: &Canvas<'_>, vertical: &VerticalAxis, label: &str) -> Result<(), PlotError> {
    let y = |position: f64| BOTTOM - (f64::from(BOTTOM - TOP) * position).round() as i32;
    canvas.fill((LEFT, TOP), (RIGHT, BOTTOM), ink::PAPER)?;
    let band = y(vertical.band_end());
    if band < BOTTOM {
        canvas.fill((LEFT, band), (RIGHT, BOTTOM), ink::BAND)?;
        canvas.small(FLOOR_LABEL, (LEFT - 8, (band + BOTTOM) / 2), ink::MUTED, Anchor::End)?;
    }
    for (position, text) in vertical.ticks() {
        let at = y(position);
        canvas.line(vec![(LEFT, at), (RIGHT, at)], ink::GRID, 1)?;
        canvas.small(&text, (LEFT - 8, at), ink::MUTED, Anchor::End)?;
    }
    canvas.small(label, (8, 16), ink::TEXT, Anchor::Start)
}

fn horizontal(
    canvas: &Canvas<'_>,
    axis: &Axis,
    curves: &[Curve],
    x: impl Fn(f64) -> i32,
) -> Result<(), PlotError> {
    canvas.line(vec![(LEFT, BOTTOM), (RIGHT, BOTTOM)], ink::AXIS, 1)?;
    let middle = (LEFT + RIGHT) / 2;
    canvas.small(&axis.label, (middle, BOTTOM + 38), ink::TEXT, Anchor::Middle)?;
    // Labels at round values, at most a dozen.
    let (low, high) = ends(curves);
    let step = round_step((high - low) / 10.0);
    let decimals = decimals(step);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    for i in first..=last {
        let value = i as f64 * step;
        canvas.line(vec![(x(value), BOTTOM), (x(value), BOTTOM + 4)], ink::AXIS, 1)?;
        canvas.small(
            &format!("{value:.decimals$}"),
            (x(value), BOTTOM + 16),
            ink::MUTED,
            Anchor::Middle,
        )?;
    }
    if let Some(limit) = axis.determined_up_to.filter(|limit| low < *limit && *limit < high) {
        let at = x(limit);
        canvas.line(vec![(at, TOP), (at, BOTTOM)], ink::LIMIT, 1)?;
        let text = "← d ≤ k − 1: as many equations as features, or more";
        let anchor = if at > middle { Anchor::End } else { Anchor::Start };
        canvas.small(text, (at.max(LEFT + 110), TOP - 12), ink::MUTED, anchor)?;
    }
    Ok(())
}

/// Returns the least of 1, 2, 5 × 10ⁿ that is not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|m| m * decade)
        .into_iter()
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_large_enough() {
        for (least, step) in
            [(0.07, 0.1), (0.1, 0.1), (0.11, 0.2), (3.0, 5.0), (9.9, 10.0), (60.0, 100.0)]
        {
            assert!((round_step(least) - step).abs() < 1e-12, "{least}");
        }
    }

    #[test]
    fn markers_keep_apart_and_coinciding_curves_show_both() {
        let dense: Vec<At> = (0..55).map(|i| (100 + 10 * i, 7)).collect();
        let (a, b) = (spaced(&dense, 0, 2), spaced(&dense, 1, 2));
        for marked in [&a, &b] {
            assert!(
                marked.len() > 10 && marked.windows(2).all(|p| p[1].0 - p[0].0 >= APART - 10),
                "{marked:?}"
            );
        }
        assert!(a.iter().all(|at| !b.contains(at)));
        let sparse: Vec<At> = (0..4).map(|i| (100 + 90 * i, 7)).collect();
        assert_eq!(spaced(&sparse, 1, 2), sparse);
    }
}
