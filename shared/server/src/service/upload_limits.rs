//! Limits on uploads: the size, number and duration of a call's messages, and the bytes that the
//! service holds at once.
//!
//! The bytes of a request are metered before they reach tonic, which would otherwise reserve
//! whatever size a message declares, for as long as its sender likes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::authorize::{Upload, upload};
use super::budget::{Budget, Charge};
use super::connection::PeerInfo;
use super::identity::PeerIdentity;
use super::limits::Limits;
use super::unread::Unread;

/// The length of the header of a gRPC message: a flag and the length.
const HEADER: usize = 5;

/// A layer that limits uploads. It follows [`super::Authorize`], which identifies the caller.
#[derive(Debug, Clone)]
pub(super) struct UploadLimits {
    budget: Arc<Budget>,
    answers: Arc<Budget>,
    patience: Duration,
}

impl UploadLimits {
    pub(super) fn new(limits: &Limits) -> Self {
        let (budget, answers) =
            (Budget::new(limits.request_bytes()), Budget::new(limits.answer_bytes()));
        Self { budget, answers, patience: limits.upload_timeout() }
    }
}

impl<S> Layer<S> for UploadLimits {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { inner, intake: self.clone() }
    }
}

/// A service behind [`UploadLimits`].
#[derive(Debug, Clone)]
pub(super) struct Bounded<S> {
    inner: S,
    intake: UploadLimits,
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(caller) = request.extensions().get::<PeerIdentity>().cloned() else {
            // Only a wiring fault leads here.
            let refused = Status::unauthenticated("the caller is not known");
            return Box::pin(std::future::ready(Ok(refused.into_http())));
        };
        let upload = upload(request.uri().path());
        let charge = Arc::new(self.intake.budget.open(&caller));
        let unread = Unread::new(self.intake.answers.clone(), caller);
        // Nothing is spent for an answer that would be refused.
        if let Err(refusal) = unread.check() {
            return Box::pin(std::future::ready(Ok(Status::from(refusal).into_http())));
        }
        let connection =
            request.extensions().get::<PeerInfo>().map(PeerInfo::backlog).unwrap_or_default();
        request.extensions_mut().insert(unread.clone());
        // The one message of a call is held until the call is answered, those of a stream until
        // they are passed on.
        let held = upload.single.then(|| charge.clone());
        let patience = self.intake.patience;
        let answered = self
            .inner
            .call(request.map(|body| Body::new(MeteredBody::new(body, upload, charge, patience))));
        Box::pin(async move {
            let answer = answered.await;
            drop(held);
            answer.map(|answer| unread.watch(answer, connection, !upload.single))
        })
    }
}

/// The frames of gRPC messages in a body (gRPC over HTTP/2, "Length-Prefixed-Message").
#[derive(Debug, Default)]
struct Frames {
    header: [u8; HEADER],
    /// Bytes of the header received.
    have: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    /// Bytes received of the current message, header included.
    current: usize,
    /// The number of complete messages.
    complete: usize,
}

impl Frames {
    fn take(&mut self, mut data: &[u8], upload: Upload) -> Result<(), Status> {
        while !data.is_empty() {
            if upload.single && self.complete > 0 {
                return Err(Status::invalid_argument("this call takes one message, more came"));
            }
            if self.have < HEADER {
                let (now, later) = data.split_at(data.len().min(HEADER - self.have));
                self.header[self.have..self.have + now.len()].copy_from_slice(now);
                self.have += now.len();
                self.current += now.len();
                data = later;
                if self.have < HEADER {
                    return Ok(());
                }
                let [flag, length @ ..] = self.header;
                if flag != 0 {
                    return Err(Status::invalid_argument(
                        "a message is marked as compressed or badly framed",
                    ));
                }
                self.left = u32::from_be_bytes(length) as usize;
                if self.left > upload.limit {
                    return Err(Status::out_of_range(format!(
                        "the message is too large: {} bytes, this call takes at most {}",
                        self.left, upload.limit
                    )));
                }
            }
            let now = data.len().min(self.left);
            self.left -= now;
            self.current += now;
            data = &data[now..];
            if self.left == 0 {
                self.complete += 1;
                (self.have, self.current) = (0, 0);
            }
        }
        Ok(())
    }

