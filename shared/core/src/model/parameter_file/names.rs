//! The names of classes and features in a parameter file.

use std::collections::HashMap;

use super::ParameterFileError;
use super::error::MAX_NAME_BYTES;

pub(in crate::model) fn check_names(
    key: &'static str,
    names: &[String],
) -> Result<(), ParameterFileError> {
    let mut seen = std::collections::HashSet::new();
    for (name, at) in names.iter().zip(1..) {
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(ParameterFileError::Name { key, at });
        }
        if !seen.insert(name.as_str()) {
            return Err(ParameterFileError::Duplicate { key, name: name.clone() });
        }
    }
    Ok(())
}

/// Lists up to five names in quotes, and the number of the others.
fn listed(names: &[&String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(5) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the place in `have` of each of `wanted`.
pub(in crate::model) fn places(
    key: &'static str,
    what: &'static str,
    have: &[String],
    wanted: &[String],
) -> Result<Vec<usize>, ParameterFileError> {
    let at: HashMap<&String, usize> = have.iter().zip(0..).collect();
    let missing: Vec<&String> = wanted.iter().filter(|name| !at.contains_key(name)).collect();
    let known: std::collections::HashSet<&String> = wanted.iter().collect();
    let unknown: Vec<&String> = have.iter().filter(|name| !known.contains(name)).collect();
    let difference = match (missing.is_empty(), unknown.is_empty()) {
        (true, true) => {
            return Ok(wanted.iter().filter_map(|name| at.get(name).copied()).collect());
        }
        (false, true) => format!("{} missing", listed(&missing)),
        (true, false) => format!("{} unknown here", listed(&unknown)),
        (false, false) => {
            format!("{} missing, {} unknown here", listed(&missing), listed(&unknown))
        }
    };
    Err(ParameterFileError::Names { key, what, difference })
}
