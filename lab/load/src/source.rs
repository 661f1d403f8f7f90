//! The feature stores of the measured passive party.

use std::path::Path;
use std::str::FromStr;

use toml::{Table, Value};
use vfl_core::data::read_schema;
use vfl_features::stores::{SqliteConfig, load_sqlite};

use super::features;
use super::postgres_table;
use super::process::Worker;

/// A feature store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A CSV file in memory.
    Csv,
    /// A SQLite file.
    Sqlite,
    /// A feature service in its own process.
    Http,
    /// A table that is created on this server, and dropped at the end.
    Postgres(String),
}

impl Source {
    /// Returns the name used in the result.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Sqlite => "sqlite",
            Self::Http => "http",
            Self::Postgres(_) => "postgres",
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "csv" => Ok(Self::Csv),
            "sqlite" => Ok(Self::Sqlite),
            "http" => Ok(Self::Http),
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Postgres(url.into()))
            }
            _ => Err(
                "takes csv, sqlite, http or the URL of a database, postgres://USER@HOST/DATABASE"
                    .into(),
            ),
        }
    }
}

/// The filled store: the passive party's `[data]`, and what must be removed at the end.
pub(super) struct FilledStore {
    /// The table `[data]` as TOML.
    pub(super) config: String,
    table: Option<(String, String)>,
    /// The process of the feature service. It ends with this value.
    _service: Option<Worker>,
}

impl FilledStore {
    /// Fills the store from the CSV file of `passive` in the folder `data` of `dir`. `program` is
    /// `cloison`.
    ///
    /// # Errors
    /// If the store cannot be written, or its process does not start.
    pub(super) async fn fill(source: &Source, program: &Path, dir: &Path) -> anyhow::Result<Self> {
        let data = dir.join("data");
        let (schema, csv) = (data.join("passive.schema.toml"), data.join("passive.csv"));
        let text = |path: &Path| Value::from(path.to_string_lossy().into_owned());
        let (mut table, mut service) = (None, None);
        let (key, value) = match source {
            Source::Csv => ("csv", text(&csv)),
            Source::Sqlite => {
                let file = data.join("passive.sqlite");
                load_sqlite(&SqliteConfig::new(&file), &read_schema(&schema)?, &csv, false).await?;
                ("sqlite", Table::from_iter([("file".to_owned(), text(&file))]).into())
            }
            Source::Http => {
                let worker = Worker::start(program, dir, "features", None, None, &[]).await?;
                let url = format!("http://{}{}", worker.address, features::PATH);
                service = Some(worker);
                ("http", Table::from_iter([("url".to_owned(), Value::from(url))]).into())
            }
            Source::Postgres(url) => {
                let name = format!("cloison_load_{}", std::process::id());
                postgres_table::copy(url, &name, &read_schema(&schema)?, &csv).await?;
                table = Some((url.clone(), name.clone()));
                let postgres = [
                    ("url".to_owned(), Value::from(url.as_str())),
                    ("table".to_owned(), Value::from(name)),
                ];
                ("postgres", Table::from_iter(postgres).into())
            }
        };
        let config =
            Table::from_iter([("schema".to_owned(), text(&schema)), (key.to_owned(), value)]);
        Ok(Self { config: toml::to_string(&config)?, table, _service: service })
    }

    /// Drops the table that was created.
    ///
    /// # Errors
    /// If the server does not drop it.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        match self.table {
            Some((url, table)) => postgres_table::remove(&url, &table).await,
            None => Ok(()),
        }
    }
}
