//! The window of one bulk stream: limits on the messages and bytes under way at once.

use std::future::ready;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::Status;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal};
use vfl_server::service::Unread;

/// Most messages of one stream under way at once.
const MESSAGES: usize = 32;
/// Most bytes of these messages as they were sent, in KiB: those of the largest message.
/// [`MESSAGES`] of 1024 records and 6 classes have 2 MiB.
const KIB: u32 = (MAX_MESSAGE_BYTES / 1024) as u32;

/// The limit on the bytes of one stream that are under way.
#[derive(Clone)]
struct Window(Arc<Semaphore>);

impl Default for Window {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(KIB as usize)))
    }
}

impl Window {
    /// Waits until there is room for a message of so many bytes. The room is taken until the permit
    /// is dropped.
    ///
    /// # Errors
    /// Never: the window is not closed.
    async fn enter(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(KIB).min(KIB);
        self.0
            .clone()
            .acquire_many_owned(kib)
            .await
            .map_err(|_| Refusal::internal("the stream's window is closed"))
    }
}

/// Returns the answers to the messages of one stream, in their order. A message waits until there
/// is room for `bytes_of` it, in this stream and among what the caller has not read, and takes up
/// room until its answer has gone to the reader. Room is given in order, so that the first answer
/// always has it. The first error, of a message or of an answer, is the last item: later items
/// could not be told from an answer to it.
pub(crate) fn answers<M, A, F: Future<Output = Result<A, Status>>>(
    messages: impl Stream<Item = Result<M, Status>>,
    bytes_of: impl Fn(&M) -> usize,
    unread: Option<Unread>,
    answer: impl Fn(M) -> F,
) -> impl Stream<Item = Result<A, Status>> {
    let window = Window::default();
    messages
        .then(move |message| {
            let (window, unread) = (window.clone(), unread.clone());
            let bytes = message.as_ref().map_or(0, &bytes_of);
            async move {
                let message = message?;
                let room = window.enter(bytes).await?;
                let unread = match unread {
                    Some(unread) => Some(unread.room(bytes).await),
                    None => None,
                };
                Ok::<_, Status>((message, (room, unread)))
            }
        })
        .map(move |entered| {
            let work = entered.map(|(message, room)| (answer(message), room));
            async move {
                let (answer, room) = work?;
                // An answer that waits for its turn, or for a reader, still takes up its room.
                Ok::<_, Status>((answer.await?, room))
            }
        })
        .buffered(MESSAGES)
        .map(|answered| answered.map(|(answer, _)| answer))
        .scan(false, |failed, answer: Result<_, Status>| {
            let ended = *failed;
            *failed |= answer.is_err();
            ready((!ended).then_some(answer))
        })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Poll;

    use futures_util::{FutureExt, poll};

    use super::*;

    fn enters(window: &Window, bytes: usize) -> Option<OwnedSemaphorePermit> {
        window.enter(bytes).now_or_never().map(Result::unwrap)
    }

    #[test]
    fn bytes_under_way_are_bounded_and_the_largest_message_goes_alone() {
        let window = Window::default();
        let mut under_way: Vec<_> =
            (0..MESSAGES).map(|_| enters(&window, 67_000).unwrap()).collect();
        assert!(enters(&window, 13 << 20).is_some(), "there is room for 13 MiB");
        assert!(enters(&window, 14 << 20).is_none());
        under_way.clear();
        let alone = enters(&window, MAX_MESSAGE_BYTES).unwrap();
        assert!(enters(&window, 0).is_none());
        drop(alone);
        assert!(enters(&window, usize::MAX).is_some());
    }

    /// Every answer but the first is there at once, and waits for its turn behind it. Outside of a
    /// runtime, so that no budget of tasks ends a poll.
    #[test]
    fn an_answer_that_waits_for_its_turn_keeps_its_room() {
        for (bytes, at_once) in
            [(0, MESSAGES), (67_000, MESSAGES), ((1 << 20) - 1, 16), (MAX_MESSAGE_BYTES, 1)]
        {
            let begun = Cell::new(0);
            let (release, first) = tokio::sync::oneshot::channel();
            let first = Cell::new(Some(first));
            let messages = futures_util::stream::iter((0..1000).map(|_| Ok(bytes)));
            let mut stream = std::pin::pin!(answers(
                messages,
                |bytes| *bytes,
                None,
                |_| {
                    let (turn, wait) = (begun.replace(begun.get() + 1), first.take());
                    async move {
                        if let Some(wait) = wait {
                            wait.await.map_err(|_| Status::cancelled("as a test"))?;
                        }
                        Ok(turn)
                    }
                }
            ));
            for _ in 0..100 {
                assert!(stream.next().now_or_never().is_none());
            }
            assert_eq!(begun.get(), at_once, "{bytes} bytes");
            release.send(()).unwrap();
            for taken in 0..100 {
                assert_eq!(
                    stream.next().now_or_never().unwrap().unwrap().unwrap(),
                    taken,
                    "in order"
                );
                // Each answer that is taken lets one more message in.
                assert!(
                    begun.get() <= taken + at_once,
                    "{bytes} bytes: {} have begun, {taken} are taken",
                    begun.get()
                );
            }
        }
    }

    #[tokio::test]
    async fn the_first_error_is_the_last_item() {
        let refused = || Status::invalid_argument("as a test");
        let of_answer = answers(
            tokio_stream::iter((0..9).map(Ok)),
            |_| 0,
            None,
            |m| ready(if m == 4 { Err(refused()) } else { Ok(m) }),
        );
        let of_message = answers(
            tokio_stream::iter((0..9).map(|m| if m == 4 { Err(refused()) } else { Ok(m) })),
            |_| 0,
            None,
            |m| ready(Ok(m)),
        );
        for items in [of_answer.collect::<Vec<_>>().await, of_message.collect().await] {
            assert_eq!(items.len(), 5);
            assert!(items[..4].iter().enumerate().all(|(i, item)| *item.as_ref().unwrap() == i));
            assert_eq!(items[4].as_ref().unwrap_err().message(), "as a test");
        }
    }

    /// A message in the middle that takes long holds up the answers after it, not their work.
    #[tokio::test]
    async fn a_slow_answer_keeps_its_place() {
        let (release, wait) = tokio::sync::oneshot::channel::<()>();
        let (wait, begun) = (Cell::new(Some(wait)), Cell::new(0));
        let mut stream = std::pin::pin!(answers(
            tokio_stream::iter((0..9).map(Ok)),
            |_| 0,
            None,
            |m| {
                begun.set(begun.get() + 1);
                let wait = if m == 1 { wait.take() } else { None };
                async move {
                    if let Some(wait) = wait {
                        let _ = wait.await;
                    }
                    Ok(m)
                }
            }
        ));
        assert_eq!(stream.next().await.unwrap().unwrap(), 0);
        assert!(matches!(poll!(stream.next()), Poll::Pending));
        assert_eq!(begun.get(), 9);
        release.send(()).unwrap();
        let rest: Vec<i32> = stream.map(Result::unwrap).collect().await;
        assert_eq!(rest, (1..9).collect::<Vec<_>>());
    }
}
