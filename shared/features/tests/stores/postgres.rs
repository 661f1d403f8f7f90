//! What only PostgreSQL does.

use vfl_features::stores::PostgresConfig;
use vfl_protocol::RefusalKind;

use crate::rows::rows;
use crate::site::{Kind, Site, ids};

/// Ids that are whole numbers, values of other types, and an index.
#[tokio::test(flavor = "multi_thread")]
async fn columns_may_be_of_any_type_of_number_or_text() {
    let Some(mut site) = Site::of(Kind::Postgres, &rows(3)).await else { return };
    site.sql(&[
        "CREATE TYPE education AS ENUM ('none', 'school', 'university')",
        "CREATE TABLE typed (\"customer id\" INTEGER PRIMARY KEY, income NUMERIC, phone SMALLINT, degree education, \
         \"Job\" VARCHAR(20), outcome CHAR(3))",
        "INSERT INTO typed VALUES (7, 0.1, 1, 'school', 'clerk', 'yes'), (-8, -1, 0, 'none', 'unknown', 'no')",
    ])
    .await;
    let table = |site: &mut Site, name: &str| {
        let postgres = site.config.postgres.as_mut().unwrap();
        let schema = postgres.table.split('.').next().unwrap().to_owned();
        postgres.table = format!("{schema}.{name}");
    };
    table(&mut site, "typed");
    let features = site.open();
    let found =
        features.lookup(&ids(["007", "-8", "7", "+7", "99999999999999999999"])).await.unwrap();
    assert_eq!((found.held.as_slice(), found.labels.as_deref()), (&[1, 2][..], Some(&[0, 1][..])));
    assert_eq!(found.block.matrix()[(0, 1)].to_bits(), ((0.1 - -1.0) / 3.0f64).to_bits());
    assert_eq!(features.ids().await.unwrap().iter().collect::<Vec<_>>(), ["-8", "7"]);

    assert_eq!(features.held(&ids(["007", "-8", "8", "7"])).await.unwrap(), ids(["-8", "7"]));

    site.sql(&[
        "CREATE TABLE twice AS SELECT * FROM features",
        "INSERT INTO twice SELECT * FROM features WHERE \"customer id\" = 'r1'",
        "CREATE TABLE dated AS SELECT *, now() AS at FROM features",
        "ALTER TABLE dated DROP COLUMN income",
        "ALTER TABLE dated RENAME COLUMN at TO income",
        "CREATE VIEW slow AS SELECT features.* FROM features, pg_sleep(30)",
    ])
    .await;
    table(&mut site, "twice");
    let error = site.open().held(&ids(["r0", "r1"])).await.unwrap_err();
    assert!(error.to_string().contains("more than one row"), "{error}");
    let error = site.open().lookup(&ids(["r0", "r1"])).await.unwrap_err();
    assert!(error.to_string().contains("more than one row"), "{error}");
    table(&mut site, "dated");
    let error = site.open().check().await.unwrap_err();
    assert!(error.to_string().contains("\"income\" is of type timestamptz"), "{error}");
    // Declared as a date, it is one, in UTC.
    let text = std::fs::read_to_string(&site.config.schema).unwrap();
    let text = text.replace(
        "kind = \"numeric\"\n    min = -1\n    max = 2",
        "kind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2100-01-01\"",
    );
    let plain = site.config.schema.clone();
    site.config.schema = site.path("dated.toml");
    std::fs::write(&site.config.schema, &text).unwrap();
    let found = site.open().lookup(&ids(["r0"])).await.unwrap().block;
    let today = vfl_core::data::days(&vfl_core::clock::utc(vfl_core::clock::now() as u64)).unwrap();
    let (first, last) = (days("2020-01-01"), days("2100-01-01"));
    let at = f64::from(first) + found.matrix()[(0, 0)] * f64::from(last - first);
    assert!((at - f64::from(today)).abs() < 1.5, "{at}");
    site.config.schema = plain;
    site.sql(&[
        "CREATE TABLE paid AS SELECT \"customer id\", income::numeric::money AS income, phone::int::oid AS phone, degree, \"Job\", outcome \
         FROM features",
        "CREATE TABLE odd AS SELECT *, 'int4'::regtype AS at FROM features",
        "ALTER TABLE odd DROP COLUMN income",
        "ALTER TABLE odd RENAME COLUMN at TO income",
    ])
    .await;
    table(&mut site, "features");
    let wanted = site.open().lookup(&ids(["r0", "r2"])).await.unwrap().block;
    table(&mut site, "paid");
    let found = site.open().lookup(&ids(["r0", "r2"])).await.unwrap().block;
    // A hundredth of the currency is what money keeps.
    assert!((found.matrix() - wanted.matrix()).amax() < 0.005, "{found:?}");
    table(&mut site, "odd");
    let error = site.open().check().await.unwrap_err().to_string();
    assert!(error.contains("column \"income\"") && error.contains("code 42846"), "{error}");
    // The server itself gives a statement up that nobody waits for.
    table(&mut site, "slow");
    site.timeout_ms(300);
    let error = site.open().lookup(&ids(["r0"])).await.unwrap_err();
    assert_eq!(vfl_features::features::refusal(&error).kind, RefusalKind::Unavailable, "{error}");
    site.remove().await;
}

