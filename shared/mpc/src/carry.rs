//! The carry of a sum of two numbers, of which the first party knows one and the others the other.
//!
//! Bits are taken in groups. The first party shares, for the bits a of a group of w, if a ≥ t for
//! t = 1 … 2^w − 1. The others choose from these by their own bits b: the group generates a carry
//! if a ≥ 2^w − b, and propagates one if a = 2^w − 1 − b. A tree combines the groups (Brent and
//! Kung 1982). ABY3 (Mohassel and Rindal, CCS 2018, section 5.3) takes single bits, for which a
//! tree of more levels and about twice the bits are sent.
//!
//! Groups of three bits send least. Few numbers take groups of eight: six times the bits, which
//! do not matter then, and two rounds less.

use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::rows::{row_words, rows_of};
use crate::session::Session;
use crate::shares::{BitShares, Shares};

/// The most numbers whose bits are taken in groups of eight. Their largest message has 64 kB.
pub(crate) const FEW: usize = 256;

impl Session {
    /// Returns the carry out of the lowest `bits` bits of the summands of each number
    /// ([`Session::known_summand`]), one bit per number in a row. If `with_bit`, it is added to
    /// the bit above of both summands, so that the result is that bit of the number. `bits` is
    /// below 64.
    ///
    /// For g groups of w bits: 2 + ⌈log₂ g⌉ rounds. Per number, (2^w − 1) g bits, one more with the
    /// bit above, 2 (2 g − 1) for the choice, and 3 for each product of the tree.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn carry(
        &mut self,
        shares: &Shares,
        bits: usize,
        with_bit: bool,
    ) -> Result<BitShares, MpcError> {
        match shares.len() {
            0..=FEW => self.carry_by::<8, 256>(shares, bits, with_bit),
            _ => self.carry_by::<3, 8>(shares, bits, with_bit),
        }
    }

    /// As [`Session::carry`], by groups of `WIDTH` bits, which have 2^`WIDTH` = `VALUES` values.
    fn carry_by<const WIDTH: usize, const VALUES: usize>(
        &mut self,
        shares: &Shares,
        bits: usize,
        with_bit: bool,
    ) -> Result<BitShares, MpcError> {
        let (n, groups) = (shares.len(), bits.div_ceil(WIDTH));
        let words = row_words(n);
        // Zeros below the lowest bit fill its group: they carry nothing.
        let mut known = vec![0; (groups * WIDTH - bits) * words];
        known.extend(rows_of(&self.known_summand(shares), bits + usize::from(with_bit)));
        let (known, above) = known.split_at(groups * WIDTH * words);
        let thresholds = (VALUES - 1) * groups;
        let told = match self.party() {
            PartyIndex::FIRST => [&reached::<WIDTH, VALUES>(known, words)[..], above].concat(),
            _ => Vec::new(),
        };
        let count = (thresholds + usize::from(with_bit)) * words;
        let told = self.share_first_bits(&told, count, n)?;
        let part = match self.part_of_first(&told.own, &told.next) {
            Some(part) => {
                let one = if self.party() == PartyIndex::SECOND { u64::MAX } else { 0 };
                choices::<WIDTH, VALUES>(known, part, words, one)
            }
            None => vec![0; (2 * groups - 1) * words],
        };
        let chosen = self.spread_bits(&part, n)?;
        let generated = chosen.rows(0..groups, words);
        let propagated = chosen.rows(groups..2 * groups - 1, words);
        let carry = self.combine_groups(generated, propagated, (groups, n))?;
        if !with_bit {
            return Ok(carry);
        }
        let first = told.rows(std::iter::once(thresholds), words);
        let other = BitShares::of_component(self.party(), PartyIndex::THIRD, above);
        carry.xor(&first)?.xor(&other)
    }

    /// Combines neighbouring groups until one is left. `propagated` lacks the lowest group, into
    /// which nothing is carried.
    fn combine_groups(
        &mut self,
        mut generated: BitShares,
        mut propagated: BitShares,
        (mut groups, n): (usize, usize),
    ) -> Result<BitShares, MpcError> {
        let words = row_words(n);
        while groups > 1 {
            let pairs = groups / 2;
            let upper = propagated.rows((0..pairs).map(|at| 2 * at), words);
            let lower = generated.rows((0..pairs).map(|at| 2 * at), words);
            let passes = propagated.rows((1..pairs).map(|at| 2 * at - 1), words);
            let above_lowest = upper.rows(1..pairs, words);
            let both = self.and_rows(&upper.concat(&above_lowest), &lower.concat(&passes), n)?;
            let odd = generated.rows((0..pairs).map(|at| 2 * at + 1), words);
            let unpaired = 2 * pairs..groups;
            let left = generated.rows(unpaired.clone(), words);
            generated = odd.xor(&both.rows(0..pairs, words))?.concat(&left);
            let left = propagated.rows(unpaired.map(|at| at - 1), words);
            propagated = both.rows(pairs..2 * pairs - 1, words).concat(&left);
            groups = pairs + groups % 2;
        }
        Ok(generated)
    }
}

