//! What a scoring of a reconstruction tells, and the account of it.

pub mod accountant;
mod gain;

pub use gain::{Gain, Halves};
