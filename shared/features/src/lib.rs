//! Stores of a party's features, as `[data]` names them: CSV and Parquet files, SQLite, PostgreSQL
//! and a feature service.

pub mod features;
mod id_file;
pub mod stores;

pub use id_file::{IdFileError, id_forms, read_ids};
