//! One of several parts of some work.

use std::str::FromStr;

/// One of several parts of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub part: usize,
    /// Of how many.
    pub of: usize,
}

impl Shard {
    /// Whether the piece at this place, from 0, is of this part: pieces are dealt out in turn.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        place % self.of == self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((part, of)) if 1 <= part && part <= of => Ok(Self { part, of }),
            _ => Err("expected i/n with 1 ≤ i ≤ n, as 2/4".into()),
        }
    }
}
