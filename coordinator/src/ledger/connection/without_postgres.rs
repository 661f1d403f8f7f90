//! The stand-in of `postgres` in a program that was built without it (feature `postgres`): every
//! URL is refused, so that there is no server and no connection.

use std::time::Duration;

use sqlx::FromRow;
pub(super) use sqlx::sqlite::SqliteRow as PgRow;

use super::super::LedgerError;
use super::statement::Arg;

/// A server, of which there is none.
#[derive(Clone)]
pub(crate) enum PostgresServer {}

impl PostgresServer {
    /// Refuses the URL, and names the fix.
    pub(super) fn parse(_: &str) -> Result<Self, LedgerError> {
        Err(LedgerError::Unsupported(vfl_state::WITHOUT_POSTGRES))
    }

    pub(super) async fn connect(&self) -> Result<PostgresConnection, LedgerError> {
        match *self {}
    }
}

/// A connection, of which there is none.
pub(crate) enum PostgresConnection {}

impl PostgresConnection {
    pub(super) fn wait_up_to(&mut self, _: Option<Duration>) {
        match *self {}
    }

    pub(super) async fn execute(
        &mut self,
        _: &'static str,
        _: &[Arg<'_>],
    ) -> Result<u64, LedgerError> {
        match *self {}
    }

    pub(super) async fn execute_text(&mut self, _: String) -> Result<(), LedgerError> {
        match *self {}
    }

    pub(super) async fn rows<T: for<'r> FromRow<'r, PgRow>>(
        &mut self,
        _: &'static str,
        _: &[Arg<'_>],
    ) -> Result<Vec<T>, LedgerError> {
        match *self {}
    }

    pub(super) async fn migrate(&mut self) -> Result<(), LedgerError> {
        match *self {}
    }

    pub(super) async fn close(self) {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_refused_with_the_feature_to_build_with_and_without_its_url() {
        let refused = PostgresServer::parse("postgres://u:hunter2@db.example/ledger").err();
        let said = refused.map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("feature `postgres`") && said.contains("--features full"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
