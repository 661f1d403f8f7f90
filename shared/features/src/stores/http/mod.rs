//! Features behind an HTTP feature service: `BatchFetchFeature` of SecretFlow-Serving.

mod client;
mod message;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{Failure, StoreError};
use vfl_core::data::{ColumnRole, SourceColumn};
use vfl_core::types::RecordIds;

use crate::features::{LookupResult, MAX_LOOKUP_RECORDS, RemoteStore, RowCollector, StoreFuture};
use crate::stores::DataError;
use crate::stores::bounds::{Bounds, connect_timeout_ms, connections, timeout_ms};
use crate::stores::sql::within;
use client::{ClientSettings, HttpClient, RequestError};
use message::{DOUBLE, Feature, FetchRequest, FetchResponse, Field, Header, Param, STRING, code};

/// The table `[data.http]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// The URL of `BatchFetchFeature`: `https://HOST:PORT/BatchFeatureService/BatchFetchFeature`.
    /// `http` on this machine alone.
    pub url: String,
    /// The `model_service_id` of every request. Default empty.
    #[serde(default)]
    pub service_id: String,
    /// The `party_id` of every request. Default empty.
    #[serde(default)]
    pub party_id: String,
    /// The `query_context` of every request. Default empty.
    #[serde(default)]
    pub query_context: String,
    /// The `header.data` of every request. Default none.
    #[serde(default)]
    pub header: BTreeMap<String, String>,
    /// The authority of the service's certificate (PEM). Needed for `https`.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate, if the service asks for one (PEM).
    pub cert_file: Option<PathBuf>,
    /// The key of our own certificate (PEM).
    pub key_file: Option<PathBuf>,
    /// The maximum number of concurrent requests. Default 8.
    #[serde(default = "connections")]
    pub connections: u32,
    /// The time limit of a look-up with all its requests, in milliseconds. Default 5000.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// The time limit of a connection attempt, in milliseconds. Default 2000.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// The maximum size of an answer in bytes. Default 64 MiB.
    #[serde(default = "max_response_bytes")]
    pub max_response_bytes: usize,
    /// The maximum number of records in one request. Default 1024.
    #[serde(default = "max_records")]
    pub max_records: usize,
    /// The maximum number of requests in one look-up. A service refuses a request with an unknown
    /// record as a whole, so that finding each takes some twenty requests. Default 1000.
    #[serde(default = "max_requests")]
    pub max_requests: usize,
}

fn max_response_bytes() -> usize {
    64 << 20
}

fn max_records() -> usize {
    1024
}

fn max_requests() -> usize {
    1000
}

/// Omits the header, which may hold a token.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpConfig(at most {} requests at once)", self.connections)
    }
}

impl HttpConfig {
    /// Creates the settings of a service at this URL, with every default.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            service_id: String::new(),
            party_id: String::new(),
            query_context: String::new(),
            header: BTreeMap::new(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            connections: connections(),
            timeout_ms: timeout_ms(),
            connect_timeout_ms: connect_timeout_ms(),
            max_response_bytes: max_response_bytes(),
            max_records: max_records(),
            max_requests: max_requests(),
        }
    }
}

const WORDS: &str = "the HTTP feature service";

/// Features behind an HTTP feature service.
pub struct HttpStore {
    config: HttpConfig,
    bounds: Bounds,
    schema: FeatureSchema,
    columns: Vec<SourceColumn>,
    fields: Vec<Field>,
    client: HttpClient,
    /// True once the service has returned a record.
    found: AtomicBool,
    /// True once the log has a warning about ids that come back changed.
    warned: AtomicBool,
}

impl HttpStore {
    /// Creates a store that connects when it is first used.
    ///
    /// # Errors
    /// [`DataError::Config`] that names the key.
    pub fn new(config: HttpConfig, schema: FeatureSchema) -> Result<Self, DataError> {
        let bounds =
            Bounds::new("http", config.connections, config.timeout_ms, config.connect_timeout_ms)?;
        let refused = |why: String| DataError::Config(format!("[data.http]: {why}"));
        if !(1..=MAX_LOOKUP_RECORDS).contains(&config.max_records) || config.max_requests == 0 {
            return Err(refused(format!(
                "`max_records` is from 1 to {MAX_LOOKUP_RECORDS}, and `max_requests` at least 1"
            )));
        }
        let identity = match (&config.cert_file, &config.key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
            _ => return Err(refused("`cert_file` and `key_file` come together".into())),
        };
        let client = HttpClient::new(&ClientSettings {
            url: &config.url,
            ca_file: config.ca_file.as_deref(),
            identity,
            connections: bounds.connections,
            connect_timeout: bounds.connect_timeout,
            max_response_bytes: config.max_response_bytes,
        });
        let client = client.map_err(refused)?;
        // The id is sent as the query, and must come back: a service that ignores case would answer
        // for ids that it does not hold.
        let columns = schema.source_columns();
        let kind = |column: &SourceColumn| if column.number { DOUBLE } else { STRING };
        let fields = columns
            .iter()
            .map(|column| Field { name: column.name.clone(), kind: kind(column) })
            .collect();
        Ok(Self {
            config,
            bounds,
            schema,
            columns,
            fields,
            client,
            found: AtomicBool::default(),
            warned: AtomicBool::default(),
        })
    }

