//! What of one bulk stream is under way at once: so many messages, and so many bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vfl_shared::rpc::{Refusal, pb};

/// Messages of one stream under way at once.
pub(crate) const MESSAGES: usize = 32;
/// Their bytes, in KiB: twice the room of [`MESSAGES`] messages of 1024 records and 6 classes.
const KIB: u32 = 4096;

/// The bytes of one stream that are under way.
#[derive(Clone)]
pub(crate) struct Window(Arc<Semaphore>);

impl Default for Window {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(KIB as usize)))
    }
}

impl Window {
    /// Waits until there is room for a message; one that is larger than all of the room goes alone. The room is taken until what is
    /// returned is dropped.
    ///
    /// # Errors
    /// Never: the window is not closed.
    pub(crate) async fn enter(&self, message: &pb::PredictRequest) -> Result<OwnedSemaphorePermit, Refusal> {
        let ids = message.ids.as_ref().map_or(0, |ids| ids.text().len() + 4 * ids.len());
        let bytes = ids + message.logit_shares.as_ref().map_or(0, |shares| shares.values.len());
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(KIB).min(KIB);
        self.0.clone().acquire_many_owned(kib).await.map_err(|_| Refusal::internal("the stream's window is closed"))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn message(bytes: usize) -> pb::PredictRequest {
        let shares = pb::Matrix { rows: 0, columns: 0, values: vec![0; bytes].into() };
        pb::PredictRequest { logit_shares: Some(shares), ..Default::default() }
    }

    fn enters(window: &Window, bytes: usize) -> Option<OwnedSemaphorePermit> {
        window.enter(&message(bytes)).now_or_never().map(Result::unwrap)
    }

    #[test]
    fn bytes_under_way_are_bounded_and_a_larger_message_goes_alone() {
        let window = Window::default();
        let mut under_way: Vec<_> = (0..MESSAGES).map(|_| enters(&window, 67_000).unwrap()).collect();
        assert!(enters(&window, 1 << 20).is_some(), "there is room for a MiB");
        assert!(enters(&window, 3 << 20).is_none());
        assert!(enters(&window, 16 << 20).is_none());
        under_way.clear();
        let alone = enters(&window, 16 << 20).unwrap();
        assert!(enters(&window, 0).is_none());
        drop(alone);
        assert!(enters(&window, 16 << 20).is_some());
    }
}
