//! Inputs whose shares are the same each time: a number less its mask, and the mask.
//!
//! The first party and the third have a key in common. From a record's name and its numbers follows
//! a tag, and from name and tag the record's masks. The second party is given the tag and the
//! numbers less their masks. It recognises a record whose numbers have changed, since it was given
//! another tag before, and learns nothing else: changed numbers have other masks. The third party
//! computes the masks from the tag itself, so that nobody can give it others.
//!
//! The second party is given what the first party shares. That the first party computes with these
//! shares afterwards is assumed, as it is of every party.

use zeroize::Zeroizing;

use crate::error::{MpcError, check_length};
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The length of a key of masks, in bytes.
pub const MASK_KEY_BYTES: usize = 32;

/// The words of a record's tag.
pub const TAG_WORDS: usize = 2;

/// The key of masks that the first and the third party have in common.
#[derive(Clone)]
pub struct MaskKey(Zeroizing<[u8; MASK_KEY_BYTES]>);

impl std::fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MaskKey(withheld)")
    }
}

impl MaskKey {
    /// Creates a key from 32 secret bytes.
    #[must_use]
    pub fn new(bytes: [u8; MASK_KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Derives the key for one use from a secret: another one for any other parts.
    #[must_use]
    pub fn derive(secret: &[u8; MASK_KEY_BYTES], parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(b"masks of logits");
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Self::new(hasher.finalize().into())
    }

    /// Returns the key's bytes, for the one other party that has it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Returns the tag of a record's numbers: two words of keyed BLAKE3. Who does not know the key
    /// cannot tell tags of different numbers from uniform ones.
    #[must_use]
    pub fn tag(&self, record: &[u8], numbers: &[u64]) -> [u64; TAG_WORDS] {
        let mut hasher = self.hasher(b"tag", record);
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        let mut words = [0; 8 * TAG_WORDS];
        hasher.finalize_xof().fill(&mut words);
        bytemuck::cast::<_, [[u8; 8]; TAG_WORDS]>(words).map(u64::from_le_bytes)
    }

    /// Appends the masks of a record with a tag, `count` numbers of 64 bits, to `masks`: keyed
    /// BLAKE3, as long as is needed. Who does not know the key cannot tell them from uniform
    /// numbers.
    pub fn extend(&self, masks: &mut Vec<u64>, record: &[u8], tag: [u64; TAG_WORDS], count: usize) {
        let mut hasher = self.hasher(b"masks", record);
        for word in tag {
            hasher.update(&word.to_le_bytes());
        }
        let mut stream = hasher.finalize_xof();
        let mut word = [0; 8];
        masks.extend((0..count).map(|_| {
            stream.fill(&mut word);
            u64::from_le_bytes(word)
        }));
    }

    fn hasher(&self, what: &[u8], record: &[u8]) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(what).update(&(record.len() as u64).to_le_bytes()).update(record);
        hasher
    }
}

/// One party's part of numbers of the first party's that are shared under masks.
#[derive(Clone, Copy)]
pub enum MaskedInput<'a> {
    /// The first party's: the masks, and the numbers less the masks.
    Owner {
        /// The masks.
        masks: &'a [u64],
        /// The numbers less the masks.
        masked: &'a [u64],
    },
    /// The second party's: the numbers less the masks.
    Masked(&'a [u64]),
    /// The third party's: the masks.
    Masks(&'a [u64]),
}

impl Session {
    /// Returns the shares of `count` numbers of the first party's, of which this party has its
    /// part: component 0 is the mask, component 1 the number less the mask, component 2 is 0. No
    /// round.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for another part than this party's, or one of another length.
    pub fn shares_masked(&self, input: MaskedInput<'_>, count: usize) -> Result<Shares, MpcError> {
        let zeros = || vec![0; count];
        let (own, next) = match (self.party(), input) {
            (PartyIndex::FIRST, MaskedInput::Owner { masks, masked }) => {
                (masks.to_vec(), masked.to_vec())
            }
            (PartyIndex::SECOND, MaskedInput::Masked(masked)) => (masked.to_vec(), zeros()),
            (PartyIndex::THIRD, MaskedInput::Masks(masks)) => (zeros(), masks.to_vec()),
            _ => return Err(MpcError::Shape { what: "the masked input", expected: count, got: 0 }),
        };
        check_length("the masked input", own.len(), count)?;
        check_length("the masked input", next.len(), count)?;
        Ok(Shares { own, next })
    }
}
