//! The division of work into parts.

use std::str::FromStr;

/// One of several parts of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The number of the part, from 1.
    pub part: usize,
    /// The number of parts.
    pub of: usize,
}

impl Shard {
    /// Returns true if the piece at this place, from 0, belongs to this part. Pieces are assigned
    /// round-robin.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        place % self.of == self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((part, of)) if 1 <= part && part <= of => Ok(Self { part, of }),
            _ => Err("expected i/n with 1 ≤ i ≤ n, as 2/4".into()),
        }
    }
}
