//! A feature service on loopback that speaks `BatchFetchFeature` and keeps some of its answers back.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use vfl_core::data::table::{FeatureStore, FeatureTable};

/// Serves the records of a table, normalised as they are.
pub struct FeatureService {
    pub port: u16,
    held: Arc<Held>,
}

struct Held {
    id: String,
    names: Vec<String>,
    rows: HashMap<String, Vec<f64>>,
    /// Ids whose value is outside its range.
    spoiled: Mutex<HashSet<String>>,
    /// Ids whose requests wait, and how many do.
    back: watch::Sender<HashMap<String, usize>>,
}

impl FeatureService {
    pub async fn start(table: &FeatureTable) -> Self {
        let all: Vec<usize> = (0..table.ids().len()).collect();
        let block = table.fetch_at(&all).unwrap();
        let rows = table.ids().iter().zip(block.matrix().column_iter());
        let held = Arc::new(Held {
            id: table.schema().id_column().to_owned(),
            names: table.schema().features().iter().map(|feature| feature.name.clone()).collect(),
            rows: rows.map(|(id, row)| (id.to_owned(), row.iter().copied().collect())).collect(),
            spoiled: Mutex::default(),
            back: watch::Sender::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = held.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let held = serving.clone();
                let service = service_fn(move |request| answer(held.clone(), request));
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move {
                    drop(http.serve_connection(TokioIo::new(stream), service).await)
                });
            }
        });
        Self { port, held }
    }

    /// From now on requests for this record wait.
    pub fn hold(&self, id: &str) {
        self.held.back.send_modify(|back| {
            back.insert(id.to_owned(), 0);
        });
    }

    /// Until a request for it waits.
    pub async fn holds(&self, id: &str) {
        let mut back = self.held.back.subscribe();
        let waits = back.wait_for(|back| back.get(id).is_some_and(|waiting| *waiting > 0));
        tokio::time::timeout(Duration::from_secs(60), waits)
            .await
            .expect("a request for the record")
            .unwrap();
    }

    /// Lets them go on.
    pub fn release(&self, id: &str) {
        self.held.back.send_modify(|back| {
            back.remove(id);
        });
    }

    /// Gives this record a value that the schema does not allow.
    pub fn spoil(&self, id: &str) {
        self.held.spoiled.lock().unwrap().insert(id.to_owned());
    }
}

async fn answer(
    held: Arc<Held>,
    request: Request<Incoming>,
) -> Result<Response<Full<hyper::body::Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let ids: Vec<&str> =
        asked["param"]["query_datas"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    held.back.send_modify(|back| {
        for id in &ids {
            if let Some(waiting) = back.get_mut(*id) {
                *waiting += 1;
            }
        }
    });
    let _ =
        held.back.subscribe().wait_for(|back| !ids.iter().any(|id| back.contains_key(*id))).await;
    let respond =
        |body: Value| Ok(Response::new(Full::new(hyper::body::Bytes::from(body.to_string()))));
    let Some(rows) = ids.iter().map(|id| held.rows.get(*id)).collect::<Option<Vec<_>>>() else {
        return respond(json!({"status": {"code": 5, "msg": "no such record"}}));
    };
    let spoiled = held.spoiled.lock().unwrap().clone();
    let value = |at: usize, (id, row): (&&str, &&Vec<f64>)| {
        if spoiled.contains(*id) { 2.0 } else { row[at] }
    };
    let fields = asked["feature_fields"].as_array().unwrap();
    let features: Vec<Value> = fields
        .iter()
        .map(|field| {
            if field["name"] == held.id {
                return json!({"field": field, "value": {"ss": ids}});
            }
            let at = held.names.iter().position(|name| field["name"] == *name).unwrap();
            let values: Vec<f64> = ids.iter().zip(&rows).map(|row| value(at, row)).collect();
            json!({"field": field, "value": {"ds": values}})
        })
        .collect();
    respond(json!({"header": {"data": {}}, "status": {"code": 0, "msg": ""}, "features": features}))
}
