//! Sanitises text from a document for a reader. Names and notes come from other parties: they must
//! not be able to move a cursor, colour a line or change the writing direction.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces every control character and every bidirectional control by U+FFFD.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            // Marks, embeddings, overrides and isolates of direction; line and paragraph
            // separators; byte order mark.
            '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// Returns printable text of at most `columns` columns, with an ellipsis at its end if it was cut.
pub fn shortened(text: &str, columns: usize) -> String {
    let text = printable(text);
    if text.width() <= columns {
        return text;
    }
    let mut used = 1; // The ellipsis.
    let mut short: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or_default();
            used <= columns
        })
        .collect();
    short.push('…');
    short
}

/// Breaks printable text into lines of at most `width` columns at white space; a longer word gets
/// its own line. Lines after the first start with `indent` spaces.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let word = printable(word);
        let needed = word.width();
        if column > indent && column + 1 + needed > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += needed;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_do_not_reach_a_reader() {
        assert_eq!(printable("a\x1b[31mb\u{202e}c\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
        assert_eq!(printable("crédit <b>"), "crédit <b>");
    }

    #[test]
    fn long_names_are_cut_by_columns() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abcde…");
        assert_eq!(shortened("日本語日本語", 6), "日本…");
    }

    #[test]
    fn lines_stay_within_the_width() {
        let text = wrapped("one two three four five six seven", 12, 2);
        assert!(text.lines().all(|line| line.width() <= 12), "{text}");
        assert_eq!(text.split_whitespace().count(), 7);
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")));
    }
}
