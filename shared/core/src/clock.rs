//! Times of the wall clock, for files and for display.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the whole seconds since 1970 by this machine's clock; 0 before.
#[must_use]
pub fn now() -> i64 {
    seconds(SystemTime::now())
}

/// Returns the whole seconds since 1970 at a time, 0 before.
#[must_use]
pub fn seconds(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// Formats seconds since 1970 as `2026-11-21 20:37:46`, in UTC and the Gregorian calendar.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut day) = (1970, days % 146_097);
    // The calendar repeats every 400 years.
    let cycles = days / 146_097;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let year = year + 400 * cycles;
    format!(
        "{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}",
        day + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}
