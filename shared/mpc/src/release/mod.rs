//! Release of predictions: of the parties' logits, one party learns what the function's name says,
//! and the others learn nothing.
//!
//! The message that opens the result is the result and what its receiver holds of it, and so tells
//! no more. Where rounded scores and words are undecided within their error, the result also
//! depends on rounding that the receiver knows a part of. Of equal logits the first counts as the
//! larger.

mod codebook;
mod exponential;
mod logits;
mod number;
mod ranking;
mod rounding;

pub use codebook::MOST_WORDS;
pub use exponential::SCORE_BITS;
pub use logits::{LARGEST_LOGIT, LOGIT_BITS, Logits, encode_logits};
pub use number::{LARGEST_THRESHOLD, MOST_THRESHOLDS};
