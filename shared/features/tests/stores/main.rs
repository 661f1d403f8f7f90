//! One suite, run over all stores: CSV, Parquet in memory and on disk, SQLite, an HTTP feature service, and, where `CLOISON_POSTGRES_URL` names a server,
//! PostgreSQL.
#![allow(clippy::unwrap_used, missing_docs)]

mod awkward;
mod http;
mod parquet;
mod parquet_damaged;
mod parquet_on_disk;
mod postgres;
mod proxy;
mod rows;
mod service;
mod site;
mod state;
mod suite;
