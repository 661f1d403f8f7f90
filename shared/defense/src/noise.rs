//! The random generators of defenses, keyed by the server's secret, the model, the policy and the
//! record, so that asking twice gives the same bytes.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sha2::Sha256;
use vfl_core::hex;
use vfl_core::types::RecordIds;

fn prf(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC takes a key of any length")
    };
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The coordinator's secret: whoever has it can remove the noise from every answer.
#[derive(Clone)]
pub struct NoiseSecret([u8; 32]);

impl NoiseSecret {
    /// Creates the secret from its bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Returns the fingerprint, which may be public: 16 hexadecimal digits that tell this secret
    /// from another.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&prf(&self.0, &[b"fingerprint"])[..8])
    }

    /// Returns a keyed hash for one other purpose, which tells nothing of the noise.
    pub fn mac(&self, purpose: &[u8]) -> Hmac<Sha256> {
        NoiseKey::new(prf(&self.0, &[b"mac", purpose])).0
    }

    /// Derives the key of one model and policy. The model is named by what its passive parties
    /// contribute (the coordinator's `Manifest::passive_fingerprint`), never by its version.
    #[must_use]
    pub fn key(&self, model: &str, policy: &str) -> NoiseKey {
        let key = prf(&self.0, &[b"noise", model.as_bytes(), policy.as_bytes()]);
        NoiseKey::new(key)
    }
}

/// Shows the fingerprint only.
impl fmt::Debug for NoiseSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoiseSecret({})", self.fingerprint())
    }
}

/// The key of one model and policy, with its first block hashed once.
#[derive(Clone)]
pub struct NoiseKey(Hmac<Sha256>);

impl NoiseKey {
    /// Creates the key from its bytes.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(&key) else {
            unreachable!("HMAC takes a key of any length")
        };
        Self(mac)
    }

    /// Returns the seed of a defense that is trained; it differs for every model and policy.
    #[must_use]
    pub fn training_seed(&self) -> [u8; 32] {
        self.seed(b"training")
    }

    fn seed(&self, label: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(label);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for NoiseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoiseKey(withheld)")
    }
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Keyed { key: &'a NoiseKey, ids: &'a RecordIds },
    Fresh { seed: [u8; 32] },
}

/// The random generators of one batch, for one defense of a list.
#[derive(Debug, Clone, Copy)]
pub struct Noise<'a> {
    source: Source<'a>,
    stage: u64,
}

impl<'a> Noise<'a> {
    /// Creates noise that is keyed by the record: `ids` are the records of the batch, in the order
    /// of its columns.
    #[must_use]
    pub fn keyed(key: &'a NoiseKey, ids: &'a RecordIds) -> Self {
        Self { source: Source::Keyed { key, ids }, stage: 0 }
    }

    /// Creates noise for this batch alone: another seed gives other noise.
    #[must_use]
    pub fn fresh(seed: [u8; 32]) -> Self {
        Self { source: Source::Fresh { seed }, stage: 0 }
    }

    /// Returns the noise for the defense at position `stage` of a list: no two defenses share a
    /// generator.
    #[must_use]
    pub fn of_stage(self, stage: u64) -> Self {
        Self { stage, ..self }
    }

    /// Returns the generator of one record of the batch, counted from 0.
    #[must_use]
    pub fn record(&self, record: usize) -> ChaCha12Rng {
        let mut rng = match self.source {
            Source::Keyed { key, ids } => {
                // No caller asks for a record beyond the ids; it would not get another record's
                // generator.
                ChaCha12Rng::from_seed(match ids.get(record) {
                    Some(id) => key.seed(id.as_bytes()),
                    None => key.seed(&[&[0u8][..], &(record as u64).to_le_bytes()].concat()),
                })
            }
            Source::Fresh { seed } => {
                let mut rng = ChaCha12Rng::from_seed(seed);
                // 2^40 blocks for each record.
                rng.set_word_pos((record as u128 + 1) << 44);
                rng
            }
        };
        rng.set_stream(self.stage);
        rng
    }

