//! A picture of the candidates: a row each, with both errors as bars, against the error of guessing
//! ½.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use vfl_transform::assess::Candidate;

use super::number;

/// Returns the name of a candidate in a table: its transform and its ε.
pub(super) fn name(candidate: &Candidate) -> String {
    match candidate.epsilon {
        Some(epsilon) => format!("{} (ε = {})", candidate.transform, number(epsilon).trim()),
        None => candidate.transform.to_owned(),
    }
}

const WIDTH: i32 = 960;
/// The right end of the column of g, and the left and right ends of the axis.
const DISTANCE: i32 = 320;
const LEFT: i32 = 340;
const RIGHT: i32 = 860;
/// The top of the rows, the height of a row, and the height of a bar.
const TOP: i32 = 96;
const ROW: i32 = 44;
const BAR: i32 = 15;

const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
const MUTED: RGBColor = RGBColor(0x56, 0x61, 0x6F);
const GRID: RGBColor = RGBColor(0xE4, 0xE8, 0xED);
/// Two colours that differ under the common colour vision deficiencies (Okabe and Ito).
const LEAST_SQUARES: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const HALF_STAR: RGBColor = RGBColor(0xD5, 0x5E, 0x00);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the candidates; `half` is the error of guessing ½.
pub(super) fn svg(candidates: &[Candidate], half: f64) -> Result<String, String> {
    let rows = i32::try_from(candidates.len()).map_err(|e| e.to_string())?;
    let height = TOP + rows * ROW + 70;
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, (WIDTH.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        draw(&area, candidates, half, TOP + rows * ROW)?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(out)
}

fn draw(area: &Area<'_>, candidates: &[Candidate], half: f64, bottom: i32) -> Result<(), String> {
    let errors = candidates.iter().flat_map(|c| [c.errors.least_squares, c.errors.half_star]);
    let greatest = errors.fold(half, f64::max).max(1e-12);
    let step = tick_step(greatest / 6.0);
    let end = (greatest / step).ceil() * step;
    // Truncation is to a pixel of a few hundred.
    let at = |value: f64| {
        LEFT + (f64::from(RIGHT - LEFT) * (value / end).clamp(0.0, 1.0)).round() as i32
    };

    text(
        area,
        "Error of an adversary that takes the release for the true parameters",
        (20, 24),
        HPos::Left,
        16,
        INK,
    )?;
    for (left, colour, label) in
        [(LEFT, LEAST_SQUARES, "least_squares"), (LEFT + 150, HALF_STAR, "half_star")]
    {
        rectangle(area, (left, 48), (left + 14, 60), colour)?;
        text(area, label, (left + 22, 54), HPos::Left, 13, INK)?;
    }
    line(area, (LEFT + 290, 54), (LEFT + 314, 54), INK, 2)?;
    text(
        area,
        &format!("half: guessing ½ ({})", number(half).trim()),
        (LEFT + 322, 54),
        HPos::Left,
        13,
        INK,
    )?;
    text(area, "transform", (20, TOP - 14), HPos::Left, 12, MUTED)?;
    text(area, "g (V 33)", (DISTANCE, TOP - 14), HPos::Right, 12, MUTED)?;

    for i in 0..=(end / step).round() as i32 {
        let (value, x) = (f64::from(i) * step, at(f64::from(i) * step));
        line(area, (x, TOP), (x, bottom), GRID, 1)?;
        text(area, &tick_label(value, step), (x, bottom + 16), HPos::Center, 12, MUTED)?;
    }
    text(
        area,
        "mean squared error per feature",
        ((LEFT + RIGHT) / 2, bottom + 42),
        HPos::Center,
        13,
        INK,
    )?;
    for (row, candidate) in (0..).zip(candidates) {
        let middle = TOP + row * ROW + ROW / 2;
        text(area, &name(candidate), (20, middle), HPos::Left, 13, INK)?;
        text(area, number(candidate.g).trim(), (DISTANCE, middle), HPos::Right, 13, INK)?;
        for (top, value, colour) in [
            (middle - BAR - 1, candidate.errors.least_squares, LEAST_SQUARES),
            (middle + 1, candidate.errors.half_star, HALF_STAR),
        ] {
            rectangle(area, (LEFT, top), (at(value), top + BAR), colour)?;
        }
    }
    // The line is drawn over the bars, to show which of them pass it; the values over the line, on
    // white.
    line(area, (at(half), TOP), (at(half), bottom), INK, 2)?;
    for (row, candidate) in (0..).zip(candidates) {
        let middle = TOP + row * ROW + ROW / 2;
        for (top, value) in [
            (middle - BAR - 1, candidate.errors.least_squares),
            (middle + 1, candidate.errors.half_star),
        ] {
            let label = number(value).trim().to_owned();
            let x = at(value) + 5;
            let width = i32::try_from(label.len()).unwrap_or(12) * 7;
            rectangle(area, (x, top + 1), (x + width, top + BAR - 1), WHITE)?;
            text(area, &label, (x + 1, top + BAR / 2), HPos::Left, 11, MUTED)?;
        }
    }
    line(area, (LEFT, TOP), (LEFT, bottom), MUTED, 1)
}

/// Returns the least of 1, 2, 5 × 10ⁿ that is not below `least`.
fn tick_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * decade)
        .find(|s| *s >= least)
        .unwrap_or(10.0 * decade)
}

