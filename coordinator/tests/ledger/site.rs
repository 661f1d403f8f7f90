//! A place for one ledger, and short ways to use it.

use std::time::{Duration, SystemTime};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use vfl_coordinator::ledger::{
    Budgets, Ledger, LedgerConfig, LedgerError, RowVerdict, SpendRequest,
};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};

pub(crate) const FINGERPRINT: &str = "5f3a";

/// Where a test keeps its ledger.
pub(crate) struct Site {
    pub(crate) url: String,
    dir: Option<tempfile::TempDir>,
    schema: Option<String>,
}

impl Site {
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        Self { url, dir: Some(dir), schema: None }
    }

    /// `None`, and a line that says so, where no server is named.
    pub(crate) async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("CLOISON_POSTGRES_URL") else {
            eprintln!(
                "not run: CLOISON_POSTGRES_URL is not set (postgres://USER:PASSWORD@HOST/DATABASE of a scratch database)"
            );
            return None;
        };
        let schema = format!("ledger_test_{:016x}", rand::random_range(0..u64::MAX));
        let mut admin = PgConnection::connect(&server).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
            .execute(&mut admin)
            .await
            .unwrap();
        let join = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{join}options=-c%20search_path%3D{schema}");
        Some(Self { url, dir: None, schema: Some(schema) })
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.dir.is_some()
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.as_ref().unwrap().path().join("ledger.db")
    }

    pub(crate) async fn remove(self) {
        if let Some(schema) = &self.schema {
            let mut admin = PgConnection::connect(&self.url).await.unwrap();
            sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE")))
                .execute(&mut admin)
                .await
                .unwrap();
        }
    }

    pub(crate) fn config(&self, budgets: Budgets) -> LedgerConfig {
        LedgerConfig { budgets, ..LedgerConfig::new(&self.url) }
    }

    pub(crate) async fn open(&self, budgets: Budgets) -> Ledger {
        Ledger::open(&self.config(budgets), FINGERPRINT).await.unwrap()
    }

    /// With a state directory that remembers the ledger.
    pub(crate) fn remembered(&self, state_dir: &std::path::Path) -> LedgerConfig {
        LedgerConfig { state_dir: Some(state_dir.to_owned()), ..self.config(Budgets::UNLIMITED) }
    }

    /// The rows of a query made of texts and numbers, as text.
    pub(crate) async fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        let sql = AssertSqlSafe(sql.to_owned());
        macro_rules! rows {
            ($connection:expr) => {{
                let mut connection = $connection.await.unwrap();
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
                let cell = |row: &_, i: usize| {
                    let number =
                        Row::try_get::<Option<i64>, _>(row, i).map(|n| n.map(|n| n.to_string()));
                    let value =
                        number.or_else(|_| Row::try_get::<Option<String>, _>(row, i)).unwrap();
                    value.unwrap_or_else(|| "NULL".into())
                };
                let rows =
                    rows.iter().map(|row| (0..row.len()).map(|i| cell(row, i)).collect()).collect();
                connection.close().await.unwrap();
                rows
            }};
        }
        if self.is_sqlite() {
            rows!(SqliteConnection::connect(&self.url))
        } else {
            rows!(PgConnection::connect(&self.url))
        }
    }

    /// Returns when the table `uses` has everything: large requests reach it a moment later.
    pub(crate) async fn settled(&self) {
        while self.is_sqlite() && self.number("SELECT count(*) FROM journal").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Statements without an answer.
    pub(crate) async fn run(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_sqlite() {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        } else {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.sql(sql).await[0][0].parse().unwrap()
    }
}

pub(crate) fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

pub(crate) fn ids<S: AsRef<str>>(ids: impl IntoIterator<Item = S>) -> RecordIds {
    RecordIds::new(ids).unwrap()
}

/// A request of party `active` under model `m-1` and policy `none`, without shares and without an id.
pub(crate) fn request<S: AsRef<str>>(records: impl IntoIterator<Item = S>) -> SpendRequest {
    SpendRequest {
        party: PartyName::new("active").unwrap(),
        model: ModelVersion::new("m-1").unwrap(),
        passive: "passive of m-1".into(),
        policy: "none".into(),
        bits: None,
        request_id: None,
        body_hash: [0; 32],
        ids: ids(records),
        share_hashes: Vec::new(),
        at: at(0),
        uptime: Duration::ZERO,
    }
}

/// The same so many seconds later, by both clocks.
pub(crate) fn later(mut spend: SpendRequest, seconds: u64) -> SpendRequest {
    (spend.at, spend.uptime) = (at(seconds), Duration::from_secs(seconds));
    spend
}

/// Another model: another version, of other passive parameters.
pub(crate) fn model(mut spend: SpendRequest, name: &str) -> SpendRequest {
    spend.model = ModelVersion::new(name).unwrap();
    spend.passive = format!("passive of {name}");
    spend
}

/// Another version of the same passive parameters.
pub(crate) fn version(mut spend: SpendRequest, name: &str) -> SpendRequest {
    spend.model = ModelVersion::new(name).unwrap();
    spend
}

pub(crate) fn party(mut spend: SpendRequest, name: &str) -> SpendRequest {
    spend.party = PartyName::new(name).unwrap();
    spend
}

pub(crate) fn shares(mut spend: SpendRequest, of: u8) -> SpendRequest {
    spend.share_hashes = vec![[of; 16]; spend.ids.len()];
    spend
}

pub(crate) async fn granted(ledger: &Ledger, spend: SpendRequest) {
    let rows = spend.ids.len();
    assert_eq!(ledger.spend(spend).await, Ok(vec![RowVerdict::Granted; rows]));
}

pub(crate) fn is_storage(error: &LedgerError) -> bool {
    matches!(error, LedgerError::Storage(_))
}
