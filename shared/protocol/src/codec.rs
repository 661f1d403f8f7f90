//! The codec of gRPC messages: a message that cannot be decoded is the fault of its sender.

use std::sync::Arc;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// The message is not of the type that the call takes. This is the source of the status with which
/// a service answers, and of the one that a client makes of a bad answer. Sources are not
/// transmitted, so only the client's status has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be decoded")]
pub(super) struct Undecodable;

/// Returns INVALID_ARGUMENT with this reason.
pub(super) fn undecodable(reason: &str) -> Status {
    let mut status = Status::invalid_argument(format!("{Undecodable}: {reason}"));
    status.set_source(Arc::new(Undecodable));
    status
}

/// A codec for protobuf like tonic's, except that bytes which are no message are INVALID_ARGUMENT:
/// tonic returns INTERNAL, as if the service had failed. It also reserves room for a message before
/// it writes it: otherwise the written part would be copied each time the buffer grows.
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
    type Encoder = Writer<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Self::Encoder {
        Writer(self.0.encoder())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Reader(self.0.decoder())
    }
}

/// An encoder of messages of one type.
#[derive(Debug)]
pub struct Writer<T>(ProstEncoder<T>);

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(item.encoded_len());
        self.0.encode(item, to)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// A decoder of messages of one type.
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
