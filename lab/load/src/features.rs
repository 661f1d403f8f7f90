//! A feature service that speaks `BatchFetchFeature` on loopback, with the rows of the passive
//! party's CSV file in memory.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// The path of the request.
pub(super) const PATH: &str = "/BatchFeatureService/BatchFetchFeature";

#[derive(Deserialize)]
struct FeatureRequest {
    feature_fields: Vec<Field>,
    param: Param,
}

#[derive(Deserialize)]
struct Param {
    query_datas: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize)]
struct Answer {
    status: Status,
    features: Vec<Feature>,
}

#[derive(Serialize)]
struct Status {
    code: i32,
    msg: &'static str,
}

#[derive(Serialize)]
struct Feature {
    field: Field,
    value: Values,
}

#[derive(Serialize)]
struct Values {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ds: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ss: Vec<String>,
}

/// The features of the CSV file, all of which are numbers.
struct FeatureRows {
    id: String,
    columns: HashMap<String, usize>,
    rows: HashMap<String, Vec<f64>>,
}

impl FeatureRows {
    fn read(csv: &Path) -> anyhow::Result<Self> {
        let mut reader = csv::Reader::from_path(csv)?;
        let id = reader.headers()?.get(0).unwrap_or_default().to_owned();
        let columns = reader
            .headers()?
            .iter()
            .skip(1)
            .enumerate()
            .map(|(at, name)| (name.to_owned(), at))
            .collect();
        let mut rows = HashMap::new();
        for record in reader.records() {
            let record = record?;
            let values: Result<Vec<f64>, _> = record.iter().skip(1).map(str::parse).collect();
            rows.insert(record[0].to_owned(), values?);
        }
        Ok(Self { id, columns, rows })
    }

    /// Returns all requested features, or `None`: the service refuses a request with an unknown
    /// record as a whole.
    fn answer(&self, asked: FeatureRequest) -> Option<Vec<Feature>> {
        let rows: Vec<&Vec<f64>> = asked
            .param
            .query_datas
            .iter()
            .map(|id| self.rows.get(id))
            .collect::<Option<Vec<_>>>()?;
        let feature = |field: Field| {
            if field.name == self.id {
                return Some(Feature {
                    field,
                    value: Values { ds: Vec::new(), ss: asked.param.query_datas.clone() },
                });
            }
            let column = *self.columns.get(&field.name)?;
            let ds =
                rows.iter().map(|row| row.get(column).copied()).collect::<Option<Vec<f64>>>()?;
            Some(Feature { field, value: Values { ds, ss: Vec::new() } })
        };
        asked.feature_fields.into_iter().map(feature).collect()
    }
}

/// Serves until the process is ended.
pub(super) async fn serve(listener: TcpListener, data: &Path) -> anyhow::Result<()> {
    let held = Arc::new(FeatureRows::read(&data.join("passive.csv"))?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let held = held.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(held.clone(), request));
            // A broken connection is the caller's problem.
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn answer(
    held: Arc<FeatureRows>,
    request: Request<Incoming>,
) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    let asked = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice::<FeatureRequest>(&body.to_bytes()).ok(),
        Err(_) => None,
    };
    let answer = match asked.map(|asked| held.answer(asked)) {
        Some(Some(features)) => Answer { status: Status { code: 0, msg: "" }, features },
        Some(None) => Answer {
            status: Status { code: 5, msg: "no such record or feature" },
            features: Vec::new(),
        },
        None => Answer {
            status: Status { code: 3, msg: "this is no such request" },
            features: Vec::new(),
        },
    };
    match serde_json::to_vec(&answer) {
        Ok(text) => *response.body_mut() = Full::from(text),
        Err(_) => *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR,
    }
    Ok(response)
}
