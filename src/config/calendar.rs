//! `schedule`: calendar expressions of systemd (systemd.time(7)), and what other words for a time mean in that form.
//!
//! The parser accepts what systemd 252 accepts, but does not know which time zones exist. `validate` also asks
//! `systemd-analyze`, where it is installed.

use super::read::{quoted, shorten};
use super::suggest::nearest;
use super::value::Bad;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Located;

mod meant;

/// Words that are complete expressions.
const WORDS: [&str; 12] = [
    "annually",
    "bi-annually",
    "biannually",
    "daily",
    "hourly",
    "minutely",
    "monthly",
    "quarterly",
    "semi-annually",
    "semiannually",
    "weekly",
    "yearly",
];

const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Longer than any expression that a person writes.
const LONGEST: usize = 128;

/// Checks an `OnCalendar=` expression.
pub(super) fn calendar(text: &str) -> Result<(), Bad> {
    match is_calendar(text) {
        true => Ok(()),
        false => Err(refused(text)),
    }
}

/// The finding for an expression that systemd does not accept.
pub(super) fn refused(text: &str) -> Bad {
    let message = format!("`{}` is not a calendar expression of systemd", shorten(text));
    let help = match meant::meant(text).or_else(|| nearest(text, WORDS).map(str::to_owned)) {
        Some(meant) => format!("write `{}`", quoted(&meant)),
        None => "write e.g. `daily`, `\"Mon..Fri 03:00\"` or `\"*-*-* 04:30:00 Europe/Berlin\"`; see systemd.time(7)"
            .to_owned(),
    };
    Bad::new(message, help)
}

/// The finding for the schedule in force, which systemd itself refuses.
pub fn refused_schedule(schedule: &Located<String>) -> Diagnostic {
    let bad = refused(&schedule.value);
    Diagnostic::new(Code::BadValue, bad.message).at(schedule.span, "").help(bad.help)
}

/// Whether systemd accepts it, if its time zone exists.
fn is_calendar(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" ,.:*/~_+-@".contains(&b);
    if text.len() > LONGEST || text.is_empty() || text.trim() != text || !text.bytes().all(plain) {
        return false;
    }
    let without = text.rsplit_once(' ').filter(|(_, zone)| is_zone(zone)).map(|(rest, _)| rest);
    is_moment(text) || without.is_some_and(is_moment)
}

/// Whether a word may name a time zone, as in `Europe/Berlin`, `UTC` or `Etc/GMT+1`.
fn is_zone(word: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "/_+-".contains(c);
    let upper = word.starts_with(|c: char| c.is_ascii_uppercase()) || word.eq_ignore_ascii_case("utc");
    upper && day(word).is_none() && word.len() > 1 && word.chars().all(inner)
}

fn is_moment(text: &str) -> bool {
    if WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return true;
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return (1..=15).contains(&seconds.len()) && seconds.bytes().all(|b| b.is_ascii_digit());
    }
    let Some(rest) = weekdays(text) else { return false };
    match rest.split_once(' ') {
        Some((date, time)) => is_date(date) && is_time(time.trim_start()),
        None => rest.is_empty() && !text.is_empty() || is_date(rest) || is_time(rest),
    }
}

/// What follows the days of the week; `None` if they are wrong. Without days, that is the whole text.
fn weekdays(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if !first.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some(text);
    }
    let list = first.strip_suffix(',').unwrap_or(first);
    list.split(',').all(is_range_of_days).then(|| rest.trim_start())
}

fn is_range_of_days(text: &str) -> bool {
    match text.split_once("..").or_else(|| text.split_once('-')) {
        Some((from, to)) => matches!((day(from), day(to)), (Some(from), Some(to)) if from <= to),
        None => day(text).is_some(),
    }
}

/// The number of a day, 0 for Monday.
fn day(text: &str) -> Option<usize> {
    DAYS.iter().position(|day| day.eq_ignore_ascii_case(text) || day[..3].eq_ignore_ascii_case(text))
}

fn is_date(text: &str) -> bool {
    let Some((front, day)) = text.rsplit_once(['-', '~']) else { return false };
    let from_end = text.as_bytes().get(front.len()) == Some(&b'~');
    let is_day = is_list(day, if from_end { DAY_FROM_END } else { DAY });
    let is_front = match front.split_once('-') {
        Some((year, month)) => is_list(year, YEAR) && is_list(month, MONTH),
        None => is_list(front, MONTH),
    };
    is_day && is_front
}

fn is_time(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [hour, minute] => is_list(hour, HOUR) && is_list(minute, MINUTE),
        [hour, minute, second] => is_list(hour, HOUR) && is_list(minute, MINUTE) && is_list(second, SECOND),
        _ => false,
    }
}

/// The values that a part may have, in millionths.
#[derive(Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
    /// What it counts, if that makes a difference.
    kind: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Two digits are years around 2000.
    Year,
    /// Counted from the end of the month.
    DayFromEnd,
    /// May have a fraction.
    Second,
    Other,
}

const ONE: u64 = 1_000_000;

const fn bounds(least: u64, most: u64, kind: Part) -> Bounds {
    Bounds { least: least * ONE, most: most * ONE, kind }
}

const YEAR: Bounds = bounds(1970, 2199, Part::Year);
const MONTH: Bounds = bounds(1, 12, Part::Other);
const DAY: Bounds = bounds(1, 31, Part::Other);
// The 28th last day exists in every month.
const DAY_FROM_END: Bounds = bounds(1, 28, Part::DayFromEnd);
const HOUR: Bounds = bounds(0, 23, Part::Other);
const MINUTE: Bounds = bounds(0, 59, Part::Other);
const SECOND: Bounds = Bounds { least: 0, most: 60 * ONE - 1, kind: Part::Second };

/// `*`, or a list of `1`, `1..5`, `0/15` and `1..31/2`.
fn is_list(text: &str, bounds: Bounds) -> bool {
    text == "*" || text.split(',').all(|item| is_item(item, bounds))
}

fn is_item(text: &str, bounds: Bounds) -> bool {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => match number(step, bounds.kind) {
            Some(step) if step > 0 && step <= bounds.most - bounds.least => (range, Some(step)),
            _ => return false,
        },
        None => (text, None),
    };
    let value = |text: &str| {
        let value =
            number(text, bounds.kind).map(|value| if bounds.kind == Part::Year { full_year(value) } else { value });
        value.filter(|value| (bounds.least..=bounds.most).contains(value))
    };
    match (range.split_once(".."), step) {
        (Some((start, end)), _) => matches!((value(start), value(end)), (Some(start), Some(end)) if start <= end),
        (None, None) => value(range).is_some(),
        // One more step must be possible.
        (None, Some(step)) => value(range).is_some_and(|start| match bounds.kind {
            Part::DayFromEnd => start >= bounds.least + step,
            _ => start + step <= bounds.most,
        }),
    }
}

/// Years of two digits are those around 2000.
fn full_year(year: u64) -> u64 {
    match year / ONE {
        0..=69 => year + 2000 * ONE,
        70..=99 => year + 1900 * ONE,
        _ => year,
    }
}

/// A number in millionths.
fn number(text: &str, kind: Part) -> Option<u64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if kind == Part::Second => (whole, fraction),
        Some(_) => return None,
        None => (text, "0"),
    };
    let digits = |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole, 9) || !digits(fraction, 6) {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * ONE + format!("{fraction:0<6}").parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests;
