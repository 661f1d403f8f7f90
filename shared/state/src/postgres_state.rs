//! The state of a party in a table of a PostgreSQL server, for several processes of one name.
//!
//! Each call is one statement, and so one transaction: an answered change is on the server's disk,
//! and no process that dies or freezes delays another. The writer draws the revision of a content
//! at random, so that a call whose connection broke can be repeated without doing its work twice.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rand::Rng as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _, PgConnection};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vfl_core::types::PartyName;

use crate::blocking::waiting;
use crate::state_table::{Revision, StateTable, StateTableError, TableReading};

/// The time limit of a statement, both at the server and here.
const STATEMENT: Duration = Duration::from_secs(5);
/// The time limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(3);
/// The time limit of a call, including the wait for its turn.
const CALL: Duration = Duration::from_secs(9);
/// The time for which a silent server is not asked again: queued calls must not each wait in vain.
const SILENCE: Duration = Duration::from_secs(1);

const SESSION: &str = "SET statement_timeout = '5s'; SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET synchronous_commit = on; SET client_min_messages = warning; \
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '10s'";
/// The lock with which two processes that start together create the table once.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtext('cloison state'), hashtext(current_schema()))";
const MAKE: &str = "CREATE TABLE IF NOT EXISTS cloison_state \
    (name TEXT PRIMARY KEY, revision BYTEA NOT NULL, content BYTEA NOT NULL)";
/// The name of the entry that holds the owner of the state.
const OWNER: &str = "owner";

/// Opens the table of a party at a URL, or at that in a file. It connects when it is first used.
pub(crate) fn open_table(
    url: Option<&str>,
    url_file: Option<&Path>,
    party: &PartyName,
) -> Result<Arc<dyn StateTable>, String> {
    let options = crate::postgres_url::named(url, url_file, "cloison state")?;
    let (asks, asked) = unbounded_channel();
    let options = options.disable_statement_logging();
    let work = Worker { options, party: party.clone(), connection: None, silent_until: None };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    // A thread of its own: callers block on it anywhere, also outside a runtime.
    let thread = std::thread::Builder::new().name("state".into());
    thread.spawn(move || runtime.block_on(work.run(asked))).map_err(|e| e.to_string())?;
    Ok(Arc::new(PostgresState { asks }))
}

struct PostgresState {
    asks: UnboundedSender<PendingRequest>,
}

impl fmt::Debug for PostgresState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresState")
    }
}

/// A call on its way to the server.
struct PendingRequest {
    ask: TableCall,
    until: Instant,
    answer: SyncSender<Result<Answer, StateTableError>>,
}

enum TableCall {
    Read { name: String, seen: Option<Revision> },
    Swap { name: String, seen: Revision, new: [u8; 16], content: Vec<u8> },
    Write { name: String, new: [u8; 16], content: Vec<u8> },
    Remove { name: String },
    Names { prefix: String },
}

enum Answer {
    Reading(TableReading),
    Swapped(bool),
    Done,
    Names(Vec<String>),
}

fn failed(reason: impl Into<String>) -> StateTableError {
    StateTableError(reason.into())
}

fn revision() -> [u8; 16] {
    let mut name = [0; 16];
    rand::rng().fill_bytes(&mut name);
    name
}

impl PostgresState {
    fn ask(&self, ask: TableCall) -> Result<Answer, StateTableError> {
        let (answer, answered) = sync_channel(1);
        let asked = PendingRequest { ask, until: Instant::now() + CALL, answer };
        self.asks.send(asked).map_err(|_| failed("its thread has ended"))?;
        // Longer than the thread itself waits: its own error is more precise.
        waiting(|| answered.recv_timeout(CALL + STATEMENT))
            .map_err(|_| failed("it does not answer"))?
    }
}

impl StateTable for PostgresState {
    fn read(&self, name: &str, seen: Option<Revision>) -> Result<TableReading, StateTableError> {
        match self.ask(TableCall::Read { name: name.to_owned(), seen })? {
            Answer::Reading(reading) => Ok(reading),
            _ => Err(failed("it answers something else")),
        }
    }

