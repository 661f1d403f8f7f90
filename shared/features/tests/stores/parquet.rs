//! What only files do.

use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_features::stores::{LoadError, SqliteConfig, load_sqlite};

use crate::rows::{csv, rows};
use crate::site::{Kind, Site, ids, schema, write_parquet};

#[test]
fn a_damaged_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    write_parquet(&path, &rows(2000));
    let whole = std::fs::read(&path).unwrap();
    let config = |dir: &std::path::Path| {
        std::fs::write(dir.join("s.toml"), crate::rows::SCHEMA).unwrap();
        let parquet = Some(vfl_features::stores::ParquetConfig::new(&path));
        vfl_features::stores::DataConfig {
            parquet,
            ..vfl_features::stores::DataConfig::of(dir.join("s.toml"))
        }
    };
    config(dir.path()).open().unwrap();
    for bad in
        [&b""[..], b"customer id,income\n", &whole[..whole.len() / 2], &whole[whole.len() / 2..]]
    {
        std::fs::write(&path, bad).unwrap();
        let error = config(dir.path()).open().unwrap_err().to_string();
        assert!(error.contains("x.parquet") && error.contains("Parquet"), "{error}");
    }
}

/// A file is loaded whole or not at all, and from either format to the same rows.
#[tokio::test(flavor = "multi_thread")]
async fn loading_is_all_or_nothing() {
    let site = Site::of(Kind::Sqlite, &rows(50)).await.unwrap();
    let sqlite = site.config.sqlite.clone().unwrap();
    let before = site.ask(&ids(["r3", "r49"])).await.unwrap();
    let load = async |from: &str, replace| {
        load_sqlite(&sqlite, &schema(), &site.path(from), replace).await
    };
    assert!(matches!(load("x.csv", false).await, Err(LoadError::Exists(_))));
    let good = csv(&rows(50));
    let line = good.lines().nth(7).unwrap();
    for (text, says) in [
        (
            format!("{good}{line}\n"),
            "line 52, column customer id: an earlier line has the same record id",
        ),
        (format!("{good}r99,9,0,none,clerk,no\n"), "line 52, column income"),
        (good.replacen("income", "wages", 1), "column wages"),
        (good.lines().next().unwrap().to_owned(), "there is no record"),
        (format!("{good},0,0,none,clerk,no\n"), "record id at position 50 is empty"),
    ] {
        std::fs::write(site.path("bad.csv"), text).unwrap();
        let error = load("bad.csv", true).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(site.ask(&ids(["r3", "r49"])).await.unwrap(), before);
    }
    write_parquet(&site.path("y.parquet"), &rows(60));
    assert_eq!(load("y.parquet", true).await.unwrap(), 60);
    assert_eq!(site.ask(&ids(["r3", "r49"])).await.unwrap(), before);
    assert_eq!(site.ask(&ids(["r59"])).await.unwrap().held, [0]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&sqlite.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "values are for their owner alone");
    }
    let left = std::fs::read_dir(sqlite.file.parent().unwrap())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".features"));
    assert_eq!(left.count(), 0, "nothing is left of what was refused");
    let nowhere = SqliteConfig::new("/nowhere/x.sqlite");
    let error = load_sqlite(&nowhere, &schema(), &site.path("x.csv"), false).await.unwrap_err();
    assert!(matches!(error, LoadError::Write { .. }), "{error}");
}

/// As many columns as SQLite has, with that of the id; one more is refused before anything is written.
#[tokio::test]
async fn a_table_of_sqlite_has_2000_columns() {
    let dir = tempfile::tempdir().unwrap();
    for (features, fits) in [(1999, true), (2000, false)] {
        let all = (0..features).map(|i| FeatureSpec::numeric(format!("f{i}"), 0.0, 1.0)).collect();
        let schema = FeatureSchema::new(all, None).unwrap();
        let names: String = (0..features).map(|i| format!(",f{i}")).collect();
        let csv = dir.path().join("wide.csv");
        std::fs::write(
            &csv,
            format!("{}{names}\nr0{}\n", schema.id_column(), ",1".repeat(features)),
        )
        .unwrap();
        let sqlite = SqliteConfig::new(dir.path().join(format!("{features}.sqlite")));
        let loaded = load_sqlite(&sqlite, &schema, &csv, false).await;
        assert_eq!((loaded.is_ok(), sqlite.file.exists()), (fits, fits), "{features}");
        if let Err(error) = loaded {
            assert!(
                error.to_string().contains("2000 columns at most, the schema has 2001"),
                "{error}"
            );
        }
    }
}

