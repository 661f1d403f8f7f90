//! The plot of each policy's accuracy cost against its added risk. On the frontier, neither can be
//! reduced without increasing the other.

use vfl_present::plot::{Anchor, At, Canvas, Marker, PlotError, ink, svg, text_width};
use vfl_present::shortened;

use crate::report::defense::DefenseLine;

/// The screen size that a plot is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Size {
    /// A desktop page, or paper.
    Wide,
    Narrow,
}

/// The layout of the plot, in pixels.
struct Layout {
    width: i32,
    left: i32,
    right: i32,
    labels: i32,
    /// The distance between labels.
    step: i32,
    /// The longest label, in columns.
    longest: usize,
    /// The distance between points that would hide each other.
    lane: i32,
    bottom: i32,
}

const TOP: i32 = 34;
const FOOT: i32 = 54;
/// The height of the plot with few policies.
const LEAST_HEIGHT: i32 = 300;
/// The half width of the caps of error bars.
const CAP: i32 = 3;

/// A policy on the plot.
struct Point<'a> {
    line: &'a DefenseLine<'a>,
    /// The accuracy lost and the added risk, as shares.
    lost: f64,
    added: f64,
    /// The ends of the interval.
    range: (f64, f64),
    /// True if no other policy is at least as good in both and better in one.
    best: bool,
}

