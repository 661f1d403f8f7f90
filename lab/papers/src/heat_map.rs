//! A heat map of a matrix, as inline SVG.

use vfl_present::plot::ink::Ink;
use vfl_present::plot::{Anchor, Canvas, PlotError, ink, svg, text_width};
use vfl_present::{shortened, significant};

use super::document::HeatMap;

/// The longest name beside a row, in columns.
const MAX_NAME: usize = 18;
/// The approximate side of the whole map; cells are at most [`LARGEST`] wide.
const SIDE: i32 = 560;
const LARGEST: i32 = 40;
const TOP: i32 = 28;
/// The number of shades between 0 and the largest magnitude.
const SHADES: u8 = 32;

/// Draws the map: rows down, columns across, and a scale at the right.
pub(super) fn heat(map: &HeatMap) -> Result<String, PlotError> {
    let n = i32::try_from(map.rows.len().max(1)).unwrap_or(1);
    let cell = (SIDE / n).clamp(3, LARGEST);
    let named = cell >= 11;
    let names: Vec<String> = map.names.iter().map(|name| shortened(name, MAX_NAME)).collect();
    let left =
        if named { 24 + names.iter().map(|name| text_width(name)).max().unwrap_or(0) } else { 40 };
    let (right, bottom) = (left + cell * n, TOP + cell * n);
    let top = map.rows.iter().flatten().fold(0.0f64, |top, v| top.max(v.abs()));
    let label = format!("Heat map of {} by {}: {}", map.rows.len(), map.rows.len(), map.label);
    svg("a heat map", &label, (right + 110, bottom + 34), |canvas| {
        for (i, row) in (0..).zip(&map.rows) {
            for (j, value) in (0..).zip(row) {
                let at = (left + cell * j, TOP + cell * i);
                canvas.fill(
                    at,
                    (at.0 + cell, at.1 + cell),
                    shade(value / top.max(f64::MIN_POSITIVE)),
                )?;
            }
            let middle = TOP + cell * i + cell / 2;
            if named && let Some(name) = names.get(usize::try_from(i).unwrap_or_default()) {
                canvas.small(name, (left - 8, middle), ink::MUTED, Anchor::End)?;
            } else if i % 5 == 0 {
                canvas.small(&(i + 1).to_string(), (left - 8, middle), ink::MUTED, Anchor::End)?;
            }
            if i % 5 == 0 {
                let across = left + cell * i + cell / 2;
                canvas.small(
                    &(i + 1).to_string(),
                    (across, bottom + 14),
                    ink::MUTED,
                    Anchor::Middle,
                )?;
            }
        }
        scale(canvas, right + 18, bottom, top)
    })
}

/// Draws the scale of the colours.
fn scale(canvas: &Canvas<'_>, left: i32, bottom: i32, top: f64) -> Result<(), PlotError> {
    const STEPS: i32 = 40;
    let height = (bottom - TOP).max(STEPS);
    for i in 0..STEPS {
        let share = 1.0 - 2.0 * (f64::from(i) + 0.5) / f64::from(STEPS);
        let (from, to) = (TOP + height * i / STEPS, TOP + height * (i + 1) / STEPS);
        canvas.fill((left, from), (left + 14, to), shade(share))?;
    }
    for (share, at) in [(1.0, TOP + 4), (0.0, TOP + height / 2), (-1.0, TOP + height - 4)] {
        canvas.small(&signed(share * top), (left + 20, at), ink::MUTED, Anchor::Start)?;
    }
    Ok(())
}

fn signed(value: f64) -> String {
    if value < 0.0 { format!("−{}", significant(-value)) } else { significant(value) }
}

/// Returns the colour of a value: white for 0, blue for 1, orange for −1, in steps. A dark page
/// shows the same colours, as they are data.
fn shade(share: f64) -> Ink {
    let strength = (share.abs().clamp(0.0, 1.0) * f64::from(SHADES)).round() / f64::from(SHADES);
    // White is not quite the page's own colour, which the style sheet would turn dark.
    let end = if share >= 0.0 { (0x00, 0x4C, 0x97) } else { (0xC2, 0x4A, 0x00) };
    let mix = |from: u8, to: u8| {
        (f64::from(from) + strength * (f64::from(to) - f64::from(from))).round() as u8
    };
    Ink::data((mix(0xFA, end.0), mix(0xFB, end.1), mix(0xFC, end.2)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_cell_is_drawn_and_the_scale_has_both_ends() {
        let map = HeatMap {
            label: "covariance".into(),
            names: vec!["a".into(), "b".into(), "c".into()],
            rows: vec![vec![0.2, -0.1, 0.0], vec![-0.1, 0.1, 0.05], vec![0.0, 0.05, 0.3]],
        };
        let drawn = heat(&map).unwrap();
        assert_eq!(drawn.matches("<rect").count(), 9 + 40);
        for part in ["0.300", "−0.300", ">a<", ">c<"] {
            assert!(drawn.replace('\n', "").contains(part), "{part}: {drawn}");
        }
        assert_eq!(shade(1.0).light, (0x00, 0x4C, 0x97));
        assert_eq!(shade(-1.0).light, (0xC2, 0x4A, 0x00));
    }
}
