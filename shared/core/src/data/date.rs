//! Calendar days as numbers: days since 1970-01-01.

/// The days from 0000-03-01 to 1970-01-01. Years that begin in March end with the leap day.
const EPOCH: i32 = 719_468;
/// The days of 400 years, after which the calendar repeats.
const CYCLE: i32 = 146_097;

/// Returns the days since 1970-01-01 of a date, `2024-02-29`. A time of day behind it, after a
/// blank or `T`, does not count. `None` if the text is no date.
#[must_use]
pub fn days(text: &str) -> Option<i32> {
    let text = text.trim();
    let date = match text.split_once(['T', ' ']) {
        Some((date, time)) if time.trim_start().starts_with(|c: char| c.is_ascii_digit()) => date,
        Some(_) => return None,
        None => text,
    };
    let mut parts = date.split('-');
    let mut digits = |count: usize| {
        let part = parts.next().filter(|part| part.len() == count)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i32>().ok())?
    };
    let (year, month, day) = (digits(4)?, digits(2)?, digits(2)?);
    if parts.next().is_some() {
        return None;
    }
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
    let days = cycle * CYCLE + 365 * year + year / 4 - year / 100 + before(month) + day - 1 - EPOCH;
    // A day past the end of its month is another date.
    (date_text(days)? == date).then_some(days)
}

/// Returns the days of a year that begins in March before a month, 0 for March: the months have 31,
/// 30, 31, 30, 31 days again and again.
fn before(month: i32) -> i32 {
    (153 * month + 2) / 5
}

/// Formats days since 1970-01-01 as `2024-02-29`; `None` beyond the years 0 to 9999.
#[must_use]
pub fn date_text(days: i32) -> Option<String> {
    let days = days.checked_add(EPOCH)?;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    // The leap days before it: one in 4 years but for one in 100, and one in 400.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - before(month) + 1;
    let (year, month) = match 400 * cycle + year {
        year if month < 10 => (year, month + 3),
        year => (year + 1, month - 9),
    };
    (0..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Formats a day of a schema, which is one of the calendar.
pub(super) fn day(days: f64) -> String {
    date_text(days as i32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates_are_days_since_1970() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2024-03-01", 19_783),
            (" 2024-03-01 23:59:59", 19_783),
            ("2024-03-01T00:00:00Z", 19_783),
        ] {
            assert_eq!(days(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2023-02-29",
            "2024-13-01",
            "2024-1-01",
            "24-01-01",
            "2024-01-01-02",
            "2024-01-01 x",
            "01/02/2024",
            "2024-01-0１",
            "+024-01-01",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
        // The calendar of another hand, every day of four centuries and the ends.
        for day in (-719_528..-719_000).chain(-40_000..110_000).chain(2_932_000..2_932_897) {
            let other = time::Date::from_julian_day(day + 2_440_588).unwrap();
            let (year, month) = (other.year(), u8::from(other.month()));
            let text = format!("{year:04}-{month:02}-{:02}", other.day());
            assert_eq!(date_text(day).as_ref(), Some(&text));
            assert_eq!(days(&text), Some(day));
        }
        assert_eq!((date_text(-719_529), date_text(2_932_897)), (None, None));
        assert_eq!(date_text(i32::MAX), None);
    }
}
