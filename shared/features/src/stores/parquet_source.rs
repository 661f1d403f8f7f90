//! A Parquet file as a source of features: its settings, and the reader where the program was built
//! with it (feature `parquet`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::{CsvRows, Limits, RawRows, TableError};

use crate::features::RemoteStore;
use crate::stores::DataError;

/// The table `[data.parquet]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetConfig {
    /// The file, uncompressed or compressed by Snappy or Zstandard. It may have more columns than
    /// the schema names.
    pub file: PathBuf,
    /// True to read the file into memory. Otherwise it stays on disk: its ids are read once, and
    /// values when they are requested. Default true.
    #[serde(default = "memory")]
    pub memory: bool,
    /// The maximum size in bytes of the cached values of a file that stays on disk. Default 64 MiB.
    #[serde(default = "cache_bytes")]
    pub cache_bytes: usize,
}

fn memory() -> bool {
    true
}

fn cache_bytes() -> usize {
    64 << 20
}

impl ParquetConfig {
    /// Creates the settings of a file that is read into memory.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), memory: memory(), cache_bytes: cache_bytes() }
    }

    /// Creates the settings of a file that stays on disk.
    #[must_use]
    pub fn on_disk(file: impl Into<PathBuf>) -> Self {
        Self { memory: false, ..Self::new(file) }
    }
}

/// Opens the rows of a file, by its name: `.parquet`, or else CSV.
pub(crate) fn rows_of(
    file: &Path,
    wanted: Option<&[String]>,
) -> Result<Box<dyn RawRows>, TableError> {
    let limits = Limits { file_bytes: u64::MAX, records: usize::MAX, ..Limits::default() };
    match file.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet")) {
        true => parquet_rows(file, wanted, &limits),
        false => Ok(Box::new(CsvRows::open(file, &limits)?)),
    }
}

/// Opens the rows of a Parquet file.
#[cfg(feature = "parquet")]
pub(crate) fn parquet_rows(
    file: &Path,
    wanted: Option<&[String]>,
    limits: &Limits,
) -> Result<Box<dyn RawRows>, TableError> {
    Ok(Box::new(crate::stores::ParquetRows::open(file, wanted, limits)?))
}

/// Opens a Parquet file that stays on disk.
#[cfg(feature = "parquet")]
pub(crate) fn parquet_store(
    config: &ParquetConfig,
    schema: FeatureSchema,
) -> Result<Arc<dyn RemoteStore>, DataError> {
    Ok(Arc::new(crate::stores::ParquetStore::open(config, schema)?))
}

/// Refuses a Parquet file, and names the fix.
#[cfg(not(feature = "parquet"))]
pub(crate) fn parquet_rows(
    file: &Path,
    _: Option<&[String]>,
    _: &Limits,
) -> Result<Box<dyn RawRows>, TableError> {
    let absent = "this program was built without Parquet: build it with `--features parquet`, or \
                  convert the file to CSV";
    let absent = std::io::Error::new(std::io::ErrorKind::Unsupported, absent);
    let problem = vfl_core::data::TableProblem::Io(absent);
    Err(TableError { file: file.to_owned(), place: None, column: None, problem })
}

/// Refuses a Parquet file, and names the fix.
#[cfg(not(feature = "parquet"))]
pub(crate) fn parquet_store(
    config: &ParquetConfig,
    _: FeatureSchema,
) -> Result<Arc<dyn RemoteStore>, DataError> {
    let refused = parquet_rows(&config.file, None, &Limits::default());
    refused.map_or_else(|e| Err(e.into()), |_| Err(DataError::Config("no Parquet".into())))
}
