//! Work on tasks and threads of its own.

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use vfl_protocol::Refusal;

/// Runs work on a task of its own, which is aborted when its caller is dropped. Without it, the
/// answers of a stream would share one task, and so one core.
///
/// # Errors
/// INTERNAL if the work panicked.
pub async fn own_task<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Refusal> {
    let task = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    task.await.map_err(|_| Refusal::internal("an answer of a stream panicked"))
}

/// Runs blocking or long work on a thread of its own. `what` names it in errors, for example
/// "publishing".
///
/// # Errors
/// The error of the work; INTERNAL with its name if it panicked.
pub async fn off_thread<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Refusal::internal(format!("{what} failed")))?
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
