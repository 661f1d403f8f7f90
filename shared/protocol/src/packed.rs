//! Record ids on the wire: the message `vfl.v1.RecordIds`, written by hand. The bytes are the same
//! as those of generated code. Generated code handles the end of each id separately, which showed
//! in profiles of bulk predictions at all three parties.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    DecodeContext, WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len,
    skip_field, string, uint32,
};
use prost::{DecodeError, Message};
use vfl_core::types::PackedIds;

const TEXT: u32 = 1;
const ENDS: u32 = 2;
/// The number of values that are encoded together.
const GROUP: usize = 128;

/// Record ids in a fixed order, as an unchecked message. Copies share their memory.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct RecordIds(pub(crate) Arc<PackedIds>);

impl RecordIds {
    /// Creates a message of ids that are concatenated in `text`, where `ends[i]` is the byte at
    /// which id i ends.
    #[must_use]
    pub fn new(text: impl Into<String>, ends: Vec<u32>) -> Self {
        Self(Arc::new(PackedIds { text: text.into(), ends }))
    }

    /// Returns the concatenated ids.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the number of ids that the message declares.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Returns true if the message has no ids.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }
}

/// Shows only the number of ids: they belong to customers.
impl fmt::Debug for RecordIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordIds({})", self.len())
    }
}

impl Message for RecordIds {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        let PackedIds { text, ends } = &*self.0;
        if !text.is_empty() {
            string::encode(TEXT, text, buf);
        }
        if !ends.is_empty() {
            encode_key(ENDS, WireType::LengthDelimited, buf);
            encode_varint(packed_len(ends) as u64, buf);
            put_packed(ends, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let within = |field| {
            move |mut error: DecodeError| {
                error.push("RecordIds", field);
                error
            }
        };
        let PackedIds { text, ends } = Arc::make_mut(&mut self.0);
        match tag {
            TEXT => string::merge(wire_type, text, buf, ctx).map_err(within("text")),
            ENDS if wire_type == WireType::LengthDelimited => {
                take_packed(ends, buf, ctx).map_err(within("ends"))
            }
            // Unpacked: each number as a field of its own.
            ENDS => uint32::merge_repeated(wire_type, ends, buf, ctx).map_err(within("ends")),
            _ => skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let PackedIds { text, ends } = &*self.0;
        let text = if text.is_empty() { 0 } else { string::encoded_len(TEXT, text) };
        let ends = if ends.is_empty() {
            0
        } else {
            let packed = packed_len(ends);
            key_len(ENDS) + encoded_len_varint(packed as u64) + packed
        };
        text + ends
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the length of the numbers as varints, in bytes.
fn packed_len(numbers: &[u32]) -> usize {
    let all = numbers.iter().fold(0, |all, number| all | number);
    let longer = [7, 14, 21, 28].into_iter().take_while(|bits| all >> bits != 0);
    longer.fold(numbers.len(), |len, bits| {
        len + numbers.iter().filter(|number| **number >> bits != 0).count()
    })
}

fn put_packed(numbers: &[u32], buf: &mut impl BufMut) {
    for group in numbers.chunks(GROUP) {
        let mut bytes = [0; 5 * GROUP];
        let mut filled = 0;
        for &number in group {
            let mut rest = number;
            while rest >= 0x80 {
                bytes[filled] = rest as u8 | 0x80;
                filled += 1;
                rest >>= 7;
            }
            bytes[filled] = rest as u8;
            filled += 1;
        }
        buf.put_slice(&bytes[..filled]);
    }
}

fn take_packed(
    numbers: &mut Vec<u32>,
    buf: &mut impl Buf,
    ctx: DecodeContext,
) -> Result<(), DecodeError> {
    let mut bytes = Bytes::new();
    prost::encoding::bytes::merge(WireType::LengthDelimited, &mut bytes, buf, ctx)?;
    // A number ends at the byte without the highest bit.
    numbers.reserve(bytes.iter().filter(|byte| **byte < 0x80).count());
    let mut rest = &bytes[..];
    while let [first, behind @ ..] = rest {
        if *first < 0x80 {
            numbers.push(u32::from(*first));
            rest = behind;
            continue;
        }
        match behind {
            [second, behind @ ..] if *second < 0x80 => {
                numbers.push(u32::from(first & 0x7f) | u32::from(*second) << 7);
                rest = behind;
            }
            // Like the generated code, this keeps the lowest 32 bits of a longer number.
            _ => numbers.push(decode_varint(&mut rest)? as u32),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fields of the contract, with the code that is derived for them.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Generated {
        #[prost(string, tag = "1")]
        text: String,
        #[prost(uint32, repeated, tag = "2")]
        ends: Vec<u32>,
    }

    /// Each number as a field of its own.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Unpacked {
        #[prost(string, tag = "1")]
        text: String,
        #[prost(uint32, repeated, packed = "false", tag = "2")]
        ends: Vec<u32>,
    }

    fn same(bytes: &[u8]) {
        let (ours, theirs) = (RecordIds::decode(bytes), Generated::decode(bytes));
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            assert_eq!(ours, RecordIds::new(theirs.text, theirs.ends));
        }
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..300, any::<u32>(), (0u32..32).prop_map(|bit| 1 << bit), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_the_generated_code(
            text in ".{0,40}",
            ends in proptest::collection::vec(number(), 0..300),
            cut in any::<prop::sample::Index>(),
        ) {
            let ours = RecordIds::new(text.clone(), ends.clone());
            let bytes = Generated { text: text.clone(), ends: ends.clone() }.encode_to_vec();
            prop_assert_eq!(ours.encoded_len(), bytes.len());
            prop_assert_eq!(&ours.encode_to_vec(), &bytes);
            prop_assert_eq!(&RecordIds::decode(&bytes[..]).unwrap(), &ours);
            prop_assert_eq!(&RecordIds::decode(&Unpacked { text, ends }.encode_to_vec()[..]).unwrap(), &ours);
            // Two in one are merged.
            same(&[&bytes[..], &bytes].concat());
            same(&bytes[..cut.index(bytes.len() + 1)]);
        }

        #[test]
        fn bytes_that_a_stranger_chose_are_read_or_refused_alike(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), Just(0x12), 0u8..8, Just(0x80), Just(0xff)], 0..60),
        ) {
            same(&bytes);
            // In the field of the numbers.
            same(&[&[0x12, bytes.len() as u8][..], &bytes].concat());
        }
    }
}
