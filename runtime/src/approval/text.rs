//! Text that a reviewer can trust: what would deceive the eye is escaped, and told of.

use std::fmt::{self, Write as _};

/// Why a text may not be what it seems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Deceit {
    /// It turns the direction of what follows.
    Direction,
    /// It has characters that cannot be seen.
    Invisible,
    /// It has control characters.
    Control,
    /// A word mixes letters of scripts that look alike.
    MixedScripts,
}

impl fmt::Display for Deceit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direction => "it turns the direction of text",
            Self::Invisible => "it has invisible characters",
            Self::Control => "it has control characters",
            Self::MixedScripts => "a word in it mixes scripts that look alike",
        })
    }
}

/// What one character may do to a reader.
fn deceit_of(c: char) -> Option<Deceit> {
    match c {
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Deceit::Direction)
        }
        // Soft hyphen, zero width, fillers, separators, variation selectors, tags, private use, unassigned edges.
        '\u{00ad}'
        | '\u{034f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{e0000}'..='\u{e0fff}' => Some(Deceit::Invisible),
        c if c.is_control() => Some(Deceit::Control),
        // Spaces that are not the space.
        c if c.is_whitespace() && c != ' ' => Some(Deceit::Invisible),
        _ => None,
    }
}

/// The script of a letter, as far as letters of it look like those of another.
fn script_of(c: char) -> Option<u8> {
    match c {
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Some(0),
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some(1),
        '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' => Some(2),
        '\u{530}'..='\u{58f}' => Some(3),
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => Some(4),
        '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => Some(5),
        _ => None,
    }
}

fn mixes_scripts(word: &str) -> bool {
    let mut scripts = word.chars().filter_map(script_of);
    scripts.next().is_some_and(|first| scripts.any(|script| script != first))
}

/// All that may deceive in a text, each once.
pub(super) fn deceits(text: &str) -> Vec<Deceit> {
    let mut found: Vec<Deceit> = text.chars().filter_map(deceit_of).collect();
    if text.split(|c: char| !c.is_alphanumeric()).any(mixes_scripts) {
        found.push(Deceit::MixedScripts);
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The text in double quotes, with all that may deceive escaped.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if deceit_of(c).is_some() => {
                // Writing to a string never fails.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

/// Milliseconds since 1970 as a date and time of day.
pub(super) fn utc(at_ms: u64) -> String {
    let (days, in_day) = (at_ms / 86_400_000, at_ms % 86_400_000);
    // The civil calendar in eras of 400 years that begin with March (Howard Hinnant, "chrono-compatible date algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", in_day % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        for (at_ms, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(at_ms), shown);
        }
        assert!(utc(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn deceiving_text_is_escaped_and_told_of() {
        for (text, expected, deceit) in [
            ("pay\u{202e}001", r#""pay\u{202e}001""#, Some(Deceit::Direction)),
            ("ad\u{200b}min", r#""ad\u{200b}min""#, Some(Deceit::Invisible)),
            ("a\u{a0}b", r#""a\u{a0}b""#, Some(Deceit::Invisible)),
            ("\u{1b}[31m", r#""\u{1b}[31m""#, Some(Deceit::Control)),
            ("p\u{430}ypal", "\"p\u{430}ypal\"", Some(Deceit::MixedScripts)),
            ("\u{3b1}bc", "\"\u{3b1}bc\"", Some(Deceit::MixedScripts)),
            ("Привет, world", "\"Привет, world\"", None),
            ("say \"hi\" \\ 日本語 ö", "\"say \\\"hi\\\" \\\\ 日本語 ö\"", None),
        ] {
            assert_eq!(shown(text), expected);
            assert_eq!(deceits(text), Vec::from_iter(deceit), "{text:?}");
        }
    }
}
