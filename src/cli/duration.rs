//! Durations on the command line: `90`, `90s`, `5m`, `1h`.

use std::time::Duration;

/// Parses a positive duration; a plain number is in seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("write a number of seconds, or a number with the unit s, m or h, e.g. `90s`".to_owned()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).filter(|&n| n > 0);
    // A year is more than any session needs and cannot overflow a point in time.
    let seconds = seconds.filter(|&n| n <= 366 * 24 * 3600);
    seconds.map(Duration::from_secs).ok_or_else(|| "a duration must be between 1 s and one year".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations() {
        assert_eq!(parse("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert!(["", "0", "-1", "1d", "1.5s", "99999999999999999999", "m", "1é"].iter().all(|t| parse(t).is_err()));
    }
}