/// Returns the rows a ≥ `VALUES` − 1, …, a ≥ 1 of each group of bits a.
fn reached<const WIDTH: usize, const VALUES: usize>(known: &[u64], words: usize) -> Vec<u64> {
    let mut rows = Vec::with_capacity((VALUES - 1) * (known.len() / WIDTH));
    for group in known.chunks_exact((WIDTH * words).max(1)) {
        for threshold in (1..VALUES).rev() {
            for word in 0..words {
                // From the lowest bit up: if the bits so far reach those of the threshold.
                let reach = |reached: u64, at: usize| {
                    let bit = group[at * words + word];
                    if threshold >> at & 1 == 1 { bit & reached } else { bit | reached }
                };
                rows.push((0..WIDTH).fold(u64::MAX, reach));
            }
        }
    }
    rows
}

/// Chooses from a part of the rows of [`reached`]: if each group generates a carry, and if each but
/// the lowest propagates one. `one` is this party's part of the truth, a ≥ 0.
fn choices<const WIDTH: usize, const VALUES: usize>(
    known: &[u64],
    part: &[u64],
    words: usize,
    one: u64,
) -> Vec<u64> {
    let groups = known.len() / (WIDTH * words).max(1);
    let mut chosen = vec![0; (2 * groups).saturating_sub(1) * words];
    let (generated, propagated) = chosen.split_at_mut(groups * words);
    let bits = known.chunks_exact((WIDTH * words).max(1));
    let rows = part.chunks_exact(((VALUES - 1) * words).max(1));
    for (group, (bits, rows)) in bits.zip(rows).enumerate() {
        for word in 0..words {
            let select: [u64; WIDTH] = std::array::from_fn(|at| bits[at * words + word]);
            // By b = 0 …: a ≥ VALUES, which is never so, a ≥ VALUES − 1, …, a ≥ 1, a ≥ 0.
            let carries = choose::<WIDTH, VALUES>(&select, |b| {
                if b == 0 { 0 } else { rows[(b - 1) * words + word] }
            });
            generated[group * words + word] = carries;
            if group > 0 {
                let row = |b: usize| rows.get(b * words + word).copied().unwrap_or(one);
                propagated[(group - 1) * words + word] =
                    carries ^ choose::<WIDTH, VALUES>(&select, row);
            }
        }
    }
    chosen
}

/// Chooses one of `VALUES` bits by the bits of its position, the lowest first.
fn choose<const WIDTH: usize, const VALUES: usize>(
    select: &[u64; WIDTH],
    entry: impl Fn(usize) -> u64,
) -> u64 {
    let mut entries: [u64; VALUES] = std::array::from_fn(entry);
    for (at, bit) in select.iter().enumerate().rev() {
        let (lower, upper) = entries.split_at_mut(1 << at);
        lower.iter_mut().zip(upper).for_each(|(low, high)| *low ^= bit & (*low ^ *high));
    }
    entries[0]
}
