//! State that several processes share: each table here is one process, with a connection of its own.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use vfl_core::types::PartyName;
use vfl_state::StateConfig;
use vfl_state::state_dir::StateDir;
use vfl_state::state_table::{Revision, StateTable, TableReading};

use crate::proxy::{Line, Proxy};
use crate::site::{server, through};

/// A schema of its own.
struct Place {
    server: String,
    schema: String,
}

impl Place {
    async fn new() -> Option<Self> {
        let place = Self {
            server: server()?,
            schema: format!("state_test_{:016x}", rand::random_range(0..u64::MAX)),
        };
        place.sql(format!("CREATE SCHEMA {}", place.schema)).await;
        Some(place)
    }

    async fn sql(&self, statement: String) {
        let mut admin = PgConnection::connect(&self.server).await.unwrap();
        sqlx::query(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
    }

    fn config(&self, server: &str) -> StateConfig {
        let join = if server.contains('?') { '&' } else { '?' };
        StateConfig::new(format!("{server}{join}options=-c%20search_path%3D{}", self.schema))
    }

    fn open(&self) -> Arc<dyn StateTable> {
        self.config(&self.server).open(&party("bank")).unwrap()
    }

    /// The same through a proxy.
    async fn through(&self) -> (Proxy, Arc<dyn StateTable>) {
        let (proxy, url) = through(&self.server).await;
        let table = self.config(&url).open(&party("bank")).unwrap();
        (proxy, table)
    }

    async fn remove(self) {
        self.sql(format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }
}

fn party(name: &str) -> PartyName {
    PartyName::new(name).unwrap()
}

/// What work that runs at the same time comes to.
async fn ended<T>(work: impl IntoIterator<Item = tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for work in work {
        all.push(work.await.unwrap());
    }
    all
}

fn content(table: &dyn StateTable, name: &str) -> Option<(Revision, Vec<u8>)> {
    match table.read(name, None).unwrap() {
        TableReading::Content(revision, content) => Some((revision, content)),
        _ => None,
    }
}

/// Two processes that make their table at the same time, and what each sees of the other.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_writes_the_others_read() {
    let Some(place) = Place::new().await else { return };
    let tables = [place.open(), place.open()];
    let first = tables.clone().map(|table| {
        tokio::task::spawn_blocking(move || {
            table.swap("releases/a", Revision::default(), b"made").unwrap()
        })
    });
    let first = ended(first).await;
    assert_eq!(first.iter().filter(|swapped| swapped.is_some()).count(), 1, "one is first");
    let [one, two] = tables;
    let seen = first.into_iter().flatten().next().unwrap();
    for table in [&one, &two] {
        assert_eq!(
            table.read("releases/a", None).unwrap(),
            TableReading::Content(seen, b"made".to_vec())
        );
        assert_eq!(table.read("releases/a", Some(seen)).unwrap(), TableReading::Same);
        assert_eq!(table.read("releases/b", Some(seen)).unwrap(), TableReading::Absent);
    }
    let newer = two.swap("releases/a", seen, b"again").unwrap().unwrap();
    assert_ne!(newer, seen);
    assert_eq!(one.swap("releases/a", seen, b"lost").unwrap(), None, "it is another one by now");
    assert_eq!(one.swap("releases/a", Revision::default(), b"lost").unwrap(), None);
    assert_eq!(content(&*one, "releases/a"), Some((newer, b"again".to_vec())));
    two.write("releases/Z", b"").unwrap();
    two.write("versions/é'%_", b"x").unwrap();
    assert_eq!(one.names("releases/").unwrap(), ["releases/Z", "releases/a"]);
    let dir = StateDir::from(one.clone()).below("versions");
    assert_eq!(dir.names().unwrap(), ["é'%_"]);
    assert_eq!(dir.file("é'%_", "").read().unwrap(), Some(b"x".to_vec()));
    one.remove("releases/a").unwrap();
    one.remove("releases/a").unwrap();
    assert_eq!(content(&*two, "releases/a"), None);
    place.remove().await;
}

/// Eight threads over two processes count to 200, none of them with a lock.
#[tokio::test(flavor = "multi_thread")]
async fn no_change_is_lost_between_processes() {
    let Some(place) = Place::new().await else { return };
    let tables = [place.open(), place.open()];
    let count = |table: Arc<dyn StateTable>| {
        for _ in 0..25 {
            loop {
                let (seen, before) = content(&*table, "count").unwrap_or_default();
                let before: u64 = std::str::from_utf8(&before).unwrap().parse().unwrap_or_default();
                if table.swap("count", seen, (before + 1).to_string().as_bytes()).unwrap().is_some()
                {
                    break;
                }
            }
        }
    };
    let work: Vec<_> = (0..8)
        .map(|number| {
            let table = tables[number % 2].clone();
            tokio::task::spawn_blocking(move || count(table))
        })
        .collect();
    ended(work).await;
    assert_eq!(content(&*tables[0], "count").unwrap().1, b"200");
    place.remove().await;
}

/// The state of one party is not taken for another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_belongs_to_one_party() {
    let Some(place) = Place::new().await else { return };
    place.open().write("a", b"x").unwrap();
    let other = place.config(&place.server).open(&party("insurer")).unwrap();
    let refused = other.read("a", None).unwrap_err().to_string();
    assert!(
        refused.contains("`bank`") && refused.contains("`insurer`") && refused.contains("schema"),
        "{refused}"
    );
    for config in [
        StateConfig::new("postgres://u:hunter2@db.example/x?sslmode=disable"),
        StateConfig::new("sqlite:hunter2"),
        StateConfig { url: None, url_file: None },
    ] {
        assert!(!format!("{config:?}").contains("hunter2"));
        let refused = config.open(&party("bank")).err().unwrap();
        assert!(refused.contains("url") || refused.contains("verify-full"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    place.remove().await;
}

/// The server carried it out, and its answer was lost with the connection: made again, the call finds its own work.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_made_once() {
    let Some(place) = Place::new().await else { return };
    let (proxy, table) = place.through().await;
    let seen = table.swap("spent", Revision::default(), b"one").unwrap().unwrap();
    // The statement is known to the connection from here on, so that the next one goes out in one piece.
    let seen = table.swap("spent", seen, b"two").unwrap().unwrap();
    proxy.set(Line::Deaf);
    let work = {
        let table = table.clone();
        tokio::task::spawn_blocking(move || table.swap("spent", seen, b"three"))
    };
    let beside = place.open();
    while content(&*beside, "spent").unwrap().1 != b"three" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    proxy.set(Line::Open);
    let swapped = work.await.unwrap().unwrap().expect("its own work is not another process's");
    assert_eq!(content(&*beside, "spent"), Some((swapped, b"three".to_vec())));
    place.remove().await;
}

/// Without its server a table says so, and it works again when the server does.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_an_error_and_comes_back() {
    let Some(place) = Place::new().await else { return };
    let (proxy, table) = place.through().await;
    table.write("a", b"x").unwrap();
    let file = StateDir::from(table.clone()).file("a", "restore it");
    for line in [Line::Dead, Line::Silent] {
        proxy.set(line);
        // The line ends a moment later.
        let mut read = file.read();
        for _ in 0..100 {
            if read.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            read = file.read();
        }
        let error = read.unwrap_err();
        assert!(
            error.away() && error.to_string().contains("cannot read a in the database"),
            "{error}"
        );
        assert!(file.write(b"y").unwrap_err().away());
        proxy.set(Line::Open);
        // A server that was silent is left alone for a moment.
        let mut tries = 0;
        while file.read().is_err() && tries < 100 {
            tries += 1;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(file.read().unwrap(), Some(b"x".to_vec()), "{line:?}");
    }
    place.remove().await;
}
