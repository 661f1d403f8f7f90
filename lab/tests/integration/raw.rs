//! Calls below the generated clients: any bytes as messages, any bytes as the body.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body_util::{BodyExt, Full};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{Service, http};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// No call of these tests may take longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// What a call gave: the messages that came, and how it ended. A call that is still open after `at_most` messages is let go.
pub async fn call(
    channel: &Channel,
    path: &'static str,
    messages: Vec<Bytes>,
    at_most: usize,
) -> (Vec<Bytes>, Result<(), Status>) {
    let mut answers = Vec::new();
    let conversation = async {
        let mut client =
            tonic::client::Grpc::new(channel.clone()).max_encoding_message_size(64 << 20);
        client.ready().await.map_err(|e| Status::unavailable(format!("{e:?}")))?;
        let request = tonic::Request::new(tokio_stream::iter(messages));
        let path = http::uri::PathAndQuery::from_static(path);
        let mut incoming = client.streaming(request, path, Raw).await?.into_inner();
        while answers.len() < at_most {
            match incoming.message().await? {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        Ok(())
    };
    let ended = match tokio::time::timeout(PATIENCE, conversation).await {
        Ok(ended) => ended,
        Err(_) => Err(Status::new(Code::DataLoss, format!("{path} hung for {PATIENCE:?}"))),
    };
    (answers, ended)
}

/// Sends a body that need not be gRPC at all, and waits until the answer has ended.
///
/// # Panics
/// When the answer does not end.
pub async fn post(channel: &Channel, path: &'static str, body: Bytes) {
    let mut channel = channel.clone();
    let conversation = async {
        if std::future::poll_fn(|cx| channel.poll_ready(cx)).await.is_err() {
            return;
        }
        let request = http::Request::post(path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(tonic::body::Body::new(Full::new(body)))
            .unwrap();
        if let Ok(response) = channel.call(request).await {
            let _ = response.into_body().collect().await;
        }
    };
    tokio::time::timeout(PATIENCE, conversation).await.unwrap_or_else(|_| panic!("{path} hung"));
}
