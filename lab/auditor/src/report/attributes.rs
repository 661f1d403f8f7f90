//! The table of all attributes of one audit, each with the attack that removes most of the
//! control's error.

use vfl_core::metrics::{AttributeFigures, ControlledFigure, ErrorReduction};
use vfl_numerics::two_sided_normal;
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{ColumnKind, Table, significant};

use super::attack_result::{AttackResult, AttributeResult};
use super::attribute_verdict::{described, ends, percent};
use super::document::Audit;
use super::facts::NONE;
use super::worst_attribute::is_noised;

/// The columns of the table.
const COLUMNS: [(&str, ColumnKind); 8] = [
    ("attribute", Name),
    ("attack", Text),
    ("removed (95 %)", Text),
    ("of ranks", Text),
    ("named rightly", Text),
    ("AUC or top category", Text),
    ("within", Text),
    ("exact", Text),
];

/// The explanation of the table.
pub(super) const READING: &str = "By attribute, the attack that removes most of the control's squared error; in brackets the control. The \
     intervals hold together, over all attributes. Of ranks: the same of errors of ranks, which heavy tails do not move. Named rightly: how \
     many of a tenth of the records, those an insider would name for the event, have it. Within: the share of records within the tolerance.";

/// Returns the table of an audit, a row for each attribute; empty if there are no figures by
/// attribute.
pub(super) fn table(audit: &Audit) -> Table {
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
    Table::of_rows(COLUMNS, best.into_iter().map(|(attack, of)| line(attack, of, wider, several)))
}

fn value(figures: &AttributeFigures) -> f64 {
    figures.removed.and_then(|removed| removed.value).unwrap_or(f64::NEG_INFINITY)
}

fn line(attack: &AttackResult, of: &AttributeResult, wider: f64, several: bool) -> [String; 8] {
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
    [
        if several {
            format!("{} of {}", figures.attribute, of.party)
        } else {
            figures.attribute.clone()
        },
        attack.name.clone(),
        removed(figures.removed, wider),
        removed(figures.removed_ranks, wider),
        named.unwrap_or_else(|| NONE.into()),
        figures.auc.or(figures.top_category).map_or_else(|| NONE.into(), beside),
        within.unwrap_or_else(|| NONE.into()),
        figures.exact.map_or_else(
            || NONE.into(),
            |exact| format!("{} ({})", percent(exact.attack), percent(exact.control)),
        ),
    ]
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
