//! The carry of a sum of two numbers, of which the first party knows one and the others the other.
//!
//! Bits are taken three at a time. The first party shares, for its three bits a, if a ≥ t for
//! t = 1 … 7. The others choose from these seven by their three bits b: the group generates a carry
//! if a ≥ 8 − b, and propagates one if a = 7 − b. A tree combines the groups (Brent and Kung 1982).
//! ABY3 (Mohassel and Rindal, CCS 2018, section 5.3) takes single bits, for which a tree of another
//! level and about twice the bits are sent.

use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::rows::{row_words, rows_of};
use crate::session::Session;
use crate::shares::{BitShares, Shares};

/// The thresholds of a group of three bits.
const THRESHOLDS: usize = 7;

impl Session {
    /// Returns the carry out of the lowest `bits` bits of the summands of each number
    /// ([`Session::known_summand`]), one bit per number in a row. If `with_bit`, it is added to
    /// the bit above of both summands, so that the result is that bit of the number. `bits` is a
    /// multiple of three below 64.
    ///
    /// For g = `bits` / 3 groups: 2 + ⌈log₂ g⌉ rounds. Per number, 7 g bits, one more with the bit
    /// above, 2 (2 g − 1) for the choice, and 3 for each product of the tree.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn carry(
        &mut self,
        shares: &Shares,
        bits: usize,
        with_bit: bool,
    ) -> Result<BitShares, MpcError> {
        let (n, groups) = (shares.len(), bits / 3);
        let words = row_words(n);
        let known = rows_of(&self.known_summand(shares), bits + usize::from(with_bit));
        let count = (THRESHOLDS * groups + usize::from(with_bit)) * words;
        let told = match self.party() {
            PartyIndex::FIRST => thresholds(&known, groups, words),
            _ => Vec::new(),
        };
        let told = self.share_first_bits(&told, count, n)?;
        let part = match self.part_of_first(&told.own, &told.next) {
            Some(part) => {
                let one = if self.party() == PartyIndex::SECOND { u64::MAX } else { 0 };
                choices(&known, part, groups, words, one)
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
        let first = told.rows(std::iter::once(THRESHOLDS * groups), words);
        let other =
            BitShares::of_component(self.party(), PartyIndex::THIRD, &known[bits * words..]);
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

/// Returns the rows a ≥ 7, …, a ≥ 1 of each group, and those of `known` above all groups.
fn thresholds(known: &[u64], groups: usize, words: usize) -> Vec<u64> {
    let mut rows = Vec::with_capacity((THRESHOLDS * groups + 1) * words);
    for group in 0..groups {
        let bit = |at: usize| &known[(3 * group + at) * words..][..words];
        let mut push = |of: fn(u64, u64, u64) -> u64| {
            let bits = bit(0).iter().zip(bit(1)).zip(bit(2));
            rows.extend(bits.map(|((low, middle), high)| of(*low, *middle, *high)));
        };
        push(|low, middle, high| high & middle & low);
        push(|_, middle, high| high & middle);
        push(|low, middle, high| high & (middle | low));
        push(|_, _, high| high);
        push(|low, middle, high| high | (middle & low));
        push(|_, middle, high| high | middle);
        push(|low, middle, high| high | middle | low);
    }
    rows.extend_from_slice(&known[3 * groups * words..]);
    rows
}

/// Chooses from a part of the thresholds: if each group generates a carry, and if each but the
/// lowest propagates one. `one` is this party's part of the truth, a ≥ 0.
fn choices(known: &[u64], part: &[u64], groups: usize, words: usize, one: u64) -> Vec<u64> {
    let mut chosen = vec![0; (2 * groups - 1) * words];
    let (generated, propagated) = chosen.split_at_mut(groups * words);
    for group in 0..groups {
        let bit = |at: usize| &known[(3 * group + at) * words..][..words];
        let rows: [&[u64]; THRESHOLDS] =
            std::array::from_fn(|at| &part[(THRESHOLDS * group + at) * words..][..words]);
        for at in 0..words {
            let [a, b, c, d, e, f, g] = rows.map(|row| row[at]);
            let select = [0, 1, 2].map(|position| bit(position)[at]);
            let carries = choose(select, [0, a, b, c, d, e, f, g]);
            generated[group * words + at] = carries;
            if group > 0 {
                let reached = choose(select, [a, b, c, d, e, f, g, one]);
                propagated[(group - 1) * words + at] = carries ^ reached;
            }
        }
    }
    chosen
}

/// Chooses one of eight bits by the three bits of its position, the lowest first.
fn choose([low, middle, high]: [u64; 3], [a, b, c, d, e, f, g, h]: [u64; 8]) -> u64 {
    let either = |bit: u64, unset: u64, set: u64| unset ^ (bit & (unset ^ set));
    let lower = either(middle, either(low, a, b), either(low, c, d));
    let upper = either(middle, either(low, e, f), either(low, g, h));
    either(high, lower, upper)
}
