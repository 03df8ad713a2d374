//! Durations on the command line: `90`, `90s`, `5m`, `0.5h`, `1d`.

use std::time::Duration;

use crate::config::duration;

/// Parses a positive duration, as in config files; a plain number is in seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let Some(seconds) = duration(text) else {
        return Err(
            "write a number of seconds, or a number with the unit s, m, h or d, e.g. `90s` or `0.5h`".to_owned()
        );
    };
    // A year is more than any session needs and cannot overflow a point in time.
    let longest = 366 * 24 * 3600;
    let fits = seconds <= longest;
    fits.then(|| Duration::from_secs(seconds)).ok_or_else(|| "a duration must be between 1 s and one year".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations() {
        assert_eq!(parse("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("0.5h"), Ok(Duration::from_secs(1800)));
        assert_eq!(parse("30min"), Ok(Duration::from_secs(1800)));
        assert_eq!(parse("1d"), Ok(Duration::from_secs(86400)));
        assert!(
            ["", "0", "-1", "400d", "1.5s", "1.", ".5h", "1e3", "99999999999999999999", "m", "1é"]
                .iter()
                .all(|t| parse(t).is_err())
        );
    }
}
