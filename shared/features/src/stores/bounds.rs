//! The limits of all remote stores, and the errors of `[data]`.

use std::time::Duration;

use vfl_core::data::TableError;

/// Errors from opening the features that `[data]` names.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file has cells that its schema does not allow.
    #[error("{first}\nAll such cells of the file:{counts}")]
    BadCells {
        /// The first one.
        first: Box<TableError>,
        /// All of them by column and problem, a line each.
        counts: String,
    },
    /// The settings of a store are invalid.
    #[error("{0}")]
    Config(String),
}

/// The time-outs and limits of a remote store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: u32,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
}

impl Bounds {
    pub(crate) fn new(
        of: &str,
        connections: u32,
        timeout_ms: u64,
        connect_timeout_ms: u64,
    ) -> Result<Self, DataError> {
        let range = |name: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(DataError::Config(format!(
                "`{name}` in [data.{of}] is {value}, it must be from 1 to {most}"
            ))),
        };
        range("connections", u64::from(connections), 256)?;
        Ok(Self {
            connections,
            timeout: Duration::from_millis(range("timeout_ms", timeout_ms, 600_000)?),
            connect_timeout: Duration::from_millis(range(
                "connect_timeout_ms",
                connect_timeout_ms,
                600_000,
            )?),
        })
    }
}

/// Returns the default of `connections` in [`Bounds`].
pub(crate) fn connections() -> u32 {
    8
}

/// Returns the default time-out: shorter than the time that a coordinator waits for a passive
/// party.
pub(crate) fn timeout_ms() -> u64 {
    5_000
}

pub(crate) fn connect_timeout_ms() -> u64 {
    2_000
}
