//! Rows of bits: 64 numbers are turned on their side, so that a word holds one bit of each of them,
//! and a message holds as many bits as are needed and no words.
//!
//! A row of b bits takes ⌈b / 64⌉ words, the first bit lowest. The bits of the last word above the
//! row's end have no meaning and are not sent.
//!
//! The first party knows x₀ + x₁ of a number, and the two others know x₂. Whatever the first party
//! tells in shares (8 bits for a byte), the others can choose from by what they know, without a
//! message; the choice is in two parts, which 2 bits for each bit turn into shares
//! ([`Session::spread_bits`]). A product of two shared bits takes 3.

use crate::error::{MpcError, check_length};
use crate::party_index::PartyIndex;
use crate::session::{Session, words_of};
use crate::shares::{BitShares, Shares};

/// Returns the words that a row takes.
pub(crate) const fn row_words(bits: usize) -> usize {
    bits.div_ceil(64)
}

/// Transposes a matrix of 64 × 64 bits: bit j of word i becomes bit i of word j.
fn transpose(words: &mut [u64; 64]) {
    let (mut size, mut mask) = (32, u64::MAX >> 32);
    while size > 0 {
        for pair in words.chunks_exact_mut(2 * size) {
            let (upper, lower) = pair.split_at_mut(size);
            for (one, other) in upper.iter_mut().zip(lower) {
                let swapped = ((*one >> size) ^ *other) & mask;
                *other ^= swapped;
                *one ^= swapped << size;
            }
        }
        size /= 2;
        mask ^= mask << size;
    }
}

/// Returns the lowest `bits` bits of numbers as rows, the lowest bit first.
pub(crate) fn rows_of(numbers: &[u64], bits: usize) -> Vec<u64> {
    let per_row = row_words(numbers.len());
    let mut rows = vec![0; bits * per_row];
    for (at, chunk) in numbers.chunks(64).enumerate() {
        let mut block = [0; 64];
        block[..chunk.len()].copy_from_slice(chunk);
        transpose(&mut block);
        for (bit, word) in block[..bits].iter().enumerate() {
            rows[bit * per_row + at] = *word;
        }
    }
    rows
}

/// Writes rows of `bits` bits one after the other, without gaps.
pub(crate) fn pack(words: &[u64], bits: usize) -> Vec<u8> {
    let (mut left, mut filled) = (0_u64, 0);
    let mut out = Vec::with_capacity(8 * words.len());
    for row in words.chunks_exact(row_words(bits).max(1)) {
        for (at, word) in row.iter().enumerate() {
            let width = (bits - 64 * at).min(64);
            let word = word & (u64::MAX >> (64 - width));
            left |= word << filled;
            filled += width;
            if filled >= 64 {
                out.extend_from_slice(&left.to_le_bytes());
                filled -= 64;
                left = word.checked_shr((width - filled) as u32).unwrap_or(0);
            }
        }
    }
    out.extend_from_slice(&left.to_le_bytes()[..filled.div_ceil(8)]);
    out
}

/// Reads rows that [`pack`] has written. Bits that are missing are 0.
pub(crate) fn unpack(bytes: &[u8], rows: usize, bits: usize) -> Vec<u64> {
    let mut source = words_of(bytes, 8);
    let mut rest = [0; 8];
    let tail = bytes.chunks_exact(8).remainder();
    rest[..tail.len()].copy_from_slice(tail);
    source.extend([u64::from_le_bytes(rest), 0]);
    let mut words = Vec::with_capacity(rows * row_words(bits));
    for row in 0..rows {
        for start in (0..bits).step_by(64) {
            let (at, shift) = ((row * bits + start) / 64, (row * bits + start) % 64);
            let high = source[at + 1].checked_shl(64 - shift as u32).unwrap_or(0);
            let width = (bits - start).min(64);
            words.push((source[at] >> shift | high) & (u64::MAX >> (64 - width)));
        }
    }
    words
}

impl BitShares {
    /// Returns the shares of some rows, each of `words` words.
    pub(crate) fn rows(&self, at: impl Iterator<Item = usize> + Clone, words: usize) -> Self {
        let chosen = |all: &[u64]| {
            at.clone().flat_map(|row| &all[row * words..(row + 1) * words]).copied().collect()
        };
        Self { own: chosen(&self.own), next: chosen(&self.next) }
    }

    /// Returns the shares of these rows, then of those.
    pub(crate) fn concat(&self, other: &Self) -> Self {
        Self {
            own: [&self.own[..], &other.own].concat(),
            next: [&self.next[..], &other.next].concat(),
        }
    }

    /// Returns the shares of one long row cut into rows of `bits` bits.
    pub(crate) fn cut(&self, rows: usize, bits: usize) -> Self {
        let cut = |words: &[u64]| unpack(&pack(words, rows * bits), rows, bits);
        Self { own: cut(&self.own), next: cut(&self.next) }
    }

