//! Rows per minute: a token bucket per active party.
//!
//! It lives in memory. A rate bounds how fast budgets can go, not what is disclosed in all; a restart refills it once, at
//! most one minute's rows, and refusals then cost no write.

use std::time::{Duration, SystemTime};

/// What a row costs: a bucket gains its rate, in rows per minute, every nanosecond, so that all sums are exact.
const ROW: u128 = 60_000_000_000;

/// The tokens of one party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    tokens: u128,
    filled_at: SystemTime,
}

impl Bucket {
    /// Full: one minute's rows.
    pub(crate) fn full(per_minute: u64, now: SystemTime) -> Self {
        Self { tokens: u128::from(per_minute) * ROW, filled_at: now }
    }

    /// Takes the tokens of `rows`, or none at all and says how long until there are enough; `None` if there never will be.
    pub(crate) fn take(&mut self, per_minute: u64, rows: u64, now: SystemTime) -> Result<(), Option<Duration>> {
        let rate = u128::from(per_minute);
        // A clock that was set back gives nothing; one that was set forward gives at most one full bucket.
        if let Ok(passed) = now.duration_since(self.filled_at) {
            self.tokens = self.tokens.saturating_add(passed.as_nanos().saturating_mul(rate)).min(rate * ROW);
        }
        self.filled_at = now;
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
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let mut bucket = Bucket::full(60, start);
        assert_eq!(bucket.take(60, 61, start), Err(None));
        assert_eq!(bucket.take(60, 50, start), Ok(()));
        assert_eq!(bucket.take(60, 20, start), Err(Some(Duration::from_secs(10))));
        let later = start + Duration::from_secs(10);
        assert_eq!(bucket.take(60, 20, later), Ok(()));
        assert_eq!(bucket.take(60, 1, start), Err(Some(Duration::from_secs(1))), "the clock was set back");
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(bucket.take(60, 60, much_later), Ok(()));
        assert_eq!(bucket.take(60, 1, much_later), Err(Some(Duration::from_secs(1))));
    }
}
