//! Logit shares as the ledger knows them: hashed with a key of the server, so that a changed one is recognised, and nobody who
//! reads the ledger can try out what a share was.

use hmac::{Hmac, Mac};
use nalgebra::DMatrix;
use sha2::Sha256;

use crate::defense::NoiseSecret;

/// 128 bits of a hash of one record's logit share.
pub type ShareHash = [u8; 16];

/// What shares are hashed with.
#[derive(Clone)]
pub struct ShareKey(Hmac<Sha256>);

impl std::fmt::Debug for ShareKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShareKey(withheld)")
    }
}

impl ShareKey {
    /// The key of a server's secret.
    #[must_use]
    pub fn new(secret: &NoiseSecret) -> Self {
        Self(secret.mac(b"logit shares"))
    }
}

/// The hash of each column of `shares` (k × n): equal for equal numbers, 0 and −0 alike.
#[must_use]
pub fn share_hashes(key: &ShareKey, shares: &DMatrix<f64>) -> Vec<ShareHash> {
    let mut bytes = Vec::with_capacity(8 * shares.nrows());
    shares
        .column_iter()
        .map(|share| {
            bytes.clear();
            share.iter().for_each(|v| bytes.extend_from_slice(&(v + 0.0).to_le_bytes()));
            let mut mac = key.0.clone();
            mac.update(&bytes);
            let mut hash = [0; 16];
            hash.copy_from_slice(&mac.finalize().into_bytes()[..16]);
            hash
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_shares_apart_to_the_last_bit() {
        let shares = DMatrix::from_vec(2, 4, vec![0.0, 1.0, -0.0, 1.0, 1.0, 0.0, 0.0, 1.0 + f64::EPSILON]);
        let key = |secret| ShareKey::new(&NoiseSecret::new([secret; 32]));
        let hashes = share_hashes(&key(1), &shares);
        assert!(share_hashes(&key(2), &shares).iter().zip(&hashes).all(|(a, b)| a != b));
        assert_eq!(hashes[0], hashes[1]);
        assert!(hashes[0] != hashes[2] && hashes[0] != hashes[3] && hashes[2] != hashes[3]);
    }
}
