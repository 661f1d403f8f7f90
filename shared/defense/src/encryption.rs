//! Order-preserving encryption of Boldyreva, Chenette, Lee and O'Neill (Eurocrypt 2009): a random
//! order-preserving function, drawn lazily, branch by branch of a binary search over its range.

use std::collections::HashMap;

use nalgebra::DMatrix;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution, Hypergeometric};
use vfl_core::types::ReleasedScores;

use super::definition::Definition;
use super::order::{Order, each_column};
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, ReleaseKind};

const NAME: &str = "order_preserving_encryption";

/// The bits b of the unit 2⁻ᵇ in which order-preserving encryption takes scores.
pub const ENCRYPTED_UNIT_BITS: u32 = 32;
/// The number of bits of an encrypted unit. The sampler's logarithms of factorials are good to 1e-3
/// for a population of this size.
pub const ENCRYPTED_BITS: u32 = 37;
/// The number of bits below them, for the order of scores that share a unit. With the encrypted
/// unit these are 53 bits, which a double holds exactly.
pub const ENCRYPTED_ORDER_BITS: u32 = 16;

/// The number of units from 0 to 1.
const UNITS: u64 = 1 << ENCRYPTED_UNIT_BITS;
/// Up to this number, marked items are drawn one by one: there the library's sampler takes time in
/// proportion to the population.
const ONE_BY_ONE: u64 = 64;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    examples: |_| vec![DefenseConfig::OrderPreservingEncryption {}],
    costly: true,
    ..Facts::PLAIN
};

pub(super) fn definition() -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Ciphertexts,
        bits: Definition::unbounded(
            "order-preserving encryption leaves every score to some ten bits and its order exactly",
        ),
        draws: true,
        ..Definition::at_scores(
            &FACTS,
            Output::Ciphertexts,
            || Ok(()),
            |classes, _| OrderPreservingEncryption::new(classes),
        )
    }
}

/// Releases integers below 2⁵³ that sort as the scores do: strictly larger for strictly larger
/// scores, equal for equal ones.
///
/// The key belongs to (secret, model, policy), not to the record, so equal scores have equal
/// ciphertexts in all records (unless they share their unit of 2⁻³² with a smaller one of their own
/// record). So more leaks than a ranking: the order of scores **across** records, and with it, as
/// in every scheme of this kind, about the leading half of a score's bits. Dividing a ciphertext by
/// the number of ciphertexts, 2³⁷, gives a score to some 1e-5 without any key (`interval` does so).
/// Known pairs of score and ciphertext enclose all scores between them. No decryption is intended:
/// what is served here is the ranking, and `ranking` serves it without telling more. With fresh
/// noise each answer has a key of its own.
///
/// Scores below 0 (after noise) count as 0 and scores above 1 as 1; the order is kept there too.
#[derive(Debug, Clone, Copy)]
pub struct OrderPreservingEncryption;

impl OrderPreservingEncryption {
    /// Creates the encryption of the scores of `classes` classes, at most 65 536.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for more.
    pub fn new(classes: usize) -> Result<Self, DefenseError> {
        checked(classes <= 1 << ENCRYPTED_ORDER_BITS, NAME, "classes", classes, "at most 65536")
            .map(|()| Self)
    }
}

/// The encryption function of one key.
struct Cipher {
    coins: ChaCha12Rng,
    known: HashMap<u64, u64, foldhash::fast::RandomState>,
}

impl Cipher {
    /// Returns the coins of one node of the search over the range; each node has 2²⁸ words of its
    /// own.
    fn at(&mut self, node: u64) -> &mut ChaCha12Rng {
        self.coins.set_word_pos(u128::from(node) << 28);
        &mut self.coins
    }

    /// Encrypts 0 … 2³² units to a ciphertext below 2³⁷.
    fn encrypt(&mut self, units: u64) -> u64 {
        if let Some(known) = self.known.get(&units) {
            return *known;
        }
        let (_, cipher) = self.search(|_, middle, _| units < middle);
        self.known.insert(units, cipher);
        cipher
    }

    /// Walks down to one unit; returns it and its ciphertext. `below` chooses the lower half, given
    /// the lowest unit and ciphertext of the upper one.
    fn search(&mut self, below: impl Fn(u64, u64, u64) -> bool) -> (u64, u64) {
        let (mut first, mut units) = (0, UNITS + 1);
        let (mut low, mut bits) = (0, ENCRYPTED_BITS);
        let mut node = 1;
        while units > 1 {
            bits -= 1;
            let half = 1 << bits;
            let lower = marked_of_half(half, units, self.at(node));
            // The search never goes to a half without a unit.
            if lower == units || lower > 0 && below(first, first + lower, low + half) {
                (units, node) = (lower, 2 * node);
            } else {
                (first, units, low, node) =
                    (first + lower, units - lower, low + half, 2 * node + 1);
            }
        }
        (first, low + self.at(node).random_range(0..1u64 << bits))
    }
}

