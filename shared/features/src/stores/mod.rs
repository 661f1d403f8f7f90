//! The feature stores of a party, chosen by `[data]` in its config: a CSV or Parquet file that is
//! read into memory, or a remote store that returns rows by id: a Parquet file on disk, a SQLite
//! file, a PostgreSQL table or an HTTP feature service.
//!
//! Every store returns raw values. One implementation reads, checks and normalises them
//! ([`FeatureSchema`](vfl_core::data::schema::FeatureSchema)), so that the same values give the
//! same features to the last bit. An id that a store does not hold is a row status. Any other
//! failure to read the features of a record (a time-out, a broken connection, a value outside its
//! range, NULL) is an error of the call. Messages and logs contain neither values nor ids.

mod bad_cells;
mod bounds;
mod cache;
mod config;
mod http;
mod infer;
mod load;
mod parquet_config;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_footer;
#[cfg(feature = "parquet")]
mod parquet_pages;
#[cfg(feature = "parquet")]
mod parquet_store;
#[cfg(feature = "postgres")]
mod postgres;
mod postgres_config;
mod sql;
mod sqlite;
mod table_file;

pub use infer::MAX_CATEGORIES;

pub use bad_cells::with_bad_cells;
pub use bounds::DataError;
pub use cache::CacheConfig;
pub use config::DataConfig;
pub use http::{HttpConfig, HttpStore};
pub use infer::{InferError, Inference, InferredSchema, infer};
pub use load::{LoadError, load_sqlite};
pub use parquet_config::ParquetConfig;
#[cfg(feature = "parquet")]
pub use parquet_file::ParquetRows;
#[cfg(feature = "parquet")]
pub use parquet_store::ParquetStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use postgres_config::PostgresConfig;
pub use sqlite::{SqliteConfig, SqliteStore};
pub use table_file::{TableFile, rows_of};
