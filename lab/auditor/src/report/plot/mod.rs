//! Plots as inline SVG, drawn with plotters. Fonts are the browser's; colours are re-mapped for
//! dark pages by the style sheet of [`ink`].

mod defenses;
mod features;
mod frontier;
mod sweep;

pub(super) use defenses::defenses;
pub(super) use features::features;
pub(super) use frontier::{Size, frontier};
pub(super) use sweep::sweep;

use super::attack_result::{AttackResult, Outcome, Status};
use super::document::Report;

/// The longest name in a plot, in columns.
const MAX_NAME: usize = 26;

/// The look of each attack, the same in every plot: its position in the order of first appearance,
/// and true if it is a guess.
pub(super) struct Series {
    names: Vec<(String, bool)>,
}

impl Series {
    pub(super) fn of(report: &Report) -> Self {
        let mut series = Self { names: Vec::new() };
        for attack in report.audits.iter().flat_map(|audit| &audit.attacks) {
            series.add(&attack.name, is_guess(attack));
        }
        for attack in
            report.sweep.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.attacks)
        {
            let guess = matches!(attack.name.as_str(), "random" | "zero" | "half");
            series.add(&attack.name, guess);
        }
        series
    }

    fn add(&mut self, name: &str, guess: bool) {
        if !self.names.iter().any(|(known, _)| known == name) {
            self.names.push((name.to_owned(), guess));
        }
    }

    /// Returns the colour and the marker of an attack.
    fn look(&self, name: &str) -> (vfl_present::plot::ink::Ink, vfl_present::plot::Marker) {
        let Some((_, guess)) = self.names.iter().find(|(known, _)| known == name) else {
            return (vfl_present::plot::ink::GUESS, vfl_present::plot::Marker::Circle);
        };
        let position =
            self.names.iter().filter(|(_, g)| g == guess).position(|(known, _)| known == name);
        let position = position.unwrap_or_default();
        let marker =
            vfl_present::plot::Marker::ALL[position % vfl_present::plot::Marker::ALL.len()];
        if *guess {
            (vfl_present::plot::ink::GUESS, marker)
        } else {
            (
                vfl_present::plot::ink::SERIES[position % vfl_present::plot::ink::SERIES.len()],
                marker,
            )
        }
    }
}

fn is_guess(attack: &AttackResult) -> bool {
    matches!(
        attack.outcome,
        Outcome::Ran { status: Status::Guess, .. }
            | Outcome::NotScored { status: Status::Guess, .. }
    )
}
