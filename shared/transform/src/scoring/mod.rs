//! The account of the scorings of reconstructions: privacy loss, and gain over a guess.

pub mod accountant;
mod gain;

pub use gain::{Gain, Halves};
