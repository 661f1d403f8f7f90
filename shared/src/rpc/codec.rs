//! How messages are read: what cannot be decoded is the fault of whoever sent it.

use std::sync::Arc;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// The message is not one of the type that the call takes. The source of the status that a service answers with, and that a
/// client makes of a bad answer: only the client's has one, since sources do not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be decoded")]
pub(super) struct Undecodable;

/// INVALID_ARGUMENT, for this reason.
pub(super) fn undecodable(reason: &str) -> Status {
    let mut status = Status::invalid_argument(format!("{Undecodable}: {reason}"));
    status.set_source(Arc::new(Undecodable));
    status
}

/// tonic's codec for protobuf, except that bytes which are no message are INVALID_ARGUMENT: tonic says INTERNAL, as if the
/// service had failed.
#[derive(Debug, Clone)]
pub struct Codec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::new())
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Reader(self.0.decoder())
    }
}

/// Reads messages of one type.
#[derive(Debug)]
pub struct Reader<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for Reader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        self.0.decode(from).map_err(|failed| undecodable(failed.message()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
