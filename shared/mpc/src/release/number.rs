//! Release of the place of a number among thresholds.

use super::logits::{LOGIT_BITS, Logits};
use crate::error::{MpcError, check_length, check_result};
use crate::party_index::PartyIndex;
use crate::session::Session;

/// The most thresholds.
pub const MOST_THRESHOLDS: usize = 63;
/// The largest magnitude of a threshold: no sum of eight owners' numbers comes so far.
pub const LARGEST_THRESHOLD: f64 = (1_u32 << 22) as f64;

impl Session {
    /// Releases how many of the thresholds each record's number is not below. Numbers are logits of
    /// one class. Costs [`Session::is_negative`] and [`Session::bit_to_number`] of a number for
    /// each threshold, and 8 bytes.
    ///
    /// A threshold has an error of at most 2^−41, and each owner's number too: a number so near to
    /// a threshold may be on either side.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for numbers of several classes, [`MpcError::Setting`] for more than 63
    /// thresholds, [`MpcError::NotRepresentable`] for one beyond [`LARGEST_THRESHOLD`];
    /// [`MpcError::NoResult`]; errors of links.
    pub fn release_place(
        &mut self,
        to: PartyIndex,
        numbers: &Logits,
        thresholds: &[f64],
    ) -> Result<Option<Vec<usize>>, MpcError> {
        let (n, m) = (numbers.records(), thresholds.len());
        check_length("the numbers of a record", numbers.classes(), 1)?;
        if m > MOST_THRESHOLDS {
            let (name, range) = ("the number of thresholds", "at most 63");
            return Err(MpcError::Setting { name, got: m as f64, range });
        }
        let limit = LARGEST_THRESHOLD;
        if let Some(at) = thresholds.iter().position(|t| t.is_nan() || t.abs() > limit) {
            return Err(MpcError::NotRepresentable { at, limit });
        }
        let scale = f64::from(LOGIT_BITS).exp2();
        let encoded = thresholds.iter().map(|t| ((t * scale).round() as i64) as u64);
        let encoded: Vec<u64> = encoded.flat_map(|t| std::iter::repeat_n(t, n)).collect();
        let distances = numbers.shares().repeat(m).minus(&self.public(&encoded))?;
        let below = self.is_negative(&distances)?;
        let mut below = self.bit_to_number(&below)?;
        let mut places = self.public(&vec![m as u64; n]);
        for _ in thresholds {
            let (of_threshold, rest) = below.split_at(n);
            places = places.minus(&of_threshold)?;
            below = rest;
        }
        let Some(places) = self.open_to(to, &places)? else { return Ok(None) };
        check_result("a place", places.iter().all(|place| *place <= m as u64))?;
        Ok(Some(places.into_iter().map(|place| place as usize).collect()))
    }
}
