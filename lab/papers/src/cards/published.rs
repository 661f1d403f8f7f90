//! Values that papers published: decoded from their authors' files, or typed from their text.

use std::sync::OnceLock;

use serde::Deserialize;

use super::card::{CardError, FileCurve, Published};

/// R's curves, decoded from the result files of its authors.
pub const R_CURVES: &str = include_str!("../../cards/published/r_curves.json");

/// A published curve.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedCurve {
    /// The source of the values.
    pub source: String,
    /// The points of the axis.
    pub points: Vec<usize>,
    /// The value at each point.
    pub values: Vec<f64>,
    /// The standard deviation over windows, if it was published.
    pub spread: Option<Vec<f64>>,
}

/// An entry of the file.
#[derive(Debug, Deserialize)]
struct Entry {
    data: String,
    group: String,
    quantity: String,
    #[serde(default)]
    when: Option<String>,
    d: Vec<usize>,
    value: Vec<f64>,
    #[serde(default)]
    std_over_windows: Option<Vec<f64>>,
}

fn entries() -> Result<&'static [Entry], CardError> {
    static ENTRIES: OnceLock<Result<Vec<Entry>, String>> = OnceLock::new();
    let read = || serde_json::from_str(R_CURVES).map_err(|e| e.to_string());
    let entries = ENTRIES.get_or_init(read).as_ref();
    entries
        .map(Vec::as_slice)
        .map_err(|reason| CardError::File { file: "r_curves.json".into(), reason: reason.clone() })
}

/// Returns the curve that a card names.
///
/// # Errors
/// [`CardError::Card`] if the files have no entry with these names, or more than one.
pub fn published(card: &str, named: &Published) -> Result<PublishedCurve, CardError> {
    let Some(file) = &named.file else {
        let source = named.source.clone().unwrap_or_default();
        let (points, values) = (named.points.clone(), named.values.clone());
        return Ok(PublishedCurve { source, points, values, spread: None });
    };
    let FileCurve { group, data, quantity, when } = file;
    let fits = |entry: &&Entry| {
        entry.group == *group
            && entry.data == *data
            && entry.quantity == *quantity
            && entry.when == *when
    };
    let mut found = entries()?.iter().filter(fits);
    let wrong = |what: &str| CardError::Card {
        id: card.to_owned(),
        reason: format!(
            "r_curves.json has {what} curve `{quantity}` of {data} in {group}, {when:?}"
        ),
    };
    let entry = found.next().ok_or_else(|| wrong("no"))?;
    if found.next().is_some() {
        return Err(wrong("more than one"));
    }
    Ok(PublishedCurve {
        source: format!("the authors' files, {group}"),
        points: entry.d.clone(),
        values: entry.value.clone(),
        spread: entry.std_over_windows.clone(),
    })
}
