//! What a document's files are called.

use super::document::Document;
use super::figure::Figure;

/// The name of its files, but for what they end with.
pub(super) fn stem(document: &Document) -> String {
    let set = &document.dataset;
    let other = set.variant.as_ref().filter(|variant| own_variant(document).as_ref() != Some(*variant));
    let variant = other.map(|variant| format!("-{variant}")).unwrap_or_default();
    format!("{}-{}{variant}", document.figure, set.name)
}

/// The variant of its data set that a figure takes unless told otherwise, where both have these names.
fn own_variant(document: &Document) -> Option<String> {
    let figure = Figure::ALL.iter().find(|figure| figure.as_str() == document.figure)?;
    let dataset = document.dataset.name.parse().ok()?;
    Some(figure.default_variant(dataset).to_string())
}
