//! Softmax by the exponential, on shares.
//!
//! For the distance D ≥ 0 of a logit to its record's largest, the first party knows a and the
//! others know b with D = a + b modulo 32, so that e^−D is e^−a e^−b, or e^32 times that. The first
//! party tells e^−a in shares: a table of eight numbers, with 4 nats from one to the next, of which
//! one is not 0. The others multiply each by what e^−b makes of it. One case is left to a shared
//! bit, where the fractions' carry alone passes 32. Distances of 28 and more give 0.

use super::logits::{LOGIT_BITS, Logits};
use crate::arithmetic::product_parts;
use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::rows::row_words;
use crate::session::Session;
use crate::shares::Shares;

/// The fraction bits of a score on shares.
pub const SCORE_BITS: u32 = 30;

/// The fraction bits between exponentials and scores: a product with a reciprocal of up to 17 / 2
/// stays below 2^62.
const WORK_BITS: u32 = 29;
/// The fraction bits of e^−a and e^−b. The wrap multiplies errors of the first by e^4.
const FIRST_BITS: u32 = 33;
const SECOND_BITS: u32 = 28;
/// The numbers of a table, and the bits of a distance below their step of 4 nats.
const STEPS: usize = 8;
const STEP_BITS: u32 = LOGIT_BITS + 2;

/// Computes e^x for |x| ≤ 4, with a relative error below 2^−46. Sums and products alone: two
/// parties must get the same bits on any machine, which a library's exponential does not promise.
fn exponential(x: f64) -> f64 {
    let small = x / 32.0;
    let mut sum = (1..=10).rev().fold(1.0, |sum, at| 1.0 + small / f64::from(at) * sum);
    (0..5).for_each(|_| sum *= sum);
    sum
}

pub(super) fn scaled(value: f64, bits: u32) -> u64 {
    (value * (1_u64 << bits) as f64).round() as i64 as u64
}

/// Splits a summand of a distance: its step modulo 8, and the rest in nats.
fn split(word: u64) -> (usize, f64) {
    let rest = (word & ((1 << STEP_BITS) - 1)) as f64 / (1_u64 << LOGIT_BITS) as f64;
    ((word >> STEP_BITS) as usize % STEPS, rest)
}

impl Session {
    /// Computes the softmax scores of each record, class after class, with [`SCORE_BITS`] fraction
    /// bits. 43 rounds and 2932 bytes per record for k = 6.
    ///
    /// They differ from the exact ones by at most 2^−22: for each weight, one
    /// unit of 2^−29 and 2^−27 of the table, relative to a sum of at least 2 / (k + 1); about 12
    /// units for the reciprocal, and 2^−30 at the end. Errors of truncations are random, as
    /// [`Session::truncate`] says, so that they hardly ever add up.
    ///
    /// # Errors
    /// Those of links.
    pub fn exponential_softmax(&mut self, logits: &Logits) -> Result<Shares, MpcError> {
        Ok(self.scores_and_winners(logits, SCORE_BITS)?.0)
    }