/// Formats a tick with as many digits as its step has.
fn tick_label(value: f64, step: f64) -> String {
    let decimals = -step.log10().floor();
    if value == 0.0 {
        "0".into()
    } else if (0.0..=6.0).contains(&decimals) {
        format!("{value:.*}", decimals as usize)
    } else if (-5.0..0.0).contains(&decimals) {
        format!("{value:.0}")
    } else {
        format!("{value:.0e}")
    }
}

fn text(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    from: HPos,
    size: i32,
    ink: RGBColor,
) -> Result<(), String> {
    // The backend divides font sizes by 1.24.
    let font = ("sans-serif", f64::from(size) * 1.24).into_font();
    let style = font.color(&ink).pos(Pos::new(from, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| e.to_string())
}

fn line(
    area: &Area<'_>,
    from: (i32, i32),
    to: (i32, i32),
    ink: RGBColor,
    width: u32,
) -> Result<(), String> {
    area.draw(&PathElement::new(vec![from, to], ink.stroke_width(width))).map_err(|e| e.to_string())
}

fn rectangle(
    area: &Area<'_>,
    from: (i32, i32),
    to: (i32, i32),
    ink: RGBColor,
) -> Result<(), String> {
    area.draw(&Rectangle::new([from, to], ink.filled())).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfl_transform::assess::AttackErrors;

    #[test]
    fn every_candidate_has_a_row_and_long_bars_stay_inside() {
        let candidate = |transform, epsilon, least_squares| Candidate {
            transform,
            epsilon,
            g: 0.25,
            sign_flips: 0.0,
            errors: AttackErrors { least_squares, half_star: 0.01 },
            before: AttackErrors { least_squares: 0.0, half_star: 0.0 },
        };
        for greatest in [0.0, 0.3, 1e-9, 7e4, 1e300] {
            let all = [candidate("none", None, 0.0), candidate("stiefel", Some(0.125), greatest)];
            let drawn = svg(&all, 0.1).unwrap();
            assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
            for part in [
                "none",
                "stiefel (ε = 0.125000)",
                "0.250000",
                "mean squared error per feature",
                "guessing ½",
            ] {
                assert!(drawn.contains(part), "{part}: {drawn}");
            }
            for x in drawn
                .split(" x=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next()?.parse::<i32>().ok())
            {
                assert!((0..=WIDTH).contains(&x), "{x}");
            }
        }
        assert_eq!((tick_step(0.03), tick_step(0.21), tick_step(60.0)), (0.05, 0.5, 100.0));
        assert_eq!(
            (tick_label(0.1, 0.05), tick_label(200.0, 100.0)),
            ("0.10".to_owned(), "200".to_owned())
        );
    }
}
