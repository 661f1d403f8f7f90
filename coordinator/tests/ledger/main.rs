//! The query ledger: one suite, run against SQLite and, where `CLOISON_POSTGRES_URL` names a server, against PostgreSQL.
#![allow(clippy::unwrap_used)]

mod bound;
mod budgets;
mod chain;
mod cli;
mod durable;
mod journal;
mod lost;
mod maintain;
mod migrate;
mod models;
mod oracle;
mod retry;
mod shared;
mod site;

/// Each function twice: against a SQLite file of its own, and against a PostgreSQL schema of its own.
macro_rules! both_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(&crate::site::Site::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(site) = crate::site::Site::postgres().await {
                    super::$name(&site).await;
                    site.remove().await;
                }
            })*
        }
    };
}
pub(crate) use both_engines;
