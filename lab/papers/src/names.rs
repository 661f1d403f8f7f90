//! The names of a document's files.

use super::document::Document;
use super::figure::Figure;

/// Returns the name of its files, without the extension.
pub(super) fn stem(document: &Document) -> String {
    let set = &document.dataset;
    let other =
        set.variant.as_ref().filter(|variant| own_variant(document).as_ref() != Some(*variant));
    let variant = other.map(|variant| format!("-{variant}")).unwrap_or_default();
    format!("{}-{}{variant}", document.figure, set.name)
}

/// Returns the default variant of the figure's data set, if both names are known.
fn own_variant(document: &Document) -> Option<String> {
    let figure = Figure::ALL.iter().find(|figure| figure.as_str() == document.figure)?;
    let dataset = document.dataset.name.parse().ok()?;
    Some(figure.default_variant(dataset).to_string())
}
