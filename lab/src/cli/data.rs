//! The options that name data and split.

use std::path::PathBuf;

use clap::Args;
use vfl_datasets::{Dataset, DatasetName, DatasetSpec, Encoding, VerticalSplit, vertical_split};
use vfl_server::cli::CliError;
use vfl_studies::{DataSpec, SubjectSpec};

use super::tables::TableArgs;

/// The data set, and the split of its columns between the parties.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Data set: synthetic (generated), satellite, robot, bank, pendigits (these come with the
    /// program), adult, grid, credit, drive, and the images mnist, cifar10, cifar100.
    #[arg(long, value_name = "NAME", default_value = "synthetic")]
    pub dataset: String,
    /// Directory of the public data sets that do not come with the program
    /// (scripts/fetch-datasets.sh fetches them).
    #[arg(long, value_name = "DIR", env = "CLOISON_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Columns of the data set, where papers take different ones. bank: without_duration (default),
    /// authors, all; adult: all (default), without_education; grid: without_stab (default),
    /// with_stab.
    #[arg(long, value_name = "NAME", alias = "bank-columns")]
    pub variant: Option<String>,
    /// Number of passive features. Default: one less than the classes; exact scores determine up to
    /// this many. Images are cut into images of equal width, one for each party.
    #[arg(long, value_name = "D")]
    pub passive_features: Option<usize>,
    /// First passive column, from 0; the others follow it, wrapping round.
    #[arg(long, value_name = "K0", default_value_t = 0)]
    pub first_column: usize,
    /// Number of passive parties that share the passive features.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub passive_parties: u8,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// The caller's own tables.
    #[command(flatten)]
    pub tables: TableArgs,
}

impl Default for DataArgs {
    fn default() -> Self {
        Self {
            dataset: "synthetic".into(),
            data_dir: None,
            variant: None,
            passive_features: None,
            first_column: 0,
            passive_parties: 1,
            seed: 7,
            tables: TableArgs::default(),
        }
    }
}

impl DataArgs {
    /// Returns the specification of the data.
    ///
    /// # Errors
    /// [`CliError::Input`] for an unknown name, a variant that the set does not have, or an option
    /// of tables without a table.
    pub fn spec(&self) -> Result<DataSpec, CliError> {
        let of_table =
            |option| CliError::Input(format!("{option} is of a table: add --table FILE"));
        if let Some(tables) = self.tables.spec(self.seed).map_err(of_table)? {
            return Ok(DataSpec::Tables(tables));
        }
        let name: DatasetName = self.dataset.parse().map_err(CliError::input)?;
        let mut spec = DatasetSpec::new(name, self.data_dir.clone(), self.seed);
        spec.encoding = Encoding::Ordinal;
        if let Some(text) = &self.variant {
            spec.variant = name.variant(text).map_err(CliError::input)?;
        }
        Ok(spec.into())
    }

    /// Loads data whose label is one of several classes.
    ///
    /// # Errors
    /// [`CliError::Input`] that names the file, the column or the set.
    pub fn load(&self) -> Result<Dataset, CliError> {
        self.spec()?.load().map_err(|e| CliError::Input(format!("{e:#}")))
    }

    /// Loads data with any label.
    ///
    /// # Errors
    /// As [`DataArgs::load`].
    pub fn load_any(&self) -> Result<Dataset, CliError> {
        self.spec()?.load_any().map_err(|e| CliError::Input(format!("{e:#}")))
    }

    /// Returns the number of passive parties.
    pub(super) fn parties(&self) -> usize {
        match self.tables.tables.is_empty() {
            true => self.passive_parties.into(),
            false => self.tables.parties(),
        }
    }

    /// Returns the data set and its split for a study.
    ///
    /// # Errors
    /// As [`DataArgs::spec`].
    pub(super) fn subject(&self) -> Result<SubjectSpec, CliError> {
        Ok(SubjectSpec {
            data: self.spec()?,
            first_column: self.first_column,
            passive_features: self.passive_features,
            passive_parties: self.parties(),
        })
    }

    /// Returns the split of the columns.
    ///
    /// # Errors
    /// [`CliError::Input`] if there are not enough columns.
    pub fn split(&self, dataset: &Dataset) -> Result<VerticalSplit, CliError> {
        vertical_split(dataset, self.first_column, self.passive_features, self.parties())
            .map_err(CliError::input)
    }
}
