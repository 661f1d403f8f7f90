//! The outcome of an examination in words.

use super::search::{MAX_SEARCHED, Search};
use super::transform_evidence::Verdict;
use super::{Hypothesis, RemainingHypotheses};

/// The most names that are written out.
const NAMED: usize = 4;

pub(super) const AS_RELEASED: &str = "the estimates take the release as it stands";

/// The caveat of every conclusion.
const OTHERS: &str = "transforms of other kinds were not compared";

/// Joins names with commas, the last after "and".
fn list(names: &[&Hypothesis]) -> String {
    let mut words: Vec<String> = names.iter().take(NAMED).map(ToString::to_string).collect();
    if names.len() > NAMED {
        words.push(format!("{} more", names.len() - NAMED));
    }
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}

/// Returns the evidence against a hypothesis that is out.
fn against(v: &Verdict) -> String {
    let mut reasons = Vec::new();
    if v.infeasible > 0 {
        reasons.push(format!("no solution in range for {} of {} records", v.infeasible, v.tested));
    }
    if let Some(off) = v.mean_off.filter(|_| v.infeasible == 0 && v.auxiliary_off == 0) {
        reasons.push(format!("a mean {off:.0} standard errors off"));
    }
    if v.auxiliary_off > 0 {
        reasons.push(format!("{} of {} auxiliary records off", v.auxiliary_off, v.auxiliary));
    }
    format!("{} has {}", v.hypothesis, reasons.join(", "))
}

/// Describes the outcome. `searched` is the search of signs and orders, if there was one; `d` is
/// the number of features.
pub(super) fn told(
    undone: &RemainingHypotheses,
    records: usize,
    searched: Option<&Search>,
    d: usize,
) -> String {
    let RemainingHypotheses { hypothesis, left, not_ruled_out, counts } = undone;
    let out: Vec<String> = counts.iter().filter(|v| v.rejected()).map(against).collect();
    let out = if out.is_empty() { String::new() } else { format!("; {}", out.join("; ")) };
    let open = match not_ruled_out.as_slice() {
        [] => String::new(),
        open => format!("; not ruled out: {}", list(&open.iter().collect::<Vec<_>>())),
    };
    let cut = searched.filter(|s| s.cut).map_or("", |_| ", at which the search was cut short");
    let Some(one) = hypothesis else {
        if !left.is_empty() {
            let all = list(&left.iter().collect::<Vec<_>>());
            return format!(
                "cannot tell: {all} all explain the {records} records{out}; {AS_RELEASED}"
            );
        }
        let patterns = match searched {
            Some(s) => format!(
                ", nor does any of {} patterns of signs and orders that were tried{cut}",
                s.tried
            ),
            None if d > MAX_SEARCHED => {
                format!("; signs and orders of more than {MAX_SEARCHED} features are not searched")
            }
            None => String::new(),
        };
        return format!(
            "no hypothesis explains the {records} records{patterns}{out}; {AS_RELEASED}"
        );
    };
    let same: Vec<&Hypothesis> = left.iter().filter(|h| *h != one).collect();
    let same =
        if same.is_empty() { String::new() } else { format!(", {} being the same", list(&same)) };
    match (one, searched) {
        (Hypothesis::Identity, _) => {
            format!(
                "nothing speaks against the parameters as released ({records} records{same}{out}){open}; {OTHERS}"
            )
        }
        (_, Some(s)) => format!(
            "undone: {one}, if one transform was used: the best found of {} patterns of signs and orders{cut}, it explains the \
             {records} records{same} ({}){open}; patterns farther away were not compared, {OTHERS}",
            s.tried,
            out.trim_start_matches("; ")
        ),
        (Hypothesis::AfterComplement(_), None) => format!(
            "undone: {one}, two transforms, where none explains the {records} records by itself{same} ({}){open}; {OTHERS}",
            out.trim_start_matches("; ")
        ),
        (_, None) => format!(
            "undone: {one}, if one transform was used: of {} it alone explains the {records} records{same} ({}){open}; {OTHERS}",
            list(&counts.iter().map(|v| &v.hypothesis).collect::<Vec<_>>()),
            out.trim_start_matches("; ")
        ),
    }
}
