//! The version of the documents of figures.

/// Version of the document. It changes when a field changes its meaning. Since 2 a check says whose it is, and curves may have a spread
/// over splits.
pub const SCHEMA_VERSION: u32 = 2;
