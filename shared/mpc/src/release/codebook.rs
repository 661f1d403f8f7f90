//! Release of the nearest word of a codebook.

use super::exponential::{SCORE_BITS, scaled};
use super::logits::Logits;
use crate::error::{MpcError, check_length, check_result};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The fraction bits of the logarithm of a word's number.
const LOGARITHM_BITS: u32 = 24;
/// The least number of a word that counts as it is.
const FLOOR: f64 = 1e-12;
/// Added to the words of the predicted class: more than any log-likelihood is below 0, which is
/// 27.7.
const OF_CLASS: f64 = 32.0;
/// The most words.
pub const MOST_WORDS: usize = 256;

/// Returns the position of the first of the largest numbers.
fn largest(numbers: &[f64]) -> usize {
    let better = |best: usize, at: usize| if numbers[at] > numbers[best] { at } else { best };
    (0..numbers.len()).reduce(better).unwrap_or(0)
}

impl Session {
    /// Releases the position of the word that is nearest to each record's softmax scores c, among
    /// the words of its predicted class: that of the largest Σ c ln max(w, 1e-12), which has the
    /// least divergence D(c‖w), and of equal ones the first. Words are score vectors; the class of
    /// a word is that of its first largest number.
    ///
    /// Costs [`Session::exponential_softmax`], [`Session::arg_max`] of the words, and 8 bytes.
    /// Among words whose sums differ by less than k 2^−16, either is released.
    ///
    /// # Errors
    /// [`MpcError::Setting`] unless there are 1 to 256 words, and one for each class,
    /// [`MpcError::Shape`] unless each has k numbers, [`MpcError::NotRepresentable`] for a number
    /// that is not from 0 to 1; [`MpcError::NoResult`]; errors of links.
    pub fn release_word(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
        words: &[Vec<f64>],
    ) -> Result<Option<Vec<usize>>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        check_words(words, k)?;
        let (scores, winners) = self.scores_and_winners(logits, SCORE_BITS)?;
        let mut likelihoods = Vec::with_capacity(words.len());
        for word in words {
            let logarithm = |w: &f64| scaled(w.max(FLOOR).ln(), LOGARITHM_BITS);
            let logarithms: Vec<u64> = word.iter().map(logarithm).collect();
            let of_class = largest(word) * n;
            let bonus = scaled(OF_CLASS, SCORE_BITS + LOGARITHM_BITS);
            let likelihood = |scores: &[u64], winners: &[u64]| {
                let mut sums: Vec<u64> =
                    winners[of_class..][..n].iter().map(|won| won.wrapping_mul(bonus)).collect();
                for (scores, logarithm) in scores.chunks_exact(n.max(1)).zip(&logarithms) {
                    for (sum, score) in sums.iter_mut().zip(scores) {
                        *sum = sum.wrapping_add(score.wrapping_mul(*logarithm));
                    }
                }
                sums
            };
            likelihoods.push(Shares {
                own: likelihood(&scores.own, &winners.own),
                next: likelihood(&scores.next, &winners.next),
            });
        }
        let nearest = self.arg_max(&likelihoods)?;
        let Some(nearest) = self.open_to(to, &nearest)? else { return Ok(None) };
        check_result("a word", nearest.iter().all(|word| *word < words.len() as u64))?;
        Ok(Some(nearest.iter().map(|word| *word as usize).collect()))
    }
}

fn check_words(words: &[Vec<f64>], classes: usize) -> Result<(), MpcError> {
    if !(1..=MOST_WORDS).contains(&words.len()) {
        let (name, range) = ("the number of words", "1 to 256");
        return Err(MpcError::Setting { name, got: words.len() as f64, range });
    }
    let mut has_word = vec![false; classes];
    for word in words {
        check_length("a word of the codebook", word.len(), classes)?;
        if let Some(at) = word.iter().position(|score| !(0.0..=1.0).contains(score)) {
            return Err(MpcError::NotRepresentable { at, limit: 1.0 });
        }
        has_word[largest(word)] = true;
    }
    match has_word.iter().position(|has| !has) {
        None => Ok(()),
        Some(class) => {
            let (name, range) = ("a class without a word", "none: give each class one");
            Err(MpcError::Setting { name, got: class as f64, range })
        }
    }
}
