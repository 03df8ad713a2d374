//! Dates in the formats that APIs use.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Converts `Sun, 30 Aug 2015 12:36:00 GMT` (RFC 9110 5.6.7) to a time stamp.
pub(super) fn stamp_of_http_date(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let [weekday, day, month, year, time, "GMT" | "UTC" | "+0000" | "-0000"] = words.as_slice() else { return None };
    let number = |text: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let weekday = weekday.len() == 4 && weekday.ends_with(',');
    let parts: Vec<&str> = time.split(':').collect();
    let fits = weekday
        && number(day, 1..=2)
        && number(year, 4..=4)
        && parts.len() == 3
        && parts.iter().all(|part| number(part, 2..=2));
    let month = MONTHS.iter().position(|name| name == month)? + 1;
    fits.then(|| format!("{year}{month:02}{day:0>2}T{}Z", parts.concat()))
}

/// The seconds since 1970 of `YYYYMMDDTHHMMSSZ`; `None` for another format. Days and hours that are out of range
/// overflow into the next month or day.
pub(super) fn seconds(stamp: &str) -> Option<i64> {
    let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if date.len() != 8 || time.len() != 6 || !digits(date) || !digits(time) {
        return None;
    }
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (part(date, 0..4)?, part(date, 4..6)?, part(date, 6..8)?);
    let month = month.checked_sub(1).filter(|month| *month >= 0)?;
    // Days of the civil calendar, with years that begin in March.
    let (year, month) = (year + month / 12, month % 12 + 1);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era_year = year.rem_euclid(400);
    let day_of_era = era_year * 365 + era_year / 4 - era_year / 100 + (month * 153 + 2) / 5 + day - 1;
    let days = year.div_euclid(400) * 146_097 + day_of_era - 719_468;
    Some(days * 86_400 + part(time, 0..2)? * 3600 + part(time, 2..4)? * 60 + part(time, 4..6)?)
}

pub(super) fn since_1970(time: SystemTime) -> i64 {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |after| after.as_secs());
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
