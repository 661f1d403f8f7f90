//! A feature service on loopback that speaks `BatchFetchFeature`, well or badly.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

// Not `bytes` of another version: what hyper takes.
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::rows::Row;

/// How the service answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Well,
    Status(u16),
    Code(i32),
    /// Not JSON; it quotes a value.
    Garbage,
    /// As many bytes.
    Large(usize),
    /// One value too few in the first column.
    Short,
    /// The first column twice.
    Twice,
    /// Without the first column.
    Without,
    /// Without the ids.
    Anonymous,
    /// As a database whose collation ignores case.
    IgnoringCase,
    Late(Duration),
}

pub(crate) struct Service {
    pub(crate) port: u16,
    pub(crate) mode: Arc<Mutex<Mode>>,
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) last: Arc<Mutex<Value>>,
}

struct Held {
    rows: HashMap<String, Row>,
    mode: Arc<Mutex<Mode>>,
    asked: Arc<AtomicUsize>,
    last: Arc<Mutex<Value>>,
}

impl Service {
    pub(crate) async fn start(rows: &[Row], tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, asked, last) =
            (Arc::new(Mutex::new(Mode::Well)), Arc::default(), Arc::new(Mutex::new(Value::Null)));
        let held = Arc::new(Held {
            rows: rows.iter().map(|row| (row.id.clone(), row.clone())).collect(),
            mode: mode.clone(),
            asked: Arc::clone(&asked),
            last: last.clone(),
        });
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (held, tls) = (held.clone(), tls.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(held.clone(), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    match tls {
                        None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            drop(http.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
            }
        });
        Self { port, mode, asked, last }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(
    held: Arc<Held>,
    request: Request<Incoming>,
) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    held.asked.fetch_add(1, Ordering::SeqCst);
    let mode = *held.mode.lock().unwrap();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    *held.last.lock().unwrap() = asked.clone();
    let respond = |status: u16, body: String| {
        let mut response = Response::new(Full::new(bytes::Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        Ok(response)
    };
    match mode {
        Mode::Status(status) => return respond(status, String::new()),
        Mode::Code(code) => {
            return respond(200, json!({"status": {"code": code, "msg": "r1"}}).to_string());
        }
        Mode::Garbage => return respond(200, "{\"features\": \"income of r1 is 0.977\"}".into()),
        Mode::Large(bytes) => return respond(200, " ".repeat(bytes)),
        Mode::Late(by) => tokio::time::sleep(by).await,
        _ => {}
    }
    let ids: Vec<&str> = asked["param"]["query_datas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    let find = |id: &str| match mode {
        Mode::IgnoringCase => held.rows.get(&id.to_lowercase()),
        _ => held.rows.get(id),
    };
    let Some(rows) = ids.iter().map(|id| find(id)).collect::<Option<Vec<_>>>() else {
        return respond(200, json!({"status": {"code": 5, "msg": "no such record"}}).to_string());
    };
    let mut features = Vec::new();
    for field in asked["feature_fields"].as_array().unwrap() {
        let name = field["name"].as_str().unwrap();
        let text = |get: fn(&Row) -> &Option<String>| json!({"ss": rows.iter().map(|row| get(row)).collect::<Vec<_>>()});
        let value = match name {
            "income" => json!({"ds": rows.iter().map(|row| row.income).collect::<Vec<_>>()}),
            "phone" => {
                json!({"i32s": rows.iter().map(|row| row.phone.map(u8::from)).collect::<Vec<_>>()})
            }
            "customer id" => json!({"ss": rows.iter().map(|row| &row.id).collect::<Vec<_>>()}),
            "degree" => text(|row| &row.degree),
            "Job" => text(|row| &row.job),
            "outcome" => text(|row| &row.outcome),
            other => panic!("nobody knows {other}"),
        };
        features.push(json!({"field": field, "value": value}));
    }
    let income = features.iter().position(|feature| feature["field"]["name"] == "income").unwrap();
    match mode {
        Mode::Short => {
            features[income]["value"]["ds"].as_array_mut().unwrap().pop();
        }
        Mode::Twice => features.push(features[income].clone()),
        Mode::Without => drop(features.remove(income)),
        Mode::Anonymous => drop(features.remove(0)),
        _ => {}
    }
    respond(
        200,
        json!({"header": {"data": {}}, "status": {"code": 0, "msg": ""}, "features": features})
            .to_string(),
    )
}
