//! The log of what operators have done to the ledger.

use std::time::SystemTime;

use vfl_core::clock::seconds;

use super::connection::{Arg, Connection};
use super::error::LedgerError;

/// Adds an event to the log of what operators have done to the ledger.
pub(super) async fn record_event(
    connection: &mut Connection,
    at: SystemTime,
    what: &str,
) -> Result<(), LedgerError> {
    let add = "INSERT INTO events (id, at, what) SELECT coalesce(max(id), 0) + 1, CAST($1 AS BIGINT), $2 FROM events";
    connection.execute(add, &[Arg::Int(seconds(at)), Arg::Text(what)]).await.map(drop)
}
