//! The table `[data]` of a party's config file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::FeatureTable;
use vfl_core::data::{
    CsvDialect, CsvRows, DecimalMark, Limits, Separator, TableError, read_schema,
};

use crate::features::{Features, RemoteStore};
use crate::stores::bad_cells::with_bad_cells;
use crate::stores::cache::CachedStore;
use crate::stores::table_file::{TableFile, parquet_rows, parquet_store};
use crate::stores::{
    CacheConfig, DataError, HttpConfig, HttpStore, ParquetConfig, PostgresConfig, SqliteConfig,
    SqliteStore,
};

/// The table `[data]`: a schema, and one source of the values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The schema file: the columns and their public ranges.
    pub schema: PathBuf,
    /// A CSV file, read into memory.
    pub csv: Option<PathBuf>,
    /// The separator of the CSV file: `,`, `;`, `|` or `tab`. Default: that of its header.
    pub separator: Option<Separator>,
    /// The decimal mark of the CSV file's numbers: `.` or `,`. Default a point.
    pub decimal: Option<DecimalMark>,
    /// A Parquet file, read into memory or left on disk.
    pub parquet: Option<ParquetConfig>,
    /// A SQLite file, made by `load-features`.
    pub sqlite: Option<SqliteConfig>,
    /// A table or view of a PostgreSQL server.
    pub postgres: Option<PostgresConfig>,
    /// An HTTP feature service.
    pub http: Option<HttpConfig>,
    /// The cache of rows of a remote store. Default none.
    pub cache: Option<CacheConfig>,
}

impl DataConfig {
    /// Creates the settings of a CSV file with its schema.
    #[must_use]
    pub fn csv(schema: impl Into<PathBuf>, csv: impl Into<PathBuf>) -> Self {
        Self { csv: Some(csv.into()), ..Self::of(schema) }
    }

    /// Creates the settings of a schema alone.
    #[must_use]
    pub fn of(schema: impl Into<PathBuf>) -> Self {
        Self {
            schema: schema.into(),
            csv: None,
            separator: None,
            decimal: None,
            parquet: None,
            sqlite: None,
            postgres: None,
            http: None,
            cache: None,
        }
    }

    /// Reads the schema, and the table if it is a file, or the ids of a Parquet file that stays on
    /// disk. Other stores are not contacted yet.
    ///
    /// # Errors
    /// [`DataError`] that names the file or the key.
    pub fn open(&self) -> Result<Features, DataError> {
        self.check_choice()?;
        let schema = read_schema(&self.schema)?;
        if let Some(csv) = &self.csv {
            let dialect = self.dialect();
            let limits = Limits::default();
            let table = FeatureTable::from_csv_with(&self.schema, csv, dialect, &limits);
            let file = TableFile { path: csv, dialect };
            return Ok(table.map_err(|e| with_bad_cells(e, file, &schema))?.into());
        }
        if let Some(parquet) = self.parquet.as_ref().filter(|parquet| parquet.memory) {
            let table = table_of_parquet(schema.clone(), &parquet.file);
            return Ok(table.map_err(|e| with_bad_cells(e, &parquet.file, &schema))?.into());
        }
        let store = self.remote(schema)?;
        match &self.cache {
            Some(cache) => Ok(Features::Remote(Arc::new(CachedStore::new(store, cache)?))),
            None => Ok(Features::Remote(store)),
        }
    }

    /// Opens the same source for the label alone, if it is a number: as one feature, normalised by
    /// the range that the schema declares. `None` without such a label or such a range.
    ///
    /// # Errors
    /// As [`DataConfig::open`].
    pub fn open_number(&self) -> Result<Option<Features>, DataError> {
        self.check_choice()?;
        let Some(schema) = read_schema(&self.schema)?.number_schema() else { return Ok(None) };
        if let Some(csv) = &self.csv {
            let (dialect, limits) = (self.dialect(), Limits::default());
            let file = TableFile { path: csv, dialect };
            let table = CsvRows::open(csv, dialect, &limits)
                .and_then(|mut rows| FeatureTable::from_rows(schema.clone(), &mut rows, &limits));
            return Ok(Some(table.map_err(|e| with_bad_cells(e, file, &schema))?.into()));
        }
        if let Some(parquet) = self.parquet.as_ref().filter(|parquet| parquet.memory) {
            let table = table_of_parquet(schema.clone(), &parquet.file);
            return Ok(Some(table.map_err(|e| with_bad_cells(e, &parquet.file, &schema))?.into()));
        }
        Ok(Some(Features::Remote(self.remote(schema)?)))
    }