    fn swap(
        &self,
        name: &str,
        seen: Revision,
        content: &[u8],
    ) -> Result<Option<Revision>, StateTableError> {
        let new = revision();
        match self.ask(TableCall::Swap {
            name: name.to_owned(),
            seen,
            new,
            content: content.to_vec(),
        })? {
            Answer::Swapped(swapped) => Ok(swapped.then(|| Revision::named(new))),
            _ => Err(failed("it answers something else")),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), StateTableError> {
        self.ask(TableCall::Write {
            name: name.to_owned(),
            new: revision(),
            content: content.to_vec(),
        })
        .map(drop)
    }

    fn remove(&self, name: &str) -> Result<(), StateTableError> {
        self.ask(TableCall::Remove { name: name.to_owned() }).map(drop)
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, StateTableError> {
        match self.ask(TableCall::Names { prefix: prefix.to_owned() })? {
            Answer::Names(names) => Ok(names),
            _ => Err(failed("it answers something else")),
        }
    }
}

/// The worker that owns the connection.
struct Worker {
    options: PgConnectOptions,
    party: PartyName,
    connection: Option<PgConnection>,
    silent_until: Option<Instant>,
}

impl Worker {
    async fn run(mut self, mut asked: UnboundedReceiver<PendingRequest>) {
        while let Some(PendingRequest { ask, until, answer }) = asked.recv().await {
            let done = self.answer(&ask, until).await;
            // The caller may have gone away.
            let _ = answer.send(done);
        }
    }

    /// Answers one call, and repeats it if a reused connection turns out to be broken.
    async fn answer(&mut self, ask: &TableCall, until: Instant) -> Result<Answer, StateTableError> {
        let mut again = false;
        if self.silent_until.is_some_and(|until| Instant::now() < until) {
            return Err(failed("it did not answer a moment ago"));
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failed("it did not answer in time"));
            }
            let (mut connection, reused) = match self.connection.take() {
                Some(connection) => (connection, true),
                None => {
                    let connected = tokio::time::timeout(left.min(CONNECT), self.connect()).await;
                    (connected.unwrap_or_else(|_| Err(self.silent()))?, false)
                }
            };
            let answer =
                tokio::time::timeout(left.min(STATEMENT), carry_out(&mut connection, ask, again))
                    .await;
            let error = match answer {
                Ok(Ok(answer)) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                Ok(Err(error)) => words(&error),
                Err(_) => failed("it did not answer in time"),
            };
            if !reused {
                return Err(error);
            }
            again = true;
        }
    }

    fn silent(&mut self) -> StateTableError {
        self.silent_until = Some(Instant::now() + SILENCE);
        failed("no connection in time")
    }

    async fn connect(&self) -> Result<PgConnection, StateTableError> {
        let mut connection = self.options.connect().await.map_err(|e| words(&e))?;
        sqlx::raw_sql(SESSION).execute(&mut connection).await.map_err(|e| words(&e))?;
        durable(&mut connection).await?;
        self.own(&mut connection).await?;
        Ok(connection)
    }

    /// Creates the table if there is none, and checks that it belongs to this party.
    async fn own(&self, connection: &mut PgConnection) -> Result<(), StateTableError> {
        let there = "SELECT to_regclass('cloison_state') IS NOT NULL";
        let (there,): (bool,) =
            sqlx::query_as(there).fetch_one(&mut *connection).await.map_err(|e| words(&e))?;
        if !there {
            let make = async {
                let mut work = connection.begin().await?;
                sqlx::query(LOCK).execute(&mut *work).await?;
                sqlx::query(MAKE).execute(&mut *work).await?;
                work.commit().await
            };
            make.await.map_err(|e| words(&e))?;
        }
        let name = self.party.as_str();
        let put = "INSERT INTO cloison_state (name, revision, content) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING";
        let put =
            sqlx::query(put).bind(OWNER).bind(revision().to_vec()).bind(name.as_bytes().to_vec());
        put.execute(&mut *connection).await.map_err(|e| words(&e))?;
        let find = sqlx::query_as("SELECT content FROM cloison_state WHERE name = $1").bind(OWNER);
        let (owner,): (Vec<u8>,) = find.fetch_one(connection).await.map_err(|e| words(&e))?;
        match owner == name.as_bytes() {
            true => Ok(()),
            false => Err(failed(format!(
                "it holds the state of party `{}`, and this is `{name}`: give each party a database or a schema of its own",
                String::from_utf8_lossy(&owner)
            ))),
        }
    }
}

