//! What holds of every store.

use std::time::{Duration, Instant};

use vfl_core::data::Limits;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::RowStatus;
use vfl_features::stores::CacheConfig;
use vfl_protocol::RefusalKind;

use crate::proxy::Line;
use crate::rows::{Row, csv, row, rows};
use crate::site::{Kind, Site, ids, schema};

/// Each function once for each of some stores.
macro_rules! each_of {
    ($($module:ident $kind:ident),* ; $names:tt) => {
        $(each_of!(@one $module $kind $names);)*
    };
    (@one $module:ident $kind:ident [$($name:ident),* $(,)?]) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::super::$name(crate::site::Kind::$kind).await;
            })*
        }
    };
}

mod every_store {
    each_of!(csv Csv, parquet Parquet, parquet_on_disk ParquetOnDisk, sqlite Sqlite, postgres Postgres, http Http; [
        rows_are_those_of_the_csv_file,
        long_lists_go_in_parts,
        a_value_that_the_schema_does_not_allow_is_an_error,
        a_missing_value_counts_as_the_schema_says,
        a_date_counts_in_days,
        a_label_that_is_a_number_is_read_alone,
    ]);
}

mod every_table {
    each_of!(csv Csv, parquet Parquet, parquet_on_disk ParquetOnDisk, sqlite Sqlite, postgres Postgres; [
        a_column_that_is_not_there_is_named,
        a_truth_value_is_read_in_every_spelling,
    ]);
}

mod every_store_elsewhere {
    each_of!(parquet_on_disk ParquetOnDisk, sqlite Sqlite, postgres Postgres, http Http; [
        rows_that_are_kept_are_the_same,
    ]);
}

mod every_server {
    each_of!(postgres Postgres, http Http; [
        a_dead_server_is_an_error_and_its_return_is_enough,
        a_silent_server_is_given_up,
    ]);
}

fn reference(rows: &[Row]) -> FeatureTable {
    let text = csv(rows);
    FeatureTable::from_reader(
        schema(),
        std::path::Path::new("reference"),
        text.as_bytes(),
        &Limits::default(),
    )
    .unwrap()
}

fn bits(values: &nalgebra::DMatrix<f64>) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

async fn rows_are_those_of_the_csv_file(kind: Kind) {
    let rows = rows(50);
    let Some(site) = Site::of(kind, &rows).await else { return };
    let features = site.open();
    features.check().await.unwrap();
    let asked = ids(["r7", "nobody", "r0", "r49", "R7", "r13"]);
    let found = features.lookup(&asked).await.unwrap();
    assert_eq!(found.held, [0, 2, 3, 5]);
    use RowStatus::{NotFound, Ok};
    assert_eq!(found.status(6), [Ok, NotFound, Ok, Ok, NotFound, Ok]);
    let wanted = reference(&rows).fetch(&ids(["r7", "r0", "r49", "r13"])).unwrap();
    assert_eq!(bits(found.block.matrix()), bits(wanted.matrix()), "{kind:?}");
    assert_eq!(found.labels.as_deref(), Some(&[1, 0, 1, 1][..]));
    assert_eq!(features.labels(&ids(["r1", "x", "r2"])).await.unwrap(), (1, vec![1, 0]));
    assert_eq!(features.missing(&ids(["x", "r2", "y"])).await.unwrap(), 2);
    assert_eq!(features.held(&ids(["x", "r2", "y", "r0"])).await.unwrap(), ids(["r2", "r0"]));
    assert_eq!(features.lists(), kind != Kind::Http);
    assert!(features.fetch(&asked).await.is_err());
    assert_eq!(features.lookup(&ids(["x"])).await.unwrap().block.records(), 0);
    let nobody = ids::<&str>([]);
    assert_eq!(features.lookup(&nobody).await.unwrap().held.len(), 0);
    site.remove().await;
}

