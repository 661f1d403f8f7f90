//! The group of an alignment: ristretto255 (RFC 9496), with ids hashed into it (RFC 9380) and
//! points multiplied by a secret scalar.
//!
//! With the domain of RFC 9497 the two operations are that document's `Blind` and `BlindEvaluate`,
//! and its test vectors hold.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use rand::TryRng;
use rand::rngs::SysRng;
use rayon::prelude::*;
use sha2::{Digest, Sha512};
use vfl_core::types::RecordIds;
use vfl_protocol::Refusal;
use zeroize::Zeroize;

/// Bytes of an encoded point.
pub(super) const POINT_BYTES: usize = 32;

/// A point in its wire encoding. Equal points have equal bytes.
pub(super) type Encoded = [u8; POINT_BYTES];

/// The domain of ids of an alignment (RFC 9380, section 3.1).
const DOMAIN: &[u8] = b"CLOISON-ALIGNMENT-V1-with-ristretto255_XMD:SHA-512_R255MAP_RO_";

/// The block size of SHA-512, in bytes.
const HASH_BLOCK: usize = 128;

/// The points of one task of a thread: enough for `double_and_compress_batch` to share its
/// inversions among many points.
const TASK_POINTS: usize = 256;

/// Errors from reading a point that the other party sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PointError {
    /// The bytes are not the canonical encoding of an element.
    #[error("is not the canonical encoding of an element of ristretto255")]
    NotAnElement,
    /// The neutral element, which every scalar leaves unchanged.
    #[error("is the identity")]
    Identity,
}

/// Reads a point. The group has prime order, so that the identity is the only element to reject.
pub(super) fn decode(bytes: &Encoded) -> Result<RistrettoPoint, PointError> {
    let point = CompressedRistretto(*bytes).decompress().ok_or(PointError::NotAnElement)?;
    if point.is_identity() { Err(PointError::Identity) } else { Ok(point) }
}

/// `hash_to_ristretto255` (RFC 9380, appendix B) with `expand_message_xmd` over SHA-512, for one
/// domain and one prefix of the messages.
pub(super) struct GroupHash {
    /// The state of SHA-512 after the block of zeros and the prefix.
    begun: Sha512,
    /// The domain and its length.
    domain: Vec<u8>,
}

impl GroupHash {
    /// Creates the hash of ids in one session. `session` has a fixed length, so that prefix and id
    /// cannot be confused.
    pub(super) fn of_session(session: &[u8; 32]) -> Self {
        Self::new(DOMAIN, session)
    }

    fn new(domain: &[u8], prefix: &[u8]) -> Self {
        let begun = Sha512::new_with_prefix([0u8; HASH_BLOCK]).chain_update(prefix);
        // Domains are constants of at most 255 bytes.
        let domain = [domain, &[domain.len() as u8]].concat();
        Self { begun, domain }
    }

    /// Returns the point of a message: the prefix and `text`.
    pub(super) fn point(&self, text: &[u8]) -> RistrettoPoint {
        // 64 bytes are needed: one block of output.
        let first = self
            .begun
            .clone()
            .chain_update(text)
            .chain_update([0u8, 64, 0])
            .chain_update(&self.domain)
            .finalize();
        let uniform = Sha512::new()
            .chain_update(first)
            .chain_update([1u8])
            .chain_update(&self.domain)
            .finalize();
        RistrettoPoint::from_uniform_bytes(&uniform.into())
    }
}

/// A secret scalar, which is zeroized when it is dropped.
pub(super) struct Secret {
    /// Half of the scalar: results are doubled when they are encoded, which shares the inversions
    /// of many points.
    half: Scalar,
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.half.zeroize();
    }
}

impl Secret {
    /// Draws a uniform scalar other than 0 from the operating system.
    ///
    /// # Errors
    /// INTERNAL if the operating system gives no random numbers.
    pub(super) fn draw() -> Result<Self, Refusal> {
        let mut bytes = [0; 64];
        let mut scalar = Scalar::ZERO;
        while scalar == Scalar::ZERO {
            SysRng.try_fill_bytes(&mut bytes).map_err(|_| {
                Refusal::internal(
                    "the operating system gives no random numbers, so no alignment begins",
                )
            })?;
            scalar = Scalar::from_bytes_mod_order_wide(&bytes);
        }
        bytes.zeroize();
        let secret = Self::new(&scalar);
        scalar.zeroize();
        Ok(secret)
    }

    fn new(scalar: &Scalar) -> Self {
        Self { half: scalar * Scalar::from(2u8).invert() }
    }

    /// Multiplies points by the scalar and encodes the products.
    fn multiples(&self, points: impl Iterator<Item = RistrettoPoint>) -> Vec<Encoded> {
        let halves: Vec<RistrettoPoint> = points.map(|point| point * self.half).collect();
        RistrettoPoint::double_and_compress_batch(&halves)
            .into_iter()
            .map(|point| point.to_bytes())
            .collect()
    }

    /// Blinds the ids at positions `from..to`: hashes them into the group and multiplies them by
    /// the secret. Uses all cores.
    pub(super) fn blind(
        &self,
        hash: &GroupHash,
        ids: &RecordIds,
        from: usize,
        to: usize,
    ) -> Vec<Encoded> {
        let positions: Vec<usize> = (from..to.min(ids.len())).collect();
        let task = |some: &[usize]| {
            self.multiples(
                some.iter().filter_map(|&at| ids.get(at)).map(|id| hash.point(id.as_bytes())),
            )
        };
        positions.par_chunks(TASK_POINTS).flat_map_iter(task).collect()
    }

