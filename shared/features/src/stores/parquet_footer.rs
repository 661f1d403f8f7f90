//! Checks of a Parquet file's footer, before the library reads it and against the size of the file.
//!
//! The library allocates room for as many children of a group as the footer declares, follows
//! groups to any depth, and trusts offsets and sizes of columns. A damaged or malicious file could
//! thus request gigabytes with a few bytes, or crash the process.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::file::metadata::ParquetMetaData;
use vfl_core::data::{FilePosition, TableError, TableProblem};

use crate::stores::parquet_pages::{Compact, I32, LIST, STRUCT, ThriftError, read_at};

/// The maximum length of a footer: some 200 000 columns of row groups.
const MAX_FOOTER_BYTES: u32 = 64 << 20;
/// The length of the tail after the footer: its length, and `PAR1`.
const TAIL_BYTES: usize = 8;
/// The minimum length of a file: `PAR1` at the beginning, and the tail.
const MIN_FILE_BYTES: u64 = 12;
/// The maximum nesting of a footer's structures.
const MAX_DEPTH: u32 = 24;
/// The maximum nesting of column groups.
const MAX_GROUPS: usize = 64;

/// The message if nothing more is known.
pub(crate) const DAMAGED: &str = "the file is damaged";

/// Returns the problem of an invalid Parquet file.
pub(crate) fn format(reason: impl Into<String>) -> TableProblem {
    TableProblem::Format { format: "Parquet", reason: reason.into() }
}

/// Reads from a file. A damaged file can make the library panic, which is returned as an error
/// here.
///
/// # Errors
/// The error of `read`, or that the file is damaged.
pub(crate) fn contained<T>(
    file: &Path,
    place: Option<FilePosition>,
    read: impl FnOnce() -> Result<T, TableError>,
) -> Result<T, TableError> {
    let damaged =
        || TableError { file: file.to_owned(), place, column: None, problem: format(DAMAGED) };
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()))
}

/// Checks the footer. A file without one passes: the library reports that it is no Parquet file.
///
/// # Errors
/// [`TableProblem`] for a footer that is too long, is longer than the file, declares more than it
/// has, or is malformed.
pub(crate) fn check_footer(file: &File) -> Result<(), TableProblem> {
    let bytes = file.metadata().map_err(TableProblem::Io)?.len();
    if bytes < MIN_FILE_BYTES {
        return Ok(());
    }
    let mut tail = [0; TAIL_BYTES];
    let read = read_at(file, bytes - TAIL_BYTES as u64, &mut tail).map_err(TableProblem::Io)?;
    let [a, b, c, d, magic @ ..] = tail;
    if read != TAIL_BYTES || &magic != b"PAR1" {
        return Ok(());
    }
    let length = u32::from_le_bytes([a, b, c, d]);
    if u64::from(length) > bytes - MIN_FILE_BYTES {
        return Err(format(format!(
            "its footer claims {length} bytes, the whole file has {bytes}"
        )));
    }
    if length > MAX_FOOTER_BYTES {
        let limit = MAX_FOOTER_BYTES.into();
        return Err(TableProblem::TooLarge { what: "the length of the footer in bytes", limit });
    }
    let mut footer = vec![0; length as usize];
    let read = read_at(file, bytes - TAIL_BYTES as u64 - u64::from(length), &mut footer)
        .map_err(TableProblem::Io)?;
    footer.truncate(read);
    check(&footer).map_err(|bad| match bad {
        ThriftError::Large(children) => {
            format(format!("its footer claims {children} columns in a group, and has fewer"))
        }
        _ => format("its footer is damaged"),
    })
}

/// Checks `FileMetaData` of parquet.thrift. Its field 2 is the schema, a list of elements; field 5
/// of an element is the number of its children, which follow it.
fn check(footer: &[u8]) -> Result<(), ThriftError> {
    Compact::new(footer).each_field(|footer, id, kind| match (id, kind) {
        (2, LIST) => check_schema(footer),
        _ => footer.skip(kind, MAX_DEPTH),
    })
}

fn check_schema(footer: &mut Compact<'_>) -> Result<(), ThriftError> {
    let (elements, kind) = footer.list()?;
    if kind != STRUCT {
        return Err(ThriftError::Header);
    }
    // All elements but the first are a child of another one. `open` has the number of children
    // still to come in each enclosing group.
    let (mut unclaimed, mut open) = (elements.saturating_sub(1), Vec::<u64>::new());
    for _ in 0..elements {
        let mut children = 0;
        footer.each_field(|element, id, kind| match (id, kind) {
            (5, I32) => {
                let claimed = element.integer()?;
                children = u64::try_from(claimed).map_err(|_| ThriftError::Large(claimed))?;
                unclaimed = unclaimed.checked_sub(children).ok_or(ThriftError::Large(claimed))?;
                Ok(())
            }
            _ => element.skip(kind, MAX_DEPTH),
        })?;
        while open.pop_if(|left| *left == 0).is_some() {}
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if children > 0 {
            open.push(children);
        }
        if open.len() > MAX_GROUPS {
            return Err(ThriftError::Header);
        }
    }
    Ok(())
}

