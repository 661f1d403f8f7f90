//! Independent random generators from one seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// The purpose of a generator. Each purpose has its own stream, so that an additional draw for one
/// does not change the others. The numbers are part of every seeded result: never change or reuse
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Synthetic = 1,
    Split = 2,
    RowOrder = 3,
}

/// Returns the generator of `seed` for a purpose and, if several are needed, an item.
pub(super) fn generator(seed: u64, purpose: Purpose, item: u32) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    rng.set_stream((purpose as u64) << 32 | u64::from(item));
    rng
}
