//! Release of rounded scores: whole numbers, of which the fraction is cut off exactly.

use super::exponential::SCORE_BITS;
use super::logits::Logits;
use crate::error::{MpcError, check_result};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The bits of a rounded score: up to 10 000.
const WHOLE_BITS: usize = 16;

impl Session {
    /// Releases softmax scores rounded to 0 to 4 decimals: s 10^`decimals` as a whole number, class
    /// after class.
    ///
    /// 51 rounds and 3105 bytes per record for k = 6 and three decimals, and as many bytes for any.
    ///
    /// They are those of the exact scores, but where an exact score is within 2^−22 of a tie
    /// between two numbers; there either may be released, and
    /// which one depends on rounding that each party knows in part.
    ///
    /// # Errors
    /// [`MpcError::Setting`] for other decimals; [`MpcError::NoResult`]; errors of links.
    pub fn release_rounded_scores(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        decimals: u32,
    ) -> Result<Option<Vec<u16>>, MpcError> {
        if decimals > 4 {
            let (name, range) = ("the number of decimals", "0 to 4");
            return Err(MpcError::Setting { name, got: decimals.into(), range });
        }
        let scores = self.exponential_softmax(logits)?;
        let half = self.public(&vec![1 << (SCORE_BITS - 1); scores.len()]);
        let whole = self.floor(&scores.times(10_u64.pow(decimals)).plus(&half)?)?;
        let Some(words) = self.open_numbers_to(to, &whole, WHOLE_BITS)? else { return Ok(None) };
        let (n, k, ten) = (logits.records(), logits.classes(), 10_u64.pow(decimals));
        // Each is rounded by half a unit, and a hair more; its sum with the others is 10^decimals.
        let of_record = |at: usize| words.iter().skip(at).step_by(n.max(1));
        let sums = |at: usize| of_record(at).sum::<u64>().abs_diff(ten) <= k as u64 / 2 + 1;
        let possible = words.iter().all(|word| *word <= ten) && (0..n).all(sums);
        check_result("rounded scores", possible)?;
        Ok(Some(words.iter().map(|word| *word as u16).collect()))
    }

    /// Returns ⌊x⌋ modulo 2^16 of numbers with [`SCORE_BITS`] fraction bits: exactly, unlike a
    /// truncation, and so that it tells nothing of the fraction.
    ///
    /// It is the sum of what is above the fraction in both summands, and their carry.
    fn floor(&mut self, shares: &Shares) -> Result<Shares, MpcError> {
        let count = shares.len();
        let carry = self.carry(shares, SCORE_BITS as usize, false)?.spread(count);
        let mut part = self.bit_to_parts(&carry, WHOLE_BITS)?;
        let mut above = self.known_summand(shares);
        above.iter_mut().for_each(|word| *word >>= SCORE_BITS);
        let first = self.share_first_numbers(&above, count, WHOLE_BITS)?;
        if let Some(first) = self.part_of_first(&first.own, &first.next) {
            let is_second = u64::from(self.party() == PartyIndex::SECOND);
            for ((sum, first), above) in part.iter_mut().zip(first).zip(&above) {
                *sum = sum.wrapping_add(*first).wrapping_add(above * is_second);
            }
        }
        self.spread_numbers(&part, WHOLE_BITS)
    }
}
