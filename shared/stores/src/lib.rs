//! Where a party keeps its features, chosen by `[data]` in its config: a CSV or Parquet file, which is read into memory, or a Parquet file
//! that is not, a SQLite file, a PostgreSQL table or an HTTP feature service, which are asked for rows by id.
//!
//! Every store gives raw values. The schema reads, checks and normalises them with one code ([`vfl_shared::data::FeatureSchema`]), so that
//! the same values give the same features to the last bit. An id that a store does not hold is a row status. Whatever else keeps
//! the features of a record from being known (a time-out, a broken connection, a value outside its range, NULL) is an error of the
//! call. Neither values nor ids are in messages or logs.
//!
//! [`StateConfig`] (`[state]`) is where several processes of a party keep what they must not decide twice.

mod bounds;
mod cache;
pub mod cli;
mod config;
mod http;
mod infer;
mod load;
mod parquet_file;
mod parquet_footer;
mod parquet_pages;
mod parquet_store;
mod postgres;
mod sql;
mod sqlite;
mod state;

pub use bounds::DataError;
pub use cache::CacheConfig;
pub use config::DataConfig;
pub use http::{HttpConfig, HttpStore};
pub use infer::{InferError, Inference, infer};
pub use load::{LoadError, load_sqlite};
pub use parquet_file::{ParquetConfig, ParquetRows};
pub use parquet_store::ParquetStore;
pub use postgres::{PostgresConfig, PostgresStore};
pub use sqlite::{SqliteConfig, SqliteStore};
pub use state::{StateConfig, place_of_state};
