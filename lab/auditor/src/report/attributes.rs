//! The table of all attributes of one audit, each with the attack that removes most of the
//! control's error.

use vfl_core::metrics::{AttributeFigures, ControlledFigure, ErrorReduction};
use vfl_numerics::two_sided_normal;
use vfl_present::significant;

use super::attack_result::{AttackResult, AttributeResult};
use super::attribute_verdict::{described, ends, percent};
use super::document::Audit;
use super::facts::NONE;
use super::worst_attribute::is_noised;

/// The line of one attribute, as text.
pub(super) struct AttributeLine {
    /// The attribute's name, with the party if there are several.
    pub(super) attribute: String,
    pub(super) attack: String,
    /// The figures, in the order of [`HEADS`].
    pub(super) cells: [String; 6],
}

/// The headings of a line's figures.
pub(super) const HEADS: [&str; 6] =
    ["removed (95 %)", "of ranks", "named rightly", "AUC or top category", "within", "exact"];

/// The explanation of the table.
pub(super) const READING: &str = "By attribute, the attack that removes most of the control's squared error; in brackets the control. The \
     intervals hold together, over all attributes. Of ranks: the same of errors of ranks, which heavy tails do not move. Named rightly: how \
     many of a tenth of the records, those an insider would name for the event, have it. Within: the share of records within the tolerance.";

/// Returns a line for each attribute of an audit; none if there are no figures by attribute.
pub(super) fn lines(audit: &Audit) -> Vec<AttributeLine> {
    let scored: Vec<&str> = audit.scored().map(|(name, _)| name).collect();
    let attacks = || audit.attacks.iter().filter(|attack| scored.contains(&attack.name.as_str()));
    let mut best: Vec<(&AttackResult, &AttributeResult)> = Vec::new();
    for (attack, of) in
        attacks().flat_map(|attack| attack.attributes.iter().map(move |of| (attack, of)))
    {
        let same = |one: &&mut (&AttackResult, &AttributeResult)| {
            one.1.party == of.party && one.1.figures.attribute == of.figures.attribute
        };
        match best.iter_mut().find(same) {
            Some(one) if value(&of.figures) > value(&one.1.figures) => *one = (attack, of),
            Some(_) => {}
            None => best.push((attack, of)),
        }
    }
    let wider = two_sided_normal(0.05 / best.len().max(1) as f64) / two_sided_normal(0.05);
    let several = best.windows(2).any(|pair| matches!(pair, [a, b] if a.1.party != b.1.party));
    best.into_iter().map(|(attack, of)| line(attack, of, wider, several)).collect()
}

fn value(figures: &AttributeFigures) -> f64 {
    figures.removed.and_then(|removed| removed.value).unwrap_or(f64::NEG_INFINITY)
}

fn line(attack: &AttackResult, of: &AttributeResult, wider: f64, several: bool) -> AttributeLine {
    let figures = &of.figures;
    // Intervals with noise are reported so that they hold jointly.
    let wider = if is_noised(figures) { 1.0 } else { wider };
    let named = figures.event.as_ref().map(|event| {
        let what = described(&figures.attribute, &event.event);
        format!("{:.0} of {} ({:.0}), {what}", event.attack, event.named, event.control)
    });
    let within = figures
        .within
        .map(|within| format!("{}, ± {}", beside(within.share), significant(within.tolerance)));
    AttributeLine {
        attribute: if several {
            format!("{} of {}", figures.attribute, of.party)
        } else {
            figures.attribute.clone()
        },
        attack: attack.name.clone(),
        cells: [
            removed(figures.removed, wider),
            removed(figures.removed_ranks, wider),
            named.unwrap_or_else(|| NONE.into()),
            figures.auc.or(figures.top_category).map_or_else(|| NONE.into(), beside),
            within.unwrap_or_else(|| NONE.into()),
            figures.exact.map_or_else(
                || NONE.into(),
                |exact| format!("{} ({})", percent(exact.attack), percent(exact.control)),
            ),
        ],
    }
}

fn beside(figure: ControlledFigure) -> String {
    format!("{} ({})", significant(figure.attack), significant(figure.control))
}

fn removed(removed: Option<ErrorReduction>, wider: f64) -> String {
    let Some(removed) = removed else { return NONE.into() };
    match (removed.value, removed.low.zip(removed.high)) {
        (Some(value), Some((low, high))) => {
            let range = (value - wider * (value - low), (value + wider * (high - value)).min(1.0));
            format!("{} ({})", percent(value), ends(range))
        }
        _ => "not bounded".into(),
    }
}
