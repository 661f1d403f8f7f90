//! Many independent pieces of work on all cores, with results in order and exact processor times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::ReproduceError;

/// Runs the pieces 0 … `count` − 1 on `threads` threads, and passes each result to `take` in that
/// order, on the calling thread, as soon as it and all before it are finished. The calls of `take`
/// do not depend on `threads`.
///
/// Every thread runs its work in its own pool of one thread. An attack that is parallel inside
/// stays on that thread, so that [`cpu_time`] measured around it counts all of it and nothing else.
///
/// # Errors
/// The error of the first piece that failed, in order; pieces that have not started are skipped.
pub(super) fn in_order<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, ReproduceError> + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), ReproduceError>,
) -> Result<(), ReproduceError> {
    let threads = threads.clamp(1, count.max(1));
    let pools = (0..threads).map(|_| rayon::ThreadPoolBuilder::new().num_threads(1).build());
    let pools =
        pools.collect::<Result<Vec<_>, _>>().map_err(|e| ReproduceError::Threads(e.to_string()))?;
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for pool in &pools {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                pool.install(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let piece = next.fetch_add(1, Ordering::Relaxed);
                        if piece >= count || sender.send((piece, work(piece))).is_err() {
                            break;
                        }
                    }
                });
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let mut result = Ok(());
        for (piece, done) in receiver {
            early.insert(piece, done);
            while let Some(done) = early.remove(&due) {
                result = done.and_then(|done| take(due, done));
                if result.is_err() {
                    // The receiver is dropped with this return, so the workers have no reason to go
                    // on.
                    stop.store(true, Ordering::Relaxed);
                    return result;
                }
                due += 1;
            }
        }
        result
    })
}

/// Returns the processor time that this thread has used.
#[cfg(unix)]
pub(super) fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(t.tv_sec).unwrap_or_default(),
        u32::try_from(t.tv_nsec).unwrap_or_default(),
    )
}

/// Returns the time since the first call: the closest to processor time on this system.
#[cfg(not(unix))]
pub(super) fn cpu_time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    // These threads are not runtime workers, so they may sleep.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use rayon::prelude::*;

    use super::*;

    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        for threads in [1, 2, 7, 100] {
            let mut seen = Vec::new();
            let work = |i: usize| {
                // Later pieces end first.
                std::thread::sleep(Duration::from_millis(3 * (20 - i as u64) / 10));
                assert_eq!(rayon::current_num_threads(), 1);
                Ok((0..i).into_par_iter().sum::<usize>())
            };
            let take = |i, sum| {
                seen.push((i, sum));
                Ok(())
            };
            in_order(threads, 20, work, take).unwrap();
            assert_eq!(seen, (0..20).map(|i| (i, (0..i).sum())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_in_order_is_told() {
        let work =
            |i: usize| if i % 7 == 3 { Err(ReproduceError::Threads(i.to_string())) } else { Ok(i) };
        let mut seen = Vec::new();
        let error = in_order(3, 1000, work, |_, i| {
            seen.push(i);
            Ok(())
        });
        assert_eq!(error.unwrap_err().to_string(), ReproduceError::Threads("3".into()).to_string());
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn the_clock_counts_work_and_not_sleep() {
        let start = cpu_time();
        std::thread::sleep(Duration::from_millis(80));
        let slept = cpu_time() - start;
        let mut x = 1.0f64;
        while cpu_time() - start < Duration::from_millis(5) + slept {
            x = (x + 1.0).sqrt();
        }
        assert!(x > 1.0);
        #[cfg(unix)]
        assert!(slept < Duration::from_millis(40), "{slept:?}");
    }
}
