//! Release of the order of logits, or of a part of it. All pairs of a record's logits are compared
//! at once.

use super::logits::{Logits, check_classes};
use crate::error::{MpcError, check_result};
use crate::party_index::PartyIndex;
use crate::rows::{and_parts, row_words};
use crate::session::Session;
use crate::shares::{BitShares, Shares};

/// The bits of a rank, among at most 16 classes.
const RANK_BITS: usize = 4;
/// The possible ranks.
const RANKS: usize = 1 << RANK_BITS;

/// Returns all pairs of classes, the lower first.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |one| (one + 1..classes).map(move |other| (one, other)))
}

/// Returns the bits that tell one of `classes` apart.
fn code_bits(classes: usize) -> usize {
    classes.next_power_of_two().trailing_zeros() as usize
}

impl Session {
    /// Returns a bit for each pair of classes, record after record in one row: 1 if the first logit
    /// is below the second.
    fn pair_row(&mut self, logits: &Logits) -> Result<BitShares, MpcError> {
        check_classes(logits.classes())?;
        let mut differences = Shares { own: Vec::new(), next: Vec::new() };
        for (one, other) in pairs(logits.classes()) {
            let difference = logits.class(one).minus(&logits.class(other))?;
            differences.own.extend(difference.own);
            differences.next.extend(difference.next);
        }
        self.negative_row(&differences)
    }

