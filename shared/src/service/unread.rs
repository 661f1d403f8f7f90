//! Bounds the answers that callers do not read: how many bytes wait for one caller and for all,
//! and how long a connection may take none of them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

use super::budget::{Budget, Charge};
use super::identity::PeerIdentity;
use crate::rpc::{Refusal, RefusalKind};

/// The most bytes that are handed to the transport at once. It takes the next piece when the caller
/// has room for it, which is how progress is seen.
const PIECE: usize = 64 << 10;

/// The time that a connection may take nothing of the answers that wait for it.
const PATIENCE: Duration = Duration::from_secs(600);

/// The bytes of answers that one caller may leave unread.
#[derive(Debug, Clone)]
pub struct Unread {
    budget: Arc<Budget>,
    caller: PeerIdentity,
}

impl Unread {
    pub(super) fn new(budget: Arc<Budget>, caller: PeerIdentity) -> Self {
        Self { budget, caller }
    }

    /// Returns the budget of the caller of a request; `None` where no server counts.
    #[must_use]
    pub fn of<T>(request: &tonic::Request<T>) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// Counts an answer until what is returned is dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many bytes wait for this caller, or for all.
    pub fn hold(&self, answer: &impl prost::Message) -> Result<UnreadAnswer, Refusal> {
        self.hold_bytes(answer.encoded_len())
    }

    fn hold_bytes(&self, bytes: usize) -> Result<UnreadAnswer, Refusal> {
        let charge = self.budget.open(&self.caller);
        if charge.set(bytes) {
            return Ok(UnreadAnswer { _charge: charge });
        }
        let message = "too many bytes of answers wait to be read by this caller, or by all; read them, and ask \
                       for less at once";
        Err(Refusal::new(RefusalKind::ResourceExhausted, message))
    }

    /// Counts the answers of a response while they wait for the caller.
    ///
    /// The first message is taken at once: the transport asks for it only when the caller has room.
    pub(super) fn watch(&self, response: Response<Body>, connection: Backlog) -> Response<Body> {
        let (head, inner) = response.into_parts();
        let unread = self.clone();
        let mut body = CountedBody {
            inner,
            unread,
            connection,
            pieces: Bytes::new(),
            last: None,
            ended: false,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match body.take(&mut cx) {
            Err(refusal) => Status::from(refusal).into_http(),
            Ok(_) => Response::from_parts(head, Body::new(body)),
        }
    }
}

/// An answer that counts as unread until this is dropped.
#[derive(Debug)]
pub struct UnreadAnswer {
    _charge: Charge,
}

/// The answers of one connection that are not taken yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    answers: usize,
    /// When an answer was last put here or taken in part.
    moved: Option<Instant>,
}

impl Backlog {
    /// Returns true if answers wait and none was taken for too long.
    pub(super) fn stalled(&self) -> bool {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.answers > 0 && waiting.moved.is_some_and(|at| at.elapsed() > PATIENCE)
    }

    fn change(&self, change: impl FnOnce(&mut usize)) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waiting.answers);
        waiting.moved = Some(Instant::now());
    }
}

/// The bytes of an answer, which count until the transport has sent all of them.
struct HeldAnswer {
    data: Bytes,
    connection: Backlog,
    _answer: UnreadAnswer,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.connection.change(|answers| *answers = answers.saturating_sub(1));
    }
}

/// The body of a response, counted.
struct CountedBody {
    inner: Body,
    unread: Unread,
    connection: Backlog,
    /// The rest of the message that is under way.
    pieces: Bytes,
    /// The frame that follows the pieces.
    last: Option<Result<Frame<Bytes>, Status>>,
    ended: bool,
}

