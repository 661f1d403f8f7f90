//! The logits of records as shares, and their release as they are.

use std::fmt;

use crate::error::{MpcError, check_length, check_result};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The fraction bits of a logit.
pub const LOGIT_BITS: u32 = 40;

/// The largest magnitude of an owner's logit. Up to eight owners' may be added: then a record's
/// sums differ by at most 2^22, for which the ring has room.
pub const LARGEST_LOGIT: f64 = (1_u32 << 18) as f64;

/// The largest number of classes.
const MOST_CLASSES: usize = 16;

/// Encodes an owner's logits, with an error of at most 2^−41 each.
///
/// # Errors
/// [`MpcError::NotRepresentable`], with the position, for one that is not finite or beyond
/// [`LARGEST_LOGIT`].
pub fn encode_logits(values: &[f64]) -> Result<Vec<u64>, MpcError> {
    let scale = f64::from(LOGIT_BITS).exp2();
    let encoded = |(at, value): (usize, &f64)| match value.abs() <= LARGEST_LOGIT {
        true => Ok((value * scale).round() as i64 as u64),
        false => Err(MpcError::NotRepresentable { at, limit: LARGEST_LOGIT }),
    };
    values.iter().enumerate().map(encoded).collect()
}

pub(crate) fn check_classes(classes: usize) -> Result<(), MpcError> {
    if (2..=MOST_CLASSES).contains(&classes) {
        return Ok(());
    }
    let (name, got) = ("the number of classes", classes as f64);
    Err(MpcError::Setting { name, got, range: "2 to 16" })
}

/// One party's shares of logits, records × classes, or of the predictor of a number for each
/// record.
#[derive(Clone, PartialEq, Eq)]
pub struct Logits {
    records: usize,
    classes: usize,
    shares: Shares,
}

impl fmt::Debug for Logits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logits({} x {} withheld)", self.records, self.classes)
    }
}

impl Logits {
    /// Creates logits from the shares of [encoded](encode_logits) ones, class after class.
    ///
    /// # Errors
    /// [`MpcError::Setting`] unless there are 2 to 16 classes, [`MpcError::Shape`] unless there are
    /// `records` times `classes` shares.
    pub fn new(records: usize, classes: usize, shares: Shares) -> Result<Self, MpcError> {
        check_classes(classes)?;
        check_length("the logits", shares.len(), records.saturating_mul(classes))?;
        Ok(Self { records, classes, shares })
    }

    /// Creates the predictors of a number from their shares, one for each record: logits of one
    /// class.
    #[must_use]
    pub fn of_numbers(shares: Shares) -> Self {
        Self { records: shares.len(), classes: 1, shares }
    }

    /// Returns the sums of two owners' logits.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many records and classes.
    pub fn plus(&self, other: &Self) -> Result<Self, MpcError> {
        check_length("the classes", other.classes, self.classes)?;
        Ok(Self { shares: self.shares.plus(&other.shares)?, ..*self })
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Returns the shares of one class.
    pub(crate) fn class(&self, at: usize) -> Shares {
        let of = |all: &[u64]| all[at * self.records..][..self.records].to_vec();
        Shares { own: of(&self.shares.own), next: of(&self.shares.next) }
    }
}

impl Session {
    /// Shares the logits of `owner`, who alone gives them, class after class; of one class, the
    /// predictors of a number. One round, 8 k bytes per record. An owner whose logits are refused
    /// has sent nothing: it tries again, or ends the session, for which the others wait.
    ///
    /// # Errors
    /// Those of [`encode_logits`], [`Session::share`] and [`Logits::new`].
    pub fn share_logits(
        &mut self,
        owner: PartyIndex,
        values: Option<&[f64]>,
        records: usize,
        classes: usize,
    ) -> Result<Logits, MpcError> {
        if classes != 1 {
            check_classes(classes)?;
        }
        let encoded = values.map(encode_logits).transpose()?;
        let count = records.saturating_mul(classes);
        let shares = self.share(owner, encoded.as_deref(), count)?;
        match classes {
            1 => Ok(Logits::of_numbers(shares)),
            _ => Logits::new(records, classes, shares),
        }
    }

    /// Releases the sums of logits, class after class. One round, 8 k bytes per record.
    ///
    /// What is opened is exact; a double holds the 40 fraction bits of numbers below 2^13. Logits
    /// tell more than scores do: their common offset too.
    ///
    /// # Errors
    /// [`MpcError::NoResult`]; errors of links.
    pub fn release_logits(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
    ) -> Result<Option<Vec<f64>>, MpcError> {
        let Some(words) = self.open_to(to, logits.shares())? else { return Ok(None) };
        check_result("a logit", words.iter().all(in_range))?;
        Ok(Some(words.into_iter().map(decode).collect()))
    }

    /// Releases softmax scores, class after class. One round, 8 (k − 1) bytes per record.
    ///
    /// Opened are the logits less that of the last class, exactly, of which the receiver computes
    /// the scores: they tell what scores of unlimited precision tell, and not the common offset.
    /// The error of each difference is at most 2^−40 times the number of owners, that of a score
    /// at most half of it, and round-off.
    ///
    /// # Errors
    /// [`MpcError::NoResult`]; errors of links.
    pub fn release_scores(
        &mut self,
        to: PartyIndex,
        logits: &Logits,
    ) -> Result<Option<Vec<f64>>, MpcError> {
        let (n, k) = (logits.records, logits.classes);
        check_classes(k)?;
        let (others, last) = logits.shares.split_at((k - 1) * n);
        let opened = self.open_to(to, &others.minus(&last.repeat(k - 1))?)?;
        let Some(mut words) = opened else { return Ok(None) };
        check_result("a difference of logits", words.iter().all(in_range))?;
        words.resize(n * k, 0);
        let mut scores = vec![0.0; n * k];
        for record in 0..n {
            let classes = || (record..n * k).step_by(n);
            // Distances from the largest are taken of whole numbers: a double keeps them.
            let largest = classes().map(|at| words[at] as i64).max().unwrap_or(0);
            let weights = classes().map(|at| decode(words[at].wrapping_sub(largest as u64)).exp());
            let weights: Vec<f64> = weights.collect();
            let sum: f64 = weights.iter().sum();
            classes().zip(&weights).for_each(|(at, weight)| scores[at] = weight / sum);
        }
        Ok(Some(scores))
    }
}

/// Returns true for what a sum of eight owners' logits, or a difference of two, can be.
fn in_range(word: &u64) -> bool {
    (*word as i64).unsigned_abs() <= 1 << (22 + LOGIT_BITS)
}

/// Decodes one number.
fn decode(word: u64) -> f64 {
    (word as i64) as f64 * (-f64::from(LOGIT_BITS)).exp2()
}
