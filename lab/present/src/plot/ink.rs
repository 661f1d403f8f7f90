//! The colours of the plots.

use plotters::style::RGBColor;

/// A colour on a light page, with its replacement on a dark one.
///
/// The light colour is written into the SVG, and the style sheet finds it by its value, so all
/// colours must differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    /// Red, green and blue on a light page.
    pub light: (u8, u8, u8),
    dark: &'static str,
    /// The dash pattern of lines in this colour.
    dash: Option<&'static str>,
}

const fn ink(light: (u8, u8, u8), dark: &'static str) -> Ink {
    Ink { light, dark, dash: None }
}

/// The colour of titles and names.
pub const TEXT: Ink = ink((0x1F, 0x29, 0x33), "#dfe5ec");
/// The colour of tick labels and remarks.
pub const MUTED: Ink = ink((0x56, 0x61, 0x6F), "#9fabb8");
/// The colour of grid lines.
pub const GRID: Ink = ink((0xE4, 0xE8, 0xED), "#2b343f");
/// The colour of axis lines.
pub const AXIS: Ink = ink((0x9A, 0xA5, 0xB1), "#5a6674");
/// The colour of the band of errors too small for the axis.
pub const BAND: Ink = ink((0xF1, 0xF4, 0xF7), "#1d242d");
/// The background of a plot; it also outlines markers so that they stay apart.
pub const PAPER: Ink = ink((0xFF, 0xFF, 0xFF), "#161b22");
/// The colour of guesses that are no baseline.
pub const GUESS: Ink = ink((0x8A, 0x94, 0xA0), "#7c8896");
/// The colour of guessing ½.
pub const HALF: Ink = Ink { light: (0x3A, 0x43, 0x4F), dark: "#c9d2dc", dash: Some("7 4") };
/// The colour of guessing the column mean.
pub const MEAN: Ink = Ink { light: (0x3B, 0x44, 0x50), dark: "#c8d1db", dash: Some("2 4") };
/// The colour of the number of features that k classes determine.
pub const LIMIT: Ink = Ink { light: (0x9B, 0xA6, 0xB2), dark: "#5b6775", dash: Some("3 3") };
/// The colour of a threshold that a user has set.
pub const THRESHOLD: Ink = Ink { light: (0xA4, 0x22, 0x1B), dark: "#ffb3ad", dash: Some("6 4") };
/// The colours of the attacks: eight hues that stay distinct under the common colour vision
/// deficiencies (after Okabe and Ito, darkened to be legible on white), each with a marker of its
/// own.
pub const SERIES: [Ink; 8] = [
    ink((0x00, 0x72, 0xB2), "#5aa9f0"),
    ink((0xD5, 0x5E, 0x00), "#f5925a"),
    ink((0x00, 0x8F, 0x6B), "#3ecf9f"),
    ink((0xA8, 0x3E, 0x8C), "#e792cd"),
    ink((0xA3, 0x74, 0x00), "#e9bf4d"),
    ink((0x2E, 0x9C, 0xC7), "#86dcf5"),
    ink((0x6B, 0x4F, 0xC8), "#b8a4f5"),
    ink((0x66, 0x7A, 0x1E), "#bcd06a"),
];

const ALL: [Ink; 11] = [TEXT, MUTED, GRID, AXIS, BAND, PAPER, GUESS, HALF, MEAN, LIMIT, THRESHOLD];

impl Ink {
    /// Creates a colour that is data: the same on a dark page.
    pub const fn data(light: (u8, u8, u8)) -> Self {
        ink(light, "")
    }

    pub(crate) fn rgb(self) -> RGBColor {
        let (r, g, b) = self.light;
        RGBColor(r, g, b)
    }

    /// Formats the colour as the SVG backend does.
    pub fn hex(self) -> String {
        let (r, g, b) = self.light;
        format!("#{r:02X}{g:02X}{b:02X}")
    }
}

/// Returns the style rules for the plots: dashes, and the dark colours inside a dark media query
/// for screens.
pub(crate) fn style_sheet() -> String {
    let inks = || ALL.iter().chain(&SERIES);
    let mut css = String::new();
    for ink in inks() {
        if let Some(dash) = ink.dash {
            css.push_str(&format!(".plot [stroke=\"{}\"]{{stroke-dasharray:{dash}}}\n", ink.hex()));
        }
    }
    css.push_str("@media screen and (prefers-color-scheme: dark){\n");
    for ink in inks() {
        let (light, dark) = (ink.hex(), ink.dark);
        css.push_str(&format!(
            ".plot [stroke=\"{light}\"]{{stroke:{dark}}} .plot [fill=\"{light}\"]{{fill:{dark}}}\n"
        ));
    }
    css.push_str("}\n");
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_a_handle_of_its_own() {
        let inks: Vec<Ink> = ALL.iter().chain(&SERIES).copied().collect();
        for (i, a) in inks.iter().enumerate() {
            assert!(inks[i + 1..].iter().all(|b| a.light != b.light), "{a:?}");
        }
    }
}
