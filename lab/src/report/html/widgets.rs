//! Parts that several sections use.

use maud::{Markup, PreEscaped, html};

use crate::report::level::Level;
use crate::report::text::printable;
use crate::report::thresholds::Compliance;

/// As wide as a digit, unlike a space.
pub(super) const FIGURE_SPACE: char = '\u{2007}';

/// How far the strongest attack got.
pub(crate) fn badge(level: Level) -> Markup {
    let class = match level {
        Level::Exact | Level::SomeExact => "badge bad",
        Level::Partial => "badge mid",
        Level::ColumnMean | Level::Half | Level::NoMore | Level::Undecided | Level::Unresolved | Level::Unmeasured => {
            "badge flat"
        }
    };
    html! { span class=(class) { (level.label()) } }
}

/// Whether a threshold is met.
pub(crate) fn compliance(compliance: Compliance) -> Markup {
    let class = match compliance {
        Compliance::Met => "badge good",
        Compliance::NotMet => "badge bad",
        Compliance::NotMeasured => "badge mid",
    };
    html! { span class=(class) { (compliance.label()) } }
}

/// Content that may be wider than the page: it scrolls by itself, with the keyboard too. `label` says what it is.
pub(crate) fn scroll(label: &str, content: &Markup) -> Markup {
    html! { div class="scroll" tabindex="0" role="region" aria-label=(printable(label)) { (content) } }
}

/// A plot with its caption. `label` says what it is.
pub(super) fn figure(label: &str, svg: &str, caption: &Markup) -> Markup {
    html! {
        figure {
            (scroll(label, &html! { (PreEscaped(svg)) }))
            figcaption { (caption) }
        }
    }
}