    fn under_way(&self) -> bool {
        self.current > 0
    }
}

/// The metered body of a request.
struct MeteredBody {
    inner: Body,
    upload: Upload,
    charge: Arc<Charge>,
    frames: Frames,
    /// Bytes of the body so far.
    total: usize,
    patience: Duration,
    /// The start of the current message of a stream, or of a call with one message.
    since: Option<Instant>,
    /// Created when there is something to wait for.
    deadline: Option<Pin<Box<Sleep>>>,
    /// When the service last took something and did not ask for more.
    taken: Option<Instant>,
    ended: bool,
}

impl MeteredBody {
    fn new(inner: Body, upload: Upload, charge: Arc<Charge>, patience: Duration) -> Self {
        let since = upload.single.then(Instant::now);
        let frames = Frames::default();
        Self {
            inner,
            upload,
            charge,
            frames,
            total: 0,
            patience,
            since,
            deadline: None,
            taken: None,
            ended: false,
        }
    }

    fn take(&mut self, data: &[u8]) -> Result<(), Status> {
        let complete = self.frames.complete;
        self.frames.take(data, self.upload)?;
        self.total += data.len();
        let held = if self.upload.single { self.total } else { self.frames.current };
        if !self.charge.set(held) {
            return Err(Status::resource_exhausted(
                "too many bytes of unfinished requests are held for this caller, or for all; send less at once",
            ));
        }
        if !self.upload.single {
            if self.frames.complete > complete || !self.frames.under_way() {
                (self.since, self.deadline) = (None, None);
            }
            if self.frames.under_way() && self.since.is_none() {
                self.since = Some(Instant::now());
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Status> {
        self.ended = true;
        (self.since, self.deadline) = (None, None);
        if self.frames.under_way() {
            return Err(Status::invalid_argument("the request ended in the middle of a message"));
        }
        if self.upload.single && self.frames.complete == 0 {
            return Err(Status::invalid_argument("this call takes one message, none came"));
        }
        Ok(())
    }

    fn late(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(since), patience) = (self.since, self.patience) else { return false };
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(since + patience)));
        deadline.as_mut().poll(cx).is_ready()
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // Time that the service took for itself is not the sender's.
        if let (Some(taken), Some(since)) = (self.taken.take(), self.since.as_mut()) {
            *since += taken.elapsed();
            self.deadline = None;
        }
        let checked = match http_body::Body::poll_frame(Pin::new(&mut self.inner), cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let checked = match frame.data_ref() {
                    Some(data) => self.take(data),
                    None => self.end(),
                };
                checked.map(|()| Some(frame))
            }
            Poll::Ready(Some(Err(error))) => Err(error),
            Poll::Ready(None) => self.end().map(|()| None),
            // Only the wait for bytes counts as late: the service's own delay does not count while
            // bytes are available.
            Poll::Pending if self.late(cx) => {
                let seconds = self.patience.as_secs();
                Err(Status::deadline_exceeded(format!(
                    "a message did not come within {seconds} s of its beginning"
                )))
            }
            Poll::Pending => return Poll::Pending,
        };
        if checked.is_err() {
            self.ended = true;
            let _ = self.charge.set(0);
        }
        self.taken = Some(Instant::now());
        Poll::Ready(checked.transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: Upload = Upload { single: false, limit: 1000 };

    fn framed(messages: &[usize]) -> Vec<u8> {
        let frame =
            |&n: &usize| [vec![0u8], (n as u32).to_be_bytes().to_vec(), vec![7; n]].concat();
        messages.iter().flat_map(frame).collect()
    }

    proptest! {
        /// However the bytes are cut into pieces, the messages are counted and the rest is what is
        /// under way.
        #[test]
        fn frames_do_not_depend_on_the_pieces(
            messages in proptest::collection::vec(0usize..50, 0..6),
            rest in 0usize..20,
            pieces in proptest::collection::vec(1usize..40, 1..200),
        ) {
            let mut bytes = framed(&messages);
            bytes.extend(&framed(&[100])[..rest]);
            let mut frames = Frames::default();
            let (mut at, mut pieces) = (0, pieces.into_iter().cycle());
            while at < bytes.len() {
                let to = (at + pieces.next().unwrap()).min(bytes.len());
                frames.take(&bytes[at..to], STREAM).unwrap();
                at = to;
            }
            prop_assert_eq!((frames.complete, frames.current), (messages.len(), rest));
        }

        #[test]
        fn no_bytes_make_the_frames_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frames::default().take(&bytes, STREAM);
        }
    }

