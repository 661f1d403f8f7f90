//! Parquet files that are damaged, or made to do harm: each is an error that names the file, and takes no more memory than a file of its
//! size may.

use std::path::{Path, PathBuf};

use parquet::basic::{Compression, ZstdLevel};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vfl_core::types::RecordIds;
use vfl_features::stores::{DataConfig, ParquetConfig};

use crate::rows::{SCHEMA, rows};
use crate::site::{ids, write_parquet_as};

/// What the process with changed footers may have, with its program and threads.
#[cfg(target_os = "linux")]
const MEMORY_KIB: u64 = 1 << 20;
/// Files of the run with changed footers.
const ROUNDS: usize = 3000;

struct Site {
    dir: tempfile::TempDir,
    asked: RecordIds,
    waiting: tokio::runtime::Runtime,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("s.toml"), SCHEMA).unwrap();
        let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { dir, asked: ids((0..90).step_by(7).map(|i| format!("r{i}"))), waiting }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("x.parquet")
    }

    /// A file of 90 records in three groups.
    fn whole(&self, compression: Compression) -> Vec<u8> {
        write_parquet_as(&self.path(), &rows(90), 30, compression);
        std::fs::read(self.path()).unwrap()
    }

    /// Reads a file of these bytes into memory, or some records of it where it is; says what is wrong.
    fn read(&self, bytes: &[u8], memory: bool) -> Result<(), String> {
        std::fs::write(self.path(), bytes).unwrap();
        let file = |path: &Path| {
            if memory { ParquetConfig::new(path) } else { ParquetConfig::on_disk(path) }
        };
        let of = DataConfig::of(self.dir.path().join("s.toml"));
        let features = DataConfig { parquet: Some(file(&self.path())), ..of }
            .open()
            .map_err(|e| e.to_string())?;
        let found = self.waiting.block_on(features.lookup(&self.asked));
        found.map(drop).map_err(|e| e.to_string())
    }

    fn refused(&self, bytes: &[u8]) -> [String; 2] {
        [true, false].map(|memory| {
            let said = self.read(bytes, memory).unwrap_err();
            assert!(said.contains("x.parquet") && !said.contains("panic"), "{said}");
            said
        })
    }
}

/// The first byte of the footer.
fn footer(bytes: &[u8]) -> usize {
    let tail = bytes.len() - 8;
    tail - u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize
}