/// Draws how many of `marked` items lie in one half of 2 `half`, all choices equally likely:
/// hypergeometric.
fn marked_of_half(half: u64, marked: u64, rng: &mut impl Rng) -> u64 {
    let all = 2 * half;
    let few = marked.min(all - marked);
    let drawn = if few <= ONE_BY_ONE {
        let mut drawn = 0;
        for at in 0..few {
            drawn += u64::from(rng.random_range(0..all - at) < half - drawn);
        }
        drawn
    } else {
        // The parameters are in range; the mean stands in for an answer that the sampler cannot
        // give.
        Hypergeometric::new(all, few, half)
            .map_or(few / 2, |d| d.sample(rng))
            .clamp(few.saturating_sub(half), few.min(half))
    };
    if few == marked { drawn } else { half - drawn }
}

impl Defense for OrderPreservingEncryption {
    fn contract(&self) -> Contract {
        let output = Output::Ciphertexts;
        Contract { output, keeps_arg_max: true, keeps_ranking: true, randomised: true, bits: None }
    }

    fn apply(
        &self,
        scores: DMatrix<f64>,
        noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let (k, n) = scores.shape();
        let mut out = DMatrix::<u64>::zeros(k, n);
        let scratch =
            || (Order::default(), Cipher { coins: noise.shared(), known: HashMap::default() });
        each_column(out.as_mut_slice(), k, scratch, |(order, cipher), record, out| {
            let column = &scores.as_slice()[record * k..(record + 1) * k];
            order.sort(column);
            let mut below: Option<(f64, u64, u64)> = None;
            for at in order.best_first().rev() {
                let score = column[at];
                let units = (score.clamp(0.0, 1.0) * UNITS as f64) as u64;
                let place = match below {
                    Some((lower, same, place)) if same == units => place + u64::from(score > lower),
                    _ => 0,
                };
                below = Some((score, units, place));
                out[at] = cipher.encrypt(units) << ENCRYPTED_ORDER_BITS | place;
            }
        });
        Ok(ReleasedScores::Ciphertexts(out))
    }

    fn note(&self) -> Option<String> {
        Some(format!(
            "{NAME}: ciphertexts sort across records too, which tells more than a ranking of each"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn cipher(seed: u8) -> Cipher {
        Cipher { coins: ChaCha12Rng::from_seed([seed; 32]), known: HashMap::default() }
    }

    #[test]
    fn what_is_encrypted_decrypts_and_sorts() {
        let mut key = cipher(1);
        let mut rng = ChaCha12Rng::from_seed([9; 32]);
        let mut units: Vec<u64> = (0..300).map(|_| rng.random_range(0..=UNITS)).collect();
        units.extend([0, 1, 2, UNITS - 1, UNITS]);
        units.sort_unstable();
        units.dedup();
        let ciphers: Vec<u64> = units.iter().map(|&u| key.encrypt(u)).collect();
        assert!(
            ciphers.windows(2).all(|pair| pair[0] < pair[1])
                && ciphers[ciphers.len() - 1] < 1 << ENCRYPTED_BITS
        );
        for (&unit, &sent) in units.iter().zip(&ciphers) {
            assert_eq!(key.search(|_, _, middle| sent < middle).0, unit);
            // No memory of other scores is needed.
            assert_eq!(cipher(1).encrypt(unit), sent);
        }
        assert!(
            units.iter().filter(|&&u| cipher(2).encrypt(u) == key.encrypt(u)).count()
                < units.len() / 20
        );
    }

    proptest! {
        /// Mean and variance of the hypergeometric distribution, on both sides of the change of
        /// method.
        #[test]
        fn halves_have_the_right_moments(bits in 7u32..36, share in 0.001f64..0.999, few in any::<bool>(), seed in any::<u64>()) {
            let half = 1u64 << bits;
            let marked = if few { 1 + seed % ONE_BY_ONE } else { (share * 2.0 * half as f64) as u64 };
            let (all, m) = (2.0 * half as f64, marked as f64);
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            let draws = 400;
            let variance = m * 0.25 * (all - m) / (all - 1.0);
            let (mut mean, mut square) = (0.0, 0.0);
            for _ in 0..draws {
                let drawn = marked_of_half(half, marked, &mut rng);
                prop_assert!(drawn <= marked && drawn <= half && marked - drawn <= half);
                let away = drawn as f64 - m / 2.0;
                (mean, square) = (mean + away / draws as f64, square + away * away / draws as f64);
            }
            prop_assert!(mean.abs() <= 6.0 * (variance / draws as f64).sqrt() + 1e-12, "{mean} {variance}");
            prop_assert!((square - variance).abs() <= 6.0 * variance * (2.0 / draws as f64).sqrt() + 0.2, "{square} {variance}");
        }
    }
}