/// More records than are asked for at once.
async fn long_lists_go_in_parts(kind: Kind) {
    let rows = rows(9000);
    let Some(site) = Site::of(kind, &rows).await else { return };
    let features = site.open();
    // In another order than they are kept.
    let asked = ids((0..9000).map(|i| format!("r{}", (i * 7919) % 9000)));
    let found = features.lookup(&asked).await.unwrap();
    assert_eq!(bits(found.block.matrix()), bits(reference(&rows).fetch(&asked).unwrap().matrix()));
    assert_eq!(features.missing(&asked).await.unwrap(), 0);
    if kind != Kind::Http {
        let some = ids((0..9000).map(|i| format!("r{}", i * 2)));
        assert_eq!(features.held(&some).await.unwrap(), some.slice(0, 4500));
    }
    match kind {
        Kind::Http => {
            assert!(features.ids().await.unwrap_err().to_string().contains("`train_ids`"))
        }
        _ => {
            let all = features.ids().await.unwrap();
            assert_eq!(all.len(), 9000);
            assert_eq!(features.missing(&all).await.unwrap(), 0);
        }
    }
    site.remove().await;
}

async fn a_value_that_the_schema_does_not_allow_is_an_error(kind: Kind) {
    let good = row(1);
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (Row { income: Some(2.625), ..good.clone() }, "income", "2.625"),
        (Row { income: Some(f64::NAN), ..good.clone() }, "income", "NaN"),
        (Row { income: None, ..good.clone() }, "income", "r1"),
        (Row { phone: None, ..good.clone() }, "phone", "r1"),
        (Row { degree: text("doctorate"), ..good.clone() }, "degree", "doctorate"),
        (Row { job: text("Clerk"), ..good.clone() }, "Job", "Clerk"),
        (Row { job: None, ..good.clone() }, "Job", "r1"),
        (Row { outcome: text("maybe"), ..good.clone() }, "outcome", "maybe"),
    ];
    for (bad, column, secret) in cases {
        let Some(mut site) = Site::of(kind, &[row(0), bad.clone()]).await else { return };
        let refused = site.ask(&ids(["r0", "r1"])).await.unwrap_err();
        assert!(refused.contains(&format!("column {column}")), "{kind:?}: {refused}");
        let refused = refused.replace(&site.path("").display().to_string(), "");
        assert!(!refused.contains(secret), "{kind:?}: {refused}");
        if !kind.in_memory() {
            // Whether a record is held is a question about its id, where the store can be asked so.
            let held = site.open().held(&ids(["r0", "r1", "x"])).await;
            let by_id_alone = !matches!(kind, Kind::Http | Kind::ParquetOnDisk);
            assert_eq!(held.ok(), by_id_alone.then(|| ids(["r0", "r1"])), "{kind:?}");
            let error = site.open().lookup(&ids(["r1"])).await.unwrap_err();
            assert_eq!(vfl_features::features::refusal(&error).kind, RefusalKind::Internal);
            let told = vfl_features::features::refusal_for_others(&error, "this passive party");
            assert!(
                !told.message.contains(column) && told.message.contains("its log says why"),
                "{told}"
            );
            // The other records are answered as ever.
            assert_eq!(site.ask(&ids(["r0"])).await.unwrap().held, [0]);
            if bad.income == Some(2.625) {
                let clamped = crate::rows::SCHEMA.replacen("max = 2", "max = 2\nclamp = true", 1);
                std::fs::write(site.path("clamped.toml"), clamped).unwrap();
                site.config.schema = site.path("clamped.toml");
                assert_eq!(site.ask(&ids(["r1"])).await.unwrap().block.matrix()[(0, 0)], 1.0);
            }
        }
        site.remove().await;
    }
}

