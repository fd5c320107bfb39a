//! The option `--budget`.

use std::time::Duration;

/// The longest budget: a year.
const MOST: f64 = 366.0 * 86_400.0;

/// A number of seconds, or of minutes or hours with m or h after it.
pub fn budget(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        None => (text, 1.0),
        Some(number) if text.ends_with('s') => (number, 1.0),
        Some(number) if text.ends_with('m') => (number, 60.0),
        Some(number) => (number, 3600.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= MOST)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "must be a time above 0 and up to a year, such as 90s, 5m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text| budget(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("90"), Ok(90.0));
        assert_eq!(seconds("1.5s"), Ok(1.5));
        assert_eq!(seconds("5m"), Ok(300.0));
        assert_eq!(seconds("2 h"), Ok(7200.0));
        for wrong in ["", "s", "0", "-1m", "1d", "nan", "inf", "1e300h", "5mm"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }
}
