//! The possible verdicts.

use serde::{Deserialize, Serialize};

/// The mean squared error, on features in [0, 1], up to which a reconstruction counts as exact: far
/// above round-off of a well-conditioned system (1e-27 or so), far below the error of a guess or a
/// noisy system.
pub const EXACT_MSE: f64 = 1e-12;

/// The success of the strongest attack, from the worst news to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every attacked feature is rebuilt to [`EXACT_MSE`].
    Exact,
    /// Some features are rebuilt to [`EXACT_MSE`].
    SomeExact,
    /// The overall error is below that of every guess.
    Partial,
    /// The overall error is below guessing ½, but not below the column mean.
    ColumnMean,
    /// The overall error is not below guessing ½.
    Half,
    /// The error is not below that of the same adversary without scores.
    NoMore,
    /// The interval of the added risk is open, or reaches from nothing to more than nothing.
    Undecided,
    /// The noise of the scoring does not separate the smallest error from a guess.
    Unresolved,
    /// No attack ran: nothing is known.
    Unmeasured,
}

impl Level {
    /// Returns a few words for a table.
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

/// The verdict on one audit in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The success of the strongest attack.
    pub level: Level,
    /// The sentence, without a full stop. Holds attack names as they stand in the document,
    /// unescaped.
    pub text: String,
}
