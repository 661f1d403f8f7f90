//! The commands of the `coordinator` binary beyond `serve` and `check`.

mod defend;
pub mod ledger;

pub use defend::DefendArgs;