/// Checks the row groups and columns of the footer against the size of the file in bytes.
///
/// # Errors
/// [`TableProblem`] that names the row group and the column, by their numbers from 1.
pub(crate) fn check_sizes(metadata: &ParquetMetaData, bytes: u64) -> Result<(), TableProblem> {
    for (group, of) in (1..).zip(metadata.row_groups()) {
        if of.num_rows() < 0 {
            return Err(format(format!("row group {group} claims {} rows", of.num_rows())));
        }
        for (column, chunk) in (1..).zip(of.columns()) {
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let (start, size) = (u64::try_from(start), u64::try_from(chunk.compressed_size()));
            let end = start.ok().zip(size.ok()).and_then(|(start, size)| start.checked_add(size));
            if end.is_none_or(|end| end > bytes) {
                let reason = format!(
                    "column {column} of row group {group} claims bytes that the file does not have"
                );
                return Err(format(reason));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    /// Returns an element of a schema, whose name is empty, with so many children.
    fn element(children: u8) -> Vec<u8> {
        vec![0x48, 0, 0x15, children * 2, 0]
    }

    /// Returns a footer with a schema of these elements.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, children.len() as u8];
        children.iter().for_each(|&children| bytes.extend(element(children)));
        bytes.push(0);
        bytes
    }

    fn file(footer: &[u8], claimed: u32) -> Result<(), TableProblem> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b"PAR1", footer, &claimed.to_le_bytes(), b"PAR1"].concat()).unwrap();
        check_footer(&file)
    }

    #[test]
    fn a_schema_has_the_children_that_it_names() {
        for good in [&[2, 0, 0][..], &[2, 1, 0, 0], &[1, 1, 1, 0], &[0]] {
            assert_eq!(check(&footer(good)), Ok(()), "{good:?}");
        }
        assert_eq!(check(&footer(&[3, 0, 0])), Err(ThriftError::Large(3)));
        assert_eq!(
            check(&footer(&[2, 2, 0, 0])),
            Err(ThriftError::Large(2)),
            "all groups together have more than there are"
        );
        let mut huge = footer(&[0]);
        huge.splice(8..9, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(check(&huge), Err(ThriftError::Large(i64::from(i32::MAX))));
        let mut negative = footer(&[0]);
        negative[8] = 1;
        assert_eq!(check(&negative), Err(ThriftError::Large(-1)));
        let deep = |groups: usize| footer(&[vec![1; groups], vec![0]].concat());
        assert_eq!(check(&deep(MAX_GROUPS)), Ok(()));
        assert_eq!(check(&deep(MAX_GROUPS + 1)), Err(ThriftError::Header));
    }

    #[test]
    fn a_list_is_as_long_as_it_says() {
        let good = footer(&[2, 0, 0]);
        for cut in 0..good.len() {
            assert_eq!(check(&good[..cut]), Err(ThriftError::Short), "{cut}");
        }
        // Row groups that say nothing, each of which the library makes room for.
        let mut empty = vec![0x49, 0xfc, 100];
        empty.extend([0; 101]);
        assert_eq!(check(&empty), Err(ThriftError::Header));
        assert_eq!(check(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(ThriftError::Short));
    }

    #[test]
    fn a_footer_is_no_longer_than_the_file() {
        let good = footer(&[2, 0, 0]);
        let length = good.len() as u32;
        assert!(file(&good, length).is_ok());
        for claimed in [length + 1, u32::MAX] {
            let said = file(&good, claimed).unwrap_err().to_string();
            assert!(
                said.contains(&format!("its footer claims {claimed} bytes, the whole file has")),
                "{said}"
            );
        }
        let said = file(&footer(&[3, 0, 0]), length).unwrap_err().to_string();
        assert!(said.contains("its footer claims 3 columns in a group"), "{said}");
        assert!(
            file(&good[..good.len() - 1], length - 1)
                .unwrap_err()
                .to_string()
                .contains("its footer is damaged")
        );
        let mut sparse = tempfile::tempfile().unwrap();
        sparse.set_len(1 << 30).unwrap();
        std::io::Seek::seek(&mut sparse, std::io::SeekFrom::End(0)).unwrap();
        sparse.write_all(&[&(1u32 << 29).to_le_bytes()[..], b"PAR1"].concat()).unwrap();
        let said = check_footer(&sparse).unwrap_err().to_string();
        assert!(said.contains("the length of the footer in bytes"), "{said}");
    }
}
