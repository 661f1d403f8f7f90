//! Calendar days as numbers: days since 1970-01-01.

use time::{Date, Month};

/// The Julian day of 1970-01-01.
const EPOCH: i32 = 2_440_588;

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
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u16>().ok())?
    };
    let (year, month, day) = (digits(4)?, digits(2)?, digits(2)?);
    if parts.next().is_some() {
        return None;
    }
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year.into(), month, u8::try_from(day).ok()?).ok()?;
    Some(date.to_julian_day() - EPOCH)
}

/// Formats days since 1970-01-01 as `2024-02-29`; `None` beyond the years 0 to 9999.
#[must_use]
pub fn date_text(days: i32) -> Option<String> {
    let date = Date::from_julian_day(days.checked_add(EPOCH)?).ok()?;
    let year = u16::try_from(date.year()).ok()?;
    Some(format!("{year:04}-{:02}-{:02}", u8::from(date.month()), date.day()))
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
        for day in (-719_528..2_932_896).step_by(1009) {
            assert_eq!(days(&date_text(day).unwrap()), Some(day));
        }
        assert_eq!(date_text(i32::MAX), None);
        // The clock's own calendar is another one's code.
        let clock = crate::clock::utc(19_783 * 86_400);
        assert!(clock.starts_with(&date_text(19_783).unwrap()));
    }
}
