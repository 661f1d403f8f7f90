//! The version of the documents of figures.

/// Version of the document. It changes when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;
