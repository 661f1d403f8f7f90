//! A Parquet file that is not read into memory.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use vfl_core::data::Limits;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::RecordIds;
use vfl_features::features::Features;
use vfl_features::stores::{DataConfig, ParquetConfig};
use vfl_protocol::RefusalKind;

use crate::rows::{Row, SCHEMA, csv, row, rows};
use crate::site::{ids, schema, write_parquet_as};

/// `[data]` of a file that stays on disk, with its schema beside it.
fn config(file: &Path) -> DataConfig {
    let schema = file.with_extension("toml");
    std::fs::write(&schema, SCHEMA).unwrap();
    DataConfig { parquet: Some(ParquetConfig::on_disk(file)), ..DataConfig::of(schema) }
}

fn refused(file: &Path) -> String {
    config(file).open().unwrap_err().to_string()
}

fn named(at: impl IntoIterator<Item = usize>) -> RecordIds {
    ids(at.into_iter().map(|i| format!("r{i}")))
}

async fn same(features: &Features, table: &FeatureTable, asked: &RecordIds) {
    let found = features.lookup(asked).await.unwrap();
    let wanted = table.fetch(asked).unwrap();
    let bits =
        |values: &nalgebra::DMatrix<f64>| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(found.block.matrix()), bits(wanted.matrix()));
    let labels = table.labels().unwrap();
    let wanted: Vec<u32> = asked.iter().map(|id| labels[table.position(id).unwrap()]).collect();
    assert_eq!(found.labels.unwrap(), wanted);
}

/// Whatever is asked for in whatever order, kept or not, it is what the file in memory gives, to the last bit.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_the_file_in_memory() {
    const N: usize = 30_000;
    let all = rows(N);
    let text = csv(&all);
    let table = FeatureTable::from_reader(
        schema(),
        Path::new("reference"),
        text.as_bytes(),
        &Limits::default(),
    );
    let table = table.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for (name, group, compression, cache_bytes) in [
        ("one-group", N, Compression::UNCOMPRESSED, 64 << 20),
        ("zstd", 20_000, zstd, 1 << 20),
        ("groups", 1000, Compression::SNAPPY, 0),
    ] {
        let path = dir.path().join(name);
        write_parquet_as(&path, &all, group, compression);
        let mut config = config(&path);
        config.parquet.as_mut().unwrap().cache_bytes = cache_bytes;
        let features = config.open().unwrap();
        features.check().await.unwrap();
        // In the order of the file, and back.
        for from in (0..N).step_by(1500) {
            same(&features, &table, &named(from..(from + 1500).min(N))).await;
        }
        same(&features, &table, &named((20_000..24_000).rev())).await;
        // Here and there: one record of many stretches, and of many pages.
        same(&features, &table, &named((0..40).map(|i| (i * 7919) % N))).await;
        same(&features, &table, &named((0..4000).map(|i| (i * 7919) % N))).await;
        for at in [0, 1, 299, 300, 8191, 8192, 19_999, 20_000, N - 1] {
            same(&features, &table, &named([at])).await;
        }
        let found = features.lookup(&ids(["nobody", "r29999", "r30000", "r0"])).await.unwrap();
        assert_eq!(found.held, [1, 3]);
        assert_eq!(features.ids().await.unwrap(), *table.ids(), "in the order of the file");
        let features = Arc::new(features);
        let lookups = (0..8).map(|k| {
            let (features, asked) = (
                features.clone(),
                named(
                    (0..2000)
                        .map(move |i| (i * (2 * k + 1) * 7) % N)
                        .collect::<std::collections::BTreeSet<_>>(),
                ),
            );
            tokio::spawn(async move { (features.lookup(&asked).await.unwrap(), asked) })
        });
        for lookup in lookups.collect::<Vec<_>>() {
            let (found, asked) = lookup.await.unwrap();
            assert_eq!(found.block, table.fetch(&asked).unwrap());
        }
        assert!(
            features
                .whole("an audit")
                .unwrap_err()
                .to_string()
                .contains("an audit takes all records")
        );
    }
}

