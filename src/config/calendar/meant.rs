//! What a schedule in another form means: cron's five fields, its `@daily`, and words such as `nightly`.

use super::{DAYS, is_calendar};

/// The expression that a text probably means.
pub(super) fn meant(text: &str) -> Option<String> {
    let lower = text.trim().to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let found = match words.as_slice() {
        [minute, hour, day, month, weekday] => cron([minute, hour, day, month, weekday]),
        _ => None,
    };
    found.or_else(|| in_words(&words)).filter(|meant| is_calendar(meant))
}

/// cron runs where the day of the month or the day of the week fits, systemd where both do. So there is no expression
/// for a line that restricts both.
fn cron([minute, hour, day, month, weekday]: [&str; 5]) -> Option<String> {
    let day_of_week = match weekday {
        "*" | "?" => String::new(),
        days => weekdays(days)? + " ",
    };
    let day = if day == "?" { "*" } else { day };
    if !day_of_week.is_empty() && day != "*" {
        return None;
    }
    let date = format!("*-{}-{}", field(&months(month), 1)?, field(day, 1)?);
    Some(format!("{day_of_week}{date} {}:{}:00", field(hour, 0)?, field(minute, 0)?))
}

/// A field of cron: `*/2` starts at the least value, and `1-5` is `1..5`.
fn field(text: &str, least: u8) -> Option<String> {
    let item = |item: &str| {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let range = match range {
            "*" if step.is_some() => least.to_string(),
            "*" => return Some("*".to_owned()),
            range => range.split('-').map(padded).collect::<Option<Vec<_>>>()?.join(".."),
        };
        // Every value in steps of one is every value.
        Some(match step {
            Some("1") if range == least.to_string() => "*".to_owned(),
            Some(step) => format!("{range}/{step}"),
            None => range,
        })
    };
    Some(text.split(',').map(item).collect::<Option<Vec<_>>>()?.join(","))
}

fn padded(number: &str) -> Option<String> {
    number.parse::<u8>().ok().map(|number| format!("{number:02}"))
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Month names as numbers.
fn months(text: &str) -> String {
    (1..).zip(MONTHS).fold(text.to_owned(), |text, (number, name)| text.replace(name, &format!("{number:02}")))
}

fn weekdays(text: &str) -> Option<String> {
    let name = |day: &str| match day.parse::<usize>() {
        // Sunday is 0 and 7.
        Ok(number @ 0..=7) => short(DAYS.get((number + 6) % 7)?),
        Ok(_) => None,
        Err(_) => DAYS.iter().find(|name| day.len() >= 3 && name.starts_with(day)).and_then(|name| short(name)),
    };
    let item = |item: &str| match item.split_once('-') {
        // In cron, a week may begin with Sunday.
        Some(("0" | "sun", "6" | "sat")) => Some("Mon..Sun".to_owned()),
        Some(("0" | "sun", to)) => Some(format!("Sun,Mon..{}", name(to)?)),
        Some((from, to)) => Some(format!("{}..{}", name(from)?, name(to)?)),
        None => name(item),
    };
    Some(text.split(',').map(item).collect::<Option<Vec<_>>>()?.join(","))
}

/// `Mon` for `monday`.
fn short(day: &str) -> Option<String> {
    let (first, rest) = day.get(..3)?.split_at_checked(1)?;
    Some(first.to_ascii_uppercase() + rest)
}

/// `nightly`, `@daily`, `every 15 minutes`, `every monday at 3am`, `daily 03:00`.
fn in_words(words: &[&str]) -> Option<String> {
    let words: Vec<&str> = words.iter().copied().filter(|word| !["at", "on"].contains(word)).collect();
    let words = match words.as_slice() {
        ["every" | "each", rest @ ..] => rest,
        all => all,
    };
    if let Some(found) = interval(words) {
        return Some(found);
    }
    let (days, time) = match words {
        [one] => (*one, None),
        [days, time] => (*days, Some(clock(time)?)),
        [days, time, half @ ("am" | "pm")] => (*days, Some(clock(&format!("{time}{half}"))?)),
        _ => return None,
    };
    let at = |default: &str| time.clone().unwrap_or_else(|| default.to_owned());
    let whole = |word: &str| time.is_none().then(|| word.to_owned());
    match days.trim_start_matches('@') {
        "nightly" | "night" | "overnight" => Some(format!("*-*-* {}", at("03:00:00"))),
        "morning" => Some(format!("*-*-* {}", at("06:00:00"))),
        "noon" | "midday" => Some(format!("*-*-* {}", at("12:00:00"))),
        "daily" | "day" | "everyday" | "midnight" => whole("daily").or(Some(format!("*-*-* {}", at("")))),
        "weekly" | "week" => whole("weekly").or(Some(format!("Mon *-*-* {}", at("")))),
        "monthly" | "month" => whole("monthly").or(Some(format!("*-*-01 {}", at("")))),
        "hourly" | "hour" => whole("hourly"),
        "minute" | "minutely" => whole("minutely"),
        "yearly" | "annually" | "year" => whole("yearly"),
        "weekday" | "weekdays" | "workdays" => Some(format!("Mon..Fri *-*-* {}", at("03:00:00"))),
        "weekend" | "weekends" => Some(format!("Sat,Sun *-*-* {}", at("03:00:00"))),
        other => match (clock(other), &time) {
            (Some(time), None) => Some(format!("*-*-* {time}")),
            _ => weekdays(other.trim_end_matches('s')).map(|days| format!("{days} *-*-* {}", at("00:00:00"))),
        },
    }
}

/// `15 minutes`, `2h`.
fn interval(words: &[&str]) -> Option<String> {
    let text = words.concat();
    let (number, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    match (number.parse::<u8>().ok()?, unit) {
        (1, "m" | "min" | "minute") => Some("minutely".to_owned()),
        (1, "h" | "hour") => Some("hourly".to_owned()),
        (1, "d" | "day") | (24, "h" | "hours") => Some("daily".to_owned()),
        (number, "m" | "min" | "mins" | "minutes") => Some(format!("*:0/{number}")),
        (number, "h" | "hours") => Some(format!("*-*-* 0/{number}:00:00")),
        _ => None,
    }
}

/// `3am`, `3:30pm`, `03:00`, `24:00`.
fn clock(text: &str) -> Option<String> {
    let (time, half) = match text.strip_suffix("am").map(|time| (time, 0)) {
        Some(morning) => (morning.0, Some(morning.1)),
        None => text.strip_suffix("pm").map_or((text, None), |time| (time, Some(12))),
    };
    let (hour, minute) = match (time.split_once(':'), half) {
        (Some((hour, minute)), _) => (hour, minute),
        (None, Some(_)) => (time, "0"),
        (None, None) => return None,
    };
    let (hour, minute) = (hour.parse::<u8>().ok()?, minute.parse::<u8>().ok()?);
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour % 24,
    };
    (minute < 60).then(|| format!("{hour:02}:{minute:02}:00"))
}