    /// Returns the shares of one word for each of the `bits` bits of a row, with the bit lowest.
    pub(crate) fn spread(&self, bits: usize) -> Self {
        let spread = |row: &[u64]| (0..bits).map(|at| row[at / 64] >> (at % 64) & 1).collect();
        Self { own: spread(&self.own), next: spread(&self.next) }
    }
}

/// Computes this party's part of the and of words. The parts of the three parties give it under
/// exclusive or. They are not masked.
///
/// # Errors
/// [`MpcError::Shape`] unless both have as many words.
pub(crate) fn and_parts(one: &BitShares, other: &BitShares) -> Result<Vec<u64>, MpcError> {
    check_length("the second operand", other.len(), one.len())?;
    let first = one.own.iter().zip(&one.next);
    let second = other.own.iter().zip(&other.next);
    let part = |((x, x_next), (y, y_next)): ((&u64, &u64), (&u64, &u64))| {
        (x & (y ^ y_next)) ^ (x_next & y)
    };
    Ok(first.zip(second).map(part).collect())
}

/// The group that numbers are shared in.
#[derive(Clone, Copy)]
struct Group {
    plus: fn(u64, u64) -> u64,
    minus: fn(u64, u64) -> u64,
}

const NUMBERS: Group = Group { plus: u64::wrapping_add, minus: u64::wrapping_sub };
const BITS: Group = Group { plus: |one, other| one ^ other, minus: |one, other| one ^ other };

impl Session {
    /// Returns what this party knows of two summands of each number: x₀ + x₁ is the first party's,
    /// and x₂ is the others'.
    pub(crate) fn known_summand(&self, shares: &Shares) -> Vec<u64> {
        match self.party() {
            PartyIndex::FIRST => {
                let both = shares.own.iter().zip(&shares.next);
                both.map(|(own, next)| own.wrapping_add(*next)).collect()
            }
            PartyIndex::SECOND => shares.next.clone(),
            _ => shares.own.clone(),
        }
    }

    /// As [`Session::known_summand`], for words of bits under exclusive or.
    pub(crate) fn known_part(&self, bits: &BitShares) -> Vec<u64> {
        match self.party() {
            PartyIndex::FIRST => bits.own.iter().zip(&bits.next).map(|(x, y)| x ^ y).collect(),
            PartyIndex::SECOND => bits.next.clone(),
            _ => bits.own.clone(),
        }
    }

    /// Returns what the second or the third party holds of numbers of the first party's: two parts
    /// that are the numbers together. `None` at the first party.
    pub(crate) fn part_of_first<'a>(&self, own: &'a [u64], next: &'a [u64]) -> Option<&'a [u64]> {
        match self.party() {
            PartyIndex::FIRST => None,
            PartyIndex::SECOND => Some(own),
            _ => Some(next),
        }
    }

    fn send_rows(&mut self, to: PartyIndex, words: &[u64], bits: usize) -> Result<(), MpcError> {
        self.send(to, pack(words, bits))
    }

    fn receive_rows(
        &mut self,
        from: PartyIndex,
        words: usize,
        bits: usize,
    ) -> Result<Vec<u64>, MpcError> {
        let rows = words / row_words(bits).max(1);
        let message = self.receive(from, (rows * bits).div_ceil(8))?;
        Ok(unpack(&message, rows, bits))
    }

    /// Shares what the first party alone knows, and gives. One round, b bits for a row of b bits.
    fn share_first(
        &mut self,
        values: &[u64],
        (count, bits): (usize, usize),
        group: Group,
    ) -> Result<(Vec<u64>, Vec<u64>), MpcError> {
        let zeros = || vec![0; count];
        match self.party() {
            PartyIndex::FIRST => {
                check_length("the input", values.len(), count)?;
                let own = self.with_previous.words(count);
                let minus = |(value, mask): (&u64, &u64)| (group.minus)(*value, *mask);
                let next: Vec<u64> = values.iter().zip(&own).map(minus).collect();
                self.send_rows(PartyIndex::SECOND, &next, bits)?;
                Ok((own, next))
            }
            PartyIndex::SECOND => Ok((self.receive_rows(PartyIndex::FIRST, count, bits)?, zeros())),
            _ => Ok((zeros(), self.with_next.words(count))),
        }
    }

    /// Shares rows of `bits` bits that the first party knows, in `count` words; the others give
    /// nothing. One round, `bits` bits per row.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless the first party gives `count` words; errors of links.
    pub(crate) fn share_first_bits(
        &mut self,
        rows: &[u64],
        count: usize,
        bits: usize,
    ) -> Result<BitShares, MpcError> {
        let (own, next) = self.share_first(rows, (count, bits), BITS)?;
        Ok(BitShares { own, next })
    }

    /// Shares `count` numbers modulo 2^`bits` that the first party knows. One round, `bits` bits
    /// per number.
    ///
    /// # Errors
    /// As [`Session::share_first_bits`].
    pub(crate) fn share_first_numbers(
        &mut self,
        values: &[u64],
        count: usize,
        bits: usize,
    ) -> Result<Shares, MpcError> {
        let (own, next) = self.share_first(values, (count, bits), NUMBERS)?;
        Ok(Shares { own, next })
    }

