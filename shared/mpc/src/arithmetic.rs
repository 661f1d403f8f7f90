//! Inputs, outputs and products of ring elements.

use crate::error::{MpcError, check_length};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The bytes of a ring element.
pub(crate) const ELEMENT: usize = 8;

impl Session {
    /// Shares `count` numbers of `owner`, who alone gives them. One round, 8 bytes per number.
    ///
    /// The component that the owner does not hold is 0; of the two others, one is drawn from the
    /// key with the next party, and the other is sent to the previous one. So the first party has
    /// its part of the third one's numbers before any message, and begins at once.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless the owner gives `count` numbers; errors of links.
    pub fn share(
        &mut self,
        owner: PartyIndex,
        values: Option<&[u64]>,
        count: usize,
    ) -> Result<Shares, MpcError> {
        let zeros = || vec![0; count];
        if self.party() == owner {
            let values = values.unwrap_or_default();
            check_length("the input", values.len(), count)?;
            let next = self.with_next.words(count);
            let own: Vec<u64> = values.iter().zip(&next).map(|(v, r)| v.wrapping_sub(*r)).collect();
            self.send_words(owner.previous(), &own, ELEMENT)?;
            return Ok(Shares { own, next });
        }
        if self.party() == owner.previous() {
            let next = self.receive_words(owner, count, ELEMENT)?;
            return Ok(Shares { own: zeros(), next });
        }
        Ok(Shares { own: self.with_previous.words(count), next: zeros() })
    }

    /// Opens numbers to all parties. One round, 8 bytes per number and party.
    ///
    /// # Errors
    /// Those of links.
    pub fn open(&mut self, shares: &Shares) -> Result<Vec<u64>, MpcError> {
        self.send_words(self.party().next(), &shares.own, ELEMENT)?;
        let missing = self.receive_words(self.party().previous(), shares.len(), ELEMENT)?;
        Ok(sums(shares, &missing))
    }

    /// Opens numbers to one party, which alone gets `Some`. One round, 8 bytes per number.
    ///
    /// # Errors
    /// Those of links.
    pub fn open_to(
        &mut self,
        receiver: PartyIndex,
        shares: &Shares,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        if self.party() == receiver {
            let missing = self.receive_words(receiver.previous(), shares.len(), ELEMENT)?;
            return Ok(Some(sums(shares, &missing)));
        }
        if self.party() == receiver.previous() {
            self.send_words(receiver, &shares.own, ELEMENT)?;
        }
        Ok(None)
    }

    /// Multiplies element by element, without truncation. One round, 8 bytes per element and
    /// party.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many elements; errors of links.
    pub fn multiply(&mut self, one: &Shares, other: &Shares) -> Result<Shares, MpcError> {
        let parts = product_parts(one, other)?;
        self.reshare(parts)
    }

    /// Turns this party's parts, which add up to the values, into replicated shares.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn reshare(&mut self, mut parts: Vec<u64>) -> Result<Shares, MpcError> {
        let zeros = self.zero_sums(parts.len());
        parts.iter_mut().zip(zeros).for_each(|(part, zero)| *part = part.wrapping_add(zero));
        self.send_words(self.party().previous(), &parts, ELEMENT)?;
        let next = self.receive_words(self.party().next(), parts.len(), ELEMENT)?;
        Ok(Shares { own: parts, next })
    }
}

/// Adds the component that a party was sent to the two that it holds.
fn sums(shares: &Shares, missing: &[u64]) -> Vec<u64> {
    let held = shares.own.iter().zip(&shares.next).zip(missing);
    held.map(|((own, next), missing)| own.wrapping_add(*next).wrapping_add(*missing)).collect()
}

/// Computes this party's part of each product, xᵢyᵢ + xᵢyᵢ₊₁ + xᵢ₊₁yᵢ. The parts of the three
/// parties add up to the products. They are not masked.
///
/// # Errors
/// [`MpcError::Shape`] unless both have as many elements.
pub(crate) fn product_parts(one: &Shares, other: &Shares) -> Result<Vec<u64>, MpcError> {
    check_length("the second factor", other.len(), one.len())?;
    let first = one.own.iter().zip(&one.next);
    let second = other.own.iter().zip(&other.next);
    let part = |((x, x_next), (y, y_next)): ((&u64, &u64), (&u64, &u64))| {
        x.wrapping_mul(y.wrapping_add(*y_next)).wrapping_add(x_next.wrapping_mul(*y))
    };
    Ok(first.zip(second).map(part).collect())
}
