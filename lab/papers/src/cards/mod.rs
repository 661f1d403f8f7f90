//! Cards: each figure and table of the papers, with what the paper says about it and the result of
//! computing it again.
//!
//! A card is a file in `lab/papers/cards`. It names the figure of `cloison reproduce` that computes
//! it, the published values to compare curves with, and sentences of the paper with a test of each.
//! [`make`] computes cards; [`summary`] judges them and makes the page.

mod card;
mod judge;
mod make;
mod page;
mod published;
mod section;
mod shelf;
mod test;

pub use card::{
    Card, CardError, Claim, Count, Difference, FileCurve, MODEL_ACCURACY, Published, Settings,
};
pub use judge::{Comparison, Judgement, PointComparison, TestedClaim, Verdict, judge};
pub use make::{Plan, RunSummary, make};
pub use page::{Summary, summary};
pub use published::{PublishedCurve, R_CURVES, published};
pub use shelf::{Paper, Shelf, read_folder, shelf};
pub use test::{Test, TestOutcome};
