//! Raw files of a public set, and the columns read from them.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::dataset::DataError;
use super::encode::RawColumn;
use super::names::DatasetName;
use super::split::Part;

/// The size limit of a file. No file of a public set is nearly as large, so a compressed file that
/// grows past this is not one of them.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A source as read: columns, labels, parts.
pub(super) struct RawDataset {
    pub(super) columns: Vec<RawColumn>,
    pub(super) labels: Vec<u32>,
    pub(super) class_names: Vec<String>,
    pub(super) parts: Option<Vec<Part>>,
}

/// Reads the content of `file` or `file.gz`; `None` if neither is there.
pub(super) fn read_content(
    dataset: DatasetName,
    directory: &Path,
    file: &str,
) -> Result<Option<(PathBuf, Vec<u8>)>, DataError> {
    for compressed in [false, true] {
        let path = directory.join(if compressed { format!("{file}.gz") } else { file.to_owned() });
        let fail = |error| DataError::Read { dataset, file: path.clone(), error };
        let opened = match std::fs::File::open(&path) {
            Ok(opened) => opened,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(fail(e)),
        };
        let mut content = Vec::new();
        let limited = |reader: &mut dyn Read, content: &mut Vec<u8>| {
            reader.take(MAX_FILE_BYTES + 1).read_to_end(content)
        };
        if compressed {
            limited(
                &mut flate2::read::MultiGzDecoder::new(std::io::BufReader::new(opened)),
                &mut content,
            )
        } else {
            limited(&mut std::io::BufReader::new(opened), &mut content)
        }
        .map_err(fail)?;
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(fail(std::io::Error::other("more than 1 GiB, which no public set is")));
        }
        return Ok(Some((path, content)));
    }
    Ok(None)
}
