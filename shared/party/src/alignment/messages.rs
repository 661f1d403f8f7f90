//! The messages of two aligning parties inside their session: a kind, a length and the content.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use vfl_protocol::{Refusal, RefusalKind};

use super::group::{Encoded, POINT_BYTES};

/// The maximum number of points in one message.
pub(super) const MESSAGE_POINTS: usize = 8192;

/// The interval at which a working party tells the other that it is still there.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A message. docs/alignment.md has their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The number of ids that the sender holds.
    Hello(u64),
    /// The sender is still listing or blinding its ids.
    Working,
    /// The sender has blinded its ids.
    Ready,
    /// Blinded ids, in ascending order of their bytes.
    Points(Vec<Encoded>),
    /// The receiver's blinded ids multiplied by the sender's secret, in the order in which they
    /// were received.
    Answers(Vec<Encoded>),
    /// The sender has the result: the number of common ids.
    Done(u64),
    /// The sender aborts, with the reason.
    Refused(Refusal),
}

/// The kinds of refusal; the position is the number on the wire.
const REASONS: [RefusalKind; 6] = [
    RefusalKind::InvalidArgument,
    RefusalKind::FailedPrecondition,
    RefusalKind::ResourceExhausted,
    RefusalKind::PermissionDenied,
    RefusalKind::DeadlineExceeded,
    RefusalKind::Internal,
];

impl Message {
    /// Names the message, for errors.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Hello(_) => "a greeting",
            Self::Working => "a sign of life",
            Self::Ready => "ready",
            Self::Points(_) => "points",
            Self::Answers(_) => "answers",
            Self::Done(_) => "done",
            Self::Refused(_) => "a refusal",
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, content) = match self {
            Self::Hello(count) => (1, count.to_be_bytes().to_vec()),
            Self::Working => (2, Vec::new()),
            Self::Ready => (3, Vec::new()),
            Self::Points(points) => (4, points.concat()),
            Self::Answers(points) => (5, points.concat()),
            Self::Done(count) => (6, count.to_be_bytes().to_vec()),
            Self::Refused(refusal) => {
                let number = REASONS
                    .iter()
                    .position(|kind| *kind == refusal.kind)
                    .unwrap_or(REASONS.len() - 1);
                (7, [&[number as u8], refusal.reason().as_bytes()].concat())
            }
        };
        let mut bytes = Vec::with_capacity(5 + content.len());
        bytes.push(kind);
        bytes.extend((content.len() as u32).to_be_bytes());
        bytes.extend(content);
        bytes
    }

    fn decode(kind: u8, content: &[u8]) -> Result<Self, String> {
        let count = || {
            let bytes = content
                .try_into()
                .map_err(|_| format!("a number has {} bytes, expected 8", content.len()))?;
            Ok::<_, String>(u64::from_be_bytes(bytes))
        };
        let points = || {
            let (points, rest) = content.as_chunks::<POINT_BYTES>();
            match (points.len(), rest) {
                (1.., []) => Ok(points.to_vec()),
                _ => Err(format!(
                    "points have {} bytes, expected a multiple of {POINT_BYTES}",
                    content.len()
                )),
            }
        };
        match kind {
            1 => Ok(Self::Hello(count()?)),
            2 if content.is_empty() => Ok(Self::Working),
            3 if content.is_empty() => Ok(Self::Ready),
            4 => Ok(Self::Points(points()?)),
            5 => Ok(Self::Answers(points()?)),
            6 => Ok(Self::Done(count()?)),
            7 => {
                let (number, reason) = content.split_first().ok_or("a refusal is empty")?;
                let kind =
                    REASONS.get(usize::from(*number)).ok_or("a refusal has an unknown kind")?;
                let reason = std::str::from_utf8(reason)
                    .map_err(|_| "the reason of a refusal is not UTF-8")?;
                Ok(Self::Refused(Refusal::said(*kind, reason)))
            }
            2 | 3 => Err("a message that has no content has some".into()),
            _ => Err(format!("a message has the unknown kind {kind}")),
        }
    }
}

