//! Files of record ids, one a line.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vfl_core::types::{IdError, RecordIds};

/// The number of id forms that are listed one by one.
const FORMS: usize = 4;

/// Errors from reading a file of ids.
#[derive(Debug, thiserror::Error)]
pub enum IdFileError {
    /// The file cannot be read.
    #[error("cannot read the ids in {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file contains invalid ids.
    #[error("{}: {source}", path.display())]
    Ids {
        /// The path of the file.
        path: PathBuf,
        /// The problem with the ids.
        source: IdError,
    },
    /// The file contains no id.
    #[error("{} holds no record id", .0.display())]
    Empty(PathBuf),
}

/// Reads record ids, one a line. Empty lines and a byte order mark are skipped. An id in double
/// quotes is read as in CSV.
///
/// # Errors
/// [`IdFileError`] naming the file.
pub fn read_ids(path: &Path) -> Result<RecordIds, IdFileError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path())
        .map_err(|source| IdFileError::Read { path: path(), source })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let ids = RecordIds::new(text.lines().filter(|line| !line.is_empty()).map(unquoted));
    let ids = ids.map_err(|source| IdFileError::Ids { path: path(), source })?;
    if ids.is_empty() { Err(IdFileError::Empty(path())) } else { Ok(ids) }
}

/// Describes the forms of record ids, the most common first, for an operator who compares how two
/// parties write them: `9` stands for digits, `09` for digits that begin with 0, `a` and `A` for
/// letters, `?` for other characters beyond ASCII.
#[must_use]
pub fn id_forms(ids: &RecordIds) -> String {
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for id in ids.iter() {
        *forms.entry(form(id)).or_default() += 1;
    }
    let mut forms: Vec<(String, usize)> = forms.into_iter().collect();
    forms.sort_by_key(|(_, records)| Reverse(*records));
    let shown: Vec<String> = forms
        .iter()
        .take(FORMS)
        .map(|(form, records)| format!("{records} of the form {form:?}"))
        .collect();
    let others: usize = forms.iter().skip(FORMS).map(|(_, records)| records).sum();
    let others = if others > 0 { format!(", {others} of others") } else { String::new() };
    format!("record ids: {}{others}", shown.join(", "))
}

fn form(id: &str) -> String {
    let is_uuid = |(at, c): (usize, char)| {
        if [8, 13, 18, 23].contains(&at) { c == '-' } else { c.is_ascii_hexdigit() }
    };
    if id.len() == 36 && id.char_indices().all(is_uuid) {
        return if id.contains(|c: char| c.is_ascii_uppercase()) {
            "UUID, upper case"
        } else {
            "UUID"
        }
        .into();
    }
    let mut form = String::new();
    let chars: Vec<char> = id.chars().collect();
    for part in chars.chunk_by(|a, b| class_of(*a) == class_of(*b) && !a.is_ascii_punctuation()) {
        match (class_of(part[0]), part) {
            ('9', ['0', _, ..]) => form.push_str("09"),
            (class, _) => form.push(class),
        }
    }
    form.chars().take(40).collect()
}

/// Returns the character that stands for the class of `c`. ASCII punctuation and blanks stand for
/// themselves.
fn class_of(c: char) -> char {
    match c {
        '0'..='9' => '9',
        _ if c.is_uppercase() => 'A',
        _ if c.is_alphabetic() => 'a',
        _ if c.is_ascii() => c,
        _ => '?',
    }
}

/// Removes the double quotes around a line, as CSV does.
fn unquoted(line: &str) -> Cow<'_, str> {
    match line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inside) if !inside.replace("\"\"", "").contains('"') => {
            Cow::Owned(inside.replace("\"\"", "\""))
        }
        _ => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn forms_tell_how_ids_are_written_and_not_which() {
        let ids = [
            "1",
            "20",
            "300",
            "0040",
            "1001.",
            "5.0",
            "c-17",
            "C-17",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
            "é1",
        ];
        let said = id_forms(&RecordIds::new(ids).unwrap());
        assert!(said.starts_with("record ids: 3 of the form \"9\", 1 of the form "), "{said}");
        assert!(said.ends_with("4 of others"), "{said}");
        let forms = ids.map(form);
        assert_eq!(forms, ["9", "9", "9", "09", "9.", "9.9", "a-9", "A-9", "UUID", "a9"]);
        assert_eq!(["张伟", "Иванов Иван", "٣٤", "a--b"].map(form), ["a", "Aa Aa", "?", "a--a"]);
    }

    #[test]
    fn a_file_of_ids_has_one_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_ids(file.path()).map_err(|e| e.to_string())
        };
        assert_eq!(read("b\n\na\r\nc").unwrap(), RecordIds::new(["b", "a", "c"]).unwrap());
        let marked = "\u{feff}a\n\"b, \"\"c\"\"\"\n\"\n\"A\" vs \"B\"\n";
        assert_eq!(
            read(marked).unwrap(),
            RecordIds::new(["a", "b, \"c\"", "\"", "\"A\" vs \"B\""]).unwrap()
        );
        let name = file.path().display().to_string();
        for (text, says) in
            [("a\nb\na\n", "position 2 stands in the batch twice"), ("\n", "no record id")]
        {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(says) && refused.contains(&name), "{refused}");
        }
        assert!(
            read_ids(Path::new("/nowhere/x.ids"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/x.ids")
        );
    }
}
