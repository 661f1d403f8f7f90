//! The data of a study: a data set by its name, or the caller's own tables.

use vfl_datasets::{DataError, Dataset, DatasetSpec, ImageShape, load};

use crate::tables::TableSpec;

/// The data of a study.
#[derive(Debug, Clone, PartialEq)]
pub enum DataSpec {
    /// A data set by its name.
    Set(DatasetSpec),
    /// The caller's own tables.
    Tables(TableSpec),
}

impl From<DatasetSpec> for DataSpec {
    fn from(spec: DatasetSpec) -> Self {
        Self::Set(spec)
    }
}

impl DataSpec {
    /// Loads data whose label is one of several classes.
    ///
    /// # Errors
    /// An error that names the file, the column or the set; [`DataError::NumberLabel`].
    pub fn load(&self) -> anyhow::Result<Dataset> {
        let dataset = self.load_any()?;
        match dataset.is_of_numbers() {
            true => Err(DataError::NumberLabel.into()),
            false => Ok(dataset),
        }
    }

    /// Loads data with any label.
    ///
    /// # Errors
    /// As [`DataSpec::load`], but for numbers.
    pub fn load_any(&self) -> anyhow::Result<Dataset> {
        match self {
            Self::Set(spec) => Ok(load(spec)?),
            Self::Tables(spec) => spec.load(),
        }
    }

    /// Returns the shape of the records, if they are images.
    #[must_use]
    pub fn image(&self) -> Option<ImageShape> {
        match self {
            Self::Set(spec) => spec.name.image(),
            Self::Tables(_) => None,
        }
    }
}
