//! Repetition of calls without an answer, at another process of the peer if there is one. Only for
//! calls that may be made twice.

use std::time::Duration;

use tonic::Status;
use vfl_protocol::{broken, is_worth_again};

/// The bounds of the pause before a call is repeated, in milliseconds. The pause is random, so that
/// the callers of a lost process do not all reach the next one at once.
const PAUSE_MS: std::ops::Range<u64> = 20..120;

/// The maximum number of times that a question is asked. A stopping process may refuse it, and
/// close the connection on which it is asked again.
pub const MOST_CALLS: u32 = 3;

/// Makes a call, and repeats it once if the connection breaks. For calls that do no harm when they
/// are made twice.
///
/// # Errors
/// The error of the second call, or of the only one.
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

/// Makes a call until it is answered, [`MOST_CALLS`] times at most. For calls that do no harm when
/// they are repeated.
///
/// # Errors
/// The error of the last call.
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

/// Returns true if a call had no answer and may have one if it is repeated: the connection broke,
/// or the peer marks it so ([`Refusal::worth_again`](vfl_protocol::Refusal::worth_again)).
#[must_use]
pub fn unanswered(status: &Status) -> bool {
    broken(status) || is_worth_again(status)
}

/// Waits before a call is repeated.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MS))).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use vfl_protocol::Refusal;

    #[tokio::test(start_paused = true)]
    async fn only_what_broke_is_made_again_and_only_once() {
        let lost = || {
            Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
        };
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
        let lost = || {
            Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
        };
        let stopping =
            || Status::from(Refusal::unavailable("the coordinator is stopping").worth_again());
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
