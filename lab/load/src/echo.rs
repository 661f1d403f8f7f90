//! A bare gRPC service that answers each message at once with as many bytes as requested.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use vfl_server::service::{Credentials, Limits, connections};

/// The message in both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Payload {
    /// The number of bytes that the answer must have.
    #[prost(uint32, tag = "1")]
    pub(super) answer_bytes: u32,
    /// Padding of the message.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) filling: Bytes,
}

/// The path of the unary call.
pub(super) const UNARY: &str = "/load.Echo/Unary";
/// The path of the streaming call.
pub(super) const STREAM: &str = "/load.Echo/Stream";

fn answer(question: &Payload) -> Payload {
    // Zeroed memory is the cheapest possible answer.
    Payload { answer_bytes: 0, filling: Bytes::from(vec![0; question.answer_bytes as usize]) }
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "load.Echo";
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl UnaryService<Payload> for Echo {
    type Response = Payload;
    type Future = Boxed<Result<Response<Payload>, Status>>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(answer(request.get_ref()))) })
    }
}

impl StreamingService<Payload> for Echo {
    type Response = Payload;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Payload, Status>> + Send>>;
    type Future = Boxed<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Payload>>) -> Self::Future {
        Box::pin(async move {
            let answers = request.into_inner().map(|question| question.map(|q| answer(&q)));
            Ok(Response::new(Box::pin(answers) as Self::ResponseStream))
        })
    }
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(tonic_prost::ProstCodec::<Payload, Payload>::default());
            Ok(match request.uri().path() {
                UNARY => grpc.unary(Echo, request).await,
                STREAM => grpc.streaming(Echo, request).await,
                _ => Status::unimplemented("no such call").into_http(),
            })
        })
    }
}

/// Serves until the process is ended, with the transport settings of the real services.
pub(super) async fn serve(listener: TcpListener, credentials: &Credentials) -> anyhow::Result<()> {
    Server::builder()
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .add_service(Echo)
        .serve_with_incoming(connections(listener, credentials, &Limits::default()))
        .await?;
    Ok(())
}
