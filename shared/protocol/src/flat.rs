//! The codec of the Open Inference Protocol. Its lists of tensors would let a message of 2 bytes
//! per entry take a hundred times its size in memory; the calls served here need only a few
//! entries.

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::codec::undecodable;

/// The maximum number of fields in a message, without those of nested messages.
const MAX_FIELDS: usize = 64;

/// A codec like [`super::Codec`], for messages of at most 64 fields, which are counted before any
/// of them is read.
#[derive(Debug, Clone)]
pub struct FlatCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for FlatCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::new())
    }
}

impl<T, U> tonic::codec::Codec for FlatCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = FlatReader<U>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        FlatReader(std::marker::PhantomData)
    }
}

/// A decoder of messages of one type.
#[derive(Debug)]
pub struct FlatReader<U>(std::marker::PhantomData<U>);

impl<U: Message + Default> Decoder for FlatReader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        read(from.copy_to_bytes(from.remaining())).map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

fn read<U: Message + Default>(message: Bytes) -> Result<U, Status> {
    let fields = fields(&message).map_err(|e| undecodable(&e.to_string()))?;
    if fields > MAX_FIELDS {
        return Err(undecodable(&format!("it has more than {MAX_FIELDS} fields")));
    }
    U::decode(message).map_err(|e| undecodable(&e.to_string()))
}

/// Counts the fields of a message; stops after [`MAX_FIELDS`].
fn fields(mut message: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    while message.has_remaining() && count <= MAX_FIELDS {
        let (tag, kind) = decode_key(&mut message)?;
        skip_field(kind, tag, &mut message, DecodeContext::default())?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pb::inference::ModelInferRequest;

    /// Returns a request with so many raw tensors, all empty.
    fn raw(tensors: usize) -> Bytes {
        let request = ModelInferRequest {
            raw_input_contents: vec![Bytes::new(); tensors],
            ..Default::default()
        };
        request.encode_to_vec().into()
    }

    #[test]
    fn a_message_of_many_fields_is_not_read() {
        assert_eq!(
            read::<ModelInferRequest>(raw(MAX_FIELDS)).unwrap().raw_input_contents.len(),
            MAX_FIELDS
        );
        for tensors in [MAX_FIELDS + 1, 1 << 20] {
            let status = read::<ModelInferRequest>(raw(tensors)).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains("more than 64 fields"), "{status}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_prost_reads(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            if let Ok(request) = read::<ModelInferRequest>(bytes.clone()) {
                prop_assert_eq!(request, ModelInferRequest::decode(bytes).unwrap());
            }
        }
    }
}
