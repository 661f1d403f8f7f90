//! Words of bits.

use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::{BitShares, Shares};

impl Session {
    /// Computes the bitwise and of words. One round, 8 bytes per word and party.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many words; errors of links.
    pub fn and(&mut self, one: &BitShares, other: &BitShares) -> Result<BitShares, MpcError> {
        self.and_rows(one, other, 64)
    }

    /// Opens words to all parties. One round, 8 bytes per word and party.
    ///
    /// # Errors
    /// Those of links.
    pub fn open_bits(&mut self, bits: &BitShares) -> Result<Vec<u64>, MpcError> {
        self.send_words(self.party().next(), &bits.own, 8)?;
        let missing = self.receive_words(self.party().previous(), bits.len(), 8)?;
        let held = bits.own.iter().zip(&bits.next).zip(missing);
        Ok(held.map(|((own, next), missing)| own ^ next ^ missing).collect())
    }

    /// Opens words to one party, which alone gets `Some`: the exclusive or of all parties' parts,
    /// which are masked. One round, 16 bytes per word.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn open_parities_to(
        &mut self,
        receiver: PartyIndex,
        mut part: Vec<u64>,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        if self.party() != receiver {
            self.send_words(receiver, &part, 8)?;
            return Ok(None);
        }
        for from in [receiver.next(), receiver.previous()] {
            let theirs = self.receive_words(from, part.len(), 8)?;
            part.iter_mut().zip(theirs).for_each(|(word, theirs)| *word ^= theirs);
        }
        Ok(Some(part))
    }

    /// Converts the lowest bit of each word to the number 0 or 1. Two rounds, 24 bytes per word.
    ///
    /// # Errors
    /// Those of links.
    pub fn bit_to_number(&mut self, bits: &BitShares) -> Result<Shares, MpcError> {
        let part = self.bit_to_parts(bits, 64)?;
        self.spread_numbers(&part, 64)
    }

    /// Returns this party's part of the lowest bit of each word as a number modulo 2^`width`; the
    /// first party's is 0. One round, `width` bits per word.
    ///
    /// The bit is p ⊕ q = p (1 − 2 q) + q, of which the first party knows p = b₀ ⊕ b₁, and the
    /// others, which know q = b₂, hold a part of p each.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn bit_to_parts(
        &mut self,
        bits: &BitShares,
        width: usize,
    ) -> Result<Vec<u64>, MpcError> {
        let mut known = self.known_part(bits);
        known.iter_mut().for_each(|word| *word &= 1);
        let p = self.share_first_numbers(&known, known.len(), width)?;
        let Some(p) = self.part_of_first(&p.own, &p.next) else {
            return Ok(vec![0; known.len()]);
        };
        let is_second = u64::from(self.party() == PartyIndex::SECOND);
        let part = |(p, q): (&u64, &u64)| {
            let signed = if *q == 1 { p.wrapping_neg() } else { *p };
            signed.wrapping_add(q * is_second)
        };
        Ok(p.iter().zip(&known).map(part).collect())
    }
}