/// The time limit of a whole run, so that a party that keeps sending signs of life is not waited
/// for forever. It is some twenty times as long as ten million ids take on two cores.
pub const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// One end of the parties' session.
pub(super) struct Conversation<S> {
    stream: S,
    /// The other party's name, for messages.
    peer: String,
    /// The time for which it may be silent, or take nothing.
    patience: Duration,
    /// The time at which the run is given up.
    ends: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) fn new(stream: S, peer: String, patience: Duration) -> Self {
        Self { stream, peer, patience, ends: Instant::now() + LONGEST }
    }

    /// Returns the refusal of invalid input from the other party.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Refusal {
        Refusal::invalid(format!("alignment: {}: {what}", self.peer))
    }

    /// Returns the deadline of an operation that begins now.
    fn within(&self, patience: Duration) -> Instant {
        self.ends.min(Instant::now() + patience)
    }

    /// Checks the time limit of the run. After it, even input that has already arrived is not read:
    /// a party may never let it run out.
    fn in_time(&self) -> Result<(), Refusal> {
        if Instant::now() < self.ends { Ok(()) } else { Err(self.silent()) }
    }

    fn silent(&self) -> Refusal {
        let message = match Instant::now() >= self.ends {
            true => format!(
                "alignment: the run with {} has not ended in {} h",
                self.peer,
                LONGEST.as_secs() / 3600
            ),
            false => {
                format!("alignment: {} was silent for {} s", self.peer, self.patience.as_secs())
            }
        };
        Refusal::new(RefusalKind::DeadlineExceeded, message)
    }

    fn gone(&self) -> Refusal {
        Refusal::unavailable(format!("alignment: {} went away", self.peer))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// UNAVAILABLE if the other party is gone, DEADLINE_EXCEEDED if it takes nothing, or if the run
    /// takes too long.
    pub(super) async fn send(&mut self, message: &Message) -> Result<(), Refusal> {
        self.in_time()?;
        let (bytes, until) = (message.encode(), self.within(self.patience));
        let sent = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        match tokio::time::timeout_at(until, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => Err(self.silent()),
        }
    }

    /// Receives the next message. A refusal of the other party is returned as an error.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for bytes that are no message, the refusal of the other party, and the
    /// errors of [`Self::send`].
    pub(super) async fn receive(&mut self) -> Result<Message, Refusal> {
        self.in_time()?;
        let until = self.within(self.patience);
        let read = async {
            let kind = self.stream.read_u8().await?;
            let length = self.stream.read_u32().await? as usize;
            if length > MESSAGE_POINTS * POINT_BYTES {
                return Ok(Err(format!(
                    "a message has {length} bytes, at most {} are taken",
                    MESSAGE_POINTS * POINT_BYTES
                )));
            }
            let mut content = vec![0; length];
            self.stream.read_exact(&mut content).await?;
            Ok::<_, std::io::Error>(Message::decode(kind, &content))
        };
        match tokio::time::timeout_at(until, read).await {
            Ok(Ok(Ok(Message::Refused(refusal)))) => Err(Refusal::new(
                refusal.kind,
                format!("{} refused: {}", self.peer, refusal.message),
            )),
            Ok(Ok(Ok(message))) => Ok(message),
            Ok(Ok(Err(what))) => Err(self.wrong(what)),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => Err(self.silent()),
        }
    }

    /// Waits for this party's own work, and sends signs of life meanwhile.
    ///
    /// # Errors
    /// The errors of [`Self::send`].
    pub(super) async fn while_working<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout_at(self.within(SIGN_OF_LIFE), work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) if Instant::now() >= self.ends => return Err(self.silent()),
                Err(_) => self.send(&Message::Working).await?,
            }
        }
    }

    /// Sends the other party the reason why this one aborts, if it still listens.
    pub(super) async fn refuse(&mut self, refusal: &Refusal) {
        let _ = self.send(&Message::Refused(refusal.clone())).await;
    }

    /// Shuts the session down cleanly.
    pub(super) async fn close(mut self) {
        let _ = tokio::time::timeout_at(self.within(self.patience), self.stream.shutdown()).await;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Message, Refusal> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut far, near) = tokio::io::duplex(1 << 20);
            far.write_all(bytes).await.unwrap();
            drop(far);
            Conversation::new(near, "the peer".into(), Duration::from_secs(5)).receive().await
        })
    }

    #[test]
    fn messages_round_trip() {
        for message in [
            Message::Hello(7),
            Message::Working,
            Message::Ready,
            Message::Points(vec![[1; 32], [2; 32]]),
            Message::Answers(vec![[3; 32]; MESSAGE_POINTS]),
            Message::Done(u64::MAX),
        ] {
            assert_eq!(read(&message.encode()).unwrap(), message);
        }
        let refused =
            read(&Message::Refused(Refusal::precondition("é".repeat(900))).encode()).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
        assert!(
            refused.message.starts_with("the peer refused: éé") && refused.message.len() < 1050
        );
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_takes_long_is_told_of_until_it_is_done() {
        let (far, near) = tokio::io::duplex(1 << 10);
        let mut near = Conversation::new(near, "the peer".into(), Duration::from_secs(60));
        let mut far = Conversation::new(far, "the peer".into(), Duration::from_secs(60));
        assert_eq!(near.while_working(std::future::ready(1)).await.unwrap(), 1);
        let work = tokio::time::sleep(3 * SIGN_OF_LIFE - Duration::from_secs(1));
        near.while_working(work).await.unwrap();
        near.send(&Message::Hello(7)).await.unwrap();
        for expected in [Message::Working, Message::Working, Message::Hello(7)] {
            assert_eq!(far.receive().await.unwrap(), expected);
        }
        // Nobody works on for a party that has gone.
        drop(far);
        let gone = near.while_working(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(gone.kind, RefusalKind::Unavailable);
    }

    #[test]
    fn malformed_messages_are_refused() {
        let framed = |kind: u8, content: &[u8]| {
            [&[kind][..], &(content.len() as u32).to_be_bytes(), content].concat()
        };
        for (bytes, says) in [
            (framed(9, b""), "unknown kind 9"),
            (framed(0, b""), "unknown kind 0"),
            (framed(1, &[0; 7]), "7 bytes, expected 8"),
            (framed(2, &[0]), "no content"),
            (framed(4, b""), "points have 0 bytes"),
            (framed(4, &[1; 33]), "points have 33 bytes"),
            (framed(5, &[1; 31]), "points have 31 bytes"),
            (framed(7, b""), "a refusal is empty"),
            (framed(7, &[99, b'a']), "unknown kind"),
            (framed(7, &[0, 0xff]), "not UTF-8"),
            (vec![4, 0, 4, 0, 1], "262145 bytes, at most 262144"),
            (framed(4, &[1; 64])[..50].to_vec(), "went away"),
            (Vec::new(), "went away"),
        ] {
            let refused = read(&bytes).unwrap_err();
            assert!(refused.message.contains(says), "{says}: {refused}");
        }
        let shown = read(&framed(7, b"\x00a\x1b[31mb\n")).unwrap_err();
        assert_eq!(shown.message, "the peer refused: a?[31mb?");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
