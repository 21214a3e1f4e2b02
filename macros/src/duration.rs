//! Durations as a user writes them: `"1.5s"`, `"1m 30s"`.

use std::time::Duration;

/// What a refused duration is told.
pub(crate) const UNITS: &str = "write a string with a unit: `\"500ms\"`, `\"30s\"`, `\"2m\"`, `\"1h\"`, `\"7d\"`";

const NANOS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Reads one, exactly; the error says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("an empty duration; {UNITS}"));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let after = after.trim_start();
        let unit = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let nanos = part(digits, unit).ok_or_else(|| match (digits, unit) {
            ("", _) => format!("`{text}` is not a duration; {UNITS}"),
            (_, "") => format!("`{text}` has no unit; {UNITS}"),
            _ if NANOS.iter().all(|(known, _)| *known != unit) => {
                format!("`{unit}` is not a unit of time (ns, us, ms, s, m, h, d)")
            }
            _ => format!("`{digits}{unit}` is not a whole number of nanoseconds below 584 years"),
        })?;
        total = total.checked_add(nanos).ok_or_else(|| format!("`{text}` is longer than 584 years"))?;
        rest = after.trim_start();
    }
    Ok(Duration::from_nanos(total))
}

/// `("1.5", "s")` → 1,500,000,000; `None` if it is not exact.
fn part(digits: &str, unit: &str) -> Option<u64> {
    let (_, nanos) = NANOS.iter().find(|(known, _)| *known == unit)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || (digits.contains('.') && fraction.is_empty()) {
        return None;
    }
    let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let fraction = fraction.checked_mul(*nanos)?;
    (fraction % scale == 0).then_some(())?;
    whole.parse::<u64>().ok()?.checked_mul(*nanos)?.checked_add(fraction / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Duration) {
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn durations_are_exact() {
        check("500ms", Duration::from_millis(500));
        check("1.5s", Duration::from_millis(1500));
        check("1m 30s", Duration::from_secs(90));
        check("1m30s", Duration::from_secs(90));
        check("2 h", Duration::from_secs(7200));
        check("7d", Duration::from_secs(604_800));
        check("0s", Duration::ZERO);
    }

    #[test]
    fn a_unit_is_never_guessed() {
        for text in ["30", "1m 30", "", "s", "30 parsecs", "1.2.3s", "-1s", "1.s", ".5s", "0.5ns", "9999999999d"] {
            assert!(parse(text).is_err(), "{text:?} was taken for a duration");
        }
    }
}