    /// Returns the separator and the decimal mark of CSV files.
    #[must_use]
    pub fn dialect(&self) -> CsvDialect {
        CsvDialect { separator: self.separator, decimal: self.decimal.unwrap_or_default() }
    }

    fn remote(&self, schema: FeatureSchema) -> Result<Arc<dyn RemoteStore>, DataError> {
        if let Some(parquet) = &self.parquet {
            return parquet_store(parquet, schema);
        }
        if let Some(sqlite) = &self.sqlite {
            return Ok(Arc::new(SqliteStore::new(sqlite.clone(), schema)?));
        }
        if let Some(postgres) = &self.postgres {
            return postgres_store(postgres, schema);
        }
        if let Some(http) = &self.http {
            return Ok(Arc::new(HttpStore::new(http.clone(), schema)?));
        }
        Err(DataError::Config(NONE.into()))
    }

    fn check_choice(&self) -> Result<(), DataError> {
        let named = [
            ("csv", self.csv.is_some(), false),
            (
                "parquet",
                self.parquet.is_some(),
                self.parquet.as_ref().is_some_and(|parquet| !parquet.memory),
            ),
            ("sqlite", self.sqlite.is_some(), true),
            ("postgres", self.postgres.is_some(), true),
            ("http", self.http.is_some(), true),
        ];
        let chosen: Vec<_> = named.iter().filter(|(_, is, _)| *is).collect();
        match chosen.as_slice() {
            [] => Err(DataError::Config(NONE.into())),
            [(name, ..)]
                if *name != "csv" && (self.separator.is_some() || self.decimal.is_some()) =>
            {
                Err(DataError::Config(format!(
                    "`separator` and `decimal` are of a CSV file, and the source is `{name}`"
                )))
            }
            [(name, _, false)] if self.cache.is_some() => Err(DataError::Config(format!(
                "`cache` is for a store that is not in memory, and `{name}` is read into it"
            ))),
            [_] => Ok(()),
            [(a, ..), (b, ..), ..] => {
                Err(DataError::Config(format!("`{a}` and `{b}` are both named; name one of them")))
            }
        }
    }
}

const NONE: &str = "no source is named; name one of `csv`, `parquet`, `sqlite`, `postgres`, `http`";

/// Reads a table of the columns that the schema names; a Parquet file may have others.
pub(crate) fn table_of_parquet(
    schema: FeatureSchema,
    file: &Path,
) -> Result<FeatureTable, TableError> {
    let limits = Limits::default();
    let wanted: Vec<String> =
        schema.source_columns().into_iter().map(|column| column.name).collect();
    let mut rows = parquet_rows(file, Some(&wanted), &limits)?;
    FeatureTable::from_rows(schema, &mut *rows, &limits)
}

/// Creates the store of a table.
#[cfg(feature = "postgres")]
fn postgres_store(
    config: &PostgresConfig,
    schema: FeatureSchema,
) -> Result<Arc<dyn RemoteStore>, DataError> {
    Ok(Arc::new(crate::stores::PostgresStore::new(config.clone(), schema)?))
}

/// Refuses a table, and names the fix.
#[cfg(not(feature = "postgres"))]
fn postgres_store(_: &PostgresConfig, _: FeatureSchema) -> Result<Arc<dyn RemoteStore>, DataError> {
    Err(DataError::Config(format!("[data.postgres]: {}", vfl_state::WITHOUT_POSTGRES)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_source_is_named() {
        let schema = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(schema.path(), "id = \"id\"\n").unwrap();
        let of = DataConfig::of(schema.path());
        let said = |config: &DataConfig| config.open().unwrap_err().to_string();
        assert!(said(&of).contains("name one of"));
        let csv = DataConfig { csv: Some("x.csv".into()), ..of.clone() };
        assert!(said(&csv).contains("x.csv"));
        let parquet = Some(ParquetConfig::new("x.parquet"));
        let both = DataConfig { parquet, ..csv.clone() };
        assert!(said(&both).contains("`csv` and `parquet`"));
        let comma = DataConfig { decimal: Some(DecimalMark::Comma), ..of.clone() };
        let parquet = Some(ParquetConfig::new("x.parquet"));
        let comma = DataConfig { parquet, ..comma };
        assert!(said(&comma).contains("the source is `parquet`"));
        let file = TableFile { path: Path::new("x.parquet"), dialect: comma.dialect() };
        let refused = crate::stores::rows_of(file, None).err().map(|e| e.to_string());
        assert!(refused.is_some_and(|error| error.contains("leave these options out")));
        let cached = DataConfig { cache: Some(CacheConfig { bytes: 1 << 20, ttl_s: 10 }), ..csv };
        assert!(said(&cached).contains("`cache`"));
    }
}
