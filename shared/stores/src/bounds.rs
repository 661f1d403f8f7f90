//! Bounds that every store elsewhere has, and what is wrong with a `[data]`.

use std::time::Duration;

use vfl_shared::data::TableError;

/// Why the features that `[data]` names cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file.
    #[error(transparent)]
    Table(#[from] TableError),
    /// What `[data]` says of a store.
    #[error("{0}")]
    Config(String),
}

/// Time-outs and bounds that every store elsewhere has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: u32,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
}

impl Bounds {
    pub(crate) fn new(of: &str, connections: u32, timeout_ms: u64, connect_timeout_ms: u64) -> Result<Self, DataError> {
        let range = |name: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(DataError::Config(format!("`{name}` in [data.{of}] is {value}, it must be from 1 to {most}"))),
        };
        range("connections", u64::from(connections), 256)?;
        Ok(Self {
            connections,
            timeout: Duration::from_millis(range("timeout_ms", timeout_ms, 600_000)?),
            connect_timeout: Duration::from_millis(range("connect_timeout_ms", connect_timeout_ms, 600_000)?),
        })
    }
}

/// Defaults of [`Bounds`].
pub(crate) fn connections() -> u32 {
    8
}

/// Below the time that a coordinator waits for a passive party.
pub(crate) fn timeout_ms() -> u64 {
    5_000
}

pub(crate) fn connect_timeout_ms() -> u64 {
    2_000
}
