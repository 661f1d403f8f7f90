//! The split of a data set's columns where only sizes are given.

use super::dataset::Dataset;
use super::names::DatasetName;
use super::vertical::{VerticalSplit, VerticalSplitError, passive_names};

/// Splits the columns of a data set between an active party and `parties` passive ones: a window of
/// `passive_features` columns from `first_column`. Without a width, a set that came in tables of
/// its parties is split as it came, an image is cut into images, and any other set gets one passive
/// column less than there are classes.
///
/// # Errors
/// [`VerticalSplitError`] if there are not enough columns for the parties.
pub fn vertical_split(
    dataset: &Dataset,
    first_column: usize,
    passive_features: Option<usize>,
    parties: usize,
) -> Result<VerticalSplit, VerticalSplitError> {
    if let (Some(own), None) = (dataset.owners(), passive_features) {
        return Ok(own.clone());
    }
    let total = dataset.features().len();
    let image = dataset.name().parse().ok().and_then(DatasetName::image);
    let names = passive_names(parties)?;
    if let (Some(shape), None) = (image, passive_features) {
        return VerticalSplit::image_columns(shape, &names);
    }
    let d = passive_features
        .unwrap_or_else(|| (dataset.class_names().len() - 1).max(parties).min(total));
    VerticalSplit::shared_window(first_column, d, total, &names)
}
