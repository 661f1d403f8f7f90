//! One prediction is one trace of all parties, as a collector of OpenTelemetry gets it, and it names no record.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::Dataset;
use vfl_protocol::pb;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_server::monitoring::Monitoring;
use vfl_server::monitoring::traces::TracesTable;
use vfl_server::service::{Role, channel};
use vfl_testbed::deployment::Deployment;

use super::inference::{infer, question};
use super::monitoring::{read, started, value};
use super::support::{active_client, config, credentials, dataset, free_address, spec, split};

const PARTIES: [&str; 4] = ["active", "coordinator", "passive-1", "passive-2"];
/// What a span may say beside its name and times.
const ATTRIBUTES: [&str; 4] =
    ["rpc.grpc.status_code", "cloison.rows", "cloison.model_version", "cloison.peer"];
/// What a party may say of itself.
const RESOURCE: [&str; 5] =
    ["service.name", "service.instance.id", "service.version", "cloison.role", "cloison.party"];

/// What a collector was sent.
#[derive(Clone, Default)]
struct Collected {
    messages: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    /// Headers and bodies, as they came.
    bytes: Arc<Mutex<Vec<u8>>>,
}

#[tonic::async_trait]
impl TraceService for Collected {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.messages.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Keeps what passes to the service behind it.
#[derive(Clone)]
struct Kept<S> {
    inner: S,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl<S> tower::Service<http::Request<Body>> for Kept<S>
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Self { mut inner, bytes } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let mut kept = format!("{} {:?}", head.uri, head.headers).into_bytes();
            kept.extend(&body);
            bytes.lock().unwrap().extend(kept);
            inner.call(http::Request::from_parts(head, Body::new(Full::new(body)))).await
        })
    }
}

/// A collector that runs for as long as this is kept.
struct Collector {
    address: SocketAddr,
    collected: Collected,
    _task: AbortOnDropHandle<()>,
}

/// A span, and the party that sent it.
#[derive(Debug, Clone)]
struct Sent {
    party: String,
    span: Span,
}

impl Sent {
    fn attribute(&self, key: &str) -> Option<Value> {
        self.span.attributes.iter().find(|a| a.key == key)?.value.clone()?.value
    }

    fn is(&self) -> (&str, &str) {
        (&self.party, &self.span.name)
    }
}

fn text(attribute: &KeyValue) -> String {
    match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        other => panic!("{other:?}"),
    }
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, collected) = (listener.local_addr().unwrap(), Collected::default());
        let (service, bytes) =
            (TraceServiceServer::new(collected.clone()), collected.bytes.clone());
        let layer = tower::layer::layer_fn(move |inner| Kept { inner, bytes: bytes.clone() });
        let server = tonic::transport::Server::builder().layer(layer).add_service(service);
        let served = server.serve_with_incoming(TcpListenerStream::new(listener));
        let task = AbortOnDropHandle::new(tokio::spawn(async move { served.await.unwrap() }));
        Self { address, collected, _task: task }
    }

    fn spans(&self) -> Vec<Sent> {
        let messages = self.collected.messages.lock().unwrap();
        let mut sent = Vec::new();
        for of_party in messages.iter().flat_map(|message| &message.resource_spans) {
            let resource = of_party.resource.clone().unwrap();
            let keys: Vec<&str> = resource.attributes.iter().map(|a| a.key.as_str()).collect();
            assert_eq!(keys, RESOURCE);
            let party = text(&resource.attributes[4]);
            assert_eq!(
                text(&resource.attributes[0]),
                format!("cloison-{}", text(&resource.attributes[3]))
            );
            let spans = of_party.scope_spans.iter().flat_map(|scope| scope.spans.clone());
            sent.extend(spans.map(|span| Sent { party: party.clone(), span }));
        }
        sent
    }

    fn assert_lacks(&self, what: &str) {
        let bytes = self.collected.bytes.lock().unwrap();
        assert!(
            !bytes.windows(what.len()).any(|part| part == what.as_bytes()),
            "{what} is in what was exported"
        );
    }
}

/// Three parties or more with a model in service, whose records are called `customer-N`.
struct Traced {
    dir: TempDir,
    deployment: Deployment,
    dataset: Dataset,
    version: String,
    metrics: BTreeMap<&'static str, SocketAddr>,
}

