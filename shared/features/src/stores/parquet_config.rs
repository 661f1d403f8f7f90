//! The settings of a Parquet file.

use std::path::PathBuf;

use serde::Deserialize;

/// The table `[data.parquet]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetConfig {
    /// The file, uncompressed or compressed by Snappy or Zstandard. It may have more columns than
    /// the schema names.
    pub file: PathBuf,
    /// True to read the file into memory. Otherwise it stays on disk: its ids are read once, and
    /// values when they are requested. Default true.
    #[serde(default = "memory")]
    pub memory: bool,
    /// The maximum size in bytes of the cached values of a file that stays on disk. Default 64 MiB.
    #[serde(default = "cache_bytes")]
    pub cache_bytes: usize,
}

fn memory() -> bool {
    true
}

fn cache_bytes() -> usize {
    64 << 20
}

impl ParquetConfig {
    /// Creates the settings of a file that is read into memory.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), memory: memory(), cache_bytes: cache_bytes() }
    }

    /// Creates the settings of a file that stays on disk.
    #[must_use]
    pub fn on_disk(file: impl Into<PathBuf>) -> Self {
        Self { memory: false, ..Self::new(file) }
    }
}
