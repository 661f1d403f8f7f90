//! Bounds the answers that callers do not read: how many bytes wait for one caller and for all,
//! and how long a connection may take none of them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use vfl_protocol::{Refusal, RefusalKind};

use super::budget::{Budget, Charge};
use super::identity::PeerIdentity;

/// The most bytes that are handed to the transport at once. It takes the next piece when the caller
/// has room for it, which is how progress is seen.
const PIECE: usize = 64 << 10;

/// Answers below this size are not counted: a budget that is spent refuses no health check.
const SMALL: usize = 4 << 10;

/// The time that a connection may leave an answer untouched. A coordinator may wait for one party
/// that long before it reads the answer of another.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The interval at which the answers of a connection are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The interval at which a stream looks whether there is room for its next answer.
const RETRY: Duration = Duration::from_millis(20);

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

    /// Waits until an answer of about so many bytes may be made for this caller. It counts until
    /// what is returned is dropped. The answers of a stream wait here, before they are computed:
    /// who reads them makes room.
    pub async fn room(&self, bytes: usize) -> UnreadAnswer {
        loop {
            match self.hold(bytes.min(self.budget.share())) {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Returns an error if the caller has left so much unread that nothing is computed for it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.budget.open(&self.caller).is_spent() { Err(refused()) } else { Ok(()) }
    }

    fn hold(&self, bytes: usize) -> Result<UnreadAnswer, Refusal> {
        let charge = self.budget.open(&self.caller);
        if charge.set(bytes) { Ok(UnreadAnswer { _charge: charge }) } else { Err(refused()) }
    }

    /// Counts the answers of a response while they wait for the caller.
    ///
    /// The first message is taken at once: the transport asks for it only when the caller has room.
    /// It is refused where too much is unread. The messages of a stream are not: their
    /// handler waits for [`Unread::room`] or for the caller to take the one before.
    pub(super) fn watch(
        &self,
        response: Response<Body>,
        connection: Backlog,
        stream: bool,
    ) -> Response<Body> {
        let (head, inner) = response.into_parts();
        let unread = self.clone();
        let pieces = Bytes::new();
        let mut body = CountedBody {
            inner,
            unread,
            connection,
            pieces,
            entry: None,
            last: None,
            ended: false,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match body.take(&mut cx, stream) {
            Err(refusal) => Status::from(refusal).into_http(),
            Ok(_) => Response::from_parts(head, Body::new(body)),
        }
    }
}

fn refused() -> Refusal {
    let message = "too many bytes of answers wait to be read by this caller, or by all; read them, \
                   and ask for less at once";
    Refusal::new(RefusalKind::ResourceExhausted, message)
}

/// An answer that counts as unread until this is dropped.
#[derive(Debug)]
pub struct UnreadAnswer {
    _charge: Charge,
}

/// The answers of one connection that are not taken yet: when each was last taken in part.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// When they were last looked at all together.
    checked: Option<Instant>,
    answers: HashMap<u64, Instant>,
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an answer was not touched for too long.
    pub(super) fn stalled(&self) -> bool {
        let mut waiting = self.lock();
        if waiting.answers.is_empty() || waiting.checked.is_some_and(|at| at.elapsed() < LOOK) {
            return false;
        }
        waiting.checked = Some(Instant::now());
        waiting.answers.values().any(|moved| moved.elapsed() > PATIENCE)
    }

    fn enter(&self) -> u64 {
        let mut waiting = self.lock();
        waiting.next += 1;
        let entry = waiting.next;
        waiting.answers.insert(entry, Instant::now());
        entry
    }

    fn touch(&self, entry: u64) {
        if let Some(moved) = self.lock().answers.get_mut(&entry) {
            *moved = Instant::now();
        }
    }
}

/// The bytes of an answer, which count until the transport has sent all of them.
struct HeldAnswer {
    data: Bytes,
    connection: Backlog,
    entry: u64,
    _answer: UnreadAnswer,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.connection.lock().answers.remove(&self.entry);
    }
}

/// The body of a response, counted.
struct CountedBody {
    inner: Body,
    unread: Unread,
    connection: Backlog,
    /// The rest of the message that is under way.
    pieces: Bytes,
    /// Its entry in the backlog, if it counts.
    entry: Option<u64>,
    /// The frame that follows the pieces.
    last: Option<Result<Frame<Bytes>, Status>>,
    ended: bool,
}

