//! The limit of rows per minute: a token bucket per active party.
//!
//! The bucket lives in memory, but for a shared ledger, where it is a row of the table `rates` and
//! its clock the database's. A rate bounds how fast budgets are spent, not what is disclosed in
//! all; a restart refills the bucket once, by at most one minute's rows, and refusals then cost no
//! write. Its time is the process's own, which nobody sets: a wall clock that is set back and
//! forward again would credit the same minutes twice. (A bucket never goes back, so a database's
//! clock that is set back stops it until the old time is reached again.)

use std::time::Duration;

/// The cost of a row in tokens: a bucket gains its rate, in rows per minute, every nanosecond, so
/// that all sums are exact.
const ROW: u128 = 60_000_000_000;

/// The tokens of one party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    tokens: u128,
    filled_at: Duration,
}

impl Bucket {
    /// Creates a full bucket: one minute's rows. `now` is a time of the process, since any moment.
    pub(crate) fn full(per_minute: u64, now: Duration) -> Self {
        Self { tokens: u128::from(per_minute) * ROW, filled_at: now }
    }

    /// Returns the tokens and the time when there were so many, for the table of a shared ledger.
    pub(crate) fn parts(&self) -> (u128, Duration) {
        (self.tokens, self.filled_at)
    }

    /// Creates a bucket from its [`Bucket::parts`].
    pub(crate) fn of((tokens, filled_at): (u128, Duration)) -> Self {
        Self { tokens, filled_at }
    }

    /// Takes the tokens of `rows`, or takes none and returns the wait until there are enough;
    /// `None` if there never will be.
    pub(crate) fn take(
        &mut self,
        per_minute: u64,
        rows: u64,
        now: Duration,
    ) -> Result<(), Option<Duration>> {
        let rate = u128::from(per_minute);
        // Requests are decided in the order of their arrival, which need not be that of their
        // times.
        if let Some(passed) = now.checked_sub(self.filled_at) {
            self.tokens =
                self.tokens.saturating_add(passed.as_nanos().saturating_mul(rate)).min(rate * ROW);
            self.filled_at = now;
        }
        let cost = u128::from(rows) * ROW;
        if rows > per_minute {
            return Err(None);
        }
        match self.tokens.checked_sub(cost) {
            Some(left) => self.tokens = left,
            None => {
                let wait = (cost - self.tokens).div_ceil(rate);
                return Err(Some(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_refills_evenly_and_never_overflows() {
        let start = Duration::from_secs(1_000);
        let mut bucket = Bucket::full(60, start);
        assert_eq!(bucket.take(60, 61, start), Err(None));
        assert_eq!(bucket.take(60, 50, start), Ok(()));
        assert_eq!(bucket.take(60, 20, start), Err(Some(Duration::from_secs(10))));
        let later = start + Duration::from_secs(10);
        assert_eq!(bucket.take(60, 20, later), Ok(()));
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(bucket.take(60, 60, much_later), Ok(()));
        assert_eq!(bucket.take(60, 1, much_later), Err(Some(Duration::from_secs(1))));
    }

    #[test]
    fn no_time_is_credited_twice() {
        let start = Duration::from_secs(1_000);
        let mut bucket = Bucket::full(60, start);
        bucket.take(60, 60, start + Duration::from_secs(30)).unwrap();
        // A request from before comes late; the one after it finds no new tokens.
        assert_eq!(bucket.take(60, 1, start), Err(Some(Duration::from_secs(1))));
        assert_eq!(
            bucket.take(60, 1, start + Duration::from_secs(30)),
            Err(Some(Duration::from_secs(1)))
        );
    }
}
