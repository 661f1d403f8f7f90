//! Division by a power of two, which brings products of fixed-point numbers back to their unit.
//!
//! The protocol is that of Dalskov, Escudero and Keller (PoPETs 2020, section 5.1), with party 2 in
//! the place of the dealer and without a share that has to be sent for the mask. Let z = z₀ + z₁ +
//! z₂ be the parts of the parties, |z| < 2^62.
//!
//! - Party 2 draws u₀ with party 0 and u₁ with party 1. The mask r = u₀ + u₁ − z₂ − 2^62 is uniform
//!   and known to party 2 alone. Parties 0 and 1 exchange z₀ + u₀ and z₁ + u₁ and so learn
//!   c = z + 2^62 + r, which is uniform.
//! - z + 2^62 lies in [0, 2^63), so that the low 63 bits of c and r give it, up to a carry:
//!   z + 2^62 = (c mod 2^63) − (r mod 2^63) + 2^63 (msb(c) ⊕ msb(r)). Each term is divided by
//!   itself.
//! - Party 2 shares the high part of r mod 2^63 and the bit msb(r), which parties 0 and 1 combine
//!   with c.
//!
//! The result is ⌊z / 2^f⌋ or one more; on average over c it is z / 2^f. The fraction that decides
//! it, c mod 2^f or r mod 2^f, is known to the parties. Nothing fails with any probability, as it
//! does when parties cut their own shares (ABY3, section 5.1).

use crate::arithmetic::{ELEMENT, product_parts};
use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::random::CommonRandomness;
use crate::session::Session;
use crate::shares::Shares;

const LOW: u64 = u64::MAX >> 1;
/// Makes numbers in (−2^62, 2^62) positive.
const OFFSET: u64 = 1 << 62;

impl Session {
    /// Divides numbers z, |z| < 2^62, by 2^`bits`: the result is ⌊z / 2^bits⌋ or one more, and
    /// z / 2^bits on average. Two rounds; `bits` is 1 to 61.
    ///
    /// # Errors
    /// [`MpcError::Setting`] for other bits; errors of links.
    pub fn truncate(&mut self, shares: &Shares, bits: u32) -> Result<Shares, MpcError> {
        self.truncate_parts(shares.own.clone(), bits)
    }

    /// Multiplies element by element and divides by 2^`bits`. Two rounds.
    ///
    /// # Errors
    /// As [`Session::multiply`] and [`Session::truncate`].
    pub fn multiply_truncated(
        &mut self,
        one: &Shares,
        other: &Shares,
        bits: u32,
    ) -> Result<Shares, MpcError> {
        self.truncate_parts(product_parts(one, other)?, bits)
    }

    /// Divides the sums of the three parties' parts by 2^`bits`. The parts need no mask.
    ///
    /// # Errors
    /// As [`Session::truncate`].
    pub(crate) fn truncate_parts(
        &mut self,
        parts: Vec<u64>,
        bits: u32,
    ) -> Result<Shares, MpcError> {
        if bits == 0 || bits > 61 {
            let (name, range) = ("the number of bits cut off", "1 to 61");
            return Err(MpcError::Setting { name, got: bits.into(), range });
        }
        let cut = Cut { bits };
        if self.party() == PartyIndex::THIRD {
            self.deal(&parts, cut)
        } else {
            self.unmask(parts, cut)
        }
    }

    /// Party 2: chooses the mask and shares its parts.
    fn deal(&mut self, parts: &[u64], cut: Cut) -> Result<Shares, MpcError> {
        let n = parts.len();
        let first = Draws::new(&mut self.with_next, n, cut);
        let second_mask = self.with_previous.words(n);
        let second_blind = cut.low(self.with_previous.words(n));
        let mut highs = Vec::with_capacity(n);
        let mut signs = Vec::with_capacity(n);
        for at in 0..n {
            let mask = first.mask[at]
                .wrapping_add(second_mask[at])
                .wrapping_sub(parts[at])
                .wrapping_sub(OFFSET);
            highs.push(((mask & LOW) >> cut.bits).wrapping_sub(first.high[at]));
            signs.push((mask >> 63).wrapping_sub(first.sign[at]) & cut.mask());
        }
        self.send_words(PartyIndex::SECOND, &highs, ELEMENT)?;
        self.send_words(PartyIndex::SECOND, &signs, cut.bytes())?;
        let component = |(high, blind): (&u64, &u64)| cut.scaled(*blind).wrapping_sub(*high);
        Ok(Shares {
            own: highs.iter().zip(&second_blind).map(component).collect(),
            next: first.high.iter().zip(&first.blind).map(component).collect(),
        })
    }

