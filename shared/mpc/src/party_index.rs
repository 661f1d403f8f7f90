//! The places of the three parties.

use std::fmt;

/// The place of a party in a computation: 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartyIndex(pub(crate) u8);

impl PartyIndex {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self(0), Self(1), Self(2)];
    /// Party 0.
    pub const FIRST: Self = Self(0);
    /// Party 1.
    pub const SECOND: Self = Self(1);
    /// Party 2.
    pub const THIRD: Self = Self(2);

    /// Returns the party after this one; the first comes after the third.
    #[must_use]
    pub const fn next(self) -> Self {
        Self((self.0 + 1) % 3)
    }

    /// Returns the party before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self((self.0 + 2) % 3)
    }
}

impl fmt::Display for PartyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