    /// Returns a row for each class, with 1 where its logit is the first of the largest.
    pub(crate) fn winners(&mut self, logits: &Logits) -> Result<BitShares, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let words = row_words(n);
        let second_wins = self.pair_row(logits)?.cut(k * (k - 1) / 2, n);
        let ones = vec![u64::MAX; second_wins.len()];
        let ones = BitShares::of_component(self.party(), PartyIndex::FIRST, &ones);
        let first_wins = second_wins.xor(&ones)?;
        let all = first_wins.concat(&second_wins);
        // Class by class, the rows in which it wins.
        let of = |class: usize| {
            let wins = move |(at, (one, other))| match class {
                class if class == one => Some(at),
                class if class == other => Some(at + k * (k - 1) / 2),
                _ => None,
            };
            pairs(k).enumerate().filter_map(wins)
        };
        let mut rows = all.rows((0..k).flat_map(of).collect::<Vec<_>>().into_iter(), words);
        let mut width = k - 1;
        while width > 1 {
            let half = width / 2;
            let side = |offset: usize| {
                (0..k)
                    .flat_map(move |class| (0..half).map(move |at| class * width + 2 * at + offset))
            };
            let both = self.and_rows(&rows.rows(side(0), words), &rows.rows(side(1), words), n)?;
            let together = both.concat(&rows);
            let unpaired = width % 2;
            let next = (0..k).flat_map(|class| {
                let joined = (0..half).map(move |at| class * half + at);
                joined.chain((0..unpaired).map(move |_| k * half + class * width + width - 1))
            });
            rows = together.rows(next, words);
            width = half + unpaired;
        }
        Ok(rows)
    }

    /// Releases the position of each record's largest logit, of equal ones the first. Exact.
    ///
    /// Of each pair of classes the one with the smaller logit is given a word of 64 bits that
    /// nobody knows, and what each class was given is opened, under exclusive or: 0 for the class
    /// that no other one beats, and words as random as any for the others.
    ///
    /// Eight rounds, and six for a few records; 41.9 bytes for each of the k (k − 1) / 2 pairs, and
    /// 16 bytes for each class.
    ///
    /// # Errors
    /// [`MpcError::NoResult`]; errors of links.
    pub fn release_label(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
    ) -> Result<Option<Vec<usize>>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let Some(given) = self.open_given_words(to, logits)? else { return Ok(None) };
        let unbeaten =
            |record: usize| (0..k).filter(|class| given[class * n + record] == 0).collect();
        let unbeaten: Vec<Vec<usize>> = (0..n).map(unbeaten).collect();
        check_result("a label", unbeaten.iter().all(|classes| classes.len() == 1))?;
        Ok(Some(unbeaten.concat()))
    }

    /// Opens the words that each class is given, class after class: 0 for the one that no other
    /// class beats.
    ///
    /// # Errors
    /// Those of links.
    fn open_given_words(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
    ) -> Result<Option<Vec<u64>>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let below = self.pair_row(logits)?.spread(n * k * (k - 1) / 2);
        let words = self.random_bits(below.len());
        let to_first = and_parts(&below.map(u64::wrapping_neg), &words)?;
        let mut given = self.zero_parities(k * n);
        let of_pairs = to_first.chunks_exact(n.max(1)).zip(words.own.chunks_exact(n.max(1)));
        for ((first, second), (to_first, words)) in pairs(k).zip(of_pairs) {
            for (record, (to_first, word)) in to_first.iter().zip(words).enumerate() {
                given[first * n + record] ^= to_first;
                given[second * n + record] ^= to_first ^ word;
            }
        }
        self.open_parities_to(to, given)
    }

    /// Releases all classes of each record, the largest logit first, and of equal ones the first
    /// class. Eight rounds, 42 bytes for each of the k (k − 1) / 2 pairs. Exact.
    ///
    /// Opened are the comparisons of all pairs, which the order determines.
    ///
    /// # Errors
    /// [`MpcError::NoResult`] for comparisons that no order has; errors of links.
    pub fn release_ranking(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
    ) -> Result<Option<Vec<Vec<usize>>>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let row = self.pair_row(logits)?;
        let opened = self.open_rows_to(to, &row, n * k * (k - 1) / 2)?;
        let Some(row) = opened else { return Ok(None) };
        let ranking = |record: usize| {
            let mut ranks = vec![0; k];
            for (pair, (one, other)) in pairs(k).enumerate() {
                let at = pair * n + record;
                let below = row[at / 64] >> (at % 64) & 1 == 1;
                ranks[if below { one } else { other }] += 1;
            }
            let mut order: Vec<usize> = (0..k).collect();
            order.sort_by_key(|class| ranks[*class]);
            // Comparisons that go round in a circle give two classes the same rank.
            let is_order = order.iter().enumerate().all(|(rank, class)| ranks[*class] == rank);
            check_result("a ranking", is_order).map(|()| order)
        };
        (0..n).map(ranking).collect::<Result<_, MpcError>>().map(Some)
    }

    /// Releases the `m` best classes of each record in their order, of equal ones the first. Exact.
    ///
    /// At most 12 rounds; 42.4 bytes for each of the k (k − 1) / 2 pairs, 3 bytes for each class,
    /// and 3 bits for each of the m ⌈log₂ k⌉ that are opened.
    ///
    /// # Errors
    /// [`MpcError::Setting`] unless `m` is 1 to k; [`MpcError::NoResult`]; errors of links.
    pub fn release_top(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        m: usize,
    ) -> Result<Option<Vec<Vec<usize>>>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let bits = code_bits(k);
        let places = self.places(logits, m)?;
        // For each bit of a class's code, a word with this bit for each place.
        let mut part = vec![0; bits * n];
        for (at, place) in places.iter().enumerate() {
            let (class, record) = (at / n, at % n);
            for bit in (0..bits).filter(|bit| class >> bit & 1 == 1) {
                part[bit * n + record] ^= place;
            }
        }
        let codes = self.spread_bits(&part, m)?;
        let Some(words) = self.open_rows_to(to, &codes, m)? else { return Ok(None) };
        let bit = |record: usize, place: usize, bit| words[bit * n + record] >> place & 1;
        let class = |record, place| {
            (0..bits).fold(0, |all, at| all | (bit(record, place, at) as usize) << at)
        };
        let best = |record| {
            let best: Vec<usize> = (0..m).map(|place| class(record, place)).collect();
            let once = |(at, class): (usize, &usize)| *class < k && !best[..at].contains(class);
            let possible = best.iter().enumerate().all(once);
            check_result("the best classes", possible).map(|()| best)
        };
        (0..n).map(best).collect::<Result<_, MpcError>>().map(Some)
    }

    /// Releases which are the `m` best classes of each record, and not their order: `true` for each
    /// of them, in the order of classes. As much as [`Session::release_top`], with k bits opened.
    /// Exact.
    ///
    /// # Errors
    /// As [`Session::release_top`].
    pub fn release_top_set(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        m: usize,
    ) -> Result<Option<Vec<Vec<bool>>>, MpcError> {
        let (members, k) = (self.top_set(logits, m)?, logits.classes());
        let Some(words) = self.open_rows_to(to, &members, k)? else { return Ok(None) };
        let possible = words.iter().all(|word| word.count_ones() as usize == m);
        check_result("a set of best classes", possible)?;
        let members = |word: &u64| (0..k).map(|at| word >> at & 1 == 1).collect();
        Ok(Some(words.iter().map(members).collect()))
    }

    /// Returns a word for each record: bit c is 1 if class c is one of the `m` best.
    ///
    /// # Errors
    /// As [`Session::release_top`].
    pub(super) fn top_set(&mut self, logits: &Logits, m: usize) -> Result<BitShares, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let places = self.places(logits, m)?;
        let mut part = vec![0; n];
        for (at, place) in places.iter().enumerate() {
            part[at % n] |= u64::from(place.count_ones() & 1) << (at / n);
        }
        self.spread_bits(&part, k)
    }

    /// Returns this party's part, under exclusive or, of a word for each logit: bit r is 1 if it is
    /// the one of rank r, for the ranks below m. That of the first party is 0.
    ///
    /// A rank is a sum of comparisons modulo 16. The first party learns it under a mask that the
    /// others know, and shares a table with 1 there, which the others rotate by the mask.
    ///
    /// # Errors
    /// As [`Session::release_top`].
    fn places(&mut self, logits: &Logits, m: usize) -> Result<Vec<u64>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        if m == 0 || m > k {
            let (name, range) = ("the number of best classes", "1 to the number of classes");
            return Err(MpcError::Setting { name, got: m as f64, range });
        }
        let below = self.pair_row(logits)?.spread(n * k * (k - 1) / 2);
        let below = self.bit_to_parts(&below, RANK_BITS)?;
        let one = u64::from(self.party() == PartyIndex::SECOND);
        let mut ranks = vec![0_u64; k * n];
        for (pair, (first, second)) in pairs(k).enumerate() {
            for record in 0..n {
                let bit = below[pair * n + record];
                let rank = &mut ranks[first * n + record];
                *rank = rank.wrapping_add(bit);
                let rank = &mut ranks[second * n + record];
                *rank = rank.wrapping_add(one).wrapping_sub(bit);
            }
        }
        let known = self.tell_first(&ranks, RANK_BITS)?;
        let table = match self.party() {
            PartyIndex::FIRST => known.iter().map(|rank| 1 << rank).collect(),
            _ => Vec::new(),
        };
        let table = self.share_first_bits(&table, k * n, RANKS)?;
        let Some(part) = self.part_of_first(&table.own, &table.next) else {
            return Ok(vec![0; k * n]);
        };
        let rotated = |(word, by): (&u64, &u64)| (*word as u16).rotate_left(*by as u32);
        let kept = |word: u16| u64::from(word) & (u64::MAX >> (64 - m));
        Ok(part.iter().zip(&known).map(rotated).map(kept).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::session::CONTEXT_BYTES;
    use crate::{MemoryLink, connect_in_memory, encode_logits};

    /// Classes that are beaten, by one other or by several, are given words of which each bit is as
    /// often set as not, and which never come again.
    #[test]
    fn who_beats_whom_is_not_opened() {
        let n = 4000;
        let z: Vec<f64> = [0.0, 3.0, -1.0, 3.0].into_iter().flat_map(|z| vec![z; n]).collect();
        let encoded = encode_logits(&z).unwrap();
        let opened = std::thread::scope(|scope| {
            let run = |(party, (next, previous)): (PartyIndex, (MemoryLink, MemoryLink))| {
                let encoded = &encoded;
                scope.spawn(move || {
                    let links = (Box::new(next), Box::new(previous));
                    let context = [0; CONTEXT_BYTES];
                    let mut session = Session::begin(party, &context, links.0, links.1).unwrap();
                    let logits = Logits::new(n, 4, session.public(encoded)).unwrap();
                    session.open_given_words(PartyIndex::FIRST, &logits).unwrap()
                })
            };
            let places =
                PartyIndex::ALL.into_iter().zip(connect_in_memory(Duration::from_secs(20)));
            let threads: Vec<_> = places.map(run).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).next().unwrap()
        });
        let (unbeaten, others) = (&opened[n..2 * n], [&opened[..n], &opened[2 * n..]].concat());
        assert!(unbeaten.iter().all(|word| *word == 0));
        assert_eq!(others.iter().collect::<HashSet<_>>().len(), others.len());
        for of_class in others.chunks(n) {
            for bit in 0..64 {
                let set = of_class.iter().filter(|word| *word >> bit & 1 == 1).count();
                // Six deviations.
                assert!(set.abs_diff(n / 2) < 190, "bit {bit}: {set}");
            }
        }
    }
}
