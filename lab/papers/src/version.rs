//! The version of the schema of figure documents.

/// The version of the document. It changes when a field changes its meaning. Since version 2 a
/// check has its kind, and curves may have a spread over splits.
pub const SCHEMA_VERSION: u32 = 2;
