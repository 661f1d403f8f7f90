//! A place for the records of one test, in one kind of store.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::types::RecordIds;
use vfl_features::features::{Features, LookupResult};
use vfl_features::stores::{
    DataConfig, HttpConfig, ParquetConfig, PostgresConfig, SqliteConfig, load_sqlite,
};

use crate::proxy::Proxy;
use crate::rows::{NAMES, Row, SCHEMA, csv};
use crate::service::Service;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Csv,
    Parquet,
    ParquetOnDisk,
    Sqlite,
    Postgres,
    Http,
}

impl Kind {
    /// Whether the whole file is read, and a bad value refused, when it is opened.
    pub(crate) fn in_memory(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

/// Where a test keeps its records.
pub(crate) struct Site {
    pub(crate) config: DataConfig,
    /// Serves as long as it is kept.
    _service: Option<Service>,
    /// Before the server, where there is one.
    pub(crate) proxy: Option<Proxy>,
    dir: TempDir,
    postgres: Option<(String, String)>,
}

pub(crate) fn schema() -> FeatureSchema {
    FeatureSchema::from_toml(SCHEMA).unwrap()
}

pub(crate) fn ids<S: AsRef<str>>(ids: impl IntoIterator<Item = S>) -> RecordIds {
    RecordIds::new(ids).unwrap()
}

/// The URL of the server, or a line that says that there is none.
pub(crate) fn server() -> Option<String> {
    let url = std::env::var("CLOISON_POSTGRES_URL").ok();
    if url.is_none() {
        eprintln!(
            "not run: CLOISON_POSTGRES_URL is not set (postgres://USER:PASSWORD@HOST/DATABASE of a scratch database)"
        );
    }
    url
}

impl Site {
    /// Puts the records there. `None`, and a line that says so, without the server that it takes.
    pub(crate) async fn of(kind: Kind, rows: &[Row]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("schema.toml"), SCHEMA).unwrap();
        let mut config = DataConfig::of(path("schema.toml"));
        let (mut service, mut proxy, mut postgres) = (None, None, None);
        match kind {
            Kind::Csv => {
                std::fs::write(path("x.csv"), csv(rows)).unwrap();
                config.csv = Some(path("x.csv"));
            }
            Kind::Parquet => {
                write_parquet(&path("x.parquet"), rows);
                config.parquet = Some(ParquetConfig::new(path("x.parquet")));
            }
            Kind::ParquetOnDisk => {
                write_parquet(&path("x.parquet"), rows);
                config.parquet = Some(ParquetConfig::on_disk(path("x.parquet")));
            }
            Kind::Sqlite => {
                let sqlite = SqliteConfig::new(path("x.sqlite"));
                std::fs::write(path("x.csv"), csv(rows)).unwrap();
                let loaded = load_sqlite(&sqlite, &schema(), &path("x.csv"), false).await;
                if let Ok(loaded) = loaded {
                    assert_eq!(loaded, rows.len() as u64);
                } else {
                    // What `load-features` does not take: a table of somebody else's.
                    let url = format!("sqlite:{}?mode=rwc", path("x.sqlite").display());
                    let mut connection = SqliteConnection::connect(&url).await.unwrap();
                    for statement in statements("features", rows) {
                        sqlx::query(AssertSqlSafe(statement))
                            .execute(&mut connection)
                            .await
                            .unwrap();
                    }
                    connection.close().await.unwrap();
                }
                config.sqlite = Some(sqlite);
            }
            Kind::Postgres => {
                let server = server()?;
                let schema = format!("features_test_{:016x}", rand::random_range(0..u64::MAX));
                let mut admin = PgConnection::connect(&server).await.unwrap();
                let mut all =
                    vec![format!("CREATE SCHEMA {schema}"), format!("SET search_path = {schema}")];
                all.extend(statements("features", rows));
                for statement in all {
                    sqlx::query(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
                }
                let (line, url) = through(&server).await;
                config.postgres = Some(PostgresConfig::new(url, format!("{schema}.features")));
                proxy = Some(line);
                postgres = Some((server, schema));
            }
            Kind::Http => {
                let started = Service::start(rows, None).await;
                let line = Proxy::start(SocketAddr::from(([127, 0, 0, 1], started.port))).await;
                config.http =
                    Some(HttpConfig::new(format!("http://127.0.0.1:{}/fetch", line.port)));
                (service, proxy) = (Some(started), Some(line));
            }
        }
        Some(Self { config, _service: service, proxy, dir, postgres })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs statements beside the store, in its schema.
    pub(crate) async fn sql(&self, statements: &[&str]) {
        let (server, schema) = self.postgres.as_ref().unwrap();
        let mut admin = PgConnection::connect(server).await.unwrap();
        let path = format!("SET search_path = {schema}");
        for statement in std::iter::once(path.as_str()).chain(statements.iter().copied()) {
            sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut admin).await.unwrap();
        }
    }

    pub(crate) fn open(&self) -> Features {
        self.config.open().unwrap()
    }

    /// Changes the time that a look-up may take.
    pub(crate) fn timeout_ms(&mut self, ms: u64) {
        if let Some(postgres) = &mut self.config.postgres {
            (postgres.timeout_ms, postgres.connect_timeout_ms) = (ms, ms);
        }
        if let Some(http) = &mut self.config.http {
            (http.timeout_ms, http.connect_timeout_ms) = (ms, ms);
        }
    }

    /// Opens the store and asks it; what is refused is told in its own words.
    pub(crate) async fn ask(&self, ids: &RecordIds) -> Result<LookupResult, String> {
        let features = self.config.open().map_err(|e| e.to_string())?;
        features.lookup(ids).await.map_err(|e| e.to_string())
    }

    pub(crate) async fn remove(self) {
        if let Some((server, schema)) = &self.postgres {
            let mut admin = PgConnection::connect(server).await.unwrap();
            sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE")))
                .execute(&mut admin)
                .await
                .unwrap();
        }
    }
}

/// A proxy before a server, and the URL that goes through it.
pub(crate) async fn through(server: &str) -> (Proxy, String) {
    let rest = server.split_once("://").unwrap().1;
    let (user, place) = rest.split_once('@').unwrap();
    let (host, database) = place.split_once('/').unwrap();
    let address = tokio::net::lookup_host(host).await.unwrap().next().unwrap();
    let proxy = Proxy::start(address).await;
    let url = format!("postgres://{user}@127.0.0.1:{}/{database}", proxy.port);
    (proxy, url)
}

/// A table of both databases, with a column that no schema names.
fn statements(table: &str, rows: &[Row]) -> Vec<String> {
    let [id, income, phone, degree, job, outcome] = NAMES;
    let mut all = vec![format!(
        "CREATE TABLE {table} (\"{id}\" TEXT, note TEXT, \"{outcome}\" TEXT, \"{income}\" DOUBLE PRECISION, \
         \"{phone}\" BOOLEAN, \"{degree}\" TEXT, \"{job}\" TEXT)"
    )];
    let text = |value: Option<&str>| {
        value.map_or("NULL".into(), |v| format!("'{}'", v.replace('\'', "''")))
    };
    let mut values = Vec::new();
    for row in rows {
        let number = row.income.map_or("NULL".into(), |v| match v.is_finite() {
            true => format!("{v:?}"),
            false => "'NaN'".to_owned(),
        });
        let phone = row.phone.map_or("NULL", |v| if v { "TRUE" } else { "FALSE" });
        let (degree, job, outcome) =
            (row.degree.as_deref(), row.job.as_deref(), row.outcome.as_deref());
        let (id, note) = (text(Some(&row.id)), text(Some("x")));
        values.push(format!(
            "({id}, {note}, {}, {number}, {phone}, {}, {})",
            text(outcome),
            text(degree),
            text(job)
        ));
    }
    for part in values.chunks(500) {
        all.push(format!("INSERT INTO {table} VALUES {}", part.join(", ")));
    }
    all
}

/// A Parquet file with a column that no schema names, in row groups of 1000 rows.
pub(crate) fn write_parquet(path: &std::path::Path, rows: &[Row]) {
    write_parquet_as(path, rows, 1000, parquet::basic::Compression::SNAPPY);
}

/// The same in row groups of so many rows, in pages of at most 300.
pub(crate) fn write_parquet_as(
    path: &std::path::Path,
    rows: &[Row],
    group: usize,
    compression: parquet::basic::Compression,
) {
    let message = "message customers { REQUIRED BYTE_ARRAY id (UTF8); OPTIONAL BYTE_ARRAY note (UTF8); \
                   OPTIONAL DOUBLE income; OPTIONAL BOOLEAN phone; OPTIONAL BYTE_ARRAY degree (UTF8); \
                   OPTIONAL BYTE_ARRAY Job (UTF8); OPTIONAL BYTE_ARRAY outcome (UTF8); }";
    let schema = parse_message_type(message).unwrap();
    // The parser takes no blank in a name.
    let fields = schema.get_fields().iter().map(|field| match field.name() {
        "id" => {
            let kind = parquet::basic::Type::BYTE_ARRAY;
            let builder = parquet::schema::types::Type::primitive_type_builder(NAMES[0], kind);
            let builder = builder.with_repetition(parquet::basic::Repetition::REQUIRED);
            Arc::new(
                builder.with_converted_type(parquet::basic::ConvertedType::UTF8).build().unwrap(),
            )
        }
        _ => field.clone(),
    });
    let schema = parquet::schema::types::Type::group_type_builder("customers")
        .with_fields(fields.collect())
        .build();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_compression(compression)
        .set_data_page_row_count_limit(300)
        .set_write_batch_size(100)
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema.unwrap()), Arc::new(properties)).unwrap();
    for rows in rows.chunks(group) {
        let mut group = writer.next_row_group().unwrap();
        for name in ["id", "note", "income", "phone", "degree", "Job", "outcome"] {
            let mut column = group.next_column().unwrap().unwrap();
            fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
                values.iter().map(|value| i16::from(value.is_some())).collect()
            }
            match name {
                "income" => {
                    let all: Vec<_> = rows.iter().map(|row| row.income).collect();
                    let some: Vec<f64> = all.iter().copied().flatten().collect();
                    column
                        .typed::<DoubleType>()
                        .write_batch(&some, Some(&levels(&all)), None)
                        .unwrap();
                }
                "phone" => {
                    let all: Vec<_> = rows.iter().map(|row| row.phone).collect();
                    let some: Vec<bool> = all.iter().copied().flatten().collect();
                    column
                        .typed::<BoolType>()
                        .write_batch(&some, Some(&levels(&all)), None)
                        .unwrap();
                }
                _ => {
                    let all: Vec<Option<&str>> = rows
                        .iter()
                        .map(|row| match name {
                            "id" => Some(row.id.as_str()),
                            "degree" => row.degree.as_deref(),
                            "Job" => row.job.as_deref(),
                            "outcome" => row.outcome.as_deref(),
                            _ => None,
                        })
                        .collect();
                    let some: Vec<ByteArray> =
                        all.iter().copied().flatten().map(ByteArray::from).collect();
                    let levels = (name != "id").then(|| levels(&all));
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&some, levels.as_deref(), None)
                        .unwrap();
                }
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}
