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
        let whole = self.rounded_scores(logits, decimals)?;
        let possible = |units: &[u64], ten: u64| {
            // Each is rounded by half a unit, and a hair more; the sum without it is 10^decimals.
            units.iter().sum::<u64>().abs_diff(ten) <= units.len() as u64 / 2 + 1
        };
        self.open_units_to(to, logits, &whole, (decimals, possible))
    }

    /// Releases the `m` largest softmax scores of each record, rounded to 0 to 4 decimals, and 0
    /// for its other classes: s 10^`decimals` as a whole number, class after class. The largest are
    /// those of the largest logits, and of equal ones the first.
    ///
    /// Costs [`Session::release_rounded_scores`], [`Session::release_top_set`] but for its opening,
    /// three rounds and 48 bytes for each class.
    ///
    /// # Errors
    /// [`MpcError::Setting`] for other decimals, or unless `m` is 1 to k; [`MpcError::NoResult`];
    /// errors of links.
    pub fn release_rounded_top(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        m: usize,
        decimals: u32,
    ) -> Result<Option<Vec<u16>>, MpcError> {
        check_decimals(decimals)?;
        let is_largest = self.top_set(logits, m)?;
        let k = logits.classes();
        let bits = (0..k).map(|class| is_largest.map(|word| word >> class & 1));
        let bits = bits.reduce(|all, class| all.concat(&class)).unwrap_or(is_largest);
        let is_largest = self.bit_to_number(&bits)?;
        let whole = self.rounded_scores(logits, decimals)?;
        let kept = self.multiply(&whole, &is_largest)?;
        let possible = |units: &[u64], ten: u64| {
            let others = units.iter().filter(|unit| **unit == 0).count();
            let most = ten + units.len() as u64 / 2 + 1;
            others >= units.len().saturating_sub(m) && units.iter().sum::<u64>() <= most
        };
        self.open_units_to(to, logits, &kept, (decimals, possible))
    }

    /// Returns softmax scores times 10^`decimals`, rounded, modulo 2^16.
    ///
    /// # Errors
    /// As [`Session::release_rounded_scores`].
    fn rounded_scores(&mut self, logits: &Logits, decimals: u32) -> Result<Shares, MpcError> {
        check_decimals(decimals)?;
        let scores = self.exponential_softmax(logits)?;
        let half = self.public(&vec![1 << (SCORE_BITS - 1); scores.len()]);
        self.floor(&scores.times(10_u64.pow(decimals)).plus(&half)?)
    }

    /// Opens scores times 10^`decimals`. `possible` says of the numbers of a record, and of that
    /// power, if scores can be so.
    ///
    /// # Errors
    /// [`MpcError::NoResult`]; errors of links.
    fn open_units_to(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        units: &Shares,
        (decimals, possible): (u32, impl Fn(&[u64], u64) -> bool),
    ) -> Result<Option<Vec<u16>>, MpcError> {
        let Some(words) = self.open_numbers_to(to, units, WHOLE_BITS)? else { return Ok(None) };
        let (n, ten) = (logits.records(), 10_u64.pow(decimals));
        let of_record = |at: usize| words.iter().skip(at).step_by(n.max(1)).copied().collect();
        let good = |units: Vec<u64>| units.iter().all(|unit| *unit <= ten) && possible(&units, ten);
        check_result("rounded scores", (0..n).map(of_record).all(good))?;
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

fn check_decimals(decimals: u32) -> Result<(), MpcError> {
    if decimals <= 4 {
        return Ok(());
    }
    let (name, range) = ("the number of decimals", "0 to 4");
    Err(MpcError::Setting { name, got: decimals.into(), range })
}
