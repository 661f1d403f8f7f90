//! What a verdict can be.

use serde::{Deserialize, Serialize};

/// Mean squared error, on features in [0, 1], up to which a reconstruction is called exact: far above round-off of a
/// well-conditioned system (1e-27 or so), far below anything a guess or a noisy system gives.
pub const EXACT_MSE: f64 = 1e-12;

/// How far the strongest attack got, from the worst news to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every attacked feature is rebuilt to [`EXACT_MSE`].
    Exact,
    /// Some features are rebuilt to [`EXACT_MSE`].
    SomeExact,
    /// The overall error is below that of every guess.
    Partial,
    /// Below guessing ½, but not below the column mean.
    ColumnMean,
    /// Not below guessing ½.
    Half,
    /// Not below the error of the same adversary without scores.
    NoMore,
    /// The interval of what the scores add is open, or reaches from nothing to more than nothing.
    Undecided,
    /// The noise of the scoring does not tell the smallest error from a guess.
    Unresolved,
    /// No attack ran: nothing is known.
    Unmeasured,
}

impl Level {
    /// A few words for a table.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Exact => "rebuilt exactly",
            Self::SomeExact => "some features rebuilt exactly",
            Self::Partial => "rebuilt in part",
            Self::ColumnMean => "no better than the column mean",
            Self::Half => "no better than guessing ½",
            Self::NoMore => "no more than without scores",
            Self::Undecided => "undecided",
            Self::Unresolved => "not told from a guess at this noise",
            Self::Unmeasured => "not measured",
        }
    }
}

/// The outcome of one audit in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How far the strongest attack got.
    pub level: Level,
    /// One sentence, without a full stop. Holds attack names as they stand in the document, unescaped.
    pub text: String,
}
