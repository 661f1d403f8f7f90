//! Times of the wall clock, for files and for display.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::data::date_text;

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
    let date = i32::try_from(days).ok().and_then(date_text).unwrap_or_else(|| "after 9999".into());
    format!("{date} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}
