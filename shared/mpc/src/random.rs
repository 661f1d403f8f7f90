//! Random numbers that two parties share, from keys that the third one does not have.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// The length of a key, in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// The stream of random numbers that two parties draw in step.
pub(crate) struct CommonRandomness(ChaCha12Rng);

impl CommonRandomness {
    pub(crate) fn new(key: [u8; KEY_BYTES]) -> Self {
        Self(ChaCha12Rng::from_seed(key))
    }

    /// Returns the next `count` words of the stream.
    pub(crate) fn words(&mut self, count: usize) -> Vec<u64> {
        let mut words = vec![0_u64; count];
        self.0.fill_bytes(bytemuck::cast_slice_mut(&mut words));
        // The same numbers on machines of either byte order.
        words.iter_mut().for_each(|word| *word = u64::from_le(*word));
        words
    }
}

impl std::fmt::Debug for CommonRandomness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommonRandomness(withheld)")
    }
}
