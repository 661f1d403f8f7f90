//! What of one bulk stream is under way at once: so many messages, and so many bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal};

/// Messages of one stream under way at once.
pub(crate) const MESSAGES: usize = 32;
/// Their bytes as they were sent, in KiB: those of the largest message. [`MESSAGES`] of 1024 records and 6 classes have 2 MiB.
const KIB: u32 = (MAX_MESSAGE_BYTES / 1024) as u32;

/// The bytes of one stream that are under way.
#[derive(Clone)]
pub(crate) struct Window(Arc<Semaphore>);

impl Default for Window {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(KIB as usize)))
    }
}

impl Window {
    /// Waits until there is room for a message of so many bytes. The room is taken until what is returned is dropped.
    ///
    /// # Errors
    /// Never: the window is not closed.
    pub(crate) async fn enter(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(KIB).min(KIB);
        self.0.clone().acquire_many_owned(kib).await.map_err(|_| Refusal::internal("the stream's window is closed"))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn enters(window: &Window, bytes: usize) -> Option<OwnedSemaphorePermit> {
        window.enter(bytes).now_or_never().map(Result::unwrap)
    }

    #[test]
    fn bytes_under_way_are_bounded_and_the_largest_message_goes_alone() {
        let window = Window::default();
        let mut under_way: Vec<_> = (0..MESSAGES).map(|_| enters(&window, 67_000).unwrap()).collect();
        assert!(enters(&window, 13 << 20).is_some(), "there is room for 13 MiB");
        assert!(enters(&window, 14 << 20).is_none());
        under_way.clear();
        let alone = enters(&window, MAX_MESSAGE_BYTES).unwrap();
        assert!(enters(&window, 0).is_none());
        drop(alone);
        assert!(enters(&window, usize::MAX).is_some());
    }
}
