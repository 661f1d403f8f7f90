//! Commands that both data holders have.

mod alignments;
pub mod features;

pub use alignments::AlignmentsArgs;