    /// Computes the scores as [`Session::exponential_softmax`] does, with so many fraction bits,
    /// [`SCORE_BITS`] at most, and 1 for the class of each record whose logit is the first of the
    /// largest, 0 for the others, class after class.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn scores_and_winners(
        &mut self,
        logits: &Logits,
        score_bits: u32,
    ) -> Result<(Shares, Shares), MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let winners = self.winners(logits)?;
        let words = row_words(n);
        let mut bits = winners.rows(0..1, words).spread(n);
        for class in 1..k {
            bits = bits.concat(&winners.rows(class..class + 1, words).spread(n));
        }
        let chosen = self.bit_to_number(&bits)?;
        let largest = record_sums(&product_parts(&chosen, logits.shares())?, n);
        let largest = self.reshare(largest)?;
        let distances = largest.repeat(k).minus(logits.shares())?;
        // Twice over k + 1, so that the sums lie around 1.
        let weights = self.exponentials(&distances, 2.0 / (k as f64 + 1.0))?;
        let sums =
            Shares { own: record_sums(&weights.own, n), next: record_sums(&weights.next, n) };
        let inverse = self.reciprocals(&sums, (k as f64 - 1.0) / (k as f64 + 1.0))?;
        let scores =
            self.multiply_truncated(&weights, &inverse.repeat(k), 2 * WORK_BITS - score_bits)?;
        Ok((scores, chosen))
    }

    /// Returns `scale` e^−D of distances D ≥ 0, with 29 fraction bits.
    ///
    /// # Errors
    /// Those of links.
    fn exponentials(&mut self, distances: &Shares, scale: f64) -> Result<Shares, MpcError> {
        let count = distances.len();
        let known = self.known_summand(distances);
        let mut table = Vec::new();
        if self.party() == PartyIndex::FIRST {
            table = vec![0; STEPS * count];
            for (entries, word) in table.chunks_exact_mut(STEPS).zip(&known) {
                let (step, rest) = split(*word);
                entries[step] = scaled(exponential(-rest), FIRST_BITS);
            }
        }
        let table = self.share_first_numbers(&table, STEPS * count, 64)?;
        let mut parts = vec![0; 2 * count];
        if let Some(part) = self.part_of_first(&table.own, &table.next) {
            let (plain, wrapped) = parts.split_at_mut(count);
            let mut steps = [scale; STEPS];
            (1..STEPS).for_each(|at| steps[at] = steps[at - 1] * exponential(-4.0));
            let entries = part.chunks_exact(STEPS).zip(&known);
            for ((plain, wrapped), (entries, word)) in plain.iter_mut().zip(wrapped).zip(entries) {
                let (step, rest) = split(*word);
                let factor = exponential(-rest);
                for (at, entry) in entries.iter().enumerate() {
                    let sum = (at + step) % STEPS;
                    if sum + 1 == STEPS {
                        let factor = scaled(scale * exponential(4.0 - rest), SECOND_BITS);
                        *wrapped = entry.wrapping_mul(factor);
                    } else {
                        let factor = scaled(factor * steps[sum], SECOND_BITS);
                        *plain = plain.wrapping_add(entry.wrapping_mul(factor));
                    }
                }
            }
        }
        let values = self.spread_numbers(&parts, 64)?;
        let limit = self.public(&vec![(STEPS as u64) << STEP_BITS; count]);
        let near = self.negative_row(&distances.minus(&limit)?)?;
        let carry = self.carry(distances, STEP_BITS as usize, false)?;
        let wraps = self.and_rows(&near, &carry, count)?;
        let bits = near.spread(count).concat(&wraps.spread(count));
        let bits = self.bit_to_number(&bits)?;
        let parts = record_sums(&product_parts(&bits, &values)?, count);
        self.truncate_parts(parts, FIRST_BITS + SECOND_BITS - WORK_BITS)
    }

    /// Returns the reciprocals of numbers S with |1 − S| ≤ `bound` < 1, with 29 fraction bits, by
    /// Goldschmidt's product 1 / S = Π (1 + e^(2^j)) with e = 1 − S.
    ///
    /// # Errors
    /// Those of links.
    fn reciprocals(&mut self, sums: &Shares, bound: f64) -> Result<Shares, MpcError> {
        let one = self.public(&vec![1 << WORK_BITS; sums.len()]);
        let mut power = one.minus(sums)?;
        let mut product = one.plus(&power)?;
        power = self.multiply_truncated(&power, &power, WORK_BITS)?;
        let mut left = bound * bound;
        while left > (-f64::from(WORK_BITS + 2)).exp2() {
            left *= left;
            let factors = product.concat(&power);
            let others = one.plus(&power)?.concat(&power);
            let both = self.multiply_truncated(&factors, &others, WORK_BITS)?;
            (product, power) = both.split_at(sums.len());
        }
        Ok(product)
    }
}

/// Adds the numbers of each record over all classes.
fn record_sums(values: &[u64], records: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; records];
    for class in values.chunks_exact(records.max(1)) {
        sums.iter_mut().zip(class).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    sums
}