/// NULL is the same from every store, and as blank text of a file.
async fn a_missing_value_counts_as_the_schema_says(kind: Kind) {
    let gaps = Row { income: None, phone: None, degree: None, job: None, ..row(1) };
    let nan = Row { income: Some(f64::NAN), ..row(2) };
    // NaN is no JSON.
    let rows = if kind == Kind::Http { vec![row(0), gaps] } else { vec![row(0), gaps, nan] };
    let Some(mut site) = Site::of(kind, &rows).await else { return };
    let mut rules = crate::rows::SCHEMA.to_owned();
    for (after, rule) in [
        ("max = 2", "missing = 0.5"),
        ("kind = \"binary\"", "missing = 1"),
        ("\"university\"]", "missing = \"school\""),
        ("\"unknown\"]", "missing = \"unknown\""),
    ] {
        rules = rules.replacen(after, &format!("{after}\n{rule}"), 1);
    }
    site.config.schema = site.path("rules.toml");
    std::fs::write(&site.config.schema, &rules).unwrap();
    if kind == Kind::Sqlite {
        // `load-features` takes missing values too.
        let sqlite = vfl_features::stores::SqliteConfig::new(site.path("loaded.sqlite"));
        let schema = vfl_core::data::schema::FeatureSchema::from_toml(&rules).unwrap();
        let from = site.path("x.csv");
        let loaded = vfl_features::stores::load_sqlite(&sqlite, &schema, &from, false).await;
        assert_eq!(loaded.unwrap(), 3);
        site.config.sqlite = Some(sqlite);
    }
    let found = site.ask(&ids(["r1"])).await.unwrap();
    assert_eq!(found.block.matrix().as_slice(), [0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0, 1.0]);
    let whole = site.ask(&ids(["r0"])).await.unwrap();
    let others = reference(&[row(0)]).fetch(&ids(["r0"])).unwrap();
    let numbers = |at: [usize; 6]| at.map(|at| whole.block.matrix()[(at, 0)].to_bits());
    assert_eq!(numbers([0, 2, 4, 5, 6, 7])[..], bits(others.matrix())[..]);
    assert_eq!((whole.block.matrix()[(1, 0)], whole.block.matrix()[(3, 0)]), (0.0, 0.0));
    if kind != Kind::Http {
        let found = site.ask(&ids(["r2"])).await.unwrap();
        assert_eq!(found.block.matrix().as_slice()[..2], [0.5, 1.0]);
    }
    site.remove().await;
}

/// Replaces the schema of a site, and loads its rows again where that is another file.
async fn described(site: &mut Site, kind: Kind, schema: &str) {
    site.config.schema = site.path("described.toml");
    std::fs::write(&site.config.schema, schema).unwrap();
    if kind == Kind::Sqlite {
        let sqlite = vfl_features::stores::SqliteConfig::new(site.path("described.sqlite"));
        let schema = vfl_core::data::schema::FeatureSchema::from_toml(schema).unwrap();
        let from = site.path("x.csv");
        vfl_features::stores::load_sqlite(&sqlite, &schema, &from, false).await.unwrap();
        site.config.sqlite = Some(sqlite);
    }
}

/// Every store has a label that is a number beside the features, and says which records have none.
async fn a_label_that_is_a_number_is_read_alone(kind: Kind) {
    let rows = [row(0), Row { income: None, ..row(1) }, row(2)];
    let Some(mut site) = Site::of(kind, &rows).await else { return };
    let others = crate::rows::SCHEMA.split("[[features]]").skip(2);
    let others = others.map(|feature| format!("[[features]]{feature}")).collect::<String>();
    let outcome = "[[features]]\nname = \"outcome\"\nkind = \"categorical\"\ncategories = [\"no\", \"yes\"]\n";
    let label = "[label]\ncolumn = \"income\"\nkind = \"number\"\n";
    let schema = |range: &str| format!("id = \"customer id\"\n{label}{range}{others}{outcome}");
    described(&mut site, kind, &schema("min = -1\nmax = 2\n")).await;
    // The tests' feature service is always asked for the income.
    if kind != Kind::Http {
        let features = site.open();
        assert!(features.schema().features().iter().all(|feature| feature.name != "income"));
        assert_eq!(features.lookup(&ids(["r1"])).await.unwrap().held, [0]);
    }
    let numbers = site.config.open_number().unwrap().unwrap();
    numbers.check().await.unwrap();
    let found = numbers.lookup(&ids(["r2", "nobody", "r1", "r0"])).await.unwrap();
    assert_eq!(found.held, [0, 2, 3]);
    let unit = |record: usize| (row(record).income.unwrap() + 1.0) / 3.0;
    assert_eq!(found.block.matrix().as_slice(), [unit(2), 0.0, 0.0, 1.0, unit(0), 0.0], "{kind:?}");
    // Without a range there is nothing to open, and the features are read all the same.
    std::fs::write(&site.config.schema, schema("")).unwrap();
    assert!(site.config.open_number().unwrap().is_none());
    site.remove().await;
}

