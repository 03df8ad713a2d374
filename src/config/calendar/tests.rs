use super::{calendar, is_calendar};

#[test]
fn a_hint_is_an_expression_that_means_the_same() {
    for (text, meant) in [
        ("0 3 * * *", "*-*-* 03:00:00"),
        ("*/15 * * * *", "*-*-* *:0/15:00"),
        ("0 */2 * * *", "*-*-* 0/2:00:00"),
        ("30 4 1,15 * *", "*-*-01,15 04:30:00"),
        ("0 3 * * 1-5", "Mon..Fri *-*-* 03:00:00"),
        ("0 3 * * MON-FRI", "Mon..Fri *-*-* 03:00:00"),
        ("0 3 * * 0", "Sun *-*-* 03:00:00"),
        ("0 3 * * 7", "Sun *-*-* 03:00:00"),
        ("0 3 * * 0-2", "Sun,Mon..Tue *-*-* 03:00:00"),
        ("0 0 1 */3 *", "*-1/3-01 00:00:00"),
        ("0 0 1 jan,jul ?", "*-01,07-01 00:00:00"),
        ("0 9-17/2 * * *", "*-*-* 09..17/2:00:00"),
        ("*/1 * * * *", "*-*-* *:*:00"),
        ("@daily", "daily"),
        ("@midnight", "daily"),
        ("nightly", "*-*-* 03:00:00"),
        ("every night", "*-*-* 03:00:00"),
        ("every day", "daily"),
        ("every 15 minutes", "*:0/15"),
        ("15m", "*:0/15"),
        ("2h", "*-*-* 0/2:00:00"),
        ("every hour", "hourly"),
        ("3am", "*-*-* 03:00:00"),
        ("daily at 3:30pm", "*-*-* 15:30:00"),
        ("daily 03:00", "*-*-* 03:00:00"),
        ("every monday at 3 am", "Mon *-*-* 03:00:00"),
        ("weekdays", "Mon..Fri *-*-* 03:00:00"),
        ("24:00", "*-*-* 00:00:00"),
        ("annualy", "annually"),
    ] {
        let help = calendar(text).err().map(|bad| bad.help).unwrap_or_default();
        let pasted = if meant.contains([' ', '*']) { format!("\"{meant}\"") } else { meant.to_owned() };
        assert_eq!(help, format!("write `{pasted}`"), "{text}");
        assert!(is_calendar(meant), "{meant}");
    }
    // cron would run on either of both days, and the hints must not claim otherwise.
    for text in ["0 3 1 * 1", "0 3 * *", "0 99 * * *", "61 3 * * *", "@reboot", "sometimes", "* * * * * *"] {
        let help = calendar(text).err().map(|bad| bad.help).unwrap_or_default();
        assert!(help.contains("systemd.time(7)"), "{text}: {help}");
    }
}
