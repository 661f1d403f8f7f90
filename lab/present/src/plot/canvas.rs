//! A drawing surface in pixels over plotters' SVG backend.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::UnicodeWidthStr;

use super::ink::{Ink, PAPER};

/// A point in pixels from the upper left corner.
pub type At = (i32, i32);

/// The shapes of markers, which stay distinct without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that points up.
    Up,
    /// A square on its corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A cross of two bars.
    Plus,
    /// A regular hexagon.
    Hexagon,
}

impl Marker {
    /// All shapes. Seven shapes and six hues give 42 different attacks.
    pub const ALL: [Self; 7] = [
        Self::Circle,
        Self::Square,
        Self::Up,
        Self::Diamond,
        Self::Down,
        Self::Plus,
        Self::Hexagon,
    ];

    /// Returns the corners around the origin for a marker of radius `r`; none for the circle.
    fn corners(self, r: i32) -> Vec<At> {
        let s = r * 9 / 10;
        let t = (r + 1) / 3;
        match self {
            Self::Circle => vec![],
            Self::Square => vec![(-s, -s), (s, -s), (s, s), (-s, s)],
            Self::Up => vec![(0, -r - 1), (r + 1, r - 1), (-r - 1, r - 1)],
            Self::Down => vec![(0, r + 1), (r + 1, 1 - r), (-r - 1, 1 - r)],
            Self::Diamond => vec![(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
            Self::Plus => vec![
                (-t, -r - 1),
                (t, -r - 1),
                (t, -t),
                (r + 1, -t),
                (r + 1, t),
                (t, t),
                (t, r + 1),
                (-t, r + 1),
                (-t, t),
                (-r - 1, t),
                (-r - 1, -t),
                (-t, -t),
            ],
            Self::Hexagon => {
                vec![(-r - 1, 0), (-r / 2, -r), (r / 2, -r), (r + 1, 0), (r / 2, r), (-r / 2, r)]
            }
        }
    }
}

/// The part of a text at its point; vertically it is always centred.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// The point is at the start of the text.
    Start,
    /// The point is in the middle of the text.
    Middle,
    /// The point is at the end of the text.
    End,
}

/// The size of ordinary text, in pixels.
pub(crate) const TEXT_SIZE: i32 = 13;

/// A drawing surface of one plot.
pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    plot: &'static str,
}

/// The error of a plot that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot of {plot}: {reason}")]
pub struct PlotError {
    /// The name of the plot.
    plot: &'static str,
    /// The error of the drawing backend.
    reason: String,
}

type DrawResult = Result<(), PlotError>;

/// Draws an SVG of the given size; `label` is its text for readers who cannot see it.
///
/// # Errors
/// [`PlotError`] if the backend fails.
pub fn svg(
    plot: &'static str,
    label: &str,
    size: (i32, i32),
    draw: impl FnOnce(&Canvas<'_>) -> DrawResult,
) -> Result<String, PlotError> {
    let (width, height) = (size.0.max(1).unsigned_abs(), size.1.max(1).unsigned_abs());
    let mut out = String::new();
    {
        let canvas = Canvas {
            area: SVGBackend::with_string(&mut out, (width, height)).into_drawing_area(),
            plot,
        };
        draw(&canvas)?;
        canvas.area.present().map_err(|e| canvas.failed(&e))?;
    }
    let label = maud::html! { (label) }.into_string().replace('"', "&quot;");
    Ok(out.replacen(
        "<svg ",
        &format!("<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" "),
        1,
    ))
}

impl Canvas<'_> {
    fn failed(&self, error: &impl std::fmt::Display) -> PlotError {
        PlotError { plot: self.plot, reason: error.to_string() }
    }

    /// Draws a line through the points, `width` pixels wide.
    pub fn line(&self, points: Vec<At>, ink: Ink, width: u32) -> DrawResult {
        let style = ink.rgb().stroke_width(width);
        self.area.draw(&PathElement::new(points, style)).map_err(|e| self.failed(&e))
    }

    /// Fills the rectangle between two corners.
    pub fn fill(&self, from: At, to: At, ink: Ink) -> DrawResult {
        self.area.draw(&Rectangle::new([from, to], ink.rgb().filled())).map_err(|e| self.failed(&e))
    }

    /// Draws a filled marker with an outline in the colour of the page.
    pub fn marker(&self, (x, y): At, marker: Marker, ink: Ink) -> DrawResult {
        for (radius, ink) in [(6, PAPER), (4, ink)] {
            let done = if marker == Marker::Circle {
                self.area.draw(&Circle::new((x, y), radius, ink.rgb().filled()))
            } else {
                let corners: Vec<At> =
                    marker.corners(radius).into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
                self.area.draw(&Polygon::new(corners, ink.rgb().filled()))
            };
            done.map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    /// Draws a ring, the hollow form of the round marker.
    pub fn ring(&self, (x, y): At, ink: Ink) -> DrawResult {
        for (radius, ink) in [(6, PAPER), (5, ink), (3, PAPER)] {
            self.area
                .draw(&Circle::new((x, y), radius, ink.rgb().filled()))
                .map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    /// Writes a text of ordinary size.
    pub fn text(&self, text: &str, at: At, ink: Ink, anchor: Anchor) -> DrawResult {
        self.text_of_size(text, at, ink, anchor, TEXT_SIZE)
    }

    /// Writes a heading from its left end.
    pub fn bold(&self, text: &str, at: At, ink: Ink) -> DrawResult {
        let font = ("sans-serif", f64::from(TEXT_SIZE) * 1.24).into_font().style(FontStyle::Bold);
        let style = font.color(&ink.rgb()).pos(Pos::new(HPos::Left, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| self.failed(&e))
    }

    /// Writes a text of the size of notes.
    pub fn small(&self, text: &str, at: At, ink: Ink, anchor: Anchor) -> DrawResult {
        self.text_of_size(text, at, ink, anchor, TEXT_SIZE - 1)
    }

    fn text_of_size(&self, text: &str, at: At, ink: Ink, anchor: Anchor, size: i32) -> DrawResult {
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // The backend divides font sizes by 1.24.
        let font = ("sans-serif", f64::from(size) * 1.24).into_font();
        let style = font.color(&ink.rgb()).pos(Pos::new(horizontal, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| self.failed(&e))
    }
}

/// Estimates the width of a text in pixels. The reader's fonts are unknown, so nothing may depend
/// on it closely.
pub fn text_width(text: &str) -> i32 {
    i32::try_from(text.width()).unwrap_or(i32::MAX / 8).saturating_mul(TEXT_SIZE * 6 / 10)
}
