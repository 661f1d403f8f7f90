//! Concurrent random access to a Parquet file, with a limit on the unpacked size of a page.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use vfl_core::data::TableProblem;

/// The maximum length of a page header, with its statistics.
const MAX_HEADER_BYTES: usize = 1 << 16;
/// The length that suffices for most headers.
const SHORT_HEADER_BYTES: usize = 1 << 9;
/// The maximum nesting of a header's structures.
const MAX_DEPTH: u32 = 8;

/// A file that is read at any offset, without a position of its own. The library's reader allocates
/// as much for a page as its header declares, and as many entries of a dictionary: a header that
/// declares too much is refused here first.
pub(crate) struct PageFile {
    file: Arc<File>,
    bytes: u64,
    most: usize,
}

/// Errors from reading a page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The page is, or would be, too large.
    #[error(
        "a page of it has {bytes} bytes unpacked, at most {most} are read; write it with smaller pages"
    )]
    Large {
        /// The size that its header declares.
        bytes: i64,
        /// The limit in bytes.
        most: usize,
    },
    /// The page has an encoding in which a few bytes can stand for any number of values, for which
    /// the library would allocate room.
    #[error("a page of it has encoding {0}; write it with plain or dictionary encoding")]
    Encoding(String),
    /// The header of the page is malformed.
    #[error("the header of a page is damaged")]
    Header,
}

/// Returns the message of a [`PageError`] inside an error of the library.
pub(crate) fn page_error(error: &ParquetError) -> Option<String> {
    let ParquetError::External(inner) = error else { return None };
    let inner = inner.downcast_ref::<io::Error>()?.get_ref()?;
    inner.downcast_ref::<PageError>().map(ToString::to_string)
}

impl PageFile {
    /// Creates a file whose pages have at most so many bytes, unpacked.
    pub(crate) fn new(file: File, most: usize) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes, most })
    }

    /// Returns the underlying file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Fills the buffer from an offset, up to the end of the file; returns the number of bytes read.