impl CountedBody {
    /// Takes the next frame of the body, if there is one: a message to `pieces`, others to `last`.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Refusal> {
        match http_body::Body::poll_frame(Pin::new(&mut self.inner), cx) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(None) => self.ended = true,
            Poll::Ready(Some(Err(status))) => self.last = Some(Err(status)),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    let answer = self.unread.hold_bytes(data.len())?;
                    self.connection.change(|answers| *answers += 1);
                    let connection = self.connection.clone();
                    self.pieces =
                        Bytes::from_owner(HeldAnswer { data, connection, _answer: answer });
                }
                Err(trailers) => self.last = Some(Ok(trailers)),
            },
        }
        Ok(Poll::Ready(()))
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if !self.pieces.is_empty() {
                self.connection.change(|_| ());
                let length = self.pieces.len().min(PIECE);
                let piece = self.pieces.split_to(length);
                if self.pieces.is_empty() {
                    // An empty rest would hold the answer as long as this body lives.
                    self.pieces = Bytes::new();
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Some(last) = self.last.take() {
                return Poll::Ready(Some(last));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match self.take(cx) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
                Err(refusal) => {
                    self.ended = true;
                    let mut trailers = http::HeaderMap::new();
                    // Fails for messages that are no header value, which this one is.
                    let _ = Status::from(refusal).add_header(&mut trailers);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.last.is_none() && (self.ended || self.inner.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use http_body_util::{BodyExt, StreamBody};

    fn peer(name: &str) -> PeerIdentity {
        format!("spiffe://demo/active-party/{name}").parse().unwrap()
    }

    fn response(messages: &[usize]) -> Response<Body> {
        let frames: Vec<Result<_, Status>> =
            messages.iter().map(|&n| Ok(Frame::data(vec![7; n].into()))).collect();
        Response::new(Body::new(StreamBody::new(tokio_stream::iter(frames))))
    }

    fn code(response: &Response<Body>) -> Option<&str> {
        response.headers().get("grpc-status").map(|value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_has_left() {
        let budget = Budget::new(4 << 20);
        let mine = Unread::new(budget.clone(), peer("a"));
        // Of 4 MiB one caller may hold one. Nobody has asked this body for anything yet.
        let mut first = mine.watch(response(&[900_000]), Backlog::default());
        let second = mine.watch(response(&[200_000]), Backlog::default());
        assert_eq!(code(&second), Some("8"), "too much is unread");
        let other = Unread::new(budget, peer("b"));
        assert_eq!(code(&other.watch(response(&[200_000]), Backlog::default())), None);

        let mut last = None;
        let mut all = 0;
        while let Some(frame) = first.body_mut().frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE && piece.iter().all(|byte| *byte == 7));
            all += piece.len();
            last = Some(piece);
        }
        drop(first);
        assert_eq!(all, 900_000);
        assert!(mine.hold_bytes(200_000).is_err(), "the transport still has the last piece");
        drop(last);
        assert!(mine.hold_bytes(200_000).is_ok());
    }

    #[tokio::test]
    async fn a_stream_ends_with_a_status_where_too_much_is_unread() {
        let mine = Unread::new(Budget::new(400), peer("a"));
        let mut answer = mine.watch(response(&[60, 60, 20]), Backlog::default());
        assert_eq!(code(&answer), None);
        let first = answer.body_mut().frame().await.unwrap().unwrap();
        let refused = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(refused.trailers_ref().unwrap().get("grpc-status").unwrap(), "8");
        assert!(answer.body().is_end_stream() && answer.body_mut().frame().await.is_none());
        drop(first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_nothing_is_stalled() {
        let mine = Unread::new(Budget::new(4 << 20), peer("a"));
        let connection = Backlog::default();
        tokio::time::advance(2 * PATIENCE).await;
        assert!(!connection.stalled(), "nothing waits");
        let mut answer = mine.watch(response(&[PIECE, 10]), connection.clone());
        tokio::time::advance(PATIENCE).await;
        assert!(!connection.stalled());
        drop(answer.body_mut().frame().await);
        tokio::time::advance(PATIENCE).await;
        assert!(!connection.stalled(), "it has taken a piece since");
        let held = answer.body_mut().frame().await;
        tokio::time::advance(PATIENCE + Duration::from_secs(1)).await;
        assert!(connection.stalled());
        drop((held, answer));
        assert!(!connection.stalled());
    }
}