    /// Requests some records. Returns `None` if the service does not know one of them.
    async fn ask(&self, ids: &[&str]) -> Result<Option<Vec<Feature>>, StoreError> {
        let fail = |failure, reason: &str| Err(StoreError::failed(WORDS, failure, reason));
        let request = FetchRequest {
            header: Header { data: &self.config.header },
            model_service_id: &self.config.service_id,
            party_id: &self.config.party_id,
            feature_fields: &self.fields,
            param: Param { query_datas: ids.to_vec(), query_context: &self.config.query_context },
        };
        let Ok(body) = serde_json::to_vec(&request) else {
            return fail(Failure::Malformed, "the request cannot be written");
        };
        let answer = self.client.post(body).await;
        let answer = answer
            .map_err(|RequestError(failure, reason)| StoreError::failed(WORDS, failure, reason))?;
        // The parser's own message may quote a value.
        let Ok(answer) = serde_json::from_slice::<FetchResponse>(&answer) else {
            return fail(Failure::Malformed, "it is not the JSON of a BatchFetchFeatureResponse");
        };
        match answer.status.code {
            code::OK => Ok(Some(answer.features)),
            code::NOT_FOUND => Ok(None),
            code::DEADLINE_EXCEEDED => fail(Failure::TimedOut, "it says that its own time is over"),
            code::INTERNAL_ERROR => {
                fail(Failure::Unreachable, "it says that it has an internal error")
            }
            code::UNAUTHENTICATED => {
                fail(Failure::Unreachable, "it says that we are not authenticated")
            }
            other => Err(StoreError::failed(
                WORDS,
                Failure::Malformed,
                format!("it answers with error code {other}"),
            )),
        }
    }

    fn gather(
        &self,
        gather: &mut RowCollector<'_>,
        ids: &[&str],
        features: &[Feature],
    ) -> Result<(), StoreError> {
        let fail = |reason: String| StoreError::failed(WORDS, Failure::Malformed, reason);
        let mut places = Vec::with_capacity(ids.len());
        for column in &self.columns {
            let name = &column.name;
            let mut found = features.iter().filter(|feature| feature.field.name == *name);
            let (Some(feature), None) = (found.next(), found.next()) else {
                return Err(fail(format!("column {name} is not in it once")));
            };
            let cells = feature.value.cells(ids.len());
            let cells = cells.ok_or_else(|| {
                fail(format!("column {name} has not one value for each of the records"))
            })?;
            // The id is the first column.
            if column.target == ColumnRole::Id {
                for (id, cell) in ids.iter().zip(cells) {
                    let held = cell.text().is_ok_and(|text| text == *id);
                    if !held && !self.warned.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            "{WORDS} answers with another id than was asked, in column {name:?}: such records count as not held; ids must come \
                             back as they are asked for"
                        );
                    }
                    places.push(if held { gather.begin(id)? } else { None });
                }
                continue;
            }
            for (at, cell) in places.iter().zip(cells).filter_map(|(at, cell)| Some(((*at)?, cell)))
            {
                gather.take(at, name, column.target, cell)?;
            }
        }
        Ok(())
    }
}

impl RemoteStore for HttpStore {
    fn words(&self) -> &str {
        WORDS
    }

    fn schema(&self) -> &FeatureSchema {
        &self.schema
    }

    /// Checks the service by requesting an unknown record: the protocol has no other question, and
    /// a running service answers it.
    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(within(WORDS, self.bounds.timeout, async move {
            self.ask(&["cloison-check"]).await.map(drop)
        }))
    }

    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
        let work = async move {
            let all: Vec<&str> = ids.iter().collect();
            let mut gather = RowCollector::new(WORDS, &self.schema, ids);
            // A part that is refused because of an unknown record is halved, until the record is
            // alone.
            let mut open: Vec<&[&str]> = all.chunks(self.config.max_records).rev().collect();
            let mut requests = 0;
            while let Some(part) = open.pop() {
                requests += 1;
                if requests > self.config.max_requests {
                    let reason = "more requests than `max_requests` are needed to find the records that it does not hold; align \
                                  the parties first";
                    return Err(StoreError::failed(WORDS, Failure::Malformed, reason));
                }
                match self.ask(part).await? {
                    Some(features) => {
                        self.found.store(true, Ordering::Relaxed);
                        self.gather(&mut gather, part, &features)?;
                    }
                    None if part.len() > 1 => {
                        let (first, second) = part.split_at(part.len() / 2);
                        open.extend([second, first]);
                    }
                    None => {
                        if !self.found.load(Ordering::Relaxed)
                            && !self.warned.swap(true, Ordering::Relaxed)
                        {
                            tracing::warn!(
                                "{WORDS} has not held any record so far; it must give the id column {:?} as a feature",
                                self.schema.id_column()
                            );
                        }
                    }
                }
            }
            gather.finish()
        };
        Box::pin(within(WORDS, self.bounds.timeout, work))
    }

    fn ids(&self) -> StoreFuture<'_, RecordIds> {
        let reason = "a feature service cannot list its records; name those of a training by `train_ids` in [training], and those of an \
                      alignment by `ids` in [alignment]";
        Box::pin(async move { Err(StoreError::failed(WORDS, Failure::Malformed, reason)) })
    }

    fn lists(&self) -> bool {
        false
    }
}
