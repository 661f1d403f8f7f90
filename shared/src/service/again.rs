//! Calls that may be made twice are made again, once, when they had no answer: at another process of the peer, if there is one.

use std::time::Duration;

use tonic::Status;

use crate::rpc::{broken, is_worth_again};

/// Bounds of the pause before a call is made again, in milliseconds. At random, so that the callers of a process that is gone do not
/// all come to the next one at once.
const PAUSE_MS: std::ops::Range<u64> = 20..120;

/// How often a question is asked at most. A process that stops may refuse it, and take with it the connection on which it is asked again.
pub const MOST_CALLS: u32 = 3;

/// Makes a call, and once more if the connection breaks. For calls that do no harm when they are made twice.
///
/// # Errors
/// What the second call, or the only one, came to.
pub async fn twice<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    match call().await {
        Err(status) if broken(&status) => {
            pause().await;
            call().await
        }
        done => done,
    }
}

/// Makes a call until it is answered, [`MOST_CALLS`] times at most. For calls that do no harm however often they are made.
///
/// # Errors
/// What the last call came to.
pub async fn until_answered<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    for _ in 1..MOST_CALLS {
        match call().await {
            Err(status) if unanswered(&status) => pause().await,
            done => return done,
        }
    }
    call().await
}

/// Whether a call had no answer, and may have one if it is made again: the connection broke, or the peer says so
/// ([`Refusal::worth_again`](crate::rpc::Refusal::worth_again)).
#[must_use]
pub fn unanswered(status: &Status) -> bool {
    broken(status) || is_worth_again(status)
}

/// The pause before a call is made again.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MS))).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::rpc::Refusal;

    #[tokio::test(start_paused = true)]
    async fn only_what_broke_is_made_again_and_only_once() {
        let lost = || Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        for (answers, made) in [
            (vec![Ok(1)], 1),
            (vec![Err(lost()), Ok(1)], 2),
            (vec![Err(lost()), Err(lost()), Ok(1)], 2),
            (vec![Err(Status::unavailable("said so")), Ok(1)], 1),
            (vec![Err(Status::deadline_exceeded("late")), Ok(1)], 1),
        ] {
            let calls = AtomicU32::new(0);
            let answer = twice(|| {
                let at = calls.fetch_add(1, Ordering::Relaxed) as usize;
                std::future::ready(answers[at].clone())
            });
            let answer = answer.await;
            assert_eq!(calls.into_inner(), made);
            assert_eq!(answer.is_ok(), answers[made as usize - 1].is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_until_it_is_answered_asks_three_times_at_most() {
        let lost = || Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        let stopping = || Status::from(Refusal::unavailable("the coordinator is stopping").worth_again());
        for (answers, made) in [
            (vec![Ok(1)], 1),
            (vec![Err(stopping()), Ok(1)], 2),
            (vec![Err(stopping()), Err(lost()), Ok(1)], 3),
            (vec![Err(lost()), Err(stopping()), Err(stopping()), Ok(1)], 3),
            // Of a party behind the peer, which another process of the peer would not reach either.
            (vec![Err(Status::unavailable("passive party `p` is not reachable")), Ok(1)], 1),
            (vec![Err(Status::deadline_exceeded("late")), Ok(1)], 1),
        ] {
            let calls = AtomicU32::new(0);
            let answer = until_answered(|| {
                let at = calls.fetch_add(1, Ordering::Relaxed) as usize;
                std::future::ready(answers[at].clone())
            });
            let answer = answer.await;
            assert_eq!(calls.into_inner(), made);
            assert_eq!(answer.is_ok(), answers[made as usize - 1].is_ok());
        }
    }
}