    /// Multiplies points that came from the other party. Uses all cores.
    ///
    /// # Errors
    /// The position of the first invalid point, and the reason.
    pub(super) fn evaluate(&self, points: &[Encoded]) -> Result<Vec<Encoded>, (usize, PointError)> {
        let task =
            |(number, some): (usize, &[Encoded])| -> Result<Vec<Encoded>, (usize, PointError)> {
                let read = some
                    .iter()
                    .enumerate()
                    .map(|(at, bytes)| decode(bytes).map_err(|e| (number * TASK_POINTS + at, e)));
                Ok(self.multiples(read.collect::<Result<Vec<_>, _>>()?.into_iter()))
            };
        let parts: Vec<Result<Vec<Encoded>, _>> =
            points.par_chunks(TASK_POINTS).enumerate().map(task).collect();
        Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// Checks points that came from the other party. Uses all cores.
///
/// # Errors
/// The position of the first invalid point, and the reason.
pub(super) fn check(points: &[Encoded]) -> Result<(), (usize, PointError)> {
    let wrong = |(at, bytes): (usize, &Encoded)| decode(bytes).err().map(|error| (at, error));
    points
        .par_iter()
        .with_min_len(TASK_POINTS)
        .enumerate()
        .find_map_first(wrong)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use vfl_core::unhex;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        unhex(hex).unwrap()
    }

    fn scalar(hex: &str) -> Scalar {
        Option::from(Scalar::from_canonical_bytes(bytes(hex))).unwrap()
    }

    /// RFC 9497, appendix A.1.1: ristretto255-SHA512, mode OPRF. `Finalize` is written out here: an
    /// alignment has no use for it, and the output depends on every step before it.
    #[test]
    fn the_test_vectors_of_rfc_9497_hold() {
        let hash = GroupHash::new(b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512", b"");
        let key = Secret::new(&scalar(
            "5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e",
        ));
        let blind = scalar("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706");
        for (input, blinded, evaluated, output) in [
            (
                vec![0],
                "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
                "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
                "527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3\
                 ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
            ),
            (
                vec![0x5a; 17],
                "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
                "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
                "f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4\
                 f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
            ),
        ] {
            let ours = Secret::new(&blind).multiples(std::iter::once(hash.point(&input)));
            assert_eq!(ours, [bytes::<32>(blinded)]);
            let answered = key.evaluate(&ours).unwrap();
            assert_eq!(answered, [bytes::<32>(evaluated)]);
            let unblinded = (decode(&answered[0]).unwrap() * blind.invert()).compress().to_bytes();
            let finalized = Sha512::new()
                .chain_update((input.len() as u16).to_be_bytes())
                .chain_update(&input)
                .chain_update(32u16.to_be_bytes())
                .chain_update(unblinded)
                .chain_update("Finalize")
                .finalize();
            assert_eq!(finalized[..], bytes::<64>(output));
        }
    }

    /// RFC 9496, appendix A.3: encodings that must be refused. Field elements that are not reduced,
    /// negative ones, and some that belong to no point.
    #[test]
    fn bad_encodings_are_refused() {
        for bad in [
            "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
            "c34c4e1826e5d403b78e246e88aa051c36ccf0aafebffe137d148a2bf9104562",
            "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
            "4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ] {
            assert_eq!(decode(&bytes(bad)), Err(PointError::NotAnElement), "{bad}");
        }
        assert_eq!(decode(&[0; 32]), Err(PointError::Identity));
        // Its place among others is told.
        let secret = Secret::draw().unwrap();
        let mut points =
            vec![GroupHash::of_session(&[7; 32]).point(b"a").compress().to_bytes(); 700];
        assert_eq!(check(&points), Ok(()));
        points[600] = [0; 32];
        assert_eq!(check(&points), Err((600, PointError::Identity)));
        assert_eq!(secret.evaluate(&points), Err((600, PointError::Identity)));
    }

    proptest! {
        /// Two secrets give the same point in either order, and the session, the id and the secret
        /// all change what is sent.
        #[test]
        fn blinding_commutes(texts in proptest::collection::hash_set("\\PC{1,20}", 1..300), session in any::<[u8; 32]>()) {
            let Ok(ids) = RecordIds::new(&texts) else { return Ok(()) };
            let (a, b) = (Secret::draw().unwrap(), Secret::draw().unwrap());
            let hash = GroupHash::of_session(&session);
            let (by_a, by_b) = (a.blind(&hash, &ids, 0, ids.len()), b.blind(&hash, &ids, 0, ids.len()));
            prop_assert_eq!(b.evaluate(&by_a).unwrap(), a.evaluate(&by_b).unwrap());
            prop_assert_ne!(&by_a, &by_b);
            let other = GroupHash::of_session(&[session[0] ^ 1; 32]);
            prop_assert_ne!(&a.blind(&other, &ids, 0, ids.len()), &by_a);
            let distinct: std::collections::HashSet<_> = by_a.iter().collect();
            prop_assert_eq!(distinct.len(), ids.len());
            // In one batch or one by one: the encoding of the product.
            let half = a.half;
            let plain: Vec<Encoded> =
                ids.iter().map(|id| (hash.point(id.as_bytes()) * (half + half)).compress().to_bytes()).collect();
            prop_assert_eq!(plain, by_a);
        }
    }
}