    /// Parties 0 and 1: learn the masked numbers and take the mask off their high part.
    fn unmask(&mut self, parts: Vec<u64>, cut: Cut) -> Result<Shares, MpcError> {
        let (n, is_first) = (parts.len(), self.party() == PartyIndex::FIRST);
        let other = if is_first { PartyIndex::SECOND } else { PartyIndex::FIRST };
        let mut draws = match is_first {
            true => Draws::new(&mut self.with_previous, n, cut),
            false => {
                let mask = self.with_next.words(n);
                let blind = cut.low(self.with_next.words(n));
                Draws { mask, blind, high: Vec::new(), sign: Vec::new() }
            }
        };
        let mut masked = parts;
        masked.iter_mut().zip(&draws.mask).for_each(|(part, u)| *part = part.wrapping_add(*u));
        self.send_words(other, &masked, ELEMENT)?;
        let theirs = self.receive_words(other, n, ELEMENT)?;
        masked.iter_mut().zip(theirs).for_each(|(part, more)| *part = part.wrapping_add(more));
        if !is_first {
            draws.high = self.receive_words(PartyIndex::THIRD, n, ELEMENT)?;
            draws.sign = self.receive_words(PartyIndex::THIRD, n, cut.bytes())?;
        }
        // msb(c) ⊕ msb(r) = msb(c) + msb(r) (1 − 2 msb(c)), of which each party has its share.
        let carry = |(c, (sign, blind)): (&u64, (&u64, &u64))| {
            let sign = if c >> 63 == 1 { sign.wrapping_neg() } else { *sign };
            sign.wrapping_sub(*blind) & cut.mask()
        };
        let signs = draws.sign.iter().zip(&draws.blind);
        let carries: Vec<u64> = masked.iter().zip(signs).map(carry).collect();
        self.send_words(other, &carries, cut.bytes())?;
        let theirs = self.receive_words(other, n, cut.bytes())?;
        let common = masked.iter().zip(carries.iter().zip(&theirs)).map(|(c, (mine, theirs))| {
            let carries = mine.wrapping_add(*theirs).wrapping_add(c >> 63);
            cut.scaled(carries).wrapping_add((c & LOW) >> cut.bits).wrapping_sub(OFFSET >> cut.bits)
        });
        let common = common.collect();
        let component = |(high, blind): (&u64, &u64)| cut.scaled(*blind).wrapping_sub(*high);
        let alone = draws.high.iter().zip(&draws.blind).map(component).collect();
        Ok(match is_first {
            true => Shares { own: alone, next: common },
            false => Shares { own: common, next: alone },
        })
    }
}

/// The numbers that party 2 draws in common with party 0, in this order; with party 1 it draws
/// `mask` and `blind`, and sends it the others.
struct Draws {
    /// A share of the mask.
    mask: Vec<u64>,
    /// Hides this party's share of the carry from the other.
    blind: Vec<u64>,
    /// A share of the mask's high part.
    high: Vec<u64>,
    /// A share of the mask's highest bit.
    sign: Vec<u64>,
}

impl Draws {
    fn new(common: &mut CommonRandomness, n: usize, cut: Cut) -> Self {
        let mask = common.words(n);
        let blind = cut.low(common.words(n));
        let high = common.words(n);
        let sign = cut.low(common.words(n));
        Self { mask, blind, high, sign }
    }
}

/// The number of bits that are cut off. What is multiplied by 2^(63 − bits) counts modulo
/// 2^(bits + 1).
#[derive(Clone, Copy)]
struct Cut {
    bits: u32,
}

impl Cut {
    fn mask(self) -> u64 {
        u64::MAX >> (63 - self.bits)
    }

    fn bytes(self) -> usize {
        (self.bits as usize + 1).div_ceil(8)
    }

    fn low(self, mut words: Vec<u64>) -> Vec<u64> {
        words.iter_mut().for_each(|word| *word &= self.mask());
        words
    }

    fn scaled(self, value: u64) -> u64 {
        value << (63 - self.bits)
    }
}