fn customers(dataset: &Dataset, records: &[usize]) -> RecordIds {
    assert!(records.iter().all(|record| *record < dataset.records()));
    RecordIds::new(records.iter().map(|record| format!("customer-{record}"))).unwrap()
}

impl Traced {
    /// Parties of which those that `table` gives a table trace.
    async fn start(table: impl Fn(&str) -> Option<TracesTable>) -> Self {
        let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
        let mut spec = spec(dir.path(), &dataset, &split(&dataset, 2, 2));
        let mut metrics = BTreeMap::new();
        for party in PARTIES {
            metrics.insert(party, free_address());
            let traces = table(party).and_then(|table| table.check().unwrap());
            let monitoring = Monitoring { metrics: Some(metrics[party]), traces };
            spec.monitoring.insert(PartyName::new(party).unwrap(), monitoring);
        }
        let place: HashMap<String, usize> =
            dataset.ids().iter().enumerate().map(|(at, id)| (id.into(), at)).collect();
        let renamed = |_: &PartyName, table: FeatureTable| {
            let records: Vec<usize> = table.ids().iter().map(|id| place[id]).collect();
            let (schema, labels) = (table.schema().clone(), table.labels().map(<[u32]>::to_vec));
            Ok(FeatureTable::new(
                schema,
                customers(&dataset, &records),
                table.block().clone(),
                labels,
            )?
            .into())
        };
        let deployment = Deployment::start_from(spec, |_, _| Ok(()), renamed).await.unwrap();
        for address in metrics.values() {
            started(*address).await;
        }
        let training = customers(&dataset, &dataset.split().train);
        let version = deployment.train(&config(1), &training, |_| ()).await.unwrap().version.into();
        Self { dir, deployment, dataset, version, metrics }
    }

    /// All of them trace to one collector.
    async fn all(collector: &Collector) -> Self {
        Self::start(|_| Some(table(collector.address))).await
    }

    /// Records that no training saw.
    fn ids(&self, from: usize, to: usize) -> RecordIds {
        customers(&self.dataset, &self.dataset.split().test[from..to])
    }

