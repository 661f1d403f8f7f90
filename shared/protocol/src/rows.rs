//! Answers with a status for each row, written by hand: `vfl.v1.PredictResponse` and
//! `vfl.v1.ComputeLogitsResponse`. The bytes are the same as those of generated code. Generated
//! code handles each status separately, although almost all of them are one byte each.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    DecodeContext, WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, int32,
    key_len, message, skip_field, string, uint64,
};
use prost::{DecodeError, Message};

use super::pb;

/// The largest number that takes one byte of a packed field.
const ONE_BYTE: i32 = 0x7f;
/// The number of statuses that are encoded together.
const GROUP: usize = 256;

/// The coordinator's answer to a prediction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PredictResponse {
    /// The version of the model.
    pub model_version: String,
    /// The status of each id, in order.
    pub row_status: Vec<i32>,
    /// The released scores.
    pub release: Option<pb::Release>,
}

/// A passive party's answer to a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComputeLogitsResponse {
    /// The status of each id, in order.
    pub row_status: Vec<i32>,
    /// One row for every record whose status is OK.
    pub logit_shares: Option<pb::Matrix>,
    /// The number of the question.
    pub question: u64,
    /// The reason, if there are no shares.
    pub refused: Option<pb::ShareRefusal>,
}

impl Message for PredictResponse {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        if !self.model_version.is_empty() {
            string::encode(1, &self.model_version, buf);
        }
        put_statuses(2, &self.row_status, buf);
        if let Some(release) = &self.release {
            message::encode(3, release, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let within = |field| located("PredictResponse", field);
        match tag {
            1 => string::merge(wire_type, &mut self.model_version, buf, ctx)
                .map_err(within("model_version")),
            2 => take_statuses(wire_type, &mut self.row_status, buf, ctx)
                .map_err(within("row_status")),
            3 => message::merge(wire_type, self.release.get_or_insert_default(), buf, ctx)
                .map_err(within("release")),
            _ => skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let version = if self.model_version.is_empty() {
            0
        } else {
            string::encoded_len(1, &self.model_version)
        };
        let release = self.release.as_ref().map_or(0, |release| message::encoded_len(3, release));
        version + statuses_len(2, &self.row_status) + release
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Message for ComputeLogitsResponse {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        put_statuses(1, &self.row_status, buf);
        if let Some(shares) = &self.logit_shares {
            message::encode(2, shares, buf);
        }
        if self.question != 0 {
            uint64::encode(3, &self.question, buf);
        }
        if let Some(refused) = &self.refused {
            message::encode(4, refused, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let within = |field| located("ComputeLogitsResponse", field);
        match tag {
            1 => take_statuses(wire_type, &mut self.row_status, buf, ctx)
                .map_err(within("row_status")),
            2 => {
                let shares = self.logit_shares.get_or_insert_default();
                message::merge(wire_type, shares, buf, ctx).map_err(within("logit_shares"))
            }
            3 => uint64::merge(wire_type, &mut self.question, buf, ctx).map_err(within("question")),
            4 => message::merge(wire_type, self.refused.get_or_insert_default(), buf, ctx)
                .map_err(within("refused")),
            _ => skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let shares = self.logit_shares.as_ref().map_or(0, |shares| message::encoded_len(2, shares));
        let question = if self.question == 0 { 0 } else { uint64::encoded_len(3, &self.question) };
        let refused = self.refused.as_ref().map_or(0, |refused| message::encoded_len(4, refused));
        statuses_len(1, &self.row_status) + shares + question + refused
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Adds the message and field to a decoding error.
fn located(message: &'static str, field: &'static str) -> impl FnOnce(DecodeError) -> DecodeError {
    move |mut error| {
        error.push(message, field);
        error
    }
}

fn one_byte_each(statuses: &[i32]) -> bool {
    statuses.iter().fold(true, |all, status| all & (0..=ONE_BYTE).contains(status))
}

fn put_statuses(tag: u32, statuses: &[i32], buf: &mut impl BufMut) {
    if statuses.is_empty() || !one_byte_each(statuses) {
        return int32::encode_packed(tag, statuses, buf);
    }
    encode_key(tag, WireType::LengthDelimited, buf);
    encode_varint(statuses.len() as u64, buf);
    for group in statuses.chunks(GROUP) {
        let mut bytes = [0; GROUP];
        bytes.iter_mut().zip(group).for_each(|(byte, status)| *byte = *status as u8);
        buf.put_slice(&bytes[..group.len()]);
    }
}

fn statuses_len(tag: u32, statuses: &[i32]) -> usize {
    if statuses.is_empty() || !one_byte_each(statuses) {
        return int32::encoded_len_packed(tag, statuses);
    }
    key_len(tag) + encoded_len_varint(statuses.len() as u64) + statuses.len()
}

fn take_statuses(
    wire_type: WireType,
    statuses: &mut Vec<i32>,
    buf: &mut impl Buf,
    ctx: DecodeContext,
) -> Result<(), DecodeError> {
    if wire_type != WireType::LengthDelimited {
        // Unpacked: each status as a field of its own.
        return int32::merge_repeated(wire_type, statuses, buf, ctx);
    }
    let mut bytes = Bytes::new();
    prost::encoding::bytes::merge(wire_type, &mut bytes, buf, ctx)?;
    if bytes.iter().fold(true, |all, byte| all & (*byte <= ONE_BYTE as u8)) {
        statuses.extend(bytes.iter().map(|byte| i32::from(*byte)));
        return Ok(());
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        statuses.push(decode_varint(&mut rest)? as i32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fields of the contract, with the code that is derived for them.
    mod derived {
        use super::pb;

        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct Predict {
            #[prost(string, tag = "1")]
            pub(super) model_version: String,
            #[prost(enumeration = "pb::RowStatus", repeated, tag = "2")]
            pub(super) row_status: Vec<i32>,
            #[prost(message, optional, tag = "3")]
            pub(super) release: Option<pb::Release>,
        }

        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct Shares {
            #[prost(enumeration = "pb::RowStatus", repeated, tag = "1")]
            pub(super) row_status: Vec<i32>,
            #[prost(message, optional, tag = "2")]
            pub(super) logit_shares: Option<pb::Matrix>,
            #[prost(uint64, tag = "3")]
            pub(super) question: u64,
            #[prost(message, optional, tag = "4")]
            pub(super) refused: Option<pb::ShareRefusal>,
        }

        /// Each status as a field of its own.
        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct Unpacked {
            #[prost(int32, repeated, packed = "false", tag = "1")]
            pub(super) row_status: Vec<i32>,
        }
    }

    /// Both readers say the same of `bytes`.
    fn same(bytes: &[u8]) {
        let (ours, theirs) = (PredictResponse::decode(bytes), derived::Predict::decode(bytes));
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            let derived::Predict { model_version, row_status, release } = theirs;
            assert_eq!(ours, PredictResponse { model_version, row_status, release });
        }
        let (ours, theirs) = (ComputeLogitsResponse::decode(bytes), derived::Shares::decode(bytes));
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            let derived::Shares { row_status, logit_shares, question, refused } = theirs;
            assert_eq!(ours, ComputeLogitsResponse { row_status, logit_shares, question, refused });
        }
    }

    fn statuses() -> impl Strategy<Value = Vec<i32>> {
        let known = proptest::collection::vec(0i32..8, 0..600);
        let any = proptest::collection::vec(prop_oneof![0i32..200, any::<i32>()], 0..20);
        prop_oneof![known, any]
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_the_generated_code(
            row_status in statuses(),
            version in "[a-z]{0,4}",
            question in prop_oneof![Just(0), any::<u64>()],
            matrix in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
            refused in proptest::option::of("[a-z]{0,3}"),
            cut in any::<prop::sample::Index>(),
        ) {
            let matrix = matrix.map(|values| pb::Matrix { rows: 3, columns: 0, values: values.into() });
            let release = matrix.clone().map(|m| pb::Release { kind: Some(pb::release::Kind::Numbers(m)) });
            let ours = PredictResponse { model_version: version.clone(), row_status: row_status.clone(), release: release.clone() };
            let theirs = derived::Predict { model_version: version, row_status: row_status.clone(), release };
            let bytes = theirs.encode_to_vec();
            prop_assert_eq!(ours.encoded_len(), bytes.len());
            prop_assert_eq!(&ours.encode_to_vec(), &bytes);
            prop_assert_eq!(&PredictResponse::decode(&bytes[..]).unwrap(), &ours);
            // Two in one are merged.
            same(&[&bytes[..], &bytes].concat());
            same(&bytes[..cut.index(bytes.len() + 1)]);

            let refused = refused.map(|message| pb::ShareRefusal { code: 5, message });
            let ours = ComputeLogitsResponse { row_status: row_status.clone(), logit_shares: matrix.clone(), question, refused: refused.clone() };
            let theirs = derived::Shares { row_status: row_status.clone(), logit_shares: matrix, question, refused };
            let bytes = theirs.encode_to_vec();
            prop_assert_eq!(ours.encoded_len(), bytes.len());
            prop_assert_eq!(&ours.encode_to_vec(), &bytes);
            prop_assert_eq!(&ComputeLogitsResponse::decode(&bytes[..]).unwrap(), &ours);
            same(&[&bytes[..], &bytes].concat());
            same(&bytes[..cut.index(bytes.len() + 1)]);

            let unpacked = derived::Unpacked { row_status: row_status.clone() }.encode_to_vec();
            prop_assert_eq!(ComputeLogitsResponse::decode(&unpacked[..]).unwrap().row_status, row_status);
        }

        #[test]
        fn bytes_that_a_stranger_chose_are_read_or_refused_alike(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), Just(0x12), Just(0x1a), 0u8..8, Just(0x80), Just(0xff)], 0..60),
        ) {
            same(&bytes);
            // In the field of the statuses of either message.
            same(&[&[0x0a, bytes.len() as u8][..], &bytes].concat());
            same(&[&[0x12, bytes.len() as u8][..], &bytes].concat());
        }
    }
}