pub(crate) fn read_at(file: &File, mut at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, &mut buffer[done..], at);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(file, &mut buffer[done..], at);
        match read {
            Ok(0) => break,
            Ok(n) => {
                done += n;
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Checks that codecs unpack no more than a page's header declares, and encodings yield no more
/// values. The library's gzip does not respect that limit, nor do its readers of deltas of texts.
pub(crate) fn check_codecs(metadata: &ParquetMetaData) -> std::result::Result<(), TableProblem> {
    let chunks = || metadata.row_groups().iter().flat_map(|group| group.columns());
    let known = |codec: &Compression| {
        matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
    };
    let wrong = |reason| Err(TableProblem::Format { format: "Parquet", reason });
    if let Some(codec) = chunks().map(|chunk| chunk.compression()).find(|codec| !known(codec)) {
        return wrong(format!(
            "it is compressed by {codec}; write it with Snappy or Zstandard, or uncompressed"
        ));
    }
    let mut encodings = chunks().flat_map(|chunk| chunk.encodings());
    match encodings.find(|&encoding| !ENCODINGS.contains(&(encoding as i64))) {
        None => Ok(()),
        Some(encoding) => wrong(PageError::Encoding(encoding.to_string()).to_string()),
    }
}

impl Length for PageFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for PageFile {
    type T = HeaderRead;

    fn get_read(&self, start: u64) -> Result<HeaderRead> {
        let footer = start.saturating_add(8) >= self.bytes;
        Ok(HeaderRead {
            file: self.file.clone(),
            at: start,
            most: (!footer).then_some(self.most),
            buffer: None,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // The check comes before the allocation.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF("the file ends before".into()));
        }
        let mut bytes = vec![0; length];
        match read_at(&self.file, start, &mut bytes)? == length {
            true => Ok(bytes.into()),
            false => Err(ParquetError::EOF("the file ends before".into())),
        }
    }
}

/// A reader of a page header, which is checked before its first byte is returned. The library also
/// creates such a reader, without using it, where a page's content begins.
pub(crate) struct HeaderRead {
    file: Arc<File>,
    at: u64,
    /// `None` at the end of the file, which has no page.
    most: Option<usize>,
    buffer: Option<Cursor<Vec<u8>>>,
}

impl HeaderRead {
    fn load(&self) -> io::Result<Cursor<Vec<u8>>> {
        let mut size = SHORT_HEADER_BYTES;
        loop {
            let mut bytes = vec![0; size];
            let read = read_at(&self.file, self.at, &mut bytes)?;
            bytes.truncate(read);
            let Some(most) = self.most else { return Ok(Cursor::new(bytes)) };
            match check_header(&bytes, most) {
                Ok(()) => return Ok(Cursor::new(bytes)),
                Err(ThriftError::Short) if read == size && size < MAX_HEADER_BYTES => {
                    size = MAX_HEADER_BYTES
                }
                Err(ThriftError::Short | ThriftError::Header) => {
                    return Err(io::Error::other(PageError::Header));
                }
                Err(ThriftError::Large(bytes)) => {
                    return Err(io::Error::other(PageError::Large { bytes, most }));
                }
                Err(ThriftError::Encoding(encoding)) => {
                    let name = ENCODING_NAMES.iter().find(|(number, _)| *number == encoding);
                    let name =
                        name.map_or_else(|| encoding.to_string(), |(_, name)| (*name).to_owned());
                    return Err(io::Error::other(PageError::Encoding(name)));
                }
            }
        }
    }
}

impl Read for HeaderRead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let buffer = match &mut self.buffer {
            Some(buffer) => buffer,
            none => none.insert(Self::load(&Self {
                file: self.file.clone(),
                at: self.at,
                most: self.most,
                buffer: None,
            })?),
        };
        buffer.read(out)
    }
}

/// The faults of a header or footer.
#[derive(Debug, PartialEq)]
pub(crate) enum ThriftError {
    /// More bytes of it are needed.
    Short,
    /// The structure is malformed.
    Header,
    /// This number in it is too large, or negative.
    Large(i64),
    /// The values have an encoding of this number, which is not supported.
    Encoding(i64),
}

/// The encodings whose values are bounded by the bytes of a page, or returned a few at a time:
/// PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED, RLE_DICTIONARY and
/// BYTE_STREAM_SPLIT of parquet.thrift.
const ENCODINGS: [i64; 7] = [0, 2, 3, 4, 5, 8, 9];
/// The names of unsupported encodings.
const ENCODING_NAMES: [(i64, &str); 3] =
    [(6, "DELTA_LENGTH_BYTE_ARRAY"), (7, "DELTA_BYTE_ARRAY"), (10, "ALP")];

/// Checks the header at the beginning of `bytes`: each of its sizes must occur once and be at most
/// `most`.
fn check_header(bytes: &[u8], most: usize) -> std::result::Result<(), ThriftError> {
    // `PageHeader` of parquet.thrift in the compact protocol: fields 2 and 3 are the sizes of the
    // page unpacked and packed. Field 7 is the header of a dictionary, whose field 1 is the number
    // of its entries. Fields 5 and 8 are headers of values, whose fields 2 and 4 are their
    // encodings.
    let (mut sizes, mut entries) = ([None, None], 0);
    Compact::new(bytes).each_field(|header, id, kind| {
        match (id, kind) {
            (2 | 3, I32) => {
                let size = header.integer()?;
                if !(0..=most as i64).contains(&size) {
                    return Err(ThriftError::Large(size));
                }
                if sizes[usize::from(id == 3)].replace(size).is_some() {
                    return Err(ThriftError::Header);
                }
            }
            (7, STRUCT) => header.each_field(|dictionary, id, kind| match (id, kind) {
                (1, I32) => dictionary.integer().map(|n| entries = n.max(entries)),
                _ => dictionary.skip(kind, MAX_DEPTH),
            })?,
            (5 | 8, STRUCT) => {
                header.each_field(|values, inner, kind| match (id, inner, kind) {
                    (5, 2, I32) | (8, 4, I32) => {
                        let encoding = values.integer()?;
                        if ENCODINGS.contains(&encoding) {
                            Ok(())
                        } else {
                            Err(ThriftError::Encoding(encoding))
                        }
                    }
                    _ => values.skip(kind, MAX_DEPTH),
                })?
            }
            _ => header.skip(kind, MAX_DEPTH)?,
        }
        Ok(())
    })?;
    match sizes {
        // A dictionary entry of any length takes at least two bytes.
        [Some(unpacked), Some(_)] if entries <= unpacked / 2 + 256 => Ok(()),
        _ => Err(ThriftError::Header),
    }
}

/// The field kinds that are read: [`I32`] for 32-bit numbers, [`LIST`] and [`STRUCT`].
pub(crate) const I32: u8 = 5;
/// A list; see [`I32`].
pub(crate) const LIST: u8 = 9;
/// A structure; see [`I32`].
pub(crate) const STRUCT: u8 = 12;

/// A reader of Thrift's compact protocol.
pub(crate) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Compact<'a> {
    /// Creates a reader at the beginning of a structure.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn byte(&mut self) -> std::result::Result<u8, ThriftError> {
        let byte = self.bytes.get(self.at).copied().ok_or(ThriftError::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn over(&mut self, bytes: u64) -> std::result::Result<(), ThriftError> {
        let to = usize::try_from(bytes).ok().and_then(|bytes| self.at.checked_add(bytes));
        self.at = to.filter(|&to| to <= self.bytes.len()).ok_or(ThriftError::Short)?;
        Ok(())
    }

    fn varint(&mut self) -> std::result::Result<u64, ThriftError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ThriftError::Header)
    }

    /// Reads a signed number in zigzag encoding.
    pub(crate) fn integer(&mut self) -> std::result::Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Passes the fields of a structure to `take`: number and kind. `take` reads the value.
    pub(crate) fn each_field(
        &mut self,
        mut take: impl FnMut(&mut Self, i64, u8) -> std::result::Result<(), ThriftError>,
    ) -> std::result::Result<(), ThriftError> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            let kind = head & 15;
            if kind == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.integer()?,
                more => id.checked_add(i64::from(more)).ok_or(ThriftError::Header)?,
            };
            take(self, id, kind)?;
        }
    }

    /// Reads the beginning of a list: the declared number of items, and their kind.
    pub(crate) fn list(&mut self) -> std::result::Result<(u64, u8), ThriftError> {
        let head = self.byte()?;
        let items = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((items, head & 15))
    }

    /// Skips a field of this kind, whose structures are nested at most `depth` deep.
    pub(crate) fn skip(&mut self, kind: u8, depth: u32) -> std::result::Result<(), ThriftError> {
        let deeper = depth.checked_sub(1).ok_or(ThriftError::Header)?;
        match kind {
            1 | 2 => Ok(()),
            3 => self.over(1),
            4..=6 => self.varint().map(drop),
            7 => self.over(8),
            8 => {
                let bytes = self.varint()?;
                self.over(bytes)
            }
            LIST | 10 => {
                let (items, kind) = self.list()?;
                // In a list, a Boolean takes a byte.
                let kind = if matches!(kind, 1 | 2) { 3 } else { kind };
                (0..items).try_for_each(|_| {
                    let before = self.at;
                    self.skip(kind, deeper)?;
                    // An item of a list must have a field. Otherwise a few bytes would hold many
                    // items, each of which takes much memory.
                    if kind == STRUCT && self.at == before + 1 {
                        Err(ThriftError::Header)
                    } else {
                        Ok(())
                    }
                })
            }
            STRUCT => self.each_field(|inner, _, kind| inner.skip(kind, deeper)),
            _ => Err(ThriftError::Header),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn zigzag(value: i64) -> Vec<u8> {
        let mut left = ((value << 1) ^ (value >> 63)) as u64;
        let mut bytes = Vec::new();
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    /// Returns a header of a dictionary: kind 2, its sizes, a checksum, and `entries`.
    fn header(unpacked: i64, packed: i64, entries: i64) -> Vec<u8> {
        let mut bytes = vec![0x15];
        bytes.extend(zigzag(2));
        for size in [unpacked, packed, 7] {
            bytes.push(0x15);
            bytes.extend(zigzag(size));
        }
        bytes.extend([0x3c, 0x15]);
        bytes.extend(zigzag(entries));
        bytes.extend([0x15, 0, 0, 0]);
        bytes
    }

    #[test]
    fn sizes_are_checked_before_room_is_made() {
        let check = |bytes: &[u8]| check_header(bytes, 1000);
        assert_eq!(check(&header(1000, 10, 500)), Ok(()));
        assert_eq!(check(&header(1001, 10, 5)), Err(ThriftError::Large(1001)));
        assert_eq!(check(&header(10, 1001, 5)), Err(ThriftError::Large(1001)));
        assert_eq!(check(&header(-1, 10, 5)), Err(ThriftError::Large(-1)));
        assert_eq!(
            check(&header(i64::from(i32::MAX), 10, 5)),
            Err(ThriftError::Large(i64::from(i32::MAX)))
        );
        assert_eq!(
            check(&header(1000, 10, 1_000_000)),
            Err(ThriftError::Header),
            "a dictionary of more than its bytes"
        );
        let good = header(1000, 10, 500);
        for cut in 0..good.len() {
            assert_eq!(check(&good[..cut]), Err(ThriftError::Short), "{cut}");
        }
        // A second size, which another reader might take for the page's.
        let mut twice = good[..good.len() - 1].to_vec();
        twice.extend([0x05, 0x04]);
        twice.extend(zigzag(900));
        twice.push(0);
        assert_eq!(check(&twice), Err(ThriftError::Header));
        assert_eq!(check(&[0]), Err(ThriftError::Header), "no sizes");
        assert_eq!(check(&[0x1c; 100]), Err(ThriftError::Header), "deeper than a header is");
        // Values of an encoding that is not read, in a header of either version.
        let values = |field: u8, encoding_is: u8, encoding: i64| {
            let mut bytes = vec![0x15, 0, 0x15, 2, 0x15, 2, (field - 3) << 4 | 12];
            bytes.push(encoding_is << 4 | 5);
            bytes.extend(zigzag(encoding));
            bytes.extend([0, 0]);
            check(&bytes)
        };
        for (field, encoding_is) in [(5, 2), (8, 4)] {
            assert_eq!(values(field, encoding_is, 8), Ok(()));
            for bad in [6, 7, 10, 1, -1] {
                assert_eq!(values(field, encoding_is, bad), Err(ThriftError::Encoding(bad)));
            }
        }
        // A list that says it is longer than can be.
        assert_eq!(check(&[0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(ThriftError::Short));
    }
}