#[test]
fn bad_ids_are_refused_when_the_file_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let write = |change: &dyn Fn(&mut Vec<Row>)| {
        let mut rows = rows(3000);
        change(&mut rows);
        write_parquet_as(&path, &rows, 1000, Compression::SNAPPY);
        refused(&path)
    };
    let said = write(&|rows| rows[2500].id = "r17".into());
    assert!(
        said.contains(
            "x.parquet, row 2501, column customer id: an earlier line has the same record id"
        ),
        "{said}"
    );
    let said = write(&|rows| rows.iter_mut().for_each(|row| row.id = "same".into()));
    assert!(said.contains("row 2, column customer id: an earlier line has the same"), "{said}");
    let said = write(&|rows| rows[1200].id = String::new());
    assert!(
        said.contains("row 1201, column customer id: record id at position 1200 is empty"),
        "{said}"
    );
    let said = write(&|rows| rows[5].id = "a\nsecret".into());
    assert!(
        said.contains("row 6") && said.contains("control character") && !said.contains("secret"),
        "{said}"
    );
    let said = write(&|rows| rows[7].id = "x".repeat(2000));
    assert!(said.contains("row 8") && said.contains("length of a field"), "{said}");
    let said = write(&|rows| rows.clear());
    assert!(said.contains("there is no record"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_gives_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    write_parquet_as(&path, &rows(2000), 1000, Compression::SNAPPY);
    let whole = std::fs::read(&path).unwrap();
    config(&path).open().unwrap();
    for bad in
        [&b""[..], b"customer id,income\n", &whole[..whole.len() / 2], &whole[whole.len() / 2..]]
    {
        std::fs::write(&path, bad).unwrap();
        let said = refused(&path);
        assert!(said.contains("x.parquet") && said.contains("Parquet"), "{said}");
    }
    // Any byte of it: what is noticed is an error of its own, and what is not, a value, reads as one.
    let asked = named((0..2000).step_by(7));
    let mut errors = 0;
    for at in (0..whole.len()).step_by(whole.len() / 400) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        match config(&path).open() {
            Err(error) => {
                assert!(error.to_string().contains("x.parquet"), "{error}");
                errors += 1;
            }
            Ok(features) => {
                if let Err(error) = features.lookup(&asked).await {
                    assert_eq!(
                        vfl_features::features::refusal(&error).kind,
                        RefusalKind::Internal,
                        "{error}"
                    );
                    assert!(
                        error.to_string().starts_with("the Parquet file \"x.parquet\""),
                        "{error}"
                    );
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 20, "{errors}");
}

/// Pages that unpack to more than there is room for, however small they are in the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_too_large_is_refused() {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let message = "message m { REQUIRED BYTE_ARRAY id (UTF8); REQUIRED DOUBLE f; }";
    let kind = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let write = |large: bool, n: usize| {
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(if large { 1 << 30 } else { 1 << 20 })
            .set_data_page_row_count_limit(if large { usize::MAX } else { 20_000 })
            .build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::file::writer::SerializedFileWriter::new(
            file,
            kind.clone(),
            Arc::new(properties),
        );
        let mut group = writer.as_mut().unwrap().next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ids: Vec<ByteArray> =
            (0..n).map(|i| ByteArray::from(format!("r{i}").as_str())).collect();
        column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&vec![0.5; n], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.unwrap().close().unwrap();
        let config = config(&path);
        let schema =
            "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n";
        std::fs::write(&config.schema, schema).unwrap();
        config.open()
    };
    assert!(write(false, 2_500_000).is_ok());
    let said = write(true, 2_500_000).unwrap_err().to_string();
    assert!(said.contains("x.parquet") && said.contains("write it with smaller pages"), "{said}");
    assert!(std::fs::metadata(&path).unwrap().len() < 16 << 20, "small as it is");
}

/// A time is its day in UTC, whatever the unit that the file has, in memory and on disk.
#[tokio::test(flavor = "multi_thread")]
async fn times_of_every_unit_are_days() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    for (unit, second) in [("MILLIS", 1_000), ("MICROS", 1_000_000), ("NANOS", 1_000_000_000)] {
        let message = format!(
            "message m {{ REQUIRED BYTE_ARRAY id (UTF8); REQUIRED INT64 at (TIMESTAMP({unit},true)); }}"
        );
        let kind = Arc::new(parquet::schema::parser::parse_message_type(&message).unwrap());
        let file = std::fs::File::create(&path).unwrap();
        let properties = parquet::file::properties::WriterProperties::builder().build();
        let writer =
            parquet::file::writer::SerializedFileWriter::new(file, kind, Arc::new(properties));
        let mut writer = writer.unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let names = ["r0", "r1"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
        column.close().unwrap();
        // The last second of 1969, and noon of 1970-01-11.
        let times = [-second, (10 * 86_400 + 43_200) * second];
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        for memory in [true, false] {
            let mut config = config(&path);
            config.parquet.as_mut().unwrap().memory = memory;
            let schema = "id = \"id\"\n[[features]]\nname = \"at\"\nkind = \"date\"\nmin = \"1969-12-31\"\nmax = \"1970-01-11\"\n";
            std::fs::write(&config.schema, schema).unwrap();
            let found = config.open().unwrap().lookup(&ids(["r0", "r1"])).await.unwrap();
            assert_eq!(found.block.matrix().as_slice(), [0.0, 1.0], "{unit}, memory: {memory}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let write = |path: &Path, rows: &[Row]| write_parquet_as(path, rows, 1000, Compression::SNAPPY);
    let asked = named([3, 700]);
    let later = |by: u64| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified + std::time::Duration::from_secs(by)).unwrap();
    };
    let changes: [&dyn Fn(); 4] = [
        &|| std::fs::File::options().append(true).open(&path).unwrap().write_all(b"x").unwrap(),
        &|| std::fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap(),
        // Written again where it stands, with other records.
        &|| {
            write(&path, &(0..1000).map(|i| row(i + 500)).collect::<Vec<_>>());
            later(5);
        },
        &|| later(7),
    ];
    for change in changes {
        write(&path, &rows(1000));
        let features = config(&path).open().unwrap();
        let before = features.lookup(&asked).await.unwrap();
        assert_eq!(features.lookup(&asked).await.unwrap(), before);
        change();
        for said in [
            features.lookup(&asked).await.unwrap_err(),
            features.check().await.unwrap_err(),
            features.ids().await.unwrap_err(),
        ] {
            assert!(
                said.to_string().contains("the file has changed since it was opened"),
                "{said}"
            );
            assert_eq!(vfl_features::features::refusal(&said).kind, RefusalKind::Internal);
        }
    }
    // A new file under its name is not the one that is open.
    write(&path, &rows(1000));
    let features = config(&path).open().unwrap();
    let before = features.lookup(&asked).await.unwrap();
    let beside = dir.path().join("y.parquet");
    write(&beside, &rows(10));
    std::fs::rename(&beside, &path).unwrap();
    assert_eq!(features.lookup(&asked).await.unwrap(), before);
    assert_eq!(config(&path).open().unwrap().missing(&asked).await.unwrap(), 1);
}