/// A date of text is the same number of days from every store, with a time behind it or without.
async fn a_date_counts_in_days(kind: Kind) {
    let dated = |i, date: Option<&str>| Row { job: date.map(str::to_owned), ..row(i) };
    let rows = [
        dated(0, Some("2024-03-01")),
        dated(1, Some("2024-01-31 23:59:59")),
        dated(2, None),
        dated(3, Some("31.01.2024")),
    ];
    let Some(mut site) = Site::of(kind, &rows[..3]).await else { return };
    let (first, _) = crate::rows::SCHEMA.split_once("[[features]]").unwrap();
    let date = "[[features]]\nname = \"Job\"\nkind = \"date\"\nmin = \"2024-01-01\"\nmax = \"2024-03-31\"\nmissing = \"2024-01-01\"\n";
    let others = crate::rows::SCHEMA.split("[[features]]").skip(1).take(3);
    let others = others.map(|feature| format!("[[features]]{feature}")).collect::<String>();
    described(&mut site, kind, &format!("{first}{others}{date}")).await;
    let found = site.ask(&ids(["r0", "r1", "r2"])).await.unwrap();
    let days = |record| [found.block.matrix()[(3, record)], found.block.matrix()[(4, record)]];
    assert_eq!([days(0), days(1), days(2)], [[60.0 / 90.0, 0.0], [30.0 / 90.0, 0.0], [0.0, 1.0]]);
    site.remove().await;
    if kind == Kind::Sqlite {
        return;
    }
    let Some(mut site) = Site::of(kind, &rows).await else { return };
    site.config.schema = site.path("wrong.toml");
    std::fs::write(&site.config.schema, format!("{first}{others}{date}")).unwrap();
    let refused = match site.config.open() {
        Err(error) => error.to_string(),
        Ok(_) => site.ask(&ids(["r3"])).await.unwrap_err().to_string(),
    };
    assert!(refused.contains("YYYY-MM-DD") && !refused.contains("31.01"), "{kind:?}: {refused}");
    site.remove().await;
}

/// A binary column of words is that of 1 and 0.
async fn a_truth_value_is_read_in_every_spelling(kind: Kind) {
    let word = |i, word: &str| Row { degree: Some(word.to_owned()), ..row(i) };
    let rows = [word(0, "True"), word(1, "no"), word(2, "Y"), word(3, "F"), word(4, "1")];
    let Some(mut site) = Site::of(kind, &rows).await else { return };
    let steps = "kind = \"ordinal\"\n    categories = [\"none\", \"school\", \"university\"]";
    assert!(crate::rows::SCHEMA.contains(steps));
    described(&mut site, kind, &crate::rows::SCHEMA.replace(steps, "kind = \"binary\"")).await;
    let found = site.ask(&ids(["r0", "r1", "r2", "r3", "r4"])).await.unwrap();
    let truths: Vec<f64> = found.block.matrix().row(2).iter().copied().collect();
    assert_eq!(truths, [1.0, 0.0, 1.0, 0.0, 1.0]);
    site.remove().await;
}