    #[test]
    fn what_a_message_says_it_will_be_is_enough_to_refuse_it() {
        let code = |bytes: &[u8], upload| Frames::default().take(bytes, upload).unwrap_err().code();
        assert_eq!(code(&[0, 0, 0, 4, 0], STREAM), tonic::Code::OutOfRange);
        assert_eq!(code(&[1, 0, 0, 0, 1], STREAM), tonic::Code::InvalidArgument);
        assert_eq!(
            code(&framed(&[1, 1]), Upload { single: true, limit: 9 }),
            tonic::Code::InvalidArgument
        );
    }

    fn metered(body: Body, single: bool, budget: &Arc<Budget>) -> MeteredBody {
        let caller = "spiffe://demo/active-party/a".parse().unwrap();
        let upload = Upload { single, limit: 1000 };
        MeteredBody::new(body, upload, Arc::new(budget.open(&caller)), Duration::from_secs(30))
    }

    /// A body that has sent these bytes and says nothing more.
    struct Stalled(Option<Vec<u8>>);

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
                None => Poll::Pending,
            }
        }
    }

    async fn next(body: &mut MeteredBody) -> Option<Result<Frame<Bytes>, Status>> {
        std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut *body), cx)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_come_is_given_up_and_its_bytes_are_free() {
        for single in [true, false] {
            let budget = Budget::new(4096);
            let half = framed(&[900])[..500].to_vec();
            let mut body = metered(Body::new(Stalled(Some(half))), single, &budget);
            assert!(next(&mut body).await.unwrap().is_ok());
            let other = budget.open(&"spiffe://demo/active-party/a".parse().unwrap());
            assert!(other.set(524) && !other.set(525), "500 of the caller's 1024 bytes are held");
            let before = Instant::now();
            let status = next(&mut body).await.unwrap().unwrap_err();
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
            assert_eq!(before.elapsed().as_secs(), 30);
            assert!(next(&mut body).await.is_none() && other.set(1024));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_may_be_silent_between_messages() {
        let budget = Budget::new(4096);
        let mut body = metered(Body::new(Stalled(Some(framed(&[100])))), false, &budget);
        assert!(next(&mut body).await.unwrap().is_ok());
        let waited = tokio::time::timeout(Duration::from_secs(3600), next(&mut body)).await;
        assert!(waited.is_err(), "nothing is under way, so nothing is late");
    }

    #[tokio::test]
    async fn a_body_that_is_not_whole_is_the_callers_fault() {
        let budget = Budget::new(4096);
        let whole = |bytes: Vec<u8>| Body::new(http_body_util::Full::new(Bytes::from(bytes)));
        for (bytes, says) in
            [(Vec::new(), "none came"), (framed(&[9])[..8].to_vec(), "in the middle")]
        {
            let mut body = metered(whole(bytes), true, &budget);
            let mut last = next(&mut body).await.unwrap();
            while last.is_ok() {
                last = next(&mut body).await.unwrap();
            }
            let status = last.unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains(says), "{status}");
        }
    }
}