/// Checks that committed data is on the server's disk.
async fn durable(connection: &mut PgConnection) -> Result<(), StateTableError> {
    for setting in ["synchronous_commit", "fsync", "full_page_writes"] {
        let ask = sqlx::query_as("SELECT current_setting($1)").bind(setting);
        let (value,): (String,) = ask.fetch_one(&mut *connection).await.map_err(|e| words(&e))?;
        if value != "on" {
            return Err(failed(format!(
                "PostgreSQL's `{setting}` is `{value}`, not `on`: what was answered could be lost"
            )));
        }
    }
    Ok(())
}

/// Executes a call. `again`: it may have been executed before, on a connection that broke.
async fn carry_out(
    connection: &mut PgConnection,
    ask: &TableCall,
    again: bool,
) -> Result<Answer, sqlx::Error> {
    match ask {
        TableCall::Read { name, seen } => {
            let seen = seen.as_ref().and_then(Revision::name).map(|name| name.to_vec());
            let find = "SELECT revision, CASE WHEN revision = $2 THEN NULL ELSE content END FROM cloison_state WHERE name = $1";
            let find = sqlx::query_as::<_, (Vec<u8>, Option<Vec<u8>>)>(find).bind(name).bind(seen);
            Ok(Answer::Reading(match find.fetch_optional(connection).await? {
                None => TableReading::Absent,
                Some((_, None)) => TableReading::Same,
                Some((revision, Some(content))) => {
                    let revision = revision.try_into().map_err(|_| sqlx::Error::RowNotFound)?;
                    TableReading::Content(Revision::named(revision), content)
                }
            }))
        }
        TableCall::Swap { name, seen, new, content } => {
            let done = match seen.name() {
                None => {
                    let put = "INSERT INTO cloison_state (name, revision, content) VALUES ($1, $2, $3) \
                        ON CONFLICT (name) DO NOTHING";
                    sqlx::query(put)
                        .bind(name)
                        .bind(new.to_vec())
                        .bind(content)
                        .execute(&mut *connection)
                        .await?
                }
                Some(seen) => {
                    let put = "UPDATE cloison_state SET revision = $2, content = $3 WHERE name = $1 AND revision = $4";
                    let put = sqlx::query(put)
                        .bind(name)
                        .bind(new.to_vec())
                        .bind(content)
                        .bind(seen.to_vec());
                    put.execute(&mut *connection).await?
                }
            };
            if done.rows_affected() == 0 && again {
                let find = "SELECT count(*) FROM cloison_state WHERE name = $1 AND revision = $2";
                let find = sqlx::query_as(find).bind(name).bind(new.to_vec());
                let (own,): (i64,) = find.fetch_one(connection).await?;
                return Ok(Answer::Swapped(own > 0));
            }
            Ok(Answer::Swapped(done.rows_affected() > 0))
        }
        TableCall::Write { name, new, content } => {
            let put = "INSERT INTO cloison_state (name, revision, content) VALUES ($1, $2, $3) \
                ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, content = excluded.content";
            sqlx::query(put)
                .bind(name)
                .bind(new.to_vec())
                .bind(content)
                .execute(connection)
                .await?;
            Ok(Answer::Done)
        }
        TableCall::Remove { name } => {
            sqlx::query("DELETE FROM cloison_state WHERE name = $1")
                .bind(name)
                .execute(connection)
                .await?;
            Ok(Answer::Done)
        }
        TableCall::Names { prefix } => {
            let find = "SELECT name FROM cloison_state WHERE left(name, length($1)) = $1 ORDER BY name COLLATE \"C\"";
            let names: Vec<(String,)> =
                sqlx::query_as(find).bind(prefix).fetch_all(connection).await?;
            Ok(Answer::Names(names.into_iter().map(|(name,)| name).collect()))
        }
    }
}

/// Converts an error of the database, without the server's own words: they may quote a value.
fn words(error: &sqlx::Error) -> StateTableError {
    use sqlx::Error as E;
    match error {
        E::Database(error) => {
            let code = error.code().unwrap_or_default().into_owned();
            let word = match code.as_str() {
                "57014" => "the statement took too long",
                "28000" | "28P01" => "the user or the password is refused",
                "3D000" => "there is no such database",
                "42501" => {
                    "the user may not read or write the table `cloison_state`, or not make it"
                }
                c if ["08", "53", "57"].iter().any(|class| c.starts_with(class)) => {
                    "the server does not take the query now"
                }
                _ => "the database refuses the query",
            };
            failed(format!("{word} (code {code})"))
        }
        E::Io(error) => failed(error.kind().to_string()),
        E::Tls(_) => failed("the TLS handshake failed"),
        _ => failed("the connection is broken, or its answer cannot be read"),
    }
}
