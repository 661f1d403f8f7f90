//! Describes the verdict on an attribute: the records that would be named, the share named
//! correctly, and the confidence.

use vfl_core::metrics::{Event, EventFigures};
use vfl_present::significant;

use super::attack_result::AddedRisk;
use super::worst_attribute::WorstAttribute;

/// The largest upper end of an interval at which scores count as adding nothing.
const NOTHING: f64 = 0.05;

/// The most attributes that a sentence names.
const NAMED: usize = 3;

/// The finding on an added risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// The interval is above 0.
    Leak,
    /// The scores add at most 5 %.
    Nothing,
    /// The interval is open, or reaches from nothing to more than that.
    Undecided,
}

/// Returns the finding of an interval. Without an interval, a figure is undecided if `noised`;
/// otherwise its sign decides.
pub(super) fn finding(risk: &AddedRisk, noised: bool) -> Finding {
    match (risk.low, risk.high, risk.value) {
        (Some(low), _, _) if low > 0.0 => Finding::Leak,
        (_, Some(high), _) if high <= NOTHING => Finding::Nothing,
        (None, None, Some(value)) if !noised => {
            if value > 0.0 {
                Finding::Leak
            } else {
                Finding::Nothing
            }
        }
        _ => Finding::Undecided,
    }
}

/// Returns the first line: the attribute, natural frequencies, and the share of the error removed
/// with its interval.
pub(super) fn headline(worst: &WorstAttribute<'_>, behind: &str, several: bool) -> String {
    let attribute = attribute(worst, several);
    match finding(&worst.risk, worst.noised) {
        Finding::Leak => {
            let removed =
                format!("the scores remove {} of the error without them", removed(&worst.risk));
            match frequencies(worst) {
                Some(frequencies) => {
                    format!("behind {behind}, {attribute} is told most: {frequencies}; {removed}")
                }
                None if worst.noised => {
                    format!("behind {behind}, {attribute} is told most: {removed}; {NOT_TOLD}")
                }
                None => format!("behind {behind}, {attribute} is told most: {removed}"),
            }
        }
        Finding::Nothing => format!(
            "behind {behind}, the scores add nothing that this audit measures, nor for the worst attribute, {attribute}{}",
            in_brackets(&worst.risk)
        ),
        Finding::Undecided => {
            format!(
                "behind {behind}, it is undecided what the scores add: {}",
                undecided(worst, &attribute)
            )
        }
    }
}

/// Explains why a finding is undecided, and how to decide it.
fn undecided(worst: &WorstAttribute<'_>, attribute: &str) -> String {
    match (worst.risk.high, worst.noised) {
        (Some(high), _) => format!(
            "for the worst attribute, {attribute}, between nothing and {} of the error; audit more records",
            percent(high)
        ),
        (None, true) if worst.open.is_empty() => {
            "the noise of this audit bounds nothing; audit more records".into()
        }
        (None, true) => {
            let names: Vec<String> =
                worst.open.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
            let more = worst.open.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("of {}{more} the noise bounds nothing; audit more records", names.join(", "))
        }
        (None, false) => format!("of {attribute}, no interval is known; audit more records"),
    }
}

/// The note on figures that a party with noise does not report.
pub(super) const NOT_TOLD: &str = "how many would be named rightly is not told, because the party answers with noise and no bound is known on \
     what one record changes";

/// Returns an attribute, with its party if there are several.
pub(super) fn attribute(worst: &WorstAttribute<'_>, several: bool) -> String {
    let name = &worst.figures.attribute;
    if several { format!("`{name}` of {}", worst.party) } else { format!("`{name}`") }
}

/// Formats a share with its interval: `53 % (48 to 58 %)`, or `at least 30 %` if noise leaves the
/// upper end open.
pub(super) fn removed(risk: &AddedRisk) -> String {
    match (risk.value, risk.low, risk.high) {
        (_, Some(low), None) => format!("at least {}", percent(low)),
        (Some(value), ..) => format!("{}{}", percent(value), in_brackets(risk)),
        (None, ..) => "a share that is not known".into(),
    }
}

fn in_brackets(risk: &AddedRisk) -> String {
    interval(risk).map_or_else(String::new, |range| format!(" ({range})"))
}

/// Returns the natural frequencies of the worst attribute: of the records that somebody would name,
/// the number that have the event. `None` if the scores do not improve that number, since the
/// attack is chosen by its error.
pub(super) fn frequencies(worst: &WorstAttribute<'_>) -> Option<String> {
    let event = worst.figures.event.as_ref()?;
    let control = worst.beside.event.as_ref()?.control;
    (event.attack > control).then(|| natural(&worst.figures.attribute, event, control))
}

/// Formats `of the 200 records that an insider would name for …, 173 have it (41 without the
/// scores)`.
pub(super) fn natural(attribute: &str, event: &EventFigures, without: f64) -> String {
    let EventFigures { named, attack, .. } = event;
    let what = described(attribute, &event.event);
    format!(
        "of the {named} records that an insider would name for {what}, {attack:.0} have it ({without:.0} without the scores)"
    )
}

/// Describes an event.
pub(super) fn described(attribute: &str, event: &Event) -> String {
    match event {
        Event::Rarer { value } => format!("{attribute} = {}", number(*value)),
        Event::NotUsual { value } => format!("{attribute} other than {}", number(*value)),
        Event::TopDecile { from } => {
            format!("{attribute} from {} on (the top decile)", number(*from))
        }
        Event::Category { column } => column.clone(),
    }
}

/// Formats a number of the source; whole numbers in full.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 { format!("{x:.0}") } else { significant(x) }
}

/// Formats a share as a percentage, with a decimal below 10.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats the interval of a risk as percentages: `48 to 58 %`.
pub(super) fn interval(risk: &AddedRisk) -> Option<String> {
    risk.low.zip(risk.high).map(ends)
}

/// Formats the ends of an interval as percentages.
pub(super) fn ends((low, high): (f64, f64)) -> String {
    let end = |share: f64| percent(share).replace(" %", "");
    format!("{} to {} %", end(low), end(high))
}
