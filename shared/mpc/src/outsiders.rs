//! Inputs and outputs of data owners that are none of the three parties.
//!
//! Their messages travel beside the links of a [`Session`]: a service carries them, and encrypts
//! them. An input of n numbers takes 64 + 2 (32 + 8 n) bytes: two components are drawn from keys of
//! 32 bytes, the third is sent. An output takes 8 n bytes from each party. None of both takes a
//! round among the parties.

use rand::Rng;
use zeroize::Zeroizing;

use crate::arithmetic::ELEMENT;
use crate::error::MpcError;
use crate::party_index::PartyIndex;
use crate::random::{CommonRandomness, KEY_BYTES};
use crate::session::{Session, words_of};
use crate::shares::Shares;

/// Shares numbers among the three parties, and returns the message to each of them, in their
/// order: 64 bytes to the first, and 32 + 8 n to each of the others. What one party is sent is
/// uniform and independent of the numbers.
///
/// Components 0 and 1 are drawn from a key each, component 2 is the number less both. Every call
/// draws other keys, from the system's generator.
#[must_use]
pub fn deal(values: &[u64]) -> [Vec<u8>; 3] {
    let mut keys = Zeroizing::new([[0; KEY_BYTES]; 2]);
    keys.iter_mut().for_each(|key| rand::rng().fill_bytes(key));
    let [first, second] = &*keys;
    let drawn = [first, second].map(|key| CommonRandomness::new(*key).words(values.len()));
    let mut third = Vec::with_capacity(ELEMENT * values.len());
    for ((value, one), other) in values.iter().zip(&drawn[0]).zip(&drawn[1]) {
        third.extend_from_slice(&value.wrapping_sub(*one).wrapping_sub(*other).to_le_bytes());
    }
    let with = |key: &[u8; KEY_BYTES], more: &[u8]| [key, more].concat();
    [with(first, second), with(second, &third), with(first, &third)]
}

/// Computes the numbers from the messages of the three parties, in their order, each of which
/// [`Session::reveal`] has returned.
///
/// # Errors
/// [`MpcError::MessageLength`] unless each party has sent `count` numbers.
pub fn combine(messages: [&[u8]; 3], count: usize) -> Result<Vec<u64>, MpcError> {
    for (party, message) in PartyIndex::ALL.into_iter().zip(messages) {
        let expected = ELEMENT.saturating_mul(count);
        if message.len() != expected {
            return Err(MpcError::MessageLength { party, expected, got: message.len() });
        }
    }
    let [mut sums, second, third] = messages.map(|message| words_of(message, ELEMENT));
    for part in [second, third] {
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = sum.wrapping_add(part));
    }
    Ok(sums)
}

impl Session {
    /// Returns the shares of `count` numbers from the message that a data owner has sent to this
    /// party ([`deal`]). The first party's message does not tell how many numbers there are: the
    /// two others notice another count.
    ///
    /// # Errors
    /// [`MpcError::DealtLength`] for a message of another length.
    pub fn shares_dealt(&self, message: &[u8], count: usize) -> Result<Shares, MpcError> {
        let drawn = |key: &[u8]| {
            let mut seed = Zeroizing::new([0; KEY_BYTES]);
            seed.copy_from_slice(key);
            CommonRandomness::new(*seed).words(count)
        };
        let more = match self.party() {
            PartyIndex::FIRST => KEY_BYTES,
            _ => ELEMENT.saturating_mul(count),
        };
        let expected = more.saturating_add(KEY_BYTES);
        if message.len() != expected {
            return Err(MpcError::DealtLength { expected, got: message.len() });
        }
        let (key, more) = message.split_at(KEY_BYTES);
        Ok(match self.party() {
            PartyIndex::FIRST => Shares { own: drawn(key), next: drawn(more) },
            PartyIndex::SECOND => Shares { own: drawn(key), next: words_of(more, ELEMENT) },
            _ => Shares { own: words_of(more, ELEMENT), next: drawn(key) },
        })
    }

    /// Returns this party's message to a data owner who is to learn the numbers, and who needs
    /// those of all three parties ([`combine`]). 8 bytes per number, and no round: but all parties
    /// call it, since it draws from their common keys.
    ///
    /// The messages add up to the numbers, and are uniform otherwise: the components' past is
    /// hidden by a fresh sharing of zero.
    ///
    /// # Errors
    /// [`MpcError::Over`] after a failure.
    pub fn reveal(&mut self, shares: &Shares) -> Result<Vec<u8>, MpcError> {
        self.check_alive()?;
        let masks = self.zero_sums(shares.len());
        let masked = shares.own.iter().zip(masks).map(|(own, mask)| own.wrapping_add(mask));
        Ok(masked.flat_map(u64::to_le_bytes).collect())
    }
}
