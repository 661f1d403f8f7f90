//! The common parts of the two databases: quoted names, and errors without values.

use std::time::Duration;

use vfl_core::data::table::{Failure, StoreError};

use crate::features::MAX_LOOKUP_RECORDS;
use crate::stores::DataError;

/// Quotes a name for a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statements that list all ids, page by page. The first page has one of its own: a condition
/// that holds for all its rows would keep a database from using the index on the other pages.
pub(crate) struct Pages {
    /// The first page; no parameter.
    pub(crate) first: String,
    /// A later page; its parameter is the last id of the page before.
    pub(crate) next: String,
}

impl Pages {
    /// Creates the statements for a table `r`: `shown` is selected for each row, ids are ordered by
    /// the expression `by`, and `last` is the placeholder of the last id.
    pub(crate) fn new(table: &str, shown: &str, by: &str, last: &str) -> Self {
        // The column is qualified by the table: an unqualified one would mean the selected
        // expression.
        let (read, order) = (
            format!("SELECT {shown} FROM {table} AS r"),
            format!("ORDER BY {by} LIMIT {MAX_LOOKUP_RECORDS}"),
        );
        Self {
            first: format!("{read} {order}"),
            next: format!("{read} WHERE {by} > {last} {order}"),
        }
    }
}

/// Checks the name of a table.
pub(crate) fn check_table(of: &str, table: &str) -> Result<(), DataError> {
    match table.is_empty() || table.len() > 128 || table.chars().any(char::is_control) {
        true => Err(DataError::Config(format!(
            "`table` in [data.{of}] must be 1 to 128 bytes without control characters"
        ))),
        false => Ok(()),
    }
}

/// Converts an error of the database, without the server's own words: they may quote a value.
pub(crate) fn failed(store: &str, error: &sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    let fail = |failure, reason: String| StoreError::failed(store, failure, reason);
    match error {
        E::Database(error) => {
            let code = error.code().unwrap_or_default().into_owned();
            let (failure, word) = match code.as_str() {
                "22003" => (Failure::Value, "a number is beyond the range of a double"),
                "42846" => (Failure::Malformed, "the column's type is no number and no text"),
                "57014" => (Failure::TimedOut, "the statement took too long"),
                "28000" | "28P01" => (Failure::Unreachable, "the user or the password is refused"),
                "3D000" => (Failure::Unreachable, "there is no such database"),
                "42501" => (Failure::Malformed, "the user may not read the table"),
                "42P01" | "42703" => (Failure::Malformed, "the table or a column of it is gone"),
                c if ["08", "53", "57"].iter().any(|class| c.starts_with(class)) => {
                    (Failure::Unreachable, "the server does not take the query now")
                }
                _ => (Failure::Malformed, "the database refuses the query"),
            };
            fail(failure, format!("{word} (code {code})"))
        }
        E::PoolTimedOut => {
            fail(Failure::Unreachable, "no connection is free, or none can be made".into())
        }
        E::PoolClosed | E::WorkerCrashed => {
            fail(Failure::Unreachable, "the connections are closed".into())
        }
        E::Io(error) => fail(Failure::Unreachable, error.kind().to_string()),
        E::Tls(_) => fail(Failure::Unreachable, "the TLS handshake failed".into()),
        E::Protocol(_) => fail(Failure::Unreachable, "the server broke the protocol".into()),
        E::ColumnDecode { index, .. } => {
            fail(Failure::Value, format!("column {index} is not of its type"))
        }
        _ => fail(Failure::Malformed, "its answer cannot be read".into()),
    }
}

/// Waits for a database within a time limit.
pub(crate) async fn within<T>(
    store: &str,
    timeout: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| {
        StoreError::failed(store, Failure::TimedOut, format!("{} ms are over", timeout.as_millis()))
    };
    tokio::time::timeout(timeout, work).await.map_err(late)?
}