async fn a_column_that_is_not_there_is_named(kind: Kind) {
    let Some(mut site) = Site::of(kind, &rows(3)).await else { return };
    let more = format!(
        "{}\n[[features]]\nname = \"height\"\nkind = \"numeric\"\nmin = 0\nmax = 3\n",
        crate::rows::SCHEMA
    );
    std::fs::write(site.path("more.toml"), more).unwrap();
    site.config.schema = site.path("more.toml");
    let refused = match site.config.open() {
        Err(error) => error.to_string(),
        Ok(features) => features.check().await.unwrap_err().to_string(),
    };
    assert!(refused.contains("height"), "{kind:?}: {refused}");
    let sqlite = site.config.sqlite.as_mut().map(|sqlite| &mut sqlite.table);
    if let Some(table) =
        sqlite.or(site.config.postgres.as_mut().map(|postgres| &mut postgres.table))
    {
        *table += "x\"; DROP TABLE features";
        let refused = site.open().check().await.unwrap_err().to_string();
        assert!(refused.contains("no such table"), "{refused}");
    }
    site.remove().await;
}

async fn a_dead_server_is_an_error_and_its_return_is_enough(kind: Kind) {
    let Some(mut site) = Site::of(kind, &rows(20)).await else { return };
    site.timeout_ms(2000);
    let proxy = site.proxy.as_ref().unwrap();
    let features = site.open();
    let asked = ids(["r3", "x", "r1"]);
    let before = features.lookup(&asked).await.unwrap();
    proxy.set(Line::Dead);
    for _ in 0..3 {
        let error = features.lookup(&asked).await.unwrap_err();
        assert_eq!(
            vfl_features::features::refusal(&error).kind,
            RefusalKind::Unavailable,
            "{error}"
        );
        assert_eq!(
            vfl_features::features::refusal_for_others(&error, "this passive party").kind,
            RefusalKind::Unavailable
        );
    }
    // One that starts now says so too.
    let error = site.open().check().await.unwrap_err();
    assert_eq!(vfl_features::features::refusal(&error).kind, RefusalKind::Unavailable, "{error}");
    proxy.set(Line::Open);
    assert_eq!(features.lookup(&asked).await.unwrap(), before);
    site.remove().await;
}

async fn a_silent_server_is_given_up(kind: Kind) {
    let Some(mut site) = Site::of(kind, &rows(20)).await else { return };
    site.timeout_ms(400);
    let proxy = site.proxy.as_ref().unwrap();
    let features = site.open();
    let asked = ids(["r3"]);
    features.lookup(&asked).await.unwrap();
    proxy.set(Line::Silent);
    let begun = Instant::now();
    let error = features.lookup(&asked).await.unwrap_err();
    assert_eq!(vfl_features::features::refusal(&error).kind, RefusalKind::Unavailable, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    proxy.set(Line::Open);
    features.lookup(&asked).await.unwrap();
    site.remove().await;
}

async fn rows_that_are_kept_are_the_same(kind: Kind) {
    let rows = rows(300);
    let Some(mut site) = Site::of(kind, &rows).await else { return };
    // Room for some fifty rows.
    site.config.cache = Some(CacheConfig { bytes: 50 * 220, ttl_s: 60 });
    let (features, table) = (site.open(), reference(&rows));
    for round in 0..12 {
        let asked = ids((0..40).map(|i| format!("r{}", (i * 13 + round * 7) % 320)));
        let held: Vec<usize> = (0..40).filter(|i| (i * 13 + round * 7) % 320 < 300).collect();
        let found = features.lookup(&asked).await.unwrap();
        assert_eq!(found.held, held, "{kind:?}");
        let wanted = table.fetch(&asked.select(&held)).unwrap();
        assert_eq!(bits(found.block.matrix()), bits(wanted.matrix()));
    }
    site.remove().await;
}
