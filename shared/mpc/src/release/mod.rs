//! Release of predictions: of the parties' logits, one party learns what the function's name says,
//! and the others learn nothing.
//!
//! The one message that is not uniform opens the result: it is the result and what its receiver
//! holds of it, and so tells no more. All results are counted from the first of equal logits.

mod exponential;
mod logits;
mod ranking;
mod rounding;

pub use exponential::SCORE_BITS;
pub use logits::{LARGEST_LOGIT, LOGIT_BITS, Logits, encode_logits};
