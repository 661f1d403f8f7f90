//! Work beside the task that waits for it.

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::rpc::Refusal;

/// Does the work on a task of its own, which ends when nobody waits for it any more. The answers of a stream are one task otherwise, and
/// so one core.
///
/// # Errors
/// INTERNAL if the work panicked.
pub async fn own_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, Refusal> {
    let task = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    task.await.map_err(|_| Refusal::internal("an answer of a stream panicked"))
}

/// Does work that waits for the disk, or computes for long, on a thread of its own. `what` names it, as "publishing".
///
/// # Errors
/// That of the work; INTERNAL with its name if it panicked.
pub async fn off_thread<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal(format!("{what} failed")))?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_ends_with_whoever_waits_for_it() {
        let held = Arc::new(());
        let mine = held.clone();
        let waiting = own_task(async move {
            let _mine = mine;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
        for _ in 0..100 {
            if Arc::strong_count(&held) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the work goes on");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_work_alone() {
        assert_eq!(own_task(async { 7 }).await.ok(), Some(7));
        let panicked = own_task(async { panic!("as a test") }).await;
        assert!(panicked.map(|(): ()| ()).unwrap_err().to_string().contains("panicked"));
    }
}