/// Draws the plot; `None` if no policy has both figures. `limit` is the largest accepted added
/// risk.
pub(in crate::report) fn frontier(
    lines: &[DefenseLine<'_>],
    limit: Option<f64>,
    size: Size,
) -> Result<Option<String>, PlotError> {
    let points = points(lines);
    if points.is_empty() {
        return Ok(None);
    }
    let layout = Layout::new(size, points.len());
    let (x, y) = (LossAxis::of(&points), AddedRiskAxis::of(&points, limit));
    let label = format!(
        "Scatter plot: accuracy lost against added risk of {} policies, with intervals of 95 %; the table above has the figures",
        points.len()
    );
    let drawn = svg(
        "accuracy lost against added risk",
        &label,
        (layout.width, layout.bottom + FOOT),
        |canvas| {
            frame(canvas, &layout, &x, &y)?;
            if let Some(limit) = limit {
                let at = layout.y(y.position(limit));
                canvas.line(vec![(layout.left, at), (layout.right, at)], ink::THRESHOLD, 2)?;
                let text = format!("accepted: {:.0} %", 100.0 * limit);
                // Labelled above the plot, where there are no points.
                let end = layout.width - 8;
                let start = end - text_width(&text);
                canvas.line(vec![(start - 28, 14), (start - 4, 14)], ink::THRESHOLD, 2)?;
                canvas.small(&text, (end, 14), ink::THRESHOLD, Anchor::End)?;
            }
            let places = places(&points, &layout, &x, &y);
            let labels = spread(&places.iter().map(|place| place.1).collect::<Vec<_>>(), &layout);
            // Lines to the labels first, so that points cover them.
            for (&(px, py), &ly) in places.iter().zip(&labels) {
                let leader = vec![
                    (px, py),
                    (layout.right + 4, py),
                    (layout.labels - 10, ly),
                    (layout.labels - 4, ly),
                ];
                canvas.line(leader, ink::LIMIT, 1)?;
            }
            for (point, &(px, py)) in points.iter().zip(&places) {
                let [low, high] =
                    [point.range.0, point.range.1].map(|end| layout.y(y.position(end)));
                canvas.line(vec![(px, low), (px, high)], ink::SERIES[0], 1)?;
                for end in [low, high] {
                    canvas.line(vec![(px - CAP, end), (px + CAP, end)], ink::SERIES[0], 1)?;
                }
                match point.best {
                    true => canvas.marker((px, py), Marker::Circle, ink::SERIES[0])?,
                    false => canvas.ring((px, py), ink::SERIES[0])?,
                }
            }
            for (point, &ly) in points.iter().zip(&labels) {
                let name = shortened(&point.line.short, layout.longest);
                match point.line.judged {
                    true => canvas.bold(&name, (layout.labels, ly), ink::TEXT)?,
                    false => canvas.small(&name, (layout.labels, ly), ink::TEXT, Anchor::Start)?,
                }
            }
            Ok(())
        },
    )?;
    Ok(Some(drawn))
}

/// Returns the policies with both figures.
fn points<'a>(lines: &'a [DefenseLine<'a>]) -> Vec<Point<'a>> {
    let known: Vec<Point<'a>> = lines
        .iter()
        .filter_map(|line| {
            let (risk, lost) = (line.risk.as_ref()?, line.accuracy_lost?);
            let added = risk.value?;
            let range = (risk.low.unwrap_or(added), risk.high.unwrap_or(added));
            Some(Point { line, lost, added, range, best: true })
        })
        .collect();
    let beaten = |point: &Point<'_>| {
        known.iter().any(|other| {
            other.lost <= point.lost
                && other.added <= point.added
                && (other.lost < point.lost || other.added < point.added)
        })
    };
    let best: Vec<bool> = known.iter().map(|point| !beaten(point)).collect();
    known.into_iter().zip(best).map(|(point, best)| Point { best, ..point }).collect()
}

impl Layout {
    fn new(size: Size, labels: usize) -> Self {
        let (width, left, right, first, step, longest, lane) = match size {
            Size::Wide => (900, 64, 620, 652, 19, 34, 8),
            Size::Narrow => (350, 42, 158, 176, 18, 27, 4),
        };
        let height = LEAST_HEIGHT.max(step * i32::try_from(labels).unwrap_or(1000).min(1000));
        Self { width, left, right, labels: first, step, longest, lane, bottom: TOP + height }
    }

    fn x(&self, position: f64) -> i32 {
        self.left + (f64::from(self.right - self.left) * position).round() as i32
    }

    fn y(&self, position: f64) -> i32 {
        self.bottom - (f64::from(self.bottom - TOP) * position).round() as i32
    }
}

/// The axis of accuracy lost. The square root spreads small losses, where most policies are, even
/// if one costs half.
struct LossAxis {
    low: f64,
    high: f64,
}

/// The losses that the axis labels, in percentage points.
const LOSSES: [f64; 8] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

fn root(points: f64) -> f64 {
    points.signum() * points.abs().sqrt()
}

impl LossAxis {
    fn of(points: &[Point<'_>]) -> Self {
        let lost = || points.iter().map(|point| root(100.0 * point.lost));
        let (low, high) = (lost().fold(0.0, f64::min), lost().fold(1.0, f64::max));
        let room = 0.08 * (high - low);
        Self { low: low - room, high: high + room }
    }

    fn position(&self, lost: f64) -> f64 {
        ((root(100.0 * lost) - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the labels of losses within the axis, if they have room.
    fn ticks(&self, room: f64) -> Vec<(f64, String)> {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        // A gain is a negative loss.
        let gains = LOSSES.iter().skip(1).map(|points| -points);
        for points in LOSSES.iter().copied().chain(gains) {
            let inside = (self.low..=self.high).contains(&root(points));
            let at = self.position(points / 100.0);
            if inside && ticks.iter().all(|(other, _)| (other - at).abs() >= room) {
                ticks.push((at, format!("{points}").replace('-', "−")));
            }
        }
        ticks
    }
}

/// The axis of the added risk.
struct AddedRiskAxis {
    low: f64,
    high: f64,
    step: f64,
}

impl AddedRiskAxis {
    fn of(points: &[Point<'_>], limit: Option<f64>) -> Self {
        let ends = || points.iter().flat_map(|point| [point.range.0, point.range.1, point.added]);
        // Far below 0 an attack is so much worse than its control that the figure has no meaning.
        let low = ends().fold(0.0, f64::min).max(-0.5);
        let high = ends().chain(limit).fold(0.1, f64::max).min(1.0);
        let step = [0.02, 0.05, 0.1, 0.2]
            .into_iter()
            .find(|step| (high - low) / step <= 6.0)
            .unwrap_or(0.25);
        // Round-off below 0 takes no step of its own.
        let low = ((low + 0.01) / step).floor().min(0.0) * step;
        Self { low, high: ((high / step - 1e-9).ceil() * step).max(low + step), step }
    }

    fn position(&self, added: f64) -> f64 {
        ((added - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step).round() as i32;
        let name = |added: f64| format!("{:.0} %", 100.0 * added).replace('-', "−");
        (0..=count)
            .map(|i| self.low + f64::from(i) * self.step)
            .map(|a| (self.position(a), name(a + 1e-9)))
            .collect()
    }
}

fn frame(
    canvas: &Canvas<'_>,
    layout: &Layout,
    x: &LossAxis,
    y: &AddedRiskAxis,
) -> Result<(), PlotError> {
    canvas.fill((layout.left, TOP), (layout.right, layout.bottom), ink::PAPER)?;
    for (position, name) in y.ticks() {
        let at = layout.y(position);
        canvas.line(vec![(layout.left, at), (layout.right, at)], ink::GRID, 1)?;
        canvas.small(&name, (layout.left - 6, at), ink::MUTED, Anchor::End)?;
    }
    let room = 26.0 / f64::from(layout.right - layout.left);
    for (position, name) in x.ticks(room) {
        let at = layout.x(position);
        canvas.line(vec![(at, TOP), (at, layout.bottom)], ink::GRID, 1)?;
        canvas.line(vec![(at, layout.bottom), (at, layout.bottom + 4)], ink::AXIS, 1)?;
        canvas.small(&name, (at, layout.bottom + 16), ink::MUTED, Anchor::Middle)?;
    }
    canvas.line(vec![(layout.left, layout.bottom), (layout.right, layout.bottom)], ink::AXIS, 1)?;
    canvas.small("added risk, with 95 %", (4, 14), ink::TEXT, Anchor::Start)?;
    canvas.small(
        "accuracy lost, points",
        (layout.left, layout.bottom + 38),
        ink::TEXT,
        Anchor::Start,
    )
}

/// Returns the positions of the points. Points that would hide each other are set side by side, in
/// up to five lanes.
fn places(points: &[Point<'_>], layout: &Layout, x: &LossAxis, y: &AddedRiskAxis) -> Vec<At> {
    let mut taken: Vec<(i32, i32, i32)> = Vec::new();
    points
        .iter()
        .map(|point| {
            let (px, py) = (layout.x(x.position(point.lost)), layout.y(y.position(point.added)));
            let [high, low] = [point.range.1, point.range.0].map(|end| layout.y(y.position(end)));
            let (from, to) = (high.min(py - 6), low.max(py + 6));
            let free = |at: &i32| {
                taken
                    .iter()
                    .all(|&(x, top, end)| (x - at).abs() >= layout.lane || end < from || to < top)
            };
            let lanes = [0, 1, -1, 2, -2].map(|lane| px + lane * layout.lane);
            let at = lanes.into_iter().find(free).unwrap_or(px);
            taken.push((at, from, to));
            (at, py)
        })
        .collect()
}

/// Returns the heights of the labels: as near to their points as possible without overlapping.
fn spread(heights: &[i32], layout: &Layout) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|&i| heights.get(i).copied());
    let mut labels = heights.to_vec();
    let mut least = TOP;
    for &i in &order {
        if let Some(label) = labels.get_mut(i) {
            *label = (*label).max(least);
            least = *label + layout.step;
        }
    }
    let mut most = layout.bottom;
    for &i in order.iter().rev() {
        if let Some(label) = labels.get_mut(i) {
            *label = (*label).min(most);
            most = *label - layout.step;
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels keep their order and their distance, and stay on the plot.
    #[test]
    fn labels_do_not_stand_on_each_other() {
        for size in [Size::Wide, Size::Narrow] {
            for heights in [
                vec![100; 25],
                vec![400, 40, 40, 41, 390, 200],
                (0..40).map(|i| 60 + i * 3).collect(),
            ] {
                let layout = Layout::new(size, heights.len());
                let labels = spread(&heights, &layout);
                let mut pairs: Vec<(i32, i32)> =
                    heights.iter().copied().zip(labels.iter().copied()).collect();
                pairs.sort_by_key(|pair| pair.1);
                assert!(pairs.is_sorted_by_key(|pair| pair.0), "{pairs:?}");
                assert!(
                    pairs.windows(2).all(|two| two[1].1 - two[0].1 >= layout.step),
                    "{pairs:?}"
                );
                assert!(labels.iter().all(|&l| (TOP..=layout.bottom).contains(&l)), "{labels:?}");
            }
        }
    }

    #[test]
    fn the_axis_of_losses_keeps_their_order() {
        let axis = LossAxis { low: -1.0, high: 9.0 };
        let losses = [-0.01, -0.002, 0.0, 0.002, 0.01, 0.1, 0.68];
        assert!(losses.windows(2).all(|two| axis.position(two[0]) < axis.position(two[1])));
        assert!(
            axis.ticks(0.05)
                .iter()
                .any(|(at, name)| name == "50" && (at - axis.position(0.5)).abs() < 1e-12)
        );
    }
}