fn days(text: &str) -> i32 {
    vfl_core::data::days(text).unwrap()
}

/// More ids than a page, in the order of their type and not of their text; and ids that are NULL, more than a page of them.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_every_type_are_listed_once_over_several_pages() {
    let Some(mut site) = Site::of(Kind::Postgres, &rows(3)).await else { return };
    let postgres = site.config.postgres.as_mut().unwrap();
    let schema = postgres.table.split('.').next().unwrap().to_owned();
    for (kind, key) in [
        ("BIGINT", "i - 5000"),
        ("UUID", "md5(i::text)"),
        ("VARCHAR(20)", "'R' || i"),
        ("CHAR(8)", "'r' || i"),
        ("NAME", "'r' || i"),
    ] {
        site.sql(&[
            "DROP TABLE IF EXISTS many",
            &format!(
                "CREATE TABLE many (\"customer id\" {kind} UNIQUE, income FLOAT8, phone BOOLEAN, degree TEXT, \"Job\" TEXT, outcome TEXT)"
            ),
            &format!("INSERT INTO many SELECT ({key})::text::{kind} FROM generate_series(1, 10000) i"),
            "INSERT INTO many SELECT NULL FROM generate_series(1, 5000)",
        ])
        .await;
        site.config.postgres.as_mut().unwrap().table = format!("{schema}.many");
        let features = site.open();
        let all = features.ids().await.unwrap();
        assert_eq!(all.len(), 10_000, "{kind}");
        assert_eq!(features.held(&all).await.unwrap(), all, "{kind}");
    }
    site.sql(&["DELETE FROM many WHERE \"customer id\" IS NOT NULL"]).await;
    assert_eq!(site.open().ids().await.unwrap().len(), 0);
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_may_stand_in_a_file_and_is_never_shown() {
    let Some(mut site) = Site::of(Kind::Postgres, &rows(3)).await else { return };
    let postgres = site.config.postgres.as_mut().unwrap();
    let url = postgres.url.take().unwrap();
    std::fs::write(site.path("url"), format!("{url}\n")).unwrap();
    let file = Some(site.path("url"));
    site.config.postgres.as_mut().unwrap().url_file = file;
    assert_eq!(site.ask(&ids(["r0"])).await.unwrap().held, [0]);
    site.remove().await;
}

#[test]
fn a_bad_url_is_not_repeated() {
    for url in [
        "postgres://u:hunter2@db.example/x?sslmode=disable",
        "postgres://u:hunter2@h:port/x",
        "mysql://u:hunter2@h/x",
    ] {
        let config = PostgresConfig::new(url, "t");
        assert!(!format!("{config:?}").contains("hunter2"));
        let error = vfl_features::stores::PostgresStore::new(config, crate::site::schema())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("[data.postgres]") && !error.contains("hunter2"), "{error}");
    }
}
