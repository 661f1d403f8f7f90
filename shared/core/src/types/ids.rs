//! Record ids: opaque keys that the parties share after alignment, never row positions.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// The longest record id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 128;

/// Errors from checking a record id, or a batch of them. They carry positions, never the
/// neighbouring ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// An id is empty.
    #[error("record id at position {position} is empty; ids are 1 to {MAX_ID_BYTES} bytes")]
    Empty {
        /// The position in the batch, from 0.
        position: usize,
    },
    /// An id is longer than [`MAX_ID_BYTES`].
    #[error(
        "record id at position {position} has {bytes} bytes; ids are 1 to {MAX_ID_BYTES} bytes"
    )]
    TooLong {
        /// The position in the batch, from 0.
        position: usize,
        /// The length of the id in bytes.
        bytes: usize,
    },
    /// An id has a control character, or one that is invisible or changes the direction of the
    /// text.
    #[error("record id at position {position} holds a control character or an invisible one")]
    Control {
        /// The position in the batch, from 0.
        position: usize,
    },
    /// An id occurs twice in a batch.
    #[error("record id at position {position} stands in the batch twice; send each id once")]
    Duplicate {
        /// The position of the second occurrence, from 0.
        position: usize,
    },
    /// The packed form of a batch contradicts itself.
    #[error("packed record ids are malformed: {reason}")]
    Malformed {
        /// The reason for the error.
        reason: &'static str,
    },
}

/// One record id: 1 to 128 bytes of UTF-8 without control characters and without invisible ones.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Box<str>);

impl RecordId {
    /// Checks and wraps an id.
    ///
    /// # Errors
    /// [`IdError`] with position 0 if the id is empty, too long or has a control or an invisible
    /// character.
    pub fn new(id: impl Into<Box<str>>) -> Result<Self, IdError> {
        let id = id.into();
        check(&id, 0, false)?;
        Ok(Self(id))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({:?})", &*self.0)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for RecordId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A batch of distinct record ids in a fixed order, stored as one text and the end of each id in it
/// (no allocation per id; the layout of the wire). Copies share their memory.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RecordIds(Arc<PackedIds>);

/// Concatenated ids, and the end of each one, unchecked: [`RecordIds::from_packed`] checks them.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct PackedIds {
    /// The concatenated ids.
    pub text: String,
    /// The byte at which each id ends.
    pub ends: Vec<u32>,
}

impl RecordIds {
    /// Creates a batch from single ids.
    ///
    /// # Errors
    /// [`IdError`] at the first id that is malformed or occurs twice.
    pub fn new<S: AsRef<str>>(ids: impl IntoIterator<Item = S>) -> Result<Self, IdError> {
        let mut builder = RecordIdsBuilder::default();
        for id in ids {
            builder.push(id.as_ref());
        }
        builder.finish()
    }

    /// Creates a batch from the packed wire form: the concatenated text of the ids, and the end of
    /// each one.
    ///
    /// # Errors
    /// [`IdError::Malformed`] if the ends do not increase, do not reach the end of the text or cut
    /// a character; otherwise as [`RecordIds::new`].
    pub fn from_packed(text: String, ends: Vec<u32>) -> Result<Self, IdError> {
        let mut start = 0usize;
        let mut seen = IdHashSet::with_room(ends.len().min(text.len()));
        // One scan of the text, after which most ids need no check of their characters.
        let plain = text.bytes().fold(true, |plain, byte| plain & (0x20..0x7f).contains(&byte));
        for (position, &end) in ends.iter().enumerate() {
            let end = end as usize;
            if end < start {
                return Err(IdError::Malformed { reason: "the ends do not increase" });
            }
            let id = text.get(start..end).ok_or(IdError::Malformed {
                reason: "an end lies outside the text or inside a character",
            })?;
            check(id, position, plain)?;
            if seen.insert(&text, &ends[..=position]) {
                return Err(IdError::Duplicate { position });
            }
            start = end;
        }
        if start != text.len() {
            return Err(IdError::Malformed { reason: "text is left over after the last id" });
        }
        Ok(Self(Arc::new(PackedIds { text, ends })))
    }

