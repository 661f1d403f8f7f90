//! Stores of a party's features: Parquet, SQLite, PostgreSQL and a feature service.

pub mod features;
mod id_file;
pub mod stores;

pub use id_file::{IdFileError, id_forms, read_ids};