/// Files by Apache Arrow's writer (`scripts/arrow/parquet-vectors.py`): every type of column that is a number or text.
#[test]
fn files_of_another_writer_are_read() {
    const SCHEMA: &str = r#"
        id = "id"
        [[features]]
        name = "number"
        kind = "numeric"
        min = 100
        max = 111
        [[features]]
        name = "small"
        kind = "ordinal"
        min = 0
        max = 4
        [[features]]
        name = "single"
        kind = "numeric"
        min = 0
        max = 2
        [[features]]
        name = "double"
        kind = "numeric"
        min = 0
        max = 2
        [[features]]
        name = "price"
        kind = "numeric"
        min = 0
        max = 4
        [[features]]
        name = "truth"
        kind = "binary"
        [[features]]
        name = "text"
        kind = "ordinal"
        categories = ["", "ä b", "c,d"]
        [[features]]
        name = "wide"
        kind = "ordinal"
        categories = ["x", "y"]
        [[features]]
        name = "coded"
        kind = "ordinal"
        categories = ["p", "q", "r"]
    "#;
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, schema: &str, memory: bool| {
        let file =
            std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name);
        std::fs::write(dir.path().join("s.toml"), schema).unwrap();
        let parquet = Some(vfl_features::stores::ParquetConfig {
            memory,
            ..vfl_features::stores::ParquetConfig::new(file)
        });
        let config = vfl_features::stores::DataConfig {
            parquet,
            ..vfl_features::stores::DataConfig::of(dir.path().join("s.toml"))
        };
        config.open().map_err(|e| e.to_string())
    };
    for name in ["plain.parquet", "snappy.parquet", "zstd.parquet", "pages-v2.parquet"] {
        let features = read(name, SCHEMA, true).unwrap();
        let table = features.memory().unwrap();
        assert!(table.ids().iter().eq((0..12).map(|i| format!("k{i}"))), "{name}");
        for (i, column) in table.block().matrix().column_iter().enumerate() {
            let (n, cycle) = (i as f64, |of: usize| (i % of) as f64);
            let text = [1.0, 2.0, 0.0][i % 3] / 2.0;
            let wanted = [
                n / 11.0,
                cycle(5) / 4.0,
                n / 8.0 / 2.0,
                n / 7.0 / 2.0,
                n / 4.0 / 4.0,
                f64::from(i % 3 == 0),
                text,
                cycle(2),
                cycle(3) / 2.0,
            ];
            assert_eq!(column.as_slice(), wanted, "{name}, row {i}");
        }
        let one = |name: &str| {
            format!(
                "id = \"id\"\n[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 0\nmax = 20\n"
            )
        };
        for (column, says) in [
            ("gap", "row 8, column gap: there is no value"),
            ("list", "row 1, column list: neither a number nor text"),
            ("none", "column none: the schema declares this column"),
        ] {
            let refused = read(name, &one(column), true).unwrap_err();
            assert!(refused.contains(name) && refused.contains(says), "{refused}");
            // Left on disk, a value that is missing is told when its record is asked for, and a type at the start.
            let says = says.split_once(", ").map_or(says, |(_, says)| says);
            let refused = match read(name, &one(column), false) {
                Err(refused) => refused,
                Ok(features) => {
                    let waiting = tokio::runtime::Runtime::new().unwrap();
                    assert_eq!(waiting.block_on(features.lookup(&ids(["k6"]))).unwrap().held, [0]);
                    waiting.block_on(features.lookup(&ids(["k6", "k7"]))).unwrap_err().to_string()
                }
            };
            assert!(refused.contains(name) && refused.contains(says), "{refused}");
        }
        // A column of times, declared as a date, is the same in memory and on disk.
        let date = one("when").replace("numeric", "date");
        let date = date.replace("min = 0\nmax = 20", "min = \"1970-01-01\"\nmax = \"2100-01-01\"");
        let [in_memory, on_disk] = [true, false].map(|memory| {
            let waiting = tokio::runtime::Runtime::new().unwrap();
            let features = read(name, &date, memory).unwrap();
            waiting.block_on(features.lookup(table.ids())).unwrap().block
        });
        assert_eq!(in_memory, on_disk);
        assert!(read(name, &one("when"), true).unwrap_err().contains("column when: not a number"));
        let on_disk = read(name, SCHEMA, false).unwrap();
        let waiting = tokio::runtime::Runtime::new().unwrap();
        let found = waiting.block_on(on_disk.lookup(table.ids())).unwrap();
        assert_eq!(found.block.matrix(), table.block().matrix(), "{name}");
        assert_eq!(waiting.block_on(on_disk.ids()).unwrap(), *table.ids());
    }
    for memory in [true, false] {
        let refused = read("gzip.parquet", SCHEMA, memory).unwrap_err();
        assert!(
            refused.contains("gzip.parquet") && refused.contains("write it with Snappy"),
            "{refused}"
        );
    }
}

