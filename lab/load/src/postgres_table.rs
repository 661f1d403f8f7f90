//! A table of features on a PostgreSQL server, where the program was built with its client (feature
//! `postgres`).

#[cfg(feature = "postgres")]
pub(super) use with_postgres::{copy, remove};
#[cfg(not(feature = "postgres"))]
pub(super) use without_postgres::{copy, remove};

#[cfg(feature = "postgres")]
mod with_postgres {
    use std::path::Path;

    use sqlx::{AssertSqlSafe, Connection, PgConnection};
    use vfl_core::data::schema::FeatureSchema;
    use vfl_state::postgres_url::options;

    async fn connect(url: &str) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect_with(&options(url, "cloison load")?).await?)
    }

    /// Copies the CSV file into a new table. All synthetic features are numbers.
    pub(crate) async fn copy(
        url: &str,
        table: &str,
        schema: &FeatureSchema,
        csv: &Path,
    ) -> anyhow::Result<()> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let columns = schema.source_columns().into_iter().map(|column| match column.number {
            true => format!("{} DOUBLE PRECISION NOT NULL", quoted(&column.name)),
            false => format!("{} TEXT PRIMARY KEY", quoted(&column.name)),
        });
        let columns: Vec<String> = columns.collect();
        let mut connection = connect(url).await?;
        let create = format!("CREATE TABLE {table} ({})", columns.join(", "));
        sqlx::query(AssertSqlSafe(create)).execute(&mut connection).await?;
        let header = csv::Reader::from_path(csv)?.headers()?.iter().map(quoted).collect::<Vec<_>>();
        let header = header.join(", ");
        let statement = format!("COPY {table} ({header}) FROM STDIN (FORMAT csv, HEADER)");
        let mut rows = connection.copy_in_raw(&statement).await?;
        rows.send(std::fs::read(csv)?).await?;
        rows.finish().await?;
        sqlx::query(AssertSqlSafe(format!("ANALYZE {table}"))).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// Drops a table.
    pub(crate) async fn remove(url: &str, table: &str) -> anyhow::Result<()> {
        let mut connection = connect(url).await?;
        sqlx::query(AssertSqlSafe(format!("DROP TABLE {table}"))).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }
}

#[cfg(not(feature = "postgres"))]
mod without_postgres {
    use std::path::Path;

    use vfl_core::data::schema::FeatureSchema;
    use vfl_state::WITHOUT_POSTGRES;

    /// Refuses a table, and names the fix.
    pub(crate) async fn copy(_: &str, _: &str, _: &FeatureSchema, _: &Path) -> anyhow::Result<()> {
        anyhow::bail!(WITHOUT_POSTGRES)
    }

    /// Refuses a table, of which there is none.
    pub(crate) async fn remove(_: &str, _: &str) -> anyhow::Result<()> {
        anyhow::bail!(WITHOUT_POSTGRES)
    }
}