impl CountedBody {
    /// Takes the next frame of the body, if there is one: a message to `pieces`, others to `last`.
    /// A message beyond the budget is counted if it is `forced`.
    fn take(&mut self, cx: &mut Context<'_>, forced: bool) -> Result<Poll<()>, Refusal> {
        match http_body::Body::poll_frame(Pin::new(&mut self.inner), cx) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(None) => self.ended = true,
            Poll::Ready(Some(Err(status))) => self.last = Some(Err(status)),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.len() < SMALL => (self.pieces, self.entry) = (data, None),
                Ok(data) => {
                    let answer = match forced {
                        true => {
                            let charge = self.unread.budget.open(&self.unread.caller);
                            charge.force(data.len());
                            UnreadAnswer { _charge: charge }
                        }
                        false => self.unread.hold(data.len())?,
                    };
                    let (connection, entry) = (self.connection.clone(), self.connection.enter());
                    let held = HeldAnswer { data, connection, entry, _answer: answer };
                    (self.pieces, self.entry) = (Bytes::from_owner(held), Some(entry));
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
                if let Some(entry) = self.entry {
                    self.connection.touch(entry);
                }
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
            match self.take(cx, true) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
                Err(refusal) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(refusal.into())));
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

    fn watch(unread: &Unread, messages: &[usize]) -> Response<Body> {
        unread.watch(response(messages), Backlog::default(), messages.len() > 1)
    }

    fn code(response: &Response<Body>) -> Option<&str> {
        response.headers().get("grpc-status").map(|value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_has_left() {
        let budget = Budget::new(4 << 20);
        let mine = Unread::new(budget.clone(), peer("a"));
        // Of 4 MiB one caller may hold one. Nobody has asked this body for anything yet.
        let mut first = watch(&mine, &[900_000]);
        assert_eq!(code(&watch(&mine, &[200_000])), Some("8"), "too much is unread");
        assert_eq!(code(&watch(&mine, &[SMALL - 1])), None, "a small answer is always given");
        assert_eq!(code(&watch(&Unread::new(budget, peer("b")), &[200_000])), None);

        let mut last = None;
        let mut all = 0;
        while let Some(frame) = first.body_mut().frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE && piece.iter().all(|byte| *byte == 7));
            all += piece.len();
            last = Some(piece);
        }
        assert!(first.body().is_end_stream());
        drop(first);
        assert_eq!(all, 900_000);
        assert!(mine.hold(200_000).is_err(), "the transport still has the last piece");
        drop(last);
        assert!(mine.hold(200_000).is_ok());
    }

    /// The handler of a stream waits for room before it computes; what it has computed goes out.
    #[tokio::test(start_paused = true)]
    async fn a_stream_waits_for_room_and_loses_no_answer() {
        let mine = Unread::new(Budget::new(400_000), peer("a"));
        let held = mine.room(100_000).await;
        assert!(mine.check().is_err(), "no further call is computed");
        let wait = mine.clone();
        let waiting = tokio::spawn(async move { drop(wait.room(50_000).await) });
        tokio::time::sleep(10 * RETRY).await;
        assert!(!waiting.is_finished());
        let mut stream = watch(&mine, &[60_000, 60_000]);
        for _ in 0..2 {
            assert_eq!(
                stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap().len(),
                60_000
            );
        }
        assert!(stream.body_mut().frame().await.is_none());
        drop(held);
        waiting.await.unwrap();
        // More than a caller may ever hold is cut to that: it goes alone.
        drop(mine.room(usize::MAX).await);
        assert!(mine.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_leaves_an_answer_untouched_is_stalled() {
        let mine = Unread::new(Budget::new(4 << 20), peer("a"));
        let connection = Backlog::default();
        let open = |length| mine.watch(response(&[length]), connection.clone(), false);
        assert!(!connection.stalled(), "nothing waits");
        let mut answer = open(2 * PIECE);
        tokio::time::advance(PATIENCE).await;
        assert!(!connection.stalled());
        drop(answer.body_mut().frame().await);
        tokio::time::advance(PATIENCE).await;
        assert!(!connection.stalled(), "it has taken a piece since");
        let held = answer.body_mut().frame().await;
        // Other answers of the connection do not help.
        drop(open(PIECE).body_mut().frame().await);
        tokio::time::advance(PATIENCE + Duration::from_secs(1)).await;
        drop(open(PIECE).body_mut().frame().await);
        assert!(connection.stalled());
        drop((held, answer));
        tokio::time::advance(LOOK).await;
        assert!(!connection.stalled());
    }
}
