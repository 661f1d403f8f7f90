//! An HTTP/1.1 client of one service: plaintext only on this machine, otherwise TLS with an
//! authority that the config names.

use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use vfl_core::data::table::Failure;

/// A failed exchange, with a description that contains none of its data.
#[derive(Debug)]
pub(super) struct RequestError(pub(super) Failure, pub(super) String);

/// The settings of a client.
pub(super) struct ClientSettings<'a> {
    pub(super) url: &'a str,
    pub(super) ca_file: Option<&'a Path>,
    pub(super) identity: Option<(&'a Path, &'a Path)>,
    pub(super) connections: u32,
    pub(super) connect_timeout: Duration,
    pub(super) max_response_bytes: usize,
}

/// A client of one service.
pub(super) struct HttpClient {
    uri: Uri,
    client: Client<Connector, Full<Bytes>>,
    turns: Semaphore,
    max_response_bytes: usize,
}

impl HttpClient {
    pub(super) fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
        let uri: Uri = settings.url.parse().map_err(|_| "`url` is not a URL")?;
        let host = uri.host().unwrap_or_default().to_owned();
        let tls = match (uri.scheme_str(), settings.ca_file) {
            _ if host.is_empty() || uri.authority().is_some_and(|a| a.as_str().contains('@')) => {
                return Err("`url` is `https://HOST:PORT/PATH`, without a user".into());
            }
            (Some("https"), Some(ca)) => Some(tls(ca, settings.identity)?),
            (Some("https"), None) => {
                return Err(
                    "an `https` service needs `ca_file`, the authority of its certificate".into()
                );
            }
            (Some("http"), None) if settings.identity.is_none() && is_here(&host) => None,
            (Some("http"), None) if settings.identity.is_none() => {
                return Err("`http` is for a service on this machine; one elsewhere takes `https` and `ca_file`".into());
            }
            (Some("http"), _) => return Err("certificates are for `https`".into()),
            _ => {
                return Err(
                    "`url` begins with `https://`, or with `http://` on this machine".into()
                );
            }
        };
        let connector =
            Connector { tls: tls.map(TlsConnector::from), timeout: settings.connect_timeout };
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(settings.connections as usize)
            .pool_idle_timeout(Duration::from_secs(30))
            .build(connector);
        let turns = Semaphore::new(settings.connections as usize);
        Ok(Self { uri, client, turns, max_response_bytes: settings.max_response_bytes })
    }

    /// Sends a JSON body and returns that of the answer, which must have status 200.
    pub(super) async fn post(&self, body: Vec<u8>) -> Result<Bytes, RequestError> {
        let unreachable = |why: &str| RequestError(Failure::Unreachable, why.to_owned());
        let _turn = self.turns.acquire().await.map_err(|_| unreachable("the client is closed"))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(body)));
        let request = request
            .map_err(|_| RequestError(Failure::Malformed, "the request cannot be made".into()))?;
        let mut answered = self.client.request(request.clone()).await;
        // A reused connection may have died since. A look-up changes nothing, so it is repeated on
        // another one.
        if answered.as_ref().is_err_and(|error| !error.is_connect()) {
            answered = self.client.request(request).await;
        }
        let answer = answered.map_err(|error| {
            unreachable(if error.is_connect() {
                "it cannot be connected to"
            } else {
                "the connection broke"
            })
        })?;
        let status = answer.status();
        if status != StatusCode::OK {
            // Time-outs and rate limits are temporary; other answers to our request are not.
            let passes =
                matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            let passes = passes || status.is_server_error();
            let failure = if passes { Failure::Unreachable } else { Failure::Malformed };
            return Err(RequestError(
                failure,
                format!("it answered with HTTP status {}", status.as_u16()),
            ));
        }
        let body = Limited::new(answer.into_body(), self.max_response_bytes).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
            true => RequestError(
                Failure::Malformed,
                format!("its answer is over `max_response_bytes` ({})", self.max_response_bytes),
            ),
            false => unreachable("the connection broke within the answer"),
        })
    }
}

/// Returns true if a host is this machine.
fn is_here(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn tls(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, String> {
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, String> {
        let wrong = |e: &dyn std::fmt::Display| {
            format!("cannot read certificates from {}: {e}", path.display())
        };
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))?.collect();
        match found {
            Ok(found) if found.is_empty() => Err(wrong(&"there is none in it")),
            found => found.map_err(|e| wrong(&e)),
        }
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|e| format!("{}: {e}", ca.display()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?.with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let wrong =
                |e: &dyn std::fmt::Display| format!("cannot use the key {}: {e}", key.display());
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(&e))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, secret)
                .map_err(|e| wrong(&e))?
        }
    };
    Ok(Arc::new(config))
}

/// A service that opens connections.
#[derive(Clone)]
struct Connector {
    tls: Option<TlsConnector>,
    timeout: Duration,
}

/// A connection, encrypted or not.
trait Link: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

impl Connection for Box<dyn Link> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Link>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, timeout } = self.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            let host =
                host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host).to_owned();
            let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
            let connect = async {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let Some(tls) = tls else { return Ok(Box::new(stream) as Box<dyn Link>) };
                let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
                Ok(Box::new(tls.connect(name, stream).await?) as Box<dyn Link>)
            };
            let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
            tokio::time::timeout(timeout, connect).await.map_err(late)?.map(TokioIo::new)
        })
    }
}
