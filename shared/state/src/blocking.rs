//! Blocking work on the threads of the runtime: short work runs in place, long work must not delay
//! the other calls.

use tokio::runtime::{Handle, RuntimeFlavor};

/// The number of multiplications from which work counts as long: about a millisecond.
const LONG: u64 = 5_000_000;

/// Runs work of about this many multiplications. During long work, the runtime's other tasks
/// continue, if the runtime has more than one thread.
pub fn heavy<T>(multiplications: u64, work: impl FnOnce() -> T) -> T {
    if multiplications >= LONG { waiting(work) } else { work() }
}

/// Runs work that takes long or blocks. The runtime's other tasks continue meanwhile, if the
/// runtime has more than one thread.
pub fn waiting<T>(work: impl FnOnce() -> T) -> T {
    let several = Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if several { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One worker that is held by work for as long as a second task needs to run: without a way
    /// round, neither would end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_beside_long_work() {
        let (ran, waits) = std::sync::mpsc::channel();
        let long = tokio::spawn(async move {
            tokio::spawn(async move { ran.send(7).unwrap() });
            heavy(LONG, || waits.recv().unwrap())
        });
        assert_eq!(long.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_in_place() {
        assert_eq!(heavy(u64::MAX, || 3), 3);
        assert_eq!(std::thread::spawn(|| heavy(u64::MAX, || 4)).join().unwrap(), 4);
    }
}
