//! One party's shares of vectors, and what it computes with them alone.

use std::fmt;

use crate::error::{MpcError, check_length};
use crate::party_index::PartyIndex;

/// One party's shares of a vector over Z_2^64: components i and i + 1 of each element.
#[derive(Clone, PartialEq, Eq)]
pub struct Shares {
    pub(crate) own: Vec<u64>,
    pub(crate) next: Vec<u64>,
}

/// One party's shares of words of bits, under exclusive or.
#[derive(Clone, PartialEq, Eq)]
pub struct BitShares {
    pub(crate) own: Vec<u64>,
    pub(crate) next: Vec<u64>,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shares({} withheld)", self.len())
    }
}

impl fmt::Debug for BitShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitShares({} withheld)", self.own.len())
    }
}

fn zip(one: &[u64], other: &[u64], operation: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    one.iter().zip(other).map(|(one, other)| operation(*one, *other)).collect()
}

impl Shares {
    /// Returns shares whose component of index `component` is given, as far as this party holds
    /// it; the other components are 0.
    pub(crate) fn of_component(party: PartyIndex, component: PartyIndex, values: &[u64]) -> Self {
        let at = |index: PartyIndex| match index == component {
            true => values.to_vec(),
            false => vec![0; values.len()],
        };
        Self { own: at(party), next: at(party.next()) }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Returns `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Returns the shares of the sums of the elements.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many elements.
    pub fn plus(&self, other: &Self) -> Result<Self, MpcError> {
        self.with(other, u64::wrapping_add)
    }

    /// Returns the shares of the differences of the elements.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many elements.
    pub fn minus(&self, other: &Self) -> Result<Self, MpcError> {
        self.with(other, u64::wrapping_sub)
    }

    fn with(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Result<Self, MpcError> {
        check_length("the second operand", other.len(), self.len())?;
        Ok(Self {
            own: zip(&self.own, &other.own, &operation),
            next: zip(&self.next, &other.next, &operation),
        })
    }

    /// Returns the shares of the elements times a public number.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        self.map(|value| value.wrapping_mul(factor))
    }

    fn map(&self, operation: impl Fn(u64) -> u64) -> Self {
        let all = |values: &[u64]| values.iter().map(|value| operation(*value)).collect();
        Self { own: all(&self.own), next: all(&self.next) }
    }

    /// Returns the shares of all elements again and again, `times` times.
    #[must_use]
    pub fn repeat(&self, times: usize) -> Self {
        Self { own: self.own.repeat(times), next: self.next.repeat(times) }
    }

    /// Returns the shares of these elements, then of those.
    #[must_use]
    pub fn concat(&self, other: &Self) -> Self {
        Self {
            own: [&self.own[..], &other.own].concat(),
            next: [&self.next[..], &other.next].concat(),
        }
    }

    /// Returns the shares of the first `at` elements, and of the rest.
    #[must_use]
    pub fn split_at(&self, at: usize) -> (Self, Self) {
        let at = at.min(self.len());
        let ((own, more), (next, beyond)) = (self.own.split_at(at), self.next.split_at(at));
        let shares = |own: &[u64], next: &[u64]| Self { own: own.to_vec(), next: next.to_vec() };
        (shares(own, next), shares(more, beyond))
    }
}

impl BitShares {
    /// Returns the shares of words of which this party holds one component; the others are 0.
    pub(crate) fn of_component(party: PartyIndex, component: PartyIndex, words: &[u64]) -> Self {
        let Shares { own, next } = Shares::of_component(party, component, words);
        Self { own, next }
    }

    /// Returns the number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Returns `true` if there are no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Returns the shares of the exclusive or of the words.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many words.
    pub fn xor(&self, other: &Self) -> Result<Self, MpcError> {
        check_length("the second operand", other.len(), self.len())?;
        let xor = |one: &[u64], other: &[u64]| zip(one, other, |one, other| one ^ other);
        Ok(Self { own: xor(&self.own, &other.own), next: xor(&self.next, &other.next) })
    }

    /// Returns the shares of the words after a map that is linear under exclusive or, such as a
    /// shift, a mask or a choice of bits.
    pub(crate) fn map(&self, linear: impl Fn(u64) -> u64) -> Self {
        let all = |words: &[u64]| words.iter().map(|word| linear(*word)).collect();
        Self { own: all(&self.own), next: all(&self.next) }
    }
}
