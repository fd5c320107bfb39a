//! Dates and times as text.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// The date of a number of days since 1970, as 2024-01-05.
pub(super) fn date(days: i64) -> String {
    // Years begin in March here, so that leap days come last; 400 years have 146097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let (day, month) = (in_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The date and time of a number of ticks since 1970, as 2024-01-05 12:30:00 with as many decimals as needed.
pub(super) fn timestamp(value: i64, ticks: i64) -> String {
    let (seconds, part) = (value.div_euclid(ticks), value.rem_euclid(ticks));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let decimals = if part == 0 {
        String::new()
    } else {
        let digits = ticks.ilog10() as usize;
        format!(".{part:0digits$}").trim_end_matches('0').to_owned()
    };
    format!("{} {hour:02}:{minute:02}:{second:02}{decimals}", date(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_727, "2024-01-05"),
            (-719_468, "0000-03-01"),
        ] {
            assert_eq!(date(days), expected);
        }
        assert_eq!(timestamp(-1, 1_000), "1969-12-31 23:59:59.999");
        assert_eq!(timestamp(1_704_457_800_000_000, 1_000_000), "2024-01-05 12:30:00");
        assert_eq!(timestamp(500_000_000, 1_000_000_000), "1970-01-01 00:00:00.5");
    }

    #[test]
    fn days_follow_each_other() {
        // From the first of March of the year 0 to the year 4160.
        let dates: Vec<String> = (-719_468..800_000).step_by(17).map(date).collect();
        assert!(dates.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
