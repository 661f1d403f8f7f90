//! Words of bits.

use crate::error::{MpcError, check_length};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::{BitShares, Shares};

impl Session {
    /// Computes the bitwise and of words. One round, 8 bytes per word and party.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many words; errors of links.
    pub fn and(&mut self, one: &BitShares, other: &BitShares) -> Result<BitShares, MpcError> {
        self.and_low(one, other, 8)
    }

    /// Computes the bitwise and of the lowest `bytes` bytes of words; the other bytes are 0.
    ///
    /// # Errors
    /// As [`Session::and`].
    pub(crate) fn and_low(
        &mut self,
        one: &BitShares,
        other: &BitShares,
        bytes: usize,
    ) -> Result<BitShares, MpcError> {
        check_length("the second operand", other.len(), one.len())?;
        let low = u64::MAX >> (64 - 8 * bytes);
        let mut own = self.zero_parities(one.len());
        for (at, word) in own.iter_mut().enumerate() {
            let (x, x_next) = (one.own[at], one.next[at]);
            let (y, y_next) = (other.own[at], other.next[at]);
            *word = (*word ^ (x & (y ^ y_next)) ^ (x_next & y)) & low;
        }
        self.send_words(self.party().previous(), &own, bytes)?;
        let next = self.receive_words(self.party().next(), own.len(), bytes)?;
        Ok(BitShares { own, next })
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

    /// Shares the bits of two numbers whose sum each element is: x₀ + x₁, which party 0 knows, and
    /// x₂, which parties 1 and 2 know. One round, 8 bytes per element.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn summands(&mut self, shares: &Shares) -> Result<(BitShares, BitShares), MpcError> {
        let (party, n) = (self.party(), shares.len());
        let third = match party {
            PartyIndex::SECOND => &shares.next,
            _ => &shares.own,
        };
        let second = BitShares::of_component(party, PartyIndex::THIRD, third);
        let first = match party {
            PartyIndex::FIRST => {
                let own = self.with_previous.words(n);
                let sums = shares.own.iter().zip(&shares.next).map(|(x, y)| x.wrapping_add(*y));
                let next: Vec<u64> = sums.zip(&own).map(|(sum, mask)| sum ^ mask).collect();
                self.send_words(PartyIndex::SECOND, &next, 8)?;
                BitShares { own, next }
            }
            PartyIndex::SECOND => {
                BitShares { own: self.receive_words(PartyIndex::FIRST, n, 8)?, next: vec![0; n] }
            }
            _ => BitShares { own: vec![0; n], next: self.with_next.words(n) },
        };
        Ok((first, second))
    }

    /// Converts the lowest bit of each word to the number 0 or 1. Two rounds, 32 bytes per word.
    ///
    /// The bit is p ⊕ q = p + q − 2 p q, of which party 0 knows p = b₀ ⊕ b₁, and parties 1 and 2
    /// know q = b₂.
    ///
    /// # Errors
    /// Those of links.
    pub fn bit_to_number(&mut self, bits: &BitShares) -> Result<Shares, MpcError> {
        let (party, n) = (self.party(), bits.len());
        let known = bits.own.iter().zip(&bits.next).map(|(own, next)| (own ^ next) & 1);
        let known: Option<Vec<u64>> = (party == PartyIndex::FIRST).then(|| known.collect());
        let p = self.share(PartyIndex::FIRST, known.as_deref(), n)?;
        let third = match party {
            PartyIndex::SECOND => &bits.next,
            _ => &bits.own,
        };
        let third: Vec<u64> = third.iter().map(|word| word & 1).collect();
        let q = Shares::of_component(party, PartyIndex::THIRD, &third);
        let both = self.multiply(&p, &q)?;
        p.plus(&q)?.minus(&both.times(2))
    }
}