    /// Turns the parts of the second and the third party into shares. `part` is this party's; that
    /// of the first counts by its length alone. One round, 2 bits per bit.
    ///
    /// Component 2 is drawn by its holders, and hides the two others from the first party.
    fn spread(
        &mut self,
        part: &[u64],
        bits: usize,
        group: Group,
    ) -> Result<(Vec<u64>, Vec<u64>), MpcError> {
        let count = part.len();
        if self.party() == PartyIndex::FIRST {
            let own = self.receive_rows(PartyIndex::THIRD, count, bits)?;
            return Ok((own, self.receive_rows(PartyIndex::SECOND, count, bits)?));
        }
        let is_second = self.party() == PartyIndex::SECOND;
        let common = if is_second { &mut self.with_next } else { &mut self.with_previous };
        let masks = [common.words(count), common.words(count)];
        let mine = if is_second { &masks[1] } else { &masks[0] };
        let minus = |(part, mask): (&u64, &u64)| (group.minus)(*part, *mask);
        let masked: Vec<u64> = part.iter().zip(mine).map(minus).collect();
        let plus = |(one, other): (&u64, &u64)| (group.plus)(*one, *other);
        let drawn = masks[0].iter().zip(&masks[1]).map(plus).collect();
        self.send_rows(PartyIndex::FIRST, &masked, bits)?;
        Ok(if is_second { (masked, drawn) } else { (drawn, masked) })
    }

    /// Turns the parts of rows, which the second and the third party have, into shares. One round,
    /// 2 bits per bit.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn spread_bits(&mut self, part: &[u64], bits: usize) -> Result<BitShares, MpcError> {
        let (own, next) = self.spread(part, bits, BITS)?;
        Ok(BitShares { own, next })
    }

    /// As [`Session::spread_bits`], for summands of numbers modulo 2^`bits`.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn spread_numbers(&mut self, part: &[u64], bits: usize) -> Result<Shares, MpcError> {
        let (own, next) = self.spread(part, bits, NUMBERS)?;
        Ok(Shares { own, next })
    }

    /// Tells the first party numbers modulo 2^`bits` under a mask that the others know. `part` is
    /// this party's part of each, which counts by its length alone at the first. Returns this
    /// party's of two summands of each: the masked number, or less its mask. One round, 2 `bits`
    /// bits per number.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn tell_first(&mut self, part: &[u64], bits: usize) -> Result<Vec<u64>, MpcError> {
        let masked = self.spread_numbers(part, bits)?;
        let low = u64::MAX >> (64 - bits);
        Ok(self.known_summand(&masked).iter().map(|word| word & low).collect())
    }

    /// Computes the and of rows of `bits` bits. One round, 3 bits per bit.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many words; errors of links.
    pub(crate) fn and_rows(
        &mut self,
        one: &BitShares,
        other: &BitShares,
        bits: usize,
    ) -> Result<BitShares, MpcError> {
        let mut own = self.zero_parities(one.len());
        own.iter_mut().zip(and_parts(one, other)?).for_each(|(word, part)| *word ^= part);
        self.send_rows(self.party().previous(), &own, bits)?;
        let next = self.receive_rows(self.party().next(), own.len(), bits)?;
        Ok(BitShares { own, next })
    }

    /// Opens rows of `bits` bits to one party, which alone gets `Some`. One round, `bits` bits per
    /// row. The message is the rows and what their receiver holds of them already.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn open_rows_to(
        &mut self,
        receiver: PartyIndex,
        rows: &BitShares,
        bits: usize,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        let opened = self.open_part_to(receiver, (&rows.own, &rows.next), bits, BITS)?;
        Ok(opened
            .map(|words| unpack(&pack(&words, bits), words.len() / row_words(bits).max(1), bits)))
    }

    /// As [`Session::open_rows_to`], for numbers modulo 2^`bits`.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn open_numbers_to(
        &mut self,
        receiver: PartyIndex,
        shares: &Shares,
        bits: usize,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        let opened = self.open_part_to(receiver, (&shares.own, &shares.next), bits, NUMBERS)?;
        Ok(opened.map(|words| words.iter().map(|word| word & (u64::MAX >> (64 - bits))).collect()))
    }

    fn open_part_to(
        &mut self,
        receiver: PartyIndex,
        (own, next): (&[u64], &[u64]),
        bits: usize,
        group: Group,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        if self.party() == receiver.previous() {
            self.send_rows(receiver, own, bits)?;
        }
        if self.party() != receiver {
            return Ok(None);
        }
        let missing = self.receive_rows(receiver.previous(), own.len(), bits)?;
        let held = own.iter().zip(next).zip(missing);
        Ok(Some(held.map(|((x, y), z)| (group.plus)((group.plus)(*x, *y), z)).collect()))
    }
}
