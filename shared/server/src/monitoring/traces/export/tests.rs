//! Against collectors on sockets: one that is not there at first, one that is silent, one behind TLS.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response};
use vfl_protocol::Refusal;

use super::super::config::TracesTable;
use super::super::record::SpanName;
use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn times(&self, words: &str) -> usize {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches(words).count()
    }
}

/// Takes all spans of a message but one.
struct Picky;

#[tonic::async_trait]
impl TraceService for Picky {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let error_message = "customer-4711".to_owned();
        let partial_success = Some(ExportTracePartialSuccess { rejected_spans: 1, error_message });
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}

fn open_with(table: &TracesTable, monitor: &Monitor) -> Traces {
    Traces::open(table.check().unwrap().as_ref(), "coordinator", "c", monitor)
}

fn open(address: SocketAddr, monitor: &Monitor) -> Traces {
    let (endpoint, spans_per_second) = (Some(format!("http://{address}")), Some(100_000));
    open_with(&TracesTable { endpoint, spans_per_second, ..TracesTable::default() }, monitor)
}

async fn spans(traces: &Traces, spans: usize) {
    for _ in 0..spans {
        traces
            .tracer()
            .serve(SpanName::Predict, None, async { Ok::<_, Refusal>(()) })
            .await
            .unwrap();
    }
}

/// Lets the sender work until a figure is there.
async fn reaches(monitor: &Monitor, figure: &str) {
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while !monitor.text().contains(&format!("cloison_trace_{figure}\n")) {
        assert!(tokio::time::Instant::now() < until, "{figure} in {}", monitor.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_collector_that_is_not_there_is_counted_logged_once_and_found_again() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    // Bound, so that nobody else takes the port; it refuses connections until it listens.
    let collector = TcpSocket::new_v4().unwrap();
    collector.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let monitor = Monitor::new("coordinator", "c");
    let traces = open(collector.local_addr().unwrap(), &monitor);
    // Three messages, none of which is taken.
    spans(&traces, 3 * BATCH).await;
    reaches(&monitor, "spans_dropped_total{reason=\"export\"} 1536").await;
    assert_eq!((log.times("spans are dropped"), log.times("takes spans again")), (1, 0));
    let listener = TcpListenerStream::new(collector.listen(16).unwrap());
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Picky));
    let server = AbortOnDropHandle::new(tokio::spawn(server.serve_with_incoming(listener)));
    spans(&traces, 2 * BATCH).await;
    reaches(&monitor, "spans_exported_total 1022").await;
    reaches(&monitor, "spans_dropped_total{reason=\"rejected\"} 2").await;
    assert_eq!((log.times("spans are dropped"), log.times("takes spans again")), (1, 1));
    // What is left goes out when the party stops.
    spans(&traces, 5).await;
    traces.close().await;
    reaches(&monitor, "spans_exported_total 1026").await;
    assert_eq!(log.times("customer-4711"), 0);
    drop(server);
}

/// A collector that takes connections and says nothing holds back neither the party's work nor its end.
#[tokio::test(start_paused = true)]
async fn a_silent_collector_holds_nothing_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let monitor = Monitor::new("coordinator", "c");
    let traces = open(listener.local_addr().unwrap(), &monitor);
    spans(&traces, 10).await;
    let began = tokio::time::Instant::now();
    traces.close().await;
    assert!(began.elapsed() <= FAREWELL + Duration::from_millis(10), "{:?}", began.elapsed());
    assert!(monitor.text().contains("cloison_trace_spans_exported_total 0\n"));
}

/// A TLS server with a certificate for 127.0.0.1, and the authority of that in PEM.
fn sealed() -> (TlsAcceptor, String) {
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&ca_key).unwrap().pem();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut server = builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    (TlsAcceptor::from(Arc::new(server)), pem)
}

#[tokio::test]
async fn spans_go_to_the_collector_of_the_authority_alone() {
    let (acceptor, pem) = sealed();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Some(format!("https://{}", listener.local_addr().unwrap()));
    let (opened, connections) = mpsc::channel::<io::Result<DuplexStream>>(4);
    let accepting = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            // A handshake that the other side breaks off is none.
            let Ok(mut stream) = acceptor.accept(socket).await else { continue };
            let (inside, mut outside) = tokio::io::duplex(64 << 10);
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut stream, &mut outside).await },
            );
            opened.send(Ok(inside)).await.unwrap();
        }
    }));
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Picky));
    let serving = AbortOnDropHandle::new(tokio::spawn(
        server.serve_with_incoming(ReceiverStream::new(connections)),
    ));
    let dir = tempfile::tempdir().unwrap();
    for (authority, figure) in
        [(pem, "spans_exported_total 2"), (sealed().1, "spans_dropped_total{reason=\"export\"} 3")]
    {
        let ca_file = Some(dir.path().join("ca.pem"));
        std::fs::write(ca_file.as_ref().unwrap(), authority).unwrap();
        let monitor = Monitor::new("coordinator", "c");
        let table = TracesTable { endpoint: endpoint.clone(), ca_file, ..TracesTable::default() };
        let traces = open_with(&table, &monitor);
        spans(&traces, 3).await;
        traces.close().await;
        reaches(&monitor, figure).await;
    }
    drop((accepting, serving));
}