    /// Returns one generator for all records, which belongs to no single record. With keyed noise
    /// it is the same in every batch of the model and policy, so that no answer changes; with fresh
    /// noise it belongs to the batch.
    #[must_use]
    pub fn shared(&self) -> ChaCha12Rng {
        let mut rng = match self.source {
            // Ids hold no control character, so this is no record's label.
            Source::Keyed { key, .. } => ChaCha12Rng::from_seed(key.seed(b"\0shared")),
            Source::Fresh { seed } => ChaCha12Rng::from_seed(seed),
        };
        // A stream apart from the records' of any stage.
        rng.set_stream(self.stage | 1 << 63);
        rng
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    fn draw(noise: Noise<'_>, record: usize) -> u64 {
        noise.record(record).next_u64()
    }

    #[test]
    fn noise_belongs_to_secret_model_policy_record_and_stage() {
        let ids = RecordIds::new(["a", "b"]).unwrap();
        let turned = RecordIds::new(["b", "a"]).unwrap();
        let key = NoiseSecret::new([1; 32]).key("m-1", "p");
        let first = draw(Noise::keyed(&key, &ids), 0);
        assert_eq!(draw(Noise::keyed(&key, &ids), 0), first);
        // The place in the batch does not matter, the record does.
        assert_eq!(draw(Noise::keyed(&key, &turned), 1), first);
        assert_ne!(draw(Noise::keyed(&key, &ids), 1), first);
        assert_ne!(draw(Noise::keyed(&key, &ids).of_stage(1), 0), first);
        for (secret, model, policy) in
            [([2; 32], "m-1", "p"), ([1; 32], "m-2", "p"), ([1; 32], "m-1", "q")]
        {
            let other = NoiseSecret::new(secret).key(model, policy);
            assert_ne!(draw(Noise::keyed(&other, &ids), 0), first);
        }
        // Lengths are part of what is hashed: m-1 + p is not m- + 1p.
        assert_ne!(draw(Noise::keyed(&NoiseSecret::new([1; 32]).key("m-", "1p"), &ids), 0), first);
    }

    #[test]
    fn shared_noise_is_of_the_policy_alone() {
        let (some, others) = (RecordIds::new(["a", "b"]).unwrap(), RecordIds::new(["c"]).unwrap());
        let key = NoiseSecret::new([1; 32]).key("m-1", "p");
        let first = Noise::keyed(&key, &some).shared().next_u64();
        assert_eq!(Noise::keyed(&key, &others).shared().next_u64(), first);
        assert_ne!(Noise::keyed(&key, &some).of_stage(1).shared().next_u64(), first);
        assert_ne!(
            Noise::keyed(&NoiseSecret::new([1; 32]).key("m-1", "q"), &some).shared().next_u64(),
            first
        );
        assert_ne!(draw(Noise::keyed(&key, &some), 0), first);
        assert_ne!(
            Noise::fresh([3; 32]).shared().next_u64(),
            Noise::fresh([4; 32]).shared().next_u64()
        );
    }

    #[test]
    fn fresh_noise_differs_by_record_and_seed() {
        let noise = Noise::fresh([3; 32]);
        assert_eq!(draw(noise, 0), draw(noise, 0));
        assert_ne!(draw(noise, 0), draw(noise, 1));
        assert_ne!(draw(noise, 0), draw(Noise::fresh([4; 32]), 0));
        assert_ne!(draw(noise, 0), draw(noise.of_stage(1), 0));
    }

    #[test]
    fn the_secret_is_never_shown() {
        let secret = NoiseSecret::new([0x5a; 32]);
        assert!(!format!("{secret:?} {:?}", secret.key("m", "p")).contains("5a5a"));
        assert_eq!(secret.fingerprint().len(), 16);
        assert_ne!(secret.fingerprint(), NoiseSecret::new([0x5b; 32]).fingerprint());
    }
}
