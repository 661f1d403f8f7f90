//! Files as sources of features: CSV, and Parquet where the program was built with its reader
//! (feature `parquet`).

use std::path::Path;
use std::sync::Arc;

use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::{CsvDialect, CsvRows, Limits, RawRows, TableError, TableProblem};

use crate::features::RemoteStore;
use crate::stores::{DataError, ParquetConfig};

/// A file with a table: Parquet if its name ends in `.parquet`, or else CSV.
#[derive(Debug, Clone, Copy)]
pub struct TableFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its separator and decimal mark, if it is CSV.
    pub dialect: CsvDialect,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for TableFile<'a> {
    fn from(path: &'a P) -> Self {
        Self { path: path.as_ref(), dialect: CsvDialect::default() }
    }
}

/// Opens the rows of a file. `wanted` names the columns that a Parquet file is read for; `None`:
/// all.
///
/// # Errors
/// [`TableError`] names the file.
pub fn rows_of<'a>(
    file: impl Into<TableFile<'a>>,
    wanted: Option<&[String]>,
) -> Result<Box<dyn RawRows>, TableError> {
    let TableFile { path, dialect } = file.into();
    let limits = Limits { file_bytes: u64::MAX, records: usize::MAX, ..Limits::default() };
    match path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet")) {
        true if dialect != CsvDialect::default() => {
            let problem = TableProblem::NotCsv;
            Err(TableError { file: path.to_owned(), place: None, column: None, problem })
        }
        true => parquet_rows(path, wanted, &limits),
        false => Ok(Box::new(CsvRows::open(path, dialect, &limits)?)),
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
    Err(without_parquet(file))
}

/// Refuses a Parquet file, and names the fix.
#[cfg(not(feature = "parquet"))]
pub(crate) fn parquet_store(
    config: &ParquetConfig,
    _: FeatureSchema,
) -> Result<Arc<dyn RemoteStore>, DataError> {
    Err(without_parquet(&config.file).into())
}

#[cfg(not(feature = "parquet"))]
fn without_parquet(file: &Path) -> TableError {
    let reason = "this program was built without Parquet (feature `parquet`): build it with `cargo \
                  build --release --workspace --bins --features full`, or convert the file to CSV";
    let error = std::io::Error::new(std::io::ErrorKind::Unsupported, reason);
    let problem = TableProblem::Io(error);
    TableError { file: file.to_owned(), place: None, column: None, problem }
}
