//! The migrations that both engines have.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Creates a migration from its SQL.
pub(super) fn step(version: i64, name: &'static str, sql: &'static str) -> Migration {
    Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
}

/// Returns the common migrations and those of one engine. One set, as applied ones must all be
/// known. Listed here and not by sqlx's macro, which would build its engines a second time.
pub(super) fn with(own: impl IntoIterator<Item = Migration>) -> Migrator {
    let common = [
        step(1, "ledger", include_str!("../../../migrations/0001_ledger.sql")),
        step(2, "models", include_str!("../../../migrations/0002_models.sql")),
        step(6, "chain", include_str!("../../../migrations/0006_chain.sql")),
        step(8, "bits", include_str!("../../../migrations/0008_bits.sql")),
    ];
    Migrator::with_migrations(common.into_iter().chain(own).collect())
}
