//! The configuration of a table or view of a PostgreSQL server.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use crate::stores::bounds::{connect_timeout_ms, connections, timeout_ms};

/// The table `[data.postgres]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresConfig {
    /// The URL `postgres://USER@HOST/DATABASE`. A password may be in it, in `url_file`, in
    /// `PGPASSWORD` or in `PGPASSFILE`.
    pub url: Option<String>,
    /// A file whose only line is the URL.
    pub url_file: Option<PathBuf>,
    /// The table or view, with its schema if it is not in the search path: `bank.customers`.
    pub table: String,
    /// The maximum number of connections. Default 8.
    #[serde(default = "connections")]
    pub connections: u32,
    /// The time limit of a look-up, in milliseconds. Default 5000.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// The time limit of a connection attempt, in milliseconds. Default 2000.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
}

/// Omits the URL, which may hold a password.
impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PostgresConfig(table {:?}, at most {} connections)",
            self.table, self.connections
        )
    }
}

impl PostgresConfig {
    /// Creates the settings of a table on the server at this URL.
    #[must_use]
    pub fn new(url: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            url_file: None,
            table: table.into(),
            connections: connections(),
            timeout_ms: timeout_ms(),
            connect_timeout_ms: connect_timeout_ms(),
        }
    }
}