    /// Asks for scores, with these headers.
    async fn score(&self, ids: &RecordIds, headers: &[(&'static str, &str)]) -> pb::ScoreResponse {
        let mut request =
            Request::new(pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() });
        set(request.metadata_mut(), headers);
        active_client(&self.deployment).predict(request).await.unwrap().into_inner()
    }
}

fn set(metadata: &mut MetadataMap, headers: &[(&'static str, &str)]) {
    for (name, value) in headers {
        metadata.append(*name, value.parse().unwrap());
    }
}

fn table(collector: SocketAddr) -> TracesTable {
    let (endpoint, spans_per_second) = (Some(format!("http://{collector}")), Some(100_000));
    TracesTable { endpoint, spans_per_second, ..TracesTable::default() }
}

/// The ids of traces.
fn traces(sent: &[Sent]) -> BTreeSet<Vec<u8>> {
    sent.iter().map(|sent| sent.span.trace_id.clone()).collect()
}

/// The span above each span, as names: of spans of one trace whose names differ within a party.
fn tree(sent: &[Sent]) -> BTreeMap<(&str, &str), Option<(&str, &str)>> {
    let by_id: HashMap<&[u8], &Sent> =
        sent.iter().map(|sent| (&sent.span.span_id[..], sent)).collect();
    assert_eq!(by_id.len(), sent.len(), "every span has an id of its own");
    let above = |sent: &Sent| by_id.get(&sent.span.parent_span_id[..]).map(|above| above.is());
    sent.iter().map(|sent| (sent.is(), above(sent))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_prediction_is_one_trace_of_all_parties_and_names_no_record() {
    let collector = Collector::start().await;
    let here = Traced::all(&collector).await;
    let (held, stranger) = (here.ids(0, 5), "customer-of-nobody-4711");
    let ids = RecordIds::new(held.iter().chain([stranger])).unwrap();
    let answer = here.score(&ids, &[]).await;
    assert_eq!(answer.row_status, [1, 1, 1, 1, 1, 2]);
    here.deployment.stop().await.unwrap();
    let sent = collector.spans();
    assert_eq!(traces(&sent).len(), 1);
    let (active, coordinator) = (("active", "Predict"), ("coordinator", "Predict"));
    let shares = [("passive-1", "compute shares"), ("passive-2", "compute shares")];
    let asks = [("coordinator", "ask passive-1"), ("coordinator", "ask passive-2")];
    let expected = BTreeMap::from([
        (active, None),
        (("active", "describe model"), Some(active)),
        (("active", "own share"), Some(active)),
        (("active", "store look-up"), Some(("active", "own share"))),
        (("active", "coordinator call"), Some(active)),
        (coordinator, Some(("active", "coordinator call"))),
        (("coordinator", "ledger commit"), Some(coordinator)),
        (asks[0], Some(coordinator)),
        (asks[1], Some(coordinator)),
        (("coordinator", "release"), Some(coordinator)),
        (shares[0], Some(asks[0])),
        (shares[1], Some(asks[1])),
        (("passive-1", "store look-up"), Some(shares[0])),
        (("passive-2", "store look-up"), Some(shares[1])),
    ]);
    assert_eq!(tree(&sent), expected);
    assert_eq!(sent.len(), expected.len());
    let by_id: HashMap<&[u8], &Sent> =
        sent.iter().map(|sent| (&sent.span.span_id[..], sent)).collect();
    for one in &sent {
        let span = &one.span;
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        if let Some(above) = by_id.get(&span.parent_span_id[..]) {
            // Each party sets its clock once a request: between two of them the clock of the machine may have been moved.
            let slack = if above.party == one.party { 0 } else { 50_000_000 };
            assert!(
                above.span.start_time_unix_nano <= span.start_time_unix_nano + slack,
                "{one:?} in {above:?}"
            );
            assert!(
                span.end_time_unix_nano <= above.span.end_time_unix_nano + slack,
                "{one:?} in {above:?}"
            );
        }
        let kind = match one.is() {
            (_, "Predict" | "compute shares") => SpanKind::Server,
            (_, "describe model" | "coordinator call" | "ask passive-1" | "ask passive-2") => {
                SpanKind::Client
            }
            _ => SpanKind::Internal,
        };
        assert_eq!(span.kind, kind as i32, "{one:?}");
        assert!(span.attributes.iter().all(|a| ATTRIBUTES.contains(&a.key.as_str())), "{one:?}");
        assert_eq!(one.attribute("rpc.grpc.status_code"), Some(Value::IntValue(0)));
        assert!(span.events.is_empty() && span.links.is_empty() && span.trace_state.is_empty());
        let rows = match one.is() {
            ("active", "Predict") => Some(6),
            (
                _,
                "Predict" | "coordinator call" | "compute shares" | "ask passive-1"
                | "ask passive-2",
            ) => Some(5),
            _ => None,
        };
        assert_eq!(one.attribute("cloison.rows"), rows.map(Value::IntValue), "{one:?}");
        let versioned = matches!(one.is(), (_, "Predict" | "own share" | "compute shares"));
        let version = versioned.then(|| Value::StringValue(here.version.clone()));
        assert_eq!(one.attribute("cloison.model_version"), version, "{one:?}");
    }
    let dir = here.dir.path().to_str().unwrap();
    for secret in ["customer-", "of-nobody", "spiffe", "BEGIN", dir, "/tmp"] {
        collector.assert_lacks(secret);
    }
    held.iter().for_each(|id| collector.assert_lacks(id));
    let Some(pb::release::Kind::Probabilities(scores)) = answer.release.unwrap().kind else {
        panic!("no scores")
    };
    let bytes = collector.collected.bytes.lock().unwrap();
    for score in scores.values.as_chunks::<8>().0 {
        assert!(!bytes.windows(8).any(|part| part == score), "a score is in what was exported");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_trace_is_continued_and_a_malformed_one_is_as_none() {
    let collector = Collector::start().await;
    let here = Traced::all(&collector).await;
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let told = [
        ("traceparent", good),
        ("tracestate", "vendor=customer-4711"),
        ("baggage", "id=customer-4711"),
    ];
    here.score(&here.ids(0, 3), &told).await;
    // A client that has no trace kept has none kept here.
    here.score(&here.ids(0, 3), &[("traceparent", &good.replace("-01", "-00"))]).await;
    let bad = [
        "00-customer-4711",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        &good.replace("00-0", "7f-0"),
    ];
    for header in bad {
        here.score(&here.ids(0, 3), &[("traceparent", header)]).await;
    }
    here.score(&here.ids(0, 3), &[("traceparent", good), ("traceparent", good)]).await;
    // The same by the other protocol, and of what a coordinator sends.
    infer(&here.deployment, question(&here.ids(0, 3), "")).await.unwrap();
    let peer = here.deployment.passive_peers().remove(0);
    let channel = channel(&credentials(&here.deployment, Role::Coordinator), &peer).unwrap();
    let ask = |trace_context: Vec<u8>| {
        let (model_version, ids) = (here.version.clone(), Some((&here.ids(0, 2)).into()));
        pb::ComputeLogitsRequest { model_version, ids, question: 0, trace_context }
    };
    let mut client = PassivePartyClient::new(channel);
    let asked =
        [ask(vec![0; 25]), ask(vec![1; 24]), ask(b"customer-4711".to_vec()), ask(vec![7; 100_000])];
    let answers =
        client.compute_logits_stream(tokio_stream::iter(asked)).await.unwrap().into_inner();
    let answers: Vec<_> = tokio_stream::StreamExt::collect(answers).await;
    assert!(answers.len() == 4 && answers.iter().all(Result::is_ok));
    // A version of a caller's making is refused, and stands nowhere.
    let made_up =
        pb::ComputeLogitsRequest { model_version: "customer-4711".into(), ..ask(Vec::new()) };
    assert_eq!(client.compute_logits(made_up).await.unwrap_err().code(), Code::FailedPrecondition);
    here.deployment.stop().await.unwrap();
    let sent = collector.spans();
    let of = |trace: &str| {
        sent.iter().filter(|s| vfl_core::hex(&s.span.trace_id) == trace).cloned().collect()
    };
    let continued: Vec<Sent> = of("0af7651916cd43dd8448eb211c80319c");
    assert_eq!(continued.len(), 14);
    let root = continued.iter().find(|sent| sent.is() == ("active", "Predict")).unwrap();
    assert_eq!(vfl_core::hex(&root.span.parent_span_id), "b7ad6b7169203331");
    // That trace, three malformed headers and one that comes twice, the inference, and what came without a trace at passive-1.
    assert_eq!(traces(&sent).len(), 1 + bad.len() + 1 + 1 + 5);
    let refused: Vec<&Sent> = sent
        .iter()
        .filter(|s| s.span.status.as_ref().unwrap().code == StatusCode::Error as i32)
        .collect();
    let [refused] = refused[..] else { panic!("{refused:?}") };
    assert_eq!(refused.is(), ("passive-1", "compute shares"));
    let code = Value::IntValue(Code::FailedPrecondition as i64);
    assert_eq!(refused.attribute("rpc.grpc.status_code"), Some(code));
    assert!(refused.span.status.as_ref().unwrap().message.is_empty());
    collector.assert_lacks("customer-");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_one_trace_with_a_span_for_each_message() {
    let collector = Collector::start().await;
    let here = Traced::all(&collector).await;
    let all: Vec<usize> = (0..here.dataset.records()).collect();
    here.score(&customers(&here.dataset, &all), &[]).await;
    here.deployment.stop().await.unwrap();
    let sent = collector.spans();
    assert_eq!(traces(&sent).len(), 1);
    let ids = |party, name| -> Vec<Vec<u8>> {
        sent.iter().filter(|s| s.is() == (party, name)).map(|s| s.span.span_id.clone()).collect()
    };
    let chunks = here.dataset.records().div_ceil(1024);
    let [call] = &ids("active", "coordinator call")[..] else { panic!("one call") };
    let predictions: Vec<&Sent> =
        sent.iter().filter(|s| s.is() == ("coordinator", "Predict")).collect();
    assert_eq!(predictions.len(), chunks);
    assert!(predictions.iter().all(|s| s.span.parent_span_id == *call));
    // Each question over the standing stream is below the very message that it is asked for.
    let asks = ids("coordinator", "ask passive-2");
    let mut above: Vec<Vec<u8>> = sent
        .iter()
        .filter(|s| s.is() == ("passive-2", "compute shares"))
        .map(|s| s.span.parent_span_id.clone())
        .collect();
    above.sort();
    let mut sorted = asks.clone();
    sorted.sort();
    assert_eq!(above, sorted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_does_not_trace_sends_nothing_on() {
    let collector = Collector::start().await;
    let here =
        Traced::start(|party| (party == "passive-1").then(|| table(collector.address))).await;
    here.score(&here.ids(0, 2), &[]).await;
    // Not even what it was given.
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    here.score(&here.ids(0, 2), &[("traceparent", given)]).await;
    assert!(!read(here.metrics["active"]).await.contains("cloison_trace"));
    here.deployment.stop().await.unwrap();
    let sent = collector.spans();
    assert_eq!(traces(&sent).len(), 2, "both begin at the only party that traces");
    let roots = sent.iter().filter(|s| s.is().1 == "compute shares");
    assert!(roots.clone().count() == 2 && roots.clone().all(|s| s.span.parent_span_id.is_empty()));
    assert!(
        sent.iter()
            .all(|s| s.party == "passive-1" && vfl_core::hex(&s.span.trace_id) != given[3..35])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_none_traces_only_what_a_caller_traces_and_no_more_than_the_rate() {
    let collector = Collector::start().await;
    // A span in a second: the first request has its spans, and pays them off for longer than this test takes.
    let at = |party: &str| match party {
        "active" => TracesTable { sample: Some(0.0), ..table(collector.address) },
        "coordinator" => TracesTable { spans_per_second: Some(1), ..table(collector.address) },
        _ => table(collector.address),
    };
    let here = Traced::start(|party| Some(at(party))).await;
    here.score(&here.ids(0, 2), &[]).await;
    let traced = |n: u32| format!("00-{n:032x}-b7ad6b7169203331-01");
    for n in 1..=3 {
        here.score(&here.ids(0, 2), &[("traceparent", &traced(n))]).await;
    }
    let limited =
        value(&read(here.metrics["coordinator"]).await, "cloison_trace_requests_limited_total");
    here.deployment.stop().await.unwrap();
    let sent = collector.spans();
    assert_eq!(traces(&sent).len(), 3, "the first request is not traced, at any party");
    let whole = |n: u32| {
        let of = sent.iter().filter(|s| vfl_core::hex(&s.span.trace_id) == format!("{n:032x}"));
        of.map(|s| s.party.as_str()).collect::<BTreeSet<_>>()
    };
    assert_eq!(whole(1), BTreeSet::from(PARTIES));
    let traced_at_coordinator = (1..=3).filter(|n| whole(*n).contains("coordinator")).count();
    assert!(traced_at_coordinator < 3, "three requests have fifteen spans");
    assert_eq!(limited, Some((3 - traced_at_coordinator) as f64));
    // Behind a coordinator that does not record a request nobody does.
    assert!((1..=3).all(|n| whole(n).contains("coordinator") == whole(n).contains("passive-1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_silent_or_gone_fails_no_prediction() {
    // One takes connections and never says a word, the other is not there.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, gone) = (silent.local_addr().unwrap(), free_address());
    let held = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut sockets = Vec::new();
        loop {
            sockets.push(silent.accept().await.unwrap());
        }
    }));
    let here =
        Traced::start(|party| Some(table(if party == "active" { address } else { gone }))).await;
    for _ in 0..9 {
        assert_eq!(here.score(&here.ids(0, 2), &[]).await.row_status, [1, 1]);
    }
    let dropped = "cloison_trace_spans_dropped_total{reason=\"export\"}";
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    // Five spans of each prediction; a message of them goes out within a second.
    while value(&read(here.metrics["coordinator"]).await, dropped) != Some(45.0) {
        assert!(tokio::time::Instant::now() < until, "{}", read(here.metrics["coordinator"]).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for party in PARTIES {
        assert_eq!(
            value(&read(here.metrics[party]).await, "cloison_trace_spans_exported_total"),
            Some(0.0)
        );
    }
    assert_eq!(here.score(&here.ids(2, 3), &[]).await.row_status, [1]);
    // Nor does it hold up the end.
    tokio::time::timeout(Duration::from_secs(60), here.deployment.stop()).await.unwrap().unwrap();
    drop(held);
}