    /// Returns the number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Returns true if there is no id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// Returns the id at a position.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&str> {
        self.0.text.get(self.span(position)?)
    }

    /// Returns the byte range in the text of the id at a position.
    pub(crate) fn span(&self, position: usize) -> Option<std::ops::Range<usize>> {
        let ends = &self.0.ends;
        let end = *ends.get(position)? as usize;
        let start = if position == 0 { 0 } else { ends[position - 1] as usize };
        Some(start..end)
    }

    /// Returns the ids in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        let PackedIds { text, ends } = &*self.0;
        let mut start = 0usize;
        ends.iter().map(move |&end| {
            let id = &text[start..end as usize];
            start = end as usize;
            id
        })
    }

    /// Returns the ids at the given positions, in that order. Positions out of range are left out.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        let mut out = PackedIds::default();
        for id in positions.iter().filter_map(|&p| self.get(p)) {
            out.text.push_str(id);
            out.ends.push(out.text.len() as u32);
        }
        Self(Arc::new(out))
    }

    /// Returns the consecutive ids `from..to` (clamped to the batch).
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.len());
        self.select(&(from.min(to)..to).collect::<Vec<_>>())
    }

    /// Returns the packed form of the wire, in the same memory.
    #[must_use]
    pub fn share_packed(&self) -> Arc<PackedIds> {
        self.0.clone()
    }

    /// Returns the packed wire form: the concatenated ids, and the end of each one.
    #[must_use]
    pub fn packed(&self) -> (&str, &[u32]) {
        (&self.0.text, &self.0.ends)
    }
}

impl fmt::Debug for RecordIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordIds({})", self.len())
    }
}

/// A builder that collects ids; all checks happen in [`RecordIdsBuilder::finish`].
#[derive(Debug, Default)]
pub struct RecordIdsBuilder {
    text: String,
    ends: Vec<u32>,
}

impl RecordIdsBuilder {
    /// Appends an id.
    pub fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// Checks every id and that they are distinct.
    ///
    /// # Errors
    /// The errors of [`RecordIds::from_packed`]; a batch whose text exceeds 4 GiB is malformed.
    pub fn finish(self) -> Result<RecordIds, IdError> {
        RecordIds::from_packed(self.text, self.ends)
    }
}

/// A hash set of the earlier ids, by position, at most two thirds full: 6 to 12 bytes per id, so
/// that ten million of them fit into memory. The hash is seeded at random: ids come from peers, who
/// must not be able to make them collide.
struct IdHashSet {
    /// A position in the low `bits`, and as much of its hash as fits in the others: most different
    /// ids differ there.
    slots: Box<[u32]>,
    bits: u32,
    hasher: RandomState,
}

/// The value of a free slot. A taken slot never has all bits set: its low `bits` are a position,
/// which is less than the number of ids, which is less than 2^`bits`. With 32 bits for a position,
/// position 2³² - 1 does not occur in 4 GiB of text.
const FREE: u32 = u32::MAX;

impl IdHashSet {
    fn with_room(ids: usize) -> Self {
        let slots = vec![FREE; (ids + ids / 2 + 1).next_power_of_two()].into_boxed_slice();
        Self {
            slots,
            bits: (usize::BITS - ids.leading_zeros()).min(u32::BITS),
            hasher: RandomState::default(),
        }
    }