/// Ids of every type that exports have: one text for one id, in memory and on disk, or an error that names the column.
#[test]
fn ids_of_all_types_have_one_form() {
    let dir = tempfile::tempdir().unwrap();
    let file =
        std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ids.parquet"));
    let waiting = tokio::runtime::Runtime::new().unwrap();
    let read = |column: &str, memory: bool| {
        let text = format!(
            "id = \"{column}\"\n[[features]]\nname = \"x\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n"
        );
        std::fs::write(dir.path().join("s.toml"), text).unwrap();
        let parquet = Some(vfl_features::stores::ParquetConfig {
            memory,
            ..vfl_features::stores::ParquetConfig::new(&file)
        });
        let config = vfl_features::stores::DataConfig {
            parquet,
            ..vfl_features::stores::DataConfig::of(dir.path().join("s.toml"))
        };
        let features = config.open().map_err(|e| e.to_string())?;
        let ids = waiting.block_on(features.ids()).map_err(|e| e.to_string())?;
        let found = waiting.block_on(features.lookup(&ids)).map_err(|e| e.to_string())?;
        assert_eq!(found.block.matrix().as_slice(), [0.25, 0.5, 0.75], "{column}");
        Ok::<_, String>(ids.iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let (ten37, ten70) = (format!("1{}", "0".repeat(37)), format!("1{}", "0".repeat(70)));
    let (min, max) = (i64::MIN.to_string(), i64::MAX.to_string());
    for memory in [true, false] {
        for (column, ids) in [
            ("dec9", ["1001", "-7", "0"]),
            ("dec18", ["1001", "-7", "0"]),
            ("dec38", [&*ten37, "-7", "0"]),
            ("dec76", [&*ten70, "-7", "0"]),
            ("cents", ["1001", "-0.5", "0.05"]),
            ("i8", ["127", "-7", "0"]),
            ("u8", ["255", "7", "0"]),
            ("u32", ["4294967295", "7", "0"]),
            ("i64", [&*max, &*min, "0"]),
            ("u64", ["18446744073709551615", "9223372036854775808", "7"]),
            ("f32", ["1001", "-7", "0.5"]),
            ("f64", ["1001", "-7", "0.5"]),
            ("text", ["1001", "007", "é"]),
            ("large", ["1001", "007", "é"]),
            ("coded", ["1001", "007", "é"]),
            ("binary", ["1001", "007", "é"]),
            ("fixed", ["1001", "0007", "abcd"]),
            ("date", ["1970-01-02", "1970-01-03", "1970-01-04"]),
            (
                "uuid",
                [
                    "00000000-0000-0000-0000-000000000001",
                    "ffffffff-ffff-ffff-ffff-ffffffffffff",
                    "61626364-6566-6768-696a-6b6c6d6e6f70",
                ],
            ),
        ] {
            assert_eq!(read(column, memory).unwrap(), ids, "{column}, in memory: {memory}");
        }
        for (column, says) in [("nan", "not finite"), ("raw", "not UTF-8")] {
            let error = read(column, memory).unwrap_err();
            assert!(error.contains(says) && error.contains(column), "{error}");
        }
    }
}
