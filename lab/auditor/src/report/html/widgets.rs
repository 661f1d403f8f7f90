//! The parts that several sections use.

use maud::{Markup, PreEscaped, html};
use vfl_present::printable;

use crate::report::level::Level;
use crate::report::thresholds::Compliance;

/// A space as wide as a digit.
pub(super) const FIGURE_SPACE: char = '\u{2007}';

/// Renders the success of the strongest attack.
pub(crate) fn badge(level: Level) -> Markup {
    let class = match level {
        Level::Exact | Level::SomeExact => "badge bad",
        Level::Partial => "badge mid",
        Level::ColumnMean
        | Level::Half
        | Level::NoMore
        | Level::Undecided
        | Level::Unresolved
        | Level::Unmeasured => "badge flat",
    };
    html! { span class=(class) { (level.label()) } }
}

/// Renders the compliance with a threshold.
pub(crate) fn compliance(compliance: Compliance) -> Markup {
    let class = match compliance {
        Compliance::Met => "badge good",
        Compliance::NotMet => "badge bad",
        Compliance::NotMeasured => "badge mid",
    };
    html! { span class=(class) { (compliance.label()) } }
}

/// Wraps content that may be wider than the page, so that it scrolls by itself, with the keyboard
/// too. `label` names it.
pub(crate) fn scroll(label: &str, content: &Markup) -> Markup {
    html! { div class="scroll" tabindex="0" role="region" aria-label=(printable(label)) { (content) } }
}

/// Renders a plot with its caption. `label` names it.
pub(super) fn figure(label: &str, svg: &str, caption: &Markup) -> Markup {
    html! {
        figure {
            (scroll(label, &html! { (PreEscaped(svg)) }))
            figcaption { (caption) }
        }
    }
}