    /// Inserts the last id. Returns true if it is already in the set.
    fn insert(&mut self, text: &str, ends: &[u32]) -> bool {
        let id = |position: usize| {
            let start = if position == 0 { 0 } else { ends[position - 1] as usize };
            &text[start..ends[position] as usize]
        };
        let last = ends.len() - 1;
        let (mask, positions) = (self.slots.len() - 1, ((1u64 << self.bits) - 1) as u32);
        let hash = self.hasher.hash_one(id(last));
        // The slot comes from the low bits, the tag from the high ones.
        let tag = (hash >> 32) as u32 & !positions;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != FREE {
            let before = self.slots[slot];
            if before & !positions == tag && id((before & positions) as usize) == id(last) {
                return true;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = tag | last as u32;
        false
    }
}

/// Checks one id. If `plain`, all its characters are known to be printable ASCII.
fn check(id: &str, position: usize, plain: bool) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty { position });
    }
    if id.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { position, bytes: id.len() });
    }
    if !plain && id.chars().any(unseen) { Err(IdError::Control { position }) } else { Ok(()) }
}

/// Returns true for a character that would let an id forge a line of a log or of a CSV file, or
/// look like another id: control characters (Unicode category Cc), line and paragraph separators
/// (Zl, Zp), format characters (Cf: among them all that change the direction of the text, and those
/// of no width), and invisible characters (Default_Ignorable_Code_Point). Unicode 16.0.
pub fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refusals_name_the_position() {
        assert_eq!(RecordIds::new(["a", ""]), Err(IdError::Empty { position: 1 }));
        assert_eq!(RecordIds::new(["a", "b", "a"]), Err(IdError::Duplicate { position: 2 }));
        assert_eq!(RecordIds::new(["a\n"]), Err(IdError::Control { position: 0 }));
        for hidden in [
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{200b}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert_eq!(
                RecordIds::new([format!("a{hidden}b")]),
                Err(IdError::Control { position: 0 }),
                "{hidden:?}"
            );
        }
        for shown in ["Zoë", "客户-7", "клиент", "ä b", "٣", "ünï\u{a0}x", "😀"] {
            assert!(RecordIds::new([shown]).is_ok(), "{shown}");
        }
        let long = "x".repeat(129);
        assert_eq!(
            RecordIds::new([long.as_str()]),
            Err(IdError::TooLong { position: 0, bytes: 129 })
        );
        assert!(RecordIds::new(["x".repeat(128)]).is_ok());
    }

    #[test]
    fn packed_form_must_be_consistent() {
        let packed = |text: &str, ends: &[u32]| RecordIds::from_packed(text.into(), ends.to_vec());
        assert!(packed("ab", &[1, 2]).is_ok());
        for bad in
            [packed("ab", &[2, 1]), packed("ab", &[1, 3]), packed("ab", &[1]), packed("é", &[1, 2])]
        {
            assert!(matches!(bad, Err(IdError::Malformed { .. })), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn packing_round_trips(ids in proptest::collection::hash_set("[a-zé0-9]{1,20}", 0..40)) {
            let ids: Vec<String> = ids.into_iter().collect();
            let batch = RecordIds::new(&ids).unwrap();
            prop_assert_eq!(batch.iter().collect::<Vec<_>>(), ids.iter().map(String::as_str).collect::<Vec<_>>());
            for (i, id) in ids.iter().enumerate() {
                prop_assert_eq!(batch.get(i), Some(id.as_str()));
            }
            let (text, ends) = batch.packed();
            prop_assert_eq!(RecordIds::from_packed(text.to_owned(), ends.to_vec()).unwrap(), batch);
        }

        #[test]
        fn an_id_that_came_before_is_found(ids in proptest::collection::vec("[ab]{1,3}", 0..30)) {
            let mut before = std::collections::HashSet::new();
            let wanted = ids.iter().position(|id| !before.insert(id));
            let got = RecordIds::new(&ids).err();
            prop_assert_eq!(got, wanted.map(|position| IdError::Duplicate { position }));
        }

        #[test]
        fn any_packed_form_is_taken_or_refused(text in ".{0,40}", ends in proptest::collection::vec(0u32..60, 0..10)) {
            let _ = RecordIds::from_packed(text, ends);
        }
    }
}
