//! The characters of a CSV file that differ from country to country: separator and decimal mark.

use std::str::FromStr;

use serde::Deserialize;

/// The separator and the decimal mark of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsvDialect {
    /// The separator of the fields. `None`: a comma, or the first semicolon, tab or bar of a header
    /// without a comma. A first line `sep=;` names it too.
    pub separator: Option<Separator>,
    /// The decimal mark of numbers.
    pub decimal: DecimalMark,
}

/// The separator of the fields of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Separator {
    /// A comma.
    #[default]
    Comma,
    /// A semicolon, as spreadsheets write it where the comma is the decimal mark.
    Semicolon,
    /// A tab.
    Tab,
    /// A vertical bar.
    Bar,
}

impl Separator {
    const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Bar];

    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Bar => b'|',
        }
    }

    /// Returns the separator of a header: a comma unless it has none outside quotes.
    pub(super) fn of_header(line: &[u8]) -> Self {
        let mut quoted = false;
        let outside: Vec<u8> = line
            .iter()
            .copied()
            .filter(|&byte| {
                quoted ^= byte == b'"';
                !quoted
            })
            .collect();
        let first = |wanted: &[Self]| {
            let of = |byte: &u8| wanted.iter().find(|separator| separator.byte() == *byte).copied();
            outside.iter().find_map(of)
        };
        first(&Self::ALL[..1]).or_else(|| first(&Self::ALL[1..])).unwrap_or_default()
    }

    /// Returns the separator that a first line `sep=;` names, as spreadsheets write it.
    pub(super) fn of_line(line: &[u8]) -> Option<Self> {
        let named = line.strip_prefix(b"sep=")?;
        Self::ALL.into_iter().find(|separator| named == [separator.byte()])
    }
}

impl FromStr for Separator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is = |separator: &Self| text.as_bytes() == [separator.byte()];
        match text {
            "tab" => Ok(Self::Tab),
            _ => Self::ALL.into_iter().find(is).ok_or_else(|| {
                "a separator is a comma, a semicolon, a bar or a tab (`,`, `;`, `|`, `tab`)".into()
            }),
        }
    }
}

impl TryFrom<String> for Separator {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The decimal mark of the numbers of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum DecimalMark {
    /// A point.
    #[default]
    Point,
    /// A comma.
    Comma,
}

impl FromStr for DecimalMark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "." => Ok(Self::Point),
            "," => Ok(Self::Comma),
            _ => Err("a decimal mark is a point or a comma (`.`, `,`)".into()),
        }
    }
}

impl TryFrom<String> for DecimalMark {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_header_shows_its_separator() {
        use Separator::{Bar, Comma, Semicolon, Tab};
        for (header, expected) in [
            ("id,age", Comma),
            ("id;age", Semicolon),
            ("id\tage;years", Tab),
            ("id|age", Bar),
            ("id;\"income, EUR\"", Semicolon),
            ("id,\"age;years\"", Comma),
            ("id;age,years", Comma),
            ("id", Comma),
            ("\"id", Comma),
        ] {
            assert_eq!(Separator::of_header(header.as_bytes()), expected, "{header}");
        }
        assert_eq!(Separator::of_line(b"sep=;"), Some(Semicolon));
        assert_eq!(Separator::of_line(b"sep=\t"), Some(Tab));
        assert!(
            [&b"sep="[..], b"sep=;;", b"sep=x", b"separator;age"]
                .iter()
                .all(|line| Separator::of_line(line).is_none())
        );
        assert_eq!("tab".parse(), Ok(Tab));
        assert_eq!("\t".parse(), Ok(Tab));
        assert!("".parse::<Separator>().is_err() && ".".parse::<Separator>().is_err());
        assert_eq!([".", ","].map(str::parse), [Ok(DecimalMark::Point), Ok(DecimalMark::Comma)]);
        assert!(";".parse::<DecimalMark>().is_err());
    }
}