/// The file with a root of its schema that claims as many children as can be: the library would make room for all of them.
fn with_huge_root(whole: &[u8]) -> Vec<u8> {
    let (from, tail) = (footer(whole), whole.len() - 8);
    let root = whole[from..].windows(9).position(|name| name == b"customers").unwrap() + from + 9;
    assert_eq!(whole[root..root + 2], [0x15, 7 * 2], "the number of its children");
    let longer = (tail - from + 4) as u32;
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    [&whole[..=root], &huge, &whole[root + 2..tail], &longer.to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn a_footer_that_claims_too_much_is_told() {
    let site = Site::new();
    let whole = site.whole(Compression::SNAPPY);
    let tail = whole.len() - 8;
    for claimed in [whole.len() as u32, u32::MAX] {
        let mut bytes = whole.clone();
        bytes[tail..tail + 4].copy_from_slice(&claimed.to_le_bytes());
        for said in site.refused(&bytes) {
            assert!(
                said.contains(&format!("its footer claims {claimed} bytes, the whole file has")),
                "{said}"
            );
        }
    }
    let bytes = with_huge_root(&whole);
    for said in site.refused(&bytes) {
        assert!(
            said.contains("its footer claims 2147483647 columns in a group, and has fewer"),
            "{said}"
        );
    }
}

#[test]
fn row_groups_and_columns_of_any_size_are_told() {
    use parquet::file::metadata::{
        ColumnChunkMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
    };
    let site = Site::new();
    let whole = site.whole(Compression::UNCOMPRESSED);
    let written = ParquetMetaDataReader::new()
        .parse_and_finish(&std::fs::File::open(site.path()).unwrap())
        .unwrap();
    let refused = |change: &dyn Fn(RowGroupMetaData) -> RowGroupMetaData| {
        let groups = written.row_groups().iter().cloned().map(change).collect();
        let changed = written.clone().into_builder().set_row_groups(groups).build();
        let mut bytes = whole[..footer(&whole)].to_vec();
        ParquetMetaDataWriter::new(&mut bytes, &changed).finish().unwrap();
        site.refused(&bytes)
    };
    let rows =
        |rows| refused(&move |group| group.into_builder().set_num_rows(rows).build().unwrap());
    assert!(rows(-1).iter().all(|said| said.contains("row group 1 claims -1 rows")));
    for [in_memory, on_disk] in [rows(1_000_000), rows(1 << 40), rows(1 << 60)] {
        assert!(
            in_memory.contains("row 31: not a valid Parquet file: the file is damaged"),
            "{in_memory}"
        );
        assert!(
            on_disk.contains("the number of records") || on_disk.contains("fewer values"),
            "{on_disk}"
        );
    }
    let chunk = |change: &dyn Fn(ColumnChunkMetaData) -> ColumnChunkMetaData| {
        refused(&|group| {
            let columns = group.columns().iter().cloned().map(change).collect();
            group.into_builder().set_column_metadata(columns).build().unwrap()
        })
    };
    for size in [whole.len() as i64, i64::MAX / 8, -1] {
        let of_size = chunk(&move |chunk| {
            chunk.into_builder().set_total_compressed_size(size).build().unwrap()
        });
        assert!(
            of_size
                .iter()
                .all(|said| said.contains("column 1 of row group 1 claims bytes that the file"))
        );
    }
}

#[test]
fn a_file_that_is_cut_off_is_told() {
    let site = Site::new();
    let whole = site.whole(Compression::SNAPPY);
    let from = footer(&whole);
    for end in (0..from).step_by(97).chain(from..whole.len()) {
        site.refused(&whole[..end]);
    }
    // Cut in the middle, with its end in place.
    for cut in (from..whole.len() - 8).step_by(5) {
        site.refused(&[&whole[..cut], &whole[whole.len() - 8..]].concat());
    }
}

/// A page of texts that are deltas of each other can stand for any number of texts of any length.
#[test]
fn texts_as_deltas_are_not_read() {
    use parquet::basic::Encoding;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    let site = Site::new();
    let message = "message m { REQUIRED BYTE_ARRAY id (UTF8); REQUIRED DOUBLE f; }";
    let kind = std::sync::Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let schema = "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n";
    std::fs::write(site.dir.path().join("s.toml"), schema).unwrap();
    for (encoding, read) in [
        (Encoding::PLAIN, true),
        (Encoding::DELTA_LENGTH_BYTE_ARRAY, false),
        (Encoding::DELTA_BYTE_ARRAY, false),
    ] {
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_column_encoding("id".into(), encoding)
            .build();
        let file = std::fs::File::create(site.path()).unwrap();
        let mut writer =
            parquet::file::writer::SerializedFileWriter::new(file, kind.clone(), properties.into())
                .unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ids: Vec<ByteArray> =
            (0..90).map(|i| ByteArray::from(format!("r{i}").as_str())).collect();
        column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[0.5; 90], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let bytes = std::fs::read(site.path()).unwrap();
        if read {
            [true, false].into_iter().for_each(|memory| site.read(&bytes, memory).unwrap());
            continue;
        }
        for said in site.refused(&bytes) {
            assert!(
                said.contains(&format!("encoding {encoding}; write it with plain or dictionary")),
                "{said}"
            );
        }
    }
}

/// Bytes all over the footer, and some before it, changed at random: an error that names the file, or values that another file could have.
/// Where it is run on its own its process has no more memory than [`MEMORY_KIB`].
#[test]
#[ignore = "run by `a_changed_footer_takes_no_memory` in a process of its own"]
fn changed_footers_are_told() {
    let site = Site::new();
    let mut rng = StdRng::seed_from_u64(20);
    for compression in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())]
    {
        let whole = site.whole(compression);
        let (from, mut errors) = (footer(&whole), 0);
        [true, false].into_iter().for_each(|memory| site.read(&whole, memory).unwrap());
        site.refused(&with_huge_root(&whole));
        for round in 0..ROUNDS / 3 {
            let mut bytes = whole.clone();
            for _ in 0..1 + round % 3 {
                // One in eight is in a page.
                let at = if rng.random_range(0..8) == 0 {
                    rng.random_range(0..from)
                } else {
                    rng.random_range(from..whole.len())
                };
                bytes[at] = match rng.random_range(0..4) {
                    0 => 0xff,
                    1 => bytes[at] ^ 1 << rng.random_range(0..8),
                    _ => rng.random(),
                };
            }
            for memory in [true, false] {
                if let Err(said) = site.read(&bytes, memory) {
                    assert!(said.contains("x.parquet"), "{said}");
                    errors += 1;
                }
            }
        }
        assert!(errors > ROUNDS / 6, "{errors}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_changed_footer_takes_no_memory() {
    let program = std::env::current_exe().unwrap();
    let limited = format!("ulimit -v {MEMORY_KIB} && exec \"$0\" \"$@\"");
    let mut child = std::process::Command::new("sh");
    child.args(["-c", &limited]).arg(program);
    child.args([
        "--ignored",
        "--exact",
        "parquet_damaged::changed_footers_are_told",
        "--test-threads",
        "1",
    ]);
    let out = child.env("MALLOC_ARENA_MAX", "1").env_remove("RUST_BACKTRACE").output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
