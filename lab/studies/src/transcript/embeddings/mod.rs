//! The coordinator's attack on the embeddings of a model under `concat`.
//!
//! Under the combiner `concat` the coordinator receives an embedding h_p of each party for every
//! record: in each step of a plain training, and for each prediction. It knows the features of some
//! training records, and with them learns the map from embeddings to features, which it applies to
//! the embeddings of all other records. This is data reconstruction from intermediate features
//! (UIFV: J. Yang et al., arXiv:2406.12588), beside the regression that such a network must outdo.
//! Neither attack needs a parameter of any model.
//!
//! The control has the known records and no embedding.

mod attacks;
mod observe;
mod study;
mod text;

pub use self::attacks::{Attack, KnownRecords, MOST_FITTED};
pub use self::observe::{EmbeddingsAfter, observe};
pub use self::study::{
    AttackResult, AttackRow, EmbeddingExperiment, EmbeddingReport, Occasion, OccasionResults,
    TargetResults, WorstFeature,
};

#[cfg(test)]
mod tests;
