//! The export of spans to a collector, in the background: no call waits for it, and none fails with
//! it.

use std::io;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tonic::transport::Channel;
use vfl_protocol::peer_failure;

use super::super::monitor::Monitor;
use super::config::Collector;
#[cfg(feature = "otlp")]
use super::otlp::Exporter;
use super::queue::{Counts, DropReason, Queue};
use super::record::SpanRecord;
use super::sampler::Sampler;
use super::tracer::Tracer;
#[cfg(not(feature = "otlp"))]
use super::without_otlp::Exporter;

/// The maximum number of spans in one message.
const BATCH: usize = 512;
/// The time for which the first span of a message waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// The time limit of one message to the collector, including a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which a stopping party waits until its last spans are accepted.
const FAREWELL: Duration = Duration::from_secs(2);

/// The tracing of one party, from start to stop.
#[derive(Debug, Default)]
pub struct Traces {
    tracer: Tracer,
    sending: Option<(CancellationToken, AbortOnDropHandle<()>)>,
}

impl Traces {
    /// Sends a party's spans, with its role and name, to a collector; `None` traces nothing. It
    /// connects when there is something to send.
    #[must_use]
    pub fn open(collector: Option<&Collector>, role: &str, party: &str, monitor: &Monitor) -> Self {
        let Some(collector) = collector else { return Self::default() };
        let counts = Counts::default();
        monitor.register(|registry| counts.register(registry));
        let (queue, records) = Queue::new(counts.clone());
        let sampler = Sampler::new(collector.sample, collector.spans_per_second, counts.clone());
        let stop = CancellationToken::new();
        let exporter = Exporter::new(channel(collector), role, party);
        let sender = Sender { records, exporter, counts, stop: stop.clone(), well: true };
        tracing::info!(endpoint = %collector.endpoint, sample = collector.sample, "predictions are traced");
        let task = AbortOnDropHandle::new(tokio::spawn(sender.run()));
        Self { tracer: Tracer::new(sampler, queue), sending: Some((stop, task)) }
    }

    /// Returns the tracer of this party.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Sends the spans that have ended so far, for two seconds at most. Spans that end later are
    /// dropped.
    pub async fn close(self) {
        let Some((stop, task)) = self.sending else { return };
        stop.cancel();
        if tokio::time::timeout(FAREWELL, task).await.is_err() {
            tracing::warn!("the last spans were not taken in time and are lost");
        }
    }
}

struct Sender {
    records: mpsc::Receiver<SpanRecord>,
    exporter: Exporter,
    counts: Counts,
    stop: CancellationToken,
    /// True if the last message was accepted: only changes are logged.
    well: bool,
}

impl Sender {
    async fn run(mut self) {
        let mut stopping = false;
        loop {
            let mut batch = Vec::new();
            if !stopping {
                stopping = self.gather(&mut batch).await;
            }
            if stopping {
                self.records.close();
                while batch.len() < BATCH
                    && let Ok(record) = self.records.try_recv()
                {
                    batch.push(record);
                }
            }
            match batch.is_empty() {
                true if stopping => return,
                true => {}
                false => self.send(batch).await,
            }
        }
    }

    /// Waits for a span, then for more of them, for a while. Returns true if no more will come.
    async fn gather(&mut self, batch: &mut Vec<SpanRecord>) -> bool {
        let mut until = None;
        while batch.len() < BATCH {
            let late = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return true,
                record = self.records.recv() => match record {
                    Some(record) => batch.push(record),
                    None => return true,
                },
                () = late => return false,
            }
            until = until.or_else(|| Some(tokio::time::Instant::now() + LINGER));
        }
        false
    }

    async fn send(&mut self, batch: Vec<SpanRecord>) {
        let spans = batch.len() as u64;
        let sent = self.exporter.export(batch);
        let late = |_| Err(Status::deadline_exceeded(""));
        match tokio::time::timeout(PATIENCE, sent).await.unwrap_or_else(late) {
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                self.counts.dropped_by(DropReason::Rejected, rejected);
                self.counts.exported(spans - rejected);
                if !self.well {
                    tracing::info!("the collector of traces takes spans again");
                }
                self.well = true;
            }
            Err(status) => {
                self.counts.dropped_by(DropReason::Export, spans);
                if self.well {
                    let reason = peer_failure("the collector of traces", &status);
                    tracing::warn!(%reason, "spans are dropped until it takes them; this is said once");
                }
                self.well = false;
            }
        }
    }
}

/// A connection, encrypted or not.
trait Link: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

fn channel(collector: &Collector) -> Channel {
    let tls = collector.tls.clone();
    let (host, port) = (collector.host.clone(), collector.port);
    let connector = tower::service_fn(move |_: Uri| {
        let (tls, host) = (tls.clone(), host.clone());
        async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            let link: Box<dyn Link> = match tls {
                None => Box::new(stream),
                Some((tls, name)) => Box::new(TlsConnector::from(tls).connect(name, stream).await?),
            };
            Ok::<_, io::Error>(TokioIo::new(link))
        }
    });
    collector.transport.clone().connect_timeout(PATIENCE).connect_with_connector_lazy(connector)
}

#[cfg(test)]
mod tests;
