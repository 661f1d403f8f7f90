//! Studies of information beside features in scores, gradients and weights: membership, labels,
//! properties, the transcript of a training, two answers about one record, and the screening of
//! data sets for such studies.
//!
//! Each is a [`Study`]: `Experiment::prepare` loads the records and checks the plan, and
//! [`Study::run`] measures and returns a [`Report`].

mod data;
mod estimate;
pub mod fallback;
pub mod labels;
pub mod membership;
pub mod properties;
mod runs;
pub mod screen;
mod study;
mod subject;
mod table;
mod tables;
pub mod transcript;

pub use data::DataSpec;
pub use estimate::Estimate;
pub use study::{Event, Listener, Report, Study};
pub use subject::{LEAST_RECORDS, Subject, SubjectFacts, SubjectSpec};
pub use tables::{PartyData, TableSpec};
